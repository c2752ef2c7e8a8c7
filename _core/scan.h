/* Lexical scan of JSON strings and numbers (RFC 8259, strict), shared by all that reads it.
 *
 * Rules
 * - Nothing here reads at or past `end`, allocates, calls Python, or keeps state.
 * - A scan starts just after what the caller has recognised (the opening quote; the first character of a number) and
 *   answers MI_OK or one error. On an error `at` is the byte that is wrong.
 * - All users of this file refuse the same inputs because the refusals are written here, once.
 */
#ifndef MCPINPUT_SCAN_H
#define MCPINPUT_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define MI_NUMBER_CHARS 1024  /* characters of a number token that is read, sign included */
#define MI_NUMBER_DIGITS 1024 /* significant digits of a number that is written */
#define MI_EXPONENT 10000     /* magnitude of written and adjusted exponents */
#define MI_NUMBER_TEXT 1033   /* the longest text within the writing limits: sign, digits, point, E, sign, 10000 */

typedef enum {
    MI_OK = 0,
    MI_END,          /* the input ends inside the token */
    MI_CONTROL,      /* raw control character in a string */
    MI_ESCAPE,       /* unknown escape, or \u without four ASCII hex digits */
    MI_SURROGATE,    /* escaped surrogate that is not half of an escaped pair */
    MI_UTF8,         /* not UTF-8: overlong, surrogate, above U+10FFFF, or a broken sequence */
    MI_NUMBER,       /* not a number by the grammar */
    MI_NUMBER_SIZE,  /* too many characters (reading) or significant digits (writing) */
    MI_NUMBER_EXP    /* written or adjusted exponent out of range */
} mi_status;

typedef enum { MI_READING = 0, MI_WRITING = 1 } mi_rules;

typedef struct {
    const uint8_t *at;  /* the closing quote; on an error the byte that is wrong */
    size_t length;      /* UTF-8 bytes of the string once unescaped */
    size_t characters;  /* of it */
    int escaped;        /* contains escapes: the raw bytes are not the value */
    uint8_t lead;       /* the largest lead byte of the value's UTF-8; 0 where it is ASCII, escapes included */
} mi_string;

typedef struct {
    const uint8_t *at;        /* first byte after the token; on an error the byte that is wrong */
    const uint8_t *integer;   /* digits before the point */
    const uint8_t *fraction;  /* digits after the point, if any */
    uint32_t integer_digits;
    uint32_t fraction_digits;
    int32_t exponent;         /* as written; 0 when none */
    int negative;
    int is_integer;           /* neither point nor exponent */
    int is_zero;
} mi_number;

/* ---- UTF-8 ---- */

/* Length in bytes of the well-formed sequence at p (RFC 3629, table of section 4), or 0. */
static inline size_t mi_utf8_sequence(const uint8_t *p, const uint8_t *end) {
    uint8_t a = p[0];
    size_t left = (size_t)(end - p);
    if (a < 0x80) return 1;
    if (a < 0xC2) return 0;
    if (a < 0xE0) return (left >= 2 && (p[1] & 0xC0) == 0x80) ? 2 : 0;
    if (a < 0xF0) {
        if (left < 3 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80) return 0;
        if (a == 0xE0 && p[1] < 0xA0) return 0; /* overlong */
        if (a == 0xED && p[1] > 0x9F) return 0; /* surrogate */
        return 3;
    }
    if (a < 0xF5) {
        if (left < 4 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80 || (p[3] & 0xC0) != 0x80) return 0;
        if (a == 0xF0 && p[1] < 0x90) return 0; /* overlong */
        if (a == 0xF4 && p[1] > 0x8F) return 0; /* above U+10FFFF */
        return 4;
    }
    return 0;
}

static inline size_t mi_utf8_put(uint32_t c, uint8_t *out) {
    if (c < 0x80) { out[0] = (uint8_t)c; return 1; }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xC0 | (c >> 6));
        out[1] = (uint8_t)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xE0 | (c >> 12));
        out[1] = (uint8_t)(0x80 | ((c >> 6) & 0x3F));
        out[2] = (uint8_t)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | (c >> 18));
    out[1] = (uint8_t)(0x80 | ((c >> 12) & 0x3F));
    out[2] = (uint8_t)(0x80 | ((c >> 6) & 0x3F));
    out[3] = (uint8_t)(0x80 | (c & 0x3F));
    return 4;
}

