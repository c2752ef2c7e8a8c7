"""Resource URI templates (RFC 6570, levels 1 and 2): which URIs they match, with which variables.

Rules

- ``{name}`` stands for one segment (no ``/``, ``?`` or ``#``), ``{+name}`` for anything; neither for nothing.
- Where more than one reading is possible, what is left of ``{+name}`` (of the last variable without one) is taken as
  short as it can be from the left, what is right of it from the right. So matching never goes back, and takes linear
  time on any URI.
- Values are percent-decoded once. A value that is not UTF-8 then does not match, nor does one of ``{name}`` that has
  become something else than a segment: with a slash, a backslash or a NUL in it, or ``.`` or ``..``.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")
_VARIABLE: Final = re.compile(r"(\+?)([A-Za-z_][A-Za-z0-9_]*)")
_NOT_IN_SEGMENT: Final = re.compile(r"[/?#]")
_NO_SEGMENT: Final = re.compile(r".*[/\\\0].*|\.\.?", re.DOTALL)


class UriTemplate:
    """A template, taken apart.

    Attributes:
        text: The template.
        variables: Names of its variables, in their order.

    Raises:
        ValueError: An expression is not of the form ``{name}`` or ``{+name}``, a name stands twice, more than one is
            ``{+name}``, or two expressions touch, so that nobody can tell where one ends.
    """

    __slots__ = ("_literals", "_rest", "text", "variables")

    def __init__(self, text: str) -> None:
        literals: list[str] = []
        variables: list[str] = []
        rest: int | None = None
        position = 0
        for match in _EXPRESSION.finditer(text):
            variable = _VARIABLE.fullmatch(match[1])
            if variable is None:
                raise ValueError(f"URI template {text!r}: {match[0]} is not {{name}} or {{+name}}")
            name = variable[2]
            if name in variables:
                raise ValueError(f"URI template {text!r}: variable {name} stands twice")
            if variables and match.start() == position:
                raise ValueError(f"URI template {text!r}: text is needed between {{{variables[-1]}}} and {{{name}}}")
            if variable[1]:
                if rest is not None:
                    raise ValueError(f"URI template {text!r}: only one variable may be {{+name}}")
                rest = len(variables)
            variables.append(name)
            literals.append(text[position : match.start()])
            position = match.end()
        literals.append(text[position:])
        if not variables or any("{" in literal or "}" in literal for literal in literals):
            raise ValueError(f"URI template {text!r} has no variable, or an unpaired brace")
        self._literals: Final = tuple(literals)
        self._rest: Final = rest
        self.text: Final = text
        self.variables: Final = tuple(variables)

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables of a URI that the template matches, else None."""
        literals = self._literals
        start, end = len(literals[0]), len(uri) - len(literals[-1])
        if start >= end or not uri.startswith(literals[0]) or not uri.endswith(literals[-1]):
            return None
        last = len(self.variables) - 1
        rest = last if self._rest is None else self._rest
        raw = [""] * len(self.variables)
        for index in range(rest):
            found = uri.find(literals[index + 1], start + 1, end)
            if found < 0:
                return None
            raw[index] = uri[start:found]
            start = found + len(literals[index + 1])
        for index in range(last, rest, -1):
            found = uri.rfind(literals[index], start, end - 1)
            if found < 0:
                return None
            raw[index] = uri[found + len(literals[index]) : end]
            end = found
        if start >= end:
            return None
        raw[rest] = uri[start:end]
        values = {}
        for index, (name, text) in enumerate(zip(self.variables, raw, strict=True)):
            if index != self._rest and _NOT_IN_SEGMENT.search(text):
                return None
            try:
                value = unquote_to_bytes(text).decode()
            except UnicodeDecodeError:
                return None
            if index != self._rest and _NO_SEGMENT.fullmatch(value):
                return None
            values[name] = value
        return values


def is_template(uri: str) -> bool:
    """Whether a resource address has variables."""
    return "{" in uri or "}" in uri
