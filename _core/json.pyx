"""Strict parse with exact numbers, and checked compact serialise.

Reading
- One pass over the bytes, one loop: depth is counted and the C stack does not grow with the text.
- The lexical rules are those of scan.h, which the digest shares; grammar, duplicates and limits are here.
- Finished items of open arrays stand on a value stack, so that a list is made once, at its size. A dict is filled as
  its members come, and has one entry fewer than members read as soon as a name comes twice.
- Numbers are made from their digits: nothing depends on the thread's decimal context or on the process's limit on int
  digits, and no exponent is expanded.

Writing
- Values are taken by their C storage: no method that a subclass overrides is called. Only enum members, dataclasses and
  Structs run Python code (plain_value). That code could change the containers being walked, so when it first comes up
  writing starts again, and takes the members of each dict out of it first.
- Text goes to one buffer and leaves it when the whole value has been written.
"""

from cpython.buffer cimport PyBUF_FULL_RO, PyBuffer_Release, PyBuffer_ToContiguous, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_CheckExact, PyDict_Items, PyDict_New, PyDict_Next, PyDict_SetItem
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE, PyList_New
from cpython.mem cimport PyMem_Free
from cpython.object cimport PyObject, PyObject_TypeCheck, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_DecodeUTF8, PyUnicode_FromObject
from libc.math cimport isfinite
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memset, strlen

from mcpinput._core.buf cimport (
    BUF_MEMORY, BUF_OK, Buf, buf_end, buf_free, buf_init, buf_need, buf_put, buf_put_byte
)
from mcpinput._core.scan cimport (
    MI_CONTROL, MI_END, MI_ESCAPE, MI_EXPONENT, MI_NUMBER_CHARS, MI_NUMBER_DIGITS, MI_NUMBER_EXP, MI_NUMBER_SIZE,
    MI_NUMBER_TEXT, MI_OK, MI_READING, MI_SURROGATE, MI_UTF8, MI_WRITING, mi_canonical_number, mi_copy_verbatim,
    mi_number, mi_put_escaped, mi_rules, mi_scan_number, mi_scan_string, mi_status, mi_string, mi_unescape
)

import dataclasses
import sys
from collections import OrderedDict
from enum import Enum

from mcpinput.errors import JsonErrorKind, JsonParseError, JsonTypeError, JsonWriteError


cdef extern from "Python.h":
    int PyGC_Disable() noexcept
    int PyGC_Enable() noexcept
    void *PyEval_SaveThread() noexcept
    void PyEval_RestoreThread(void *state) noexcept

    Py_ssize_t PyDict_GET_SIZE(object mapping) noexcept
    bint PyODict_Check(object value) noexcept
    void PyList_SET_ITEM(object array, Py_ssize_t index, PyObject *value) noexcept

    object PyLong_FromLongLong(long long value)
    object PyLong_FromString(const char *text, char **end, int base)
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1

    object PyUnicode_New(Py_ssize_t size, uint32_t maximum)
    bint PyUnicode_IS_ASCII(object text) noexcept
    uint8_t *PyUnicode_1BYTE_DATA(object text) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(object text) noexcept

    PyTypeObject *Py_TYPE(object value) noexcept
    bint PyUnicode_Check(object value) noexcept
    bint PyUnicode_CheckExact(object value) noexcept
    bint PyLong_Check(object value) noexcept
    bint PyFloat_Check(object value) noexcept
    bint PyDict_Check(object value) noexcept
    bint PyList_Check(object value) noexcept
    bint PyTuple_Check(object value) noexcept
    object PyType_GetName(PyTypeObject *kind)
    double PyFloat_AS_DOUBLE(object value) noexcept
    enum:
        Py_DTSF_ADD_DOT_0
    char *PyOS_double_to_string(double value, char code, int precision, int flags, int *kind) except NULL


cdef object Decimal
from decimal import Decimal

cdef enum:
    DEPTH_CEILING = 256      # of Limits.depth: sizes the frames, and bounds the recursion of the writer
    HALF_DIGITS = 512        # so many digits convert whatever sys.set_int_max_str_digits says: it is at least 640
    INT64_DIGITS = 18        # any number of so many digits fits an int64
    KEPT_NAMES = 512         # a power of two
    KEPT_NAME_BYTES = 32
    FIRST_ITEMS = 64
    FIRST_BYTES = 4096
    LONG_TEXT = 1024 * 1024  # a text longer than this gives up the interpreter lock every TURN bytes
    TURN = 256 * 1024

# The casts make these powers of Python ints: powers of C ints would be floats.
cdef object TEN_TO_HALF = 10 ** <object>HALF_DIGITS
cdef object DIGITS_END = 10 ** <object>MI_NUMBER_DIGITS

# Short member names come again and again: one str for each of the last ones seen, with its hash. Values are never kept.
# The interpreter lock guards it; nothing else of this module is shared between calls.
cdef PyObject *kept_names[KEPT_NAMES]


