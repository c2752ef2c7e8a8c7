"""Canonical form and parameter digest of JSON text, straight from the bytes: no tree is made.

Rules

- Pass 1 (``scan``) validates and writes a tape: 8 bytes for each string, number, literal, member name and container,
  and 4 more for each member of an object whose members are not in canonical order yet. It refuses what
  ``mcpinput.json.parse`` refuses, with the same kinds. It touches C memory only, so that it can run without the
  interpreter lock.
- Pass 2 (``put_value``) follows the tape and fills one chunk of at most 1 MiB, which SHA-256 takes whenever it is full.
  hashlib gives up the lock for each chunk, and with other threads about each time it may wait a whole switch interval
  to get it back: hence few large chunks. It copies spans of the text wherever the text is canonical already.
- The text must not change between the passes: anything but ``bytes`` is copied first.
- Members are sorted at the end of their object, where duplicate names are found too: in n log n, whatever the input.
- Left out of the digest: ``inputResponses`` and ``requestState`` of the params, and of their ``_meta`` the members
  ``progressToken``, ``traceparent``, ``tracestate`` and ``baggage``; a ``_meta`` object with nothing (left) in it.
"""

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from mcpinput._core.canonical cimport ANYWHERE, IN_META, IN_PARAMS, Place, canonical_tree
from mcpinput._core.parse cimport depth_error, nodes_error, string_error, text_bytes, text_error, token_error
from mcpinput._core.scan cimport (
    MI_END, MI_NUMBER_CHARS, MI_NUMBER_TEXT, MI_OK, MI_READING, mi_canonical_number, mi_compare_utf16, mi_number,
    mi_put_escaped, mi_scan_number, mi_scan_string, mi_skip_digits, mi_skip_plain, mi_status, mi_string, mi_unescape
)

from hashlib import sha256

from mcpinput.errors import JsonErrorKind, JsonParseError


cdef enum:
    DEPTH_CEILING = 256           # room in Scan.levels, and bound of the recursion in pass 2
    INPUT_CEILING = 0x0FFFFFFF    # lengths on the tape have 28 bits
    CHUNK = 1 << 20
    RELEASE = 256 << 10           # input from which on the lock is given up for pass 1
    SORT_RUN = 16                 # members up to which insertion sort is the faster one
    SHORT_SPAN = 32
    FIRST_ENTRIES = 256           # in memory of the call: enough for most texts
    FIRST_RECORDS = 48
    FIRST_BYTES = 4096
    VALUE_ENTRIES = 2             # at most written between two looks at the room of the tape: a value, and a name
    LEFT_OUT_TEXT = 84            # "inputResponses" with every character escaped

# ---- tape ----
#
# One entry: kind in bits 0 to 3, length in bits 4 to 31, place in bits 32 to 63. For a span, length and place are those
# of the text, quotes included. For a container, length is the number of values in it and place the entry after its
# last. Members are a name and a value. Of a SORTED object the last (length + 1) / 2 entries hold, as 32-bit words,
# where its names stand, in canonical order.
cdef enum:
    SPAN       # canonical as it stands
    NUMBER     # a number to be rewritten
    ESCAPED    # a string with escapes
    ARRAY
    OBJECT     # members are in canonical order
    SORTED     # members are not; their order stands at the end

# What order_members found.
cdef enum:
    ORDERED = 1
    UNORDERED

# What is wrong, besides what mi_status says.
cdef enum:
    F_VALUE = 100    # no value begins here
    F_NAME
    F_COLON
    F_COMMA
    F_TRAILING
    F_DUPLICATE
    F_DEPTH
    F_NODES
    F_STRING
    F_MEMORY


# An open container. PERF: objects often have the names of the one before them at this level, the model, in the same
# places of the tape. As long as they do, names are compared with the model's and neither scanned nor sorted: `guess` is
# where the model has its next name, 0 once that has failed, and `left` how many it has still. (Entry 0 is the outermost
# value, so 0 stands for none.)
cdef struct Level:
    uint32_t open       # entry of the container
    uint32_t count      # values completed
    uint32_t closed     # entry of the last object of this level that was closed, the next model
    uint32_t model
    uint32_t guess
    uint32_t left
    bint is_object


# A member while its object is sorted. `place` is 0 for a plain name, whose bytes are in the text, else 1 + the place in
# the arena, where a 4-byte length and the unescaped name stand.
cdef struct Record:
    uint64_t prefix
    uint32_t entry
    uint32_t place


cdef struct Scan:
    const uint8_t *data
    const uint8_t *end
    size_t max_nodes
    size_t max_string
    int max_depth
    uint64_t *tape
    size_t used
    size_t room
    Record *records
    size_t records_room
    uint8_t *arena
    size_t arena_used
    size_t arena_room
    int fault           # mi_status or fault
    const uint8_t *at   # where
    Level levels[DEPTH_CEILING + 1]
    uint64_t first_tape[FIRST_ENTRIES]
    Record first_records[FIRST_RECORDS]


