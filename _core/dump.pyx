"""Checked compact serialise.

Rules

- Values are taken by their C storage: no method that a subclass overrides is called. Only enum members, dataclasses,
  Structs and the order of an OrderedDict run Python code (plain_value, in_own_order).
- That code could change the containers being walked. So a tree is first written as if there were none, with borrowed
  references and the collector, which runs finalizers, held off. When code first comes up, writing starts again: then
  each value is held while it is written, and the members of each dict are taken out of it first.
- Text goes to one buffer and leaves it when the whole value has been written.
"""

from cpython.dict cimport PyDict_Items
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_FromObject
from libc.math cimport isfinite
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, memset, strlen

from mcpinput._core.buf cimport BUF_FULL, BUF_MEMORY, buf_free, buf_grow, buf_init, buf_need, buf_take
from mcpinput._core.limits cimport Bounds, bounds
from mcpinput._core.scan cimport (
    MI_EXPONENT, MI_NUMBER_DIGITS, MI_NUMBER_EXP, MI_NUMBER_SIZE, MI_OK, MI_WRITING, mi_number, mi_scan_number,
    mi_status
)
from mcpinput._core.write cimport (
    mi_canonical_number, mi_copy_plain_number, mi_copy_verbatim, mi_count_digits, mi_put_digits, mi_put_text1,
    mi_put_text2, mi_put_text4
)

import dataclasses
import sys
from collections import OrderedDict
from enum import Enum
from operator import attrgetter

from mcpinput.errors import JsonErrorKind, JsonTypeError, JsonWriteError

cdef object DEFAULT
from mcpinput._core.limits import DEFAULT


cdef extern from "Python.h":
    int PyGC_Disable() noexcept
    int PyGC_Enable() noexcept

    PyObject *Py_None
    PyObject *Py_True
    PyObject *Py_False
    ctypedef struct PyNumberMethods:
        object (*nb_absolute)(object)

    ctypedef struct PyTypeObject:
        PyNumberMethods *tp_as_number
        object (*tp_str)(object)

    PyTypeObject PyUnicode_Type
    PyTypeObject PyDict_Type
    PyTypeObject PyList_Type
    PyTypeObject PyLong_Type
    PyTypeObject *Py_TYPE(PyObject *value) noexcept
    bint PyObject_TypeCheck(PyObject *value, PyTypeObject *kind) noexcept
    bint PyUnicode_Check(PyObject *value) noexcept
    bint PyLong_Check(PyObject *value) noexcept
    bint PyFloat_Check(PyObject *value) noexcept
    bint PyDict_Check(PyObject *value) noexcept
    bint PyList_Check(PyObject *value) noexcept
    bint PyTuple_Check(PyObject *value) noexcept
    bint PyODict_Check(PyObject *value) noexcept
    object PyType_GetName(PyTypeObject *kind)

    long long PyLong_AsLongLongAndOverflow(PyObject *value, int *overflow) noexcept
    double PyFloat_AS_DOUBLE(PyObject *value) noexcept
    enum:
        Py_DTSF_ADD_DOT_0
    char *PyOS_double_to_string(double value, char code, int precision, int flags, int *kind) except NULL
    void PyMem_Free(void *memory) noexcept

    bint PyUnicode_IS_ASCII(PyObject *text) noexcept
    bint PyUnicode_IS_COMPACT_ASCII(PyObject *text) noexcept
    int PyUnicode_KIND(PyObject *text) noexcept
    void *PyUnicode_DATA(PyObject *text) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *text) noexcept
    uint32_t PyUnicode_READ(int kind, void *data, Py_ssize_t index) noexcept

    Py_ssize_t PyList_GET_SIZE(PyObject *array) noexcept
    PyObject *PyList_GET_ITEM(PyObject *array, Py_ssize_t index) noexcept
    Py_ssize_t PyTuple_GET_SIZE(PyObject *array) noexcept
    PyObject *PyTuple_GET_ITEM(PyObject *array, Py_ssize_t index) noexcept
    bint PyDict_Next(PyObject *mapping, Py_ssize_t *position, PyObject **name, PyObject **value) noexcept


cdef object Decimal
from decimal import Decimal

cdef object FIELD_NAME = attrgetter("name")

