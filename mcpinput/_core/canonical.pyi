from decimal import Decimal

def canonical_bytes(
    value: object, max_depth: int, max_nodes: int, max_string: int, max_size: int, floats: bool
) -> bytes:
    """Canonical form v1 of a tree. Raises JsonWriteError, JsonTypeError."""

def canonical_number(x: int | Decimal | float) -> str:
    """Canonical text of one number. Raises JsonWriteError, JsonTypeError."""

__pyx_capi__: dict[str, object]  # C functions for the other units of the core