cdef inline uint64_t pack(uint32_t kind, size_t length, size_t place) noexcept nogil:
    return <uint64_t>kind | (<uint64_t>length << 4) | (<uint64_t>place << 32)


cdef inline uint32_t kind_of(uint64_t entry) noexcept nogil:
    return entry & 15


cdef inline size_t length_of(uint64_t entry) noexcept nogil:
    return <uint32_t>entry >> 4


cdef inline size_t place_of(uint64_t entry) noexcept nogil:
    return entry >> 32


# ---- pass 1 ----


cdef inline int fail(Scan *s, int fault, const uint8_t *at) noexcept nogil:
    s.fault = fault
    s.at = at
    return 0


cdef int grow_tape(Scan *s, size_t more) noexcept nogil:
    """Makes room for `more` entries. Grows by half, so that at most a third of the tape stands empty."""
    cdef size_t room = s.used + more + s.room // 2
    cdef void *tape = NULL if s.tape == s.first_tape else s.tape
    tape = PyMem_RawRealloc(tape, room * sizeof(uint64_t))
    if tape == NULL:
        return fail(s, F_MEMORY, s.data)
    if s.tape == s.first_tape:
        memcpy(tape, s.first_tape, s.used * sizeof(uint64_t))
    s.tape = <uint64_t *>tape
    s.room = room
    return 1


cdef inline const uint8_t *skip_space(const uint8_t *p, const uint8_t *end) noexcept nogil:
    while p < end and p[0] <= 0x20 and (p[0] == 0x20 or p[0] == 0x0A or p[0] == 0x0D or p[0] == 0x09):
        p += 1
    return p


cdef inline uint64_t name_prefix(const uint8_t *name, size_t length, const uint8_t *end) noexcept nogil:
    """The first eight bytes, so that the order of two different prefixes is the order of the names by UTF-16 units.
    Up to `end` the bytes behind the name may be read."""
    cdef uint64_t prefix
    cdef size_t i
    cdef uint8_t c
    # PERF: compilers make one load of this.
    if end - name >= 8:
        prefix = (
            <uint64_t>name[0] << 56 | <uint64_t>name[1] << 48 | <uint64_t>name[2] << 40 | <uint64_t>name[3] << 32
            | <uint64_t>name[4] << 24 | <uint64_t>name[5] << 16 | <uint64_t>name[6] << 8 | <uint64_t>name[7]
        )
        if length < 8:
            prefix = prefix >> (8 * (8 - length)) << (8 * (8 - length)) if length else 0
        if not prefix & <uint64_t>0x8080808080808080:
            return prefix
    prefix = 0
    for i in range(length if length < 8 else 8):
        c = name[i]
        if c == 0xEE or c == 0xEF:
            c += 0x10  # as mi_compare_utf16 ranks them
        prefix |= <uint64_t>c << (56 - 8 * i)
    return prefix


cdef inline int compare_names(const uint8_t *a, size_t a_length, const uint8_t *b, size_t b_length) noexcept nogil:
    """mi_compare_utf16, after equal blocks have been passed over in larger steps than one byte."""
    cdef size_t shorter = a_length if a_length < b_length else b_length
    cdef size_t i = 0
    while shorter - i >= 8 and memcmp(a + i, b + i, 8) == 0:  # of a fixed size this is no call
        i += 8
    return mi_compare_utf16(a + i, a_length - i, b + i, b_length - i)


cdef inline const uint8_t *record_name(const Scan *s, const Record *record, size_t *length) noexcept nogil:
    cdef uint32_t size
    cdef uint64_t entry
    if record.place:
        memcpy(&size, s.arena + record.place - 1, sizeof(size))
        length[0] = size
        return s.arena + record.place - 1 + sizeof(size)
    entry = s.tape[record.entry]
    length[0] = length_of(entry) - 2
    return s.data + place_of(entry) + 1


cdef inline int compare_records(const Scan *s, const Record *a, const Record *b) noexcept nogil:
    cdef const uint8_t *a_name
    cdef const uint8_t *b_name
    cdef size_t a_length = 0
    cdef size_t b_length = 0
    if a.prefix != b.prefix:
        return -1 if a.prefix < b.prefix else 1
    a_name = record_name(s, a, &a_length)
    b_name = record_name(s, b, &b_length)
    return compare_names(a_name, a_length, b_name, b_length)


