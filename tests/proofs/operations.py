"""What the proofs call: every function of the core, with inputs that reach its branches.

Each call has one right outcome, a value or an error of the library, which is found once without any disturbance.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import repeat
from operator import methodcaller
from typing import Any, Final, NamedTuple

import msgspec

from mcpinput._core import canonical, digest, dump, envelope, parse, state
from mcpinput.json import Limits


class Call(NamedTuple):
    """One call of the core.

    Attributes:
        name: Function, and which input.
        function: What is called, without arguments.
    """

    name: str
    function: Callable[[], object]


def outcome(result: object) -> object:
    """A value or an exception as something that can be compared and holds no references to frames."""
    if isinstance(result, BaseException):
        return (type(result).__name__, getattr(result, "kind", None), str(result))
    if isinstance(result, envelope.Payload):
        return tuple(getattr(result, name) for name in PAYLOAD_FIELDS)
    if isinstance(result, state.OpenedState):
        return (outcome(result.payload), result.state, result.key_id, result.age_ms, result.flow_id, result.asked)
    if isinstance(result, state.Terms):
        return (result.lifetime_ms, result.rounds, result.replayed)
    if isinstance(result, state.Call):
        return result.request_id
    return result


PAYLOAD_FIELDS: Final = (
    *("flags", "round", "issued_ms", "expires_ms", "flow_id", "bindings", "parameter_digest", "request_id_hash"),
    *("asked", "state"),
)


# ---- texts ----

REQUEST: Final = (
    b'{"name":"refund","arguments":{"order":"A-10294","lines":[1,4],"amount":129.950,"why":"\xc3\xa9\\n\\u00e9\\ud83d\\ude00"'
    b',"more":[true,false,null,{},[],-0.0,1e3,12345678901234567890]},"inputResponses":{"k":{"action":"accept"}},'
    b'"_meta":{"progressToken":7,"b":{"y":1,"x":2},"a":[{"d":1,"c":2},{"d":3,"c":4}]}}'
)
"""One params object with a bit of everything, not in canonical order."""


def texts() -> dict[str, bytes]:
    """Texts that are accepted, small enough to be read many times."""
    rows = b",".join(b'{"b":%d,"a":"x%d","c":[%d]}' % (i, i, i) for i in range(40))
    return {
        "literals": b"[null,true,false]",
        "white space": b" \n[ 1 , 2 ]\t\r",
        "request": REQUEST,
        "string": b'"plain"',
        "string of escapes": b'"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u001f"',
        "string of UTF-8": '"é€😀"'.encode(),
        "string of both": '"é\\u20ac\\ud83d\\ude00"'.encode(),
        "long string": b'"' + b"x" * 5_000 + b'"',
        "long string of escapes": b'"' + b"\\u00e9" * 1_000 + b'"',
        "ints": b"[0,-0,7,-1,256,257,9223372036854775807,9223372036854775808,-9223372036854775809]",
        "long ints": b"[" + b"7" * 512 + b"," + b"7" * 513 + b"," + b"8" * 1024 + b",-" + b"9" * 1023 + b"]",
        "decimals": b"[0.0,-0.0,1.50,-2.5e-7,1e400,0.000001,-0e3]",
        "long decimals": b"[0." + b"7" * 1022 + b",1e10000," + b"3" * 1000 + b".5e-9000]",
        "many items": b"[" + b",".join([b"1"] * 300) + b"]",
        "many values": b"[" + b",".join([b"1.5"] * 150) + b"]",
        "many members": b"{" + b",".join(b'"n%d":%d' % (i * 37 % 101, i) for i in range(101)) + b"}",
        "many escaped members": b"{" + b",".join(b'"\\u006e%d":%d' % (i * 37 % 101, i) for i in range(101)) + b"}",
        "members in UTF-16 order": '{"\ufb33":1,"😀":2,"z":3,"":4}'.encode(),
        "rows": b'{"rows":[' + rows + b"]}",
        "deep": b'{"a":[' * 60 + b"0" + b"]}" * 60,
    }


def large_texts() -> dict[str, bytes]:
    """Accepted texts of few values, long enough for the lock to be given up and for several chunks."""
    return {
        "over the release of the lock": b'{"a":"' + b"x" * 300_000 + b'"}',
        "over one chunk": b'{"b":"' + b"x" * 1_100_000 + b'","a":"\\u00e9' + b"y" * 10_000 + b'"}',
    }


def wrong_texts() -> dict[str, bytes]:
    """Texts that are refused, each for another reason or at another place."""
    return {
        "nothing": b"",
        "cut off": b'{"a":[1,{"b":"c',
        "cut off in an array": b"[1,2,[3.5",
        "no value": b'{"a":[1,{"b":x}]}',
        "no comma": b'[[1,2],{"a":[1 2]}]',
        "no colon": b'{"a":[1],"b" 2}',
        "no name": b'{"a":[1],2}',
        "wrong closer": b'{"a":[1.5,"x"}',
        "something after": b'{"a":[1.5]} x',
        "byte order mark": b"\xef\xbb\xbf{}",
        "duplicate": b'{"a":[1.5],"b":{"c":1,"\\u0063":2}}',
        "duplicate among many": b"{" + b",".join(b'"n%d":0' % (i * 37 % 100) for i in range(101)) + b"}",
        "control character": b'{"a":[1.5,"x\ny"]}',
        "no UTF-8": b'{"a":[1.5,"x\xff"]}',
        "escape": b'{"a":[1.5,"x\\q"]}',
        "surrogate": b'{"a":[1.5,"\\ud800"]}',
        "long number": b'{"a":[1.5,' + b"1" * 1_025 + b"]}",
        "large exponent": b'{"a":[1.5,1e10001]}',
        "too deep": b'{"a":' * 257,
        "literal": b'{"a":[1.5,nulx]}',
    }


# ---- values ----


class Shade(enum.Enum):
    """An enum of a text."""

    DARK = "dark"


class Level(enum.IntEnum):
    """An enum of ints."""

    HIGH = 1_000


@dataclass
class Point:
    """A dataclass."""

    x: Any
    y: Any


class Item(msgspec.Struct):
    """A Struct."""

    name: str
    count: int = 1


class Name(str):
    """A text of another type."""

    __slots__ = ()


def values() -> dict[str, Any]:
    """Values that are written."""
    return {
        "tree": parse.parse(REQUEST),
        "literals": [None, True, False, (), [], {}],
        "texts": ["", "plain", '"\\\n\x01', "é€😀", "x" * 5_000, "é" * 3_000, "\n" * 3_000],
        "ints": [0, -1, 255, 2**63 - 1, 2**63, -(2**64), 10**600, 10**1023],
        "decimals": [Decimal(text) for text in ("0.0", "-0.0", "1.50", "1E+400", "1E-10000", "1." + "7" * 1000)],
        "records": [Shade.DARK, Level.HIGH, Item("pen"), Name("name")],
        "names": {Name("b"): 1, "a": 2, "é": 3, "\ufb33": 4, "😀": 5},
        "many members": {f"n{i * 37 % 101}": i for i in range(101)},
        "deep": parse.parse(texts()["deep"]),
    }


def wrong_values() -> dict[str, Any]:
    """Values that are refused, after something that has been written already."""
    before = {"a": [1, "é\n", Decimal("2.50"), 10**30]}
    cycle: list[Any] = [before]
    cycle.append(cycle)
    wrong = {
        "type": object(),
        "name": {1: 2},
        "surrogate": "x\ud800",
        "not a number": Decimal("NaN"),
        "infinite": float("inf"),
        "long int": 10**1024,
        "long decimal": Decimal("1" * 1025),
        "exponent": Decimal("1E+10001"),
    }
    return {name: [before, {"b": value}] for name, value in wrong.items()} | {"cycle": cycle}


def values_by_code() -> dict[str, Any]:
    """Values for whose writing code of the standard library runs, in the interpreter."""
    return {"dataclasses": [Point(1, [Point("é", None)])]}


# ---- calls ----

# Everything is called straight from C: see calls().
WIDE: Final = Limits(body_bytes=16 << 20, response_bytes=64 << 20)
NARROW: Final = (
    Limits(depth=3),
    Limits(nodes=9),
    Limits(string_bytes=6),
    Limits(body_bytes=9, response_bytes=99, canonical_bytes=99),
    Limits(canonical_bytes=99),
)

PARTS: Final = (1, 2, 1_000, 2_000, bytes(16), bytes(range(112)), bytes(32), bytes(16))
STATE: Final = b'{"step":1E+1}'
ASKED: Final = (("approval", 1, bytes(16)), ("é", 4, bytes(range(16))))


def parse_calls() -> Iterator[Call]:
    """Readers that make trees."""
    for name, text in {**texts(), **wrong_texts(), **large_texts()}.items():
        yield Call(f"parse, {name}", partial(parse.parse, text, limits=WIDE))
        yield Call(f"parse_state, {name}", partial(parse.parse_state, text, limits=WIDE))
    yield Call("parse, bytearray", partial(parse.parse, bytearray(REQUEST)))
    yield Call("parse, every second byte", partial(parse.parse, memoryview(b"[x1x]x")[::2]))
    for limits in NARROW:
        yield Call(f"parse, {limits}", partial(parse.parse, REQUEST, limits=limits))


def dump_calls_of(written: dict[str, Any]) -> Iterator[Call]:
    """Every writer, with each of these values."""
    for name, value in written.items():
        params = {"v": value, "_meta": {"b": 1}}
        yield Call(f"dump, {name}", partial(dump.dump, value, limits=WIDE))
        yield Call(f"canonical_bytes, {name}", partial(canonical.canonical_bytes, value, floats="repr", limits=WIDE))
        yield Call(f"parameter_digest of a tree, {name}", partial(digest.parameter_digest, params, limits=WIDE))


def dump_calls() -> Iterator[Call]:
    """Writers of trees."""
    yield from dump_calls_of({**values(), **wrong_values()})
    yield Call("dump, floats", partial(dump.dump, [0.1, -0.0, 1e300, 5e-324]))
    yield Call("canonical_bytes, float", partial(canonical.canonical_bytes, [0.1]))
    tree = values()["tree"]
    for limits in NARROW:
        yield Call(f"dump, {limits}", partial(dump.dump, tree, limits=limits))
        yield Call(f"canonical_bytes, {limits}", partial(canonical.canonical_bytes, tree, limits=limits))
    for number in (100, 10**700, Decimal("1.50"), 0.5, Decimal("NaN")):
        yield Call(f"canonical_number, {type(number).__name__}", partial(canonical.canonical_number, number))


def digest_calls() -> Iterator[Call]:
    """What works on bytes without a tree."""
    for name, text in {**texts(), **wrong_texts(), **large_texts()}.items():
        params = b'{"v":' + text + b',"_meta":{"baggage":1}}'
        message = b'{"id":1,"params":' + params + b"}"
        yield Call(f"canonical_raw, {name}", partial(digest.canonical_raw, text, limits=WIDE))
        yield Call(f"parameter_digest, {name}", partial(digest.parameter_digest, params, limits=WIDE))
        yield Call(f"message_digest, {name}", partial(digest.message_digest, message, limits=WIDE))
    yield Call("parameter_digest, request", partial(digest.parameter_digest, REQUEST))
    yield Call("parameter_digest, no object", partial(digest.parameter_digest, b"[]"))
    yield Call("canonical_raw, many chunks", partial(digest._in_chunks, REQUEST, 7, False))
    yield Call("parameter_digest, many chunks", partial(digest._in_chunks, REQUEST, 7, True))
    for limits in NARROW:
        yield Call(f"canonical_raw, {limits}", partial(digest.canonical_raw, REQUEST, limits=limits))


def envelope_calls() -> Iterator[Call]:
    """Tokens and payloads, both ways, good and bad."""
    header = envelope.encode_header("key-1", bytes(24))
    token = envelope.encode_token(header, bytes(100))
    payload = envelope.encode_payload(*PARTS, ASKED, STATE)
    yield Call("base64url_encode", partial(envelope.base64url_encode, bytes(1_000)))
    yield Call("base64url_decode", partial(envelope.base64url_decode, "QUJD" * 300))
    yield Call("base64url_decode, foreign", partial(envelope.base64url_decode, "QUJD" * 300 + "="))
    yield Call("field", partial(envelope.field, "é" * 300))
    yield Call("field, surrogate", partial(envelope.field, "\ud800"))
    yield Call("binding", partial(envelope.binding, "customers"))
    for request_id in (7, -(10**1000), "é"):
        yield Call(f"request_id_hash, {type(request_id).__name__}", partial(envelope.request_id_hash, request_id))
    yield Call("encode_header", partial(envelope.encode_header, "key-1", bytes(24)))
    yield Call("encode_header, bad id", partial(envelope.encode_header, "key 1", bytes(24)))
    yield Call("encode_token", partial(envelope.encode_token, header, bytes(1_000)))
    yield Call("decode_token", partial(envelope.decode_token, token))
    yield Call("decode_token, cut", partial(envelope.decode_token, token[:40]))
    for asked in (ASKED, (("a", 9, bytes(16)),), (("a", 1, b"short"),), (*ASKED, *ASKED), (("\ud800", 1, bytes(16)),)):
        yield Call(f"encode_payload, {len(asked)}", partial(envelope.encode_payload, *PARTS, asked, STATE))
    yield Call("decode_payload", partial(envelope.decode_payload, payload))
    yield Call("decode_payload, bytearray", partial(envelope.decode_payload, bytearray(payload)))
    yield Call("decode_payload, cut", partial(envelope.decode_payload, payload[:230]))


class Bindings:
    """Bindings whose digests are known."""

    # A function in C: frames of the interpreter are none of the core's.
    digests = staticmethod(partial(bytes, 112))


def no_parameters() -> Any:
    """A function in C that raises a JsonError."""
    return partial(parse.parse, b"[")


def call(request_id: int | str, digest: Any = None) -> tuple[Any, ...]:
    """What a request is: arguments of Call."""
    return Bindings(), request_id, digest or partial(bytes, 32)


def each(function: Callable[..., Any], *given: Any) -> Callable[[], Any]:
    """A call with these arguments, in C; of a tuple of arguments of Call a new one is made each time."""
    fresh = (map(state.Call, *map(repeat, part)) if type(part) is tuple else repeat(part) for part in given)
    return partial(next, map(function, *fresh))


def sealed_by(request_id: int | str, **changes: Any) -> Callable[[], Any]:
    """The making of a payload of an ask."""
    given: dict[str, Any] = {
        "call": call(request_id),
        "bind_principal": True,
        "previous": None,
        "flow_id": bytes(16),
        "asked": {"approval": (1, bytes(16)), "é": (4, bytes(16))},
        "has_state": True,
        "state": {"step": 10, "of": ["é", None]},
        "now_ms": 1_000,
        "terms": TERMS,
        "limits": WIDE,
        "maximum_size": 1 << 20,
        **changes,
    }
    return each(state.next_payload, *given.values())


def opened_by(payload: bytes, **changes: Any) -> Callable[[], Any]:
    """The opening of a payload, for a retry."""
    given: dict[str, Any] = {
        "data": payload,
        "key_id": "key-1",
        "call": call("retry"),
        "bind_principal": True,
        "now_ms": 2_000,
        "terms": TERMS,
        "limits": WIDE,
        "maximum_size": 1 << 20,
        **changes,
    }
    return each(state.open_payload, *given.values())


TERMS: Final = state.Terms(60_000, 3)


def changed(payload: bytes, at: int, part: bytes) -> bytes:
    """A payload with other bytes at a place."""
    return payload[:at] + part + payload[at + len(part) :]


def state_calls() -> Iterator[Call]:
    """Opening and sealing, good and bad. A new request for each, so that its parts are computed."""
    payload = sealed_by(1)()
    previous = opened_by(payload)()
    yield Call("Call", partial(state.Call, *call(5_000)))
    for name in ("parameter_digest", "binding_digests", "request_id_hash"):
        yield Call(f"Call.{name}", each(methodcaller(name), call(5_000)))
    for name, arguments in {"Terms": (1, 2), "Terms, no lifetime": (0, 1), "Terms, no rounds": (1, 0)}.items():
        yield Call(name, partial(state.Terms, *arguments))
    payloads = {
        "good": payload,
        "without state": sealed_by(1, has_state=False, state=None)(),
        "cut": payload[:230],
        "round": changed(payload, 2, b"\0\0"),
        "lifetime": changed(payload, 4, bytes(8)),
        "flow": changed(payload, 20, b"another"),
        "binding": changed(payload, 40, b"x"),
        "digest": changed(payload, 150, b"x"),
        "no JSON": payload + b"x",
    }
    for name, data in payloads.items():
        yield Call(f"open_payload, {name}", opened_by(data))
    refused: dict[str, dict[str, Any]] = {
        "expired": {"now_ms": 99_000},
        "future": {"now_ms": -99_000},
        "too large": {"maximum_size": 99},
        "no principal": {"bind_principal": False},
        "kind": {"terms": state.Terms(60_000, 3, True)},
        "own id": {"call": call(1)},
    }
    for name, changes in refused.items():
        yield Call(f"open_payload, {name}", opened_by(payload, **changes))
    for name, changes in {
        "first": {},
        "next": {"previous": previous},
        "no principal": {"bind_principal": False},
        "no state": {"has_state": False, "state": None},
        "round": {"previous": previous, "terms": state.Terms(60_000, 1)},
        "expired": {"previous": previous, "now_ms": 99_000},
        "overflow": {"now_ms": 2**63 - 1},
        "too large": {"maximum_size": 250},
        "state too large": {"limits": NARROW[-2], "state": "x" * 200},
        "wrong state": {"state": [1, object()]},
        "wrong kind": {"asked": {"a": (9, bytes(16))}},
        "wrong key": {"asked": {"a": (1, bytes(16)), "\ud800": (1, bytes(16))}},
        "no parameters": {"call": call(7, no_parameters())},
    }.items():
        yield Call(f"next_payload, {name}", sealed_by(2, **changes))


def calls() -> list[Call]:
    """Every call that runs in C from its first step to its last, but for the making of errors.

    Out of memory, the interpreter has faults of its own: CPython 3.11 may lose the exception with a frame, and 3.12 and
    3.13 crash where a generator is made.
    """
    return [*parse_calls(), *dump_calls(), *digest_calls(), *envelope_calls(), *state_calls()]


def calls_by_code() -> list[Call]:
    """The calls that do not."""
    opening = opened_by(sealed_by(1)(), call=call(7, no_parameters()))
    return [*dump_calls_of(values_by_code()), Call("open_payload, no parameters", opening)]
