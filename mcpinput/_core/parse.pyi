from typing import Any

from typing_extensions import Buffer

def parse(data: Buffer, max_depth: int, max_nodes: int, max_string: int, max_size: int) -> Any:
    """Strict parse by the reading limits. Raises JsonParseError."""

def parse_state(data: Buffer, max_depth: int, max_nodes: int, max_string: int, max_size: int) -> Any:
    """Parse of canonical text by the writing limits. An integral number whose plain text, sign included, has at most
    1,024 characters becomes an int, any other the canonical Decimal. Raises JsonParseError."""

__pyx_capi__: dict[str, object]  # C functions for the other units of the core