cdef enum:
    DEPTH_CEILING = 256  # of Limits.depth: bounds the recursion
    HALF_DIGITS = 512    # so many digits convert whatever sys.set_int_max_str_digits says: it is at least 640
    PIECE = 256          # characters of a text that are put at once: SPARE_BYTES has 6 for each, and 8 more

# The casts make these powers of Python ints: powers of C ints would be floats.
cdef object TEN_TO_HALF = 10 ** <object>HALF_DIGITS
cdef object DIGITS_END = 10 ** <object>MI_NUMBER_DIGITS


# ---- refusals ----

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


cdef object long_string_error(size_t limit):
    return value_error(JsonErrorKind.STRING, f"a string is over the string limit of {limit} bytes", limit)


cdef object surrogate_error():
    return value_error(JsonErrorKind.SURROGATE, "a str has a lone surrogate, which is no Unicode text")


cdef object key_error(object name):
    return JsonTypeError(JsonErrorKind.KEY, f"a member name is of type {type_name(name)}: JSON has str only")


cdef object equal_names_error():
    """A subclass of str may call two names different that are the same text."""
    return value_error(JsonErrorKind.DUPLICATE, "two names of one object are the same text")


cdef str type_name(object value):
    return PyType_GetName(Py_TYPE(<PyObject *>value))


# ---- the buffer ----

cdef int grow(Writer *w, size_t size) except -1:
    cdef int status = buf_grow(&w.out, size)
    if status == BUF_MEMORY:
        raise MemoryError
    if status == BUF_FULL:
        raise value_error(
            JsonErrorKind.SIZE, f"the text is over the size limit of {w.out.limit} bytes", w.out.limit
        )
    return 0


cdef inline int need(Writer *w, size_t size) except -1:
    """What is asked for is what will be written at least, so that the limit is met exactly."""
    if size > <size_t>(w.out.end - w.out.to):
        return grow(w, size)
    return 0


cdef int make_room(Writer *w, size_t size) except -1:
    return need(w, size)


cdef inline int put(Writer *w, const void *text, size_t size) except -1:
    need(w, size)
    memcpy(w.out.to, text, size)
    w.out.to += size
    return 0


# ---- text ----

cdef inline int write_text(Writer *w, PyObject *text, uint8_t behind) except -1:
    """put_text; most texts take the few instructions that stand here."""
    cdef size_t length
    cdef uint8_t *to = w.out.to
    if PyUnicode_IS_COMPACT_ASCII(text):
        length = PyUnicode_GET_LENGTH(text)
        if length <= w.max_string and length + 3 <= <size_t>(w.out.end - to):
            to[0] = 34
            if mi_copy_verbatim(<const uint8_t *>PyUnicode_DATA(text), length, to + 1) == length:
                to += length
                to[1] = 34
                to[2] = behind
                w.out.to = to + 3
                return 0
    return put_any_text(w, text, behind)


cdef int put_any_text(Writer *w, PyObject *text, uint8_t behind) except -1:
    cdef const uint8_t *p
    cdef size_t length = PyUnicode_GET_LENGTH(text)
    cdef size_t copied
    if length > w.max_string:
        raise long_string_error(w.max_string)
    if not PyUnicode_IS_ASCII(text):
        return put_wide_text(w, text, behind)
    p = <const uint8_t *>PyUnicode_DATA(text)
    need(w, length + 3)
    w.out.to[0] = 34
    copied = mi_copy_verbatim(p, length, w.out.to + 1)
    w.out.to += 1 + copied
    return put_rest(w, p + copied, 1, length - copied, behind)


cdef int put_text(Writer *w, PyObject *text, uint8_t behind) except -1:
    return write_text(w, text, behind)


cdef int put_wide_text(Writer *w, PyObject *text, uint8_t behind) except -1:
    cdef int kind = PyUnicode_KIND(text)
    cdef size_t length = PyUnicode_GET_LENGTH(text)
    cdef size_t longest = 2 if kind == 1 else 3 if kind == 2 else 4  # bytes of UTF-8
    if length > w.max_string // longest:
        measure_text(text, w.max_string)
    put(w, b'"', 1)
    return put_rest(w, PyUnicode_DATA(text), kind, length, behind)


