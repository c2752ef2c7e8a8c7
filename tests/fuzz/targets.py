"""The targets of the fuzzing engine, one for each entry point of the core.

Each takes bytes, and fails where a property does not hold: what a text is or is refused for, by the twins and models in
plain Python; what the entry points say of one another; that nothing but a documented error is raised. Memory is watched
by the sanitizers.
"""

# ruff: noqa: PT017 - these are no tests of pytest's

from __future__ import annotations

import array
import base64
import decimal
import hashlib
import re
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, TypeAlias

from mcpinput._core import digest as core_digest
from mcpinput._core import envelope as core_envelope
from mcpinput._core.canonical import canonical_number as core_canonical_number
from mcpinput.errors import EnvelopeError, JsonError, JsonErrorKind, JsonParseError, JsonTypeError, JsonWriteError
from mcpinput.json import Limits
from tests.fuzz import reasons
from tests.fuzz.model import FAULTS, Model, compact, number_faults
from tests.fuzz.source import WIDEST, Interruption, Source, TextLimits, Trees, number, own_number, text, text_limits
from tests.property import twin_canonical, twin_json, twin_state
from tests.property.pair_state import goes_on_alike, opens_alike
from tests.property.twin_state import Situation
from tests.support import core

Target: TypeAlias = Callable[[bytes], None]

CANONICAL: Final = 32 << 20  # the widest limit on canonical text
LIMITED: Final = {
    JsonErrorKind.DEPTH: 0,
    JsonErrorKind.NODES: 1,
    JsonErrorKind.STRING: 2,
    JsonErrorKind.SIZE: 3,
}


def shape(value: Any, *, ordered: bool = True) -> Any:
    """A value such that two are equal only if types and scale are, and the order of members where it is to count."""
    if isinstance(value, dict):
        members = [(name, shape(member, ordered=ordered)) for name, member in value.items()]
        return ("object", members if ordered else sorted(members, key=lambda member: member[0]))
    if isinstance(value, list):
        return ("array", [shape(item, ordered=ordered) for item in value])
    return (type(value), value.as_tuple() if isinstance(value, Decimal) else value)


def outcome(function: Callable[..., Any], *arguments: Any) -> tuple[Any, JsonErrorKind | None]:
    """What a reader gives, or the kind of its refusal; its other promises are looked at on the way."""
    try:
        return function(*arguments), None
    except JsonParseError as error:
        given, *limits = arguments
        size = memoryview(given).nbytes
        assert error.offset is None or 0 <= error.offset <= size
        if error.kind is JsonErrorKind.SIZE:
            assert error.offset is None
            assert error.limit in limits[3:]
        elif error.kind in LIMITED:
            assert error.limit == limits[LIMITED[error.kind]]
        assert str(error)
        return None, error.kind


def read_back(value: Any) -> Any:
    """What a tree that was read is once written and read again: a Decimal without point and exponent becomes an int."""
    if isinstance(value, dict):
        return {name: read_back(member) for name, member in value.items()}
    if isinstance(value, list):
        return [read_back(item) for item in value]
    if isinstance(value, Decimal) and value.as_tuple().exponent == 0:
        return int(value)
    return value


# ---- texts ----


def _of(limits: TextLimits) -> Limits:
    depth, nodes, string, size = limits
    return core.limits(depth, nodes, string, body_bytes=size)


def _reads_as_the_twin(function: Callable[..., Any], given: bytes, limits: TextLimits, state: bool) -> Any:
    value, kind = outcome(function, given, *limits)
    assert kind is reasons.refusal(given, *limits, state=state)
    if kind is not None:
        try:
            twin_json.parse(given, limits=_of(limits), state=state)
        except twin_json.Refused:
            return None
        raise AssertionError("the twin takes what the core refuses")
    assert shape(value) == shape(twin_json.parse(given, limits=_of(limits), state=state))
    return value


def parse(data: bytes) -> None:
    """The reader gives what its twin gives; what it reads can be written, and that is the same value."""
    source = Source(data)
    limits = text_limits(source)
    given = source.rest()
    value = _reads_as_the_twin(core.parse, given, limits, False)
    if value is not None:
        written = core.dump(value, *WIDEST)
        assert core.parse_state(written, *WIDEST) == value
        # A number that is written can be a few characters longer than what may be read.
        again, kind = outcome(core.parse, written, *WIDEST)
        assert kind is JsonErrorKind.NUMBER_SIZE or shape(again) == shape(read_back(value))


