"""Compact serialise: what is written and how, what is refused, and that hostile values break nothing."""

from __future__ import annotations

import dataclasses
import decimal
import enum
import gc
import json
import random
import sys
import threading
import types
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, ClassVar

import msgspec
import pytest

from mcpinput._core import dump as core
from mcpinput.errors import JsonErrorKind as Kind
from mcpinput.errors import JsonTypeError, JsonWriteError
from mcpinput.json import Limits, canonical_bytes

DEPTH, NODES, STRING, SIZE = 256, 1_000_000, 8 << 20, 4 << 20


def dump(value: Any, depth: int = DEPTH, nodes: int = NODES, string: int = STRING, size: int = SIZE) -> bytes:
    return core.dump(value, limits=Limits(depth, nodes, string, response_bytes=size))


def refusal(value: Any, *limits: int) -> JsonWriteError:
    with pytest.raises(JsonWriteError) as caught:
        dump(value, *limits)
    assert caught.value.offset is None
    return caught.value


def nested(depth: int, kind: type) -> Any:
    value: Any = kind()
    for _ in range(depth - 1):
        value = {"a": value} if kind is dict else kind([value])
    return value


@pytest.fixture
def int_digits() -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    yield
    sys.set_int_max_str_digits(before)


# ---- text ----


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        ([], "[]"),
        ({}, "{}"),
        ((), "[]"),
        ([1, True, None], "[1,true,null]"),
        ((1, (2,)), "[1,[2]]"),
        ({"b": [1, {"": {}}], "a": 1}, '{"b":[1,{"":{}}],"a":1}'),
        ("", '""'),
        ('"\\/\b\t\n\f\r\0\x0b\x1f\x7f', '"\\"\\\\/\\b\\t\\n\\f\\r\\u0000\\u000b\\u001f\x7f"'),
        ("\x80\u00e9\u0085\u2028\u2029\ufeff\uffff\U0001f600", '"\x80\u00e9\u0085\u2028\u2029\ufeff\uffff\U0001f600"'),
        ("0123456789abcdef\n0123456789abcdef\u00e9\n", '"0123456789abcdef\\n0123456789abcdef\u00e9\\n"'),
        ({'"\n\u00e9': 1}, '{"\\"\\n\u00e9":1}'),
        ("\n" * 5000, '"' + "\\n" * 5000 + '"'),
    ],
)
def test_text(value: Any, text: str) -> None:
    assert dump(value) == text.encode()


# A character of each kind that is not written as it is, or not as one byte, and fillers that make CPython keep the text
# in one, two and four bytes a character.
SPECIALS = '"\\\n\0\x1f\x80\xff\u07ff\u0800\u6f22\uffff\U0001f600\U0010ffff'
FILLERS = ["a", "\u00e9", "\u6f22", "\U0001f600", "a\u6f22", "a\U0001f600b"]


def spelled(text: str) -> bytes:
    """What the standard library writes of a text: its escapes are those of RFC 8785."""
    return json.dumps(text, ensure_ascii=False).encode()


@pytest.mark.parametrize("filler", FILLERS)
@pytest.mark.parametrize("special", SPECIALS, ids=ascii)
def test_text_with_a_special_character_anywhere(filler: str, special: str) -> None:
    lengths = [*range(1, 36), *range(47, 50), *range(62, 68), 80, 130]
    texts = []
    for length in lengths:
        text = (filler * length)[:length]
        texts += [text[:at] + special + text[at + 1 :] for at in range(length)]
    for text in texts:
        assert dump(text) == spelled(text)
    assert dump(texts) == b"[" + b",".join(map(spelled, texts)) + b"]"
    assert canonical_bytes(texts) == dump(texts)
    assert dump(dict.fromkeys(texts)) == b"{" + b",".join(spelled(t) + b":null" for t in dict.fromkeys(texts)) + b"}"


@pytest.mark.parametrize(
    "filler", ["a", "\u00e9", "\u6f22", "\U0001f600", "\n", "\x01", "a\n\u00e9", "a\n\u6f22\U0001f600"]
)
def test_long_text_of_every_length(filler: str) -> None:
    for length in [*range(250, 262), *range(508, 518), 1024, 4090, 4096, 9000]:
        text = (filler * length)[:length]
        assert dump(["x", text, text]) == b'["x",' + spelled(text) + b"," + spelled(text) + b"]"
        tail = text[:-1] + '"'
        assert dump(tail) == spelled(tail)


