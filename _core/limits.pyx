"""Bounds on what is read and written.

PERF: an extension type, so that no call of the core has to fetch and check five numbers: that would take longer than
writing a small value does.
"""

cimport cython


cdef enum:
    MAXIMUM_DEPTH = 256
    MAXIMUM_NODES = 1_000_000
    MAXIMUM_STRING = 8 * 1024 * 1024
    MAXIMUM_BODY = 16 * 1024 * 1024
    MAXIMUM_CANONICAL = 32 * 1024 * 1024
    MAXIMUM_RESPONSE = 64 * 1024 * 1024


cdef class Bounds:
    pass


@cython.final
@cython.dataclasses.dataclass(frozen=True)
cdef class Limits(Bounds):
    """Bounds on what is read and written. Those on numbers are fixed: 1,024 characters or digits, exponent ±10,000.

    Attributes:
        depth: Arrays and objects inside one another, at most 256.
        nodes: Values in one document, containers included, at most 1,000,000.
        string_bytes: UTF-8 bytes of one string or member name once unescaped, at most 8 MiB.
        body_bytes: Bytes of one text that is parsed: 10 MiB, at most 16 MiB.
        canonical_bytes: Bytes of one canonical text, at most 32 MiB (spelling can grow, at worst double).
        response_bytes: Bytes of one text that is written: 4 MiB, at most 64 MiB.

    Raises:
        TypeError: A limit is no int.
        ValueError: A limit is not positive, or above its maximum.
    """

    depth: object = MAXIMUM_DEPTH
    nodes: object = MAXIMUM_NODES
    string_bytes: object = MAXIMUM_STRING
    body_bytes: object = 10 * 1024 * 1024
    canonical_bytes: object = MAXIMUM_CANONICAL
    response_bytes: object = 4 * 1024 * 1024

    def __post_init__(self):
        self.max_depth = checked("depth", self.depth, MAXIMUM_DEPTH)
        self.max_nodes = checked("nodes", self.nodes, MAXIMUM_NODES)
        self.max_string = checked("string_bytes", self.string_bytes, MAXIMUM_STRING)
        self.max_body = checked("body_bytes", self.body_bytes, MAXIMUM_BODY)
        self.max_canonical = checked("canonical_bytes", self.canonical_bytes, MAXIMUM_CANONICAL)
        self.max_response = checked("response_bytes", self.response_bytes, MAXIMUM_RESPONSE)

    def __reduce__(self):
        return (
            Limits,
            (self.depth, self.nodes, self.string_bytes, self.body_bytes, self.canonical_bytes, self.response_bytes),
        )


cdef object checked(str name, object value, size_t maximum):
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"limit {name} must be an int, not {type(value).__name__}")
    if not 1 <= value <= maximum:
        raise ValueError(f"limit {name} must be from 1 to {maximum}")
    return value
