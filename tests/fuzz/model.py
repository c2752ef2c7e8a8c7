"""What the writer must make of a value, in plain Python: the oracle of the targets that write trees.

A value may be wrong in several ways, and which of them is met first is nobody's promise. So the model collects them
all: the writer has to refuse where there is one, and by one of them.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import msgspec

from mcpinput.errors import JsonErrorKind as Kind
from tests.property.twin_json import MAXIMUM_DIGITS, MAXIMUM_EXPONENT

PLAIN = (str, int, float, Decimal, dict, list, tuple, type(None))
DIGITS_END = 10**MAXIMUM_DIGITS
FAULTS = frozenset(Kind) - {Kind.SYNTAX, Kind.TRUNCATED, Kind.ENCODING, Kind.ESCAPE}


class Model:
    """A value as plain JSON: dict, list, str, int, Decimal, bool and None.

    Attributes:
        faults: Why it cannot be written.
        has_end: The whole value was seen. One that is too deep or too large is not walked to its end.
        plain: The plain value, where there are no faults.
    """

    def __init__(self, value: Any, depth: int, nodes: int, string_bytes: int, *, floats: bool = True) -> None:
        self.faults: set[Kind] = set()
        self.has_end = True
        self._depth = depth
        self._nodes = nodes
        self._string_bytes = string_bytes
        self._floats = floats
        self.plain = self._plain(value, 0)

    def _stop(self, kind: Kind) -> None:
        self.faults.add(kind)
        self.has_end = False

    def _plain(self, value: Any, depth: int) -> Any:
        if not self.has_end:
            return None
        self._nodes -= 1
        if self._nodes < 0:
            return self._stop(Kind.NODES)
        if not isinstance(value, PLAIN):
            value = resolved(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, (int, Decimal, float)):
            return self._number(value)
        if not isinstance(value, (dict, list, tuple)):
            return self.faults.add(Kind.TYPE)
        if depth == self._depth:
            return self._stop(Kind.DEPTH)
        if isinstance(value, dict):
            members: dict[str, Any] = {}
            for name, member in (OrderedDict if isinstance(value, OrderedDict) else dict).items(value):
                if not isinstance(name, str):
                    self.faults.add(Kind.KEY)
                    continue
                text = self._text(name)
                if text in members:
                    self.faults.add(Kind.DUPLICATE)
                members[text] = self._plain(member, depth + 1)
            return members
        items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
        return [self._plain(item, depth + 1) for item in items]

    def _text(self, value: str) -> str:
        text = str.__str__(value)
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            self.faults.add(Kind.SURROGATE)
            encoded = text.encode("utf-8", "surrogatepass")
        if len(encoded) > self._string_bytes:
            self.faults.add(Kind.STRING)
        return text

    def _number(self, value: Any) -> Any:
        if isinstance(value, float) and not self._floats:
            self.faults.add(Kind.TYPE)
        number, faults = number_faults(value)
        self.faults |= faults
        return number


def resolved(value: Any) -> Any:
    """What stands for an enum's member, a dataclass or a Struct; any other value itself."""
    while isinstance(value, enum.Enum) and not isinstance(value, PLAIN):
        value = value.value
    kind = type(value)
    if issubclass(kind, msgspec.Struct):
        config = kind.__struct_config__
        fields = {encoded: getattr(value, name) for name, encoded in names_of(kind)}
        if config.array_like:
            return [config.tag, *fields.values()]
        tag = {config.tag_field: config.tag} if config.tag else {}
    elif dataclasses.is_dataclass(kind):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
        tag = {}
    else:
        return value
    return tag | {name: member for name, member in fields.items() if member is not msgspec.UNSET}


@functools.cache
def names_of(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """The fields of a Struct by attribute and by name in JSON."""
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(kind))


def number_faults(value: Any) -> tuple[Any, set[Kind]]:
    """A number as int or Decimal without subclass and sign of zero, and why it cannot be written."""
    if isinstance(value, float):
        value = Decimal(float.__repr__(value))
    if isinstance(value, int):
        value = int.__add__(value, 0)
        return value, {Kind.NUMBER_SIZE} if abs(value) >= DIGITS_END else set()
    sign, digits, exponent = Decimal.as_tuple(value)
    if not isinstance(exponent, int):
        return value, {Kind.NOT_FINITE}
    faults = set()
    if len(digits) > MAXIMUM_DIGITS:
        faults.add(Kind.NUMBER_SIZE)
    if abs(exponent + len(digits) - 1) > MAXIMUM_EXPONENT:
        faults.add(Kind.EXPONENT)
    return Decimal((sign if any(digits) else 0, digits, exponent)), faults


def compact(plain: Any) -> str:
    """The text of a plain value on one line, members in their own order."""
    if isinstance(plain, dict):
        return "{" + ",".join([f"{compact(name)}:{compact(value)}" for name, value in plain.items()]) + "}"
    if isinstance(plain, list):
        return "[" + ",".join([compact(item) for item in plain]) + "]"
    if isinstance(plain, Decimal):
        return str(plain)
    return json.dumps(plain, ensure_ascii=False)
