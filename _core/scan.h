/* Lexical scan of JSON strings and numbers (RFC 8259, strict), shared by the parser and the digest.
 *
 * Rules
 * - Nothing here reads at or past `end`, allocates, calls Python, or keeps state.
 * - A scan starts just after what the caller has recognised (the opening quote; the first character of a number) and
 *   answers MI_OK or one error. On an error `at` is the byte that is wrong.
 * - Both users of this file refuse the same inputs because the refusals are written here, once.
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
#define MI_SHORT_TEXT 48      /* room that mi_canonical_short asks for */

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

/* Order of two UTF-8 strings by UTF-16 code units (RFC 8785, section 3.2.3): UTF-8 order, but for the characters
 * U+E000 to U+FFFF (lead bytes EE, EF), which stand above the surrogates that UTF-16 spells U+10000 and up with. */
static inline int mi_compare_utf16(const uint8_t *a, size_t a_length, const uint8_t *b, size_t b_length) {
    size_t shorter = a_length < b_length ? a_length : b_length;
    size_t i = 0;
    while (i < shorter && a[i] == b[i]) i++;
    if (i == shorter) return (a_length > b_length) - (a_length < b_length);
    {
        int x = a[i], y = b[i];
        if (x == 0xEE || x == 0xEF) x += 0x10;
        if (y == 0xEE || y == 0xEF) y += 0x10;
        return x < y ? -1 : 1;
    }
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

/* What follows the backslash, of the characters that RFC 8785 escapes: quotes, backslashes and controls. */
static const uint8_t mi_escape_letters[256] = {
    'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'b', 't', 'n', 'u', 'f', 'r', 'u', 'u',
    'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u',
    ['"'] = '"', ['\\'] = '\\',
};

#if defined(__SSE2__)
/* The bytes that a writer must escape are 0xFF in the answer, all others 0. */
static inline __m128i mi_chunk_escapes(__m128i chunk) {
    /* With bit 1 turned over, quotes and controls are the bytes up to 0x20, and a byte is up to 0x20 where it is its own
     * minimum with that. */
    __m128i turned = _mm_xor_si128(chunk, _mm_set1_epi8(2));
    return _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(turned, _mm_set1_epi8(0x20)), turned),
                        _mm_cmpeq_epi8(chunk, _mm_set1_epi8('\\')));
}

/* mi_copy_verbatim of 16 bytes and more. Not inlined, so that the short texts that most are stay in few instructions. */
__attribute__((noinline, unused)) static size_t mi_copy_long(const uint8_t *p, size_t size, uint8_t *out) {
    size_t i = 0;
    while (size - i >= 64) {
        const __m128i *from = (const __m128i *)(p + i);
        __m128i *to = (__m128i *)(out + i);
        __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
        __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
        /* As mi_chunk_escapes, of the least byte of the four. */
        __m128i turn = _mm_set1_epi8(2), slash = _mm_set1_epi8('\\');
        __m128i least = _mm_min_epu8(_mm_min_epu8(_mm_xor_si128(a, turn), _mm_xor_si128(b, turn)),
                                     _mm_min_epu8(_mm_xor_si128(c, turn), _mm_xor_si128(d, turn)));
        __m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(a, slash), _mm_cmpeq_epi8(b, slash)),
                                   _mm_or_si128(_mm_cmpeq_epi8(c, slash), _mm_cmpeq_epi8(d, slash)));
        hit = _mm_or_si128(hit, _mm_cmpeq_epi8(_mm_min_epu8(least, _mm_set1_epi8(0x20)), least));
        _mm_storeu_si128(to, a);
        _mm_storeu_si128(to + 1, b);
        _mm_storeu_si128(to + 2, c);
        _mm_storeu_si128(to + 3, d);
        if (_mm_movemask_epi8(hit)) break; /* the steps below find it */
        i += 64;
    }
    while (i < size) {
        __m128i chunk;
        int mask;
        if (size - i < 16) i = size - 16; /* the last chunk overlaps the one before */
        chunk = _mm_loadu_si128((const __m128i *)(p + i));
        mask = _mm_movemask_epi8(mi_chunk_escapes(chunk));
        _mm_storeu_si128((__m128i *)(out + i), chunk);
        if (mask) return i + (size_t)__builtin_ctz((unsigned)mask);
        i += 16;
    }
    return size;
}
#else
/* The bytes of a word that a writer must escape have their top bit set in the answer. Only the lowest such bit is
 * exact: a borrow can set false ones above it. */
