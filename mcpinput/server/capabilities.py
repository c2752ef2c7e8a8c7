"""What a client can be asked for, against what an operation asks for.

Source: the specification's ``basic/index`` (``_meta``) and ``schema.ts`` (``ClientCapabilities``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_KNOWN: Final[dict[str, tuple[str, ...] | None]] = {
    "elicitation": ("form", "url"),
    "sampling": ("tools", "context"),
    "roots": (),
    "extensions": None,
    "experimental": None,
}
"""The members of each capability that must be objects; None: every member."""


def malformed_capability(capabilities: Mapping[str, Any]) -> str | None:
    """The path of the first known capability that is no object, or None where all are well formed."""
    for name, parts in _KNOWN.items():
        if name not in capabilities:
            continue
        value = capabilities[name]
        if not isinstance(value, dict):
            return name
        for part in value if parts is None else parts:
            if part in value and not isinstance(value[part], dict):
                return f"{name}.{part}" if parts else f"a member of {name}"
    return None


def missing_capabilities(needed: Iterable[Mapping[str, Any]], declared: Mapping[str, Any]) -> dict[str, Any] | None:
    """All that is needed and not declared, merged into one object; None where nothing is missing.

    Args:
        needed: Capability objects as declarations give them, such as ``{"elicitation": {"form": {}}}``.
        declared: The client's capabilities, well formed. ``elicitation`` with neither ``form`` nor ``url`` means form.
    """
    missing: dict[str, Any] = {}
    for need in needed:
        for name, parts in need.items():
            held = declared.get(name)
            if held is None:
                missing.setdefault(name, {}).update(parts)
                continue
            if name == "elicitation" and "form" not in held and "url" not in held:
                held = {"form": {}}
            lacking = {part: value for part, value in parts.items() if part not in held}
            if lacking:
                missing.setdefault(name, {}).update(lacking)
    return missing or None
