"""The closed binding: from JSON as :func:`mcpinput.json.parse` makes it to a typed value, exactly.

The work is msgspec's: Structs, dataclasses, TypedDicts, NamedTuples, containers, unions, Literals, enums, dates. A walk
guided by the type goes first, because numbers need more care than msgspec gives them.

Rules

- ``int`` (and int enums, int Literals) takes 5 and ``Decimal("5.0")``, never 5.5.
- ``Decimal`` takes every number without a detour over floats. No string: JSON has numbers for that.
- ``float`` takes every number, rounded to the nearest; one that is beyond the largest float is refused.
- In a union, ``Decimal`` is tried before ``float``, and ``float`` before ``int``, for a number written with a point or
  an exponent; one written without stays an int where the union has ``int``.
- ``bool`` is never a number, a string never one either, and ``int`` never ``bool``.
- An error names the path and the type, never the value; what a ``__post_init__`` says may hold it, so it is left out.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, TypeVar, overload

import msgspec
from msgspec import inspect

from mcpinput.errors import InputConversionError

__all__ = ["convert", "integral"]

_T = TypeVar("_T")

MAXIMUM_INT_DIGITS: Final = 1024
"""An integral number with more digits does not become an int: no exponent is ever expanded further."""


def integral(number: Decimal) -> int | None:
    """The int that equals a Decimal, or None where none does, or it would have more than 1,024 digits."""
    if not number.is_finite():
        return None
    if not number:
        return 0
    if not 0 <= number.adjusted() < MAXIMUM_INT_DIGITS:
        return None
    whole = int(number)
    return whole if whole == number else None


@overload
def convert(value: object, to: type[_T]) -> _T: ...
@overload
def convert(value: object, to: Any) -> Any: ...
def convert(value: object, to: Any) -> Any:
    """Converts one JSON value.

    Args:
        value: A tree as ``parse`` makes it, frozen or not. It is not changed.
        to: A type that msgspec knows.

    Raises:
        InputConversionError: The value does not fit the type. A ValueError.
        TypeError: The type is none that JSON converts to.
    """
    prepared = _prepare(value, _type_info(to), "$")
    try:
        return msgspec.convert(prepared, to)
    except msgspec.ValidationError as error:
        path, problem = _explain(str(error))
    # Raised out here, so that the original, which may quote the value, is not even its context.
    raise InputConversionError(path, problem)


@lru_cache(maxsize=512)
def _cached_type_info(to: Any) -> inspect.Type:
    return inspect.type_info(to)


def _type_info(to: Any) -> inspect.Type:
    try:
        return _cached_type_info(to)
    except TypeError:  # not hashable; or no type at all, which then says so again
        return inspect.type_info(to)


# ---- numbers first ----


def _prepare(value: Any, info: inspect.Type, path: str) -> Any:
    """The value with every number as its type wants it. Containers of known types are copied, others handed on."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(value, dict):
        return _prepare_object(value, _members(info), path)
    if isinstance(value, list):
        return _prepare_array(value, _members(info), path)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, Decimal, str)):
        return _prepare_scalar(value, _members(info), path)
    return value