static inline uint64_t mi_word_escapes(uint64_t word) {
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = UINT64_C(0x8080808080808080);
    uint64_t quotes = word ^ (ones * '"'), slashes = word ^ (ones * '\\');
    return (((quotes - ones) & ~quotes) | ((slashes - ones) & ~slashes) | ((word - ones * 0x20) & ~word)) & tops;
}
#endif

/* Copies UTF-8 up to the first byte that a writer must escape; answers how many bytes that is, `size` where it is all.
 * `out` has room for `size` bytes, and what is behind the copied ones there is undefined. */
static inline size_t mi_copy_verbatim(const uint8_t *p, size_t size, uint8_t *out) {
    size_t i = 0;
    /* A short text is taken as two words that overlap, or as three bytes that can be the same. */
#if defined(__SSE2__)
    if (size >= 16) return mi_copy_long(p, size, out);
    if (size >= 8) {
        __m128i low = _mm_loadl_epi64((const __m128i *)p), high = _mm_loadl_epi64((const __m128i *)(p + size - 8));
        _mm_storel_epi64((__m128i *)out, low);
        _mm_storel_epi64((__m128i *)(out + size - 8), high);
        if (!_mm_movemask_epi8(mi_chunk_escapes(_mm_unpacklo_epi64(low, high)))) return size;
    } else if (size >= 4) {
        int32_t low, high;
        memcpy(&low, p, 4);
        memcpy(&high, p + size - 4, 4);
        memcpy(out, &low, 4);
        memcpy(out + size - 4, &high, 4);
        if (!(_mm_movemask_epi8(mi_chunk_escapes(_mm_unpacklo_epi32(_mm_cvtsi32_si128(low), _mm_cvtsi32_si128(high))))
              & 0xFF)) return size;
    }
#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (size >= 8) {
        for (;;) {
            uint64_t word, hit;
            memcpy(&word, p + i, 8);
            memcpy(out + i, &word, 8);
            hit = mi_word_escapes(word);
            if (hit) return i + ((size_t)__builtin_ctzll(hit) >> 3);
            i += 8;
            if (i == size) return i;
            if (size - i < 8) i = size - 8;
        }
    }
    if (size >= 4) {
        uint32_t low, high;
        memcpy(&low, p, 4);
        memcpy(&high, p + size - 4, 4);
        memcpy(out, &low, 4);
        memcpy(out + size - 4, &high, 4);
        if (!mi_word_escapes((uint64_t)low | (uint64_t)high << 32)) return size;
    }
#endif
    if (size && size < 4) {
        uint8_t first = p[0], middle = p[size >> 1], last = p[size - 1];
        out[0] = first;
        out[size >> 1] = middle;
        out[size - 1] = last;
        if (!(mi_escape_letters[first] | mi_escape_letters[middle] | mi_escape_letters[last])) return size;
    }
    for (; i < size && !mi_escape_letters[p[i]]; i++) out[i] = p[i];
    return i;
}

