"""Canonical form v1 of trees and numbers."""

from __future__ import annotations

import decimal
import enum
import random
import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest

from mcpinput.errors import JsonErrorKind, JsonTypeError, JsonWriteError
from mcpinput.json import Limits, canonical_bytes, canonical_number, dump, freeze, parameter_digest, parse
from tests import vectors

VECTORS = vectors.load("canonical")


def described(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", VECTORS[name], ids=lambda vector: vector["desc"])


def refusal(value: object, limits: Limits | None = None) -> JsonErrorKind:
    with pytest.raises(JsonWriteError) as caught:
        canonical_bytes(value, limits=limits or Limits())
    return caught.value.kind


# ---- form ----


@described("canonical")
def test_tree_of_a_text(vector: dict[str, str]) -> None:
    assert canonical_bytes(parse(vector["text"].encode())).decode() == vector["canonical"]


@described("numbers")
def test_number(vector: dict[str, str]) -> None:
    number = parse(vector["text"].encode())
    assert isinstance(number, (int, Decimal))
    assert canonical_number(number) == vector["canonical"]
    assert canonical_bytes(number).decode() == vector["canonical"]
    assert Decimal(vector["canonical"]) == number


@pytest.mark.parametrize(
    "spellings",
    [
        [1, Decimal("1"), Decimal("1.0"), Decimal("1e0"), Decimal("10e-1"), Decimal("0.1E1")],
        [100, Decimal("100"), Decimal("1e2"), Decimal("100.00")],
        [0, Decimal("-0"), Decimal("0.0e5"), Decimal("-0E-100")],
    ],
)
def test_equal_numbers_have_one_text(spellings: list[Any]) -> None:
    assert len({canonical_bytes({"v": number}) for number in spellings}) == 1


def test_values_that_python_calls_equal_and_json_does_not() -> None:
    assert len({canonical_bytes(value) for value in (1, True, "1", [1])}) == 4


def test_strings_are_not_normalised() -> None:
    assert canonical_bytes("\u00e9") == b'"\xc3\xa9"'
    assert canonical_bytes("e\u0301") == b'"e\xcc\x81"'


def test_order_does_not_depend_on_insertion() -> None:
    names = ["\ufb33", "\U0001f600", "z", "", "\ue000", "\ud7ff"]
    one = canonical_bytes(dict.fromkeys(names, 1))
    other = canonical_bytes(dict.fromkeys(reversed(names), 1))
    assert one == other == '{"":1,"z":1,"\ud7ff":1,"\U0001f600":1,"\ue000":1,"\ufb33":1}'.encode()


ALPHABETS = ["ab", "ab\0", "a\u00e9", "a\ud7ff\ue000\U00010000", "a\uffff\U0001f600"]


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 31, 32, 33, 48, 64, 65, 100, 1000])
@pytest.mark.parametrize("alphabet", ALPHABETS, ids=ascii)
@pytest.mark.parametrize("start", ["", "eight or more letters "])
def test_members_are_sorted_however_many(count: int, alphabet: str, start: str) -> None:
    dice = random.Random(count)
    names = {start + "".join(dice.choices(alphabet, k=dice.randrange(14))) for _ in range(count)}
    expected = sorted(names, key=lambda name: name.encode("utf-16-be"))
    for order in (expected, expected[::-1], dice.sample(expected, len(expected))):
        text = canonical_bytes({name: place for place, name in enumerate(order)})
        written = parse(text)
        assert isinstance(written, dict)
        assert list(written) == expected
        assert [order[int(place)] for place in written.values()] == expected