def parse_state(data: bytes) -> None:
    """The reader of verified state gives what its twin gives; what it reads can be sealed, and opens as the same."""
    source = Source(data)
    limits = text_limits(source)
    given = source.rest()
    value = _reads_as_the_twin(core.parse_state, given, limits, True)
    if value is not None:
        sealed = core.canonical_bytes(value, *WIDEST, False)
        again = core.parse_state(sealed, *WIDEST)
        assert shape(again, ordered=False) == shape(value, ordered=False)
        assert core.canonical_bytes(again, *WIDEST, False) == sealed
        assert sealed == twin_canonical.canonical(value)


def _within(ceiling: int, expected: bytes, size: int, function: Callable[..., bytes], *arguments: Any) -> None:
    """A result is given, or refused by the ceiling on canonical text where it has more bytes."""
    try:
        assert function(*arguments, ceiling) == expected
        assert size <= ceiling
    except JsonError as error:
        assert error.kind is JsonErrorKind.SIZE
        assert error.limit == ceiling < size


def canonical_raw(data: bytes) -> None:
    """Canonical form of a text is that of the tree that the parser makes of it, and refuses what that refuses."""
    source = Source(data)
    limits = text_limits(source)
    ceiling = 1 + source.number(2)
    chunk = 1 + source.byte()
    given = source.rest()
    raw, kind = outcome(core.canonical_raw, given, *limits, CANONICAL)
    tree, parse_kind = outcome(core.parse, given, *limits)
    assert kind is parse_kind
    if kind is not None:
        return
    assert raw == core.canonical_bytes(tree, *WIDEST, False)
    assert raw == twin_canonical.canonical(tree)
    assert core_digest._in_chunks(given, chunk, False) == raw
    _within(ceiling, raw, len(raw), core.canonical_raw, given, *limits)
    _within(ceiling, raw, len(raw), lambda size: core.canonical_bytes(tree, *WIDEST[:3], size, False))
    assert twin_canonical.canonical(core.parse_state(raw, *WIDEST)) == raw
    # Canonical text of a number can be a few characters longer than what may be read.
    again, kind = outcome(core.canonical_raw, raw, *WIDEST, CANONICAL)
    assert again == raw or (kind is JsonErrorKind.NUMBER_SIZE and len(raw) > twin_json.MAXIMUM_CHARACTERS)


def params_digest(data: bytes) -> None:
    """The digest of params is that of the tree that the parser makes of them, and refuses what that refuses."""
    source = Source(data)
    limits = text_limits(source)
    ceiling = 1 + source.number(2)
    chunk = 1 + source.byte()
    given = source.rest()
    digest, kind = outcome(core.params_digest, given, *limits, CANONICAL)
    tree, parse_kind = outcome(core.parse, given, *limits)
    if parse_kind is None and not isinstance(tree, dict):
        parse_kind = JsonErrorKind.SYNTAX
    assert kind is parse_kind
    if kind is not None:
        return
    stable = twin_canonical.canonical(twin_canonical.stable(tree))
    assert digest == hashlib.sha256(stable).digest()
    assert core.tree_digest(tree, *limits[:3], CANONICAL) == digest
    assert core_digest._in_chunks(given, chunk, True) == digest
    _within(ceiling, digest, len(stable), core.params_digest, given, *limits)
    _within(ceiling, digest, len(stable), core.tree_digest, tree, *limits[:3])


def message_digest(data: bytes) -> None:
    """The digest of a message is that of the params that the parser finds in it."""
    source = Source(data)
    limits = text_limits(source)
    given = source.rest()
    digest, kind = outcome(core.message_digest, given, *limits, CANONICAL)
    message, parse_kind = outcome(core.parse, given, *limits)
    params: Any = message.get("params", {}) if isinstance(message, dict) else None
    if parse_kind is None and not isinstance(params, dict):
        parse_kind = JsonErrorKind.SYNTAX
    assert kind is parse_kind
    if kind is None:
        assert digest == core.tree_digest(params, *WIDEST[:3], CANONICAL) == twin_canonical.digest(params)