cdef int measure_text(PyObject *text, size_t max_string) except -1:
    """Refuses what is over the limit once it is UTF-8."""
    cdef int kind = PyUnicode_KIND(text)
    cdef void *data = PyUnicode_DATA(text)
    cdef size_t length = PyUnicode_GET_LENGTH(text)
    cdef size_t size = length
    cdef size_t i
    cdef uint32_t c
    for i in range(length):
        c = PyUnicode_READ(kind, data, i)
        if 0xD800 <= c < 0xE000:
            raise surrogate_error()
        size += (c >= 0x80) + (c >= 0x800) + (c >= 0x10000)
    if size > max_string:
        raise long_string_error(max_string)
    return 0


cdef int put_rest(Writer *w, const void *text, int kind, size_t length, uint8_t behind) except -1:
    """What is left of a text of `kind` bytes a character, its closing quote, and the byte behind it."""
    cdef const uint8_t *p = <const uint8_t *>text
    cdef uint8_t *start
    cdef uint8_t *end
    cdef size_t piece
    cdef int status
    while length:
        piece = length if length < PIECE else PIECE
        # Room for the most that it can be. Where the limit forbids that, its size has to be known first.
        status = buf_need(&w.out, piece * 6 + 8)
        if status == BUF_MEMORY:
            raise MemoryError
        start = &w.spare[0] if status == BUF_FULL else w.out.to
        if kind == 1:
            end = mi_put_text1(p, piece, start)
        elif kind == 2:
            end = mi_put_text2(<const uint16_t *>p, piece, start)
        else:
            end = mi_put_text4(<const uint32_t *>p, piece, start)
        if end == NULL:
            raise surrogate_error()
        if status == BUF_FULL:
            put(w, start, end - start)
        else:
            w.out.to = end
        p += piece * kind
        length -= piece
    need(w, 2)
    w.out.to[0] = 34
    w.out.to[1] = behind
    w.out.to += 2
    return 0


# ---- numbers ----

cdef inline int put_int(Writer *w, PyObject *number) except -1:
    cdef int overflow = 0
    cdef long long value = PyLong_AsLongLongAndOverflow(number, &overflow)
    cdef uint64_t magnitude = <uint64_t>value
    cdef uint32_t count
    cdef uint32_t negative = value < 0
    cdef uint8_t *to
    if overflow:
        return put_number(w, number)
    if negative:
        magnitude = 0 - magnitude
    count = mi_count_digits(magnitude)
    need(w, negative + count + 1)
    to = w.out.to
    to[0] = 45  # a minus; the digits cover it where there is none
    to += negative
    mi_put_digits(magnitude, count, to)
    to[count] = 44
    w.out.to = to + count + 1
    return 0


cdef inline int put_decimal(Writer *w, PyObject *number) except -1:
    # Decimal's own text, whatever a subclass says.
    cdef object text = (<PyTypeObject *>Decimal).tp_str(<object>number)
    cdef const uint8_t *p = <const uint8_t *>PyUnicode_DATA(<PyObject *>text)
    cdef size_t size = PyUnicode_GET_LENGTH(<PyObject *>text)
    cdef uint8_t *to
    # Most are plain: so few characters are within the limits on digits and exponents. A zero may have lost its sign.
    if size <= MI_NUMBER_DIGITS and not (p[0] == 45 and p[1] == 48):
        need(w, size + 1)
        to = w.out.to
        if mi_copy_plain_number(p, size, to):
            to[size] = 44
            w.out.to = to + size + 1
            return 0
    return put_spare(w, decimal_text(text, w.spare))


cdef int put_number(Writer *w, PyObject *number) except -1:
    return put_spare(w, number_text(<object>number, w.spare))


cdef int put_spare(Writer *w, Py_ssize_t size) except -1:
    w.spare[size] = 44
    return put(w, w.spare, size + 1)


cdef Py_ssize_t int_text(object number, uint8_t *out) except -1:
    cdef int overflow = 0
    cdef long long value = PyLong_AsLongLongAndOverflow(<PyObject *>number, &overflow)
    cdef uint64_t magnitude = <uint64_t>value
    cdef uint32_t count
    cdef uint8_t *to = out
    cdef object high
    cdef object low
    if overflow < 0 or (value < 0 and overflow == 0):
        magnitude = 0 - magnitude
        to[0] = 45
        to += 1
    if overflow == 0:
        count = mi_count_digits(magnitude)
        mi_put_digits(magnitude, count, to)
        return to + count - out
    number = PyLong_Type.tp_as_number.nb_absolute(number)  # an exact int, whatever a subclass says
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
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(<PyObject *>text)
    cdef Py_ssize_t zeros = width - size if width > size else 0
    memset(out, 48, zeros)
    memcpy(out + zeros, PyUnicode_DATA(<PyObject *>text), size)
    return zeros + size