@pytest.mark.parametrize("filler", ["a", "\u00e9", "\u6f22", "\U0001f600"])
def test_a_surrogate_anywhere_is_found(filler: str) -> None:
    for length in (1, 2, 7, 8, 9, 17, 40, 257, 300):
        for at in {*range(min(length, 40)), length - 1}:
            for surrogate in "\ud800", "\udfff", "\ud83d\ude00":
                text = filler * at + surrogate + filler * (length - at - 1)
                assert refusal([text]).kind is Kind.SURROGATE
                assert refusal({text: 0}).kind is Kind.SURROGATE


# ---- numbers ----


@pytest.mark.parametrize(
    "number",
    [0, 7, -1, 10, 99, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**18, -(10**19), 10**600 + 1],
)
def test_ints_are_plain(number: int) -> None:
    assert dump(number) == str(number).encode()


def test_ints_of_every_length_are_plain() -> None:
    powers = [10**n for n in range(40)] + [2**n for n in range(130)]
    numbers = [sign * (power + step) for power in powers for step in (-1, 0, 1) for sign in (1, -1)]
    assert dump(numbers) == b"[" + ",".join(map(str, numbers)).encode() + b"]"
    assert [dump(number) for number in numbers] == [str(number).encode() for number in numbers]


def test_decimals_of_every_shape_are_their_own_text() -> None:
    digits = "9071250436801234567890123456789"
    numbers = [
        Decimal((sign, tuple(map(int, digits[first : first + length])), exponent))
        for sign in (0, 1)
        for first in (0, 1)
        for length in range(1, 25)
        for exponent in range(-30, 4)
    ]
    texts = [str(number if number else abs(number)) for number in numbers]
    assert dump(numbers) == b"[" + ",".join(texts).encode() + b"]"
    assert [dump(number) for number in numbers] == [text.encode() for text in texts]


@pytest.mark.parametrize("digits", [511, 512, 513, 640, 641, 1024])
@pytest.mark.usefixtures("int_digits")
def test_long_ints_are_written_whatever_the_process_allows(digits: int) -> None:
    for number, text in (
        (10 ** (digits - 1), "1" + "0" * (digits - 1)),
        (10**digits - 1, "9" * digits),
        (7 * 10 ** (digits - 1) + 5, "7" + "0" * (digits - 2) + "5"),
    ):
        assert dump(number) == text.encode()
        assert dump(-number) == b"-" + text.encode()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("3.50", "3.50"),
        ("-3.50", "-3.50"),
        ("1E+2", "1E+2"),
        ("100", "100"),
        ("1E-7", "1E-7"),
        ("0.000001", "0.000001"),
        ("-0.0", "0.0"),
        ("-0", "0"),
        ("-0E+9", "0E+9"),
        ("-0E-9", "0E-9"),
        ("1E+10000", "1E+10000"),
        ("1E-10000", "1E-10000"),
        ("-9." + "8" * 1023 + "E-10000", "-9." + "8" * 1023 + "E-10000"),
        ("-0.000001" + "0" * 1023, "-0.000001" + "0" * 1023),
    ],
)
def test_decimals_keep_their_scale_and_never_grow(number: str, text: str) -> None:
    assert dump(Decimal(number)) == text.encode()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "0.0"),
        (1.0, "1.0"),
        (-2.5, "-2.5"),
        (0.1, "0.1"),
        (0.0001, "0.0001"),
        (0.00001, "0.00001"),
        (1e-7, "1E-7"),
        (1e15, "1000000000000000.0"),
        (1e16, "1E+16"),
        (12345678901234568.0, "12345678901234568"),
        (1.5e300, "1.5E+300"),
        (5e-324, "5E-324"),
    ],
)
def test_floats_are_the_decimal_of_their_repr(number: float, text: str) -> None:
    assert dump(number) == text.encode()
    assert text.encode() == dump(Decimal(repr(number)))


