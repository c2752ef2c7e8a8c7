"""The closed binding: numbers exactly, errors without values."""

from __future__ import annotations

import datetime
import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpinput.binding import convert, integral
from mcpinput.errors import InputConversionError
from mcpinput.json import freeze, parse


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Colour(enum.Enum):
    RED = "red"


class Point(msgspec.Struct, rename="camel"):
    x_value: int
    y_value: Decimal = Decimal(0)
    z_value: float = 0.0
    next_point: Optional[Point] = None  # noqa: UP045 - msgspec reads it at run time


@dataclass
class Node:
    size: int
    children: list[Node] = field(default_factory=list)
    extra: Any = None


class Row(TypedDict, total=False):
    count: int
    price: Decimal | None
    by_name: dict[str, int]


class Pair(NamedTuple):
    left: int
    right: Decimal


class Circle(msgspec.Struct, tag="circle"):
    radius: int


class Square(msgspec.Struct, tag="square"):
    side: Decimal


class First(msgspec.Struct, tag=1):
    n: int


class Second(msgspec.Struct, tag=2):
    n: Decimal


class Packed(msgspec.Struct, array_like=True):
    n: int
    m: Decimal


class Bounded(msgspec.Struct, forbid_unknown_fields=True):
    age: Annotated[int, msgspec.Meta(ge=0, le=150)]
    name: Annotated[str, msgspec.Meta(min_length=1, pattern="^[a-z]+$")] = "x"

    def __post_init__(self) -> None:
        if self.age == 42:
            raise ValueError(f"secret {self.age}")


def same(actual: object, expected: object) -> bool:
    """Equal in type as well, at every level."""
    if isinstance(expected, (list, tuple)):
        return type(actual) is type(expected) and len(actual) == len(expected) and all(map(same, actual, expected))
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and actual.keys() == expected.keys()
            and all(same(actual[key], value) for key, value in expected.items())
        )
    return type(actual) is type(expected) and actual == expected


@pytest.mark.parametrize(
    ("text", "to", "expected"),
    [
        ("5", int, 5),
        ("5.0", int, 5),
        ("5e0", int, 5),
        ("0.0", int, 0),
        ("-0e-10000", int, 0),
        ("1e1023", int, 10**1023),
        ("5", Decimal, Decimal(5)),
        ("3.50", Decimal, Decimal("3.50")),
        ("9007199254740993", Decimal, Decimal(9007199254740993)),
        ("0.1000000000000000000001", Decimal, Decimal("0.1000000000000000000001")),
        ("0.1", float, 0.1),
        ("5", float, 5.0),
        ("1e-10000", float, 0.0),
        ("9007199254740993", float, 9007199254740992.0),
        ("true", bool, True),
        ("null", int | None, None),
        ("5.0", int | None, 5),
        ("5.0", int | str, 5),
        ('"5.0"', int | str, "5.0"),
        ("5", int | Decimal, 5),
        ("5.0", int | Decimal, Decimal("5.0")),
        ("5", float | Decimal, Decimal(5)),
        ("0.1", float | Decimal, Decimal("0.1")),
        ("5", int | float, 5),
        ("5.0", int | float, 5.0),
        ("1.0", Level, Level.LOW),
        ("2.0", Literal[1, 2, "a"], 2),
        ('"red"', Colour, Colour.RED),
        ("[1.0, 2]", list[int], [1, 2]),
        ("[1.0, 2]", tuple[int, ...], (1, 2)),
        ("[1.0, 2]", tuple[int, Decimal], (1, Decimal(2))),
        ("[1.0]", set[int], {1}),
        ("[1.0]", frozenset[int], frozenset({1})),
        ('{"a": [1.0, null]}', dict[str, list[int | None]], {"a": [1, None]}),
        ('{"a": 1.0}', Mapping[str, int], {"a": 1}),
        ('{"a": 1.0}', Any, {"a": Decimal("1.0")}),
        ('{"a": {"b": 1.0}}', dict[str, Any], {"a": {"b": Decimal("1.0")}}),
        ('"2026-07-28"', datetime.date, datetime.date(2026, 7, 28)),
        (
            '{"xValue": 1.0, "yValue": 2, "zValue": 0.1, "nextPoint": {"xValue": 3e0}, "other": 1.0}',
            Point,
            Point(1, Decimal(2), 0.1, Point(3)),
        ),
        (
            '{"size": 1.0, "children": [{"size": 2.0, "extra": {"n": 1.0}}]}',
            Node,
            Node(1, [Node(2, extra={"n": Decimal("1.0")})]),
        ),
        (
            '{"count": 1.0, "price": 2, "by_name": {"a": 3.0}}',
            Row,
            {"count": 1, "price": Decimal(2), "by_name": {"a": 3}},
        ),
        ('{"price": null}', Row, {"price": None}),
        ("[1.0, 2]", Pair, Pair(1, Decimal(2))),
        ("[1.0, 2]", Packed, Packed(1, Decimal(2))),
        ('{"type": "square", "side": 1}', Circle | Square, Square(Decimal(1))),
        ('{"type": "circle", "radius": 1.0}', Circle | Square | None, Circle(1)),
        ('{"type": 2.0, "n": 1}', First | Second, Second(Decimal(1))),
        ('{"type": 1, "n": 1.0}', First | Second, First(1)),
        ('[{"age": 150.0}]', list[Bounded], [Bounded(150)]),
    ],
)
@pytest.mark.parametrize("frozen", [False, True])
def test_values_arrive_exactly(text: str, to: Any, expected: object, frozen: bool) -> None:
    tree: Any = parse(text.encode())
    converted = convert(freeze(tree) if frozen else tree, to)
    assert same(converted, expected)
    if isinstance(expected, Point):
        assert type(converted.y_value) is Decimal
    assert tree == parse(text.encode())


