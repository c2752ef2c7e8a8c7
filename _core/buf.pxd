# A growable byte buffer for the writers.
#
# Rules
# - `capacity` never passes `limit`, so what fits the capacity is within the limit and one comparison checks both.
# - Ask by buf_need for exactly what will be written, then write at buf_end and add to `size`, or use buf_put. A refusal
#   (BUF_FULL: over the limit, BUF_MEMORY) leaves the buffer as it was.
# - A buffer begins in memory of the caller's (its stack, say), which is enough for most texts, and moves to the heap
#   when it grows. buf_free gives the heap back, on every way out.
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy


cdef enum:
    BUF_OK = 0
    BUF_FULL = 1
    BUF_MEMORY = 2


cdef struct Buf:
    uint8_t *data
    size_t size
    size_t capacity
    size_t limit
    uint8_t *first  # the caller's memory


cdef inline void buf_init(Buf *b, uint8_t *first, size_t first_capacity, size_t limit) noexcept nogil:
    b.data = first
    b.first = first
    b.size = 0
    b.capacity = first_capacity if first_capacity < limit else limit
    b.limit = limit


cdef inline void buf_free(Buf *b) noexcept nogil:
    if b.data != b.first:
        free(b.data)
    b.data = b.first
    b.size = 0
    b.capacity = 0
    b.limit = 0


cdef inline int buf_grow(Buf *b, size_t more) noexcept nogil:
    cdef size_t capacity
    cdef uint8_t *data
    if more > b.limit - b.size:
        return BUF_FULL
    # The limit is far below half of what size_t holds, so doubling cannot wrap.
    capacity = b.capacity * 2
    if capacity < b.size + more:
        capacity = b.size + more
    if capacity > b.limit:
        capacity = b.limit
    if b.data == b.first:
        data = <uint8_t *>malloc(capacity)
        if data == NULL:
            return BUF_MEMORY
        memcpy(data, b.data, b.size)
    else:
        data = <uint8_t *>realloc(b.data, capacity)
        if data == NULL:
            return BUF_MEMORY
    b.data = data
    b.capacity = capacity
    return BUF_OK


# Makes room for `more` bytes.
cdef inline int buf_need(Buf *b, size_t more) noexcept nogil:
    if more <= b.capacity - b.size:
        return BUF_OK
    return buf_grow(b, more)


cdef inline uint8_t *buf_end(Buf *b) noexcept nogil:
    return b.data + b.size


cdef inline int buf_put(Buf *b, const void *bytes, size_t size) noexcept nogil:
    cdef int status = buf_need(b, size)
    if status == BUF_OK:
        memcpy(b.data + b.size, bytes, size)
        b.size += size
    return status


cdef inline int buf_put_byte(Buf *b, uint8_t byte) noexcept nogil:
    cdef int status = buf_need(b, 1)
    if status == BUF_OK:
        b.data[b.size] = byte
        b.size += 1
    return status
