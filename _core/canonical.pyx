"""Canonical form v1 of trees and numbers.

Rules

- RFC 8785 in everything but numbers: no white space, members sorted by UTF-16 code units, its string escapes, UTF-8
  otherwise. A number is its exact value with trailing zeros stripped, in the text form of ``decimal.Decimal``. So it is
  not JCS, which rounds numbers to doubles.
- Trees are walked by dump.pyx, and its rules hold: which values are taken, what stands for an enum member, a dataclass
  or a Struct, who holds what while code of the application runs. Only objects and numbers are written here. Floats are
  refused unless asked for: Python does not call ``0.1`` equal to ``Decimal("0.1")``.
- The members of all objects that are open stand in one array, which moves when it grows: they are known by index.
"""

from cpython.dict cimport PyDict_Items
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from cpython.object cimport PyObject
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from mcpinput._core.dump cimport (
    Writer, close_container, count_node, decimal_text, equal_names_error, key_error, make_room, number_text,
    open_container, put_text, resolved, write, written
)
from mcpinput._core.limits cimport Bounds, bounds
from mcpinput._core.scan cimport MI_NUMBER_DIGITS, MI_NUMBER_TEXT, MI_OK, MI_WRITING, mi_number, mi_scan_number
from mcpinput._core.write cimport (
    mi_canonical_number, mi_copy_plain_number, mi_count_digits, mi_first_bytes, mi_put_digits
)

from mcpinput.errors import JsonErrorKind, JsonTypeError

cdef object DEFAULT
from mcpinput._core.limits import DEFAULT


cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_str)(object)

    PyTypeObject PyUnicode_Type
    PyTypeObject *Py_TYPE(PyObject *value) noexcept
    bint PyObject_TypeCheck(PyObject *value, PyTypeObject *kind) noexcept
    bint PyUnicode_Check(PyObject *value) noexcept
    bint PyLong_Check(PyObject *value) noexcept
    bint PyDict_Check(PyObject *value) noexcept

    long long PyLong_AsLongLongAndOverflow(PyObject *value, int *overflow) noexcept

    int PyUnicode_CompareWithASCIIString(PyObject *text, const char *ascii) noexcept
    bint PyUnicode_IS_ASCII(PyObject *text) noexcept
    int PyUnicode_KIND(PyObject *text) noexcept
    void *PyUnicode_DATA(PyObject *text) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *text) noexcept
    uint32_t PyUnicode_READ(int kind, void *data, Py_ssize_t index) noexcept

    bint PyDict_Next(PyObject *mapping, Py_ssize_t *position, PyObject **name, PyObject **value) noexcept


cdef object Decimal
from decimal import Decimal

cdef enum:
    FIRST_MEMBERS = 64  # in memory on the stack
    RUN = 16            # so many members are sorted by insertion


cdef struct Member:
    PyObject *name
    PyObject *value
    uint64_t first  # bytes of the name; 0 where not all names of the object are ASCII


cdef struct Names:  # of the members that are added to the array
    Place place
    bint ascii  # all of them
    bint exact  # no subclass of str


cdef struct Sorter:
    Writer w        # the first, so that a pointer to it is one to all of this
    bint floats
    Place place     # of the outermost object
    Member *members
    size_t count
    size_t capacity
    Member first_members[FIRST_MEMBERS]
    uint8_t canonical[MI_NUMBER_TEXT]


# ---- numbers ----

cdef Py_ssize_t canonical_text(const uint8_t *text, Py_ssize_t size, uint8_t *out) except -1:
    """Canonical text of a number within the writing limits, into MI_NUMBER_TEXT bytes; gives its length."""
    cdef mi_number found
    if mi_scan_number(text, text + size, MI_WRITING, &found) != MI_OK:
        raise AssertionError("the text of a number within the writing limits is outside them")
    return mi_canonical_number(&found, out)


cdef int put_spare(Sorter *s, Py_ssize_t size) except -1:
    """The number whose text stands in `spare`."""
    size = canonical_text(s.w.spare, size, s.canonical)
    make_room(&s.w, size + 1)
    memcpy(s.w.out.to, s.canonical, size)
    s.w.out.to[size] = 44
    s.w.out.to += size + 1
    return 0


