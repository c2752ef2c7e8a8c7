"""Tokens that nobody here made: spoilt in every place, or of another make. One answer for all, and no handler runs."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import random
import string
import threading
import uuid
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mcpinput import ProtectionConfig, ProtectionFailure, ProtectionKey
from mcpinput._core.envelope import encode_header, encode_token, field
from mcpinput.protection.key import PROFILE, Purpose
from mcpinput.protection.protector import open_token
from mcpinput.server import dispatcher
from tests.support.asgi import Client, meta
from tests.support.servers import KEY, Clock, Recorder, accept, price_server, ring

ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
FROZEN_BODY = (
    b'{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"Invalid or expired requestState",'
    b'"data":{"reason":"invalid_request_state"}}}'
)
FROZEN = (
    400,
    [(b"content-type", b"application/json"), (b"content-length", str(len(FROZEN_BODY)).encode())],
    FROZEN_BODY,
)
OPERATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "tool": ("tools/call", {"name": "set_price", "arguments": {}}),
    "prompt": ("prompts/get", {"name": "ask_price", "arguments": {}}),
    "resource": ("resources/read", {"uri": "price://all"}),
    "template": ("resources/read", {"uri": "price://tea"}),
}


class Target:
    """A server of one kind of operation, and a client that sends it one token after another."""

    def __init__(self, kind: str = "tool", **options: Any) -> None:
        self.recorder = Recorder()
        self.server, self.entered = price_server(observer=self.recorder, **options)
        self.client = Client(self.server.asgi())
        self.method, self.params = OPERATIONS[kind]
        self.headers = self.client.headers(self.method, self.params)

        self._params = json.dumps({**self.params, "_meta": meta()}).encode().removesuffix(b"}")

    def body(self, request_id: int, token: bytes = b"", more: bytes = b"") -> bytes:
        """The bytes of a request; the token is as JSON spells it, quotes and all."""
        state = token and b',"requestState":' + token
        head = b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":' % (request_id, self.method.encode())
        return head + self._params + state + more + b"}}"

    def ask(self) -> str:
        token: str = self.client.send(self.body(1), self.headers).result["requestState"]
        self.entered.clear()
        return token

    def opens(self, token: str) -> bool:
        """Whether the handler runs for a token."""
        self.entered.clear()
        answers = b',"inputResponses":' + json.dumps(accept(price=1)).encode()
        response = self.client.send(self.body(2, spelled(token), answers), self.headers)
        ran = bool(self.entered)
        self.entered.clear()
        assert ran == (response.status == 200)
        return ran

    def assert_refused(self, tokens: Iterable[str], reason: ProtectionFailure | None = None) -> int:
        """Every token is answered by the same bytes, status and headers, and no handler is entered."""

        async def send_all() -> int:
            count = 0
            for token in tokens:
                response = await self.client.exchange(self.body(2, spelled(token)), self.headers)
                assert (response.status, response.headers, response.body) == FROZEN, token[:1000]
                assert not self.entered, token[:1000]
                told = self.recorder.rejections.pop()
                assert told.failure is reason or reason is None, token[:1000]
                count += 1
            return count

        return asyncio.run(send_all())


def spelled(token: str) -> bytes:
    return json.dumps(token, ensure_ascii=False).encode()


def decoded(token: str) -> bytes:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


def encoded(data: bytes | bytearray) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


each_kind = pytest.mark.parametrize("kind", OPERATIONS)


# ---- one token, spoilt in every place ----


@each_kind
def test_every_bit_of_the_decoded_token_counts(kind: str) -> None:
    target = Target(kind)
    token = target.ask()
    data = decoded(token)

    def flipped() -> Iterator[str]:
        for bit in range(len(data) * 8):
            spoilt = bytearray(data)
            spoilt[bit // 8] ^= 1 << bit % 8
            yield encoded(spoilt)

    assert target.assert_refused(flipped()) == len(data) * 8
    assert target.opens(token)


def test_every_bit_of_every_character_counts() -> None:
    """All 21 bits of a code point: other letters, controls, letters that look alike, planes that nobody uses."""
    target = Target()
    token = target.ask()

    def flipped() -> Iterator[str]:
        for at, character in enumerate(token):
            for bit in range(21):
                yield token[:at] + chr(ord(character) ^ 1 << bit) + token[at + 1 :]

    assert target.assert_refused(flipped()) == len(token) * 21
    assert target.opens(token)


def test_every_truncation_from_both_ends_is_refused() -> None:
    target = Target()
    token = target.ask()
    data = decoded(token)
    target.assert_refused(token[:size] for size in range(len(token)))
    target.assert_refused(token[at:] for at in range(1, len(token)))
    target.assert_refused(encoded(data[:size]) for size in range(len(data)))
    target.assert_refused(encoded(data[at:]) for at in range(1, len(data)))
    assert target.opens(token)


def test_every_place_can_lose_or_repeat_a_character_and_swap_with_the_next() -> None:
    target = Target()
    token = target.ask()
    target.assert_refused(token[:at] + token[at + 1 :] for at in range(len(token)))
    target.assert_refused(token[:at] + token[at] + token[at:] for at in range(len(token)))
    target.assert_refused(
        token[:at] + token[at + 1] + token[at] + token[at + 2 :]
        for at in range(len(token) - 1)
        if token[at] != token[at + 1]
    )


def test_parts_that_are_cut_emptied_or_zeroed() -> None:
    target = Target()
    data = decoded(target.ask())
    header = 2 + len("k1") + 24
    parts = [
        data[:header],
        data[: header - 24],
        data[:header] + bytes(16),
        data[:header] + data[-16:],
        data[:header] + data[header:-16],
        data[:-16] + bytes(16),
        data[: header - 24] + bytes(24) + data[header:],
        data[:header] + bytes(len(data) - header),
        bytes(len(data)),
        b"",
    ]
    target.assert_refused(map(encoded, parts))
    # Whatever length its tag has, the ciphertext does not open with it.
    target.assert_refused(encoded(data[:-16] + data[-16:][:size]) for size in range(16))
    target.assert_refused(encoded(data + bytes(size)) for size in range(1, 17))


def one_more_character(token: str) -> Iterator[str]:
    for more in ("=", "==", "===", "====", " ", "\t", "\n", "\r\n", "\0", "!", ".", "\u200b", "\ufeff", "A", "AAAA"):
        yield token + more
        yield more + token
        yield token[:50] + more + token[50:]


def other_alphabets(token: str) -> Iterator[str]:
    for other in (
        token.replace("-", "+"),
        token.replace("_", "/"),
        token.replace("-", "+").replace("_", "/"),
        token.replace("-", "_"),
        token.replace("_", "-"),
        token[:10].lower() + token[10:],
        token[:10].upper() + token[10:],
        "".join(chr(0xFEE0 + ord(character)) for character in token),
        token[:50] + chr(0xFEE0 + ord(token[50])) + token[51:],
        base64.b64encode(decoded(token)).decode(),
        decoded(token).hex(),
        base64.b32encode(decoded(token)).decode(),
        base64.b85encode(decoded(token)).decode(),
        decoded(token).decode("latin-1"),
        encoded(token.encode()),
        encoded(zlib.compress(decoded(token))),
        "".join(f"%{ord(character):02X}" for character in token),
        f'"{token}"',
        f"Bearer {token}",
        f"{token}.{token}",
        token[::-1],
    ):
        if other != token:
            yield other


def test_a_thousand_tokens_of_every_length_have_one_text_each() -> None:
    # The last character of their texts has 0, 2 and 4 spare bits: a key id of another length makes another length.
    targets = [Target(keys=ring(ProtectionKey.from_id_and_bytes("k" * size, bytes(range(32))))) for size in (1, 2, 3)]
    draw = random.Random(79)
    lengths = set()
    for number in range(1000):
        target = targets[number % 3]
        token = target.ask()
        lengths.add(len(token) % 4)
        texts = [token[:-1] + last for last in ALPHABET if last != token[-1]]
        others = [*one_more_character(token), *other_alphabets(token)]
        target.assert_refused(texts + (others if number < 30 else draw.sample(others, 5)))
        if number < 30:
            assert target.opens(token)
    assert lengths == {0, 2, 3}


def test_json_may_spell_a_token_in_its_own_ways() -> None:
    """One text for a token does not mean one spelling of that text in JSON: escapes are the same characters."""
    target = Target()
    token = target.ask()
    escaped = "".join(f"\\u{ord(character):04x}" for character in token).encode()
    response = target.client.send(target.body(2, b'"%b"' % escaped), target.headers)
    assert response.result["resultType"] == "input_required"
    assert len(target.entered) == 1


@pytest.mark.parametrize("lone", ["\\ud800", "\\udc00", "\\udc00\\ud800"])
def test_a_token_that_is_no_text_is_no_json(lone: str) -> None:
    target = Target()
    token = target.ask()
    response = target.client.send(target.body(2, f'"{token[:50]}{lone}{token[50:]}"'.encode()), target.headers)
    assert (response.status, response.error["code"]) == (400, -32700)
    assert target.entered == []


# ---- tokens of another make ----


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def official(payload: bytes) -> str:
    """The layout of the official Python SDK: version, 4 bytes of key id, 12 of nonce, ciphertext and tag."""
    key_id, nonce = hashlib.sha256(b"kid").digest()[:4], bytes(12)
    return "v1." + encoded(key_id + nonce + AESGCM(bytes(range(32))).encrypt(nonce, payload, b"v1." + key_id))


def jwt(*parts: Any, signature: bytes = b"") -> str:
    return ".".join([encoded(json.dumps(part).encode()) for part in parts] + [encoded(signature)])


FOREIGN = {
    "jwt": jwt({"alg": "HS256", "typ": "JWT"}, {"sub": "alice", "exp": 1_900_000_000}, signature=bytes(32)),
    "jwt without a signature": jwt({"alg": "none"}, {"sub": "alice"}),
    "jwe": ".".join(map(encoded, (b'{"alg":"dir","enc":"A256GCM"}', b"", bytes(12), bytes(40), bytes(16)))),
    "fernet": Fernet(b64(bytes(range(32)))).encrypt_at_time(b'{"step": 10}', 1_800_000_000).decode(),
    "paseto v2": "v2.local." + encoded(bytes(64)),
    "paseto v4": "v4.local." + encoded(bytes(range(96))),
    "paseto v4 public with a footer": "v4.public." + encoded(b'{"step":10}' + bytes(64)) + "." + encoded(b"k1"),
    "paserk": "k4.lid." + encoded(bytes(33)),
    "official sdk": official(b'{"step": 10}'),
    "official sdk, empty": "v1.",
    "itsdangerous": ".".join([encoded(b'{"step": 10}'), "aRLZQA", encoded(bytes(20))]),
    "itsdangerous, compressed": f".{encoded(zlib.compress(b'step' * 99))}.aRLZQA.{encoded(bytes(20))}",
    "django signing": f"{encoded(b'{}')}:1vPDzk:{encoded(bytes(32))}",
    "rails": f"{b64(bytes(48))}--{b64(bytes(12))}--{b64(bytes(16))}",
    "laravel": b64(b'{"iv":"AAAA","value":"AAAA","mac":"00","tag":""}'),
    "branca": "".join(random.Random(1).choices(string.digits + string.ascii_letters, k=120)),
    "macaroon": encoded(b"\2\1\7service\2\4step\0\0\6 " + bytes(32)),
    "age": b64(b"age-encryption.org/v1\n-> X25519 " + bytes(32)),
    "data protection of asp.net": encoded(b"\x09\xf0\xc9\xf0" + bytes(16) + bytes(64)),
    "kms": b64(b"\1\2\2\0" + bytes(120)),
    "vault": "vault:v1:" + b64(bytes(60)),
    "uuid": str(uuid.UUID(int=7, version=4)),
    "uuid without dashes": uuid.UUID(int=7, version=4).hex,
    "ulid": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "session id": "PHPSESSID=298zf09hf012fh2; path=/",
    "json": '{"step":10}',
    "json array": "[]",
    "null": "null",
    "undefined": "undefined",
    "number": "0",
    "pem": "-----BEGIN MESSAGE-----\nAAAA\n-----END MESSAGE-----",
    "url": "https://example.com/?state=" + "A" * 80,
    "path": "../../../../etc/passwd",
    "sql": "' OR '1'='1",
    "template": "{{7*7}}${7*7}<%= 7*7 %>",
    "format": "%s%n{0.__class__}",
    "pickle": b64(b"\x80\x04K\x01."),
    "gzip": b64(b"\x1f\x8b\x08" + bytes(60)),
    "emoji": "\U0001f511" * 40,
    "combining": "e\u0301" * 100,
    "right to left": "\u202e" + "A" * 80,
    "control characters": "".join(map(chr, range(32))) * 4,
    "every latin letter": "".join(map(chr, range(256))),
    "all the same": "A" * 400,
    "dashes": "-" * 400,
    "underscores": "_" * 400,
    "empty": "",
    "space": " ",
}


@each_kind
def test_tokens_of_another_make_are_refused(kind: str) -> None:
    target = Target(kind)
    target.ask()
    assert target.assert_refused(FOREIGN.values()) == len(FOREIGN)


def test_an_encoding_of_our_own_bytes_in_another_alphabet_is_refused() -> None:
    """Drawn until it has what the alphabets differ in, so that none of the texts is the token itself."""
    target = Target()
    token = target.ask()
    while "-" not in token or "_" not in token:
        token = target.ask()
    data = decoded(token)
    assert b64(data).rstrip("=") != token
    target.assert_refused([b64(data), b64(data).rstrip("="), token + "=" * (-len(token) % 4 or 4)])
    target.assert_refused([data.hex(), data.hex().upper(), binascii.b2a_uu(data[:45]).decode()])


@pytest.mark.parametrize("seed", range(20))
def test_random_text_of_every_length_is_refused(seed: int) -> None:
    target = Target()
    draw = random.Random(seed)
    letters = "".join(draw.choices(ALPHABET, k=600))
    target.assert_refused(letters[:size] for size in range(600))
    # And what begins as a token does, down to a key id that is known here.
    head = encode_header("k1", draw.randbytes(24))
    target.assert_refused(encoded(head + draw.randbytes(size)) for size in range(200))


# ---- headers and keys of our own making ----


def sealed(
    key: ProtectionKey, payload: bytes, *, purpose: Purpose = "state", header: bytes = b"", ad: bytes = b""
) -> str:
    """A token as only a holder of the key could make it, with another header, purpose or associated data."""
    nonce = b"n" * 24
    header = header or encode_header(key.id, nonce)
    return encode_token(header, key.cipher(purpose).encrypt(nonce, payload, ad or field(PROFILE) + header))


def payload_of(target: Target) -> bytes:
    return open_token(target.server.protection_keyring_manager.keyring, target.ask())[1]


def test_what_a_key_encrypts_for_another_purpose_is_no_state() -> None:
    target = Target()
    payload = payload_of(target)
    assert target.opens(sealed(KEY, payload))
    for purpose in ("sdk-state", "record", "fingerprint"):
        target.assert_refused([sealed(KEY, payload, purpose=purpose)], ProtectionFailure.NOT_AUTHENTIC)


def test_what_a_key_encrypts_under_other_associated_data_is_no_state() -> None:
    target = Target()
    payload = payload_of(target)
    header = encode_header("k1", b"n" * 24)
    for ad in (header, field(PROFILE), PROFILE.encode() + header, field("mcpinput-protection-v2") + header):
        target.assert_refused([sealed(KEY, payload, ad=ad)], ProtectionFailure.NOT_AUTHENTIC)


def test_a_header_that_is_not_exactly_ours_is_malformed_whatever_its_tag_says() -> None:
    target = Target()
    payload = payload_of(target)
    nonce = b"n" * 24
    headers = [bytes((version,)) + b"\2k1" + nonce for version in range(256) if version != 1]
    headers += [b"\1\0" + nonce, b"\1\2k\0" + nonce, b"\1\2k\n" + nonce, b"\1\3k1 " + nonce, b"\1\2\xc3\xa9" + nonce]
    headers += [b"\1" + bytes((size,)) + b"k" * size + nonce for size in (65, 127, 128, 255)]
    target.assert_refused(
        (encoded(header + KEY.cipher("state").encrypt(nonce, payload, field(PROFILE) + header)) for header in headers),
        ProtectionFailure.MALFORMED,
    )


def test_the_key_id_cannot_be_swapped_for_that_of_another_key_of_the_ring() -> None:
    other = ProtectionKey.from_id_and_bytes("k2", bytes(range(1, 33)))
    target = Target(keys=ring(KEY, other))
    token = target.ask()
    swapped = encoded(decoded(token).replace(b"\2k1", b"\2k2", 1))
    target.assert_refused([swapped], ProtectionFailure.NOT_AUTHENTIC)
    unknown = encoded(decoded(token).replace(b"\2k1", b"\2k3", 1))
    target.assert_refused([unknown], ProtectionFailure.UNKNOWN_KEY)
    other_case = encoded(decoded(token).replace(b"\2k1", b"\2K1", 1))
    target.assert_refused([other_case], ProtectionFailure.UNKNOWN_KEY)
    assert target.opens(token)


def test_state_of_another_service_with_the_same_keys_is_refused() -> None:
    token = Target(name="refunds").ask()
    Target(name="payouts").assert_refused([token], ProtectionFailure.AUDIENCE)


@pytest.mark.parametrize("spoilt", [b"", b"\1", bytes(300), b"\2", b"null", b'{"step":10}'])
def test_authentic_bytes_that_are_no_payload_are_refused(spoilt: bytes) -> None:
    target = Target()
    payload = payload_of(target)
    target.assert_refused([sealed(KEY, spoilt)], ProtectionFailure.MALFORMED)
    target.assert_refused((sealed(KEY, payload[:size]) for size in range(192)), ProtectionFailure.MALFORMED)


# ---- what a bad token costs ----


@pytest.mark.parametrize("letter", ["A", "!", "=", "\u00e9", "\U0001f511"])
def test_length_is_judged_before_anything_else(letter: str) -> None:
    """Of a text that is too long nothing is looked at: it is told too large also where it could be told malformed."""
    target = Target()
    target.assert_refused([letter * 65_536], ProtectionFailure.MALFORMED)
    target.assert_refused([letter * 65_537, letter * (1024 * 1024)], ProtectionFailure.TOO_LARGE)


def test_a_token_of_a_mebibyte_that_begins_as_ours_is_too_large() -> None:
    target = Target()
    token = target.ask()
    target.assert_refused([token + "A" * (1024 * 1024 - len(token))], ProtectionFailure.TOO_LARGE)
    assert target.opens(token)


def test_a_smaller_limit_is_judged_in_characters_of_the_token() -> None:
    clock = Clock()
    config = ProtectionConfig(keyring=ring(), clock=clock, maximum_encoded_bytes=1000, maximum_decoded_bytes=1000)
    target = Target(protection=config)
    target.assert_refused(["A" * 1000], ProtectionFailure.MALFORMED)
    target.assert_refused(["A" * 1001], ProtectionFailure.TOO_LARGE)
    assert target.opens(target.ask())


class Digests:
    """Counts how often the digest of a request's parameters is computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        compute: Any = dispatcher.__dict__["message_digest"]

        def counted(*args: Any, **options: Any) -> Any:
            self.count += 1
            return compute(*args, **options)

        monkeypatch.setattr(dispatcher, "message_digest", counted)


