"""Strict parse of JSON with exact numbers.

Rules

- One pass over the bytes, one loop: depth is counted and the C stack does not grow with the text.
- The lexical rules are those of scan.h, which the digest shares; grammar, duplicates and limits are here. What this
  file reads faster than scan.h does is what is most common and cannot be wrong; the rest goes there.
- Finished items of open arrays stand on a value stack, so that a list is made once, at its size. A dict is filled as
  its members come, and has one entry fewer than members read as soon as a name comes twice.
- Numbers are made from their digits: nothing depends on the thread's decimal context or on the process's limit on int
  digits, and no exponent is expanded.
- PERF: values are owned pointers here, not objects of Cython's, which would be counted up and down at every step.
"""

from cpython.buffer cimport PyBUF_FULL_RO, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from cpython.object cimport PyObject, PyTypeObject
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset, strlen

from mcpinput._core.limits cimport Bounds, bounds
from mcpinput._core.scan cimport (
    MI_CONTROL, MI_END, MI_ESCAPE, MI_EXPONENT, MI_NUMBER_CHARS, MI_NUMBER_DIGITS, MI_NUMBER_EXP, MI_NUMBER_SIZE,
    MI_NUMBER_TEXT, MI_NUMBER_WORDS, MI_OK, MI_READING, MI_SHORT_PLACES, MI_SURROGATE, MI_UTF8, MI_WRITING, mi_decode,
    mi_digits_to_words, mi_number, mi_rules, mi_same, mi_scan_number, mi_scan_string, mi_short_number, mi_skip_plain,
    mi_status, mi_string, mi_unescape, mi_word
)
from mcpinput._core.write cimport mi_canonical_number

import decimal
import sys

from mcpinput.errors import JsonErrorKind, JsonParseError

cdef object DEFAULT
from mcpinput._core.limits import DEFAULT


cdef extern from "Python.h":
    void Py_INCREF(PyObject *value) noexcept
    void Py_DECREF(PyObject *value) noexcept
    void Py_XDECREF(PyObject *value) noexcept
    PyObject *Py_True
    PyObject *Py_False
    PyObject *Py_None
    # Cython's own declaration takes no notice of a failure, after which the memory would be read as it is.
    int PyBuffer_ToContiguous(void *buf, Py_buffer *view, Py_ssize_t size, char order) except -1

    int PyGC_Disable() noexcept
    int PyGC_Enable() noexcept
    void *PyEval_SaveThread() noexcept
    void PyEval_RestoreThread(void *state) noexcept

    int PyDict_SetItem(PyObject *mapping, PyObject *key, PyObject *value) noexcept
    Py_ssize_t PyDict_GET_SIZE(PyObject *mapping) noexcept
    PyObject *PyList_New(Py_ssize_t size) except NULL
    void PyList_SET_ITEM(PyObject *array, Py_ssize_t index, PyObject *value) noexcept

    object PyLong_FromLongLong(long long value)
    PyObject *new_long "PyLong_FromLongLong"(long long value) except NULL
    PyObject *multiply "PyNumber_Multiply"(PyObject *a, PyObject *b) noexcept

    PyObject *PyUnicode_New(Py_ssize_t size, uint32_t maximum) except NULL
    PyObject *PyUnicode_FromOrdinal(int character) except NULL
    void *PyUnicode_DATA(PyObject *text) noexcept
    uint8_t *PyUnicode_1BYTE_DATA(PyObject *text) noexcept
    bint PyUnicode_Check(object value) noexcept
    PyTypeObject *Py_TYPE(object value) noexcept


cdef extern from *:
    """
    /* Private, but declared for extensions up to CPython 3.13. */
    #if PY_VERSION_HEX < 0x030E0000
    #define mi_new_dict(members) _PyDict_NewPresized(members)
    #else
    #define mi_new_dict(members) PyDict_New()
    #endif
    """
    PyObject *mi_new_dict(Py_ssize_t members) except NULL