@pytest.mark.parametrize(
    ("text", "to", "path"),
    [
        ("5.5", int, "$"),
        ("1e1024", int, "$"),
        ("1e10000", int, "$"),
        ("1e-10000", int, "$"),
        ('"5"', int, "$"),
        ('"5"', Decimal, "$"),
        ('"5"', Decimal | None, "$"),
        ('"5"', float, "$"),
        ("true", int, "$"),
        ("true", Decimal, "$"),
        ("true", float, "$"),
        ("true", Literal[1], "$"),
        ("true", Level, "$"),
        ("1", bool, "$"),
        ("1.0", bool, "$"),
        ("1.0", str, "$"),
        ("null", int, "$"),
        ("1e400", float, "$"),
        ("-1e400", int | float, "$"),
        ("1" + "0" * 400, float, "$"),
        ("3.0", Level, "$"),
        ("[1, 1.5]", list[int], "$[1]"),
        ('{"a": {"b": 1.5}}', dict[str, dict[str, int]], "$[...][...]"),
        ('{"1": 1}', dict[int, int], "$"),
        ('{"xValue": 1, "nextPoint": {"xValue": 1.5}}', Point, "$.nextPoint.xValue"),
        ('{"size": 1, "children": [{"size": 1}, {"size": 0.5}]}', Node, "$.children[1].size"),
        ('{"price": "1.5"}', Row, "$.price"),
        ('{"type": "square", "side": "1"}', Circle | Square, "$.side"),
        ('{"type": true, "n": 1}', First | Second, "$.type"),
        ("[1, 0.5]", tuple[Decimal, int], "$[1]"),
        ("[0.5, 1]", Packed, "$[0]"),
        ("[0.5, 1]", Pair, "$[0]"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_path(text: str, to: Any, path: str) -> None:
    with pytest.raises(InputConversionError) as caught:
        convert(parse(text.encode()), to)
    assert caught.value.path == path
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("tree", "to", "says"),
    [
        ({"age": 4711}, Bounded, "expected `int` <= 150"),
        ({"age": 1, "name": "SECRET"}, Bounded, None),
        ({"age": 1, "name": ""}, Bounded, "expected `str` of length >= 1"),
        ({"age": 1, "SECRET": 1}, Bounded, None),
        ({"age": 42}, Bounded, None),
        ({}, Bounded, "object missing required field `age`"),
        ("SECRET", Colour, None),
        ("SECRET", Literal["a"], None),
        ("SECRET", datetime.date, None),
        ("SECRET", Decimal, None),
        ({"type": "SECRET"}, Circle | Square, None),
        ({"SECRET": 1}, dict[Literal["a"], int], None),
        ({"SECRET": "SECRET"}, dict[str, int], "expected `int`, got `str`"),
        ([1], tuple[int, int], "expected `array` of length 2, got 1"),
    ],
)
def test_errors_say_what_the_type_wants_and_never_the_value(tree: object, to: Any, says: str | None) -> None:
    with pytest.raises(InputConversionError) as caught:
        convert(tree, to)
    error: BaseException | None = caught.value
    assert says is None or says in str(error)
    while error is not None:  # tracebacks show causes and contexts
        assert "SECRET" not in str(error)
        assert "secret" not in str(error)
        assert "4711" not in str(error)
        error = error.__cause__ or error.__context__


def test_types_that_json_cannot_become_are_a_type_error() -> None:
    with pytest.raises(TypeError):
        convert({}, dict | Node)
    with pytest.raises(TypeError):
        convert({}, "Point")


def test_types_that_cannot_be_hashed_work_too() -> None:
    to = Annotated[int, ["a note of the application's"]]
    with pytest.raises(TypeError):
        hash(to)
    assert same(convert(Decimal("5.0"), to), 5)


def test_nothing_depends_on_the_decimal_context() -> None:
    with localcontext(prec=1, Emax=1, Emin=-1):
        assert same(convert(Decimal("123456.0"), int), 123456)
        assert same(convert(123456, Decimal), Decimal(123456))
        assert convert(Decimal("123456.7"), float) == 123456.7


@given(st.integers(), st.integers(0, 50))
def test_every_int_is_found_behind_its_zeros(number: int, zeros: int) -> None:
    assert same(integral(Decimal(f"{number}.{'0' * zeros}")), number)


@given(st.decimals())
def test_integral_is_what_decimal_says(number: Decimal) -> None:
    expected = (
        int(number)
        if number.is_finite() and (not number or number.adjusted() < 1024) and number == number.to_integral_value()
        else None
    )
    assert integral(number) == expected


def test_no_exponent_is_expanded() -> None:
    assert integral(Decimal("1e999999999")) is None
    assert integral(Decimal("0e999999999")) == 0
    assert math.isclose(convert(Decimal("1e-999999"), float), 0.0)
