# What the digest uses of canonical.pyx, and the names that both leave out.
from mcpinput._core.limits cimport Bounds


# Whose members are written, and so which of them have no part in the parameter digest.
cdef enum Place:
    ANYWHERE
    IN_PARAMS   # inputResponses, requestState, and _meta where nothing is (left) in it
    IN_META     # progressToken, traceparent, tracestate, baggage


# Canonical form v1 of a tree, or of what the digest takes of it where `place` is IN_PARAMS.
cdef bytes canonical_tree(object value, Bounds limits, bint floats, Place place)
