"""Resource URI templates (RFC 6570, levels 1 and 2): which URIs they match, with which variables.

Rules

- ``{name}`` stands for one segment (no ``/``, ``?`` or ``#``), ``{+name}`` for anything; neither for nothing.
- Values are percent-decoded once. A value that is not UTF-8 then does not match.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")
_VARIABLE: Final = re.compile(r"\+?([A-Za-z_][A-Za-z0-9_]*)")


class UriTemplate:
    """A template, compiled.

    Raises:
        ValueError: An expression is not of the form ``{name}`` or ``{+name}``, a name stands twice, or two expressions
            touch, so that nobody can tell where one ends.
    """

    __slots__ = ("_pattern", "text", "variables")

    def __init__(self, text: str) -> None:
        pattern = ""
        variables: list[str] = []
        position = 0
        for match in _EXPRESSION.finditer(text):
            variable = _VARIABLE.fullmatch(match[1])
            if variable is None:
                raise ValueError(f"URI template {text!r}: {match[0]} is not {{name}} or {{+name}}")
            name = variable[1]
            if name in variables:
                raise ValueError(f"URI template {text!r}: variable {name} stands twice")
            if variables and match.start() == position:
                raise ValueError(f"URI template {text!r}: text is needed between {{{variables[-1]}}} and {{{name}}}")
            variables.append(name)
            pattern += re.escape(text[position : match.start()])
            pattern += f"(?P<{name}>.+)" if match[1].startswith("+") else f"(?P<{name}>[^/?#]+)"
            position = match.end()
        rest = text[position:]
        if not variables or "{" in rest or "}" in rest:
            raise ValueError(f"URI template {text!r} has no variable, or an unpaired brace")
        self._pattern: Final = re.compile(pattern + re.escape(rest), re.DOTALL)
        self.text: Final = text
        self.variables: Final = tuple(variables)

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables of a URI that the template matches, else None."""
        match = self._pattern.fullmatch(uri)
        if match is None:
            return None
        values = {}
        for name, raw in match.groupdict().items():
            try:
                values[name] = unquote_to_bytes(raw).decode()
            except UnicodeDecodeError:
                return None
        return values


def is_template(uri: str) -> bool:
    """Whether a resource address has variables."""
    return "{" in uri or "}" in uri
