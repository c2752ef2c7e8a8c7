# What canonical.pyx uses of dump.pyx.
from cpython.object cimport PyObject
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t

from mcpinput._core.buf cimport Buf
from mcpinput._core.limits cimport Bounds


cdef enum:
    # Room for the text of any number within the writing limits (MI_NUMBER_TEXT bytes), and for a piece of any text.
    SPARE_BYTES = 1544
    FIRST_BYTES = 4096  # of memory on the stack to begin with


# A tree that is being written. References to its parts are borrowed: while it is first written no code of the
# application runs, and later, when `copying`, who calls `write` holds what is written.
cdef struct Writer:
    Buf out
    size_t depth
    size_t max_depth
    size_t nodes
    size_t max_nodes
    size_t max_string
    bint copying
    int (*put_object)(Writer *, PyObject *) except -1
    int (*put_number)(Writer *, PyObject *) except -1  # of an int (no bool), a Decimal, a float, or a subclass
    uint8_t spare[SPARE_BYTES]  # here, and not in a frame of the recursion


# The JsonTypeError and JsonWriteError to raise.
cdef object key_error(object name)
cdef object equal_names_error()

# Writes a tree, in full or not at all. `put_object` and `put_number` have to be set; NULL for numbers as dump writes
# them.
cdef bytes written(Writer *w, object value, Bounds limits, size_t max_size)

# Counts and writes one value with a comma behind it.
cdef int write(Writer *w, PyObject *value) except -1
cdef int count_node(Writer *w) except -1

# The value itself where it is of a plain type, else what stands for it. While a tree is first written this raises, so
# that writing starts again; then it runs Python code of the application.
cdef object resolved(Writer *w, object value)

# An opening bracket or brace, and a closing one for it with a comma behind it.
cdef int open_container(Writer *w, uint8_t bracket) except -1
cdef int close_container(Writer *w, uint8_t bracket) except -1

# A str or a subclass of it: quoted, with the escapes of RFC 8785, and one byte behind it.
cdef int put_text(Writer *w, PyObject *text, uint8_t behind) except -1

# Room for so many bytes at w.out.to.
cdef int make_room(Writer *w, size_t size) except -1

# Text of an int (no bool), a Decimal or a float within the writing limits, into MI_NUMBER_TEXT bytes; gives its length.
cdef Py_ssize_t number_text(object number, uint8_t *out) except -1

# The same of a Decimal's own text.
cdef Py_ssize_t decimal_text(object text, uint8_t *out) except -1
