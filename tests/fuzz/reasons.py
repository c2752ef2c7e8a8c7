"""Why a text is refused, in plain Python: beside the twin of the parser, which says whether, and what the value is.

Rules

- The text is read from front to back, and the first thing that is wrong counts. A limit on nodes or depth counts where
  the value begins, one on a string where it has ended, a second member of one name once its value has ended.
- Nothing is shared with the core: strings are taken apart by the standard library's decoder, numbers by expressions.
"""

from __future__ import annotations

import re

from mcpinput.errors import JsonErrorKind as Kind
from tests.property.twin_json import MAXIMUM_CHARACTERS, MAXIMUM_DIGITS, MAXIMUM_EXPONENT, MAXIMUM_TEXT

SPACE = re.compile(rb"[ \t\n\r]*")
PLAIN = re.compile(rb'[^"\\\x00-\x1f\x80-\xff]+')
HEX = re.compile(rb"\\u([0-9a-fA-F]{4})")
DIGITS = re.compile(rb"[0-9]*")
SIMPLE = {b'"': b'"', b"\\": b"\\", b"/": b"/", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}


class _Wrong(Exception):
    def __init__(self, kind: Kind) -> None:
        self.kind = kind


def refusal(text: bytes, depth: int, nodes: int, string_bytes: int, size: int, *, state: bool = False) -> Kind | None:
    """What is wrong with a text by the reading rules, or with ``state`` by those of verified state; None if nothing."""
    if len(text) > size:
        return Kind.SIZE
    try:
        _Reader(text, depth, nodes, string_bytes, state).document()
    except _Wrong as wrong:
        return wrong.kind
    return None


class _Reader:
    def __init__(self, text: bytes, depth: int, nodes: int, string_bytes: int, state: bool) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.nodes = nodes
        self.string_bytes = string_bytes
        self.state = state

    def document(self) -> None:
        self.value(0)
        if self.peek():
            raise _Wrong(Kind.SYNTAX)

    def peek(self) -> bytes:
        """The next byte that is no white space; empty at the end."""
        self.at = SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.text[self.at : self.at + 1]

    def expect(self, *marks: bytes) -> bytes:
        found = self.peek()
        if found not in marks:
            raise _Wrong(Kind.SYNTAX if found else Kind.TRUNCATED)
        self.at += 1
        return found

    def value(self, depth: int) -> None:
        first = self.peek()
        if not first:
            raise _Wrong(Kind.TRUNCATED)
        self.nodes -= 1
        if self.nodes < 0:
            raise _Wrong(Kind.NODES)
        if first == b'"':
            self.at += 1
            self.string()
        elif first in (b"{", b"["):
            if depth == self.depth:
                raise _Wrong(Kind.DEPTH)
            self.at += 1
            if first == b"{":
                self.members(depth + 1)
            else:
                self.items(depth + 1)
        elif first in b"-0123456789":
            self.number()
        else:
            self.literal()

    def members(self, depth: int) -> None:
        names: set[bytes] = set()
        if self.peek() == b"}":
            self.at += 1
            return
        while True:
            self.expect(b'"')
            name = self.string()
            self.expect(b":")
            self.value(depth)
            if name in names:
                raise _Wrong(Kind.DUPLICATE)
            names.add(name)
            if self.expect(b",", b"}") == b"}":
                return

    def items(self, depth: int) -> None:
        if self.peek() == b"]":
            self.at += 1
            return
        while True:
            self.value(depth)
            if self.expect(b",", b"]") == b"]":
                return

    def literal(self) -> None:
        rest = self.text[self.at : self.at + 5]
        for word in (b"true", b"false", b"null"):
            if rest.startswith(word):
                self.at += len(word)
                return
            if word.startswith(rest):
                raise _Wrong(Kind.TRUNCATED)
        raise _Wrong(Kind.SYNTAX)

    def string(self) -> bytes:
        parts: list[bytes] = []
        while (part := self.part()) is not None:
            parts.append(part)
        value = b"".join(parts)
        if len(value) > self.string_bytes:
            raise _Wrong(Kind.STRING)
        return value

    def part(self) -> bytes | None:
        """The next few characters of a string in UTF-8; None after its end."""
        if match := PLAIN.match(self.text, self.at):
            self.at = match.end()
            return match.group()
        first = self.text[self.at : self.at + 1]
        if not first:
            raise _Wrong(Kind.TRUNCATED)
        if first == b'"':
            self.at += 1
            return None
        if first < b" ":
            raise _Wrong(Kind.ENCODING)
        if first == b"\\":
            return self.escape()
        for length in (2, 3, 4):
            character = self.text[self.at : self.at + length]
            try:
                character.decode()
            except UnicodeDecodeError:
                continue
            self.at += length
            return character
        raise _Wrong(Kind.ENCODING)

    def escape(self) -> bytes:
        letter = self.text[self.at + 1 : self.at + 2]
        if not letter:
            raise _Wrong(Kind.TRUNCATED)
        if letter in SIMPLE:
            self.at += 2
            return SIMPLE[letter]
        high = HEX.match(self.text, self.at)
        if high is None:
            raise _Wrong(Kind.ESCAPE)
        self.at += 6
        unit = bytes.fromhex(high[1].decode())
        if unit[0] & 0xF8 == 0xD8:
            low = HEX.match(self.text, self.at)
            if low is None:
                raise _Wrong(Kind.SURROGATE)
            self.at += 6
            unit += bytes.fromhex(low[1].decode())
        try:
            return unit.decode("utf-16-be").encode()
        except UnicodeDecodeError:
            raise _Wrong(Kind.SURROGATE) from None

    def digits(self) -> bytes:
        """At least one digit."""
        match = DIGITS.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        if not match.group():
            raise _Wrong(Kind.SYNTAX if self.at < len(self.text) else Kind.TRUNCATED)
        return match.group()

    def number(self) -> None:
        start = self.at
        self.at += self.text.startswith(b"-", self.at)
        coefficient = self.digits()
        if len(coefficient) > 1 and coefficient.startswith(b"0"):
            raise _Wrong(Kind.SYNTAX)
        plain = True
        scale = 0
        if self.text.startswith(b".", self.at):
            plain = False
            self.at += 1
            fraction = self.digits()
            coefficient += fraction
            scale = -len(fraction)
        written = 0
        if self.text.startswith((b"e", b"E"), self.at):
            plain = False
            self.at += 1
            minus = self.text.startswith(b"-", self.at)
            self.at += minus or self.text.startswith(b"+", self.at)
            magnitude = self.digits().lstrip(b"0") or b"0"
            written = int(magnitude) if len(magnitude) < 9 else 10**9
            written = -written if minus else written
        length = self.at - start
        digits = len(coefficient.lstrip(b"0") or b"0")
        if length > MAXIMUM_TEXT or digits > MAXIMUM_DIGITS if self.state else length > MAXIMUM_CHARACTERS:
            raise _Wrong(Kind.NUMBER_SIZE)
        if plain and not self.state:
            return
        if abs(written) > MAXIMUM_EXPONENT or abs(written + scale + digits - 1) > MAXIMUM_EXPONENT:
            raise _Wrong(Kind.EXPONENT)