def test_numbers_do_not_depend_on_the_context() -> None:
    values = [Decimal("1.23456789012345678901234567890123456789"), Decimal("1E+30"), 1e30, 10**40, Decimal("-0.0")]
    expected = dump(values)
    hostile = decimal.Context(prec=1, Emin=0, Emax=0, capitals=0, traps=list(decimal.Context().flags))
    with decimal.localcontext(hostile):
        assert dump(values) == expected
    assert b"e" not in expected


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (10**1024, Kind.NUMBER_SIZE),
        (-(10**1024), Kind.NUMBER_SIZE),
        (10**5000, Kind.NUMBER_SIZE),
        (1 << 1_000_000, Kind.NUMBER_SIZE),
        (Decimal("1" * 1025), Kind.NUMBER_SIZE),
        (Decimal("1." + "0" * 1024), Kind.NUMBER_SIZE),
        (Decimal("1" * 100_000), Kind.NUMBER_SIZE),
        (Decimal("1E+10001"), Kind.EXPONENT),
        (Decimal("12E+10000"), Kind.EXPONENT),
        (Decimal("1E-10001"), Kind.EXPONENT),
        (Decimal("0E+10001"), Kind.EXPONENT),
        (Decimal("0E-10001"), Kind.EXPONENT),
        (Decimal("9E+999999999999999999"), Kind.EXPONENT),
        *((Decimal(text), Kind.NOT_FINITE) for text in ("NaN", "-NaN123", "sNaN", "-sNaN7", "Infinity", "-Infinity")),
        *((float(text), Kind.NOT_FINITE) for text in ("nan", "inf", "-inf")),
    ],
    ids=lambda value: type(value).__name__,  # pytest would show the digits
)
def test_numbers_that_are_refused(number: Any, kind: Kind) -> None:
    error = refusal({"a": [number]})
    assert error.kind is kind
    assert error.limit == {Kind.NUMBER_SIZE: 1024, Kind.EXPONENT: 10_000}.get(kind)
    assert not isinstance(error, TypeError)


# ---- types ----


class Colour(enum.Enum):
    RED = "red"
    NONE = None
    LIST = [1, "2"]  # noqa: RUF012 - the member is the point


class Alias(enum.Enum):
    OF = Colour.RED


class Number(enum.IntEnum):
    TWO = 2


class Name(enum.StrEnum):
    A = "a"


class Flags(enum.IntFlag):
    X = 4


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 2
    kind: ClassVar[str] = "point"
    start: dataclasses.InitVar[int] = 0


@dataclasses.dataclass(slots=True)
class Slotted:
    a: Any


class Renamed(msgspec.Struct, rename="camel"):
    first_name: str
    maybe: int | msgspec.UnsetType = msgspec.UNSET
    last: Any = None


class Tagged(msgspec.Struct, tag=True):
    a: int


class Row(msgspec.Struct, array_like=True, tag="row"):
    a: int
    b: str


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Colour.RED, '"red"'),
        (Colour.NONE, "null"),
        (Colour.LIST, '[1,"2"]'),
        (Alias.OF, '"red"'),
        (Number.TWO, "2"),
        (Name.A, '"a"'),
        (Flags.X, "4"),
        ({Name.A: Number.TWO}, '{"a":2}'),
        (Point(1), '{"x":1,"y":2}'),
        (Point(Colour.RED, Point([])), '{"x":"red","y":{"x":[],"y":2}}'),
        (Point(msgspec.UNSET), '{"y":2}'),
        (Slotted("s"), '{"a":"s"}'),
        (Renamed("n"), '{"firstName":"n","last":null}'),
        (Renamed("n", 3, Point(0)), '{"firstName":"n","maybe":3,"last":{"x":0,"y":2}}'),
        (Tagged(1), '{"type":"Tagged","a":1}'),
        (Row(1, "x"), '["row",1,"x"]'),
        (Pair(1, [2]), "[1,[2]]"),
        (defaultdict(list, {"a": [1]}), '{"a":[1]}'),
        ([1, {"a": (Point(1), "é")}, Decimal("1.0")], '[1,{"a":[{"x":1,"y":2},"é"]},1.0]'),
    ],
)
def test_values_that_have_a_form(value: Any, text: str) -> None:
    assert dump(value) == text.encode()


@pytest.mark.parametrize("value", [Renamed("n", 3, ["x"]), Tagged(1), Row(1, "x"), Colour.LIST, Point(1, "é")])
def test_structs_and_their_like_are_written_as_msgspec_writes_them(value: Any) -> None:
    assert dump(value) == msgspec.json.encode(value)


def test_an_ordered_dict_keeps_its_own_order() -> None:
    value = OrderedDict(a=1, b=2, c=3)
    value.move_to_end("a")
    assert dump([value]) == b'[{"b":2,"c":3,"a":1}]'


@pytest.mark.parametrize(
    "value",
    [
        b"x",
        bytearray(b"x"),
        {1},
        1j,
        object(),
        object,
        Point,
        Renamed,
        Colour,
        range(3),
        types.MappingProxyType({}),
        iter([]),
        {}.keys(),
        msgspec.UNSET,
        Row(1, msgspec.UNSET),  # type: ignore[arg-type]
        NotImplemented,
        ...,
    ],
)
def test_values_that_have_none(value: Any) -> None:
    error = refusal({"a": [value]})
    assert isinstance(error, JsonTypeError)
    assert isinstance(error, TypeError)
    assert error.kind is Kind.TYPE


