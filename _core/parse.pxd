# What the other units of the core use of parse.pyx. Its comments say what each does.
from libc.stddef cimport size_t

from mcpinput._core.limits cimport Bounds
from mcpinput._core.scan cimport mi_rules, mi_status


# The bytes of any object with a buffer, held still: a bytes object as it is, a copy of anything else.
# Raises TypeError for a str, JsonParseError (SIZE) over max_size.
cdef bytes text_bytes(object data, size_t max_size)

# The JsonParseError to raise. `what` says what is wrong, without offset; `at` is the byte.
cdef object text_error(object kind, str what, size_t at, object limit=*)
cdef object token_error(mi_status status, mi_rules rules, size_t at)
cdef object depth_error(size_t limit, size_t at)
cdef object nodes_error(size_t limit, size_t at)
cdef object string_error(size_t limit, size_t at)

# The value that a text holds. By MI_WRITING: canonical text, as parse_state reads it. Raises JsonParseError.
cdef object read(object data, Bounds limits, mi_rules rules)
