from collections.abc import Mapping
from typing import Any

from typing_extensions import Buffer

def canonical_raw(
    data: Buffer, max_depth: int, max_nodes: int, max_string: int, max_size: int, max_canonical: int
) -> bytes:
    """Canonical form v1 of a JSON text, without a tree. Raises JsonParseError."""

def params_digest(
    params: Buffer, max_depth: int, max_nodes: int, max_string: int, max_size: int, max_canonical: int
) -> bytes:
    """Parameter digest from the raw bytes of a params object. Raises JsonParseError."""

def message_digest(
    message: Buffer, max_depth: int, max_nodes: int, max_string: int, max_size: int, max_canonical: int
) -> bytes:
    """Parameter digest from the raw bytes of a whole JSON-RPC message: of its top-level member ``params``, the name
    compared unescaped; of an empty object where there is none. Raises JsonParseError."""

def tree_digest(
    params: Mapping[str, Any], max_depth: int, max_nodes: int, max_string: int, max_canonical: int
) -> bytes:
    """Parameter digest of a parsed params object. Raises JsonWriteError, JsonTypeError."""

def _in_chunks(data: Buffer, chunk: int, params: bool) -> bytes:
    """For tests: canonical_raw, or params_digest, by the widest limits and with chunks of ``chunk`` bytes."""