cdef enum:
    DEPTH_CEILING = 256      # Limits.depth is never above: sizes the frames
    INT64_DIGITS = 18        # any number of so many digits fits an int64
    KEPT_BITS = 9
    FOLLOWING = 4            # a power of two
    KEPT_TEXT = 48
    KEPT_NAME_BYTES = KEPT_TEXT - 2  # the longest name that every request carries has 42
    PRESIZED = 32            # members for which room is made in advance at most
    FIRST_ITEMS = 64
    LONG_TEXT = 1024 * 1024  # a text longer than this gives up the interpreter lock every TURN bytes
    TURN = 256 * 1024

cdef object int_from_bytes = int.from_bytes
cdef object Decimal = decimal.Decimal
cdef object Context = decimal.Context
cdef object PREC = Context.prec
cdef object EMAX = Context.Emax
cdef object EMIN = Context.Emin
cdef object CLAMP = Context.clamp
cdef object get_context = decimal.getcontext
# Powers of ten: in a context that is wide enough (scales_exactly) an int of up to 18 digits times one of them is exact.
cdef tuple SCALES = tuple(Decimal((0, (1,), -places)) for places in range(MI_SHORT_PLACES + 1))
cdef PyObject *scales[MI_SHORT_PLACES + 1]
for _places in range(MI_SHORT_PLACES + 1):
    scales[_places] = <PyObject *>SCALES[_places]


# Short member names come again and again: one str for each of the last ones seen, with its hash. Values are never kept.
# Names also come in the same order as the last time, so each kept name knows which one came next: by the depth of the
# object in which that was, since a name like "name" comes in many places.
# The interpreter lock guards all this; nothing else of this module is shared between calls.
cdef struct KeptName:
    PyObject *text           # owned; NULL in a slot without a name
    KeptName *following[FOLLOWING]
    size_t size
    uint8_t quoted[KEPT_TEXT]  # the name, a closing quote and a colon


cdef KeptName first_name  # stands before the first name of a text
cdef KeptName[1 << KEPT_BITS] kept_names
for _depth in range(FOLLOWING):
    first_name.following[_depth] = &kept_names[0]
    for _slot in range(1 << KEPT_BITS):
        kept_names[_slot].following[_depth] = &kept_names[0]


# ---- refusals ----

cdef object text_error(object kind, str what, size_t at, object limit=None):
    return JsonParseError(kind, f"{what} at byte {at}", at, limit)


cdef object token_error(mi_status status, mi_rules rules, size_t at):
    if status == MI_END:
        return text_error(JsonErrorKind.TRUNCATED, "the text ends before its value does,", at)
    if status == MI_CONTROL:
        return text_error(JsonErrorKind.ENCODING, "control character in a string, where it must be escaped,", at)
    if status == MI_ESCAPE:
        return text_error(JsonErrorKind.ESCAPE, "not a JSON escape", at)
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
    return text_error(JsonErrorKind.SYNTAX, "not a JSON number", at)


cdef object depth_error(size_t limit, size_t at):
    return text_error(JsonErrorKind.DEPTH, f"over the depth limit of {limit} arrays and objects", at, limit)


cdef object nodes_error(size_t limit, size_t at):
    return text_error(JsonErrorKind.NODES, f"over the node limit of {limit} values", at, limit)


cdef object string_error(size_t limit, size_t at):
    return text_error(JsonErrorKind.STRING, f"over the string limit of {limit} bytes", at, limit)


# ---- the text and its parts ----

# An open container.
cdef struct Frame:
    PyObject *members  # the dict of an object, owned; NULL for an array
    PyObject *name     # of the member whose value is being read, owned; or NULL
    const uint8_t *name_at
    Py_ssize_t count   # members read
    Py_ssize_t last    # members of the object that was closed last at this depth
    size_t first       # where the items of an array begin on the value stack


