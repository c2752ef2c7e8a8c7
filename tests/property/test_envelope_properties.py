"""Whatever the codec reads, it writes back byte for byte; whatever it writes, it reads back."""

from hypothesis import given
from hypothesis import strategies as st

from mcpinput._core.envelope import (
    base64url_decode,
    base64url_encode,
    decode_payload,
    decode_token,
    encode_header,
    encode_payload,
    encode_token,
    field,
    request_id_hash,
)
from mcpinput.errors import EnvelopeError

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
TCHARS = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

text = st.text(st.characters(exclude_categories=["Cs"]))
key_ids = st.text(TCHARS, min_size=1, max_size=64)
nearly_base64url = st.text(st.one_of(st.sampled_from(ALPHABET), st.sampled_from("=+/ \n.é")), max_size=40)


def exactly(size):
    return st.binary(min_size=size, max_size=size)


@st.composite
def payload_parts(draw):
    state = draw(st.binary(max_size=60))
    numbers = st.integers(-(2**63), 2**63 - 1)
    asked = draw(st.dictionaries(text, st.tuples(st.integers(1, 4), exactly(16)), max_size=5))
    return {
        "flags": draw(st.sampled_from((0, 2))) | (1 if state else 0),
        "round": draw(st.integers(0, 65_535)),
        "issued_ms": draw(numbers),
        "expires_ms": draw(numbers),
        "flow_id": draw(exactly(16)),
        "bindings": draw(exactly(112)),
        "parameter_digest": draw(exactly(32)),
        "request_id_hash": draw(exactly(16)),
        "asked": tuple((key, kind, digest) for key, (kind, digest) in asked.items()),
        "state": state,
    }


def parts_of(payload):
    names = "flags round issued_ms expires_ms flow_id bindings parameter_digest request_id_hash asked state"
    return {name: getattr(payload, name) for name in names.split()}


@given(st.binary(max_size=400))
def test_base64url_round_trip(data):
    assert base64url_decode(base64url_encode(data)) == data


@given(nearly_base64url)
def test_an_accepted_text_is_the_only_one_of_its_value(candidate):
    try:
        value = base64url_decode(candidate)
    except EnvelopeError:
        return
    assert base64url_encode(value) == candidate


@given(key_ids, exactly(24), st.binary(min_size=16, max_size=200))
def test_token_round_trip(key_id, nonce, sealed):
    header = encode_header(key_id, nonce)
    assert decode_token(encode_token(header, sealed)) == (key_id, header, nonce, sealed)


@given(st.binary(max_size=120))
def test_an_accepted_token_is_the_only_one_of_its_parts(data):
    token = base64url_encode(b"\1" + data)
    try:
        key_id, header, nonce, sealed = decode_token(token)
    except EnvelopeError:
        return
    assert encode_header(key_id, nonce) == header
    assert encode_token(header, sealed) == token


@given(payload_parts())
def test_payload_round_trip(parts):
    assert parts_of(decode_payload(encode_payload(**parts))) == parts


@given(payload_parts(), st.data())
def test_a_changed_payload_is_refused_or_reads_as_what_it_says(parts, data):
    changed = bytearray(encode_payload(**parts))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at] = data.draw(st.integers(0, 255))
    changed = changed[: data.draw(st.integers(0, len(changed)))] + data.draw(st.binary(max_size=3))
    try:
        payload = decode_payload(changed)
    except EnvelopeError:
        return
    assert encode_payload(**parts_of(payload)) == bytes(changed)


@given(st.lists(st.one_of(st.none(), text), max_size=4), st.lists(st.one_of(st.none(), text), max_size=4))
def test_fields_in_a_row_are_equal_only_when_their_values_are(first, second):
    assert (b"".join(map(field, first)) == b"".join(map(field, second))) == (first == second)


@given(st.one_of(st.integers(), text), st.one_of(st.integers(), text))
def test_request_ids_hash_alike_only_when_value_and_type_are_equal(first, second):
    same = type(first) is type(second) and first == second
    assert (request_id_hash(first) == request_id_hash(second)) == same
