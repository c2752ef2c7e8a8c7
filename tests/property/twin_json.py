"""A slow twin of the strict parser, in plain Python: the oracle of the property tests.

It decodes the whole text first, takes tokens by regular expressions and recurses. It answers whether and what, not why:
every refusal is a :class:`Refused`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from mcpinput.json import Limits

NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
UNIT = re.compile(r"\\u([0-9a-fA-F]{4})")
LITERALS = {"true": True, "false": False, "null": None}

DEFAULT = Limits()
MAXIMUM_CHARACTERS = MAXIMUM_DIGITS = 1024
MAXIMUM_EXPONENT = 10_000
MAXIMUM_TEXT = 1033  # the longest text that the writing rules can give


class Refused(Exception):
    """The text is not acceptable."""


def parse(data: bytes, *, limits: Limits = DEFAULT, state: bool = False) -> Any:
    """The value of a text by the reading rules, or with ``state`` by those of verified state."""
    if len(data) > limits.body_bytes:
        raise Refused
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Refused from None
    return _Twin(text, limits, state).document()


class _Twin:
    def __init__(self, text: str, limits: Limits, state: bool) -> None:
        self.text = text
        self.at = 0
        self.depth = limits.depth
        self.nodes = limits.nodes
        self.string_bytes = limits.string_bytes
        self.state = state

    def document(self) -> Any:
        value = self.value(0)
        self.space()
        if self.at != len(self.text):
            raise Refused
        return value

    def space(self) -> None:
        while self.text[self.at : self.at + 1] in (" ", "\t", "\n", "\r"):
            self.at += 1

    def take(self, mark: str) -> bool:
        self.space()
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def value(self, depth: int) -> Any:
        self.nodes -= 1
        if self.nodes < 0:
            raise Refused
        if self.take('"'):
            return self.string()
        if self.take("{"):
            return self.members(depth + 1)
        if self.take("["):
            return self.items(depth + 1)
        for word, value in LITERALS.items():
            if self.take(word):
                return value
        match = NUMBER.match(self.text, self.at)
        if match is None:
            raise Refused
        self.at = match.end()
        return self.number(match)

    def members(self, depth: int) -> dict[str, Any]:
        if depth > self.depth:
            raise Refused
        members: dict[str, Any] = {}
        if self.take("}"):
            return members
        while True:
            if not self.take('"'):
                raise Refused
            name = self.string()
            if not self.take(":") or name in members:
                raise Refused
            members[name] = self.value(depth)
            if self.take("}"):
                return members
            if not self.take(","):
                raise Refused

    def items(self, depth: int) -> list[Any]:
        if depth > self.depth:
            raise Refused
        items: list[Any] = []
        if self.take("]"):
            return items
        while True:
            items.append(self.value(depth))
            if self.take("]"):
                return items
            if not self.take(","):
                raise Refused

    def string(self) -> str:
        parts: list[str] = []
        while True:
            if match := PLAIN.match(self.text, self.at):
                parts.append(match.group())
                self.at = match.end()
            elif self.text.startswith('"', self.at):
                self.at += 1
                break
            elif match := UNIT.match(self.text, self.at):
                parts.append(chr(int(match.group(1), 16)))
                self.at = match.end()
            elif self.text.startswith("\\", self.at) and self.text[self.at + 1 : self.at + 2] in ESCAPES:
                parts.append(ESCAPES[self.text[self.at + 1]])
                self.at += 2
            else:
                raise Refused
        try:
            # Joins escaped pairs, and finds the halves that are left over.
            value = "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise Refused from None
        if len(value.encode()) > self.string_bytes:
            raise Refused
        return value

    def number(self, match: re.Match[str]) -> Any:
        sign, integer, fraction, exponent = match.groups()
        plain = fraction is None and exponent is None
        if not self.state:
            if len(match.group()) > MAXIMUM_CHARACTERS:
                raise Refused
            if plain:
                return _exact(sign, integer)
        digits = (integer + (fraction or "")).lstrip("0") or "0"
        written = _bounded(exponent or "0")
        scale = written - len(fraction or "")
        if self.state and (len(digits) > MAXIMUM_DIGITS or len(match.group()) > MAXIMUM_TEXT):
            raise Refused
        if abs(scale + len(digits) - 1) > MAXIMUM_EXPONENT:
            raise Refused
        if self.state:
            return _canonical(sign, digits, scale)
        return Decimal((int(bool(sign) and digits != "0"), tuple(map(int, digits)), scale))


def _exact(sign: str, digits: str) -> int:
    value = 0
    for digit in digits:
        value = value * 10 + int(digit)
    return -value if sign else value


def _bounded(exponent: str) -> int:
    digits = exponent.lstrip("+-").lstrip("0") or "0"
    if len(digits) > 5 or int(digits) > MAXIMUM_EXPONENT:
        raise Refused
    return -int(digits) if exponent.startswith("-") else int(digits)


def _canonical(sign: str, digits: str, scale: int) -> int | Decimal:
    stripped = digits.rstrip("0")
    if not stripped:
        return 0
    scale += len(digits) - len(stripped)
    if scale >= 0 and len(sign) + len(stripped) + scale <= MAXIMUM_CHARACTERS:
        return _exact(sign, stripped + "0" * scale)
    return Decimal((int(bool(sign)), tuple(map(int, stripped)), scale))