# Whether short decimals can be made by multiplication.
cdef enum Scaling:
    NOT_KNOWN
    EXACT
    INEXACT


cdef struct Reader:
    const uint8_t *start
    const uint8_t *end       # a NUL stands there, as behind every bytes object: no look at one byte goes past it
    mi_rules rules
    size_t max_depth
    size_t max_nodes
    size_t max_string
    PyObject **items         # the value stack: finished items of open arrays, owned
    size_t item_count
    size_t item_capacity
    size_t depth
    size_t deepest           # of the frames that have been in use
    Scaling scaling
    KeptName *kept           # the last name read, of those that are kept
    int collecting           # garbage collection was on
    PyObject *first_items[FIRST_ITEMS]
    Frame frames[DEPTH_CEILING + 1]  # by depth: the first stands for no container


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


cdef inline const uint8_t *skip_space(const uint8_t *p) noexcept:
    while p[0] <= 32 and (p[0] == 32 or p[0] == 10 or p[0] == 13 or p[0] == 9):
        p += 1
    return p


# ---- strings ----

cdef inline void copy_short(uint8_t *to, const uint8_t *p, size_t size) noexcept:
    """memcpy of at least one byte, PERF: without a call up to 16."""
    if size > 16:
        memcpy(to, p, size)
    elif size >= 8:
        memcpy(to, p, 8)
        memcpy(to + size - 8, p + size - 8, 8)
    elif size >= 4:
        memcpy(to, p, 4)
        memcpy(to + size - 4, p + size - 4, 4)
    else:
        to[0] = p[0]
        to[size >> 1] = p[size >> 1]
        to[size - 1] = p[size - 1]


cdef inline PyObject *ascii_str(const uint8_t *text, size_t size) except NULL:
    cdef PyObject *result
    if size <= 1:  # the empty str and those of one character are there already
        return PyUnicode_FromOrdinal(text[0]) if size else PyUnicode_New(0, 127)
    result = PyUnicode_New(size, 127)
    copy_short(PyUnicode_1BYTE_DATA(result), text, size)
    return result


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


cdef inline PyObject *expected_name(Reader *r, const uint8_t *name) noexcept:
    """The name and its colon where they are those that came here last time; else NULL."""
    cdef KeptName *kept = r.kept.following[r.depth & (FOLLOWING - 1)]
    if kept.text == NULL or kept.size > r.max_string or not mi_same(name, r.end, kept.quoted, kept.size + 2):
        return NULL
    r.kept = kept
    Py_INCREF(kept.text)
    return kept.text


cdef PyObject *kept_name(Reader *r, const uint8_t *name, size_t size) except NULL:
    """PERF: a name that is kept needs no str and, what costs more, no hash: small texts take 1.4 times as long without.
    """
    cdef uint64_t head = load(name, size)
    cdef uint64_t tail = load(name + size - 8, 8) if size > 8 else 0
    cdef uint64_t mixed = (head + size) * <uint64_t>0x9E3779B97F4A7C15 ^ tail * <uint64_t>0xBF58476D1CE4E5B9
    cdef KeptName *kept = &kept_names[(mixed ^ mixed >> 29) * <uint64_t>0x94D049BB133111EB >> (64 - KEPT_BITS)]
    cdef PyObject *text = kept.text
    if text == NULL or kept.size != size or memcmp(kept.quoted, name, size) != 0:
        text = ascii_str(name, size)
        Py_XDECREF(kept.text)
        kept.text = text
        kept.size = size
        memcpy(kept.quoted, name, size)
        memcpy(kept.quoted + size, b'":', 2)
    r.kept.following[r.depth & (FOLLOWING - 1)] = kept
    r.kept = kept
    Py_INCREF(text)
    return text