# ---- refusals ----

cdef object text_error(object kind, str what, size_t at, object limit=None):
    return JsonParseError(kind, f"{what} at byte {at}", at, limit)


cdef object token_error(mi_status status, mi_rules rules, size_t at):
    if status == MI_END:
        return text_error(JsonErrorKind.TRUNCATED, "the text ends before its value does,", at)
    if status == MI_CONTROL:
        return text_error(JsonErrorKind.ENCODING, "control character in a string, where it must be escaped,", at)
    if status == MI_ESCAPE:
        return text_error(JsonErrorKind.ESCAPE, "no escape of JSON", at)
    if status == MI_SURROGATE:
        return text_error(JsonErrorKind.SURROGATE, "escaped surrogate that is not half of an escaped pair", at)
    if status == MI_UTF8:
        return text_error(JsonErrorKind.ENCODING, "not UTF-8", at)
    if status == MI_NUMBER_SIZE:
        if rules == MI_READING:
            return text_error(
                JsonErrorKind.NUMBER_SIZE, f"over the number limit of {MI_NUMBER_CHARS} characters", at, MI_NUMBER_CHARS
            )
        return text_error(
            JsonErrorKind.NUMBER_SIZE, f"over the number limit of {MI_NUMBER_DIGITS} digits", at, MI_NUMBER_DIGITS
        )
    if status == MI_NUMBER_EXP:
        return text_error(
            JsonErrorKind.EXPONENT, f"number beyond the exponent limit of {MI_EXPONENT}", at, MI_EXPONENT
        )
    return text_error(JsonErrorKind.SYNTAX, "no number of JSON", at)


cdef object depth_error(size_t limit, size_t at):
    return text_error(JsonErrorKind.DEPTH, f"over the depth limit of {limit} arrays and objects", at, limit)


cdef object nodes_error(size_t limit, size_t at):
    return text_error(JsonErrorKind.NODES, f"over the node limit of {limit} values", at, limit)


cdef object string_error(size_t limit, size_t at):
    return text_error(JsonErrorKind.STRING, f"over the string limit of {limit} bytes", at, limit)


cdef object value_error(object kind, str what, object limit=None):
    return JsonWriteError(kind, what, None, limit)


cdef object too_deep(size_t limit):
    return value_error(
        JsonErrorKind.DEPTH,
        f"over the depth limit of {limit} arrays and objects; a value that holds itself has no end",
        limit,
    )


cdef object too_many(size_t limit):
    return value_error(JsonErrorKind.NODES, f"over the node limit of {limit} values", limit)


cdef object output_error(Buf *out, int status):
    if status == BUF_MEMORY:
        return MemoryError()
    return value_error(JsonErrorKind.SIZE, f"the text is over the size limit of {out.limit} bytes", out.limit)


# ---- reading ----

cdef struct Frame:
    PyObject *members  # the dict of an object, owned; NULL for an array
    PyObject *name     # of the member whose value is being read, owned; or NULL
    size_t name_at     # where that name stands
    Py_ssize_t count   # members read
    size_t items       # where the items of an array begin on the value stack


cdef struct Reader:
    const uint8_t *start
    const uint8_t *end
    mi_rules rules
    size_t depth
    size_t max_depth
    size_t nodes
    size_t max_nodes
    size_t max_string
    PyObject **items      # the value stack: finished items of open arrays, owned
    size_t item_count
    size_t item_capacity
    int collecting        # garbage collection was on
    PyObject *first_items[FIRST_ITEMS]
    Frame frames[DEPTH_CEILING]


cdef bytes text_bytes(object data, size_t max_size):
    cdef Py_buffer view
    cdef bytes text
    if PyBytes_CheckExact(data):
        if <size_t>PyBytes_GET_SIZE(data) > max_size:
            raise size_error(PyBytes_GET_SIZE(data), max_size)
        return data
    if PyUnicode_Check(data):
        raise TypeError("a JSON text is bytes, not str: encode it as UTF-8")
    PyObject_GetBuffer(data, &view, PyBUF_FULL_RO)
    try:
        if <size_t>view.len > max_size:
            raise size_error(view.len, max_size)
        # A copy: whoever owns the memory could change it between a check and the use of what was checked.
        text = PyBytes_FromStringAndSize(NULL, view.len)
        PyBuffer_ToContiguous(PyBytes_AS_STRING(text), &view, view.len, b"C")
    finally:
        PyBuffer_Release(&view)
    return text


cdef object size_error(size_t size, size_t limit):
    return JsonParseError(
        JsonErrorKind.SIZE, f"a text of {size} bytes is over the size limit of {limit} bytes", None, limit
    )


cdef inline const uint8_t *skip_space(const uint8_t *p, const uint8_t *end) noexcept:
    while p < end and (p[0] == 32 or p[0] == 10 or p[0] == 13 or p[0] == 9):
        p += 1
    return p


