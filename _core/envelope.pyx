"""Bytes of request state: fields, bindings, payload, token, and strict base64url.

Rules

- Decoding checks every length before it is used and accepts exactly one spelling of each value: what decodes encodes
  to the same bytes again. Everything else is an EnvelopeError.
- No error holds any of the input, not even as the exception it came from: messages name the part and the rule.
- Ranges that depend on configuration or on the clock (round, issue, expiry) are not judged here.

Payload, version 1, offsets in bytes:

    0 version | 1 flags | 2 round u16 | 4 issued i64 | 12 expires i64 | 20 flow id | 36 bindings, 7 x 16
    148 parameter digest | 180 request id hash | 196 n u16 | 198 n x (F(key), kind u8, request digest) | state

Token = base64url(header, ciphertext, tag); header = version | u8 length | key id | nonce. Numbers are big-endian.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from hashlib import sha256

from mcpinput.errors import EnvelopeError

cdef extern from "Python.h":
    int PyUnicode_IS_ASCII(object text)
    uint8_t *PyUnicode_1BYTE_DATA(object text)
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 maximum)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

cdef enum:
    VERSION = 1
    ABSENT = 0
    PRESENT = 1
    FLAGS = FLAG_STATE | FLAG_REPLAYED  # all that are known
    NONCE = 24
    BLOCKS = 32         # two blocks of AES
    TAG = 16
    LAST_KIND = 4
    MAXIMUM_KEY_ID = 64

# ---- base64url (RFC 4648, section 5), unpadded ----

cdef const char *ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

# PERF: whole pairs of characters out, and values in their place in, take half the time of single ones. Both tables are
# filled here and constant from then on.
cdef uint16_t[4096] PAIRS       # two characters, in the order of memory, of 12 bits
cdef uint32_t[4][256] VALUES    # a character's 6 bits where they belong in a group of 24; FOREIGN: not in the alphabet

cdef enum:
    FOREIGN = 0x80000000


cdef void fill_tables() noexcept:
    cdef uint8_t[2] pair
    cdef int i, place
    for i in range(4096):
        pair[0] = <uint8_t>ALPHABET[i >> 6]
        pair[1] = <uint8_t>ALPHABET[i & 63]
        memcpy(&PAIRS[i], pair, 2)
    for place in range(4):
        for i in range(256):
            VALUES[place][i] = <uint32_t>FOREIGN
        for i in range(64):
            VALUES[place][<uint8_t>ALPHABET[i]] = <uint32_t>i << (18 - 6 * place)


fill_tables()


cdef object encode_text(const uint8_t *p, Py_ssize_t size):
    cdef object text
    cdef uint8_t *out
    cdef uint32_t group
    cdef Py_ssize_t tail = size % 3
    text = PyUnicode_New(size // 3 * 4 + (tail + 1 if tail else 0), 127)
    out = PyUnicode_1BYTE_DATA(text)
    while size >= 3:
        group = (<uint32_t>p[0] << 16) | (<uint32_t>p[1] << 8) | p[2]
        memcpy(out, &PAIRS[group >> 12], 2)
        memcpy(out + 2, &PAIRS[group & 4095], 2)
        out += 4
        p += 3
        size -= 3
    if size:
        group = (<uint32_t>p[0] << 16) | (<uint32_t>p[1] << 8 if size == 2 else 0)
        memcpy(out, &PAIRS[group >> 12], 2)
        if size == 2:
            out[2] = <uint8_t>ALPHABET[(group >> 6) & 63]
    return text


cdef bytes decode_text(object text):
    cdef const uint8_t *p
    cdef const uint8_t *groups_end
    cdef uint8_t *out
    cdef uint32_t group, foreign = 0
    cdef Py_ssize_t length, tail
    cdef bytes data
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, not {type(text).__name__}")
    if not PyUnicode_IS_ASCII(text):
        raise EnvelopeError("a character is not in the base64url alphabet")
    length = PyUnicode_GET_LENGTH(text)
    tail = length % 4
    if tail == 1:
        raise EnvelopeError("no base64url text has this length")
    p = PyUnicode_1BYTE_DATA(text)
    data = PyBytes_FromStringAndSize(NULL, length // 4 * 3 + (tail - 1 if tail else 0))
    out = <uint8_t *>PyBytes_AS_STRING(data)
    groups_end = p + (length - tail)
    while p < groups_end:
        group = VALUES[0][p[0]] | VALUES[1][p[1]] | VALUES[2][p[2]] | VALUES[3][p[3]]
        foreign |= group
        out[0] = <uint8_t>(group >> 16)
        out[1] = <uint8_t>(group >> 8)
        out[2] = <uint8_t>group
        out += 3
        p += 4
    group = 0
    if tail:
        group = VALUES[0][p[0]] | VALUES[1][p[1]] | (VALUES[2][p[2]] if tail == 3 else 0)
        foreign |= group
        out[0] = <uint8_t>(group >> 16)
        if tail == 3:
            out[1] = <uint8_t>(group >> 8)
    if foreign & FOREIGN:
        raise EnvelopeError("a character is not in the base64url alphabet")
    if group & (0xFF if tail == 3 else 0xFFFF):
        raise EnvelopeError("the spare bits of the last character are not zero")
    return data


def base64url_encode(data):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return encode_text(<const uint8_t *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


def base64url_decode(text):
    return decode_text(text)


# ---- fields and hashes ----

cdef inline void put_number(uint8_t *out, uint64_t value, int size) noexcept nogil:
    while size:
        size -= 1
        out[size] = <uint8_t>(value & 0xFF)
        value >>= 8


cdef inline uint64_t get_number(const uint8_t *p, int size) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value = (value << 8) | p[i]
    return value


cdef bytes utf8(object text):
    try:
        return PyUnicode_AsUTF8String(text)
    except UnicodeEncodeError:
        pass  # raised below, outside: this exception holds the text
    raise EnvelopeError("text holds a lone surrogate")


cdef bytes present(object value, Py_ssize_t room=0):
    # F(value), and room for as many bytes more.
    cdef bytes text, out
    cdef uint8_t *p
    cdef Py_ssize_t size
    if not isinstance(value, str):
        raise TypeError(f"a field must be a str or None, not {type(value).__name__}")
    text = utf8(value)
    size = PyBytes_GET_SIZE(text)
    if <uint64_t>size > 0xFFFFFFFFULL:
        raise EnvelopeError("a field has at most 4,294,967,295 bytes")
    out = PyBytes_FromStringAndSize(NULL, size + 5 + room)
    p = <uint8_t *>PyBytes_AS_STRING(out)
    p[0] = PRESENT
    put_number(p + 1, <uint64_t>size, 4)
    memcpy(p + 5, PyBytes_AS_STRING(text), size)
    return out


def field(value):
    return b"\x00" if value is None else present(value)


def binding(value):
    return sha256(b"\x00" if value is None else present(value)).digest()[:SHORT]


cdef object SHORT_INT = 10 ** 18


cdef str plain_digits(object number):
    # In steps, because str() refuses ints of more digits than the process allows, which can be as few as 640.
    cdef list steps
    cdef object rest
    if -SHORT_INT < number < SHORT_INT:
        return str(number)
    steps = []
    rest = abs(number)
    cdef object step = 10 ** 500
    while rest >= step:
        rest, part = divmod(rest, step)
        steps.append(f"{part:0500d}")
    steps.append(str(rest))
    steps.reverse()
    return ("-" if number < 0 else "") + "".join(steps)


def request_id_hash(request_id):
    return hash_of_request_id(request_id)


cdef bytes hash_of_request_id(object request_id):
    if isinstance(request_id, str):
        return sha256(b"\x73" + utf8(request_id)).digest()[:SHORT]
    if isinstance(request_id, int) and not isinstance(request_id, bool):
        return sha256(b"\x69" + plain_digits(request_id).encode("ascii")).digest()[:SHORT]
    raise TypeError(f"a request id must be a str or an int, not {type(request_id).__name__}")


# ---- token ----

cdef inline bint is_tchar(uint8_t c) noexcept nogil:
    # RFC 9110, section 5.6.2
    if c'a' <= c <= c'z' or c'A' <= c <= c'Z' or c'0' <= c <= c'9':
        return True
    return c in b"!#$%&'*+-.^_`|~"


cdef bint is_key_id(const uint8_t *p, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    if size < 1 or size > MAXIMUM_KEY_ID:
        return False
    for i in range(size):
        if not is_tchar(p[i]):
            return False
    return True


def encode_header(key_id, bytes nonce not None):
    cdef Py_ssize_t size
    cdef bytes header
    cdef uint8_t *p
    if not isinstance(key_id, str):
        raise TypeError(f"a key id must be a str, not {type(key_id).__name__}")
    if not PyUnicode_IS_ASCII(key_id) or not is_key_id(PyUnicode_1BYTE_DATA(key_id), PyUnicode_GET_LENGTH(key_id)):
        raise EnvelopeError("a key id is an ASCII HTTP token of 1 to 64 characters")
    if PyBytes_GET_SIZE(nonce) != NONCE:
        raise EnvelopeError("a nonce has 24 bytes")
    size = PyUnicode_GET_LENGTH(key_id)
    header = PyBytes_FromStringAndSize(NULL, 2 + size + NONCE)
    p = <uint8_t *>PyBytes_AS_STRING(header)
    p[0] = VERSION
    p[1] = <uint8_t>size
    memcpy(p + 2, PyUnicode_1BYTE_DATA(key_id), size)
    memcpy(p + 2 + size, PyBytes_AS_STRING(nonce), NONCE)
    return header


def nonce_blocks(bytes masks not None, bytes nonce not None):
    cdef bytes blocks
    cdef uint8_t *out
    cdef const uint8_t *n = <const uint8_t *>PyBytes_AS_STRING(nonce)
    cdef int i
    if PyBytes_GET_SIZE(masks) != BLOCKS:
        raise EnvelopeError("masks have 32 bytes")
    if PyBytes_GET_SIZE(nonce) != NONCE:
        raise EnvelopeError("a nonce has 24 bytes")
    blocks = PyBytes_FromStringAndSize(PyBytes_AS_STRING(masks), BLOCKS)
    out = <uint8_t *>PyBytes_AS_STRING(blocks)
    for i in range(12):
        out[4 + i] ^= n[i]
        out[20 + i] ^= n[i]
    return blocks


def encode_token(bytes header not None, bytes sealed not None):
    cdef bytes data = header + sealed
    return encode_text(<const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


def decode_token(token):
    cdef bytes data = decode_text(token)
    cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef Py_ssize_t id_size
    if size < 2 or p[0] != VERSION:
        raise EnvelopeError("not a token of version 1")
    id_size = p[1]
    if size < 2 + id_size + NONCE + TAG:
        raise EnvelopeError("a token ends too early")
    if not is_key_id(p + 2, id_size):
        raise EnvelopeError("a token's key id is not an HTTP token of 1 to 64 characters")
    return (
        PyUnicode_DecodeASCII(<const char *>p + 2, id_size, NULL),
        data[:2 + id_size + NONCE],
        data[2 + id_size:2 + id_size + NONCE],
        data[2 + id_size + NONCE:],
    )


# ---- payload ----

@cython.final
cdef class Payload:
    """What a token carries, decoded. Immutable; decode_payload makes it."""

    def __init__(self):
        raise TypeError("a Payload is made by decode_payload()")

    @property
    def flow_id(self):
        return self.data[FLOW_ID_AT:BINDINGS_AT]

    @property
    def bindings(self):
        return self.data[BINDINGS_AT:DIGEST_AT]

    @property
    def parameter_digest(self):
        return self.data[DIGEST_AT:REQUEST_ID_AT]

    @property
    def request_id_hash(self):
        return self.data[REQUEST_ID_AT:COUNT_AT]

    @property
    def state(self):
        return self.data[self.state_at:]


cdef int require_length(bytes part, Py_ssize_t size, str name) except -1:
    if part is None:  # what a caller's function returned, or a part of a tuple: its type lets None through
        raise TypeError(f"{name} must be bytes, not None")
    if PyBytes_GET_SIZE(part) != size:
        raise EnvelopeError(f"{name} must have {size} bytes")
    return 0


cdef inline uint8_t *put_bytes(uint8_t *out, bytes part) noexcept:
    memcpy(out, PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
    return out + PyBytes_GET_SIZE(part)


cdef int64_t int64(object number) except? -1:
    try:
        return number
    except OverflowError:
        pass  # raised below, outside: nothing is chained to it
    raise EnvelopeError("issued_ms and expires_ms must fit 64 bits")


cdef int small(object number, int minimum, int maximum, str problem) except -1:
    cdef int64_t value = -1
    try:
        value = number
    except OverflowError:
        pass
    if value < minimum or value > maximum:
        raise EnvelopeError(problem)
    return <int>value


cdef bytes asked_bytes(object key, object kind, bytes digest):
    cdef int code = small(kind, 1, LAST_KIND, "kind must be from 1 to 4")
    cdef bytes out
    cdef uint8_t *p
    require_length(digest, SHORT, "request digest")
    out = present(key, 1 + SHORT)
    p = <uint8_t *>PyBytes_AS_STRING(out) + PyBytes_GET_SIZE(out) - 1 - SHORT
    p[0] = <uint8_t>code
    put_bytes(p + 1, digest)
    return out


cdef bytes payload_bytes(
    int flags,
    int round,
    int64_t issued_ms,
    int64_t expires_ms,
    bytes flow_id,
    bytes bindings,
    bytes parameter_digest,
    bytes request_id_hash,
    list asked,
    bytes state,
):
    cdef bytes out, part
    cdef uint8_t *p
    cdef Py_ssize_t size = FIXED + PyBytes_GET_SIZE(state)
    if len(asked) > 0xFFFF:
        raise EnvelopeError("at most 65535 keys can be asked")
    for part in asked:
        size += PyBytes_GET_SIZE(part)
    out = PyBytes_FromStringAndSize(NULL, size)
    p = <uint8_t *>PyBytes_AS_STRING(out)
    p[0] = VERSION
    p[1] = <uint8_t>flags
    put_number(p + 2, <uint64_t>round, 2)
    put_number(p + 4, <uint64_t>issued_ms, 8)
    put_number(p + 12, <uint64_t>expires_ms, 8)
    p = put_bytes(p + FLOW_ID_AT, flow_id)
    p = put_bytes(p, bindings)
    p = put_bytes(p, parameter_digest)
    p = put_bytes(p, request_id_hash)
    put_number(p, <uint64_t>len(asked), 2)
    p += 2
    for part in asked:
        p = put_bytes(p, part)
    put_bytes(p, state)
    return out


def encode_payload(
    flags,
    round,
    issued_ms,
    expires_ms,
    bytes flow_id not None,
    bytes bindings not None,
    bytes parameter_digest not None,
    bytes request_id_hash not None,
    asked,
    bytes state not None,
):
    cdef list parts = []
    cdef set keys = set()
    cdef bytes digest
    cdef int bits = small(flags, 0, FLAGS, "flags must be from 0 to 3")
    if bool(bits & FLAG_STATE) != (PyBytes_GET_SIZE(state) > 0):
        raise EnvelopeError("state must be there if and only if its flag is set")
    require_length(flow_id, SHORT, "flow_id")
    require_length(bindings, BINDINGS, "bindings")
    require_length(parameter_digest, DIGEST, "parameter_digest")
    require_length(request_id_hash, SHORT, "request_id_hash")
    for key, kind, digest in asked:
        if key in keys:
            raise EnvelopeError("a key is asked twice")
        keys.add(key)
        parts.append(asked_bytes(key, kind, digest))
    return payload_bytes(
        bits,
        small(round, 0, 0xFFFF, "round must be from 0 to 65535"),
        int64(issued_ms),
        int64(expires_ms),
        flow_id,
        bindings,
        parameter_digest,
        request_id_hash,
        parts,
        state,
    )


cdef object decode_key(const uint8_t *p, Py_ssize_t size):
    try:
        return PyUnicode_DecodeUTF8(<const char *>p, size, "strict")
    except UnicodeDecodeError:
        pass  # raised below, outside: this exception holds the bytes
    raise EnvelopeError("an asked key is not UTF-8")


def decode_payload(payload):
    return payload_of(payload if type(payload) is bytes else copied(payload))


cdef Payload payload_of(bytes data):
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef const uint8_t *p = start
    cdef const uint8_t *end = start + PyBytes_GET_SIZE(data)
    cdef Payload decoded
    cdef list asked = []
    cdef set keys = set()
    cdef Py_ssize_t length
    cdef int count
    if end - p < FIXED or p[0] != VERSION:
        raise EnvelopeError("not a payload of version 1")
    if p[1] & ~FLAGS:
        raise EnvelopeError("a payload has an unknown flag")
    decoded = Payload.__new__(Payload)
    decoded.data = data
    decoded.flags = p[1]
    decoded.round = <int>get_number(p + 2, 2)
    decoded.issued_ms = <int64_t>get_number(p + 4, 8)
    decoded.expires_ms = <int64_t>get_number(p + 12, 8)
    count = <int>get_number(p + COUNT_AT, 2)
    p += FIXED
    while count:
        count -= 1
        if end - p < 5 or p[0] != PRESENT:
            raise EnvelopeError("an asked key is cut short or absent")
        if get_number(p + 1, 4) > <uint64_t>(end - p - 5):
            raise EnvelopeError("an asked key is cut short or absent")
        length = <Py_ssize_t>get_number(p + 1, 4)
        p += 5
        if end - p - length < 1 + SHORT:
            raise EnvelopeError("an asked key is cut short or absent")
        key = decode_key(p, length)
        p += length
        if p[0] < 1 or p[0] > LAST_KIND:
            raise EnvelopeError("an asked key is of an unknown kind")
        if key in keys:
            raise EnvelopeError("a key is asked twice")
        keys.add(key)
        asked.append((key, <int>p[0], p[1:1 + SHORT]))
        p += 1 + SHORT
    if bool(decoded.flags & FLAG_STATE) != (p < end):
        raise EnvelopeError("state must be there if and only if its flag is set")
    decoded.asked = tuple(asked)
    decoded.state_at = p - start
    return decoded


cdef bytes copied(object data):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return PyBytes_FromStringAndSize(<const char *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