/* ---- strings ---- */

/* By character: the value of a hex digit plus one. */
static const uint8_t mi_hex_values[256] = {
    ['0'] = 1, ['1'] = 2, ['2'] = 3, ['3'] = 4, ['4'] = 5, ['5'] = 6, ['6'] = 7, ['7'] = 8, ['8'] = 9, ['9'] = 10,
    ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

/* By the character after the backslash: what an escape of two characters stands for. */
static const uint8_t mi_short_escapes[256] = {
    ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t',
};

static inline int mi_hex4(const uint8_t *p, uint32_t *out) {
    uint32_t a = mi_hex_values[p[0]], b = mi_hex_values[p[1]], c = mi_hex_values[p[2]], d = mi_hex_values[p[3]];
    *out = ((a - 1) << 12) + ((b - 1) << 8) + ((c - 1) << 4) + (d - 1);
    return a && b && c && d;
}

/* First byte at or after p that is a quote, a backslash, a control character or not ASCII; or end. */
static inline const uint8_t *mi_skip_plain(const uint8_t *p, const uint8_t *end) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), space = _mm_set1_epi8(0x20);
    while (end - p >= 16) {
        __m128i chunk = _mm_loadu_si128((const __m128i *)p);
        /* Signed comparison: bytes from 0x80 up are negative, so they are below 0x20 as well. */
        __m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(chunk, quote), _mm_cmpeq_epi8(chunk, slash)),
                                   _mm_cmplt_epi8(chunk, space));
        int mask = _mm_movemask_epi8(hit);
        if (mask) return p + __builtin_ctz((unsigned)mask);
        p += 16;
    }
#endif
    while (p < end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\') p++;
    return p;
}

/* Whether p up to `end` begins with the `size` bytes of `text`, behind which up to 15 more can be read. */
static inline int mi_same(const uint8_t *p, const uint8_t *end, const uint8_t *text, size_t size) {
    if ((size_t)(end - p) < size) return 0;
#if defined(__SSE2__)
    if (((size_t)(end - p)) >= ((size + 15) & ~(size_t)15)) {
        for (;;) {
            unsigned mask = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)p),
                                                                       _mm_loadu_si128((const __m128i *)text)));
            if (size <= 16) return !(~mask & ((1u << size) - 1));
            if (mask != 0xFFFF) return 0;
            p += 16;
            text += 16;
            size -= 16;
        }
    }
#endif
    return memcmp(p, text, size) == 0;
}

/* p stands just after the opening quote. */
static inline mi_status mi_scan_string(const uint8_t *p, const uint8_t *end, mi_string *out) {
    size_t removed = 0; /* raw bytes minus value bytes */
    size_t trailing = 0; /* value bytes minus characters */
    uint8_t lead = 0;
    int plain;
    const uint8_t *start = p;
    out->escaped = 0;
    for (;;) {
        p = mi_skip_plain(p, end);
        if (p == end) { out->at = p; return MI_END; }
        if (*p == '"') {
            out->at = p;
            out->length = (size_t)(p - start) - removed;
            out->characters = out->length - trailing;
            out->lead = lead;
            return MI_OK;
        }
        if (*p == '\\') {
            out->escaped = 1;
            do { /* escapes come in runs */
                uint32_t unit, low;
                uint8_t value[4];
                size_t width = 6, size;
                if (end - p < 2) { out->at = end; return MI_END; }
                if (mi_short_escapes[p[1]]) {
                    removed++;
                    p += 2;
                    continue;
                }
                if (p[1] != 'u' || end - p < 6 || !mi_hex4(p + 2, &unit)) { out->at = p; return MI_ESCAPE; }
                if (unit >= 0xD800 && unit < 0xE000) {
                    if (unit >= 0xDC00 || end - p < 12 || p[6] != '\\' || p[7] != 'u' ||
                        !mi_hex4(p + 8, &low) || low < 0xDC00 || low > 0xDFFF) {
                        out->at = p;
                        return MI_SURROGATE;
                    }
                    unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                    width = 12;
                }
                size = mi_utf8_put(unit, value);
                if (size > 1 && value[0] > lead) lead = value[0];
                trailing += size - 1;
                removed += width - size;
                p += width;
            } while (p < end && *p == '\\');
            continue;
        }
        if (*p < 0x20) { out->at = p; return MI_CONTROL; }
        for (plain = 0; p < end && plain < 16; ) { /* in text of other letters than ASCII's both come in short runs */
            size_t size;
            if (*p < 0x80) {
                if (*p < 0x20 || *p == '"' || *p == '\\') break;
                plain++;
                p++;
                continue;
            }
            plain = 0;
            do {
                size = mi_utf8_sequence(p, end);
                if (!size) { out->at = p; return MI_UTF8; }
                if (*p > lead) lead = *p;
                trailing += size - 1;
                p += size;
            } while (p < end && *p >= 0x80);
        }
    }
}

