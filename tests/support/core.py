"""The compiled core with its limits as plain numbers, as those draw them who try many."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from mcpinput._core import canonical, digest
from mcpinput._core import dump as writer
from mcpinput._core import parse as reader
from mcpinput.json import Limits

_MAXIMA = {"body_bytes": 16 << 20, "canonical_bytes": 32 << 20, "response_bytes": 64 << 20}


@functools.lru_cache(1000)  # a fuzzing engine draws new ones for as long as it runs
def limits(depth: int, nodes: int, string: int, **sizes: int) -> Limits:
    """Limits in which a size that is above its maximum is that."""
    return Limits(depth, nodes, string, **{name: min(size, _MAXIMA[name]) for name, size in sizes.items()})


def parse(data: Any, depth: int, nodes: int, string: int, body: int) -> Any:
    return reader.parse(data, limits=limits(depth, nodes, string, body_bytes=body))


def parse_state(data: Any, depth: int, nodes: int, string: int, body: int) -> Any:
    return reader.parse_state(data, limits=limits(depth, nodes, string, body_bytes=body))


def dump(value: object, depth: int, nodes: int, string: int, response: int) -> bytes:
    return writer.dump(value, limits=limits(depth, nodes, string, response_bytes=response))


def canonical_bytes(value: object, depth: int, nodes: int, string: int, size: int, floats: bool) -> bytes:
    return canonical.canonical_bytes(
        value, floats="repr" if floats else "refuse", limits=limits(depth, nodes, string, canonical_bytes=size)
    )


def canonical_raw(data: Any, depth: int, nodes: int, string: int, body: int, size: int) -> bytes:
    return digest.canonical_raw(data, limits=limits(depth, nodes, string, body_bytes=body, canonical_bytes=size))


def params_digest(params: Any, depth: int, nodes: int, string: int, body: int, size: int) -> bytes:
    return digest.parameter_digest(params, limits=limits(depth, nodes, string, body_bytes=body, canonical_bytes=size))


def message_digest(message: Any, depth: int, nodes: int, string: int, body: int, size: int) -> bytes:
    return digest.message_digest(message, limits=limits(depth, nodes, string, body_bytes=body, canonical_bytes=size))


def tree_digest(params: Mapping[str, Any], depth: int, nodes: int, string: int, size: int) -> bytes:
    return digest.parameter_digest(params, limits=limits(depth, nodes, string, canonical_bytes=size))
