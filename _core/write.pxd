# What write.h offers; its comments say what each does.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from mcpinput._core.scan cimport mi_number


cdef extern from "write.h" nogil:
    enum:
        MI_SHORT_TEXT

    size_t mi_copy_verbatim(const uint8_t *p, size_t size, uint8_t *out) noexcept
    size_t mi_put_escaped(uint8_t c, uint8_t *out) noexcept
    size_t mi_canonical_number(const mi_number *n, uint8_t *out) noexcept
    uint8_t *mi_put_text1(const uint8_t *p, size_t length, uint8_t *out) noexcept
    uint8_t *mi_put_text2(const uint16_t *p, size_t length, uint8_t *out) noexcept
    uint8_t *mi_put_text4(const uint32_t *p, size_t length, uint8_t *out) noexcept
    uint32_t mi_count_digits(uint64_t value) noexcept
    void mi_put_digits(uint64_t value, uint32_t count, uint8_t *out) noexcept
    int mi_copy_plain_number(const uint8_t *p, size_t size, uint8_t *out) noexcept
    uint64_t mi_first_bytes(const uint8_t *p, size_t size) noexcept
    size_t mi_canonical_short(const uint8_t *p, const uint8_t *stop, uint8_t *out) noexcept