cdef Py_ssize_t decimal_text(object text, uint8_t *out) except -1:
    """Of Decimal's text, which is scientific where it would be long, so nothing is expanded."""
    cdef const uint8_t *p = <const uint8_t *>PyUnicode_DATA(<PyObject *>text)
    cdef const uint8_t *end = p + PyUnicode_GET_LENGTH(<PyObject *>text)
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
        raise not_finite_error()
    if found.negative and found.is_zero:
        p += 1
    memcpy(out, p, end - p)
    # The letter follows the thread's context.
    exponent = <uint8_t *>memchr(out, 101, end - p)
    if exponent != NULL:
        exponent[0] = 69
    return end - p


cdef object not_finite_error():
    return value_error(JsonErrorKind.NOT_FINITE, "JSON has no NaN and no infinities")


cdef Py_ssize_t float_text(double number, uint8_t *out) except -1:
    """Of the Decimal of a float's shortest repr."""
    cdef char *text
    cdef size_t size
    cdef mi_number found
    if not isfinite(number):
        raise not_finite_error()
    if number == 0:
        memcpy(out, b"0.0", 3)
        return 3
    text = PyOS_double_to_string(number, b"r", 0, Py_DTSF_ADD_DOT_0, NULL)
    size = strlen(text)
    if memchr(text, 101, size) == NULL:  # plain text is what the Decimal of it says, too
        memcpy(out, text, size)
    else:  # a repr with an exponent has no trailing zeros, so its Decimal's text is the canonical one
        mi_scan_number(<uint8_t *>text, <uint8_t *>text + size, MI_WRITING, &found)
        size = mi_canonical_number(&found, out)
    PyMem_Free(text)
    return size


cdef Py_ssize_t number_text(object number, uint8_t *out) except -1:
    cdef PyObject *value = <PyObject *>number
    if PyLong_Check(value):
        return int_text(number, out)
    if PyObject_TypeCheck(value, <PyTypeObject *>Decimal):
        return decimal_text((<PyTypeObject *>Decimal).tp_str(number), out)
    if PyFloat_Check(value):
        return float_text(PyFloat_AS_DOUBLE(value), out)
    raise JsonTypeError(JsonErrorKind.TYPE, f"a value of type {type_name(number)} is no number")


# ---- values that are none of the plain types ----

class _RunsCode(Exception):
    """Python code of the application comes up in a tree that is first written."""


cdef bint is_plain(PyObject *value) noexcept:
    return (
        value == Py_None or PyUnicode_Check(value) or PyLong_Check(value) or PyFloat_Check(value) or PyDict_Check(value)
        or PyList_Check(value) or PyTuple_Check(value) or PyObject_TypeCheck(value, <PyTypeObject *>Decimal)
    )


cdef object resolved(Writer *w, object value):
    if is_plain(<PyObject *>value):
        return value
    if not w.copying:
        raise _RunsCode
    return plain_value(value)


cdef object plain_value(object value):
    cdef object kind
    cdef object names
    cdef int hops = 0
    # The value of a member may be a member of another enum; a member that is its own value ends here as well.
    while PyObject_TypeCheck(<PyObject *>value, <PyTypeObject *>Enum) and hops < DEPTH_CEILING:
        value = value.value
        hops += 1
        if is_plain(<PyObject *>value):
            return value
    kind = <object>Py_TYPE(<PyObject *>value)
    names = getattr(kind, "__struct_encode_fields__", None)
    if isinstance(names, tuple):
        return struct_value(kind, names, value)
    if isinstance(getattr(kind, "__dataclass_fields__", None), dict):
        names = list(map(FIELD_NAME, dataclasses.fields(kind)))
        return members_set(names, field_values(value, names))
    raise no_form(value)


cdef object no_form(object value):
    return JsonTypeError(
        JsonErrorKind.TYPE,
        f"JSON has no form for type {type_name(value)}: give a dict, list, str, int, Decimal, bool or None",
    )


