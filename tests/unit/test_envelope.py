"""The token and payload codec: one spelling for each value, and every other spelling refused."""

import base64
import copy
import pickle
import random
import string
import sys

import pytest

from mcpinput._core.envelope import (
    Payload,
    base64url_decode,
    base64url_encode,
    binding,
    decode_payload,
    decode_token,
    encode_header,
    encode_payload,
    encode_token,
    field,
    request_id_hash,
)
from mcpinput.errors import EnvelopeError

ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"

# ---- base64url ----


def test_base64url_agrees_with_the_standard_library_at_every_length():
    source = random.Random(1)
    for size in range(260):
        data = source.randbytes(size)
        text = base64url_encode(data)
        assert text == base64.urlsafe_b64encode(data).decode().rstrip("=")
        assert base64url_decode(text) == data


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_encoded(make):
    assert base64url_encode(make(b"\xff\xfe\xfd\xfc")) == "__79_A"


@pytest.mark.parametrize("size", range(1, 7))
def test_each_value_has_one_last_character(size):
    text = base64url_encode(bytes(range(200, 200 + size)))
    accepted = []
    for last in ALPHABET:
        try:
            accepted.append((last, base64url_decode(text[:-1] + last)))
        except EnvelopeError:
            continue
    assert len({value for _, value in accepted}) == len(accepted)
    assert [last for last, value in accepted if value == base64url_decode(text)] == [text[-1]]


@pytest.mark.parametrize("foreign", [" ", "\n", "\r\n", "\t", "=", "==", "!", "\0", "+", "/", ".", "%3D", "\x7f"])
@pytest.mark.parametrize("text", ["QUJD", "QUI", "QQ", ""])
def test_foreign_characters_are_refused_wherever_they_stand(text, foreign):
    for at in range(len(text) + 1):
        with pytest.raises(EnvelopeError):
            base64url_decode(text[:at] + foreign + text[at:])


@pytest.mark.parametrize(
    "text",
    ["QUJ\uff24", "QUJé", "\ud800UJD", "QUJ\U0001f600", "QUJ\u0130"],
    ids=["full width", "latin-1", "lone surrogate", "astral", "dotted capital"],
)
def test_characters_outside_ascii_are_refused(text):
    with pytest.raises(EnvelopeError) as caught:
        base64url_decode(text)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("text", ["A", "AAAAA", "AAAAAAAAA"])
def test_lengths_that_no_value_has_are_refused(text):
    with pytest.raises(EnvelopeError):
        base64url_decode(text)


@pytest.mark.parametrize("text", [b"QUJD", bytearray(b"QUJD"), None, 1])
def test_only_str_is_decoded(text):
    with pytest.raises(TypeError):
        base64url_decode(text)


# ---- fields and hashes ----


def test_an_absent_field_differs_from_an_empty_one():
    assert field(None) == b"\0"
    assert field("") == b"\1\0\0\0\0"
    assert field("é\U0001f600") == b"\1\0\0\0\6" + "é\U0001f600".encode()
    assert binding(None) != binding("")


@pytest.mark.parametrize("take", [field, binding, request_id_hash])
def test_a_lone_surrogate_has_no_bytes(take):
    with pytest.raises(EnvelopeError) as caught:
        take("secret\ud800")
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("take", [field, binding])
@pytest.mark.parametrize("value", [b"x", 1, True])
def test_fields_are_text(take, value):
    with pytest.raises(TypeError):
        take(value)


def test_request_ids_differ_by_json_type():
    assert len({request_id_hash(value) for value in (1, "1", -1, "-1", 0, "0", "")}) == 7


def test_request_ids_of_many_digits_do_not_depend_on_the_limit_of_the_process():
    number = -(10**1023) + 10**600 + 7
    plain = request_id_hash(number)
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert request_id_hash(number) == plain
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.parametrize("value", [None, True, 1.0, b"1"])
def test_request_ids_are_strings_or_integers(value):
    with pytest.raises(TypeError):
        request_id_hash(value)


# ---- token ----

HEADER = encode_header("k1", bytes(range(24)))
SEALED = bytes(range(100, 140))


def test_a_token_gives_its_parts_back():
    assert HEADER.hex() == "01026b31" + bytes(range(24)).hex()
    assert decode_token(encode_token(HEADER, SEALED)) == ("k1", HEADER, bytes(range(24)), SEALED)


def test_a_ciphertext_may_be_empty_but_its_tag_may_not():
    assert decode_token(encode_token(HEADER, bytes(16)))[3] == bytes(16)
    for size in range(16):
        with pytest.raises(EnvelopeError):
            decode_token(encode_token(HEADER, bytes(size)))


def test_every_truncation_of_header_and_tag_is_refused():
    data = HEADER + bytes(16)
    for size in range(len(data)):
        with pytest.raises(EnvelopeError):
            decode_token(base64url_encode(data[:size]))


@pytest.mark.parametrize("version", [0, 2, 0x81, 255])
def test_other_versions_are_refused(version):
    with pytest.raises(EnvelopeError):
        decode_token(base64url_encode(bytes((version,)) + HEADER[1:] + SEALED))


