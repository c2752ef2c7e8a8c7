"""Slow twin of canonical form v1 and the parameter digest, in plain Python: the oracle of the compiled core.

It shares no code with the core: strings go through the standard library's ``json``, numbers through the text form of
``decimal.Decimal`` (which defines the form), order through the UTF-16 encoding of the names. It knows no limits.
"""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from typing import Any

TRANSIENT_META = frozenset({"progressToken", "traceparent", "tracestate", "baggage"})
RETRY_PARAMS = frozenset({"inputResponses", "requestState"})


def canonical_number(number: int | Decimal) -> str:
    """The exact value with trailing zeros stripped, in the text form of ``decimal.Decimal``."""
    sign, digits, exponent = Decimal(number).as_tuple()
    assert isinstance(exponent, int)
    while len(digits) > 1 and digits[-1] == 0:
        digits = digits[:-1]
        exponent += 1
    if digits == (0,):
        return "0"
    return str(Decimal((sign, digits, exponent)))


def canonical_text(tree: Any) -> str:
    """Canonical form v1 of what a parser makes of JSON."""
    if tree is None or isinstance(tree, (bool, str)):
        return json.dumps(tree, ensure_ascii=False)
    if isinstance(tree, (int, Decimal)):
        return canonical_number(tree)
    if isinstance(tree, (list, tuple)):
        return "[" + ",".join(map(canonical_text, tree)) + "]"
    assert isinstance(tree, dict)
    names = sorted(tree, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join(f"{canonical_text(name)}:{canonical_text(tree[name])}" for name in names) + "}"


def canonical(tree: Any) -> bytes:
    """Canonical form v1 in UTF-8."""
    return canonical_text(tree).encode()


def stable(params: dict[str, Any]) -> dict[str, Any]:
    """The members of a params object that the digest is taken over."""
    kept = {name: value for name, value in params.items() if name not in RETRY_PARAMS}
    meta = kept.get("_meta")
    if isinstance(meta, dict):
        kept["_meta"] = {name: value for name, value in meta.items() if name not in TRANSIENT_META}
        if not kept["_meta"]:
            del kept["_meta"]
    return kept


def digest(params: dict[str, Any]) -> bytes:
    """Parameter digest of a params object."""
    return hashlib.sha256(canonical(stable(params))).digest()


def read(text: bytes) -> Any:
    """Tree of an acceptable JSON text."""
    return json.loads(text, parse_float=Decimal)