@pytest.mark.parametrize("key", [1, None, True, b"a", 1.5, (), Colour.RED])
def test_names_are_str(key: Any) -> None:
    error = refusal([{"a": 1, key: 1}])
    assert isinstance(error, JsonTypeError)
    assert error.kind is Kind.KEY
    assert type(key).__name__ in str(error)


def test_messages_name_the_type_and_never_the_value() -> None:
    class Vault:
        def __repr__(self) -> str:
            return "secret"

    assert "Vault" in str(refusal(Vault()))
    for value in (Vault(), {Vault(): 1}, "secret\ud800", {"secret": Decimal("NaN")}, [b"secret"]):
        assert "secret" not in str(refusal(value))


def test_a_field_without_a_value_is_named() -> None:
    @dataclasses.dataclass
    class Later:
        now: int
        later: int = dataclasses.field(init=False)

    error = refusal(Later(1))
    assert error.kind is Kind.TYPE
    assert "later" in str(error)


# ---- surrogates ----


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\ud83d\ude00", "é\udc80"])
def test_surrogates_are_refused(text: str) -> None:
    for value in (text, [text], {text: 1}):
        error = refusal(value)
        assert error.kind is Kind.SURROGATE
        assert error.__cause__ is None
        assert error.__context__ is None


# ---- limits ----


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_depth(kind: type) -> None:
    assert dump(nested(256, kind))
    error = refusal(nested(257, kind))
    assert (error.kind, error.limit) == (Kind.DEPTH, 256)
    assert refusal(nested(3, kind), 2).limit == 2
    assert refusal(nested(100_000, kind)).kind is Kind.DEPTH


def test_enums_and_dataclasses_take_no_depth_of_their_own() -> None:
    assert dump([[Alias.OF]], depth=2) == b'[["red"]]'
    assert dump([Point(1)], depth=2) == b'[{"x":1,"y":2}]'
    assert refusal([[Point(1)]], 2).kind is Kind.DEPTH


def test_cycles_end() -> None:
    array: list[Any] = []
    array.append(array)
    mapping: dict[str, Any] = {}
    mapping["a"] = [mapping]
    point = Point(0)
    point.x = point
    for value in (array, mapping, point):
        assert refusal(value).kind is Kind.DEPTH


def test_an_enum_member_that_is_its_own_value_ends() -> None:
    class Loop(enum.Enum):
        A = 1

        @property
        def value(self) -> Any:
            return self

    assert refusal(Loop.A).kind is Kind.TYPE


def test_nodes_are_values_and_not_names() -> None:
    value = {"a": [1, Colour.RED], "b": {}}
    assert dump(value, nodes=5)
    error = refusal(value, DEPTH, 4)
    assert (error.kind, error.limit) == (Kind.NODES, 4)
    assert dump([Point(1)], nodes=4)
    assert refusal([Point(1)], DEPTH, 3).kind is Kind.NODES
    assert refusal([0] * NODES).kind is Kind.NODES


@pytest.mark.parametrize("text", ["abcd", "éé", "a\u20ac", "\U0001f600", "\n\n\n\n"])
def test_strings_are_measured_in_utf8(text: str) -> None:
    for value in (text, {text: 0}):
        assert dump(value, string=4)
        error = refusal(value, DEPTH, NODES, 3)
        assert (error.kind, error.limit) == (Kind.STRING, 3)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        123,
        -(10**18),
        10**30,
        1.5,
        Decimal("1.50"),
        Decimal("-0.00"),
        Decimal("1.50E+30"),
        "a\nb",
        "\u00e9\u00e9\n",
        "\u6f22" * 10,
        "\x01" * 300,
        "\u00e9" * 700,
        "\u6f22\n" * 700,
        "\U0001f600a" * 700,
        {"a": 1},
        {"\u00e9": [], "b": {}},
        [[1, 2], 3],
        [[], [[]], {}],
        "x" * 10_000,
        ["x" * 4093],
        ["x" * 4080, 7, "\n" * 20],
    ],
)
def test_the_output_limit_is_exact(value: Any) -> None:
    text = dump(value)
    assert dump(value, size=len(text)) == text
    for size in range(max(len(text) - 30, 1), len(text)):
        error = refusal(value, DEPTH, NODES, STRING, size)
        assert (error.kind, error.limit) == (Kind.SIZE, size)
        assert str(size) in str(error)


