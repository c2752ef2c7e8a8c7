"""JSON as this library reads and writes it: strict RFC 8259, exact decimals, bounded, with a canonical form.

An integer token becomes :class:`int`, every other number a :class:`decimal.Decimal` with its scale kept. Never a float.
Canonical form v1 is RFC 8785 in everything but numbers: those keep their exact value, so it is *not* JCS, which rounds
to IEEE doubles.
"""

from __future__ import annotations

import enum
from dataclasses import astuple, dataclass, is_dataclass
from dataclasses import fields as fields_of
from decimal import Decimal
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec

from mcpinput._core.canonical import canonical_bytes, canonical_number
from mcpinput._core.digest import canonical_raw, parameter_digest
from mcpinput._core.dump import dump
from mcpinput._core.limits import Bounds
from mcpinput._core.parse import parse
from mcpinput.errors import JsonErrorKind, JsonWriteError

__all__ = [
    "JsonValue",
    "Limits",
    "canonical_bytes",
    "canonical_number",
    "canonical_raw",
    "dump",
    "freeze",
    "parameter_digest",
    "parse",
]

JsonValue: TypeAlias = "dict[str, Any] | list[Any] | str | int | Decimal | bool | None"
"""What :func:`parse` makes."""

_MAXIMA: Final = {
    "depth": 256,
    "nodes": 1_000_000,
    "string_bytes": 8 * 1024 * 1024,
    "body_bytes": 16 * 1024 * 1024,
    "canonical_bytes": 32 * 1024 * 1024,
    "response_bytes": 64 * 1024 * 1024,
}


@dataclass(frozen=True)
class Limits(Bounds):
    """Bounds on what is read and written. Those on numbers are fixed: 1,024 characters or digits, exponent ±10,000.

    Attributes:
        depth: Arrays and objects inside one another: 256, which is the maximum.
        nodes: Values in one document, containers included: 1,000,000, which is the maximum.
        string_bytes: UTF-8 bytes of one string or member name once unescaped: 8 MiB, which is the maximum.
        body_bytes: Bytes of one text that is parsed: 10 MiB, at most 16 MiB.
        canonical_bytes: Bytes of one canonical text: 32 MiB, which is the maximum (spelling can grow, at worst double).
        response_bytes: Bytes of one text that is written: 4 MiB, at most 64 MiB.

    Raises:
        TypeError: A limit is no int.
        ValueError: A limit is not positive, or above its maximum.
    """

    depth: int = 256
    nodes: int = 1_000_000
    string_bytes: int = 8 * 1024 * 1024
    body_bytes: int = 10 * 1024 * 1024
    canonical_bytes: int = 32 * 1024 * 1024
    response_bytes: int = 4 * 1024 * 1024

    def __post_init__(self) -> None:
        for name, maximum in _MAXIMA.items():
            value = getattr(self, name)
            if type(value) is not int:  # a subclass could compare as it likes
                raise TypeError(f"limit {name} must be an int, not {type(value).__name__}")
            if not 1 <= value <= maximum:
                raise ValueError(f"limit {name} must be from 1 to {maximum}, not {value}")
        self._hold(*astuple(self))

    def __reduce__(self) -> Any:
        return (Limits, astuple(self))


# ---- frozen trees ----

_T = TypeVar("_T")


def _refuse(self: object, *args: object, **kwargs: object) -> Any:
    raise TypeError("this JSON tree belongs to the request and cannot be changed; copy() gives a plain one")


class FrozenObject(dict[str, Any]):
    """A JSON object that cannot be changed: a dict whose mutators raise TypeError. Its members are frozen too."""

    __slots__ = ()
    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def copy(self) -> dict[str, Any]:
        """A plain tree, free to change at every level."""
        return {key: thaw(value) for key, value in self.items()}

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return self.copy()

    def __reduce__(self) -> Any:
        return (dict, (self.copy(),))


class FrozenArray(list[Any]):
    """A JSON array that cannot be changed: a list whose mutators raise TypeError. Its items are frozen too."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def copy(self) -> list[Any]:
        """A plain tree, free to change at every level."""
        return [thaw(value) for value in self]

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return self.copy()

    def __reduce__(self) -> Any:
        return (list, (self.copy(),))


_DEPTH: Final = Limits().depth
_LEAVES: Final = frozenset({str, int, Decimal, bool, float, type(None)})


def freeze(tree: _T) -> _T:
    """An unchangeable copy of a tree; equal to it, and a dict or list itself.

    It takes what :func:`dump` takes and makes JSON of it: tuples become arrays, enums their values, dataclasses and
    msgspec Structs objects. Whatever else JSON has no form for stays as it is, for the writer to refuse.

    Raises:
        JsonWriteError: Containers inside one another beyond the depth limit, as in a cycle.
    """
    return cast("_T", _freeze(tree, _DEPTH))


def _freeze(tree: Any, depth: int) -> Any:
    # Leaves are told apart before the call, here and below: they are most of a tree.
    if type(tree) in _LEAVES or isinstance(tree, (FrozenObject, FrozenArray)):
        return tree
    if isinstance(tree, enum.Enum):
        return _freeze(tree.value, depth) if tree.value is not tree else tree
    if not isinstance(tree, (dict, list, tuple)):
        tree = _fields(tree)
    if not isinstance(tree, (dict, list, tuple)):
        return tree
    if not depth:
        raise JsonWriteError(JsonErrorKind.DEPTH, f"containers are nested deeper than {_DEPTH}", limit=_DEPTH)
    inner = depth - 1
    if isinstance(tree, dict):
        return FrozenObject(
            {key: value if type(value) in _LEAVES else _freeze(value, inner) for key, value in dict.items(tree)}
        )
    return FrozenArray([value if type(value) in _LEAVES else _freeze(value, inner) for value in tree])


def _fields(value: Any) -> Any:
    """A dataclass or Struct as the dict or list that the writer makes of it; anything else itself."""
    kind = type(value)
    if issubclass(kind, msgspec.Struct):
        config = kind.__struct_config__
        fields = [getattr(value, name) for name in kind.__struct_fields__]
        if config.array_like:
            return fields if config.tag is None else [config.tag, *fields]
        tag = {} if config.tag is None else {config.tag_field: config.tag}
        members = tag | dict(zip(kind.__struct_encode_fields__, fields, strict=True))
    elif is_dataclass(kind):
        members = {field.name: getattr(value, field.name) for field in fields_of(kind)}
    else:
        return value
    return {name: member for name, member in members.items() if member is not msgspec.UNSET}


def thaw(tree: Any) -> Any:
    """A plain copy of a tree: dicts and lists, at every level."""
    if isinstance(tree, dict):
        return {key: thaw(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [thaw(value) for value in tree]
    return tree