/* The value of a string that mi_scan_string has accepted. `out` has room for its length. Answers that length. */
static inline size_t mi_unescape(const uint8_t *p, const uint8_t *quote, uint8_t *out) {
    uint8_t *start = out;
    while (p < quote) {
        if (*p != '\\') {
            const uint8_t *next, *near = quote - p > 16 ? p + 16 : quote;
            size_t size;
            while (p < near && *p != '\\') *out++ = *p++; /* most stretches are short, and these need no calls */
            if (p < near || p == quote) continue;
            next = (const uint8_t *)memchr(p, '\\', (size_t)(quote - p));
            size = (size_t)((next ? next : quote) - p);
            memcpy(out, p, size);
            out += size;
            p += size;
            continue;
        }
        if (p[1] != 'u') {
            do {
                *out++ = mi_short_escapes[p[1]];
                p += 2;
            } while (p < quote && *p == '\\' && p[1] != 'u');
        } else {
            uint32_t unit = 0, low = 0;
            mi_hex4(p + 2, &unit);
            p += 6;
            if (unit >= 0xD800 && unit < 0xE000) {
                mi_hex4(p + 2, &low);
                unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                p += 6;
            }
            out += mi_utf8_put(unit, out);
        }
    }
    return (size_t)(out - start);
}

/* The characters of UTF-8 that mi_scan_string has accepted, each in 1, 2 or 4 bytes by its largest lead byte. */
static inline void mi_decode(const uint8_t *p, const uint8_t *end, uint8_t lead, void *out) {
    if (lead <= 0xC3) {
        uint8_t *to = (uint8_t *)out;
        while (p < end) {
            if (*p < 0x80) *to++ = *p++;
            else { *to++ = (uint8_t)(p[0] << 6 | (p[1] & 0x3F)); p += 2; }
        }
    } else if (lead <= 0xEF) {
        uint16_t *to = (uint16_t *)out;
        while (p < end) {
            if (*p < 0x80) *to++ = *p++;
            else if (*p < 0xE0) { *to++ = (uint16_t)((p[0] & 0x1F) << 6 | (p[1] & 0x3F)); p += 2; }
            else { *to++ = (uint16_t)((p[0] & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F)); p += 3; }
        }
    } else {
        uint32_t *to = (uint32_t *)out;
        while (p < end) {
            if (*p < 0x80) *to++ = *p++;
            else if (*p < 0xE0) { *to++ = (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F); p += 2; }
            else if (*p < 0xF0) {
                *to++ = (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
                p += 3;
            } else {
                *to++ = (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 |
                        (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
                p += 4;
            }
        }
    }
}

/* ---- numbers ---- */

/* First byte at or after p that is no digit; or end. */
static inline const uint8_t *mi_skip_digits(const uint8_t *p, const uint8_t *end) {
#if defined(__SSE2__)
    const __m128i zero = _mm_set1_epi8('0'), nine = _mm_set1_epi8(9);
    while (end - p >= 16) {
        __m128i value = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)p), zero);
        int mask = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(value, nine), value)) ^ 0xFFFF;
        if (mask) return p + __builtin_ctz((unsigned)mask);
        p += 16;
    }