cdef object digits_to_int(const uint8_t *digits, uint32_t count):
    """The int of at most 2 * HALF_DIGITS decimal digits."""
    cdef char text[HALF_DIGITS + 1]
    cdef long long value = 0
    cdef uint32_t i
    if count <= INT64_DIGITS:
        for i in range(count):
            value = value * 10 + (digits[i] - 48)
        return PyLong_FromLongLong(value)
    if count <= HALF_DIGITS:
        memcpy(text, digits, count)
        text[count] = 0
        return PyLong_FromString(text, NULL, 10)
    return (
        digits_to_int(digits, count - HALF_DIGITS) * TEN_TO_HALF
        + digits_to_int(digits + count - HALF_DIGITS, HALF_DIGITS)
    )


cdef inline object ascii_str(const uint8_t *text, size_t size):
    cdef object result = PyUnicode_New(size, 127)
    if size:  # the empty str is shared
        memcpy(PyUnicode_1BYTE_DATA(result), text, size)
    return result


cdef inline object new_decimal(object text):
    """Decimal(text), which is exact whatever the context says."""
    # PERF: 159 ns a number (P4) and not the 185 of a call of the type, which has no vectorcall.
    cdef tuple arguments = (text,)
    return (<PyTypeObject *>Decimal).tp_new(Decimal, <PyObject *>arguments, NULL)


cdef object read_number(const mi_number *number, const uint8_t *start):
    """An int for an integer token, else a Decimal with the scale as written; no sign of zero."""
    cdef object value
    if number.is_integer:
        value = digits_to_int(number.integer, number.integer_digits)
        return -value if number.negative else value
    if number.negative and number.is_zero:
        start += 1
    return new_decimal(ascii_str(start, number.at - start))


cdef inline uint8_t digit_at(const mi_number *number, uint32_t index) noexcept:
    if index < number.integer_digits:
        return number.integer[index]
    return number.fraction[index - number.integer_digits]


cdef object canonical_value(const mi_number *number):
    """The value of a number in verified state: an int where it is integral and its plain text short, else the canonical
    Decimal."""
    cdef uint8_t text[MI_NUMBER_TEXT]
    cdef uint8_t digits[MI_NUMBER_CHARS]
    cdef uint32_t first = 0
    cdef uint32_t last = number.integer_digits + number.fraction_digits
    cdef int32_t exponent = number.exponent - <int32_t>number.fraction_digits
    cdef uint32_t size
    cdef uint32_t i
    cdef object value
    if number.is_zero:
        return 0
    while digit_at(number, first) == 48:
        first += 1
    while digit_at(number, last - 1) == 48:
        last -= 1
        exponent += 1
    if exponent >= 0:
        size = last - first + <uint32_t>exponent
        if size + (1 if number.negative else 0) <= MI_NUMBER_CHARS:
            for i in range(last - first):
                digits[i] = digit_at(number, first + i)
            memset(digits + (last - first), 48, exponent)
            value = digits_to_int(digits, size)
            return -value if number.negative else value
    return new_decimal(ascii_str(text, mi_canonical_number(number, text)))


cdef object read_string(Reader *r, const uint8_t **position, bint is_name):
    """The string whose opening quote *position points to; moves it past the closing quote."""
    cdef mi_string found
    cdef const uint8_t *p = position[0] + 1
    cdef mi_status status = mi_scan_string(p, r.end, &found)
    cdef object text
    cdef uint8_t *raw
    if status != MI_OK:
        raise token_error(status, r.rules, found.at - r.start)
    if found.length > r.max_string:
        raise string_error(r.max_string, position[0] - r.start)
    position[0] = found.at + 1
    if found.ascii:
        if not found.escaped:
            if is_name and found.length <= KEPT_NAME_BYTES:
                return kept_name(p, found.length)
            return ascii_str(p, found.length)
        text = PyUnicode_New(found.length, 127)  # an escape stands for at least one character: never the empty str
        mi_unescape(p, found.at, PyUnicode_1BYTE_DATA(text))
        return text
    if not found.escaped:
        return PyUnicode_DecodeUTF8(<const char *>p, found.length, NULL)
    raw = <uint8_t *>malloc(found.length)
    if raw == NULL:
        raise MemoryError
    try:
        mi_unescape(p, found.at, raw)
        return PyUnicode_DecodeUTF8(<const char *>raw, found.length, NULL)
    finally:
        free(raw)


cdef inline uint64_t load(const uint8_t *p, size_t size) noexcept:
    """Up to 8 bytes as a number."""
    cdef uint64_t eight = 0
    cdef uint32_t four = 0
    cdef uint32_t other = 0
    if size >= 8:
        memcpy(&eight, p, 8)
        return eight
    if size >= 4:
        memcpy(&four, p, 4)
        memcpy(&other, p + size - 4, 4)
        return (<uint64_t>four << 32) | other
    if size == 0:
        return 0
    return (<uint64_t>p[0] << 16) | (<uint64_t>p[size >> 1] << 8) | p[size - 1]