cdef int put_number(Writer *w, PyObject *number) except -1:
    cdef Sorter *s = <Sorter *>w
    if PyLong_Check(number):
        return put_int(s, number)
    if PyObject_TypeCheck(number, <PyTypeObject *>Decimal):
        return put_decimal(s, number)
    if not s.floats:
        raise JsonTypeError(
            JsonErrorKind.TYPE,
            'a float has no canonical form of its own: give a Decimal (canonical_bytes also takes floats="repr")',
        )
    return put_spare(s, number_text(<object>number, w.spare))


cdef int put_int(Sorter *s, PyObject *number) except -1:
    cdef int overflow = 0
    cdef long long value = PyLong_AsLongLongAndOverflow(number, &overflow)
    cdef uint64_t magnitude = <uint64_t>value
    cdef uint32_t zeros = 0
    cdef uint32_t count
    cdef uint32_t exponent
    cdef uint8_t *to
    if overflow != 0:
        return put_spare(s, number_text(<object>number, s.w.spare))
    if value < 0:
        magnitude = 0 - magnitude
    while magnitude and magnitude % 10 == 0:
        magnitude //= 10
        zeros += 1
    count = mi_count_digits(magnitude)
    exponent = count - 1 + zeros
    # Sign, digits, comma; or sign, digits, point, E, plus, exponent, comma.
    make_room(&s.w, (value < 0) + count + (count > 1) * (zeros > 0) + (3 + (exponent >= 10) if zeros else 0) + 1)
    to = s.w.out.to
    if value < 0:
        to[0] = 45
        to += 1
    if zeros == 0:
        mi_put_digits(magnitude, count, to)
        to += count
    else:
        mi_put_digits(magnitude, count, to + 1)
        to[0] = to[1]
        to += 1
        if count > 1:
            to[0] = 46
            to += count
        to[0] = 69
        to[1] = 43
        count = mi_count_digits(exponent)
        mi_put_digits(exponent, count, to + 2)
        to += 2 + count
    to[0] = 44
    s.w.out.to = to + 1
    return 0


cdef int put_decimal(Sorter *s, PyObject *number) except -1:
    # Decimal's own text, whatever a subclass says.
    cdef object text = (<PyTypeObject *>Decimal).tp_str(<object>number)
    cdef const uint8_t *p = <const uint8_t *>PyUnicode_DATA(<PyObject *>text)
    cdef size_t length = PyUnicode_GET_LENGTH(<PyObject *>text)
    cdef size_t size = length
    cdef uint8_t *to = s.w.out.to
    while size and p[size - 1] == 48:
        size -= 1
    if size < length:  # only zeros behind a point are left out
        if memchr(p, 46, size) == NULL:
            size = 0
        elif p[size - 1] == 46:
            size -= 1
    # What is plain then, and ends in another digit, is canonical: so few are within the limits. Room is not made for
    # it here, since of what is not plain less may be written.
    if (
        0 < size and p[size - 1] != 48 and length <= MI_NUMBER_DIGITS and size < <size_t>(s.w.out.end - to)
        and mi_copy_plain_number(p, size, to)
    ):
        to[size] = 44
        s.w.out.to = to + size + 1
        return 0
    return put_spare(s, decimal_text(text, s.w.spare))


# ---- names ----

cdef bint is_left_out(PyObject *name, Place place) noexcept:
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


cdef uint32_t utf16_rank(uint32_t character) noexcept:
    """Order of UTF-16 code units: it spells characters above U+FFFF with units below U+E000."""
    return character + 0x110000 if 0xE000 <= character < 0x10000 else character


cdef int compare_names(PyObject *a, PyObject *b) noexcept:
    cdef Py_ssize_t a_length = PyUnicode_GET_LENGTH(a)
    cdef Py_ssize_t b_length = PyUnicode_GET_LENGTH(b)
    cdef Py_ssize_t shorter = a_length if a_length < b_length else b_length
    cdef int a_kind = PyUnicode_KIND(a)
    cdef int b_kind = PyUnicode_KIND(b)
    cdef void *a_data = PyUnicode_DATA(a)
    cdef void *b_data = PyUnicode_DATA(b)
    cdef Py_ssize_t i
    cdef uint32_t x
    cdef uint32_t y
    cdef int order
    if a_kind == 1 and b_kind == 1:
        order = memcmp(a_data, b_data, shorter)
        if order != 0:
            return order
    else:
        for i in range(shorter):
            x = PyUnicode_READ(a_kind, a_data, i)
            y = PyUnicode_READ(b_kind, b_data, i)
            if x != y:
                return -1 if utf16_rank(x) < utf16_rank(y) else 1
    return (a_length > b_length) - (a_length < b_length)