#endif
    while (p < end && *p >= '0' && *p <= '9') p++;
    return p;
}

#define MI_SHORT_PLACES 8 /* digits behind the point of what mi_short_number reads */

/* Reads a number of up to 15 digits before the point and MI_SHORT_PLACES behind it, at most 18 in all, without exponent, of
 * which p is the first digit: its digits as an integer, and how many of them are behind the point. Answers its end, or
 * NULL for every other number and for what is none: mi_scan_number decides. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
/* The value of each byte that is a digit; of a byte that is none, something above 9. */
static inline uint64_t mi_digit_values(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return word ^ UINT64_C(0x3030303030303030);
}

/* How many of the first of eight values are digits: a byte above 9, or with its top bit, ends them. */
static inline int mi_leading_digits(uint64_t values) {
    uint64_t others = ((values + UINT64_C(0x7676767676767676)) | values) & UINT64_C(0x8080808080808080);
    return others ? __builtin_ctzll(others) >> 3 : 8;
}

/* The number that the first `count` (1 to 8) of eight digit values spell. */
static inline int64_t mi_join_digits(uint64_t values, int count) {
    values <<= 64 - 8 * count;
    values = (values * 10 + (values >> 8)) & UINT64_C(0x00FF00FF00FF00FF);
    values = (values * 100 + (values >> 16)) & UINT64_C(0x0000FFFF0000FFFF);
    return (int64_t)((values * 10000 + (values >> 32)) & 0xFFFFFFFF);
}

static inline const uint8_t *mi_short_number(const uint8_t *p, const uint8_t *end, int64_t *digits, int *places) {
    static const int64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    uint64_t values;
    int64_t number;
    int count, more = 0;
    if (end - p < 25) return NULL; /* two words, a point, and a third */
    values = mi_digit_values(p);
    count = mi_leading_digits(values);
    if (count == 0 || (count > 1 && *p == '0')) return NULL;
    number = mi_join_digits(values, count);
    p += count;
    if (count == 8) {
        values = mi_digit_values(p);
        more = mi_leading_digits(values);
        if (more) number = number * powers[more] + mi_join_digits(values, more);
        if (more == 8) return NULL;
        p += more;
    }
    if (*p == '.') {
        values = mi_digit_values(++p);
        count = mi_leading_digits(values);
        if (count == 0 || (more && count + more > 10)) return NULL;
        number = number * powers[count] + mi_join_digits(values, count);
        p += count;
        if (count == 8 && *p >= '0' && *p <= '9') return NULL;
        *places = count;
    } else {
        *places = 0;
    }
    if ((*p | 0x20) == 'e') return NULL;
    *digits = number;
    return p;
}
#define mi_eight_digits(p) mi_join_digits(mi_digit_values(p), 8)
#else
static inline const uint8_t *mi_short_number(const uint8_t *p, const uint8_t *end, int64_t *digits, int *places) {
    (void)p; (void)end; (void)digits; (void)places;
    return NULL;
}

static inline int64_t mi_eight_digits(const uint8_t *p) {
    int64_t number = 0;
    int i;
    for (i = 0; i < 8; i++) number = number * 10 + (p[i] - '0');
    return number;
}
#endif

/* The widest words of which a product can be had, how many digits are sure to fit one, and how many words the digits of
 * a number take. */
#if defined(__SIZEOF_INT128__)
typedef uint64_t mi_word;
typedef unsigned __int128 mi_two_words;
#define MI_WORD_DIGITS 19
#else
typedef uint32_t mi_word;
typedef uint64_t mi_two_words;
#define MI_WORD_DIGITS 9
#endif
#define MI_NUMBER_WORDS (MI_NUMBER_CHARS / MI_WORD_DIGITS + 1)