TCHARS = set(string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~")


def test_key_ids_are_http_tokens_in_both_directions():
    for code in range(256):
        character = chr(code)
        token = base64url_encode(bytes((1, 3)) + b"a" + bytes((code,)) + b"b" + bytes(40))
        if character in TCHARS:
            assert decode_token(token)[0] == f"a{character}b"
            assert encode_header(f"a{character}b", bytes(24))[2:5] == bytes((97, code, 98))
        else:
            with pytest.raises(EnvelopeError):
                decode_token(token)
            with pytest.raises(EnvelopeError):
                encode_header(f"a{character}b", bytes(24))


def test_key_ids_have_1_to_64_characters():
    for size in (1, 64):
        key_id = "x" * size
        assert decode_token(encode_token(encode_header(key_id, bytes(24)), bytes(16)))[0] == key_id
    for size in (0, 65, 255):
        with pytest.raises(EnvelopeError):
            decode_token(base64url_encode(bytes((1, size)) + b"x" * size + bytes(40)))
    for key_id in ("", "x" * 65, "x" * 256, "é", "k\0"):
        with pytest.raises(EnvelopeError):
            encode_header(key_id, bytes(24))


@pytest.mark.parametrize("size", [0, 12, 23, 25])
def test_a_nonce_has_24_bytes(size):
    with pytest.raises(EnvelopeError):
        encode_header("k1", bytes(size))


# ---- payload ----

PARTS = {
    "flags": 3,
    "round": 0x0102,
    "issued_ms": 0x0102030405060708,
    "expires_ms": -2,
    "flow_id": b"F" * 16,
    "bindings": b"B" * 112,
    "parameter_digest": b"P" * 32,
    "request_id_hash": b"R" * 16,
    "asked": (("", 1, b"1" * 16), ("clé", 4, b"2" * 16)),
    "state": b"null",
}
BYTES = encode_payload(**PARTS)
ASKED_AT = 198


def parts_of(payload: Payload) -> dict:
    return {name: getattr(payload, name) for name in PARTS}


def test_a_payload_gives_its_parts_back_from_any_buffer():
    for make in (bytes, bytearray, memoryview):
        assert parts_of(decode_payload(make(BYTES))) == PARTS


def test_a_payload_without_state_and_asks_is_the_fixed_part():
    parts = {**PARTS, "flags": 0, "asked": (), "state": b""}
    assert len(encode_payload(**parts)) == ASKED_AT
    assert parts_of(decode_payload(encode_payload(**parts))) == parts


def test_a_payload_can_be_neither_made_nor_changed_nor_copied():
    payload = decode_payload(BYTES)
    with pytest.raises(TypeError, match="decode_payload"):
        Payload()
    with pytest.raises(AttributeError):
        payload.round = 2
    for take in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            take(payload)
    assert "null" not in repr(payload)


def test_every_truncation_is_refused():
    for size in range(len(BYTES) - len(PARTS["state"]) + 1):
        with pytest.raises(EnvelopeError) as caught:
            decode_payload(BYTES[:size])
        assert caught.value.__context__ is None


def changed(at: int, value: bytes) -> bytes:
    return BYTES[:at] + value + BYTES[at + len(value) :]


@pytest.mark.parametrize(
    ("desc", "data"),
    [
        ("version 0", changed(0, b"\0")),
        ("version 2", changed(0, b"\2")),
        ("unknown flag", changed(1, b"\7")),
        ("highest flag", changed(1, b"\x83")),
        ("state without its flag", changed(1, b"\2")),
        ("flag without state", BYTES[:-4]),
        ("absent key", changed(ASKED_AT, b"\0")),
        ("unknown field tag", changed(ASKED_AT, b"\2")),
        ("key longer than the payload", changed(ASKED_AT + 1, b"\0\0\xff\xff")),
        ("key of 4 GiB", changed(ASKED_AT + 1, b"\xff\xff\xff\xff")),
        ("kind 0", changed(ASKED_AT + 5, b"\0")),
        ("kind 5", changed(ASKED_AT + 5, b"\5")),
        ("more keys than there are", changed(ASKED_AT - 2, b"\0\3")),
        ("most keys", changed(ASKED_AT - 2, b"\xff\xff")),
        ("key with a broken UTF-8 sequence", BYTES.replace("clé".encode(), b"cl\xc3\x28")),
        ("key with a surrogate in UTF-8", BYTES.replace("clé".encode(), b"c\xed\xa0\x80")),
        ("key with an overlong sequence", BYTES.replace("clé".encode(), b"cl\xc0\xaf")),
        ("nothing", b""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_payloads_are_refused(desc, data):
    with pytest.raises(EnvelopeError) as caught:
        decode_payload(data)
    assert caught.value.__context__ is None


def test_one_key_twice_is_refused_both_ways():
    twice = (("k", 1, bytes(16)), ("k", 2, bytes(16)))
    with pytest.raises(EnvelopeError):
        encode_payload(**{**PARTS, "asked": twice})
    once = encode_payload(**{**PARTS, "asked": (("k", 1, bytes(16)), ("l", 2, bytes(16)))})
    with pytest.raises(EnvelopeError):
        decode_payload(once.replace(b"\1l\2", b"\1k\2"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flags", -1),
        ("flags", 4),
        ("flags", 2),
        ("round", -1),
        ("round", 65_536),
        ("issued_ms", 2**63),
        ("expires_ms", -(2**63) - 1),
        ("flow_id", bytes(15)),
        ("bindings", bytes(111)),
        ("parameter_digest", bytes(31)),
        ("request_id_hash", bytes(17)),
        ("state", b""),
        ("asked", [("k", 0, bytes(16))]),
        ("asked", [("k", 5, bytes(16))]),
        ("asked", [("k", 1, bytes(15))]),
        ("asked", [("\ud800", 1, bytes(16))]),
        ("asked", [(str(i), 1, bytes(16)) for i in range(65_536)]),
    ],
)
def test_parts_that_do_not_fit_are_refused(name, value):
    with pytest.raises(EnvelopeError):
        encode_payload(**{**PARTS, name: value})


def test_ranges_reach_their_ends():
    parts = {
        **PARTS,
        "round": 65_535,
        "issued_ms": -(2**63),
        "expires_ms": 2**63 - 1,
        "asked": tuple((str(i), 1, bytes(16)) for i in range(65_535)),
    }
    assert parts_of(decode_payload(encode_payload(**parts))) == parts