cdef void sort_records(const Scan *s, Record *records, size_t n, Record *spare) noexcept nogil:
    """Merge sort, stable; `spare` has room for n / 2."""
    cdef size_t i, j, k
    cdef size_t half
    cdef Record record
    if n <= SORT_RUN:
        for i in range(1, n):
            record = records[i]
            j = i
            while j > 0 and record.prefix <= records[j - 1].prefix and compare_records(s, &record, &records[j - 1]) < 0:
                records[j] = records[j - 1]
                j -= 1
            records[j] = record
        return
    half = n // 2
    sort_records(s, records, half, spare)
    sort_records(s, records + half, n - half, spare)
    if compare_records(s, &records[half - 1], &records[half]) <= 0:
        return
    memcpy(spare, records, half * sizeof(Record))
    i = k = 0
    j = half
    while i < half and j < n:
        if compare_records(s, &records[j], &spare[i]) < 0:
            records[k] = records[j]
            j += 1
        else:
            records[k] = spare[i]
            i += 1
        k += 1
    memcpy(records + k, spare + i, (half - i) * sizeof(Record))


cdef int unescape_name(Scan *s, Record *record) noexcept nogil:
    cdef uint64_t entry = s.tape[record.entry]
    cdef size_t need = length_of(entry) + sizeof(uint32_t)
    cdef size_t room
    cdef void *arena
    cdef const uint8_t *text = s.data + place_of(entry)
    cdef uint32_t size
    if s.arena_room - s.arena_used < need:
        room = s.arena_used + need + s.arena_room // 2
        arena = PyMem_RawRealloc(s.arena, room)
        if arena == NULL:
            return fail(s, F_MEMORY, s.data)
        s.arena = <uint8_t *>arena
        s.arena_room = room
    arena = s.arena + s.arena_used
    size = <uint32_t>mi_unescape(text + 1, text + length_of(entry) - 1, <uint8_t *>arena + sizeof(size))
    memcpy(arena, &size, sizeof(size))
    record.place = <uint32_t>s.arena_used + 1
    record.prefix = name_prefix(<uint8_t *>arena + sizeof(size), size, s.arena + s.arena_room)
    s.arena_used += sizeof(size) + size
    return 1


cdef int order_members(Scan *s, const Level *level) noexcept nogil:
    """Sorts the records of an object's members, and refuses equal names. Answers ORDERED where they were in order for
    sure (names with equal beginnings are not looked at), UNORDERED where their order has to be told, or 0."""
    cdef size_t count = level.count
    cdef size_t room = count + count // 2
    cdef size_t i
    cdef uint32_t at = level.open + 1
    cdef uint64_t entry
    cdef Record *record
    cdef bint ascending = True
    cdef const uint8_t *duplicate = NULL
    cdef const uint8_t *text
    if s.records_room < room:
        if s.records != s.first_records:
            PyMem_RawFree(s.records)
        s.records_room = 0
        s.records = <Record *>PyMem_RawMalloc(room * sizeof(Record))
        if s.records == NULL:
            return fail(s, F_MEMORY, s.data)
        s.records_room = room
    s.arena_used = 0
    for i in range(count):
        record = &s.records[i]
        record.entry = at
        record.place = 0
        entry = s.tape[at]
        if kind_of(entry) == ESCAPED:
            if not unescape_name(s, record):
                return 0
        else:
            record.prefix = name_prefix(s.data + place_of(entry) + 1, length_of(entry) - 2, s.end)
        entry = s.tape[at + 1]
        at = place_of(entry) if kind_of(entry) >= ARRAY else at + 2
        if i and not s.records[i - 1].prefix < record.prefix:
            ascending = False
    if ascending:
        return ORDERED
    sort_records(s, s.records, count, s.records + count)
    for i in range(1, count):
        record = &s.records[i]
        if record.prefix == s.records[i - 1].prefix and compare_records(s, record, record - 1) == 0:
            text = s.data + place_of(s.tape[record.entry])
            if duplicate == NULL or text < duplicate:
                duplicate = text
    if duplicate != NULL:
        return fail(s, F_DUPLICATE, duplicate)
    return UNORDERED


cdef inline int close_level(Scan *s, Level *level) noexcept nogil:
    """Completes the entry of a container, and puts the order of its members behind them if it has to be told."""
    cdef uint32_t kind = ARRAY
    cdef size_t count = level.count
    cdef size_t words = (count + 1) // 2
    cdef uint64_t model = 0
    cdef bint by_model = False
    cdef const uint8_t *source
    cdef uint8_t *words_at
    cdef int order
    cdef uint32_t entry
    cdef size_t i
    if level.is_object:
        kind = OBJECT
        if level.guess and level.left == 0:
            model = s.tape[level.model]
            kind = kind_of(model)
            by_model = True
        elif count > 1:
            order = order_members(s, level)
            if not order:
                return 0
            kind = OBJECT if order == ORDERED else SORTED
        if kind == SORTED:
            if s.room - s.used < words + VALUE_ENTRIES and not grow_tape(s, words + VALUE_ENTRIES):
                return 0
            words_at = <uint8_t *>(s.tape + s.used)
            s.tape[s.used + words - 1] = 0  # the last word of an odd count has no other writer
            if by_model:
                source = <const uint8_t *>(s.tape + place_of(model) - words)
                for i in range(count):
                    memcpy(&entry, source + i * sizeof(entry), sizeof(entry))
                    entry += level.open - level.model
                    memcpy(words_at + i * sizeof(entry), &entry, sizeof(entry))
            else:
                for i in range(count):
                    memcpy(words_at + i * sizeof(entry), &s.records[i].entry, sizeof(entry))
            s.used += words
        level.closed = level.open
    s.tape[level.open] = pack(kind, count, s.used)
    return 1