# ---- hostile values ----


class LyingDict(dict[str, Any]):
    def items(self) -> Any:
        raise AssertionError

    keys = values = __iter__ = __len__ = __getitem__ = __contains__ = items  # type: ignore[assignment]


class LyingList(list[Any]):
    def __iter__(self) -> Any:
        raise AssertionError

    __len__ = __getitem__ = __iter__  # type: ignore[assignment]


class LyingInt(int):
    def __str__(self) -> str:
        raise AssertionError

    __repr__ = __format__ = __str__  # type: ignore[assignment]
    __index__ = __int__ = __abs__ = __neg__ = __floordiv__ = __mod__ = __str__  # type: ignore[assignment]
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __hash__ = __str__  # type: ignore[assignment]
    __rfloordiv__ = __rmod__ = __bool__ = __str__  # type: ignore[assignment]


class LyingStr(str):
    def __str__(self) -> str:
        raise AssertionError

    __len__ = __iter__ = encode = __getitem__ = __str__  # type: ignore[assignment]


class LyingFloat(float):
    def __repr__(self) -> str:
        raise AssertionError

    __float__ = __str__ = __eq__ = __hash__ = __repr__  # type: ignore[assignment]


class LyingDecimal(Decimal):
    def __str__(self) -> str:
        return '1,"injected":true'

    __repr__ = __format__ = __str__  # type: ignore[assignment]


def test_subclasses_are_taken_by_what_they_hold() -> None:
    value = LyingDict(a=LyingList([1]), b=LyingInt(5), c=LyingStr("é"), d=LyingFloat(2.5), e=LyingDecimal("1.0"))
    assert dump(value) == '{"a":[1],"b":5,"c":"é","d":2.5,"e":1.0}'.encode()
    assert dump(LyingInt(-(10**700))) == b"-1" + b"0" * 700
    assert refusal(LyingInt(10**1024)).kind is Kind.NUMBER_SIZE
    assert dump({LyingStr("k"): 0}) == b'{"k":0}'


def test_a_type_cannot_lie_about_its_name() -> None:
    class Meta(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override]
            raise AssertionError

    class Odd(metaclass=Meta):
        pass

    assert "Odd" in str(refusal(Odd()))


def test_names_that_are_the_same_text_are_refused() -> None:
    class Unequal(str):
        __slots__ = ()
        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            return self is other

    assert refusal({Unequal("a"): 1, Unequal("a"): 2}).kind is Kind.DUPLICATE
    assert dump({Unequal("a"): 1, Unequal("b"): 2}) == b'{"a":1,"b":2}'


def test_code_that_runs_while_writing_cannot_change_what_is_written() -> None:
    tree: dict[str, Any] = {}
    items: list[Any] = []

    @dataclasses.dataclass
    class Meddler:
        a: int = 1

        def __getattribute__(self, name: str) -> Any:
            tree.clear()
            tree.update({"b": object(), "x": object()})
            items.clear()
            return 1

    tree.update({"b": 1, "c": Meddler(), "d": [2], "e": "last"})
    assert dump(tree) == b'{"b":1,"c":{"a":1},"d":[2],"e":"last"}'
    items.extend([Meddler(), [2] * 5, object()])
    assert dump(items) == b'[{"a":1}]'


@pytest.mark.parametrize("write", [dump, canonical_bytes])
def test_code_that_changes_every_container_meanwhile_does_no_harm(write: Any) -> None:
    dice = random.Random(7)

    class Meddler(enum.Enum):
        A = 1

        @property
        def value(self) -> Any:
            for _ in range(3):
                place = dice.choice(containers)
                if isinstance(place, dict):
                    place.clear()
                    place.update({f"n{dice.random()}": [str(dice.random()), 5] for _ in range(dice.randrange(3))})
                else:
                    place[:] = [{"m": "x" * dice.randrange(40)} for _ in range(dice.randrange(3))]
            return dice.choice([1, "v", [Meddler.A] if dice.random() < 0.3 else [], {"k": "v" * 30}])

    for _ in range(100):
        containers: list[Any] = [[] for _ in range(4)] + [{} for _ in range(4)]
        tree: list[Any] = [*containers, Meddler.A, "tail"]
        for place in containers[:3]:
            place += [containers[3], Meddler.A, "t" * 20, (1, Meddler.A, ["in a tuple"]), Decimal("1.5")]
        for place in containers[4:7]:
            place |= {"b": containers[7], "a": Meddler.A, "c": "t" * 20, "d": {"e": Meddler.A}, "f": 2**70}
        assert isinstance(json.loads(write(tree)), list)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("value", [[1], [Point(1)], [object()], [Point(object())]], ids=repr)
