"""The byte formats of protection v1, by the vectors and by a second derivation that shares no code with the library.

``derive_*`` below follow the format's description line by line with ``hashlib``, ``hmac`` and ``struct``; the cipher is
put together from CMAC, as NIST SP 800-108 describes, where the library has the two block encryptions written out.
"""

import base64
import hashlib
import hmac
import json
import struct
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.cmac import CMAC

from mcpinput._core import envelope
from mcpinput.errors import EnvelopeError
from mcpinput.protection import ProtectionContext, ProtectionKey, ProtectionKeyring
from mcpinput.protection.context import Bindings
from mcpinput.protection.protector import open_token, seal_token

VECTORS = json.loads(Path(__file__).parents[1].joinpath("vectors", "protection-v1.json").read_text())
PROFILE = "mcpinput-protection-v1"
BOUND = ("audience", "path", "protocol_version", "method", "partition", "tenant", "principal")


def derive_field(value):
    if value is None:
        return b"\x00"
    encoded = value.encode("utf-8")
    return b"\x01" + struct.pack(">I", len(encoded)) + encoded


def derive_short(data):
    return hashlib.sha256(data).digest()[:16]


def derive_request_id_hash(request_id):
    if isinstance(request_id, str):
        return derive_short(b"\x73" + request_id.encode("utf-8"))
    return derive_short(b"\x69" + b"%d" % request_id)


def derive_bindings(bound):
    return b"".join(derive_short(derive_field(bound[name])) for name in BOUND)


def derive_associated_data(bound, parameter_digest):
    fields = [PROFILE, "state", *(bound[name] for name in BOUND)]
    return b"".join(derive_field(value) for value in fields) + parameter_digest


def derive_payload(case):
    asked = [derive_field(key) + bytes([kind]) + bytes.fromhex(digest) for key, kind, digest in case["asked"]]
    return (
        struct.pack(">BBHqq", 1, case["flags"], case["round"], case["issued_ms"], case["expires_ms"])
        + bytes.fromhex(case["flow_id"])
        + derive_bindings(case["bound"])
        + bytes.fromhex(case["parameter_digest"])
        + derive_request_id_hash(case["request_id"])
        + struct.pack(">H", len(asked))
        + b"".join(asked)
        + case["state"].encode("utf-8")
    )


def derive_output(key, purpose):
    extracted = hmac.digest(b"", key, "sha256")
    return hmac.digest(extracted, f"{PROFILE}/{purpose}".encode() + b"\x01", "sha256")


def derive_token(key_id, key, nonce, payload):
    header = bytes([1, len(key_id)]) + key_id.encode() + nonce
    message_key = b""
    for counter in (1, 2):
        mac = CMAC(AES(derive_output(key, "state")))
        mac.update(struct.pack(">HcB", counter, b"X", 0) + nonce[:12])
        message_key += mac.finalize()
    sealed = AESGCM(message_key).encrypt(nonce[12:], payload, derive_field(PROFILE) + header)
    return base64.urlsafe_b64encode(header + sealed).decode().rstrip("=")


def derive_fingerprint(active, verification):
    data = b"mcpinput-fingerprint-v2"
    for key_id, key in sorted({**active, **verification}.items()):
        role = b"\x61" if key_id in active else b"\x76"
        data += derive_field(key_id) + role + derive_output(bytes.fromhex(key), "fingerprint")
    return hashlib.sha256(data).hexdigest()


def cases(name):
    return pytest.mark.parametrize("case", VECTORS[name], ids=lambda case: case["desc"])


@cases("fields")
def test_fields_and_bindings(case):
    assert envelope.field(case["value"]).hex() == derive_field(case["value"]).hex() == case["field"]
    assert envelope.binding(case["value"]).hex() == derive_short(derive_field(case["value"])).hex() == case["binding"]


@cases("request_ids")
def test_request_ids(case):
    expected = derive_request_id_hash(case["id"]).hex()
    assert envelope.request_id_hash(case["id"]).hex() == expected == case["hash"]


@cases("bindings")
def test_bindings_and_associated_data(case):
    bindings = Bindings(**case["bound"])
    assert bindings.digests().hex() == derive_bindings(case["bound"]).hex() == case["digests"]
    parameter_digest = bytes.fromhex(case["parameter_digest"])
    context = ProtectionContext(bindings, lambda: parameter_digest)
    expected = derive_associated_data(case["bound"], parameter_digest)
    assert context.associated_data.hex() == expected.hex() == case["associated_data"]
    assert context.associated_data_digest.hex() == hashlib.sha256(expected).hexdigest()
    assert context.associated_data_digest.hex() == case["associated_data_digest"]


@cases("payloads")
def test_payloads(case):
    asked = [(key, kind, bytes.fromhex(digest)) for key, kind, digest in case["asked"]]
    encoded = envelope.encode_payload(
        case["flags"],
        case["round"],
        case["issued_ms"],
        case["expires_ms"],
        bytes.fromhex(case["flow_id"]),
        Bindings(**case["bound"]).digests(),
        bytes.fromhex(case["parameter_digest"]),
        envelope.request_id_hash(case["request_id"]),
        asked,
        case["state"].encode(),
    )
    assert encoded.hex() == derive_payload(case).hex() == case["payload"]
    decoded = envelope.decode_payload(encoded)
    assert (decoded.round, decoded.asked, decoded.state) == (case["round"], tuple(asked), case["state"].encode())


@cases("keys")
def test_derived_keys(case):
    raw = bytes.fromhex(case["key"])
    key = ProtectionKey.from_id_and_bytes("k", raw)
    outputs = {purpose: key.output(purpose).hex() for purpose in case["outputs"]}
    assert outputs == {purpose: derive_output(raw, purpose).hex() for purpose in outputs} == case["outputs"]
    assert len(set(outputs.values())) == 4


@cases("tokens")
def test_tokens(case):
    raw, nonce, payload = (bytes.fromhex(case[name]) for name in ("key", "nonce", "payload"))
    key = ProtectionKey.from_id_and_bytes(case["key_id"], raw)
    token = seal_token(key, nonce, payload)
    assert token == derive_token(case["key_id"], raw, nonce, payload) == case["token"]
    assert open_token(ProtectionKeyring.with_active_key(key).build(), token) == (case["key_id"], payload)


@cases("fingerprints")
def test_fingerprints(case):
    (active,) = (ProtectionKey.from_id_and_bytes(i, bytes.fromhex(k)) for i, k in case["active"].items())
    builder = ProtectionKeyring.with_active_key(active)
    for key_id, key in case["verification"].items():
        builder.verification_key(ProtectionKey.from_id_and_bytes(key_id, bytes.fromhex(key)))
    fingerprint = builder.build().fingerprint
    assert (fingerprint.version, fingerprint.profile) == (2, PROFILE)
    assert fingerprint.value == derive_fingerprint(case["active"], case["verification"]) == case["value"]


@cases("malformed_tokens")
def test_malformed_tokens(case):
    with pytest.raises(EnvelopeError):
        envelope.decode_token(case["token"])


@cases("malformed_payloads")
def test_malformed_payloads(case):
    with pytest.raises(EnvelopeError):
        envelope.decode_payload(bytes.fromhex(case["payload"]))
