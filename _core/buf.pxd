# A growable byte buffer for the writers.
#
# Rules
# - Every value is put with one byte behind it: the comma before the next, which the end of its container takes the
#   place of. So there is room for one byte more than the limit, and buf_take leaves the last byte out. `end` never
#   passes that room, so one comparison checks capacity and limit.
# - Ask by buf_need for no more than what will be written at least, or be ready to be refused; write at `to`, and move
#   it. A refusal (BUF_FULL: over the limit, BUF_MEMORY, with the exception set) leaves the buffer fit for buf_free
#   only, but for BUF_FULL, which leaves it as it was.
# - A buffer begins in memory of the caller's (its stack, say), which is enough for most texts, and moves into a bytes
#   object when it grows, which buf_take hands out. buf_free gives up what is left, on every way out.
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport uint8_t
from libc.string cimport memcpy


cdef extern from "Python.h":
    PyObject *PyBytes_FromStringAndSize(const char *text, Py_ssize_t size) noexcept
    int _PyBytes_Resize(PyObject **text, Py_ssize_t size) noexcept
    char *PyBytes_AS_STRING(PyObject *text) noexcept
    void Py_CLEAR(PyObject *value) noexcept


cdef enum:
    BUF_OK = 0
    BUF_FULL = 1
    BUF_MEMORY = 2


cdef struct Buf:
    uint8_t *to     # the next byte
    uint8_t *end    # of the memory
    uint8_t *data
    size_t limit
    PyObject *text  # the bytes object whose memory it is; NULL while it is the caller's


cdef inline void buf_init(Buf *b, uint8_t *first, size_t first_capacity, size_t limit) noexcept:
    b.data = first
    b.to = first
    b.end = first + (first_capacity if first_capacity <= limit else limit + 1)
    b.limit = limit
    b.text = NULL


cdef inline void buf_free(Buf *b) noexcept:
    Py_CLEAR(b.text)


cdef inline int buf_grow(Buf *b, size_t more) noexcept:
    cdef size_t size = b.to - b.data
    cdef size_t capacity
    if more > b.limit + 1 - size:
        return BUF_FULL
    # The limit is far below half of what size_t holds, so doubling cannot wrap.
    capacity = (b.end - b.data) * 2
    if capacity < size + more:
        capacity = size + more
    if capacity > b.limit + 1:
        capacity = b.limit + 1
    if b.text == NULL:
        b.text = PyBytes_FromStringAndSize(NULL, capacity)
        if b.text == NULL:
            return BUF_MEMORY
        memcpy(PyBytes_AS_STRING(b.text), b.data, size)
    elif _PyBytes_Resize(&b.text, capacity) != 0:
        return BUF_MEMORY
    b.data = <uint8_t *>PyBytes_AS_STRING(b.text)
    b.to = b.data + size
    b.end = b.data + capacity
    return BUF_OK


# Makes room for `more` bytes.
cdef inline int buf_need(Buf *b, size_t more) noexcept:
    if more <= <size_t>(b.end - b.to):
        return BUF_OK
    return buf_grow(b, more)


# What was written, but for the last byte. The buffer is as after buf_free then.
cdef inline bytes buf_take(Buf *b):
    cdef Py_ssize_t size = b.to - b.data - 1
    cdef object taken
    if b.text == NULL:
        b.text = PyBytes_FromStringAndSize(<char *>b.data, size)
    else:
        _PyBytes_Resize(&b.text, size)
    if b.text == NULL:
        raise MemoryError
    taken = <object>b.text
    Py_DECREF(taken)  # the reference that was the buffer's
    b.text = NULL
    return taken