cdef inline bint comes_before(Member *a, Member *b) noexcept:
    if a.first != b.first:
        return a.first < b.first
    return compare_names(a.name, b.name) < 0


cdef void sort_run(Member *members, size_t count) noexcept:
    cdef Member moved
    cdef size_t i
    cdef size_t place
    for i in range(1, count):
        if not comes_before(&members[i], &members[i - 1]):
            continue
        moved = members[i]
        place = i
        while place and comes_before(&moved, &members[place - 1]):
            members[place] = members[place - 1]
            place -= 1
        members[place] = moved


cdef void merge(Member *left, size_t left_count, Member *end, Member *spare) noexcept:
    """Merges two sorted neighbours, the first of which is as long or longer; `spare` has room for that."""
    cdef Member *to = left
    cdef Member *right = left + left_count
    cdef Member *spare_end = spare + left_count
    memcpy(spare, left, left_count * sizeof(Member))
    while spare < spare_end and right < end:
        if comes_before(right, spare):
            to[0] = right[0]
            right += 1
        else:
            to[0] = spare[0]
            spare += 1
        to += 1
    memcpy(to, spare, (spare_end - spare) * sizeof(Member))


cdef void merge_runs(Member *members, size_t count, Member *spare) noexcept:
    """Sorts in n log n steps, whatever the order. `spare` has room for as many members."""
    cdef size_t width = RUN
    cdef size_t i = 0
    cdef size_t middle
    cdef size_t end
    while i < count:
        sort_run(members + i, RUN if count - i > RUN else count - i)
        i += RUN
    while width < count:
        i = 0
        while count - i > width:
            middle = i + width
            end = middle + width if count - middle > width else count
            if comes_before(&members[middle], &members[middle - 1]):
                merge(members + i, width, members + end, spare)
            i = end
        width *= 2


# ---- objects ----

cdef int make_members(Sorter *s, size_t count) except -1:
    """Room for so many members more."""
    cdef size_t capacity = s.capacity * 2
    cdef void *members = NULL if s.members == s.first_members else s.members
    if count <= s.capacity - s.count:
        return 0
    if capacity < s.count + count:
        capacity = s.count + count
    members = PyMem_RawRealloc(members, capacity * sizeof(Member))
    if members == NULL:
        raise MemoryError
    if s.members == s.first_members:
        memcpy(members, s.first_members, s.count * sizeof(Member))
    s.members = <Member *>members
    s.capacity = capacity
    return 0


cdef inline int add_member(Sorter *s, PyObject *name, PyObject *value, Names *names) except -1:
    cdef Member *member
    if Py_TYPE(name) != &PyUnicode_Type:
        if not PyUnicode_Check(name):
            raise key_error(<object>name)
        names.exact = False
    if names.place != ANYWHERE and is_left_out(name, names.place):
        return 0
    if s.count == s.capacity:
        make_members(s, 1)
    member = &s.members[s.count]
    member.name = name
    member.value = value
    if PyUnicode_IS_ASCII(name):
        member.first = mi_first_bytes(<const uint8_t *>PyUnicode_DATA(name), PyUnicode_GET_LENGTH(name))
    else:
        names.ascii = False
    s.count += 1
    return 0


cdef int add_members(Sorter *s, PyObject *mapping, list held, Place place) except -1:
    """Puts the members that count behind those that are there, in canonical order."""
    cdef PyObject *name = NULL
    cdef PyObject *value = NULL
    cdef Py_ssize_t position = 0
    cdef size_t start = s.count
    cdef size_t count
    cdef size_t i
    cdef Names names
    cdef tuple member
    names.place = place
    names.ascii = True
    names.exact = True
    if held is None:
        while PyDict_Next(mapping, &position, &name, &value):
            add_member(s, name, value, &names)
    else:
        for member in held:
            add_member(s, <PyObject *>member[0], <PyObject *>member[1], &names)
    count = s.count - start
    if not names.ascii:
        for i in range(start, s.count):
            s.members[i].first = 0
    if count > RUN:
        make_members(s, count)
        merge_runs(s.members + start, count, s.members + s.count)
    else:
        sort_run(s.members + start, count)
    if not names.exact:
        for i in range(start + 1, s.count):
            if compare_names(s.members[i - 1].name, s.members[i].name) == 0:
                raise equal_names_error()
    return 0