def _members(info: inspect.Type) -> list[inspect.Type]:
    """The types of a union, or the one type, without their metadata."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    if not isinstance(info, inspect.UnionType):
        return [info]
    return [member for part in info.types for member in _members(part)]


def _prepare_scalar(value: int | Decimal | str, types: list[inspect.Type], path: str) -> Any:
    takes_decimal = any(isinstance(info, inspect.DecimalType) for info in types)
    if isinstance(value, str):
        if takes_decimal:
            raise InputConversionError(path, "expected a number, got a string")
        return value
    takes_int = any(_is_int(info) for info in types)
    if isinstance(value, int):
        return Decimal(value) if takes_decimal and not takes_int else value
    if takes_decimal:
        return value
    if any(isinstance(info, inspect.FloatType) for info in types):
        rounded = float(value)
        if math.isinf(rounded):
            raise InputConversionError(path, "the number is too large for a float")
        return rounded
    if takes_int:
        whole = integral(value)
        if whole is None:
            raise InputConversionError(path, f"expected a whole number of at most {MAXIMUM_INT_DIGITS} digits")
        return whole
    return value


def _is_int(info: inspect.Type) -> bool:
    if isinstance(info, inspect.LiteralType):
        return any(isinstance(value, int) for value in info.values)
    if isinstance(info, inspect.EnumType):
        return any(isinstance(member.value, int) for member in info.cls)
    return isinstance(info, inspect.IntType)


def _prepare_object(value: dict[str, Any], types: list[inspect.Type], path: str) -> Any:
    # msgspec allows one type for objects in a union, or several Structs that a tag tells apart.
    for info in types:
        if isinstance(info, inspect.StructType):
            if info.array_like:
                continue
            if info.tag_field is None:
                return _prepare_fields(value, info, path)
            tag = value.get(info.tag_field)
            if _is_tag(tag, info.tag):
                return _prepare_fields({**value, info.tag_field: info.tag}, info, path)
        elif isinstance(info, (inspect.DataclassType, inspect.TypedDictType)):
            return _prepare_fields(value, info, path)
        elif isinstance(item := getattr(info, "value_type", None), inspect.Type):  # every kind of mapping
            return {key: _prepare(member, item, f"{path}[...]") for key, member in value.items()}
    return value


def _is_tag(value: object, tag: str | int | None) -> bool:
    return value == tag and isinstance(value, (str, int, Decimal)) and not isinstance(value, bool)


def _prepare_fields(
    value: dict[str, Any], info: inspect.StructType | inspect.DataclassType | inspect.TypedDictType, path: str
) -> dict[str, Any]:
    prepared = dict(value)
    for field in info.fields:
        name = field.encode_name
        if name in prepared:
            prepared[name] = _prepare(prepared[name], field.type, f"{path}.{name}")
    return prepared


def _prepare_array(value: list[Any], types: list[inspect.Type], path: str) -> list[Any]:
    for info in types:
        if isinstance(info, inspect.StructType):
            if not info.array_like:
                continue
            if info.tag is None:
                return _prepare_items(value, [field.type for field in info.fields], path)
            if value and _is_tag(value[0], info.tag):
                rest = _prepare_items(value[1:], [field.type for field in info.fields], path, first=1)
                return [info.tag, *rest]
        elif isinstance(info, inspect.NamedTupleType):
            return _prepare_items(value, [field.type for field in info.fields], path)
        elif isinstance(info, inspect.TupleType):
            return _prepare_items(value, list(info.item_types), path)
        elif isinstance(item := getattr(info, "item_type", None), inspect.Type):  # every kind of sequence and set
            return _prepare_items(value, [item] * len(value), path)
    return value


def _prepare_items(value: list[Any], types: list[inspect.Type], path: str, first: int = 0) -> list[Any]:
    prepared = list(value)
    for index, info in enumerate(types[: len(value)]):
        prepared[index] = _prepare(value[index], info, f"{path}[{index + first}]")
    return prepared


# ---- errors without values ----

_PLACE: Final = re.compile(r" - at (?:`key` in )?`(\$[^`]*)`\Z")

# What msgspec says from the type alone. Everything else may quote the value.
_FROM_TYPE: Final = re.compile(
    r"Expected `[\w |.]+`"
    r"(?:, got `\w+`"
    r"| of length (?:>= |<= )?\d+(?:, got \d+)?"
    r"| (?:>=|<=|>|<) [\d.e+-]+"
    r"| that's a multiple of [\d.e+-]+)?"
    r"|Object missing required field `[^`]+`"
    r"|Number out of range"
)


def _explain(message: str) -> tuple[str, str]:
    place = _PLACE.search(message)
    path = place[1] if place else "$"
    problem = message[: place.start()] if place else message
    if _FROM_TYPE.fullmatch(problem):
        return path, problem[0].lower() + problem[1:]
    if problem.startswith("Object contains unknown field"):
        return path, "the object has a member that the type has not"
    return path, "the value is not one that the type takes"