cdef inline mi_status scan_string(const uint8_t *p, const uint8_t *end, mi_string *out) noexcept nogil:
    """mi_scan_string, which PERF: is not called for a plain ASCII string."""
    cdef const uint8_t *stop = mi_skip_plain(p, end)
    if stop != end and stop[0] == c'"':
        out.at = stop
        out.length = stop - p
        out.escaped = 0
        return MI_OK
    return mi_scan_string(p, end, out)


cdef inline const uint8_t *scan_name(Scan *s, Level *level, size_t used, const uint8_t *p) noexcept nogil:
    """A member name and its colon; p stands where the quote should. The name goes to entry `used`, for which there is
    room. Answers where the value may begin, or NULL."""
    cdef mi_string name
    cdef mi_status status
    cdef const uint8_t *end = s.end
    cdef uint64_t entry
    cdef size_t length
    if level.guess:
        entry = s.tape[level.guess]
        length = length_of(entry)
        if (
            level.left
            and used - level.open == level.guess - level.model
            and kind_of(entry) == SPAN
            and <size_t>(end - p) > length
            and memcmp(p, s.data + place_of(entry), length) == 0
        ):
            s.tape[used] = pack(SPAN, length, p - s.data)
            p += length
            level.left -= 1
            level.guess += 1
            entry = s.tape[level.guess]
            level.guess = place_of(entry) if kind_of(entry) >= ARRAY else level.guess + 1
            if p[0] == c':':
                return p + 1
            return scan_colon(s, p)
        level.guess = 0
    if p == end:
        fail(s, MI_END, p)
        return NULL
    if p[0] != c'"':
        fail(s, F_NAME, p)
        return NULL
    status = scan_string(p + 1, end, &name)
    if status != MI_OK:
        fail(s, status, name.at)
        return NULL
    if name.length > s.max_string:
        fail(s, F_STRING, p)
        return NULL
    s.tape[used] = pack(ESCAPED if name.escaped else SPAN, name.at + 1 - p, p - s.data)
    return scan_colon(s, name.at + 1)


cdef inline const uint8_t *scan_colon(Scan *s, const uint8_t *p) noexcept nogil:
    p = skip_space(p, s.end)
    if p == s.end:
        fail(s, MI_END, p)
        return NULL
    if p[0] != c':':
        fail(s, F_COLON, p)
        return NULL
    return p + 1


cdef inline const uint8_t *scan_plain_number(const uint8_t *p, const uint8_t *end) noexcept nogil:
    """The end of a number without leading zero and exponent that is canonical as it stands; else NULL.

    PERF: most numbers are such. What is refused here is not refused by the grammar: mi_scan_number decides.
    """
    cdef const uint8_t *start = p
    cdef const uint8_t *point
    if p[0] == c'-':
        p += 1
    if p == end or p[0] < c'1' or p[0] > c'9':
        return NULL
    p = mi_skip_digits(p, end)
    if p != end and p[0] == c'.':
        point = p
        p = mi_skip_digits(p + 1, end)
        if p == point + 1:
            return NULL
    if p[-1] == c'0' or p - start > MI_NUMBER_CHARS or (p != end and (p[0] | 0x20) == c'e'):
        return NULL
    return p


cdef inline bint is_canonical(const mi_number *n) noexcept nogil:
    """Whether a number without an exponent is its own canonical text. (With one it may be: it is rewritten then.)"""
    cdef uint32_t i
    if n.is_integer:
        return n.at[-1] != c'0' or (n.is_zero and not n.negative)
    if n.fraction_digits == 0 or n.fraction + n.fraction_digits != n.at or n.at[-1] == c'0':
        return False
    if n.integer[0] != c'0':
        return True
    for i in range(6):
        if i == n.fraction_digits:
            return False
        if n.fraction[i] != c'0':
            return True
    return False


cdef inline const uint8_t *scan_literal(Scan *s, const uint8_t *p, const char *text, size_t length) noexcept nogil:
    cdef size_t left = s.end - p
    if left >= length and memcmp(p, text, length) == 0:
        return p + length
    if left < length and memcmp(p, text, left) == 0:
        fail(s, MI_END, s.end)
    else:
        fail(s, F_VALUE, p)
    return NULL


cdef int scan(Scan *s) noexcept nogil:
    """Validates the text and fills the tape. Answers 1, or 0 with `fault` and `at` set."""
    cdef int depth = 0
    if scan_values(s, &depth):
        return 1
    # A parser that fills a dict meets a duplicate name before any later fault, so it has to be told first here too.
    while depth > 0 and s.fault != F_DUPLICATE and s.fault != F_MEMORY:
        if s.levels[depth].is_object:
            order_members(s, &s.levels[depth])
        depth -= 1
    return 0


