# What the units of the core use of limits.pyx.
from libc.stddef cimport size_t


# The numbers of a Limits, checked once.
cdef class Bounds:
    cdef size_t max_depth
    cdef size_t max_nodes
    cdef size_t max_string
    cdef size_t max_body
    cdef size_t max_canonical
    cdef size_t max_response