cdef object struct_value(object kind, tuple names, object value):
    """What msgspec would write of a Struct: an object, its tag first; or an array, where the type says so."""
    cdef object config = getattr(kind, "__struct_config__", None)
    cdef list values
    cdef dict members
    if config is None:
        raise no_form(value)
    values = field_values(value, kind.__struct_fields__)
    if config.array_like:
        return values if config.tag is None else [config.tag, *values]
    members = members_set(names, values)
    return members if config.tag is None else {config.tag_field: config.tag, **members}


cdef list field_values(object value, object names):
    # No comprehension: where a list cannot grow, Cython 3.3 gives up the reference to the new item twice.
    cdef list values = []
    for name in names:
        values.append(field_value(value, name))
    return values


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


# ---- trees ----

cdef int count_node(Writer *w) except -1:
    if w.nodes == w.max_nodes:
        raise too_many(w.max_nodes)
    w.nodes += 1
    return 0


cdef int write(Writer *w, PyObject *value) except -1:
    if w.copying:
        return write_held(w, <object>value)
    return write_borrowed(w, value)


cdef int write_held(Writer *w, object value) except -1:
    cdef object held = value  # a reference of our own: code that runs meanwhile may take it out of its container
    return write_borrowed(w, <PyObject *>held)


cdef int write_borrowed(Writer *w, PyObject *value) except -1:
    cdef PyTypeObject *kind = Py_TYPE(value)
    if w.nodes == w.max_nodes:
        raise too_many(w.max_nodes)
    w.nodes += 1
    if kind == &PyUnicode_Type:
        return write_text(w, value, 44)
    if kind == &PyDict_Type:
        return w.put_object(w, value)
    if kind == &PyList_Type:
        return write_list(w, value)
    if kind == &PyLong_Type:
        return put_int(w, value) if w.put_number == NULL else w.put_number(w, value)
    if kind == <PyTypeObject *>Decimal:
        return put_decimal(w, value) if w.put_number == NULL else w.put_number(w, value)
    if value == Py_None:
        return put(w, b"null,", 5)
    if value == Py_True:
        return put(w, b"true,", 5)
    if value == Py_False:
        return put(w, b"false,", 6)
    return write_other(w, value)


cdef int write_other(Writer *w, PyObject *value) except -1:
    cdef object plain
    if PyUnicode_Check(value):
        return put_any_text(w, value, 44)
    if PyDict_Check(value):
        return w.put_object(w, value)
    if PyList_Check(value):
        return write_list(w, value)
    if PyTuple_Check(value):
        return write_tuple(w, value)
    if PyLong_Check(value) or PyFloat_Check(value) or PyObject_TypeCheck(value, <PyTypeObject *>Decimal):
        return put_number(w, value) if w.put_number == NULL else w.put_number(w, value)
    plain = resolved(w, <object>value)
    w.nodes -= 1  # one value, in another form
    return write(w, <PyObject *>plain)


cdef inline int open_here(Writer *w, uint8_t bracket) except -1:
    if w.depth == w.max_depth:
        raise too_deep(w.max_depth)
    w.depth += 1
    need(w, 1)
    w.out.to[0] = bracket
    w.out.to += 1
    return 0


cdef inline int close_here(Writer *w, uint8_t bracket) except -1:
    w.depth -= 1
    if (w.out.to - 1)[0] == 44:  # else it is the opening bracket
        w.out.to -= 1
    need(w, 2)
    w.out.to[0] = bracket
    w.out.to[1] = 44
    w.out.to += 2
    return 0


cdef int open_container(Writer *w, uint8_t bracket) except -1:
    return open_here(w, bracket)


cdef int close_container(Writer *w, uint8_t bracket) except -1:
    return close_here(w, bracket)


cdef inline int write_item(Writer *w, PyObject *value) except -1:
    """write_borrowed; most values are str."""
    if Py_TYPE(value) == &PyUnicode_Type and w.nodes != w.max_nodes:
        w.nodes += 1
        return write_text(w, value, 44)
    return write_borrowed(w, value)


cdef int write_list(Writer *w, PyObject *array) except -1:
    cdef Py_ssize_t i = 0
    open_here(w, 91)
    if w.copying:
        while i < PyList_GET_SIZE(array):  # which code that runs meanwhile may change
            write(w, PyList_GET_ITEM(array, i))
            i += 1
    else:
        for i in range(PyList_GET_SIZE(array)):
            write_item(w, PyList_GET_ITEM(array, i))
    return close_here(w, 93)