def test_a_forged_token_costs_no_digest_of_a_large_body(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target()
    filler = b',"filler":["%b","%b"]' % ((b"x" * (5 * 1024 * 1024 - 100_000),) * 2)
    response = target.client.send(target.body(1, more=filler), target.headers)
    token = response.result["requestState"]
    data = decoded(token)
    target.entered.clear()
    digests = Digests(monkeypatch)
    forged = {
        encoded(data[:-1] + bytes((data[-1] ^ 1,))): ProtectionFailure.NOT_AUTHENTIC,
        encoded(data[:28] + bytes((data[28] ^ 1,)) + data[29:]): ProtectionFailure.NOT_AUTHENTIC,
        encoded(data.replace(b"\2k1", b"\2k9", 1)): ProtectionFailure.UNKNOWN_KEY,
        token + "=": ProtectionFailure.MALFORMED,
        "A" * 65_537: ProtectionFailure.TOO_LARGE,
        "": ProtectionFailure.MALFORMED,
    }
    for text, reason in forged.items():
        response = target.client.send(target.body(2, spelled(text), filler), target.headers)
        assert (response.status, response.headers, response.body) == FROZEN
        assert target.recorder.rejections[-1].failure is reason
        assert target.entered == []
        assert digests.count == 0
    # The spy is where the digest is: an authentic token makes it be computed, once.
    response = target.client.send(target.body(2, spelled(token), filler), target.headers)
    assert response.result["resultType"] == "input_required"
    assert digests.count == 1


def test_where_another_binding_differs_already_the_body_is_not_digested(monkeypatch: pytest.MonkeyPatch) -> None:
    token = Target(name="refunds").ask()
    target = Target(name="payouts")
    digests = Digests(monkeypatch)
    target.assert_refused([token], ProtectionFailure.AUDIENCE)
    assert digests.count == 0


# ---- many at once ----


def test_bad_tokens_do_not_disturb_good_ones_on_any_thread() -> None:
    """Eight threads, each with a loop of its own, on one server: whatever the others send, each gets its own answer."""
    target = Target()
    token = target.ask()
    data = decoded(token)
    texts = [encoded(data[:-1] + bytes((data[-1] ^ 1 << bit,))) for bit in range(8)]
    texts += ["", "A" * 65_537, "v1." + token, encoded(data[:40])]
    failures: list[BaseException] = []

    async def one(text: str, good: bool) -> None:
        answers = b',"inputResponses":' + json.dumps(accept(price=1)).encode()
        response = await target.client.exchange(target.body(2, spelled(text), answers), target.headers)
        if good:
            assert response.result["resultType"] == "complete"
        else:
            assert (response.status, response.headers, response.body) == FROZEN

    async def many(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(20):
            bad = draw.choices(texts, k=8)
            await asyncio.gather(one(token, True), *(one(text, False) for text in bad), one(token, True))

    def work(seed: int) -> None:
        try:
            asyncio.run(many(seed))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(target.entered) == 8 * 20 * 2