cdef object kept_name(const uint8_t *name, size_t size):
    cdef uint64_t mixed = load(name, size) * <uint64_t>0x9E3779B97F4A7C15 + size
    cdef PyObject **slot
    cdef object text
    if size > 8:
        mixed = (mixed ^ (mixed >> 29)) + load(name + size - 8, 8)
    mixed = mixed * <uint64_t>0xBF58476D1CE4E5B9
    slot = &kept_names[(mixed >> 32) & (KEPT_NAMES - 1)]
    if slot[0] != NULL:
        text = <object>slot[0]
        if <size_t>PyUnicode_GET_LENGTH(text) == size and memcmp(PyUnicode_1BYTE_DATA(text), name, size) == 0:
            return text
    text = ascii_str(name, size)
    Py_INCREF(text)
    Py_XDECREF(slot[0])
    slot[0] = <PyObject *>text
    return text


cdef int push_item(Reader *r, object value) except -1:
    cdef size_t capacity
    cdef PyObject **items
    if r.item_count == r.item_capacity:
        capacity = r.item_capacity * 2
        if r.items == r.first_items:
            items = <PyObject **>malloc(capacity * sizeof(PyObject *))
            if items != NULL:
                memcpy(items, r.items, r.item_count * sizeof(PyObject *))
        else:
            items = <PyObject **>realloc(r.items, capacity * sizeof(PyObject *))
        if items == NULL:
            raise MemoryError
        r.items = items
        r.item_capacity = capacity
    Py_INCREF(value)
    r.items[r.item_count] = <PyObject *>value
    r.item_count += 1
    return 0


cdef list take_items(Reader *r, size_t first):
    """A list of the items from index `first`, which it takes from the value stack."""
    cdef Py_ssize_t count = r.item_count - first
    cdef list array = PyList_New(count)
    cdef Py_ssize_t i
    for i in range(count):
        PyList_SET_ITEM(array, i, r.items[first + i])
    r.item_count = first
    return array


cdef Frame *open_container(Reader *r, size_t at) except NULL:
    cdef Frame *frame
    if r.depth == r.max_depth:
        raise depth_error(r.max_depth, at)
    frame = &r.frames[r.depth]
    frame.members = NULL
    frame.name = NULL
    frame.count = 0
    frame.items = r.item_count
    r.depth += 1
    return frame


cdef int read_name(Reader *r, Frame *frame, const uint8_t **position) except -1:
    """A member name and its colon, up to the value. *position points at what should be the name's quote."""
    cdef const uint8_t *p = position[0]
    cdef object name
    if p == r.end:
        raise token_error(MI_END, r.rules, p - r.start)
    if p[0] != 34:
        raise text_error(JsonErrorKind.SYNTAX, "expected a member name in quotes", p - r.start)
    frame.name_at = p - r.start
    name = read_string(r, &p, True)
    p = skip_space(p, r.end)
    if p == r.end:
        raise token_error(MI_END, r.rules, p - r.start)
    if p[0] != 58:
        raise text_error(JsonErrorKind.SYNTAX, "expected a colon", p - r.start)
    Py_INCREF(name)
    frame.name = <PyObject *>name
    position[0] = skip_space(p + 1, r.end)
    return 0


cdef int add_member(Reader *r, Frame *frame, object value) except -1:
    PyDict_SetItem(<object>frame.members, <object>frame.name, value)
    Py_DECREF(<object>frame.name)
    frame.name = NULL
    frame.count += 1
    if PyDict_GET_SIZE(<object>frame.members) != frame.count:
        raise text_error(JsonErrorKind.DUPLICATE, "an object has two members of the name", frame.name_at)
    return 0


cdef object read_literal(Reader *r, const uint8_t **position):
    cdef const uint8_t *p = position[0]
    cdef const char *word
    cdef size_t size
    cdef size_t left = r.end - p
    cdef object value
    if p[0] == 116:
        word, value = b"true", True
    elif p[0] == 102:
        word, value = b"false", False
    elif p[0] == 110:
        word, value = b"null", None
    else:
        raise text_error(JsonErrorKind.SYNTAX, "expected a value", p - r.start)
    size = strlen(word)
    if memcmp(p, word, size if size < left else left) != 0:
        raise text_error(JsonErrorKind.SYNTAX, "expected a value", p - r.start)
    if left < size:
        raise token_error(MI_END, r.rules, left + (p - r.start))
    position[0] = p + size
    return value


cdef int give_way(Reader *r) except -1:
    """Lets other threads run. The collector is as they left it meanwhile."""
    if r.collecting:
        PyGC_Enable()
    PyEval_RestoreThread(PyEval_SaveThread())
    r.collecting = PyGC_Disable()
    return 0


