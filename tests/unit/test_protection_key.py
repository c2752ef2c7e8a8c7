"""Protection keys: what is accepted, what is equal, and that the bytes stay inside."""

import pytest

from mcpinput.protection import ProtectionKey

RAW = bytes(range(1, 33))


def key(key_id="k1", raw=RAW):
    return ProtectionKey.from_id_and_bytes(key_id, raw)


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, lambda raw: memoryview(bytearray(raw + raw))[::2]])
def test_key_bytes_are_taken_from_bytes_bytearray_and_memoryview(make):
    assert key(raw=make(RAW * 2)).id == "k1"


def test_key_bytes_are_copied():
    source = bytearray(RAW)
    made = key(raw=memoryview(source))
    source[:] = bytes(32)
    assert made == key()


@pytest.mark.parametrize("raw", [32, 0, True, "x" * 32, None, list(RAW), tuple(RAW), 32.0, object()])
def test_other_types_are_refused(raw):
    with pytest.raises(TypeError, match="key must be bytes"):
        key(raw=raw)


@pytest.mark.parametrize("raw", [b"", b"x", RAW[:31], bytearray(31), bytes(31)])
def test_short_keys_are_refused(raw):
    with pytest.raises(ValueError, match="at least 32 bytes"):
        key(raw=raw)


@pytest.mark.parametrize("size", [32, 33, 64, 1000])
def test_keys_of_zeros_are_refused(size):
    with pytest.raises(ValueError, match="zeros"):
        key(raw=bytes(size))
    assert key(raw=bytes(size - 1) + b"\1")


@pytest.mark.parametrize("key_id", ["a", "x" * 64, "2026-07", "!#$%&'*+-.^_`|~", "A1"])
def test_ids_are_http_tokens(key_id):
    assert key(key_id).id == key_id


@pytest.mark.parametrize(
    "key_id", ["", "x" * 65, "x" * 256, "a b", "a\0", "a\n", "\n", "é", "k\uff11", "a/b", "a,b", "a\x7f", "(a)", '"a"']
)
def test_other_ids_are_refused(key_id):
    with pytest.raises(ValueError, match="HTTP token"):
        key(key_id)


@pytest.mark.parametrize("key_id", [b"k1", 1, None, True])
def test_ids_are_text(key_id):
    with pytest.raises(TypeError, match="id must be a str"):
        key(key_id)


@pytest.mark.parametrize("arguments", [(), ("k1", RAW)])
def test_the_class_names_its_factory(arguments):
    with pytest.raises(TypeError, match="from_id_and_bytes"):
        ProtectionKey(*arguments)


def test_keys_are_equal_when_id_and_all_bytes_are():
    assert key() == key()
    assert hash(key()) == hash(key())
    assert key() != key("k2")
    assert key() != key(raw=RAW[:-1] + b"\0")
    assert key() != key(raw=RAW + b"\0")
    assert key() != "k1"
    assert len({key(), key(), key("k2")}) == 2


def test_a_key_cannot_be_changed():
    made = key()
    with pytest.raises(AttributeError):
        made.id = "k2"
    with pytest.raises(AttributeError):
        made.other = 1


def test_each_purpose_has_its_own_output():
    made = key()
    outputs = {made.output(purpose) for purpose in ("state", "sdk-state", "record", "fingerprint")}
    assert len(outputs) == 4
    assert {len(output) for output in outputs} == {32}
    assert made.output("state") is made.output("state")
    assert made.cipher("state") is made.cipher("state")


@pytest.mark.parametrize("purpose", ["", "State", "state2", "session"])
def test_unknown_purposes_are_refused(purpose):
    with pytest.raises(ValueError, match="purposes"):
        key().output(purpose)
