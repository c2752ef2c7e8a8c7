def dump(value: object, max_depth: int, max_nodes: int, max_string: int, max_size: int) -> bytes:
    """Checked compact serialise. Raises JsonWriteError, JsonTypeError."""

__pyx_capi__: dict[str, object]  # C functions for the other units of the core