cdef object read_document(Reader *r):
    cdef const uint8_t *p = skip_space(r.start, r.end)
    cdef const uint8_t *turn = r.start + TURN if r.end - r.start > LONG_TEXT else NULL
    cdef mi_number number
    cdef mi_status status
    cdef Frame *frame
    cdef object value
    if r.end - p >= 3 and memcmp(p, b"\xef\xbb\xbf", 3) == 0:
        raise text_error(JsonErrorKind.SYNTAX, "byte order mark, which JSON is sent without,", p - r.start)
    while True:
        # A value begins at p.
        if p == r.end:
            raise token_error(MI_END, r.rules, p - r.start)
        if r.nodes == r.max_nodes:
            raise nodes_error(r.max_nodes, p - r.start)
        r.nodes += 1
        if turn != NULL and p >= turn:
            give_way(r)
            turn = p + TURN
        if p[0] == 34:
            value = read_string(r, &p, False)
        elif p[0] == 45 or 48 <= p[0] <= 57:
            status = mi_scan_number(p, r.end, r.rules, &number)
            if status != MI_OK:
                raise token_error(status, r.rules, number.at - r.start)
            value = read_number(&number, p) if r.rules == MI_READING else canonical_value(&number)
            p = number.at
        elif p[0] == 123:
            frame = open_container(r, p - r.start)
            value = PyDict_New()
            p = skip_space(p + 1, r.end)
            if p == r.end or p[0] != 125:
                Py_INCREF(value)
                frame.members = <PyObject *>value
                read_name(r, frame, &p)
                continue
            p += 1
            r.depth -= 1
        elif p[0] == 91:
            frame = open_container(r, p - r.start)
            p = skip_space(p + 1, r.end)
            if p == r.end or p[0] != 93:
                continue
            p += 1
            value = []
            r.depth -= 1
        else:
            value = read_literal(r, &p)

        # A value has ended before p; it may be the last of its container, and that the last of its own.
        while True:
            p = skip_space(p, r.end)
            if r.depth == 0:
                if p != r.end:
                    raise text_error(JsonErrorKind.SYNTAX, "something follows the value", p - r.start)
                return value
            frame = &r.frames[r.depth - 1]
            if frame.members == NULL:
                push_item(r, value)
                if p == r.end:
                    raise token_error(MI_END, r.rules, p - r.start)
                if p[0] == 44:
                    p = skip_space(p + 1, r.end)
                    break
                if p[0] != 93:
                    raise text_error(JsonErrorKind.SYNTAX, "expected a comma or the end of the array", p - r.start)
                value = take_items(r, frame.items)
            else:
                add_member(r, frame, value)
                if p == r.end:
                    raise token_error(MI_END, r.rules, p - r.start)
                if p[0] == 44:
                    p = skip_space(p + 1, r.end)
                    read_name(r, frame, &p)
                    break
                if p[0] != 125:
                    raise text_error(JsonErrorKind.SYNTAX, "expected a comma or the end of the object", p - r.start)
                value = <object>frame.members
                Py_DECREF(value)
                frame.members = NULL
            p += 1
            r.depth -= 1


cdef object read(object data, size_t max_depth, size_t max_nodes, size_t max_string, size_t max_size, mi_rules rules):
    cdef bytes text = text_bytes(data, max_size)
    cdef Reader r
    cdef size_t i
    r.start = <const uint8_t *>PyBytes_AS_STRING(text)
    r.end = r.start + PyBytes_GET_SIZE(text)
    r.rules = rules
    r.depth = 0
    r.max_depth = max_depth if max_depth < DEPTH_CEILING else DEPTH_CEILING
    r.nodes = 0
    r.max_nodes = max_nodes
    r.max_string = max_string
    r.items = r.first_items
    r.item_count = 0
    r.item_capacity = FIRST_ITEMS
    # PERF: CPython 3.11 collects inside C code, again and again over the growing tree in which no cycle can be: rows
    # parse up to 2.6 times as fast without. From 3.12 on it never does. Collection is off only while the lock is held.
    r.collecting = PyGC_Disable()
    try:
        return read_document(&r)
    finally:
        if r.collecting:
            PyGC_Enable()
        for i in range(r.item_count):
            Py_DECREF(<object>r.items[i])
        for i in range(r.depth):
            Py_XDECREF(r.frames[i].members)
            Py_XDECREF(r.frames[i].name)
        if r.items != r.first_items:
            free(r.items)


def parse(data, size_t max_depth, size_t max_nodes, size_t max_string, size_t max_size):
    return read(data, max_depth, max_nodes, max_string, max_size, MI_READING)


def parse_state(data, size_t max_depth, size_t max_nodes, size_t max_string, size_t max_size):
    return read(data, max_depth, max_nodes, max_string, max_size, MI_WRITING)


# ---- writing ----

class _RunsCode(Exception):
    """Python code of the application comes up for the first time in a value that is being written."""