cdef inline PyObject *read_string(Reader *r, const uint8_t **position, bint is_name) except NULL:
    """The string whose opening quote *position points to; moves it past the closing quote."""
    cdef const uint8_t *p = position[0] + 1
    cdef const uint8_t *stop = mi_skip_plain(p, r.end)
    cdef size_t size = stop - p
    if stop[0] != 34 or size > r.max_string:
        return read_any_string(r, position)
    position[0] = stop + 1
    if is_name and size <= KEPT_NAME_BYTES:
        return kept_name(r, p, size)
    return ascii_str(p, size)


cdef PyObject *read_any_string(Reader *r, const uint8_t **position) except NULL:
    """read_string with every check, for every string."""
    cdef mi_string found
    cdef const uint8_t *p = position[0] + 1
    cdef mi_status status = mi_scan_string(p, r.end, &found)
    cdef PyObject *text
    cdef uint8_t *value
    if status != MI_OK:
        raise token_error(status, r.rules, found.at - r.start)
    if found.length > r.max_string:
        raise string_error(r.max_string, position[0] - r.start)
    position[0] = found.at + 1
    if not found.escaped:
        return decoded(p, found.at, &found)
    if found.lead == 0:
        text = PyUnicode_New(found.length, 127)
        mi_unescape(p, found.at, PyUnicode_1BYTE_DATA(text))
        return text
    value = <uint8_t *>PyMem_RawMalloc(found.length)
    if value == NULL:
        raise MemoryError
    try:
        mi_unescape(p, found.at, value)
        return decoded(value, value + found.length, &found)
    finally:
        PyMem_RawFree(value)


cdef PyObject *decoded(const uint8_t *p, const uint8_t *end, const mi_string *found) except NULL:
    """The str of checked UTF-8. The lead byte says in how many bytes its widest character is stored."""
    cdef uint32_t maximum = 0xFF if found.lead <= 0xC3 else 0xFFFF if found.lead <= 0xEF else 0x10FFFF
    cdef PyObject *text = PyUnicode_New(found.characters, maximum)
    mi_decode(p, end, found.lead, PyUnicode_DATA(text))
    return text


# ---- numbers ----

cdef object digits_to_int(const uint8_t *digits, uint32_t count):
    """The int of at most MI_NUMBER_CHARS decimal digits, whatever sys.set_int_max_str_digits says."""
    cdef mi_word words[MI_NUMBER_WORDS]
    cdef long long value = 0
    cdef uint32_t i
    cdef size_t used
    if count <= INT64_DIGITS:
        for i in range(count):
            value = value * 10 + (digits[i] - 48)
        return PyLong_FromLongLong(value)
    used = mi_digits_to_words(digits, count, words)
    return int_from_bytes((<char *>words)[:used * sizeof(mi_word)], sys.byteorder)


cdef object new_decimal(const uint8_t *text, size_t size):
    """Decimal(text), which is exact whatever the context says."""
    # PERF: 159 ns a number and not the 185 of a call of the type, which has no vectorcall.
    cdef tuple arguments = ((<char *>text)[:size].decode("ascii"),)
    return (<PyTypeObject *>Decimal).tp_new(Decimal, <PyObject *>arguments, NULL)


cdef object exact_value(const mi_number *number, const uint8_t *start):
    """An int for an integer token, else a Decimal with the scale as written; no sign of zero."""
    cdef object value
    if number.is_integer:
        value = digits_to_int(number.integer, number.integer_digits)
        return -value if number.negative else value
    if number.negative and number.is_zero:
        start += 1
    return new_decimal(start, number.at - start)


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
    return new_decimal(text, mi_canonical_number(number, text))


cdef PyObject *read_any_number(Reader *r, const uint8_t **position) except NULL:
    """read_number with every check, for every number."""
    cdef mi_number found
    cdef const uint8_t *start = position[0]
    cdef mi_status status = mi_scan_number(start, r.end, r.rules, &found)
    cdef object value
    if status != MI_OK:
        raise token_error(status, r.rules, found.at - r.start)
    position[0] = found.at
    value = exact_value(&found, start) if r.rules == MI_READING else canonical_value(&found)
    Py_INCREF(<PyObject *>value)
    return <PyObject *>value