def large(data: bytes) -> None:
    """Nothing changes where the lock is given up, tables grow or text comes in many chunks: a text many times over,
    between long strings or under long names."""
    source = Source(data)
    form = source.byte() % 3
    size = (1 << 14, 1 << 16, 5 << 16, 5 << 18)[source.byte() % 4]
    count = 1 + source.number(2) % 2000
    factor = source.byte()
    given = source.rest()[:1000]
    width = max(size // count - len(given), 4)
    if form == 0:
        whole = b'{"a":[' + b",".join([b'%b,"%0*d"' % (given, width, count)] * count) + b"]}"
    else:
        names = sorted(range(count), key=lambda place: place * factor % 251)
        if form == 2:
            names += names[:1]
        whole = b"{" + b",".join([b'"%0*d":%b' % (width, name, given) for name in names]) + b"}"
    tree, kind = outcome(core.parse, whole, *WIDEST)
    raw, raw_kind = outcome(core.canonical_raw, whole, *WIDEST, CANONICAL)
    digest, digest_kind = outcome(core.params_digest, whole, *WIDEST, CANONICAL)
    assert kind is raw_kind is digest_kind
    if kind is None:
        assert raw == core.canonical_bytes(tree, *WIDEST, False)
        assert digest == core.tree_digest(tree, *WIDEST[:3], CANONICAL)
        assert core.parse(core.dump(tree, *WIDEST), *WIDEST) == tree


class _NoBuffer:
    pass


class _OwnBytes(bytes):
    pass


def _buffers(given: bytes) -> Iterator[Any]:
    """The same number of bytes in other objects, in a row or apart."""
    yield bytearray(given)
    yield memoryview(given)
    yield memoryview(bytearray(given))
    yield _OwnBytes(given)
    yield array.array("B", given)
    yield memoryview(given)[::-1][::-1]
    yield memoryview(given[::-1])[::-1]
    apart = bytearray(2 * len(given))
    apart[::2] = given
    yield memoryview(apart)[::2]
    if given and len(given) % 8 == 0:
        yield memoryview(given).cast("B", (len(given) // 8, 8))
        yield memoryview(given).cast("B", (len(given) // 4, 2, 2))
        yield memoryview(given).cast("i")
        yield memoryview(given).cast("d")
        yield memoryview(given).cast("H")[::-1]


def buffers(data: bytes) -> None:
    """Every object with a buffer is read as its bytes are, by every reader, and let go of afterwards."""
    source = Source(data)
    limits = text_limits(source)
    given = source.rest()
    readers: tuple[tuple[Callable[..., Any], tuple[int, ...]], ...] = (
        (core.parse, limits),
        (core.parse_state, limits),
        (core.canonical_raw, (*limits, CANONICAL)),
        (core.params_digest, (*limits, CANONICAL)),
        (core.message_digest, (*limits, CANONICAL)),
    )
    for buffer in _buffers(given):
        as_bytes = memoryview(buffer).tobytes()
        for reader, arguments in readers:
            value, kind = outcome(reader, buffer, *arguments)
            expected, expected_kind = outcome(reader, as_bytes, *arguments)
            assert kind is expected_kind
            assert shape(value) == shape(expected)
        for function in (core_envelope.base64url_encode, _payload_parts):
            try:
                made = function(buffer)
            except BufferError:
                assert not memoryview(buffer).c_contiguous
            else:
                assert made == function(as_bytes)
        if isinstance(buffer, memoryview):
            buffer.release()  # refused while it is in use
        elif isinstance(buffer, (bytearray, array.array)):
            buffer.append(0)
    for wrong in (given.decode("latin-1"), None, 1, _NoBuffer(), [given]):
        for reader, arguments in readers:
            _refuses(TypeError, reader, wrong, *arguments)


def _refuses(kind: type[Exception], function: Callable[..., Any], *arguments: Any) -> None:
    try:
        function(*arguments)
    except kind:
        return
    raise AssertionError(f"{function.__name__} took what it must refuse")


# ---- values ----


@contextmanager
def _surroundings(dice: int) -> Iterator[None]:
    """The interpreter's settings at their oddest, which must not matter."""
    digits = sys.get_int_max_str_digits()
    with decimal.localcontext() as context:
        if dice & 2:
            context.prec, context.Emax, context.Emin, context.capitals, context.clamp = 1, 0, 0, 0, 1
            for signal in context.traps:
                context.traps[signal] = True
        if dice & 4:
            sys.set_int_max_str_digits(640)
        try:
            yield
        finally:
            sys.set_int_max_str_digits(digits)


def _tree_limits(source: Source, dice: int) -> TextLimits:
    if dice % 2 == 0:
        return 256, 500, 1 << 20, 8 << 20
    return 1 + source.byte() % 8, 1 + source.byte() % 64, 1 + source.byte() % 64, 1 + source.number(2) % 1024


def _writes_as_the_model(
    model: Model, limits: TextLimits, expected: Callable[[Any], bytes], write: Callable[[], bytes]
) -> bytes | None:
    """The bytes that the writer gives, if the model has no fault."""
    try:
        written = write()
    except JsonWriteError as error:
        if model.has_end and not model.faults:
            assert error.kind is JsonErrorKind.SIZE
            assert len(expected(model.plain)) > limits[3]
        elif model.has_end:
            assert error.kind in model.faults | {JsonErrorKind.SIZE}
        assert error.kind in FAULTS
        assert error.offset is None
        assert isinstance(error, JsonTypeError) == (error.kind in (JsonErrorKind.TYPE, JsonErrorKind.KEY))
        if error.kind in LIMITED:
            assert error.limit == limits[LIMITED[error.kind]]
        return None
    assert not model.faults
    assert written == expected(model.plain)
    assert len(written) <= limits[3]
    return written


def _restless(write: Callable[[], bytes]) -> None:
    """Code that runs meanwhile changes what is written, but not what a text is."""
    try:
        written = write()
    except (JsonWriteError, Interruption):
        return
    assert reasons.refusal(written, *WIDEST, state=True) is None


def dump(data: bytes) -> None:
    """The writer gives the text of a value, or refuses it for a fault that it has; the text reads back as the value."""
    source = Source(data)
    dice = source.byte()
    limits = _tree_limits(source, dice)
    trees = Trees(source)
    value = trees.value()

    def write() -> bytes:
        with _surroundings(dice):
            return core.dump(value, *limits)

    if trees.restless:
        return _restless(write)
    model = Model(value, *limits[:3])
    written = _writes_as_the_model(model, limits, lambda plain: compact(plain).encode(), write)
    if written is not None:
        assert core.parse_state(written, *WIDEST) == model.plain
        # A number that is written can be a few characters longer than what may be read.
        again, kind = outcome(core.parse, written, *WIDEST)
        assert again == model.plain or kind is JsonErrorKind.NUMBER_SIZE
    return None


def canonical_bytes(data: bytes) -> None:
    """Canonical form of a value is that of the twin, or it is refused for a fault that it has; likewise its digest."""
    source = Source(data)
    dice = source.byte()
    floats = dice & 8 != 0
    limits = _tree_limits(source, dice)
    trees = Trees(source)
    value = trees.value()

    def write() -> bytes:
        with _surroundings(dice):
            return core.canonical_bytes(value, *limits, floats)

    def digest() -> bytes:
        with _surroundings(dice):
            return core.tree_digest(value, *limits)

    if trees.restless:
        _restless(write)
        if isinstance(value, dict):
            try:
                digest()
            except (JsonWriteError, Interruption):
                return
        return
    model = Model(value, *limits[:3], floats=floats)
    written = _writes_as_the_model(model, limits, twin_canonical.canonical, write)
    if written is not None:
        assert core.parse_state(written, *WIDEST) == model.plain
    if isinstance(value, dict):
        model = Model(value, *limits[:3], floats=False)
        try:
            digested = digest()
        except JsonWriteError as error:
            assert error.kind in FAULTS
            assert error.kind is JsonErrorKind.SIZE or model.faults
        else:
            if not model.faults:
                assert digested == twin_canonical.digest(model.plain)


def canonical_number(data: bytes) -> None:
    """Canonical text of a number is that of the twin, of equal value, or it is refused for a fault that it has."""
    source = Source(data)
    dice = source.byte()
    if dice & 8:
        found, kind = outcome(core.parse, source.rest(), *WIDEST)
        if kind is not None or isinstance(found, bool) or not isinstance(found, (int, Decimal)):
            return
    else:
        found = own_number(source) if dice & 16 else number(source)
    if isinstance(found, bool):
        return _refuses(JsonTypeError, core_canonical_number, found)
    plain, faults = number_faults(found)
    try:
        with _surroundings(dice):
            written = core_canonical_number(found)
    except JsonWriteError as error:
        assert error.kind in faults
        return None
    assert not faults
    assert written == twin_canonical.canonical_number(plain)
    assert Decimal(written) == plain
    assert core.parse_state(written.encode(), *WIDEST) == plain
    return None


# ---- the envelope ----

ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
KEY_ID: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")


def _is_base64url(candidate: str) -> bool:
    """Whether a text is the one of its value."""
    if not set(candidate) <= set(ALPHABET) or len(candidate) % 4 == 1:
        return False
    spare = {0: 1, 2: 16, 3: 4}[len(candidate) % 4]
    return not candidate or ALPHABET.index(candidate[-1]) % spare == 0


def _base64url(source: Source, dice: int) -> None:
    if dice % 2:
        given = source.rest()
        candidate = core_envelope.base64url_encode(given)
        assert candidate == base64.urlsafe_b64encode(given).decode().rstrip("=")
        assert core_envelope.base64url_decode(candidate) == given
        return
    candidate = source.rest().decode("latin-1") if dice % 4 else text(source)
    try:
        value = core_envelope.base64url_decode(candidate)
    except EnvelopeError as error:
        assert not _is_base64url(candidate)
        assert error.__context__ is None
        return
    assert _is_base64url(candidate)
    assert core_envelope.base64url_encode(value) == candidate
    assert base64.urlsafe_b64decode(candidate + "=" * (-len(candidate) % 4)) == value


def _fields(source: Source) -> None:
    value = text(source)
    found = number(source)
    if any("\ud800" <= character <= "\udfff" for character in value):
        for function in (core_envelope.field, core_envelope.binding, core_envelope.request_id_hash):
            _refuses(EnvelopeError, function, value)
    else:
        encoded = value.encode()
        field = b"\1" + struct.pack(">I", len(encoded)) + encoded
        assert core_envelope.field(value) == field
        assert core_envelope.binding(value) == hashlib.sha256(field).digest()[:16]
        assert core_envelope.request_id_hash(value) == hashlib.sha256(b"\x73" + encoded).digest()[:16]
    if isinstance(found, bool) or not isinstance(found, int):
        return _refuses(TypeError, core_envelope.request_id_hash, found)
    digits = f"{Decimal(found):f}".encode()
    with _surroundings(4):
        assert core_envelope.request_id_hash(found) == hashlib.sha256(b"\x69" + digits).digest()[:16]
    return None


def token(data: bytes) -> None:
    """What decodes as base64url, header or token encodes to the same again, and everything else is refused. Fields and
    hashes are as specified."""
    source = Source(data)
    dice = source.byte()
    if dice >= 0xC0:
        return _fields(source)
    if dice >= 0x80:
        return _base64url(source, dice)
    if dice % 4 == 3:
        return _header(source)
    given = source.rest()
    if dice % 4 == 0:
        candidate = given.decode("latin-1")
        if not _is_base64url(candidate):
            return _refuses(EnvelopeError, core_envelope.decode_token, candidate)
        given = core_envelope.base64url_decode(candidate)
    else:
        candidate = core_envelope.base64url_encode(given)
    size = given[1] if len(given) > 1 else 0
    right = given[:1] == b"\1" and len(given) >= 2 + size + 24 + 16 and KEY_ID.fullmatch(given[2 : 2 + size])
    if not right:
        return _refuses(EnvelopeError, core_envelope.decode_token, candidate)
    parts = core_envelope.decode_token(candidate)
    header = 2 + size + 24
    assert parts == (given[2 : 2 + size].decode(), given[:header], given[2 + size : header], given[header:])
    assert core_envelope.encode_header(parts[0], parts[2]) == parts[1]
    assert core_envelope.encode_token(parts[1], parts[3]) == candidate
    return None


def _header(source: Source) -> None:
    key_id = text(source) if source.byte() % 2 else source.take(source.byte() % 80).decode("latin-1")
    nonce = source.take(source.byte() % 32)
    right = key_id.isascii() and KEY_ID.fullmatch(key_id.encode()) and len(nonce) == 24
    if not right:
        return _refuses(EnvelopeError, core_envelope.encode_header, key_id, nonce)
    header = core_envelope.encode_header(key_id, nonce)
    sealed = source.rest().ljust(16, b"\0")
    found = core_envelope.decode_token(core_envelope.encode_token(header, sealed))
    assert found == (key_id, header, nonce, sealed)
    return None


PARTS: Final = (
    *("flags", "round", "issued_ms", "expires_ms", "flow_id", "bindings", "parameter_digest", "request_id_hash"),
    *("asked", "state"),
)


def _payload_parts(given: Any) -> tuple[Any, ...] | None:
    """The parts of a payload; None for what is none."""
    try:
        payload = core_envelope.decode_payload(given)
    except EnvelopeError as error:
        assert error.__context__ is None
        return None
    return tuple(getattr(payload, name) for name in PARTS)


def _model_of_payload(given: bytes) -> tuple[Any, ...] | None:
    """As _payload_parts, in plain Python."""
    if len(given) < 198 or given[0] != 1 or given[1] > 3:
        return None
    source = Source(given)
    _, *numbers = struct.unpack(">BBHqq", source.take(20))
    fixed = [source.take(size) for size in (16, 112, 32, 16)]
    asked: dict[str, tuple[str, int, bytes]] = {}
    for _ in range(source.number(2)):
        mark, size = source.take(1), source.take(4)
        key = source.take(int.from_bytes(size, "big"))
        kind, digest = source.byte(), source.take(16)
        if mark != b"\1" or len(size) != 4 or len(key) != int.from_bytes(size, "big") or len(digest) != 16:
            return None
        try:
            name = key.decode()
        except UnicodeDecodeError:
            return None
        if name in asked or not 1 <= kind <= 4:
            return None
        asked[name] = (name, kind, digest)
    state = source.rest()
    if bool(state) != bool(given[1] & 1):
        return None
    return (*numbers, *fixed, tuple(asked.values()), state)


def payload(data: bytes) -> None:
    """What decodes as a payload encodes to the same bytes again, and everything else is refused."""
    source = Source(data)
    if source.byte() % 2:
        return _encoded_payload(source)
    given = source.rest()
    parts = _payload_parts(given)
    assert parts == _model_of_payload(given)
    if parts is not None:
        assert core_envelope.encode_payload(*parts) == given
    return None


def _encoded_payload(source: Source) -> None:
    """From parts, of which some may be wrong."""
    dice = source.byte()

    def integer(bits: int) -> int:
        value = int.from_bytes(source.take(bits // 8), "big", signed=bits == 64)
        return value + (1 << bits) * (source.byte() % 3 - 1) if dice & 1 else value

    def exactly(size: int) -> bytes:
        return source.take(size - (source.byte() % 3 - 1 if dice & 2 else 0)).ljust(size if not dice & 2 else 0, b"\0")

    numbers = (integer(8) if dice & 1 else source.byte() % 4, integer(16), integer(64), integer(64))
    fixed = (exactly(16), exactly(112), exactly(32), exactly(16))
    asked = [
        (text(source), source.byte() % 6 if dice & 4 else 1 + source.byte() % 4, exactly(16))
        for _ in range(source.byte() % 6)
    ]
    state = source.rest()
    flags = numbers[0] if dice & 8 else numbers[0] & ~1 | bool(state)
    keys = [key for key, _, _ in asked]
    right = (
        0 <= flags <= 3
        and bool(flags & 1) == bool(state)
        and 0 <= numbers[1] < 1 << 16
        and all(-(1 << 63) <= value < 1 << 63 for value in numbers[2:])
        and [len(part) for part in fixed] == [16, 112, 32, 16]
        and all(1 <= kind <= 4 and len(digest) == 16 for _, kind, digest in asked)
        and len(set(keys)) == len(keys)
        and not any("\ud800" <= character <= "\udfff" for key in keys for character in key)
    )
    parts = (flags, *numbers[1:], *fixed, asked, state)
    if not right:
        return _refuses(EnvelopeError, core_envelope.encode_payload, *parts)
    given = core_envelope.encode_payload(*parts)
    assert given[:20] == struct.pack(">BBHqq", 1, flags, *numbers[1:])
    assert _payload_parts(given) == _model_of_payload(given) == (*parts[:-2], tuple(asked), state)
    return None


# ---- request state ----


def _situation(source: Source, dice: int) -> Situation:
    id_text = text(source)
    request_id = source.number(2) - 8 if dice & 1 else "".join(c for c in id_text if not "\ud800" <= c <= "\udfff")
    wide = dice & 2 == 0
    return Situation(
        digests=source.take(112).ljust(112, b"\0"),
        request_id=request_id,
        parameters=None if dice & 12 == 12 else source.take(32).ljust(32, b"\0"),
        bind_principal=dice & 16 == 0,
        now_ms=int.from_bytes(source.take(8), "big", signed=True) if dice & 32 else source.number(4),
        lifetime_ms=1 + (source.number(8) >> 1) % ((1 << 63) - 1) if dice & 64 else 1 + source.number(4),
        rounds=1 + source.number(2) % 65_535,
        replayed=dice & 128 != 0,
        maximum_size=1 << 20 if wide else source.number(2) % 1_024,
        maximum_state=1 << 20 if wide else 1 + source.byte(),
    )


def open_payload(data: bytes) -> None:
    """A payload opens for a request as its twin says, or is refused for the first thing that does not hold."""
    source = Source(data)
    situation = _situation(source, source.byte())
    dice = source.byte()
    given = source.rest()
    parts = twin_state.decode(given)
    # The engine cannot guess a hash, nor will it copy a binding: what bits choose is made to hold.
    if parts is not None:
        issued = situation.now_ms - _about_the_skew(parts.issued_ms) if dice & 8 else parts.issued_ms
        parts = parts._replace(
            bindings=situation.bound if dice & 1 else parts.bindings,
            parameter_digest=(dice & 2 and situation.parameters) or parts.parameter_digest,
            request_id_hash=situation.id_hash if dice & 4 else parts.request_id_hash,
            issued_ms=max(-(1 << 63), min(issued, (1 << 63) - 1)),
            expires_ms=min(issued + situation.lifetime_ms, (1 << 63) - 1) if dice & 16 else parts.expires_ms,
            flags=parts.flags & 1 | situation.replayed << 1 if dice & 32 else parts.flags,
        )
        given = twin_state.encode(parts)
    opens_alike(given, situation)


def _about_the_skew(value: int) -> int:
    """A time as a difference about the skew that is allowed."""
    return value % 262_144 - 131_072


def next_payload(data: bytes) -> None:
    """An ask is sealed as its twin seals it, or refused as there. It opens for the next request, goes on, and
    does not open for the request that emitted it."""
    source = Source(data)
    dice = source.byte()
    situation = _situation(source, dice & ~12)
    later = source.number(4)
    flow_id = source.take(16).ljust(16, b"\0")
    asked = {}
    for _ in range(source.byte() % 6):
        key = "".join(c for c in text(source) if not "\ud800" <= c <= "\udfff")
        asked[key] = (1 + source.byte() % 4, source.take(16).ljust(16, b"\0"))
    has_state = bool(dice & 8)
    state, _ = outcome(core.parse_state, source.rest(), *WIDEST) if has_state else (None, None)
    sealed = goes_on_alike(situation, None, flow_id, asked, has_state, state)
    if sealed is None:
        return
    assert opens_alike(sealed, situation) is None
    retry = replace(
        situation, request_id=f"second {situation.request_id}", now_ms=min(situation.now_ms + later, (1 << 63) - 1)
    )
    opened = opens_alike(sealed, retry)
    if opened is None:
        assert retry.now_ms >= situation.now_ms + situation.lifetime_ms
        return
    assert opened.flow_id == flow_id
    assert opened.asked == asked
    again = goes_on_alike(retry, opened, b"", asked, has_state, opened.state)
    if again is not None:
        assert again[198:] == sealed[198:]
        third = opens_alike(again, replace(retry, request_id=f"third {situation.request_id}"))
        assert third is not None
        assert third.round == 2


TARGETS: Final[dict[str, Target]] = {
    function.__name__: function
    for function in (
        *(parse, parse_state, canonical_raw, params_digest, message_digest, large, buffers),
        *(dump, canonical_bytes, canonical_number, token, payload, open_payload, next_payload),
    )
}
"""Every target by its name."""