cdef struct Writer:
    Buf out
    size_t depth
    size_t max_depth
    size_t nodes
    size_t max_nodes
    size_t max_string
    bint copying  # the members of a dict are taken out of it before they are written
    uint8_t number[MI_NUMBER_TEXT]


cdef str type_name(object value):
    return PyType_GetName(Py_TYPE(value))


cdef int put_string(Buf *out, object text, size_t max_string) except -1:
    cdef object encoded
    if <size_t>PyUnicode_GET_LENGTH(text) > max_string:
        raise long_string_error(max_string)
    if PyUnicode_IS_ASCII(text):
        return put_quoted(out, PyUnicode_1BYTE_DATA(text), PyUnicode_GET_LENGTH(text))
    try:
        encoded = PyUnicode_AsUTF8String(text)
    except UnicodeEncodeError:
        encoded = None
    if encoded is None:  # raised out here, so that no traceback carries the text
        raise value_error(JsonErrorKind.SURROGATE, "a str has a lone surrogate, which is no Unicode text")
    if <size_t>PyBytes_GET_SIZE(encoded) > max_string:
        raise long_string_error(max_string)
    return put_quoted(out, <const uint8_t *>PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded))


cdef object long_string_error(size_t limit):
    return value_error(JsonErrorKind.STRING, f"a string is over the string limit of {limit} bytes", limit)


cdef inline int put_quoted(Buf *out, const uint8_t *p, size_t size) except -1:
    cdef uint8_t *to
    cdef uint8_t escape[6]
    cdef size_t copied
    cdef size_t length
    # What is asked for is what is needed at least, so that the limit of the buffer is met exactly.
    cdef int status = buf_need(out, size + 2)
    if status != BUF_OK:
        raise output_error(out, status)
    to = buf_end(out)
    to[0] = 34
    to += 1
    while True:
        copied = mi_copy_verbatim(p, size, to)
        to += copied
        if copied == size:
            break
        length = mi_put_escaped(p[copied], escape)
        p += copied + 1
        size -= copied + 1
        out.size = to - out.data
        status = buf_need(out, length + size + 1)
        if status != BUF_OK:
            raise output_error(out, status)
        to = buf_end(out)
        memcpy(to, escape, length)
        to += length
    to[0] = 34
    out.size = to + 1 - out.data
    return 0


cdef Py_ssize_t int_text(object number, uint8_t *out) except -1:
    cdef uint8_t digits[20]
    cdef uint8_t *first = digits + 20
    cdef int overflow = 0
    cdef long long value = PyLong_AsLongLongAndOverflow(number, &overflow)
    cdef uint64_t magnitude
    cdef uint8_t *to = out
    cdef object high
    cdef object low
    if overflow == 0:
        magnitude = <uint64_t>value
        if value < 0:
            magnitude = 0 - magnitude
            to[0] = 45
            to += 1
        while True:
            first -= 1
            first[0] = 48 + magnitude % 10
            magnitude //= 10
            if magnitude == 0:
                break
        memcpy(to, first, digits + 20 - first)
        return to + (digits + 20 - first) - out
    if overflow < 0:
        to[0] = 45
        to += 1
    number = int.__abs__(number)  # an exact int, whatever a subclass says
    if number >= DIGITS_END:
        raise value_error(
            JsonErrorKind.NUMBER_SIZE, f"an int is over the number limit of {MI_NUMBER_DIGITS} digits", MI_NUMBER_DIGITS
        )
    if number < TEN_TO_HALF:
        return to - out + put_digits(number, to, 0)
    high = number // TEN_TO_HALF
    low = number % TEN_TO_HALF
    to += put_digits(high, to, 0)
    return to - out + put_digits(low, to, HALF_DIGITS)


cdef Py_ssize_t put_digits(object number, uint8_t *out, Py_ssize_t width) except -1:
    """Digits of an int below 10 ** HALF_DIGITS, with zeros before them up to `width`."""
    cdef object text = str(number)
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text)
    cdef Py_ssize_t zeros = width - size if width > size else 0
    memset(out, 48, zeros)
    memcpy(out + zeros, PyUnicode_1BYTE_DATA(text), size)
    return zeros + size


cdef Py_ssize_t decimal_text(object number, uint8_t *out) except -1:
    # Decimal's own text, whatever a subclass says. It is scientific where it would be long, so nothing is expanded.
    cdef object text = (<PyTypeObject *>Decimal).tp_str(number)
    cdef const uint8_t *p = PyUnicode_1BYTE_DATA(text)
    cdef const uint8_t *end = p + PyUnicode_GET_LENGTH(text)
    cdef mi_number found
    cdef mi_status status = mi_scan_number(p, end, MI_WRITING, &found)
    cdef uint8_t *exponent
    if status == MI_NUMBER_SIZE:
        raise value_error(
            JsonErrorKind.NUMBER_SIZE, f"a Decimal is over the number limit of {MI_NUMBER_DIGITS} digits",
            MI_NUMBER_DIGITS,
        )
    if status == MI_NUMBER_EXP:
        raise value_error(
            JsonErrorKind.EXPONENT, f"a Decimal is beyond the exponent limit of {MI_EXPONENT}", MI_EXPONENT
        )
    if status != MI_OK:
        raise value_error(JsonErrorKind.NOT_FINITE, "JSON has no NaN and no infinities")
    if found.negative and found.is_zero:
        p += 1
    memcpy(out, p, end - p)
    # The letter follows the thread's context.
    exponent = <uint8_t *>memchr(out, 101, end - p)
    if exponent != NULL:
        exponent[0] = 69
    return end - p


