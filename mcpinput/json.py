"""JSON as this library reads and writes it: strict RFC 8259, exact decimals, bounded, with a canonical form.

An integer token becomes :class:`int`, every other number a :class:`decimal.Decimal` with its scale kept. Never a float.
Canonical form v1 is RFC 8785 in everything but numbers: those keep their exact value, so it is *not* JCS, which rounds
to IEEE doubles.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as fields_of
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast

import msgspec

from mcpinput._core import canonical as _canonical
from mcpinput._core import digest as _digest
from mcpinput._core import dump as _dump
from mcpinput._core import parse as _parse
from mcpinput.errors import JsonErrorKind, JsonWriteError

if TYPE_CHECKING:
    from typing_extensions import Buffer

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

MAXIMUM_DEPTH: Final = 256
MAXIMUM_NODES: Final = 1_000_000
MAXIMUM_STRING_BYTES: Final = 8 * 1024 * 1024
MAXIMUM_BODY_BYTES: Final = 16 * 1024 * 1024
MAXIMUM_CANONICAL_BYTES: Final = 32 * 1024 * 1024
MAXIMUM_RESPONSE_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what is read and written. Those on numbers are fixed: 1,024 characters or digits, exponent ±10,000.

    Attributes:
        depth: Arrays and objects inside one another, at most 256.
        nodes: Values in one document, containers included, at most 1,000,000.
        string_bytes: UTF-8 bytes of one string or member name once unescaped, at most 8 MiB.
        body_bytes: Bytes of one text that is parsed: 10 MiB, at most 16 MiB.
        canonical_bytes: Bytes of one canonical text, at most 32 MiB (spelling can grow, at worst double).
        response_bytes: Bytes of one text that is written: 4 MiB, at most 64 MiB.

    Raises:
        TypeError: A limit is no int.
        ValueError: A limit is not positive, or above its maximum.
    """

    depth: int = MAXIMUM_DEPTH
    nodes: int = MAXIMUM_NODES
    string_bytes: int = MAXIMUM_STRING_BYTES
    body_bytes: int = 10 * 1024 * 1024
    canonical_bytes: int = MAXIMUM_CANONICAL_BYTES
    response_bytes: int = 4 * 1024 * 1024

    def __post_init__(self) -> None:
        for name, maximum in _MAXIMA.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"limit {name} must be an int, not {type(value).__name__}")
            if not 1 <= value <= maximum:
                raise ValueError(f"limit {name} must be from 1 to {maximum}")


_MAXIMA: Final = {
    "depth": MAXIMUM_DEPTH,
    "nodes": MAXIMUM_NODES,
    "string_bytes": MAXIMUM_STRING_BYTES,
    "body_bytes": MAXIMUM_BODY_BYTES,
    "canonical_bytes": MAXIMUM_CANONICAL_BYTES,
    "response_bytes": MAXIMUM_RESPONSE_BYTES,
}
_DEFAULT: Final = Limits()


def parse(data: Buffer, *, limits: Limits = _DEFAULT) -> JsonValue:
    """Reads one JSON text.

    Args:
        data: UTF-8 bytes, in any object with the buffer protocol.
        limits: ``depth``, ``nodes``, ``string_bytes`` and ``body_bytes`` apply.

    Raises:
        JsonParseError: Not strict JSON, or over a limit; says what, where, and which limit.
        TypeError: ``data`` is a str or has no buffer.
    """
    # PERF: cast() would be a call.
    value: JsonValue = _parse.parse(data, limits.depth, limits.nodes, limits.string_bytes, limits.body_bytes)
    return value


def dump(value: object, *, limits: Limits = _DEFAULT) -> bytes:
    """Writes one value as compact JSON on one line, members in their own order.

    Takes what :func:`parse` makes, with subclasses, tuples, finite floats (as the decimal of their shortest repr),
    enums by value, dataclasses and msgspec Structs (as objects).

    Args:
        value: The value. Nothing is written unless all of it can be.
        limits: ``depth``, ``nodes``, ``string_bytes`` and ``response_bytes`` apply.

    Raises:
        JsonWriteError: NaN, an infinity, a lone surrogate, a cycle, or over a limit.
        JsonTypeError: A type, or a key, that JSON has no form for.
    """
    return _dump.dump(value, limits.depth, limits.nodes, limits.string_bytes, limits.response_bytes)