cdef int put_members(Sorter *s, size_t start, Place place) except -1:
    """Writes and takes away the members from `start` on, as an object."""
    cdef size_t end = s.count
    cdef size_t i
    cdef Member member
    open_container(&s.w, 123)
    for i in range(start, end):
        member = s.members[i]
        if place == IN_PARAMS and PyUnicode_CompareWithASCIIString(member.name, b"_meta") == 0:
            put_meta(s, member.name, <object>member.value)
            continue
        put_text(&s.w, member.name, 58)
        write(&s.w, member.value)
    s.count = start
    return close_container(&s.w, 125)


cdef int put_meta(Sorter *s, PyObject *name, object value) except -1:
    """The member that counts as absent where nothing in it counts."""
    cdef object held = resolved(&s.w, value)
    cdef list members = None
    cdef size_t start = s.count
    if not PyDict_Check(<PyObject *>held):
        put_text(&s.w, name, 58)
        return write(&s.w, <PyObject *>held)
    if s.w.copying:
        members = PyDict_Items(held)
    add_members(s, <PyObject *>held, members, IN_META)
    if s.count == start:
        return 0
    put_text(&s.w, name, 58)
    count_node(&s.w)
    return put_members(s, start, IN_META)


cdef int put_object(Writer *w, PyObject *mapping) except -1:
    cdef Sorter *s = <Sorter *>w
    cdef list members = None
    cdef Place place = ANYWHERE
    cdef size_t start
    if w.depth == 0:
        place = s.place
        s.count = 0  # what a first writing has left
    if w.copying:
        members = PyDict_Items(<object>mapping)  # held while they are written
    start = s.count
    add_members(s, mapping, members, place)
    return put_members(s, start, place)


# ---- the module ----

cdef bytes canonical_tree(object value, Bounds limits, bint floats, Place place):
    cdef Sorter s
    s.w.put_object = put_object
    s.w.put_number = put_number
    s.floats = floats
    s.place = place
    s.members = s.first_members
    s.count = 0
    s.capacity = FIRST_MEMBERS
    try:
        return written(&s.w, value, limits, limits.max_canonical)
    finally:
        if s.members != s.first_members:
            PyMem_RawFree(s.members)


def canonical_bytes(value, *, floats="refuse", limits=DEFAULT):
    """Canonical form v1 of a tree: equal bytes if and only if the trees are numerically equal.

    It is RFC 8785 (no white space, members sorted by UTF-16 code units, its string escapes) in everything but numbers,
    which are exact: trailing zeros stripped, in the text form of ``decimal.Decimal``.

    Args:
        value: The tree. It takes what ``dump`` takes.
        floats: ``"refuse"`` them, since ``0.1`` is not ``Decimal("0.1")``, or take the decimal of their ``"repr"``.
        limits: ``depth``, ``nodes``, ``string_bytes`` and ``canonical_bytes`` apply.

    Raises:
        JsonWriteError, JsonTypeError: As ``dump``; a float under ``"refuse"`` is a JsonTypeError.
    """
    if floats not in ("refuse", "repr"):
        raise ValueError('floats must be "refuse" or "repr"')
    return canonical_tree(value, bounds(limits), floats == "repr", ANYWHERE)


def canonical_number(x):
    """Text of a number in canonical form v1: ``100`` is ``"1E+2"``, ``Decimal("1.50")`` is ``"1.5"``.

    Args:
        x: An int (no bool), Decimal or float.

    Raises:
        JsonWriteError: Not finite, or over 1,024 significant digits, or an adjusted exponent beyond ±10,000.
        JsonTypeError: No number; a bool is none.
    """
    cdef uint8_t text[MI_NUMBER_TEXT]
    cdef uint8_t out[MI_NUMBER_TEXT]
    if x is True or x is False:
        raise JsonTypeError(JsonErrorKind.TYPE, "a bool is no number")
    return out[:canonical_text(text, number_text(x, text), out)].decode("ascii")