cdef int scan_values(Scan *s, int *open_levels) noexcept nogil:
    cdef const uint8_t *p = s.data
    cdef const uint8_t *start
    cdef const uint8_t *end = s.end
    cdef Level *level = &s.levels[0]
    cdef int depth = 0
    cdef size_t nodes = 0
    cdef size_t used = 0
    cdef int deepest = 0
    cdef uint8_t c
    cdef mi_string string
    cdef mi_number number
    cdef mi_status status
    while True:
        p = skip_space(p, end)
        if p == end:
            return fail(s, MI_END, p)
        nodes += 1
        if nodes > s.max_nodes:
            return fail(s, F_NODES, p)
        if s.room - used < VALUE_ENTRIES:
            s.used = used
            if not grow_tape(s, VALUE_ENTRIES):
                return 0
        start = p
        c = p[0]
        if c == c'"':
            status = scan_string(p + 1, end, &string)
            if status != MI_OK:
                return fail(s, status, string.at)
            if string.length > s.max_string:
                return fail(s, F_STRING, p)
            p = string.at + 1
            s.tape[used] = pack(ESCAPED if string.escaped else SPAN, p - start, start - s.data)
            used += 1
        elif c == c'-' or (c >= c'0' and c <= c'9'):
            p = scan_plain_number(p, end)
            if p != NULL:
                s.tape[used] = pack(SPAN, p - start, start - s.data)
            else:
                status = mi_scan_number(start, end, MI_READING, &number)
                if status != MI_OK:
                    return fail(s, status, number.at)
                p = number.at
                s.tape[used] = pack(SPAN if is_canonical(&number) else NUMBER, p - start, start - s.data)
            used += 1
        elif c == c'{' or c == c'[':
            if depth == s.max_depth:
                return fail(s, F_DEPTH, p)
            p = skip_space(p + 1, end)
            if p == end:
                return fail(s, MI_END, p)
            if p[0] == c + 2:  # "}" and "]" both stand two behind their opening
                s.tape[used] = pack(OBJECT if c == c'{' else ARRAY, 0, used + 1)
                used += 1
                p += 1
            else:
                depth += 1
                open_levels[0] = depth
                level = &s.levels[depth]
                if depth > deepest:
                    deepest = depth
                    level.closed = 0
                level.is_object = c == c'{'
                level.count = 0
                level.open = used
                used += 1
                if level.is_object:
                    level.model = level.guess = level.closed
                    if level.guess:
                        level.left = length_of(s.tape[level.model])
                        level.guess += 1
                    p = scan_name(s, level, used, p)
                    if p == NULL:
                        return 0
                    used += 1
                continue
        else:
            if c == c't':
                p = scan_literal(s, p, b"true", 4)
            elif c == c'f':
                p = scan_literal(s, p, b"false", 5)
            elif c == c'n':
                p = scan_literal(s, p, b"null", 4)
            else:
                return fail(s, F_VALUE, p)
            if p == NULL:
                return 0
            s.tape[used] = pack(SPAN, p - start, start - s.data)
            used += 1
        while True:  # after a value
            p = skip_space(p, end)
            if depth == 0:
                return 1 if p == end else fail(s, F_TRAILING, p)
            level.count += 1
            if p == end:
                return fail(s, MI_END, p)
            c = p[0]
            if c == c',':
                p += 1
                if level.is_object:
                    p = scan_name(s, level, used, skip_space(p, end))
                    if p == NULL:
                        return 0
                    used += 1
                break
            if c != (c'}' if level.is_object else c']'):
                return fail(s, F_COMMA, p)
            s.used = used
            if not close_level(s, level):
                return 0
            used = s.used
            p += 1
            depth -= 1
            open_levels[0] = depth
            level = &s.levels[depth]


cdef object scan_error(const Scan *s):
    """The exception for what the scan found wrong."""
    cdef size_t at = s.at - s.data
    if s.fault == F_MEMORY:
        return MemoryError()
    if s.fault == F_DEPTH:
        return depth_error(s.max_depth, at)
    if s.fault == F_NODES:
        return nodes_error(s.max_nodes, at)
    if s.fault == F_STRING:
        return string_error(s.max_string, at)
    if s.fault == F_DUPLICATE:
        return text_error(JsonErrorKind.DUPLICATE, "an object has two members of the name", at)
    if s.fault == F_VALUE:
        return text_error(JsonErrorKind.SYNTAX, "expected a value", at)
    if s.fault == F_NAME:
        return text_error(JsonErrorKind.SYNTAX, "expected a member name in quotes", at)
    if s.fault == F_COLON:
        return text_error(JsonErrorKind.SYNTAX, "expected a colon", at)
    if s.fault == F_COMMA:
        return text_error(JsonErrorKind.SYNTAX, "expected a comma or the end of the array or object", at)
    if s.fault == F_TRAILING:
        return text_error(JsonErrorKind.SYNTAX, "something stands after the value", at)
    return token_error(<mi_status>s.fault, MI_READING, at)