def canonical_bytes(value: object, *, floats: Literal["refuse", "repr"] = "refuse", limits: Limits = _DEFAULT) -> bytes:
    """Canonical form v1 of a tree: equal bytes if and only if the trees are numerically equal.

    It is RFC 8785 (no white space, members sorted by UTF-16 code units, its string escapes) in everything but numbers,
    which are exact: trailing zeros stripped, in the text form of ``decimal.Decimal``.

    Args:
        value: The tree. It takes what :func:`dump` takes.
        floats: ``"refuse"`` them, since ``0.1`` is not ``Decimal("0.1")``, or take the decimal of their ``"repr"``.
        limits: ``depth``, ``nodes``, ``string_bytes`` and ``canonical_bytes`` apply.

    Raises:
        JsonWriteError, JsonTypeError: As :func:`dump`; a float under ``"refuse"`` is a JsonTypeError.
    """
    if floats not in ("refuse", "repr"):
        raise ValueError('floats must be "refuse" or "repr"')
    return _canonical.canonical_bytes(
        value, limits.depth, limits.nodes, limits.string_bytes, limits.canonical_bytes, floats == "repr"
    )


def canonical_raw(data: Buffer, *, limits: Limits = _DEFAULT) -> bytes:
    """Canonical form v1 of a JSON text: ``canonical_bytes(parse(data))`` without the tree.

    Raises:
        JsonParseError: As :func:`parse`, or the canonical text is over ``limits.canonical_bytes``.
    """
    return _digest.canonical_raw(
        data, limits.depth, limits.nodes, limits.string_bytes, limits.body_bytes, limits.canonical_bytes
    )


def canonical_number(x: int | Decimal | float) -> str:
    """Text of a number in canonical form v1: ``100`` is ``"1E+2"``, ``Decimal("1.50")`` is ``"1.5"``.

    Raises:
        JsonWriteError: Not finite, or over 1,024 significant digits, or an adjusted exponent beyond ±10,000.
        JsonTypeError: No number; a bool is none.
    """
    return _canonical.canonical_number(x)


def parameter_digest(params: Buffer | Mapping[str, Any], *, limits: Limits = _DEFAULT) -> bytes:
    """SHA-256 over canonical form v1 of the stable members of a request's ``params``.

    Left out, at the top level only: ``inputResponses``, ``requestState``, and of ``_meta`` the members
    ``progressToken``, ``traceparent``, ``tracestate`` and ``baggage``. A ``_meta`` that is empty, or empty then, counts
    as absent.

    Args:
        params: Raw bytes of the JSON-RPC ``params`` object, or the mapping that :func:`parse` makes of them.
        limits: As :func:`parse`, and ``canonical_bytes``.

    Returns:
        32 bytes, the same for both kinds of argument.

    Raises:
        JsonParseError: The bytes are not acceptable JSON, or no object.
        JsonWriteError: The mapping cannot be written in canonical form.
    """
    if not isinstance(params, bytes) and isinstance(params, Mapping):
        return _digest.tree_digest(params, limits.depth, limits.nodes, limits.string_bytes, limits.canonical_bytes)
    return _digest.params_digest(
        params, limits.depth, limits.nodes, limits.string_bytes, limits.body_bytes, limits.canonical_bytes
    )


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


_LEAVES: Final = frozenset({str, int, Decimal, bool, float, type(None)})


def freeze(tree: _T) -> _T:
    """An unchangeable copy of a tree; equal to it, and a dict or list itself.

    It takes what :func:`dump` takes and makes JSON of it: tuples become arrays, enums their values, dataclasses and
    msgspec Structs objects. Whatever else JSON has no form for stays as it is, for the writer to refuse.

    Raises:
        JsonWriteError: Containers inside one another beyond the depth limit, as in a cycle.
    """
    return cast("_T", _freeze(tree, MAXIMUM_DEPTH))


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
        raise JsonWriteError(
            JsonErrorKind.DEPTH, f"containers are nested deeper than {MAXIMUM_DEPTH}", limit=MAXIMUM_DEPTH
        )
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