cdef PyObject *scaled(int64_t digits, size_t places) except NULL:
    """The Decimal of so many digits with so many of them behind the point."""
    cdef PyObject *number = new_long(digits)
    cdef PyObject *product = multiply(scales[places], number)
    Py_DECREF(number)
    return product


cdef Py_ssize_t context_number(object getter, object context) except? -1:
    # PERF: an attribute of a context is looked for by comparing names, which takes ten times as long.
    return Py_TYPE(getter).tp_descr_get(getter, context, Context)


cdef Scaling scaling() except NOT_KNOWN:
    """Whether the thread's decimal context multiplies by SCALES exactly, without rounding and without a signal. Nearly
    every one does. A subclass might say what is not so."""
    cdef object context = get_context()
    if (
        type(context) is Context and context_number(PREC, context) >= 20 and context_number(EMAX, context) >= 20
        and context_number(EMIN, context) <= -20 and context_number(CLAMP, context) == 0
    ):
        return EXACT
    return INEXACT


cdef inline PyObject *read_number(Reader *r, const uint8_t **position) except NULL:
    """PERF: most numbers have few digits and no exponent. They are read in one go, and where there is a point, an int
    and a multiplication make a Decimal in 130 ns, of which the text would take 160."""
    cdef const uint8_t *start = position[0]
    cdef const uint8_t *first = start + (start[0] == 45)
    cdef int64_t digits = 0
    cdef int places = 0
    cdef const uint8_t *p = mi_short_number(first, r.end, &digits, &places)
    if p == NULL or (places and p[-1] == 48 and r.rules == MI_WRITING):
        return read_any_number(r, position)
    if places:
        if r.scaling == NOT_KNOWN:
            r.scaling = scaling()
        if r.scaling == INEXACT:
            return read_any_number(r, position)
    position[0] = p
    if first != start:
        digits = -digits
    return scaled(digits, places) if places else new_long(digits)


# ---- the document ----

cdef int push_item(Reader *r, PyObject *value) except -1:
    """Takes the value over, also where it fails."""
    if r.item_count == r.item_capacity and not grow_items(r):
        Py_DECREF(value)
        raise MemoryError
    r.items[r.item_count] = value
    r.item_count += 1
    return 0


cdef bint grow_items(Reader *r) noexcept:
    cdef size_t capacity = r.item_capacity * 2
    cdef void *items = NULL if r.items == r.first_items else r.items
    items = PyMem_RawRealloc(items, capacity * sizeof(PyObject *))
    if items == NULL:
        return False
    if r.items == r.first_items:
        memcpy(items, r.first_items, r.item_count * sizeof(PyObject *))
    r.items = <PyObject **>items
    r.item_capacity = capacity
    return True


cdef PyObject *take_items(Reader *r, size_t first) except NULL:
    """A list of the items from index `first`, which it takes from the value stack."""
    cdef Py_ssize_t count = r.item_count - first
    cdef PyObject *array = PyList_New(count)
    cdef Py_ssize_t i
    for i in range(count):
        PyList_SET_ITEM(array, i, r.items[first + i])
    r.item_count = first
    return array


cdef inline Frame *open_container(Reader *r, const uint8_t *at) except NULL:
    cdef Frame *frame
    if r.depth == r.max_depth:
        raise depth_error(r.max_depth, at - r.start)
    r.depth += 1
    frame = &r.frames[r.depth]
    if r.depth > r.deepest:
        r.deepest = r.depth
        frame.last = 0
    frame.members = NULL
    frame.name = NULL
    frame.count = 0
    frame.first = r.item_count
    return frame


cdef inline PyObject *new_members(const Frame *frame) except NULL:
    """PERF: objects of one array often have the same members, and a dict made at its size is not made twice."""
    return mi_new_dict(frame.last if frame.last <= PRESIZED else PRESIZED)


