"""The public face of JSON: its limits, and trees that cannot be changed."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from mcpinput._core.limits import Bounds
from mcpinput.errors import JsonError, JsonParseError, JsonWriteError
from mcpinput.json import (
    FrozenArray,
    FrozenObject,
    Limits,
    canonical_bytes,
    canonical_raw,
    dump,
    freeze,
    parameter_digest,
    parse,
    thaw,
)

TREE: Any = {"a": [1, {"b": [Decimal("1.50"), "é", None]}], "c": {}, "d": True}
TEXT = '{"a":[1,{"b":[1.50,"é",null]}],"c":{},"d":true}'.encode()


class Inner(msgspec.Struct):
    b: tuple[Decimal, str, None]


class Outer(msgspec.Struct):
    a: tuple[int, Inner]
    c: dict[str, int]
    d: bool


def test_parse_and_dump() -> None:
    assert parse(TEXT) == TREE
    assert dump(TREE) == TEXT


# ---- limits ----

MAXIMA = {
    "depth": 256,
    "nodes": 1_000_000,
    "string_bytes": 8 << 20,
    "body_bytes": 16 << 20,
    "canonical_bytes": 32 << 20,
    "response_bytes": 64 << 20,
}


def test_defaults() -> None:
    assert dataclasses.asdict(Limits()) == MAXIMA | {"body_bytes": 10 << 20, "response_bytes": 4 << 20}


@pytest.mark.parametrize(("name", "maximum"), MAXIMA.items())
def test_limits_are_from_one_to_their_maximum(name: str, maximum: int) -> None:
    for value in (1, maximum):
        assert getattr(Limits(**{name: value}), name) == value
    for value in (0, -1, maximum + 1):
        with pytest.raises(ValueError, match=f"{name} must be from 1 to {maximum}"):
            Limits(**{name: value})
    wrong: Any
    for wrong in (True, 1.0, "1", None):
        with pytest.raises(TypeError, match=f"{name} must be an int"):
            Limits(**{name: wrong})


@pytest.mark.parametrize(
    "again",
    [
        lambda limits: pickle.loads(pickle.dumps(limits)),
        copy.copy,
        copy.deepcopy,
        lambda limits: dataclasses.replace(limits, depth=3),
        lambda limits: msgspec.convert(dataclasses.asdict(limits), Limits),
    ],
)
def test_limits_are_a_dataclass_like_any_other(again: Any) -> None:
    limits = Limits(depth=3, body_bytes=9)
    assert again(limits) == limits
    assert hash(again(limits)) == hash(limits)
    with pytest.raises(JsonParseError, match="depth limit of 3"):
        parse(b"[[[[]]]]", limits=again(limits))
    with pytest.raises(JsonParseError, match="size limit of 9"):
        parse(b" " * 10, limits=again(limits))


@pytest.mark.parametrize("wrong", [None, 5, {"depth": 3}])
@pytest.mark.parametrize("function", [parse, dump, canonical_bytes, canonical_raw, parameter_digest])
def test_limits_that_are_none(function: Any, wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"limits must be a Limits, not {type(wrong).__name__}"):
        function(b"{}" if function is not dump and function is not canonical_bytes else {}, limits=wrong)


def test_the_default_is_limits_without_arguments() -> None:
    for function in (parse, dump, canonical_bytes, canonical_raw, parameter_digest):
        assert repr(inspect.signature(function).parameters["limits"].default) == repr(Limits())


def test_limits_hold_against_ints_that_compare_as_they_like() -> None:
    class Sly(int):
        def __le__(self, other: object) -> bool:
            return True

        __ge__ = __lt__ = __gt__ = __le__

    with pytest.raises(TypeError, match="depth must be an int"):
        Limits(depth=Sly(100_000))
    with pytest.raises(ValueError, match="room"):
        Bounds.__new__(Bounds)._hold(257, 1, 1, 1, 1, 1)


def test_limits_are_held_once() -> None:
    limits = Limits()
    with pytest.raises(TypeError):
        limits._hold(1, 1, 1, 1, 1, 1)
    with pytest.raises(TypeError):
        Bounds()


def test_limits_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Limits().depth = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("limits", "kind"),
    [
        (Limits(depth=3), "depth limit"),
        (Limits(nodes=9), "node limit"),
        (Limits(string_bytes=1), "string limit"),
        (Limits(body_bytes=len(TEXT) - 1, response_bytes=len(TEXT) - 1), "size limit"),
    ],
)
def test_limits_apply_to_both_directions(limits: Limits, kind: str) -> None:
    refusals: list[JsonError] = []
    with pytest.raises(JsonParseError) as parsing:
        parse(TEXT, limits=limits)
    refusals.append(parsing.value)
    with pytest.raises(JsonWriteError) as writing:
        dump(TREE, limits=limits)
    refusals.append(writing.value)
    for error in refusals:
        assert error.kind == kind
        assert kind in str(error)
        assert isinstance(error, ValueError)


def test_limits_that_just_fit() -> None:
    limits = Limits(depth=4, nodes=10, string_bytes=2, body_bytes=len(TEXT), response_bytes=len(TEXT))
    assert dump(parse(TEXT, limits=limits), limits=limits) == TEXT


def test_a_body_over_the_default_is_refused_and_may_be_allowed() -> None:
    text = b" " * (10 << 20) + b"1"
    with pytest.raises(JsonParseError, match="size limit of 10485760"):
        parse(text)
    assert parse(text, limits=Limits(body_bytes=16 << 20)) == 1


# ---- frozen trees ----


def test_a_frozen_tree_equals_the_plain_one() -> None:
    frozen = freeze(TREE)
    assert frozen == TREE
    assert isinstance(frozen, dict)
    assert isinstance(frozen["a"], list)
    assert isinstance(frozen["a"][1]["b"], FrozenArray)
    assert freeze(frozen) is frozen
    items: Any = (1, [2])
    assert freeze(items) == [1, [2]]
    assert freeze("text") == "text"


def test_freezing_copies() -> None:
    inner = [1]
    frozen = freeze({"a": inner})
    inner.append(2)
    assert frozen == {"a": [1]}


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree.__setitem__("x", 1),
        lambda tree: tree.__delitem__("a"),
        lambda tree: tree.__ior__({"x": 1}),
        lambda tree: tree.clear(),
        lambda tree: tree.pop("a"),
        lambda tree: tree.popitem(),
        lambda tree: tree.setdefault("x", 1),
        lambda tree: tree.update(x=1),
        lambda tree: tree["a"].__setitem__(0, 1),
        lambda tree: tree["a"].__setitem__(slice(None), []),
        lambda tree: tree["a"].__delitem__(0),
        lambda tree: tree["a"].__iadd__([1]),
        lambda tree: tree["a"].__imul__(2),
        lambda tree: tree["a"].append(1),
        lambda tree: tree["a"].clear(),
        lambda tree: tree["a"].extend([1]),
        lambda tree: tree["a"].insert(0, 1),
        lambda tree: tree["a"].pop(),
        lambda tree: tree["a"].remove(1),
        lambda tree: tree["a"].reverse(),
        lambda tree: tree["a"].sort(),
        lambda tree: setattr(tree, "x", 1),
        lambda tree: setattr(tree["a"], "x", 1),
    ],
)
def test_a_frozen_tree_cannot_be_changed(change: Any) -> None:
    frozen = freeze(TREE)
    with pytest.raises((TypeError, AttributeError)):
        change(frozen)
    assert frozen == TREE


@pytest.mark.parametrize(
    "duplicate",
    [
        lambda tree: tree.copy(),
        copy.copy,
        copy.deepcopy,
        thaw,
        lambda tree: pickle.loads(pickle.dumps(tree)),
        lambda tree: {"outer": copy.deepcopy({"inner": tree})}["outer"]["inner"],
    ],
)
@pytest.mark.parametrize("tree", [TREE, [TREE, [1]]])
def test_copies_of_a_frozen_tree_are_plain_and_free(duplicate: Any, tree: Any) -> None:
    frozen = freeze(tree)
    plain = duplicate(frozen)
    assert plain == tree
    assert type(plain) is type(tree)
    outer = plain if isinstance(plain, dict) else plain[0]
    assert type(outer) is dict
    assert type(outer["a"]) is list
    outer["a"][1]["b"].append(1)
    assert frozen == tree


def test_a_frozen_tree_is_written_like_a_plain_one() -> None:
    assert dump(freeze(TREE)) == TEXT
    assert dump([freeze([1]), FrozenObject(a=1), FrozenArray([2])]) == b'[[1],{"a":1},[2]]'


def test_a_frozen_tree_converts_to_types() -> None:
    expected = Outer(a=(1, Inner((Decimal("1.50"), "é", None))), c={}, d=True)
    assert msgspec.convert(freeze(TREE), Outer) == expected
    assert msgspec.convert(freeze(TREE["a"]), list[Any]) == TREE["a"]
    assert msgspec.convert(freeze(TREE), dict[str, Any]) == TREE