cdef int write_tuple(Writer *w, PyObject *array) except -1:
    cdef Py_ssize_t i
    open_here(w, 91)
    for i in range(PyTuple_GET_SIZE(array)):
        write(w, PyTuple_GET_ITEM(array, i))
    return close_here(w, 93)


cdef int write_object(Writer *w, PyObject *mapping) except -1:
    cdef PyObject *name = NULL
    cdef PyObject *value = NULL
    cdef Py_ssize_t position = 0
    cdef bint only_str = True
    if w.copying or (Py_TYPE(mapping) != &PyDict_Type and PyODict_Check(mapping)):
        return write_members(w, members_of(w, mapping))
    open_here(w, 123)
    while PyDict_Next(mapping, &position, &name, &value):
        if Py_TYPE(name) != &PyUnicode_Type:
            check_name(name)
            only_str = False
        write_text(w, name, 58)
        write_item(w, value)
    if not only_str:
        refuse_equal_names(PyDict_Items(<object>mapping))
    return close_here(w, 125)


cdef list members_of(Writer *w, PyObject *mapping):
    """(name, value) of each member: what is stored, whatever methods a subclass has."""
    if not PyODict_Check(mapping):
        return PyDict_Items(<object>mapping)
    if not w.copying:
        raise _RunsCode  # its names may hash and compare by code
    return PyDict_Items(in_own_order(<object>mapping))


cdef int write_members(Writer *w, list members) except -1:
    cdef object name
    cdef object value
    cdef bint only_str = True
    open_here(w, 123)
    for name, value in members:
        if type(name) is not str:
            check_name(<PyObject *>name)
            only_str = False
        put_text(w, <PyObject *>name, 58)
        write(w, <PyObject *>value)
    if not only_str:
        refuse_equal_names(members)
    return close_here(w, 125)


cdef dict in_own_order(object mapping):
    """A dict of an OrderedDict, whose order is not that of the dict it is built on."""
    cdef dict members = {}
    cdef dict stored = dict(PyDict_Items(mapping))
    try:
        for name in OrderedDict.__iter__(mapping):
            members[name] = stored[name]
    except KeyError:
        members = None
    if members is not None and len(members) == len(stored):
        return members
    raise JsonTypeError(
        JsonErrorKind.TYPE, "the order of an OrderedDict is not that of its members: methods of dict have changed it"
    )


cdef int check_name(PyObject *name) except -1:
    if not PyUnicode_Check(name):
        raise key_error(<object>name)
    return 0


cdef int refuse_equal_names(list members) except -1:
    if len({PyUnicode_FromObject(member[0]) for member in members}) != len(members):
        raise equal_names_error()
    return 0


cdef bytes written(Writer *w, object value, Bounds limits, size_t max_size):
    cdef uint8_t first[FIRST_BYTES]
    cdef bint collecting
    w.max_depth = limits.max_depth
    w.max_nodes = limits.max_nodes
    w.max_string = limits.max_string
    w.depth = 0
    w.nodes = 0
    w.copying = False
    buf_init(&w.out, first, FIRST_BYTES, max_size)
    try:
        collecting = PyGC_Disable()
        try:
            write_borrowed(w, <PyObject *>value)
        except _RunsCode:
            w.copying = True
        finally:
            if collecting:
                PyGC_Enable()
        if w.copying:
            w.out.to = w.out.data
            w.depth = 0
            w.nodes = 0
            write(w, <PyObject *>value)
        return buf_take(&w.out)
    finally:
        buf_free(&w.out)


def dump(value, *, limits=DEFAULT):
    """Writes one value as compact JSON on one line, members in their own order.

    Takes what ``parse`` makes, with subclasses, tuples, finite floats (as the decimal of their shortest repr), enums by
    value, dataclasses and msgspec Structs (as objects).

    Args:
        value: The value. Nothing is written unless all of it can be.
        limits: ``depth``, ``nodes``, ``string_bytes`` and ``response_bytes`` apply.

    Returns:
        UTF-8 bytes, at most ``limits.response_bytes``.

    Raises:
        JsonWriteError: NaN, an infinity, a lone surrogate, a cycle, or over a limit.
        JsonTypeError: A type, or a key, that JSON has no form for.
    """
    cdef Writer w
    cdef Bounds held = bounds(limits)
    w.put_object = write_object
    w.put_number = NULL
    return written(&w, value, held, held.max_response)
