# What scan.h offers; its comments say what each does.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "scan.h" nogil:
    enum:
        MI_NUMBER_CHARS
        MI_NUMBER_DIGITS
        MI_EXPONENT
        MI_NUMBER_TEXT
        MI_SHORT_PLACES
        MI_NUMBER_WORDS

    ctypedef uint64_t mi_word  # or narrower

    ctypedef enum mi_status:
        MI_OK
        MI_END
        MI_CONTROL
        MI_ESCAPE
        MI_SURROGATE
        MI_UTF8
        MI_NUMBER
        MI_NUMBER_SIZE
        MI_NUMBER_EXP

    ctypedef enum mi_rules:
        MI_READING
        MI_WRITING

    ctypedef struct mi_string:
        const uint8_t *at
        size_t length
        size_t characters
        int escaped
        uint8_t lead

    ctypedef struct mi_number:
        const uint8_t *at
        const uint8_t *integer
        const uint8_t *fraction
        uint32_t integer_digits
        uint32_t fraction_digits
        int32_t exponent
        int negative
        int is_integer
        int is_zero

    ctypedef struct mi_row:
        size_t count
        uint64_t starts
        uint64_t doubtful

    const uint8_t *mi_skip_plain(const uint8_t *p, const uint8_t *end) noexcept
    bint mi_same(const uint8_t *p, const uint8_t *end, const uint8_t *text, size_t size) noexcept
    mi_status mi_scan_string(const uint8_t *p, const uint8_t *end, mi_string *out) noexcept
    size_t mi_unescape(const uint8_t *p, const uint8_t *quote, uint8_t *out) noexcept
    void mi_decode(const uint8_t *p, const uint8_t *end, uint8_t lead, void *out) noexcept
    const uint8_t *mi_short_number(const uint8_t *p, const uint8_t *end, int64_t *digits, int *places) noexcept
    size_t mi_digits_to_words(const uint8_t *digits, size_t count, mi_word *words) noexcept
    mi_status mi_scan_number(const uint8_t *p, const uint8_t *end, mi_rules rules, mi_number *out) noexcept
    const uint8_t *mi_scan_short_number(const uint8_t *p, const uint8_t *end, size_t *canonical) noexcept
    const uint8_t *mi_scan_row(const uint8_t *p, const uint8_t *end, mi_row *row) noexcept
    const uint8_t *mi_doubtful_number(const uint8_t *p, const mi_row *row) noexcept
    const uint8_t *mi_end_of_short_string(const uint8_t *p, const uint8_t *end) noexcept