/* The integer that up to MI_NUMBER_CHARS digits spell, as words, the lowest first; answers how many those are. The time
 * grows with the square of the digits, of which there are few enough. */
static inline size_t mi_digits_to_words(const uint8_t *digits, size_t count, mi_word *words) {
    size_t used = 0, i, step = count % MI_WORD_DIGITS ? count % MI_WORD_DIGITS : MI_WORD_DIGITS;
    while (count) {
        mi_word factor = 1, carry = 0;
        for (i = 0; i + 8 <= step; i += 8) {
            carry = carry * 100000000 + (mi_word)mi_eight_digits(digits + i);
            factor *= 100000000;
        }
        for (; i < step; i++) {
            carry = carry * 10 + (mi_word)(digits[i] - '0');
            factor *= 10;
        }
        for (i = 0; i < used; i++) {
            mi_two_words product = (mi_two_words)words[i] * factor + carry;
            words[i] = (mi_word)product;
            carry = (mi_word)(product >> 8 * sizeof(mi_word));
        }
        if (carry) words[used++] = carry;
        digits += step;
        count -= step;
        step = MI_WORD_DIGITS;
    }
    return used;
}

/* Digits of the coefficient without leading zeros, 1 for a zero: the number of digits of the Decimal's coefficient. */
static inline uint32_t mi_coefficient_digits(const mi_number *n) {
    uint32_t i;
    if (n->is_zero) return 1;
    if (n->integer[0] != '0') return n->integer_digits + n->fraction_digits;
    for (i = 0; n->fraction[i] == '0'; i++) {}
    return n->fraction_digits - i;
}

/* p stands at the minus or the first digit. */
static inline mi_status mi_scan_number(const uint8_t *p, const uint8_t *end, mi_rules rules, mi_number *out) {
    const uint8_t *start = p;
    int nonzero;
    out->negative = 0;
    out->fraction = NULL;
    out->fraction_digits = 0;
    out->exponent = 0;
    out->is_integer = 1;
    if (p < end && *p == '-') { out->negative = 1; p++; }
    if (p == end) { out->at = p; return MI_END; }
    if (*p < '0' || *p > '9') { out->at = p; return MI_NUMBER; }
    out->integer = p;
    if (*p == '0') {
        nonzero = 0;
        p++;
        if (p < end && *p >= '0' && *p <= '9') { out->at = p; return MI_NUMBER; } /* leading zero */
    } else {
        nonzero = 1;
        p = mi_skip_digits(p, end);
    }
    if (p - out->integer > 0x7FFFFFFF) { out->at = start; return MI_NUMBER_SIZE; }
    out->integer_digits = (uint32_t)(p - out->integer);
    if (p < end && *p == '.') {
        out->is_integer = 0;
        p++;
        out->fraction = p;
        while (p < end && *p == '0') p++;
        if (p < end && *p >= '1' && *p <= '9') {
            nonzero = 1;
            p = mi_skip_digits(p, end);
        }
        if (p == out->fraction) { out->at = p; return p == end ? MI_END : MI_NUMBER; }
        if (p - out->fraction > 0x7FFFFFFF) { out->at = start; return MI_NUMBER_SIZE; }
        out->fraction_digits = (uint32_t)(p - out->fraction);
    }
    out->is_zero = !nonzero;
    if (p < end && (*p == 'e' || *p == 'E')) {
        const uint8_t *digits;
        int32_t value = 0;
        int minus = 0;
        out->is_integer = 0;
        p++;
        if (p < end && (*p == '+' || *p == '-')) { minus = *p == '-'; p++; }
        digits = p;
        while (p < end && *p >= '0' && *p <= '9') {
            if (value <= MI_EXPONENT) value = value * 10 + (*p - '0'); /* stops growing once out of range */
            p++;
        }
        if (p == digits) { out->at = p; return p == end ? MI_END : MI_NUMBER; }
        out->exponent = minus ? -value : value;
    }
    out->at = p;
    if (rules == MI_READING) {
        if (p - start > MI_NUMBER_CHARS) { out->at = start; return MI_NUMBER_SIZE; }
        if (out->is_integer) return MI_OK;
    } else {
        if (p - start > MI_NUMBER_TEXT || mi_coefficient_digits(out) > MI_NUMBER_DIGITS) {
            out->at = start;
            return MI_NUMBER_SIZE;
        }
    }
    if (out->exponent > MI_EXPONENT || out->exponent < -MI_EXPONENT) { out->at = start; return MI_NUMBER_EXP; }
    {
        int32_t adjusted = out->exponent - (int32_t)out->fraction_digits + (int32_t)mi_coefficient_digits(out) - 1;
        if (adjusted > MI_EXPONENT || adjusted < -MI_EXPONENT) { out->at = start; return MI_NUMBER_EXP; }
    }
    return MI_OK;
}