cdef inline int read_name(Reader *r, Frame *frame, const uint8_t **position) except -1:
    """A member name and its colon, up to the value. *position points at what should be the name's quote."""
    cdef const uint8_t *p = position[0]
    if p[0] == 34:
        frame.name = expected_name(r, p + 1)
        if frame.name != NULL:
            frame.name_at = p
            position[0] = skip_space(p + r.kept.size + 3)
            return 0
    return read_any_name(r, frame, position)


cdef int read_any_name(Reader *r, Frame *frame, const uint8_t **position) except -1:
    """read_name for every name."""
    cdef const uint8_t *p = position[0]
    if p[0] != 34:
        raise expected(r, p, "expected a member name in quotes")
    frame.name_at = p
    frame.name = read_string(r, &p, True)
    p = skip_space(p)
    if p[0] != 58:
        raise expected(r, p, "expected a colon")
    position[0] = skip_space(p + 1)
    return 0


cdef inline int add_member(Reader *r, Frame *frame, PyObject *value) except -1:
    """Takes the value over, also where it fails."""
    cdef int status = PyDict_SetItem(frame.members, frame.name, value)
    Py_DECREF(value)
    Py_DECREF(frame.name)
    frame.name = NULL
    if status < 0:
        return status
    frame.count += 1
    if PyDict_GET_SIZE(frame.members) != frame.count:
        raise text_error(JsonErrorKind.DUPLICATE, "an object has a second member of one name", frame.name_at - r.start)
    return 0


cdef object expected(Reader *r, const uint8_t *p, str what):
    """The error where something else, or nothing, stands at p."""
    if p == r.end:
        return token_error(MI_END, r.rules, p - r.start)
    return text_error(JsonErrorKind.SYNTAX, what, p - r.start)


cdef PyObject *read_literal(Reader *r, const uint8_t **position) except NULL:
    cdef const uint8_t *p = position[0]
    cdef const char *word
    cdef size_t size
    cdef size_t left = r.end - p
    cdef PyObject *value
    if p[0] == 116:
        word, value = b"true", Py_True
    elif p[0] == 102:
        word, value = b"false", Py_False
    elif p[0] == 110:
        word, value = b"null", Py_None
    else:
        raise expected(r, p, "expected a value")
    size = strlen(word)
    if memcmp(p, word, size if size < left else left) != 0:
        raise text_error(JsonErrorKind.SYNTAX, "expected a value", p - r.start)
    if left < size:
        raise token_error(MI_END, r.rules, left + (p - r.start))
    position[0] = p + size
    Py_INCREF(value)
    return value


cdef int give_way(Reader *r) except -1:
    """Lets other threads run. The collector is as they left it meanwhile."""
    if r.collecting:
        PyGC_Enable()
    PyEval_RestoreThread(PyEval_SaveThread())
    r.collecting = PyGC_Disable()
    r.scaling = NOT_KNOWN  # the context could be one that threads share
    return 0