/* Writes the RFC 8785 form of an ASCII character; answers its length, at most 6. */
static inline size_t mi_put_escaped(uint8_t c, uint8_t *out) {
    static const char hex[] = "0123456789abcdef";
    uint8_t letter = mi_escape_letters[c];
    if (!letter) { out[0] = c; return 1; }
    out[0] = '\\';
    out[1] = letter;
    if (letter != 'u') return 2;
    out[2] = '0';
    out[3] = '0';
    out[4] = (uint8_t)hex[c >> 4];
    out[5] = (uint8_t)hex[c & 15];
    return 6;
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

/* Canonical form v1 of a number: exact value, trailing zeros stripped, in the text form of decimal.Decimal (scientific
 * when the exponent is positive or the adjusted exponent below -6). `out` has room for MI_NUMBER_TEXT bytes; answers
 * the length. The number has passed mi_scan_number. Never inlined: its kilobyte of digits would stand in every frame of
 * a caller that recurses. */
__attribute__((noinline, unused)) static size_t mi_canonical_number(const mi_number *n, uint8_t *out) {
    uint8_t digits[MI_NUMBER_TEXT + 1];
    uint8_t *start = out;
    uint32_t count = 0, i;
    int32_t exponent = n->exponent - (int32_t)n->fraction_digits;
    int32_t adjusted;
    if (n->is_zero) { out[0] = '0'; return 1; }
    for (i = 0; i < n->integer_digits; i++)
        if (count || n->integer[i] != '0') digits[count++] = n->integer[i];
    for (i = 0; i < n->fraction_digits; i++)
        if (count || n->fraction[i] != '0') digits[count++] = n->fraction[i];
    while (digits[count - 1] == '0') { count--; exponent++; }
    adjusted = exponent + (int32_t)count - 1;
    if (n->negative) *out++ = '-';
    if (exponent > 0 || adjusted < -6) {
        uint32_t magnitude = (uint32_t)(adjusted < 0 ? -adjusted : adjusted);
        uint32_t divisor = 1;
        *out++ = digits[0];
        if (count > 1) {
            *out++ = '.';
            memcpy(out, digits + 1, count - 1);
            out += count - 1;
        }
        *out++ = 'E';
        *out++ = adjusted < 0 ? '-' : '+';
        while (magnitude / divisor >= 10) divisor *= 10;
        for (; divisor; divisor /= 10) *out++ = (uint8_t)('0' + magnitude / divisor % 10);
    } else if (exponent == 0) {
        memcpy(out, digits, count);
        out += count;
    } else if (adjusted >= 0) {
        memcpy(out, digits, (size_t)adjusted + 1);
        out += adjusted + 1;
        *out++ = '.';
        memcpy(out, digits + adjusted + 1, count - (size_t)adjusted - 1);
        out += count - (size_t)adjusted - 1;
    } else {
        *out++ = '0';
        *out++ = '.';
        for (i = 0; i < (uint32_t)(-adjusted - 1); i++) *out++ = '0';
        memcpy(out, digits, count);
        out += count;
    }
    return (size_t)(out - start);
}

/* ---- writing: text ----
 *
 * Text of one, two or four bytes a character, as CPython keeps a str, into UTF-8 with the escapes of RFC 8785. `out` has
 * room for 6 bytes a character and 8 more. Each answers where the text ends, or NULL where a surrogate is in it: pairs
 * of them are no character either. */

/* One character of up to U+00FF that needs an escape, or is not ASCII. */
static inline size_t mi_put_special(uint8_t c, uint8_t *out) {
    if (c < 0x80) return mi_put_escaped(c, out);
    out[0] = (uint8_t)(0xC0 | (c >> 6));
    out[1] = (uint8_t)(0x80 | (c & 0x3F));
    return 2;
}

__attribute__((unused)) static uint8_t *mi_put_text1(const uint8_t *p, size_t length, uint8_t *out) {
    const uint8_t *end = p + length;
#if defined(__SSE2__)
    while (end - p >= 32) {
        __m128i chunk = _mm_loadu_si128((const __m128i *)p);
        /* The movemask of the chunk itself is of the bytes from 0x80 up. */
        unsigned mask = (unsigned)(_mm_movemask_epi8(mi_chunk_escapes(chunk)) | _mm_movemask_epi8(chunk));
        _mm_storeu_si128((__m128i *)out, chunk);
        while (mask) {
            /* `out` is where the chunk would begin if all its characters took one byte. */
            unsigned i = (unsigned)__builtin_ctz(mask);
            out += mi_put_special(p[i], out + i) - 1;
            _mm_storeu_si128((__m128i *)(out + i + 1), _mm_loadu_si128((const __m128i *)(p + i + 1)));
            mask &= mask - 1;
        }
        p += 16;
        out += 16;
    }
#endif
    while (p < end) {
        uint8_t c = *p++;
        if (c < 0x80 && !mi_escape_letters[c]) *out++ = c;
        else out += mi_put_special(c, out);
    }
    return out;
}

/* Any character; answers 0 for a surrogate. */
static inline size_t mi_put_character(uint32_t c, uint8_t *out) {
    if (c < 0x80) return mi_put_escaped((uint8_t)c, out);
    if (c < 0x800) return mi_utf8_put(c, out);
    if (c < 0x10000) {
        if ((c & 0xF800) == 0xD800) return 0;
        out[0] = (uint8_t)(0xE0 | (c >> 12));
        out[1] = (uint8_t)(0x80 | ((c >> 6) & 0x3F));
        out[2] = (uint8_t)(0x80 | (c & 0x3F));
        return 3;
    }
    return mi_utf8_put(c, out);
}

#if defined(__SSE2__)
/* `narrow` has the 8 characters as bytes, such that none that is not plain ASCII has become that. */
static inline uint8_t *mi_put_8(const uint32_t *characters, __m128i narrow, uint8_t *out) {
    /* The movemask of the bytes themselves is of those from 0x80 up. */
    unsigned mask = (unsigned)(_mm_movemask_epi8(mi_chunk_escapes(narrow)) | _mm_movemask_epi8(narrow)) & 0xFF;
    uint64_t plain, rest;
    _mm_storel_epi64((__m128i *)&plain, narrow);
    memcpy(out, &plain, 8);
    while (mask) { /* such characters come in runs */
        unsigned i = (unsigned)__builtin_ctz(mask);
        uint8_t *to = out + i;
        do {
            size_t size = mi_put_character(characters[i], to);
            if (!size) return NULL;
            to += size;
            i++;
        } while (mask >> i & 1);
        if (i == 8) return to;
        rest = plain >> 8 * i;
        memcpy(to, &rest, 8);
        out = to - i; /* where the text would begin if all characters took one byte */
        mask &= ~0u << i;
    }
    return out + 8;
}
#endif

__attribute__((unused)) static uint8_t *mi_put_text2(const uint16_t *p, size_t length, uint8_t *out) {
    const uint16_t *end = p + length;
    size_t size;
#if defined(__SSE2__)
    for (; end - p >= 8; p += 8) {
        uint32_t wide[8];
        __m128i chunk = _mm_loadu_si128((const __m128i *)p), zero = _mm_setzero_si128();
        _mm_storeu_si128((__m128i *)wide, _mm_unpacklo_epi16(chunk, zero));
        _mm_storeu_si128((__m128i *)(wide + 4), _mm_unpackhi_epi16(chunk, zero));
        /* Saturates: what is above 0xFF becomes 0xFF, or 0 from 0x8000 up. */
        if (!(out = mi_put_8(wide, _mm_packus_epi16(chunk, chunk), out))) return NULL;
    }
#endif
    for (; p < end; p++) {
        if (!(size = mi_put_character(*p, out))) return NULL;
        out += size;
    }
    return out;
}

__attribute__((unused)) static uint8_t *mi_put_text4(const uint32_t *p, size_t length, uint8_t *out) {
    const uint32_t *end = p + length;
    size_t size;
#if defined(__SSE2__)
    for (; end - p >= 8; p += 8) {
        /* Saturates twice: what is above 0x7F does not come below 0x80. */
        __m128i half = _mm_packs_epi32(_mm_loadu_si128((const __m128i *)p), _mm_loadu_si128((const __m128i *)(p + 4)));
        if (!(out = mi_put_8(p, _mm_packus_epi16(half, half), out))) return NULL;
    }
#endif
    for (; p < end; p++) {
        if (!(size = mi_put_character(*p, out))) return NULL;
        out += size;
    }
    return out;
}

/* ---- writing: numbers ---- */

static inline uint32_t mi_count_digits(uint64_t value) {
    static const uint64_t powers[20] = {
        UINT64_C(1), UINT64_C(10), UINT64_C(100), UINT64_C(1000), UINT64_C(10000), UINT64_C(100000), UINT64_C(1000000),
        UINT64_C(10000000), UINT64_C(100000000), UINT64_C(1000000000), UINT64_C(10000000000), UINT64_C(100000000000),
        UINT64_C(1000000000000), UINT64_C(10000000000000), UINT64_C(100000000000000), UINT64_C(1000000000000000),
        UINT64_C(10000000000000000), UINT64_C(100000000000000000), UINT64_C(1000000000000000000),
        UINT64_C(10000000000000000000),
    };
    uint32_t bits = 64 - (uint32_t)__builtin_clzll(value | 1);
    uint32_t digits = bits * 1233 >> 12; /* of the least number of so many bits, less one: 1233 / 4096 is log10(2) */
    return digits + (value >= powers[digits]) + (value == 0);
}

/* Writes a value of `count` digits. */
static inline void mi_put_digits(uint64_t value, uint32_t count, uint8_t *out) {
    static const char pairs[] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    uint8_t *to = out + count;
    uint32_t rest;
    while (value >= 100000000) { /* eight digits at a time, by divisions of words of 32 bits */
        uint32_t low = (uint32_t)(value % 100000000);
        uint32_t left = low / 10000, right = low % 10000;
        value /= 100000000;
        to -= 8;
        memcpy(to, pairs + left / 100 * 2, 2);
        memcpy(to + 2, pairs + left % 100 * 2, 2);
        memcpy(to + 4, pairs + right / 100 * 2, 2);
        memcpy(to + 6, pairs + right % 100 * 2, 2);
    }
    rest = (uint32_t)value;
    while (rest >= 100) {
        to -= 2;
        memcpy(to, pairs + rest % 100 * 2, 2);
        rest /= 100;
    }
    if (rest >= 10) memcpy(to - 2, pairs + rest * 2, 2);
    else to[-1] = (uint8_t)('0' + rest);
}

/* Copies the text of a Decimal; answers whether it is plain digits, with a sign and a point perhaps: an exponent, an
 * infinity and a NaN have letters. */
static inline int mi_copy_plain_number(const uint8_t *p, size_t size, uint8_t *out) {
    uint64_t seen = 0;
    size_t i = 0;
    if (size >= 8) {
        while (i < size) {
            uint64_t word;
            if (size - i < 8) i = size - 8; /* the last word overlaps the one before */
            memcpy(&word, p + i, 8);
            memcpy(out + i, &word, 8);
            seen |= word;
            i += 8;
        }
    } else if (size >= 4) {
        uint32_t low, high;
        memcpy(&low, p, 4);
        memcpy(&high, p + size - 4, 4);
        memcpy(out, &low, 4);
        memcpy(out + size - 4, &high, 4);
        seen = low | high;
    } else {
        for (; i < size; i++) seen |= out[i] = p[i];
    }
    return !(seen & UINT64_C(0x4040404040404040)); /* letters have this bit; digits, signs and the point do not */
}

/* ---- writing: order ---- */

/* The first 8 bytes as a number that stands in their order, with zeros for what is missing. */
static inline uint64_t mi_first_bytes(const uint8_t *p, size_t size) {
    uint64_t value = 0;
    size_t i;
    if (size >= 8)
        return (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 | (uint64_t)p[3] << 32 |
               (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 | (uint64_t)p[6] << 8 | (uint64_t)p[7];
    if (size >= 4) { /* two words, which overlap */
        const uint8_t *q = p + size - 4;
        uint32_t high = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
        uint32_t low = (uint32_t)q[0] << 24 | (uint32_t)q[1] << 16 | (uint32_t)q[2] << 8 | (uint32_t)q[3];
        return (uint64_t)high << 32 | (uint64_t)low << 8 * (8 - size);
    }
    for (i = 0; i < size; i++) value |= (uint64_t)p[i] << 8 * (7 - i);
    return value;
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

/* The elements of an array at p that are numbers without exponent and have a comma behind, as many as 64 bytes hold.
 * Answers where the one after them begins, and their number. For each that may not be in canonical form `doubtful` has
 * a bit, somewhere between its first character and its comma; bit 0 is the byte at p. */
static inline const uint8_t *mi_skip_numbers(const uint8_t *p, const uint8_t *end, size_t *count, uint64_t *doubtful) {
    uint64_t commas = 0, points = 0, minuses = 0, zeros = 0, digits = 0;
    uint64_t starts, firsts, leading, wrong;
    int i;
    *count = 0;
    *doubtful = 0;
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
    /* A zero at the end, "-0", and "0.0", which may become "0.000000". */
    *doubtful = (zeros & ~leading & commas >> 1) | (leading & (minuses << 1 | zeros >> 2));
    *doubtful &= ~UINT64_C(0) >> __builtin_clzll(commas);
    *count = (size_t)__builtin_popcountll(commas);
    return p + 64 - __builtin_clzll(commas);
}

/* Canonical form of a number that mi_scan_number accepts, of fewer than 32 characters: what mi_canonical_number makes of
 * it, with less ado. `out` has room for MI_SHORT_TEXT bytes; answers the length. */
static inline size_t mi_canonical_short(const uint8_t *p, const uint8_t *stop, uint8_t *out) {
    uint8_t digits[32];
    uint8_t *start = out;
    uint32_t count = 0;
    int32_t exponent = 0, adjusted;
    int fraction = 0;
    if (*p == '-') *out++ = *p++;
    for (; p != stop && (*p | 0x20) != 'e'; p++) {
        if (*p == '.') { fraction = 1; continue; }
        digits[count] = *p;
        count += count || *p != '0';
        exponent -= fraction;
    }
    if (!count) { *start = '0'; return 1; }
    if (p != stop) {
        int32_t value = 0;
        int minus = *++p == '-';
        if (*p == '-' || *p == '+') p++;
        for (; p != stop; p++) value = value * 10 + (*p - '0');
        exponent += minus ? -value : value;
    }
    while (digits[count - 1] == '0') { count--; exponent++; }
    adjusted = exponent + (int32_t)count - 1;
    if (exponent > 0 || adjusted < -6) {
        uint32_t magnitude = (uint32_t)(adjusted < 0 ? -adjusted : adjusted);
        uint32_t divisor = 1;
        *out++ = digits[0];
        if (count > 1) {
            *out = '.';
            memcpy(out + 1, digits + 1, 31);
            out += count;
        }
        *out++ = 'E';
        *out++ = adjusted < 0 ? '-' : '+';
        while (magnitude / divisor >= 10) divisor *= 10;
        for (; divisor; divisor /= 10) *out++ = (uint8_t)('0' + magnitude / divisor % 10);
    } else if (exponent == 0) {
        memcpy(out, digits, 32);
        out += count;
    } else if (adjusted >= 0) {
        memcpy(out, digits, 32);
        out += adjusted + 1;
        *out = '.';
        memcpy(out + 1, digits + adjusted + 1, count - (size_t)adjusted - 1);
        out += count - (size_t)adjusted;
    } else {
        memcpy(out, "0.00000", 8);
        out += 1 - adjusted;
        memcpy(out, digits, 32);
        out += count;
    }
    return (size_t)(out - start);
}

/* ---- bits and bytes ---- */

/* Place of the lowest bit that is set; one is. */
static inline int mi_lowest_bit(uint64_t bits) {
    return __builtin_ctzll(bits);
}

/* Whether `size` bytes at a, and at b before it, are the same; up to `end` they may be read. */
static inline int mi_same_bytes(const uint8_t *a, const uint8_t *b, size_t size, const uint8_t *end) {
#if defined(__SSE2__)
    if (size <= 16 && end - a >= 16) {
        __m128i same = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)a), _mm_loadu_si128((const __m128i *)b));
        return (((uint32_t)_mm_movemask_epi8(same) ^ 0xFFFF) & ((1u << size) - 1)) == 0;
    }
#endif
    return size <= (size_t)(end - a) && memcmp(a, b, size) == 0;
}

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
