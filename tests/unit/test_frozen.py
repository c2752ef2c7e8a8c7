"""Frozen trees: equal to what was given, unchangeable, and the same JSON."""

from __future__ import annotations

import copy
import enum
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpinput.errors import JsonErrorKind, JsonWriteError
from mcpinput.json import dump, freeze, parse, thaw


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, [2])


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


@dataclass
class Data:
    n: int
    inner: list[Any] = field(default_factory=list)
    unset: Any = msgspec.UNSET


class Pair(NamedTuple):
    a: int
    b: list[int]


class Plain(msgspec.Struct, rename="camel"):
    first_name: str
    other: int | msgspec.UnsetType = msgspec.UNSET


class Tagged(msgspec.Struct, tag_field="kind", tag="t"):
    n: int


class Packed(msgspec.Struct, array_like=True, tag=7):
    n: int


VALUES: list[Any] = [
    Colour.RED,
    Colour.PAIR,
    Level.LOW,
    Word.YES,
    Data(1, [Data(2), {"a": Colour.RED}]),
    Pair(1, [2]),
    Plain("x"),
    Plain("x", 1),
    Tagged(1),
    Packed(1),
    [Packed(1), (Tagged(2), Plain("y"))],
    {"a": {"b": (1, 2.5, None, True)}},
]


def is_frozen(tree: Any) -> bool:
    if isinstance(tree, dict):
        return type(tree) is not dict and all(map(is_frozen, tree.values()))
    if isinstance(tree, (list, tuple)):
        return isinstance(tree, list) and type(tree) is not list and all(map(is_frozen, tree))
    return not isinstance(tree, (enum.Enum, Data, msgspec.Struct))


@pytest.mark.parametrize("value", VALUES)
def test_whatever_can_be_written_freezes_to_the_same_json(value: Any) -> None:
    frozen = freeze(value)
    assert dump(frozen) == dump(value)
    assert is_frozen(frozen)
    assert freeze(frozen) is frozen


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.decimals(-(10**6), 10**6, places=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(TREES)
def test_a_frozen_tree_is_equal_and_thaws_to_a_plain_one(tree: Any) -> None:
    frozen = freeze(tree)
    assert frozen == tree
    assert is_frozen(frozen)
    thawed = thaw(frozen)
    assert thawed == tree
    assert repr(thawed) == repr(tree)
    assert parse(dump(frozen)) == tree


def test_what_json_has_no_form_for_is_left_to_the_writer() -> None:
    foreign = object()
    assert freeze([foreign])[0] is foreign
    with pytest.raises(TypeError):
        dump(freeze([foreign]))


def test_copies_of_a_frozen_tree_are_plain_and_free() -> None:
    frozen: Any = freeze({"a": [1, {"b": 2}]})
    for made in (frozen.copy(), copy.copy(frozen), copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):
        assert type(made) is dict
        made["a"][1]["b"] = 3
        made["a"].append(4)
    assert frozen == {"a": [1, {"b": 2}]}


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.__setitem__("a", 1),
        lambda t: t.__delitem__("a"),
        lambda t: t.clear(),
        lambda t: t.pop("a"),
        lambda t: t.popitem(),
        lambda t: t.setdefault("z", 1),
        lambda t: t.update(z=1),
        lambda t: t.__ior__({"z": 1}),
        lambda t: t["a"].__setitem__(0, 1),
        lambda t: t["a"].__delitem__(0),
        lambda t: t["a"].__iadd__([1]),
        lambda t: t["a"].__imul__(2),
        lambda t: t["a"].append(1),
        lambda t: t["a"].extend([1]),
        lambda t: t["a"].insert(0, 1),
        lambda t: t["a"].remove(1),
        lambda t: t["a"].reverse(),
        lambda t: t["a"].sort(),
        lambda t: t["a"].pop(),
        lambda t: t["a"].clear(),
    ],
)
def test_nothing_changes_a_frozen_tree(change: Callable[[Any], object]) -> None:
    frozen = freeze({"a": [1, 2]})
    with pytest.raises(TypeError, match="cannot be changed"):
        change(frozen)
    assert frozen == {"a": [1, 2]}


def nested(levels: int) -> Any:
    tree: Any = 1
    for _ in range(levels):
        tree = [tree]
    return tree


def test_depth_is_counted_and_the_stack_never_decides() -> None:
    assert freeze(nested(256)) == nested(256)
    loop: dict[str, Any] = {}
    loop["a"] = loop
    for tree in (nested(257), nested(100_000), loop):
        with pytest.raises(JsonWriteError) as caught:
            freeze(tree)
        assert caught.value.kind is JsonErrorKind.DEPTH
        assert caught.value.limit == 256


def test_a_decimal_keeps_its_scale() -> None:
    assert str(freeze([Decimal("3.50")])[0]) == "3.50"
