# What the units of the core use of limits.pyx.
from libc.stddef cimport size_t


# The numbers of a Limits, checked once. All are 0, which refuses everything, until they are held.
cdef class Bounds:
    cdef size_t max_depth
    cdef size_t max_nodes
    cdef size_t max_string
    cdef size_t max_body
    cdef size_t max_canonical
    cdef size_t max_response


cdef object not_limits(object limits)


# What a caller has given as limits.
cdef inline Bounds bounds(object limits):
    if not isinstance(limits, Bounds):
        raise not_limits(limits)
    return <Bounds>limits