/* Which of the 16 bytes at p are no digits: bit 0 is the first. */
static inline uint32_t mi_no_digits(const uint8_t *p) {
#if defined(__SSE2__)
    const __m128i zero = _mm_set1_epi8('0'), nine = _mm_set1_epi8(9);
    __m128i value = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)p), zero);
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(value, nine), value)) ^ 0xFFFF;
#else
    uint32_t mask = 0;
    int i;
    for (i = 0; i < 16; i++) mask |= (uint32_t)((uint8_t)(p[i] - '0') > 9) << i;
    return mask;
#endif
}

/* Most numbers at one look. p stands at the minus or the first digit. Answers the first byte after the token, or NULL
 * where mi_scan_number has to decide: the number is not well formed, near the end of the input, longer than 31
 * characters, or its exponent than three digits. `canonical` becomes how many of its characters, from the first on, are
 * its canonical form: all of them, fewer where zeros at the end of the fraction go, or 0 where it is to be rewritten. */
static inline const uint8_t *mi_scan_short_number(const uint8_t *p, const uint8_t *end, size_t *canonical) {
    int negative = *p == '-';
    const uint8_t *digits = p + negative;
    const uint8_t *at, *last;
    uint32_t stops;
    if (end - p < 16) return NULL;
    stops = mi_no_digits(p) & ~(uint32_t)negative;
    if (!(stops & (stops - 1)) && end - p >= 32) stops |= mi_no_digits(p + 16) << 16;
    if (!stops) return NULL;
    at = last = p + (size_t)__builtin_ctz(stops);
    if (at == digits || (*digits == '0' && at != digits + 1)) return NULL;
    stops &= stops - 1;
    if (*at == '.') {
        const uint8_t *fraction = at + 1;
        if (!stops) return NULL;
        at = last = p + (size_t)__builtin_ctz(stops);
        if (at == fraction) return NULL;
        stops &= stops - 1;
        if ((*at | 0x20) != 'e') {
            while (last[-1] == '0') last--;
            if (last != fraction) {
                /* Below 1e-6 it is written with an exponent. */
                int tiny = *digits == '0' && last - fraction > 6 && memcmp(fraction, "000000", 6) == 0;
                *canonical = tiny ? 0 : (size_t)(last - p);
                return at;
            }
            last = fraction - 1;
        }
    }
    if ((*at | 0x20) == 'e') {
        const uint8_t *exponent = at + 1;
        if (!stops) return NULL;
        at = p + (size_t)__builtin_ctz(stops);
        if (at == exponent && (*at == '+' || *at == '-')) {
            stops &= stops - 1;
            if (!stops) return NULL;
            exponent++;
            at = p + (size_t)__builtin_ctz(stops);
        }
        if (at == exponent || at - exponent > 3) return NULL;
        *canonical = 0;
        return at;
    }
    if (last[-1] != '0') *canonical = (size_t)(last - p);
    else *canonical = last == digits + 1 && !negative; /* a zero; else "10" becomes "1E+1", and "-0" becomes "0" */
    return at;
}

/* Some numbers in a row; bit 0 of the masks is the first byte. */
typedef struct {
    size_t count;
    uint64_t starts;   /* where one begins */
    uint64_t doubtful; /* a place within each that may not be in canonical form */
} mi_row;

