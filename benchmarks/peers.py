"""Who this library is measured against. A peer that is not installed is left out; ``.[bench]`` has them all.

``orjson`` and plain ``msgspec`` round fractions to doubles, so they do less than is asked here. They are the bar all
the same: an exact reader should not cost more than a rounding one.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable
from decimal import Decimal
from types import ModuleType
from typing import Any, Final, TypeAlias

Peer: TypeAlias = tuple[str, Callable[[Any], object]]
"""Name of the peer, and what it does with a text or a tree."""


NAMES: Final = ("msgspec", "orjson", "simplejson", "rfc8785", "mcp")
"""Every peer that is no part of Python."""


def installed(name: str) -> ModuleType | None:
    """The module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


_msgspec: Final[Any] = installed("msgspec")
_orjson: Final[Any] = installed("orjson")
_rfc8785: Final[Any] = installed("rfc8785")
_simplejson: Final[Any] = installed("simplejson")


def parsers_to_floats() -> list[Peer]:
    """Text to tree, fractions as doubles."""
    peers: list[Peer] = []
    if _msgspec:
        peers.append(("msgspec", _msgspec.json.Decoder().decode))
    if _orjson:
        peers.append(("orjson", _orjson.loads))
    peers.append(("json", json.loads))
    return peers


def parsers_to_decimals() -> list[Peer]:
    """Text to tree, fractions as Decimals."""
    peers: list[Peer] = []
    if _msgspec:
        peers.append(("msgspec", _msgspec.json.Decoder(float_hook=Decimal).decode))
    if _simplejson:
        peers.append(("simplejson", lambda raw: _simplejson.loads(raw, use_decimal=True)))
    peers.append(("json", lambda raw: json.loads(raw, parse_float=Decimal)))
    return peers


def digests_of_tree() -> list[Peer]:
    """SHA-256 over the sorted text of a ready tree of floats."""
    peers: list[Peer] = []
    if _orjson:
        sort = _orjson.OPT_SORT_KEYS
        peers.append(("orjson", lambda tree: hashlib.sha256(_orjson.dumps(tree, option=sort)).digest()))
    if _rfc8785:
        peers.append(("rfc8785", lambda tree: hashlib.sha256(_rfc8785.dumps(tree)).digest()))
    peers.append(
        (
            "json",
            lambda tree: hashlib.sha256(json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()).digest(),
        )
    )
    return peers


def digests_of_raw() -> list[Peer]:
    """The same from a text: each peer parses it first."""
    parsers = dict(parsers_to_floats())
    return [(name, _after(parsers.get(name, json.loads), digest)) for name, digest in digests_of_tree()]


def _after(parse: Callable[[Any], object], digest: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda raw: digest(parse(raw))


def writers_of_decimals() -> list[Peer]:
    """Tree with Decimals to text."""
    peers: list[Peer] = []
    if _msgspec:
        peers.append(("msgspec", _msgspec.json.Encoder(decimal_format="number").encode))
    if _simplejson:
        peers.append(("simplejson", lambda tree: _simplejson.dumps(tree, use_decimal=True).encode()))
    return peers