# ---- pass 2 ----

# Writes canonical text into a chunk, and chunks into SHA-256 or a list of pieces.
cdef struct Writer:
    const uint8_t *data
    const uint8_t *end
    const uint64_t *tape
    uint8_t *chunk
    size_t used
    size_t room
    size_t flushed
    size_t allowance
    PyObject *pieces    # a list, or NULL
    PyObject *sha       # owned; NULL before the first chunk
    uint8_t number[MI_NUMBER_TEXT]    # here, and not in a frame of the recursion
    uint8_t first_bytes[FIRST_BYTES]


cdef int flush(Writer *w) except -1:
    w.flushed += w.used
    if w.flushed > w.allowance:
        raise JsonParseError(
            JsonErrorKind.SIZE,
            f"the canonical text is over the size limit of {w.allowance} bytes",
            None,
            w.allowance,
        )
    if w.pieces != NULL:
        (<list>w.pieces).append(PyBytes_FromStringAndSize(<char *>w.chunk, w.used))
    elif w.sha != NULL:
        (<object>w.sha).update(PyMemoryView_FromMemory(<char *>w.chunk, w.used, PyBUF_READ))
    else:
        # Bytes are made faster than a view, where there are few.
        first = (
            PyBytes_FromStringAndSize(<char *>w.chunk, w.used) if w.used <= FIRST_BYTES
            else PyMemoryView_FromMemory(<char *>w.chunk, w.used, PyBUF_READ)
        )
        sha = sha256(first)
        Py_INCREF(sha)
        w.sha = <PyObject *>sha
    w.used = 0
    return 0


cdef int put_slowly(Writer *w, const uint8_t *p, size_t length) except -1:
    cdef size_t part
    while length:
        part = w.room - w.used
        if part == 0:
            flush(w)
            continue
        if part > length:
            part = length
        memcpy(w.chunk + w.used, p, part)
        w.used += part
        p += part
        length -= part
    return 0


cdef inline int put(Writer *w, const uint8_t *p, size_t length) except -1:
    if w.room - w.used < length:
        return put_slowly(w, p, length)
    memcpy(w.chunk + w.used, p, length)
    w.used += length
    return 0


cdef inline int put_span(Writer *w, uint8_t before, uint64_t entry, uint8_t after) except -1:
    """A span between two bytes, each left out where it is 0."""
    cdef const uint8_t *p = w.data + place_of(entry)
    cdef size_t length = length_of(entry)
    cdef uint8_t *out
    # PERF: most spans are short, and a copy of fixed size needs no call. What it copies too much is overwritten.
    if length <= SHORT_SPAN and w.room - w.used >= SHORT_SPAN + 2 and w.end - p >= SHORT_SPAN:
        out = w.chunk + w.used
        out[0] = before
        out += before != 0
        memcpy(out, p, SHORT_SPAN)
        out += length
        out[0] = after
        out += after != 0
        w.used = out - w.chunk
        return 0
    if before:
        put_byte(w, before)
    put(w, p, length)
    if after:
        put_byte(w, after)
    return 0


cdef inline int put_byte(Writer *w, uint8_t c) except -1:
    if w.used == w.room:
        flush(w)
    w.chunk[w.used] = c
    w.used += 1
    return 0


cdef int put_number(Writer *w, uint64_t entry) except -1:
    cdef mi_number number
    cdef const uint8_t *p = w.data + place_of(entry)
    if mi_scan_number(p, p + length_of(entry), MI_READING, &number) != MI_OK:
        return 0  # it was MI_OK in pass 1, and the text cannot have changed
    return put(w, w.number, mi_canonical_number(&number, w.number))


cdef inline const uint8_t *next_respelled(const uint8_t *p, const uint8_t *quote) noexcept:
    """The next escape with another canonical spelling, or quote. Short escapes are canonical, but for the slash."""
    while p < quote:
        if p[0] != c'\\':
            p = <const uint8_t *>memchr(p, c'\\', quote - p)
            if p == NULL:
                return quote
        if p[1] == c'u' or p[1] == c'/':
            return p
        p += 2
    return quote


cdef int put_escaped(Writer *w, uint64_t entry) except -1:
    cdef const uint8_t *p = w.data + place_of(entry) + 1
    cdef const uint8_t *quote = p + length_of(entry) - 2
    cdef const uint8_t *escape
    cdef uint8_t value[4]
    cdef uint8_t text[6]
    cdef size_t size
    put_byte(w, c'"')
    while True:
        escape = next_respelled(p, quote)
        put(w, p, escape - p)
        if escape == quote:
            break
        # Of a surrogate pair this takes both halves; only a pair becomes four bytes.
        size = mi_unescape(escape, escape + (6 if escape[1] == c'u' else 2), value)
        p = escape + (2 if escape[1] != c'u' else 12 if size == 4 else 6)
        if value[0] < 0x80:
            put(w, text, mi_put_escaped(value[0], text))
        else:
            put(w, value, size)
    put_byte(w, c'"')
    return 0