cdef PyObject *read_document(Reader *r) except NULL:
    cdef const uint8_t *p = skip_space(r.start)
    cdef const uint8_t *turn = r.start + TURN if r.end - r.start > LONG_TEXT else r.end + 1
    cdef size_t left = r.max_nodes
    cdef Frame *frame = &r.frames[0]
    cdef PyObject *value
    if r.end - p >= 3 and memcmp(p, b"\xef\xbb\xbf", 3) == 0:
        raise text_error(JsonErrorKind.SYNTAX, "byte order mark, which JSON is sent without,", p - r.start)
    while True:
        # A value begins at p.
        if left == 0:
            raise nodes_error(r.max_nodes, p - r.start) if p != r.end else expected(r, p, "")
        left -= 1
        if p >= turn:
            give_way(r)
            turn = p + TURN
        if p[0] == 34:
            value = read_string(r, &p, False)
        elif p[0] == 123:
            frame = open_container(r, p)
            value = new_members(frame)
            p = skip_space(p + 1)
            if p[0] != 125:
                frame.members = value
                read_name(r, frame, &p)
                continue
            p += 1
            r.depth -= 1
            frame -= 1
        elif p[0] == 91:
            frame = open_container(r, p)
            p = skip_space(p + 1)
            if p[0] != 93:
                continue
            value = PyList_New(0)
            p += 1
            r.depth -= 1
            frame -= 1
        elif p[0] == 45 or <uint8_t>(p[0] - 48) <= 9:
            value = read_number(r, &p)
        else:
            value = read_literal(r, &p)

        # A value has ended before p; it may be the last of its container, and that the last of its own.
        while True:
            p = skip_space(p)
            if r.depth == 0:
                if p != r.end:
                    Py_DECREF(value)
                    raise text_error(JsonErrorKind.SYNTAX, "something stands after the value", p - r.start)
                return value
            if frame.members == NULL:
                push_item(r, value)
                if p[0] == 44:
                    p = skip_space(p + 1)
                    break
                if p[0] != 93:
                    raise expected(r, p, "expected a comma or the end of the array")
                value = take_items(r, frame.first)
            else:
                add_member(r, frame, value)
                if p[0] == 44:
                    p = skip_space(p + 1)
                    read_name(r, frame, &p)
                    break
                if p[0] != 125:
                    raise expected(r, p, "expected a comma or the end of the object")
                value = frame.members
                frame.last = frame.count
            p += 1
            r.depth -= 1
            frame -= 1


cdef object read(object data, Bounds limits, mi_rules rules):
    cdef bytes text = text_bytes(data, limits.max_body)
    cdef Reader r
    cdef PyObject *value
    cdef object result
    cdef size_t i
    r.start = <const uint8_t *>PyBytes_AS_STRING(text)
    r.end = r.start + PyBytes_GET_SIZE(text)
    r.rules = rules
    r.max_depth = limits.max_depth
    r.max_nodes = limits.max_nodes
    r.max_string = limits.max_string
    r.items = r.first_items
    r.item_count = 0
    r.item_capacity = FIRST_ITEMS
    r.depth = 0
    r.deepest = 0
    r.scaling = NOT_KNOWN
    r.kept = &first_name
    # PERF: CPython 3.11 collects inside C code, again and again over the growing tree in which no cycle can be: rows
    # parse up to 2.6 times as fast without. From 3.12 on it never does. Collection is off only while the lock is held.
    r.collecting = PyGC_Disable()
    try:
        value = read_document(&r)
        result = <object>value
        Py_DECREF(value)
        return result
    finally:
        if r.collecting:
            PyGC_Enable()
        for i in range(r.item_count):
            Py_DECREF(r.items[i])
        for i in range(1, r.depth + 1):
            Py_XDECREF(r.frames[i].members)
            Py_XDECREF(r.frames[i].name)
        if r.items != r.first_items:
            PyMem_RawFree(r.items)


def parse(data, *, limits=DEFAULT):
    """Reads one JSON text (RFC 8259, strictly).

    Args:
        data: UTF-8 bytes, in any object with the buffer protocol.
        limits: ``depth``, ``nodes``, ``string_bytes`` and ``body_bytes`` apply.

    Returns:
        A tree of dict, list, str, int, :class:`decimal.Decimal`, bool and None. An integer token becomes an int, every
        other number a Decimal with its scale kept.

    Raises:
        JsonParseError: Not strict JSON, or over a limit; says what, where, and which limit.
        TypeError: ``data`` is a str or has no buffer.
    """
    return read(data, bounds(limits), MI_READING)


def parse_state(data, *, limits=DEFAULT):
    """Reads canonical text by the writing limits. An integral number whose plain text, sign included, has at most 1,024
    characters becomes an int, any other the canonical Decimal. Raises JsonParseError."""
    return read(data, bounds(limits), MI_WRITING)