def test_the_collector_is_left_as_it_was(value: Any, enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    try:
        for write in (dump, canonical_bytes):
            try:
                write(value)
            except JsonTypeError:
                assert "object" in repr(value)
            assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_code_of_the_application_runs_with_the_collector_on() -> None:
    seen = []

    @dataclasses.dataclass
    class Looking:
        a: int = 1

        def __getattribute__(self, name: str) -> Any:
            seen.append(gc.isenabled())
            return 1

    assert dump([Looking()]) == canonical_bytes([Looking()]) == b'[{"a":1}]'
    assert all(seen)


def test_an_exception_of_a_field_passes_through() -> None:
    @dataclasses.dataclass
    class Broken:
        a: int = 1

        def __getattribute__(self, name: str) -> Any:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dump({"a": [Broken()]})
    assert dump([1]) == b"[1]"


def test_nothing_leaks_where_writing_fails() -> None:
    good = {"a": [1, "é\n", Decimal("2.50"), 10**700, 1e30, (None,)], "p": Point(Colour.LIST)}
    bad = [[good, wrong] for wrong in (object(), "\ud800", Decimal("NaN"), 10**1024, {1: 2}, float("nan"), "x" * 9000)]

    def run(times: int) -> None:
        for _ in range(times):
            assert dump(good)
            for value in bad:
                refusal(value, DEPTH, NODES, 8000)
            refusal(good, DEPTH, NODES, STRING, 300)
            refusal(good, 2)
            refusal(good, DEPTH, 5)

    def references() -> list[int]:
        gc.collect()  # tracebacks of refusals that were caught
        return [sys.getrefcount(value) for value in (good, good["a"], bad[0][1], Colour.LIST)]

    run(20)
    before = references()
    blocks = sys.getallocatedblocks()
    run(200)
    assert references() == before
    assert sys.getallocatedblocks() - blocks < 100


@pytest.mark.parametrize("write", [dump, canonical_bytes])
def test_code_that_empties_a_list_while_it_is_written_does_no_harm(write: Any) -> None:
    outer: list[Any] = []
    taken: list[Any] = []

    class Emptying(enum.Enum):
        A = 1

        @property
        def value(self) -> str:
            outer.clear()
            gc.collect()
            taken.extend([0x41] * 7 for _ in range(50))  # what was freed is used again
            return "x"

    outer.append([Emptying.A, "tail"])
    assert write(outer) == b'[["x","tail"]]'


def test_lists_that_another_thread_fills_anew_are_written_whole() -> None:
    @dataclasses.dataclass
    class Point:
        x: int

    tree = [[Point(1) for _ in range(50)] for _ in range(50)]
    expected = len(dump(tree))
    stop = threading.Event()

    def fill() -> None:
        while not stop.is_set():
            for index in range(50):
                tree[index] = [Point(1) for _ in range(50)]

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        assert {len(dump(tree)) for _ in range(60)} == {expected}
    finally:
        stop.set()
        thread.join()


def test_a_dict_subclass_is_what_it_holds_also_where_code_runs() -> None:
    class Lying(dict[str, Any]):
        def __iter__(self) -> Any:
            return iter(["B"])

        def keys(self) -> Any:
            return ["B"]

        def __getitem__(self, name: str) -> Any:
            return "overridden"

    @dataclasses.dataclass
    class Point:
        x: int

    assert dump([Lying(a=1), Point(2)]) == b'[{"a":1},{"x":2}]'
    assert canonical_bytes([Lying(a=1), Point(2)]) == b'[{"a":1},{"x":2}]'


def test_an_ordered_dict_whose_order_is_not_that_of_its_members_is_refused() -> None:
    grown = OrderedDict(a=1)
    dict.__setitem__(grown, "b", 2)
    shrunk = OrderedDict(a=1, b=2)
    dict.__delitem__(shrunk, "a")
    with pytest.raises(JsonTypeError, match="OrderedDict"):
        dump(grown)
    with pytest.raises(JsonTypeError, match="OrderedDict"):
        dump(shrunk)
    assert dump(OrderedDict(b=2, a=1)) == b'{"b":2,"a":1}'