cdef Py_ssize_t float_text(double number, uint8_t *out) except -1:
    cdef char *text
    cdef size_t size
    cdef object exact = None
    if not isfinite(number):
        raise value_error(JsonErrorKind.NOT_FINITE, "JSON has no NaN and no infinities")
    text = PyOS_double_to_string(number, b"r", 0, Py_DTSF_ADD_DOT_0, NULL)
    try:
        size = strlen(text)
        if memchr(text, 101, size) != NULL:
            exact = Decimal(ascii_str(<const uint8_t *>text, size))
        elif number == 0:
            memcpy(out, b"0.0", 3)
            return 3
        else:  # plain text is what the Decimal of it says, too
            memcpy(out, text, size)
            return size
    finally:
        PyMem_Free(text)
    return decimal_text(exact, out)


cdef Py_ssize_t number_text(object number, uint8_t *out) except -1:
    if PyLong_Check(number):
        return int_text(number, out)
    if PyObject_TypeCheck(number, <PyTypeObject *>Decimal):
        return decimal_text(number, out)
    if PyFloat_Check(number):
        return float_text(PyFloat_AS_DOUBLE(number), out)
    raise JsonTypeError(JsonErrorKind.TYPE, f"a value of type {type_name(number)} is no number")


cdef bint is_plain(object value) noexcept:
    return (
        value is None or PyUnicode_Check(value) or PyLong_Check(value) or PyFloat_Check(value) or PyDict_Check(value)
        or PyList_Check(value) or PyTuple_Check(value) or PyObject_TypeCheck(value, <PyTypeObject *>Decimal)
    )


cdef object plain_value(object value):
    cdef object kind
    cdef object names
    cdef int hops = 0
    # The value of a member may be a member of another enum; a member that is its own value ends here as well.
    while PyObject_TypeCheck(value, <PyTypeObject *>Enum) and hops < DEPTH_CEILING:
        value = value.value
        hops += 1
        if is_plain(value):
            return value
    kind = <object>Py_TYPE(value)
    names = getattr(kind, "__struct_encode_fields__", None)
    if isinstance(names, tuple):
        return struct_value(kind, names, value)
    if isinstance(getattr(kind, "__dataclass_fields__", None), dict):
        names = [field.name for field in dataclasses.fields(kind)]
        return members_set(names, [field_value(value, name) for name in names])
    raise JsonTypeError(
        JsonErrorKind.TYPE,
        f"JSON has no form for type {type_name(value)}: give a dict, list, str, int, Decimal, bool or None",
    )


cdef object struct_value(object kind, tuple names, object value):
    """What msgspec would write of a Struct: an object, its tag first; or an array, where the type says so."""
    cdef object config = kind.__struct_config__
    cdef list values = [field_value(value, name) for name in kind.__struct_fields__]
    cdef dict members
    if config.array_like:
        return values if config.tag is None else [config.tag, *values]
    members = members_set(names, values)
    return members if config.tag is None else {config.tag_field: config.tag, **members}


cdef object field_value(object value, str name):
    try:
        return getattr(value, name)
    except AttributeError:
        pass
    raise JsonTypeError(JsonErrorKind.TYPE, f"field {name} of a {type_name(value)} has no value: set it")


cdef dict members_set(object names, object values):
    """A dict of the fields but for those that are msgspec's UNSET."""
    cdef object msgspec = sys.modules.get("msgspec")  # nothing is UNSET where it was never imported
    if msgspec is None:
        return dict(zip(names, values))
    return {name: value for name, value in zip(names, values) if value is not msgspec.UNSET}


cdef inline int put(Writer *w, uint8_t byte) except -1:
    cdef int status = buf_put_byte(&w.out, byte)
    if status != BUF_OK:
        raise output_error(&w.out, status)
    return 0


cdef inline int put_text(Writer *w, const void *text, size_t size) except -1:
    cdef int status = buf_put(&w.out, text, size)
    if status != BUF_OK:
        raise output_error(&w.out, status)
    return 0


cdef inline int enter(Writer *w) except -1:
    if w.depth == w.max_depth:
        raise too_deep(w.max_depth)
    w.depth += 1
    return 0