def test_objects_inside_objects_keep_their_own_members() -> None:
    def tree(depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {f"{n:02}": 10 * n + 1 for n in reversed(range(30))}
        if depth:
            members["07"] = [tree(depth - 1), {"b": 1, "a": 2}]
        return members

    def ordered(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: ordered(value[name]) for name in sorted(value)}
        return [ordered(item) for item in value] if isinstance(value, list) else value

    assert canonical_bytes(tree(9)) == dump(ordered(tree(9)))


# ---- numbers ----


@pytest.fixture
def few_int_digits() -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    yield
    sys.set_int_max_str_digits(before)


@pytest.mark.usefixtures("few_int_digits")
def test_ints_of_1024_digits_whatever_the_process_converts() -> None:
    nines = 10**1024 - 1
    assert canonical_number(nines) == "9" * 1024
    assert canonical_number(-nines) == "-" + "9" * 1024
    assert canonical_number(10**1023) == "1E+1023"
    assert canonical_number(7 * 10**1023 + 1) == "7" + "0" * 1022 + "1"


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (10**1024, JsonErrorKind.NUMBER_SIZE),
        (-(10**1024), JsonErrorKind.NUMBER_SIZE),
        (10**5000, JsonErrorKind.NUMBER_SIZE),
        (Decimal("1" + "0" * 1024), JsonErrorKind.NUMBER_SIZE),
        (Decimal("0." + "1" * 1025), JsonErrorKind.NUMBER_SIZE),
        (Decimal("1E+10001"), JsonErrorKind.EXPONENT),
        (Decimal("12E+10000"), JsonErrorKind.EXPONENT),
        (Decimal("1E-10001"), JsonErrorKind.EXPONENT),
        (Decimal("0E+10001"), JsonErrorKind.EXPONENT),
        (Decimal("9.223372E+1010671858"), JsonErrorKind.EXPONENT),
        (Decimal("NaN"), JsonErrorKind.NOT_FINITE),
        (Decimal("-sNaN123"), JsonErrorKind.NOT_FINITE),
        (Decimal("-Infinity"), JsonErrorKind.NOT_FINITE),
        (float("nan"), JsonErrorKind.NOT_FINITE),
        (float("-inf"), JsonErrorKind.NOT_FINITE),
    ],
    ids=lambda value: value if isinstance(value, JsonErrorKind) else f"{type(value).__name__}",
)
def test_numbers_out_of_range_are_refused(number: Any, kind: JsonErrorKind) -> None:
    with pytest.raises(JsonWriteError) as caught:
        canonical_number(number)
    assert caught.value.kind is kind
    with pytest.raises(JsonWriteError) as caught:
        canonical_bytes([number], floats="repr")
    assert caught.value.kind is kind


def test_all_digits_at_both_ends_of_the_exponent() -> None:
    digits = "9" * 1024
    assert canonical_number(Decimal(f"{digits}E+8977")) == f"9.{digits[1:]}E+10000"
    assert canonical_number(Decimal(f"-{digits}E-11023")) == f"-9.{digits[1:]}E-10000"


def test_decimal_context_has_no_say() -> None:
    number = Decimal("123456789E+30")
    with decimal.localcontext(decimal.Context(prec=2, Emax=5, Emin=-5, capitals=0, traps=[decimal.Inexact])):
        assert canonical_number(number) == "1.23456789E+38"
        assert canonical_number(10**40 + 1) == "1" + "0" * 39 + "1"


def test_floats_are_refused_and_told_what_to_use() -> None:
    with pytest.raises(JsonTypeError, match="Decimal") as caught:
        canonical_bytes({"amount": 12.5})
    assert caught.value.kind is JsonErrorKind.TYPE
    assert "12.5" not in str(caught.value)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.1, "0.1"), (100.0, "1E+2"), (-0.0, "0"), (1e22, "1E+22"), (5e-324, "5E-324"), (1e-7, "1E-7"), (2.5, "2.5")],
)
def test_floats_by_their_repr_where_asked_for(number: float, text: str) -> None:
    assert canonical_bytes([number], floats="repr") == f"[{text}]".encode()
    assert canonical_number(number) == text


@pytest.mark.parametrize("value", [True, False, None, "1", b"1", [1], 1j])
def test_canonical_number_takes_numbers_only(value: Any) -> None:
    with pytest.raises(JsonTypeError) as caught:
        canonical_number(value)
    assert caught.value.kind is JsonErrorKind.TYPE


