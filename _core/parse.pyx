"""Strict parse of JSON with exact numbers.

Rules

- One pass over the bytes, one loop: depth is counted and the C stack does not grow with the text.
- The lexical rules are those of scan.h, which the digest shares; grammar, duplicates and limits are here.
- Finished items of open arrays stand on a value stack, so that a list is made once, at its size. A dict is filled as
  its members come, and has one entry fewer than members read as soon as a name comes twice.
- Numbers are made from their digits: nothing depends on the thread's decimal context or on the process's limit on int
  digits, and no exponent is expanded.
"""

from cpython.buffer cimport PyBUF_FULL_RO, PyBuffer_Release, PyBuffer_ToContiguous, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_New, PyDict_SetItem
from cpython.list cimport PyList_New
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset, strlen

from mcpinput._core.scan cimport (
    MI_CONTROL, MI_END, MI_ESCAPE, MI_EXPONENT, MI_NUMBER_CHARS, MI_NUMBER_DIGITS, MI_NUMBER_EXP, MI_NUMBER_SIZE,
    MI_NUMBER_TEXT, MI_OK, MI_READING, MI_SURROGATE, MI_UTF8, MI_WRITING, mi_canonical_number, mi_number, mi_rules,
    mi_scan_number, mi_scan_string, mi_status, mi_string, mi_unescape
)

from mcpinput.errors import JsonErrorKind, JsonParseError


cdef extern from "Python.h":
    int PyGC_Disable() noexcept
    int PyGC_Enable() noexcept
    void *PyEval_SaveThread() noexcept
    void PyEval_RestoreThread(void *state) noexcept

    Py_ssize_t PyDict_GET_SIZE(object mapping) noexcept
    void PyList_SET_ITEM(object array, Py_ssize_t index, PyObject *value) noexcept

    object PyLong_FromLongLong(long long value)
    object PyLong_FromString(const char *text, char **end, int base)

    object PyUnicode_New(Py_ssize_t size, uint32_t maximum)
    uint8_t *PyUnicode_1BYTE_DATA(object text) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(object text) noexcept
    bint PyUnicode_Check(object value) noexcept


cdef object Decimal
from decimal import Decimal

cdef enum:
    DEPTH_CEILING = 256      # of Limits.depth: sizes the frames
    HALF_DIGITS = 512        # so many digits convert whatever sys.set_int_max_str_digits says: it is at least 640
    INT64_DIGITS = 18        # any number of so many digits fits an int64
    KEPT_NAMES = 512         # a power of two
    KEPT_NAME_BYTES = 32
    FIRST_ITEMS = 64
    LONG_TEXT = 1024 * 1024  # a text longer than this gives up the interpreter lock every TURN bytes
    TURN = 256 * 1024

# The cast makes this a power of Python ints: a power of C ints would be a float.
cdef object TEN_TO_HALF = 10 ** <object>HALF_DIGITS

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


# ---- the document ----

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
