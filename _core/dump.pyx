"""Checked compact serialise.

Rules

- Values are taken by their C storage: no method that a subclass overrides is called. Only enum members, dataclasses and
  Structs run Python code (plain_value). That code could change the containers being walked, so when it first comes up
  writing starts again, and takes the members of each dict out of it first.
- Text goes to one buffer and leaves it when the whole value has been written.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_CheckExact, PyDict_Items, PyDict_Next
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.mem cimport PyMem_Free
from cpython.object cimport PyObject, PyObject_TypeCheck, PyTypeObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_FromObject
from libc.math cimport isfinite
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memchr, memcpy, memset, strlen

from mcpinput._core.buf cimport (
    BUF_MEMORY, BUF_OK, Buf, buf_end, buf_free, buf_init, buf_need, buf_put, buf_put_byte
)
from mcpinput._core.scan cimport (
    MI_EXPONENT, MI_NUMBER_DIGITS, MI_NUMBER_EXP, MI_NUMBER_SIZE, MI_NUMBER_TEXT, MI_OK, MI_WRITING, mi_copy_verbatim,
    mi_number, mi_put_escaped, mi_scan_number, mi_status
)

import dataclasses
import sys
from collections import OrderedDict
from enum import Enum

from mcpinput.errors import JsonErrorKind, JsonTypeError, JsonWriteError


cdef extern from "Python.h":
    bint PyODict_Check(object value) noexcept
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1

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
    DEPTH_CEILING = 256  # of Limits.depth: bounds the recursion
    HALF_DIGITS = 512    # so many digits convert whatever sys.set_int_max_str_digits says: it is at least 640
    FIRST_BYTES = 4096

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


cdef object output_error(Buf *out, int status):
    if status == BUF_MEMORY:
        return MemoryError()
    return value_error(JsonErrorKind.SIZE, f"the text is over the size limit of {out.limit} bytes", out.limit)


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
            exact = Decimal(text[:size].decode("ascii"))
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