# ---- types ----


class Loud(int):
    def __str__(self) -> str:
        return "loud"

    __repr__ = __str__


class LoudText(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "loud"


class LoudDecimal(Decimal):
    def __str__(self) -> str:
        return "loud"


class LoudDict(dict[str, Any]):
    def items(self) -> Any:
        raise AssertionError

    __iter__ = keys = values = items


class Level(enum.IntEnum):
    HIGH = 100


class Colour(enum.StrEnum):
    RED = "red"


class Shape(enum.Enum):
    ROUND = (1, "round")


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Refund:
    order: str
    amount: Decimal


class Item(msgspec.Struct):
    name: str
    count: int = 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Loud(7), "7"),
        (LoudText("quiet"), '"quiet"'),
        (LoudDecimal("1.50"), "1.5"),
        (LoudDict(b=1, a=2), '{"a":2,"b":1}'),
        (Level.HIGH, "1E+2"),
        (Colour.RED, '"red"'),
        (Shape.ROUND, '[1,"round"]'),
        (Point(2, 1), "[2,1]"),
        ((1, (2,)), "[1,[2]]"),
        (OrderedDict(b=1, a=2), '{"a":2,"b":1}'),
        (Refund("A-1", Decimal("12.50")), '{"amount":12.5,"order":"A-1"}'),
        (Item("pen"), '{"count":1,"name":"pen"}'),
        ({LoudText("b"): 1, Colour.RED: 2}, '{"b":1,"red":2}'),
        (freeze({"b": [1], "a": {}}), '{"a":{},"b":[1]}'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_subclasses_enums_and_records_by_value(value: object, text: str) -> None:
    assert canonical_bytes(value) == text.encode()


@pytest.mark.parametrize("name", [1, None, True, 1.5, b"a", ("a",)])
def test_member_names_that_are_no_str_are_refused(name: object) -> None:
    with pytest.raises(TypeError):
        canonical_bytes({"z": 0, name: 1})
    assert refusal({name: 1}) is JsonErrorKind.KEY


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), 1j, int, iter([])])
def test_types_without_a_form_are_refused(value: object) -> None:
    with pytest.raises(TypeError):
        canonical_bytes([value])
    assert refusal(value) is JsonErrorKind.TYPE


@pytest.mark.parametrize("value", ["\ud800", ["a\udfff"], {"\udc00": 1}, {"\udc00": 1, "\U0001f600": 2}])
def test_lone_surrogates_are_refused(value: object) -> None:
    assert refusal(value) is JsonErrorKind.SURROGATE


