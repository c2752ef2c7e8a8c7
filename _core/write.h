/* What the writers put down: strings and numbers as JSON text, and their canonical forms (RFC 8785 in everything but
 * numbers).
 *
 * Rules
 * - Nothing here allocates, calls Python, or keeps state. Each function says for how many bytes `out` needs room.
 * - What is put down again of what was read has been scanned by scan.h.
 */
#ifndef MCPINPUT_WRITE_H
#define MCPINPUT_WRITE_H

#include "scan.h"

#define MI_SHORT_TEXT 48 /* room that mi_canonical_short asks for */

/* ---- text: escapes, and what needs none ---- */

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

/* ---- text: any ----
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

#if defined(__SSE2__)
/* Of 8 characters below U+0800, none of which is escaped: one or two bytes each. */
static inline uint8_t *mi_put_8_below_800(__m128i chunk, uint8_t *out) {
    uint16_t pairs[8];
    int i;
    __m128i ascii = _mm_cmplt_epi16(chunk, _mm_set1_epi16(0x80));
    __m128i pair = _mm_or_si128(_mm_slli_epi16(_mm_and_si128(chunk, _mm_set1_epi16(0x3F)), 8),
                                _mm_or_si128(_mm_srli_epi16(chunk, 6), _mm_set1_epi16((short)0x80C0)));
    pair = _mm_or_si128(_mm_and_si128(ascii, chunk), _mm_andnot_si128(ascii, pair));
    _mm_storeu_si128((__m128i *)pairs, pair);
    for (i = 0; i < 8; i++) {
        memcpy(out, &pairs[i], 2);
        out += 1 + (pairs[i] >> 15);
    }
    return out;
}

/* Of 8 characters from U+0800 up: three bytes each. */
static inline uint8_t *mi_put_8_from_800(__m128i chunk, uint8_t *out) {
    const __m128i marks = _mm_set1_epi32(0x8080E0), middle = _mm_set1_epi32(0xFC0), last = _mm_set1_epi32(0x3F);
    uint32_t bytes[8];
    int i;
    __m128i half[2];
    half[0] = _mm_unpacklo_epi16(chunk, _mm_setzero_si128());
    half[1] = _mm_unpackhi_epi16(chunk, _mm_setzero_si128());
    if (_mm_movemask_epi8(_mm_cmpeq_epi16(_mm_and_si128(chunk, _mm_set1_epi16((short)0xF800)),
                                          _mm_set1_epi16((short)0xD800)))) return NULL;
    for (i = 0; i < 2; i++) {
        __m128i low = _mm_or_si128(_mm_srli_epi32(half[i], 12), _mm_slli_epi32(_mm_and_si128(half[i], middle), 2));
        __m128i high = _mm_slli_epi32(_mm_and_si128(half[i], last), 16);
        _mm_storeu_si128((__m128i *)(bytes + 4 * i), _mm_or_si128(_mm_or_si128(low, high), marks));
    }
    for (i = 0; i < 8; i++) memcpy(out + 3 * i, &bytes[i], 4); /* the fourth byte is that of the next, or no matter */
    return out + 24;
}
#endif

__attribute__((unused)) static uint8_t *mi_put_text2(const uint16_t *p, size_t length, uint8_t *out) {
    const uint16_t *end = p + length;
    size_t size;
#if defined(__SSE2__)
    for (; end - p >= 8; p += 8) {
        __m128i chunk = _mm_loadu_si128((const __m128i *)p), zero = _mm_setzero_si128();
        /* Saturates: what is above 0xFF becomes 0xFF, or 0 from 0x8000 up. */
        __m128i narrow = _mm_packus_epi16(chunk, chunk);
        int below_800 = _mm_movemask_epi8(_mm_cmpeq_epi16(_mm_subs_epu16(chunk, _mm_set1_epi16(0x7FF)), zero));
        if (!below_800) {
            out = mi_put_8_from_800(chunk, out);
        } else if (below_800 == 0xFFFF && !_mm_movemask_epi8(mi_chunk_escapes(narrow))) {
            if (_mm_movemask_epi8(narrow)) {
                out = mi_put_8_below_800(chunk, out);
            } else {
                _mm_storel_epi64((__m128i *)out, narrow);
                out += 8;
            }
        } else {
            uint32_t wide[8];
            _mm_storeu_si128((__m128i *)wide, _mm_unpacklo_epi16(chunk, zero));
            _mm_storeu_si128((__m128i *)(wide + 4), _mm_unpackhi_epi16(chunk, zero));
            out = mi_put_8(wide, narrow, out);
        }
        if (!out) return NULL;
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

/* ---- numbers ---- */

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

/* ---- order ---- */

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

#endif
