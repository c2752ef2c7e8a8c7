# What canonical.pyx uses of dump.pyx. Its comments say what each does.
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t

from mcpinput._core.buf cimport Buf


# The JsonWriteError to raise; the MemoryError where that is what `status` says.
cdef object value_error(object kind, str what, object limit=*)
cdef object output_error(Buf *out, int status)
cdef object too_deep(size_t limit)
cdef object too_many(size_t limit)

# Writes a str or a subclass of it: quoted, with the escapes of RFC 8785.
cdef int put_string(Buf *out, object text, size_t max_string) except -1

# Text of an int (no bool), a Decimal or a float within the writing limits, into MI_NUMBER_TEXT bytes; gives its length.
cdef Py_ssize_t number_text(object number, uint8_t *out) except -1

# What stands for a value that is neither of the plain types nor a subclass of one: an enum member's value, a dict (or
# list) of the fields of a dataclass or Struct. Runs Python code of the application. Raises JsonTypeError.
cdef object plain_value(object value)