class Own(str):
    """A text that is equal to nothing but itself."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def test_two_names_of_the_same_text_are_refused() -> None:
    assert refusal({Own("a"): 1, "b": 2, Own("a"): 3}) is JsonErrorKind.DUPLICATE
    many: dict[str, Any] = {Own(f"name {n}"): n for n in range(100)}
    assert parse(canonical_bytes(many)) == {str.__str__(name): n for name, n in sorted(many.items())}
    assert refusal(many | {Own("name 63"): 1}) is JsonErrorKind.DUPLICATE
    assert refusal({Own("\u00e9"): 1, "\u00e9": 2, Own("\u6f22"): 3}) is JsonErrorKind.DUPLICATE


def test_a_value_that_empties_its_containers_does_not_take_its_siblings_away() -> None:
    members: dict[str, Any] = {}
    items: list[Any] = []

    class Sly(enum.Enum):
        ONE = 1

        @property
        def value(self) -> int:
            members.clear()
            items.clear()
            return 1

    items += [Sly.ONE, 2]
    members |= {"a": items, "b": Sly.ONE, "c": [3]}
    assert canonical_bytes(members) == b'{"a":[1],"b":1,"c":[3]}'


def test_meta_that_code_makes_counts_as_what_it_is() -> None:
    @dataclass
    class Meta:
        progressToken: Any
        k: Any

    @dataclass
    class Token:
        progressToken: int

    class Choice(enum.Enum):
        META = {"k": [1], "baggage": "x"}  # noqa: RUF012 - the member is the point

    plain = {"name": "t", "_meta": {"k": [1]}}
    for meta in (Meta(Shape.ROUND, [1]), Choice.META, OrderedDict(traceparent=Shape.ROUND, k=(1,))):
        assert parameter_digest({"_meta": meta, "requestState": Token(1), "name": "t"}) == parameter_digest(plain)
    assert parameter_digest({"_meta": Token(1), "name": "t"}) == parameter_digest({"name": "t"})
    assert parameter_digest({"_meta": Shape.ROUND}) == parameter_digest({"_meta": [1, "round"]})


# ---- limits ----


def nested(depth: int, kind: type = list) -> Any:
    tree: Any = 0
    for _ in range(depth):
        tree = {"a": tree} if kind is dict else kind([tree])
    return tree


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_depth(kind: type) -> None:
    assert len(canonical_bytes(nested(256, kind))) == 1 + 256 * (6 if kind is dict else 2)
    assert refusal(nested(257, kind)) is JsonErrorKind.DEPTH
    assert refusal(nested(100_000, kind)) is JsonErrorKind.DEPTH
    assert refusal(nested(4, kind), Limits(depth=3)) is JsonErrorKind.DEPTH


def test_cycles_are_refused() -> None:
    array: list[Any] = []
    array.append(array)
    mapping: dict[str, Any] = {}
    mapping["a"] = [mapping]
    assert refusal(array) is JsonErrorKind.DEPTH
    assert refusal(mapping) is JsonErrorKind.DEPTH


def test_shared_parts_that_multiply_end_at_the_node_limit() -> None:
    tree: Any = 0
    for _ in range(100):
        tree = [tree, tree]
    assert refusal(tree) is JsonErrorKind.NODES


def test_nodes_are_values_and_not_names() -> None:
    tree = {"a": [1, 2], "b": None}
    assert canonical_bytes(tree, limits=Limits(nodes=5))
    with pytest.raises(JsonWriteError) as caught:
        canonical_bytes(tree, limits=Limits(nodes=4))
    assert caught.value.kind is JsonErrorKind.NODES
    assert caught.value.limit == 4


@pytest.mark.parametrize("text", ["abcdef", "\u00e9\u00e9\u00e9", "\U0001f600ab"])
def test_strings_are_measured_in_utf8(text: str) -> None:
    for tree in (text, {text: 1}):
        assert canonical_bytes(tree, limits=Limits(string_bytes=6))
        assert refusal(tree, Limits(string_bytes=5)) is JsonErrorKind.STRING


@pytest.mark.parametrize(
    "tree",
    [
        {"a": [1, "x"]},
        ["\n" * 5000],
        [Decimal("0.001")] * 3000,
        "x" * 100_000,
        *([number] for number in (100, -1200, 10**18, 10**19, 10**40, -(10**18), 0)),
        *([Decimal(text)] for text in ("1.500", "1.50000E+10", "1000000000.0", "-1200.00", "-0.00", "1E-7", "0.0010")),
        {"b": {}, "a": [{}, []], "\u00e9": "\u6f22\n"},
    ],
)
def test_output_ceiling(tree: Any) -> None:
    size = len(canonical_bytes(tree))
    assert len(canonical_bytes(tree, limits=Limits(canonical_bytes=size))) == size
    with pytest.raises(JsonWriteError) as caught:
        canonical_bytes(tree, limits=Limits(canonical_bytes=size - 1))
    assert caught.value.kind is JsonErrorKind.SIZE
    assert caught.value.limit == size - 1


def test_errors_hold_nothing_of_the_value() -> None:
    secret = "correct-horse"
    for tree in ([secret + "\ud800"], {secret: object()}, {secret: 1.5}, {secret: Decimal("NaN")}):
        with pytest.raises(JsonWriteError) as caught:
            canonical_bytes(tree)
        assert secret not in repr(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
