"""Canonical form v1 of trees and numbers.

Rules

- RFC 8785 in everything but numbers: no white space, members sorted by UTF-16 code units, its string escapes, UTF-8
  otherwise. A number is its exact value with trailing zeros stripped, in the text form of ``decimal.Decimal``. So it is
  not JCS, which rounds numbers to doubles.
- Which values are taken, and what stands for an enum member, a dataclass or a Struct, is decided in dump.pyx. Floats
  are refused unless asked for: Python does not call ``0.1`` equal to ``Decimal("0.1")``.
- The members of an object, and the items of an array, are held while they are written: code of the application that
  runs meanwhile (an enum's value, a field of a dataclass) cannot take them away.
- Text goes to one buffer and leaves it when the whole value has been written.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_Items
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject_TypeCheck, PyTypeObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_FromObject
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t

from mcpinput._core.buf cimport BUF_OK, Buf, buf_free, buf_init, buf_put
from mcpinput._core.dump cimport number_text, output_error, plain_value, put_string, too_deep, too_many, value_error
from mcpinput._core.scan cimport MI_NUMBER_TEXT, MI_OK, MI_WRITING, mi_canonical_number, mi_number, mi_scan_number

from operator import itemgetter

from mcpinput.errors import JsonErrorKind, JsonTypeError


cdef extern from "Python.h":
    int PyUnicode_CompareWithASCIIString(object text, const char *ascii) noexcept
    unsigned int PyUnicode_MAX_CHAR_VALUE(object text) noexcept
    PyTypeObject *Py_TYPE(object value) noexcept
    bint PyUnicode_Check(object value) noexcept
    bint PyLong_Check(object value) noexcept
    bint PyFloat_Check(object value) noexcept
    bint PyDict_Check(object value) noexcept
    bint PyList_Check(object value) noexcept
    bint PyTuple_Check(object value) noexcept
    object PyType_GetName(PyTypeObject *kind)


cdef object Decimal
from decimal import Decimal

cdef enum:
    DEPTH_CEILING = 256  # of Limits.depth; bounds the recursion of the writer
    FIRST_BYTES = 4096

cdef object NAME = itemgetter(0)


cdef struct Writer:
    Buf out
    size_t depth
    size_t max_depth
    size_t nodes
    size_t max_nodes
    size_t max_string
    bint floats
    uint8_t number[MI_NUMBER_TEXT]  # here, and not in a frame of the recursion
    uint8_t canonical[MI_NUMBER_TEXT]


cdef Py_ssize_t canonical_text(object number, uint8_t *text, uint8_t *out) except -1:
    """Canonical text of an int (no bool), a Decimal or a float, into MI_NUMBER_TEXT bytes; gives its length. `text` has
    as much room, for the text before."""
    cdef mi_number found
    cdef Py_ssize_t length = number_text(number, text)
    if mi_scan_number(text, text + length, MI_WRITING, &found) != MI_OK:
        raise AssertionError("the text of a number within the writing limits is outside them")
    return mi_canonical_number(&found, out)


cdef int put(Writer *w, const void *text, size_t size) except -1:
    cdef int status = buf_put(&w.out, text, size)
    if status != BUF_OK:
        raise output_error(&w.out, status)
    return 0


cdef int enter(Writer *w) except -1:
    if w.depth == w.max_depth:
        raise too_deep(w.max_depth)
    w.depth += 1
    return 0


cdef int put_number(Writer *w, object number) except -1:
    return put(w, w.canonical, canonical_text(number, w.number, w.canonical))


cdef object utf16_units(tuple member):
    """Sort key where characters above U+FFFF come up: UTF-16 spells them with units below U+E000."""
    return (<str>member[0]).encode("utf-16-be", "surrogatepass")


cdef bint is_left_out(object name, Place place) noexcept:
    if place == IN_PARAMS:
        return (
            PyUnicode_CompareWithASCIIString(name, b"inputResponses") == 0
            or PyUnicode_CompareWithASCIIString(name, b"requestState") == 0
        )
    return place == IN_META and (
        PyUnicode_CompareWithASCIIString(name, b"progressToken") == 0
        or PyUnicode_CompareWithASCIIString(name, b"traceparent") == 0
        or PyUnicode_CompareWithASCIIString(name, b"tracestate") == 0
        or PyUnicode_CompareWithASCIIString(name, b"baggage") == 0
    )


cdef list sorted_members(object mapping, Place place):
    """(name, value) of each member that counts, in canonical order. The names are plain str."""
    cdef list members = PyDict_Items(mapping)
    cdef list kept = []
    cdef bint plain = True  # code points have the same order as UTF-16 code units
    cdef bint only_str = True
    cdef tuple member
    cdef object name
    for member in members:
        name = member[0]
        if type(name) is not str:
            if not PyUnicode_Check(name):
                raise JsonTypeError(
                    JsonErrorKind.KEY,
                    f"a member name is of type {PyType_GetName(Py_TYPE(name))}: JSON has str only",
                )
            only_str = False
            name = PyUnicode_FromObject(name)
            member = (name, member[1])
        if place != ANYWHERE and is_left_out(name, place):
            continue
        plain = plain and PyUnicode_MAX_CHAR_VALUE(name) <= 0xFFFF
        kept.append(member)
    kept.sort(key=NAME if plain else utf16_units)
    if not only_str:
        # A subclass of str may call two names different that are the same text.
        for i in range(1, len(kept)):
            if kept[i - 1][0] == kept[i][0]:
                raise value_error(JsonErrorKind.DUPLICATE, "two names of one object are the same text")
    return kept


cdef int put_object(Writer *w, list members, Place place) except -1:
    cdef bint first = True
    cdef tuple member
    cdef object value
    cdef list inner
    enter(w)
    put(w, b"{", 1)
    for member in members:
        value = member[1]
        inner = None
        if place == IN_PARAMS and PyUnicode_CompareWithASCIIString(member[0], b"_meta") == 0:
            value = resolved(value)
            if isinstance(value, dict):
                inner = sorted_members(value, IN_META)
                if not inner:
                    continue
        if not first:
            put(w, b",", 1)
        first = False
        put_string(&w.out, member[0], w.max_string)
        put(w, b":", 1)
        if inner is None:
            put_value(w, value, ANYWHERE)
        else:
            count_node(w)
            put_object(w, inner, IN_META)
    put(w, b"}", 1)
    w.depth -= 1
    return 0


cdef int put_list(Writer *w, object array) except -1:
    cdef Py_ssize_t i = 0
    enter(w)
    put(w, b"[", 1)
    while i < PyList_GET_SIZE(array):
        if i:
            put(w, b",", 1)
        put_value(w, <object>PyList_GET_ITEM(array, i), ANYWHERE)
        i += 1
    put(w, b"]", 1)
    w.depth -= 1
    return 0


cdef int put_tuple(Writer *w, object array) except -1:
    cdef Py_ssize_t i
    enter(w)
    put(w, b"[", 1)
    for i in range(PyTuple_GET_SIZE(array)):
        if i:
            put(w, b",", 1)
        put_value(w, <object>PyTuple_GET_ITEM(array, i), ANYWHERE)
    put(w, b"]", 1)
    w.depth -= 1
    return 0


cdef int count_node(Writer *w) except -1:
    if w.nodes == w.max_nodes:
        raise too_many(w.max_nodes)
    w.nodes += 1
    return 0


cdef object resolved(object value):
    """The value, or the plain one that stands for it."""
    if (
        value is None or PyUnicode_Check(value) or PyLong_Check(value) or PyDict_Check(value) or PyList_Check(value)
        or PyTuple_Check(value) or PyFloat_Check(value) or PyObject_TypeCheck(value, <PyTypeObject *>Decimal)
    ):
        return value
    return plain_value(value)


cdef int put_value(Writer *w, object value, Place place) except -1:
    count_node(w)
    value = resolved(value)
    if PyUnicode_Check(value):
        return put_string(&w.out, value, w.max_string)
    if value is None:
        return put(w, b"null", 4)
    if value is True:
        return put(w, b"true", 4)
    if value is False:
        return put(w, b"false", 5)
    if PyDict_Check(value):
        return put_object(w, sorted_members(value, place), place)
    if PyList_Check(value):
        return put_list(w, value)
    if PyTuple_Check(value):
        return put_tuple(w, value)
    if PyFloat_Check(value) and not w.floats:
        raise JsonTypeError(
            JsonErrorKind.TYPE,
            'a float has no canonical form of its own: give a Decimal (canonical_bytes also takes floats="repr")',
        )
    return put_number(w, value)


cdef bytes canonical_tree(
    object value, size_t max_depth, size_t max_nodes, size_t max_string, size_t max_size, bint floats, Place place
):
    cdef uint8_t first[FIRST_BYTES]
    cdef Writer w
    w.depth = 0
    w.max_depth = max_depth if max_depth < DEPTH_CEILING else DEPTH_CEILING
    w.nodes = 0
    w.max_nodes = max_nodes
    w.max_string = max_string
    w.floats = floats
    buf_init(&w.out, first, FIRST_BYTES, max_size)
    try:
        put_value(&w, value, place)
        return PyBytes_FromStringAndSize(<char *>w.out.data, w.out.size)
    finally:
        buf_free(&w.out)


def canonical_bytes(value, size_t max_depth, size_t max_nodes, size_t max_string, size_t max_size, bint floats):
    return canonical_tree(value, max_depth, max_nodes, max_string, max_size, floats, ANYWHERE)


def canonical_number(x):
    cdef uint8_t text[MI_NUMBER_TEXT]
    cdef uint8_t out[MI_NUMBER_TEXT]
    if x is True or x is False:
        raise JsonTypeError(JsonErrorKind.TYPE, "a bool is no number")
    return out[:canonical_text(x, text, out)].decode("ascii")