cdef inline bint name_is(Writer *w, uint64_t entry, const char *name, size_t length) noexcept:
    if kind_of(entry) == ESCAPED:
        return escaped_name_is(w, entry, name, length)
    return length_of(entry) - 2 == length and memcmp(w.data + place_of(entry) + 1, name, length) == 0


cdef bint escaped_name_is(Writer *w, uint64_t entry, const char *name, size_t length) noexcept:
    cdef uint8_t value[LEFT_OUT_TEXT]
    cdef const uint8_t *p = w.data + place_of(entry) + 1
    cdef size_t size = length_of(entry) - 2
    return (
        size <= LEFT_OUT_TEXT
        and mi_unescape(p, p + size, value) == length
        and memcmp(value, name, length) == 0
    )


cdef bint is_left_out(Writer *w, size_t at, Place place) noexcept:
    """Whether the member whose name stands at `at` has no part in the digest."""
    cdef uint64_t name = w.tape[at]
    cdef uint64_t value
    cdef size_t member
    if place == IN_META:
        return (
            name_is(w, name, b"progressToken", 13)
            or name_is(w, name, b"traceparent", 11)
            or name_is(w, name, b"tracestate", 10)
            or name_is(w, name, b"baggage", 7)
        )
    if name_is(w, name, b"inputResponses", 14) or name_is(w, name, b"requestState", 12):
        return True
    value = w.tape[at + 1]
    if kind_of(value) < OBJECT or not name_is(w, name, b"_meta", 5):
        return False
    member = at + 2
    for _ in range(length_of(value)):
        if not is_left_out(w, member, IN_META):
            return False
        member = after(w, member + 1)
    return True


cdef inline size_t after(Writer *w, size_t at) noexcept:
    """The entry after the value at `at`."""
    cdef uint64_t entry = w.tape[at]
    return place_of(entry) if kind_of(entry) >= ARRAY else at + 1