cdef int write(Writer *w, object value) except -1:
    cdef object plain
    if w.nodes == w.max_nodes:
        raise too_many(w.max_nodes)
    w.nodes += 1
    if PyUnicode_Check(value):
        return put_string(&w.out, value, w.max_string)
    if PyDict_Check(value):
        return write_object(w, value)
    if PyList_Check(value):
        return write_list(w, value)
    if value is None:
        return put_text(w, b"null", 4)
    if value is True:
        return put_text(w, b"true", 4)
    if value is False:
        return put_text(w, b"false", 5)
    if PyLong_Check(value):
        return put_text(w, w.number, int_text(value, w.number))
    if PyFloat_Check(value):
        return put_text(w, w.number, float_text(PyFloat_AS_DOUBLE(value), w.number))
    if PyObject_TypeCheck(value, <PyTypeObject *>Decimal):
        return put_text(w, w.number, decimal_text(value, w.number))
    if PyTuple_Check(value):
        return write_tuple(w, value)
    if not w.copying:
        raise _RunsCode
    plain = plain_value(value)
    w.nodes -= 1  # one value, in another form
    return write(w, plain)


cdef int write_list(Writer *w, object array) except -1:
    cdef Py_ssize_t i = 0
    cdef object item
    enter(w)
    put(w, 91)
    while i < PyList_GET_SIZE(array):
        if i:
            put(w, 44)
        item = <object>PyList_GET_ITEM(array, i)  # held: code that runs meanwhile may take it out of the list
        write(w, item)
        i += 1
    put(w, 93)
    w.depth -= 1
    return 0


cdef int write_tuple(Writer *w, object array) except -1:
    cdef Py_ssize_t i
    enter(w)
    put(w, 91)
    for i in range(PyTuple_GET_SIZE(array)):
        if i:
            put(w, 44)
        write(w, <object>PyTuple_GET_ITEM(array, i))
    put(w, 93)
    w.depth -= 1
    return 0


cdef dict in_own_order(object mapping):
    """A dict of an OrderedDict, whose order is not that of the dict it is built on."""
    cdef dict members = {}
    for name in OrderedDict.__iter__(mapping):
        members[name] = dict.__getitem__(mapping, name)
    return members


cdef int write_member(Writer *w, uint8_t before, object name, object value) except -1:
    if not PyUnicode_Check(name):
        raise JsonTypeError(JsonErrorKind.KEY, f"a member name is of type {type_name(name)}: JSON has str only")
    put(w, before)
    put_string(&w.out, name, w.max_string)
    put(w, 58)
    return write(w, value)


cdef int write_object(Writer *w, object mapping) except -1:
    cdef PyObject *borrowed_name = NULL
    cdef PyObject *borrowed_value = NULL
    cdef Py_ssize_t position = 0
    cdef object name
    cdef object value
    cdef list members = None
    cdef bint only_str = True
    cdef uint8_t before = 123
    enter(w)
    if not PyDict_CheckExact(mapping) and PyODict_Check(mapping):
        if not w.copying:
            raise _RunsCode  # its names may hash and compare by code
        members = PyDict_Items(in_own_order(mapping))
    elif w.copying:
        members = PyDict_Items(mapping)  # what is stored, whatever methods a subclass has
    if members is None:
        while PyDict_Next(mapping, &position, &borrowed_name, &borrowed_value):
            name = <object>borrowed_name
            value = <object>borrowed_value
            only_str = only_str and PyUnicode_CheckExact(name)
            write_member(w, before, name, value)
            before = 44
    else:
        for name, value in members:
            only_str = only_str and PyUnicode_CheckExact(name)
            write_member(w, before, name, value)
            before = 44
    if before == 123:
        put(w, 123)
    put(w, 125)
    if not only_str:
        refuse_equal_names(PyDict_Items(mapping) if members is None else members)
    w.depth -= 1
    return 0


cdef int refuse_equal_names(list members) except -1:
    """A subclass of str may call two names different that are the same text."""
    if len({PyUnicode_FromObject(member[0]) for member in members}) != len(members):
        raise value_error(JsonErrorKind.DUPLICATE, "two names of one object are the same text")
    return 0


def dump(value, size_t max_depth, size_t max_nodes, size_t max_string, size_t max_size):
    cdef uint8_t first[FIRST_BYTES]
    cdef Writer w
    w.depth = 0
    w.max_depth = max_depth if max_depth < DEPTH_CEILING else DEPTH_CEILING
    w.nodes = 0
    w.max_nodes = max_nodes
    w.max_string = max_string
    w.copying = False
    buf_init(&w.out, first, FIRST_BYTES, max_size)
    try:
        try:
            write(&w, value)
        except _RunsCode:
            w.copying = True
        if w.copying:
            w.out.size = 0
            w.depth = 0
            w.nodes = 0
            write(&w, value)
        return PyBytes_FromStringAndSize(<char *>w.out.data, w.out.size)
    finally:
        buf_free(&w.out)