/* The elements of an array at p that are numbers without exponent and have a comma behind, as many as 64 bytes hold.
 * Answers where the one after them begins. */
static inline const uint8_t *mi_scan_row(const uint8_t *p, const uint8_t *end, mi_row *row) {
    uint64_t commas = 0, points = 0, minuses = 0, zeros = 0, digits = 0;
    uint64_t starts, firsts, leading, wrong, bits;
    int i;
    row->count = 0;
    row->doubtful = 0;
    if (end - p < 64) return p;
    for (i = 0; i < 64; i += 16) {
#if defined(__SSE2__)
        __m128i chunk = _mm_loadu_si128((const __m128i *)(p + i));
        commas |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(chunk, _mm_set1_epi8(','))) << i;
        points |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(chunk, _mm_set1_epi8('.'))) << i;
        minuses |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(chunk, _mm_set1_epi8('-'))) << i;
        zeros |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(chunk, _mm_set1_epi8('0'))) << i;
#else
        int j;
        for (j = i; j < i + 16; j++) {
            commas |= (uint64_t)(p[j] == ',') << j;
            points |= (uint64_t)(p[j] == '.') << j;
            minuses |= (uint64_t)(p[j] == '-') << j;
            zeros |= (uint64_t)(p[j] == '0') << j;
        }
#endif
        digits |= (uint64_t)(mi_no_digits(p + i) ^ 0xFFFF) << i;
    }
    /* What is wrong with a number is marked before its comma, or at it. */
    starts = commas << 1 | 1;
    firsts = (starts & ~minuses) | (starts & minuses) << 1;
    leading = firsts & zeros;
    wrong = ~(commas | points | minuses | digits) | (minuses & ~starts) | (firsts & ~digits) | (leading & digits >> 1);
    wrong |= points & ~(digits << 1 & digits >> 1);
    /* Adding carries a bit through the digits of each fraction to what stands behind them. */
    wrong |= (digits + (points << 1)) & ~digits & ~commas;
    commas &= (wrong - 1) & ~wrong; /* those below the lowest */
    if (!commas) return p;
    row->starts = starts;
    /* A zero at the end, "-0", and "0.0", which may become "0.000000". */
    row->doubtful = (zeros & ~leading & commas >> 1) | (leading & (minuses << 1 | zeros >> 2));
    row->doubtful &= ~UINT64_C(0) >> __builtin_clzll(commas);
    /* The number of commas. No two are neighbours, so that pairs of bits need no adding up. */
    bits = (commas | commas >> 1) & UINT64_C(0x5555555555555555);
    bits = (bits & UINT64_C(0x3333333333333333)) + (bits >> 2 & UINT64_C(0x3333333333333333));
    bits = (bits + (bits >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    row->count = (size_t)(bits * UINT64_C(0x0101010101010101) >> 56);
    return p + 64 - __builtin_clzll(commas);
}

/* Where the first doubtful number of a row at p begins. */
static inline const uint8_t *mi_doubtful_number(const uint8_t *p, const mi_row *row) {
    return p + 63 - __builtin_clzll(row->starts & (row->doubtful ^ (row->doubtful - 1)));
}

/* ---- bytes ---- */

/* The closing quote of a string of plain ASCII without escapes, where it is within 16 bytes; else NULL. p stands just
 * after the opening quote. */
static inline const uint8_t *mi_end_of_short_string(const uint8_t *p, const uint8_t *end) {
#if defined(__SSE2__)
    if (end - p >= 16) {
        __m128i chunk = _mm_loadu_si128((const __m128i *)p);
        /* As in mi_skip_plain. */
        __m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(chunk, _mm_set1_epi8('"')),
                                                _mm_cmpeq_epi8(chunk, _mm_set1_epi8('\\'))),
                                   _mm_cmplt_epi8(chunk, _mm_set1_epi8(0x20)));
        int mask = _mm_movemask_epi8(hit);
        if (mask && p[__builtin_ctz((unsigned)mask)] == '"') return p + __builtin_ctz((unsigned)mask);
    }
#else
    (void)p;
    (void)end;
#endif
    return NULL;
}

#endif