cdef int put_object(Writer *w, size_t at, Place place) except -1:
    cdef uint64_t entry = w.tape[at]
    cdef size_t count = length_of(entry)
    cdef const uint8_t *order = NULL
    cdef uint8_t before = c'{'
    cdef size_t name = at + 1
    cdef uint64_t value
    cdef size_t i
    cdef uint32_t word
    if kind_of(entry) == SORTED:
        order = <const uint8_t *>(w.tape + place_of(entry) - (count + 1) // 2)
    for i in range(count):
        if order != NULL:
            memcpy(&word, order + i * sizeof(word), sizeof(word))
            name = word
        if place == ANYWHERE or not is_left_out(w, name, place):
            entry = w.tape[name]
            if kind_of(entry) == SPAN:
                put_span(w, before, entry, c':')
            else:
                put_byte(w, before)
                put_escaped(w, entry)
                put_byte(w, c':')
            before = c','
            value = w.tape[name + 1]
            if kind_of(value) == SPAN:
                put_span(w, 0, value, 0)
            elif place == IN_PARAMS and name_is(w, entry, b"_meta", 5):
                put_value(w, name + 1, IN_META)
            else:
                put_value(w, name + 1, ANYWHERE)
        name = after(w, name + 1)
    if before == c'{':
        put_byte(w, before)
    put_byte(w, c'}')
    return 0


cdef int put_value(Writer *w, size_t at, Place place) except -1:
    """Writes the value at `at`. The scan has counted the depth, so the recursion is bounded."""
    cdef uint64_t entry = w.tape[at]
    cdef uint32_t kind = kind_of(entry)
    cdef uint64_t item
    cdef uint8_t before = c'['
    if kind == SPAN:
        put_span(w, 0, entry, 0)
    elif kind == NUMBER:
        put_number(w, entry)
    elif kind == ESCAPED:
        put_escaped(w, entry)
    elif kind == ARRAY:
        at += 1
        for _ in range(length_of(entry)):
            item = w.tape[at]
            if kind_of(item) == SPAN:
                put_span(w, before, item, 0)
                at += 1
            else:
                put_byte(w, before)
                put_value(w, at, ANYWHERE)
                at = after(w, at)
            before = c','
        if before == c'[':
            put_byte(w, before)
        put_byte(w, c']')
    else:
        put_object(w, at, place)
    return 0


# ---- both passes ----

# What is written of a text.
cdef enum Part:
    WHOLE
    PARAMS           # the text is a params object
    MESSAGE_PARAMS   # the text is a message that may hold one


cdef object run(
    object data,
    Part part,
    size_t max_depth,
    size_t max_nodes,
    size_t max_string,
    size_t max_size,
    size_t max_canonical,
    size_t chunk,
):
    """Canonical bytes of the text (WHOLE) or the parameter digest of the part named."""
    cdef bytes text = text_bytes(data, max_size if max_size < INPUT_CEILING else INPUT_CEILING)
    cdef size_t size = PyBytes_GET_SIZE(text)
    cdef Scan s
    cdef int accepted
    s.data = <const uint8_t *>PyBytes_AS_STRING(text)
    s.end = s.data + size
    s.max_depth = <int>max_depth if max_depth < DEPTH_CEILING else DEPTH_CEILING
    s.max_nodes = max_nodes
    s.max_string = max_string
    s.records = s.first_records
    s.records_room = FIRST_RECORDS
    s.arena = NULL
    s.arena_room = 0
    s.tape = s.first_tape
    s.used = 0
    s.room = FIRST_ENTRIES
    try:
        if size >= RELEASE:
            # PERF: pages come dearer one growth at a time.
            if not grow_tape(&s, size // 8):
                raise MemoryError
            with nogil:
                accepted = scan(&s)
        else:
            accepted = scan(&s)
        if not accepted:
            raise scan_error(&s)
        # What sorting took is given back before the chunk is made.
        free_sorting(&s)
        return write(&s, part, max_canonical, chunk)
    finally:
        free_sorting(&s)
        if s.tape != s.first_tape:
            PyMem_RawFree(s.tape)


cdef int free_sorting(Scan *s) noexcept:
    PyMem_RawFree(s.arena)
    s.arena = NULL
    if s.records != s.first_records:
        PyMem_RawFree(s.records)
    s.records = s.first_records
    return 0


cdef object write(const Scan *s, Part part, size_t allowance, size_t chunk):
    cdef Writer w
    cdef size_t at = 0
    cdef size_t name
    cdef uint64_t entry = s.tape[0]
    cdef size_t twice = 2 * <size_t>(s.end - s.data)
    cdef list pieces = [] if part == WHOLE else None
    if part == MESSAGE_PARAMS and kind_of(entry) < OBJECT:
        raise JsonParseError(JsonErrorKind.SYNTAX, "the message must be an object")
    w.data = s.data
    w.end = s.end
    w.tape = s.tape
    w.used = 0
    w.flushed = 0
    w.allowance = allowance
    w.pieces = <PyObject *>pieces if part == WHOLE else NULL
    w.sha = NULL
    if part == MESSAGE_PARAMS:
        name = 1
        for _ in range(length_of(entry)):
            if name_is(&w, s.tape[name], b"params", 6):
                at = name + 1
                break
            name = after(&w, name + 1)
        else:
            return sha256(b"{}").digest()
    if part != WHOLE and kind_of(s.tape[at]) < OBJECT:
        raise JsonParseError(JsonErrorKind.SYNTAX, "params must be an object")
    # Canonical text is at most twice as long as the text: "10" becomes "1E+1".
    w.room = chunk if chunk < twice else twice
    w.chunk = &w.first_bytes[0]
    if w.room > FIRST_BYTES:
        w.chunk = <uint8_t *>PyMem_RawMalloc(w.room)
        if w.chunk == NULL:
            raise MemoryError
    try:
        put_value(&w, at, IN_PARAMS if part != WHOLE else ANYWHERE)
        flush(&w)
        if part == WHOLE:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return (<object>w.sha).digest()
    finally:
        Py_XDECREF(w.sha)
        if w.chunk != w.first_bytes:
            PyMem_RawFree(w.chunk)


def canonical_raw(data, size_t max_depth, size_t max_nodes, size_t max_string, size_t max_size, size_t max_canonical):
    return run(data, WHOLE, max_depth, max_nodes, max_string, max_size, max_canonical, CHUNK)


def params_digest(params, size_t max_depth, size_t max_nodes, size_t max_string, size_t max_size, size_t max_canonical):
    return run(params, PARAMS, max_depth, max_nodes, max_string, max_size, max_canonical, CHUNK)


def message_digest(
    message, size_t max_depth, size_t max_nodes, size_t max_string, size_t max_size, size_t max_canonical
):
    return run(message, MESSAGE_PARAMS, max_depth, max_nodes, max_string, max_size, max_canonical, CHUNK)


def tree_digest(params, size_t max_depth, size_t max_nodes, size_t max_string, size_t max_canonical):
    cdef object tree = params if isinstance(params, dict) else dict(params)
    return sha256(
        canonical_tree(tree, max_depth, max_nodes, max_string, max_canonical, False, IN_PARAMS)
    ).digest()


def _in_chunks(data, size_t chunk, bint params):
    """For tests: ``canonical_raw``, or ``params_digest``, by the widest limits and with chunks of `chunk` bytes."""
    if chunk == 0:
        raise ValueError("chunk must be positive")
    return run(data, PARAMS if params else WHOLE, DEPTH_CEILING, 1_000_000, INPUT_CEILING, INPUT_CEILING,
               INPUT_CEILING, chunk)
