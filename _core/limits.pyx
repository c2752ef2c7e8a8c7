"""The numbers of ``mcpinput.json.Limits`` as the core holds them.

PERF: an extension type, so that no call of the core has to fetch and convert five numbers from Python: that would take
longer than writing a small value does.
"""


cdef class Bounds:
    def __init__(self):
        raise TypeError("Bounds are made by mcpinput.json.Limits()")

    def __repr__(self):
        return (
            f"Limits(depth={self.max_depth}, nodes={self.max_nodes}, string_bytes={self.max_string}, "
            f"body_bytes={self.max_body}, canonical_bytes={self.max_canonical}, response_bytes={self.max_response})"
        )

    def _hold(
        self,
        size_t depth,
        size_t nodes,
        size_t string_bytes,
        size_t body_bytes,
        size_t canonical_bytes,
        size_t response_bytes,
    ):
        if self.max_depth:
            raise TypeError("limits cannot be changed")
        # Frames and offsets of the core have room for no more.
        if not 0 < depth <= 256 or body_bytes > 16 * 1024 * 1024 or canonical_bytes > 32 * 1024 * 1024:
            raise ValueError("limits beyond what the core has room for")
        self.max_depth = depth
        self.max_nodes = nodes
        self.max_string = string_bytes
        self.max_body = body_bytes
        self.max_canonical = canonical_bytes
        self.max_response = response_bytes


cdef object not_limits(object limits):
    return TypeError(f"limits must be a Limits, not {type(limits).__name__}")


DEFAULT = Bounds.__new__(Bounds)
DEFAULT._hold(256, 1_000_000, 8 * 1024 * 1024, 10 * 1024 * 1024, 32 * 1024 * 1024, 4 * 1024 * 1024)
