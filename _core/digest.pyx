"""Canonical form and parameter digest of JSON text, straight from the bytes: no tree is made.

Rules

- Pass 1 (``scan``) validates the text and writes down only where its canonical form differs from it: an edit of 8 bytes
  for white space, a number or an escape to be written otherwise, and for an object whose members change their order
  where they stand. It refuses what ``mcpinput.json.parse`` refuses, with the same kinds. It touches C memory only, so
  that it can run without the interpreter lock.
- Pass 2 (``put_range``) copies what lies between the edits and carries them out. It fills one chunk of at most 1 MiB,
  which SHA-256 takes whenever it is full; long runs without an edit are hashed where they are. hashlib gives up the
  lock for each chunk, and with other threads about each time it may wait a whole switch interval to get it back: hence
  few large chunks.
- The text must not change between the passes: anything but ``bytes`` is copied first. Of ``bytes`` the NUL behind the
  last byte may be read, which no token takes for its own.
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
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from mcpinput._core.canonical cimport IN_PARAMS, canonical_tree
from mcpinput._core.limits cimport Bounds, bounds
from mcpinput._core.parse cimport depth_error, nodes_error, string_error, text_bytes, text_error, token_error
from mcpinput._core.scan cimport (
    MI_END, MI_NUMBER_TEXT, MI_OK, MI_READING, mi_doubtful_number, mi_end_of_short_string, mi_number, mi_row,
    mi_same, mi_scan_number, mi_scan_row, mi_scan_short_number, mi_scan_string, mi_status, mi_string,
    mi_unescape
)
from mcpinput._core.write cimport MI_SHORT_TEXT, mi_canonical_number, mi_canonical_short, mi_put_escaped

from collections.abc import Mapping
from hashlib import sha256

from mcpinput.errors import JsonErrorKind, JsonParseError

cdef object DEFAULT
from mcpinput._core.limits import DEFAULT


# PERF: looked up once. A digest of a few bytes costs little more than these calls.
cdef object new_sha256 = sha256
cdef object sha256_digest = type(sha256()).digest

cdef enum:
    DEPTH_CEILING = 256           # room in Scan.levels, and bound of the recursion in pass 2
    CHUNK = 1 << 20
    RELEASE = 256 << 10           # input from which on the lock is given up for pass 1
    SORT_RUN = 16                 # members up to which insertion sort is the faster one
    ROW = 4                       # numbers from which on more are expected
    ROW_COST = 16                 # numbers to wait for after having looked for more in vain
    ROW_BYTES = 32                # what more than that is not in vain
    SHORT_SPAN = 32
    SHORT_NUMBER = 32             # characters from which on a number is not one for mi_canonical_short
    MODEL_MEMBERS = 0xFFFF        # most members of a model, and bytes of a name of one
    FIRST_EDITS = 256             # in memory of the call: enough for most texts
    FIRST_MEMBERS = 64
    FIRST_PLACED = 64
    FIRST_RECORDS = 48
    FIRST_BYTES = 4096
    LEFT_OUT_TEXT = 84            # "inputResponses" with every character escaped
    LEFT_OUT_LENGTHS = 1 << 5 | 1 << 7 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 14

# ---- tape ----
#
# One edit: kind in bits 0 to 3, length in bits 4 to 31, place in bits 32 to 63. Length and place are those of the text
# that is replaced; edits stand in the order of the text. The last one stands behind any text.
cdef enum:
    NOTHING    # no edit: here an object begins whose members are in order
    CUT        # left out
    NUMBER     # a number to be rewritten
    ESCAPES    # (part of) the inside of a string, with escapes to be rewritten
    OBJECT     # its members change their order; here the length is the index of its head among Scan.placed

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

# Where a value stands, as far as it matters for what the digest leaves out.
cdef enum Where:
    ELSEWHERE
    AROUND_MESSAGE    # the outermost value is a message, which may hold params
    AROUND_PARAMS     # the outermost value is a params object
    IN_MESSAGE
    IN_PARAMS_OBJECT
    IN_META_OBJECT


# An open container. PERF: objects often have the names of an earlier one at this level, the model. As long as they do,
# names are compared with the model's and neither scanned nor sorted.
cdef struct Level:
    uint8_t closer      # its closing bracket; 0 around the outermost value
    uint8_t place       # where its members stand, a Where
    uint8_t in_order    # names are ascending so far
    uint8_t follows     # names are the model's so far
    uint32_t base       # its first member among Scan.members
    uint32_t header     # its edit on the tape
    uint32_t model      # head of the model among Scan.placed, or 0
    uint64_t prefix     # of the last name


# A member of an open object.
cdef struct Member:
    uint32_t start      # of its name in the text
    uint32_t end        # of its value; 0 while it is not complete
    uint32_t edit       # the first edit at or behind `start`
    uint32_t name       # length of the name with its quotes, and ESCAPED_NAME if it has escapes


cdef enum:
    ESCAPED_NAME = 1 << 31
    NO_DUPLICATE = 0xFFFFFFFF


# A member of a closed object, in canonical order. In front of them stands a head: `start` of it is their number, `end`
# and `edit` are where text and tape go on behind the object.
cdef struct Placed:
    uint32_t start
    uint32_t end
    uint32_t edit
    uint16_t name       # as above, for a model; 0 where the name is not to be compared with
    uint16_t index      # for a model: where the member went that was, in the text, at this one's place


# A member while its object is sorted. `arena` is 0 for a plain name, whose bytes are in the text, else 1 + the place in
# the arena, where a 4-byte length and the unescaped name stand.
cdef struct Record:
    uint64_t prefix
    uint32_t member     # counted from the object's first
    uint32_t arena


cdef struct Scan:
    const uint8_t *data
    const uint8_t *end
    size_t max_nodes
    size_t max_string
    int max_depth
    uint64_t *tape
    size_t used
    size_t room
    Member *members       # of the open objects, outermost first
    size_t open
    size_t members_room
    Placed *placed        # the first one is not used, so that 0 is no index
    size_t placed_used
    size_t placed_room
    Record *records
    size_t records_room
    uint8_t *arena
    size_t arena_used
    size_t arena_room
    uint32_t duplicate    # where the first name stands that its object has already, among the last ones sorted
    Level *level          # the innermost open
    Level *modelled       # the deepest whose `model` is set
    size_t start          # where the outermost value begins
    size_t stop           # and ends
    size_t params_start   # where the params object begins
    size_t params_stop    # and ends, 0 where there is none
    size_t params_edit    # its first edit
    bint names_params     # the message has a member of that name
    bint empty_meta       # the _meta of the params is an object with nothing (left) in it
    int fault             # mi_status or fault
    const uint8_t *at     # where
    Level levels[DEPTH_CEILING + 1]
    uint64_t first_tape[FIRST_EDITS]
    Member first_members[FIRST_MEMBERS]
    Placed first_placed[FIRST_PLACED]
    Record first_records[FIRST_RECORDS]


cdef inline uint64_t pack(uint32_t kind, size_t length, size_t place) noexcept nogil:
    return <uint64_t>kind | (<uint64_t>length << 4) | (<uint64_t>place << 32)


cdef inline uint32_t kind_of(uint64_t edit) noexcept nogil:
    return edit & 15


cdef inline size_t length_of(uint64_t edit) noexcept nogil:
    return <uint32_t>edit >> 4


cdef inline size_t place_of(uint64_t edit) noexcept nogil:
    return edit >> 32


# ---- pass 1 ----


cdef inline int fail(Scan *s, int fault, const uint8_t *at) noexcept nogil:
    s.fault = fault
    s.at = at
    return 0


cdef void *grown(
    Scan *s, void *items, const void *first, size_t item, size_t used, size_t more, size_t *room, const uint8_t *at
) noexcept nogil:
    """`items` with room for `more`, or NULL with the fault set. `first` is where they stand while they are in memory of
    the call. The scan is at `at`: the rest of the text is taken to need as much as its beginning, which is exact where
    room matters most, in long monotonous texts. Grows by an eighth at least, and at most doubles."""
    cdef uint64_t likely = <uint64_t>used * <uint64_t>(s.end - s.data) // <uint64_t>(at - s.data + 1)
    cdef size_t least = used + more + used // 8
    cdef size_t size = 2 * (used + more)
    cdef void *moved
    likely += likely // 64
    if likely < size:
        size = <size_t>likely if likely > least else least
    moved = PyMem_RawRealloc(NULL if items == first else items, size * item)
    if moved == NULL:
        fail(s, F_MEMORY, s.data)
        return NULL
    if items == first:
        memcpy(moved, first, used * item)
    room[0] = size
    return moved


cdef int grow_tape(Scan *s, const uint8_t *at) noexcept nogil:
    cdef void *moved = grown(s, s.tape, s.first_tape, sizeof(uint64_t), s.used, 1, &s.room, at)
    if moved == NULL:
        return 0
    s.tape = <uint64_t *>moved
    return 1


cdef int grow_members(Scan *s, const uint8_t *at) noexcept nogil:
    cdef void *moved = grown(s, s.members, s.first_members, sizeof(Member), s.open, 1, &s.members_room, at)
    if moved == NULL:
        return 0
    s.members = <Member *>moved
    return 1


cdef int grow_placed(Scan *s, size_t more, const uint8_t *at) noexcept nogil:
    cdef void *moved = grown(s, s.placed, s.first_placed, sizeof(Placed), s.placed_used, more, &s.placed_room, at)
    if moved == NULL:
        return 0
    s.placed = <Placed *>moved
    return 1


cdef inline int put_edit(Scan *s, uint32_t kind, const uint8_t *start, const uint8_t *end) noexcept nogil:
    if s.used == s.room and not grow_tape(s, start):
        return 0
    s.tape[s.used] = pack(kind, end - start, start - s.data)
    s.used += 1
    return 1


cdef inline const uint8_t *skip_space(const uint8_t *p, const uint8_t *end) noexcept nogil:
    while p < end and p[0] <= 0x20 and (p[0] == 0x20 or p[0] == 0x0A or p[0] == 0x0D or p[0] == 0x09):
        p += 1
    return p


cdef inline const uint8_t *cut_space(Scan *s, const uint8_t *p) noexcept nogil:
    """The end of the white space at p, which is left out; or NULL."""
    cdef const uint8_t *stop = skip_space(p, s.end)
    if stop != p and not put_edit(s, CUT, p, stop):
        return NULL
    return stop


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
            prefix &= ~<uint64_t>1 << (63 - 8 * length)
        if not prefix & <uint64_t>0x8080808080808080:
            return prefix
    prefix = 0
    for i in range(length if length < 8 else 8):
        c = name[i]
        if c == 0xEE or c == 0xEF:
            c += 0x10  # U+E000 to U+FFFF stand above the surrogates that UTF-16 spells U+10000 and up with
        prefix |= <uint64_t>c << (56 - 8 * i)
    return prefix


cdef inline int compare_names(const uint8_t *a, size_t a_length, const uint8_t *b, size_t b_length) noexcept nogil:
    """Order of two names by UTF-16 units."""
    cdef size_t i = 0
    cdef uint64_t x
    cdef uint64_t y
    while a_length - i >= 8 and b_length - i >= 8 and memcmp(a + i, b + i, 8) == 0:  # of a fixed size this is no call
        i += 8
    x = name_prefix(a + i, a_length - i, a + a_length)
    y = name_prefix(b + i, b_length - i, b + b_length)
    if x != y:
        return -1 if x < y else 1
    # One is the beginning of the other, or the same.
    return (a_length > b_length) - (a_length < b_length)


cdef inline const uint8_t *record_name(
    const Scan *s, const Member *members, const Record *record, size_t *length
) noexcept nogil:
    cdef uint32_t size
    cdef const Member *member
    if record.arena:
        memcpy(&size, s.arena + record.arena - 1, sizeof(size))
        length[0] = size
        return s.arena + record.arena - 1 + sizeof(size)
    member = &members[record.member]
    length[0] = member.name - 2
    return s.data + member.start + 1


cdef inline int compare_records(Scan *s, const Member *members, const Record *a, const Record *b) noexcept nogil:
    if a.prefix != b.prefix:
        return -1 if a.prefix < b.prefix else 1
    return compare_whole_names(s, members, a, b)


cdef int compare_whole_names(Scan *s, const Member *members, const Record *a, const Record *b) noexcept nogil:
    """Notes a name that comes twice. (Neighbours of the final order have been compared, however it came about.)"""
    cdef size_t a_length = 0
    cdef size_t b_length = 0
    cdef const uint8_t *a_name = record_name(s, members, a, &a_length)
    cdef const uint8_t *b_name = record_name(s, members, b, &b_length)
    cdef int order = compare_names(a_name, a_length, b_name, b_length)
    cdef uint32_t later
    if order == 0:
        later = max(members[a.member].start, members[b.member].start)
        if later < s.duplicate:
            s.duplicate = later
    return order


cdef void sort_records(Scan *s, const Member *members, Record *records, size_t n, Record *spare) noexcept nogil:
    """Merge sort, stable; `spare` is room for n / 2 in the same memory."""
    cdef size_t i, j, k
    cdef size_t half
    cdef size_t left_at
    cdef size_t right
    cdef Record record
    if n <= SORT_RUN:
        for i in range(1, n):
            record = records[i]
            j = i
            while (
                j > 0
                and record.prefix <= records[j - 1].prefix
                and compare_records(s, members, &record, &records[j - 1]) < 0
            ):
                records[j] = records[j - 1]
                j -= 1
            records[j] = record
        return
    half = n // 2
    sort_records(s, members, records, half, spare)
    sort_records(s, members, records + half, n - half, spare)
    if compare_records(s, members, &records[half - 1], &records[half]) <= 0:
        return
    memcpy(spare, records, half * sizeof(Record))
    i = k = 0
    j = half
    while i < half and j < n:
        if records[j].prefix == spare[i].prefix:
            right = compare_whole_names(s, members, &records[j], &spare[i]) < 0
        else:
            right = records[j].prefix < spare[i].prefix
        # PERF: which one it is no processor can guess; so it is computed, and nothing is skipped.
        left_at = spare - records + i
        records[k] = records[left_at + (j - left_at) * right]
        j += right
        i += 1 - right
        k += 1
    memcpy(records + k, spare + i, (half - i) * sizeof(Record))


cdef int unescape_name(Scan *s, const Member *member, Record *record) noexcept nogil:
    cdef size_t length = member.name & ~<uint32_t>ESCAPED_NAME
    cdef size_t need = length + sizeof(uint32_t)
    cdef size_t room
    cdef void *arena
    cdef const uint8_t *text = s.data + member.start
    cdef uint32_t size
    if s.arena_room - s.arena_used < need:
        room = s.arena_used + need + s.arena_room // 2
        arena = PyMem_RawRealloc(s.arena, room)
        if arena == NULL:
            return fail(s, F_MEMORY, s.data)
        s.arena = <uint8_t *>arena
        s.arena_room = room
    arena = s.arena + s.arena_used
    size = <uint32_t>mi_unescape(text + 1, text + length - 1, <uint8_t *>arena + sizeof(size))
    memcpy(arena, &size, sizeof(size))
    record.arena = <uint32_t>s.arena_used + 1
    record.prefix = name_prefix(<uint8_t *>arena + sizeof(size), size, s.arena + s.arena_room)
    s.arena_used += sizeof(size) + size
    return 1


cdef int sort_members(Scan *s, const Member *members, size_t count) noexcept nogil:
    """Fills the records with the members in canonical order, and refuses equal names."""
    cdef size_t room = count + count // 2
    cdef size_t i
    cdef Record *record
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
        record.member = i
        record.arena = 0
        if members[i].name & <uint32_t>ESCAPED_NAME:
            if not unescape_name(s, &members[i], record):
                return 0
        else:
            record.prefix = name_prefix(s.data + members[i].start + 1, members[i].name - 2, s.end)
    s.duplicate = NO_DUPLICATE
    sort_records(s, members, s.records, count, s.records + count)
    if s.duplicate != NO_DUPLICATE:
        return fail(s, F_DUPLICATE, s.data + s.duplicate)
    return 1


cdef inline void place_member(Placed *to, const Member *member) noexcept nogil:
    to.start = member.start
    to.end = member.end
    to.edit = member.edit


cdef void place_by_records(Scan *s, const Member *members, size_t count, Placed *head) noexcept nogil:
    """Puts the members behind the head in the order of the records, with what following them as a model takes."""
    cdef size_t i
    cdef const Member *member
    head.start = count
    for i in range(count):
        member = &members[s.records[i].member]
        place_member(&head[1 + i], member)
        head[1 + i].name = <uint16_t>member.name if member.name <= MODEL_MEMBERS else 0
        if count <= MODEL_MEMBERS:
            head[1 + s.records[i].member].index = <uint16_t>i


cdef void place_by_model(const Member *members, size_t count, const Placed *model, Placed *head) noexcept nogil:
    cdef size_t i
    head.start = count
    for i in range(count):
        place_member(&head[1 + model[1 + i].index], &members[i])


cdef void place_stable(Scan *s, const Member *members, size_t count, Where place, Placed *head) noexcept nogil:
    """Puts those members behind the head, in the order of the records, that have a part in the digest."""
    cdef size_t i
    cdef const Member *member
    head.start = 0
    for i in range(count):
        member = &members[s.records[i].member]
        if not is_left_out(s, member, place):
            head.start += 1
            place_member(&head[head.start], member)


cdef inline bint name_is(const Scan *s, const Member *member, const char *name, size_t length) noexcept nogil:
    if member.name & <uint32_t>ESCAPED_NAME:
        return escaped_name_is(s, member, name, length)
    return member.name - 2 == length and memcmp(s.data + member.start + 1, name, length) == 0


cdef bint escaped_name_is(const Scan *s, const Member *member, const char *name, size_t length) noexcept nogil:
    cdef uint8_t value[LEFT_OUT_TEXT]
    cdef const uint8_t *p = s.data + member.start + 1
    cdef size_t size = (member.name & ~<uint32_t>ESCAPED_NAME) - 2
    return (
        size <= LEFT_OUT_TEXT
        and mi_unescape(p, p + size, value) == length
        and memcmp(value, name, length) == 0
    )


cdef bint is_left_out(const Scan *s, const Member *member, Where place) noexcept nogil:
    """Whether a member of the params object, or of its _meta, has no part in the digest."""
    # PERF: most names need no comparison.
    if not member.name & <uint32_t>ESCAPED_NAME and (member.name > 16 or not LEFT_OUT_LENGTHS >> (member.name - 2) & 1):
        return False
    if place == IN_META_OBJECT:
        return (
            name_is(s, member, b"progressToken", 13)
            or name_is(s, member, b"traceparent", 11)
            or name_is(s, member, b"tracestate", 10)
            or name_is(s, member, b"baggage", 7)
        )
    return (
        name_is(s, member, b"inputResponses", 14)
        or name_is(s, member, b"requestState", 12)
        or (s.empty_meta and name_is(s, member, b"_meta", 5))
    )


cdef inline Where place_below(const Scan *s, const Level *level) noexcept nogil:
    """Where the members of an object stand that is the value of the last member of `level`."""
    if level.place == IN_PARAMS_OBJECT:
        return IN_META_OBJECT if name_is(s, &s.members[s.open - 1], b"_meta", 5) else ELSEWHERE
    if level.place == IN_META_OBJECT:
        return ELSEWHERE
    if level.place == AROUND_MESSAGE:
        return IN_MESSAGE
    if level.place == AROUND_PARAMS or name_is(s, &s.members[s.open - 1], b"params", 6):
        return IN_PARAMS_OBJECT
    return ELSEWHERE


cdef void note_object(Scan *s, Where place, size_t edit, const uint8_t *start, const uint8_t *stop) noexcept nogil:
    """Remembers the params object, or that there is nothing in its _meta."""
    if place == IN_PARAMS_OBJECT:
        s.params_edit = edit
        s.params_start = start - s.data
        s.params_stop = stop - s.data
    elif place == IN_META_OBJECT:
        s.empty_meta = True


cdef inline void open_object(Scan *s, Level *level, size_t header) noexcept nogil:
    while s.modelled < level:
        s.modelled += 1
        s.modelled.model = 0
    level.base = s.open
    level.header = header
    level.in_order = True
    level.follows = level.model != 0
    if level[-1].place != ELSEWHERE:
        level.place = place_below(s, level - 1)
        level.in_order = level.place == ELSEWHERE


cdef inline void drop_header(Scan *s, size_t header) noexcept nogil:
    """Takes back the edit of an object that stays as it is, if nothing stands behind it. No harm if something does."""
    if s.used == header + 1:
        s.used = header


cdef int close_special(Scan *s, Level *level, const uint8_t *stop) noexcept nogil:
    """Completes an object that the digest may not take whole."""
    cdef Member *members = s.members + level.base
    cdef size_t count = s.open - level.base
    cdef size_t start = place_of(s.tape[level.header])
    cdef size_t i
    cdef Placed *head
    cdef Where place = <Where>level.place
    if not sort_members(s, members, count):
        return 0
    if place == IN_MESSAGE:
        for i in range(count):
            s.names_params = s.names_params or name_is(s, &members[i], b"params", 6)
    else:
        if s.placed_room - s.placed_used <= count and not grow_placed(s, count + 1, stop):
            return 0
        head = s.placed + s.placed_used
        place_stable(s, members, count, place, head)
        head.end = stop - s.data
        head.edit = s.used
        s.tape[level.header] = pack(OBJECT, s.placed_used, start)
        s.placed_used += head.start + 1
        if head.start == 0 or place == IN_PARAMS_OBJECT:
            note_object(s, place, level.header, s.data + start, stop)
    s.open = level.base
    return 1


cdef inline int close_object(Scan *s, Level *level, const uint8_t *stop) noexcept nogil:
    """Completes an object, whose closing bracket is before `stop`."""
    cdef size_t count = s.open - level.base
    if level.place != ELSEWHERE:
        return close_special(s, level, stop)
    # Of what follows a model and ends before it, the order is not known.
    if level.in_order and (not level.follows or count == 1):
        drop_header(s, level.header)
        s.open = level.base
        return 1
    return close_unordered(s, level, stop)


cdef int close_unordered(Scan *s, Level *level, const uint8_t *stop) noexcept nogil:
    """Completes an object whose members are to be placed in order."""
    cdef Member *members = s.members + level.base
    cdef size_t count = s.open - level.base
    cdef size_t at = s.placed_used
    cdef bint by_model = level.follows and s.placed[level.model].start == count
    cdef Placed *head
    if not by_model and not sort_members(s, members, count):
        return 0
    if s.placed_room - at <= count and not grow_placed(s, count + 1, stop):
        return 0
    head = s.placed + at
    if by_model:
        place_by_model(members, count, s.placed + level.model, head)
    else:
        place_by_records(s, members, count, head)
        level.model = at if count <= MODEL_MEMBERS else 0
    head.end = stop - s.data
    head.edit = s.used
    s.placed_used = at + count + 1
    s.tape[level.header] = pack(OBJECT, at, place_of(s.tape[level.header]))
    s.open = level.base
    return 1


cdef inline const uint8_t *put_member(Scan *s, const uint8_t *start, uint32_t name) noexcept nogil:
    """Adds a member to the innermost object. Answers what is behind the name, or NULL."""
    cdef Member *member
    if s.open == s.members_room and not grow_members(s, start):
        return NULL
    member = &s.members[s.open]
    member.start = start - s.data
    member.end = 0
    member.edit = s.used
    member.name = name
    s.open += 1
    return start + (name & ~<uint32_t>ESCAPED_NAME)


cdef const uint8_t *scan_string(Scan *s, const uint8_t *p, mi_string *out) noexcept nogil:
    """Any string; p stands at its opening quote. Answers its closing quote, or NULL."""
    cdef mi_status status = mi_scan_string(p + 1, s.end, out)
    if status != MI_OK:
        fail(s, status, out.at)
        return NULL
    if out.length > s.max_string:
        fail(s, F_STRING, p)
        return NULL
    return out.at


cdef inline const uint8_t *next_respelled(const uint8_t *p, const uint8_t *quote) noexcept nogil:
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


cdef inline int put_escapes(Scan *s, const uint8_t *start, const uint8_t *quote) noexcept nogil:
    start = next_respelled(start, quote)
    return start == quote or put_edit(s, ESCAPES, start, quote)


cdef inline const uint8_t *follow_model(Scan *s, const Level *level, const uint8_t *p) noexcept nogil:
    """The end of a name that is the model's next one; or NULL."""
    cdef const Placed *model = s.placed + level.model
    cdef size_t index = s.open - level.base
    if index == model.start:
        return NULL
    model += 1 + model[1 + index].index
    if model.name == 0 or not mi_same(p, s.end, s.data + model.start, model.name):
        return NULL
    return p + model.name


cdef inline bint is_ascending(const Scan *s, Level *level, const uint8_t *name, size_t length) noexcept nogil:
    """Whether a plain name stands behind the one before it in canonical order, as far as that one is plain."""
    cdef uint64_t before = level.prefix
    cdef const Member *last
    level.prefix = name_prefix(name, length, s.end)
    if s.open == level.base or level.prefix > before:
        return True
    if level.prefix < before:
        return False
    last = &s.members[s.open - 1]
    return (
        not last.name & <uint32_t>ESCAPED_NAME
        and compare_names(s.data + last.start + 1, last.name - 2, name, length) < 0
    )


cdef inline const uint8_t *scan_name(Scan *s, Level *level, const uint8_t *p) noexcept nogil:
    """A member name; p stands where the quote should. Answers what is behind the name, or NULL."""
    cdef const uint8_t *quote
    if level.follows:
        quote = follow_model(s, level, p)
        if quote != NULL:
            return put_member(s, p, quote - p)
        level.follows = False
        level.in_order = s.open == level.base
    if p[0] == c'"':
        quote = mi_end_of_short_string(p + 1, s.end)
        if quote != NULL and <size_t>(quote - p) <= s.max_string:
            level.in_order = level.in_order and is_ascending(s, level, p + 1, quote - p - 1)
            return put_member(s, p, quote + 1 - p)
    return scan_long_name(s, level, p)


cdef const uint8_t *scan_long_name(Scan *s, Level *level, const uint8_t *p) noexcept nogil:
    """Any name."""
    cdef mi_string name
    cdef const uint8_t *quote
    if p[0] != c'"':
        fail(s, MI_END if p == s.end else F_NAME, p)
        return NULL
    quote = scan_string(s, p, &name)
    if quote == NULL:
        return NULL
    if not name.escaped:
        level.in_order = level.in_order and is_ascending(s, level, p + 1, name.length)
        return put_member(s, p, quote + 1 - p)
    level.in_order = False
    if put_member(s, p, <uint32_t>(quote + 1 - p) | <uint32_t>ESCAPED_NAME) == NULL or not put_escapes(s, p + 1, quote):
        return NULL
    return quote + 1


cdef inline const uint8_t *scan_value_string(Scan *s, const uint8_t *p) noexcept nogil:
    cdef const uint8_t *quote = mi_end_of_short_string(p + 1, s.end)
    if quote != NULL and <size_t>(quote - p) <= s.max_string:
        return quote + 1
    return scan_long_string(s, p)


cdef const uint8_t *scan_long_string(Scan *s, const uint8_t *p) noexcept nogil:
    cdef mi_string string
    cdef const uint8_t *quote = scan_string(s, p, &string)
    if quote == NULL or (string.escaped and not put_escapes(s, p + 1, quote)):
        return NULL
    return quote + 1


cdef inline const uint8_t *scan_value_number(Scan *s, const uint8_t *p) noexcept nogil:
    cdef size_t canonical = 0
    cdef const uint8_t *stop = mi_scan_short_number(p, s.end, &canonical)
    if stop == NULL:
        return scan_long_number(s, p)
    if p + canonical != stop and not (
        put_edit(s, CUT, p + canonical, stop) if canonical else put_edit(s, NUMBER, p, stop)
    ):
        return NULL
    return stop


cdef inline bint is_number_start(uint8_t c) noexcept nogil:
    return c == c'-' or c >= c'0' and c <= c'9'


cdef inline const uint8_t *skip_row(Scan *s, const uint8_t *p, size_t *nodes_left) noexcept nogil:
    """Passes over numbers of an array as long as they have no exponents and bare commas behind. Answers where the first
    element begins that is not such, or for which there is no node left; or NULL."""
    cdef const uint8_t *behind
    cdef const uint8_t *stop
    cdef mi_row row
    while True:
        behind = mi_scan_row(p, s.end, &row)
        if row.count == 0 or row.count > nodes_left[0]:
            return p
        nodes_left[0] -= row.count
        while row.doubtful:
            stop = scan_value_number(s, mi_doubtful_number(p, &row))
            if stop == NULL:
                return NULL
            row.doubtful = row.doubtful >> (stop - p) << (stop - p)  # at most 63: a comma stands there
        p = behind


cdef const uint8_t *scan_long_number(Scan *s, const uint8_t *p) noexcept nogil:
    cdef mi_number number
    cdef mi_status status = mi_scan_number(p, s.end, MI_READING, &number)
    if status != MI_OK:
        fail(s, status, number.at)
        return NULL
    if not is_canonical(&number) and not put_edit(s, NUMBER, p, number.at):
        return NULL
    return number.at


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


cdef inline const uint8_t *scan_word(Scan *s, const uint8_t *p) noexcept nogil:
    if p[0] == c't':
        return scan_literal(s, p, b"true", 4)
    if p[0] == c'f':
        return scan_literal(s, p, b"false", 5)
    if p[0] == c'n':
        return scan_literal(s, p, b"null", 4)
    fail(s, MI_END if p == s.end else F_VALUE, p)
    return NULL


cdef int scan(Scan *s) noexcept nogil:
    """Validates the text and fills the tape. Answers 1, or 0 with `fault` and `at` set."""
    cdef Level *level
    cdef size_t count
    if scan_values(s):
        return put_edit(s, NOTHING, s.end, s.end)
    # A parser that fills a dict meets a duplicate name before any later fault, so it has to be told first here too.
    level = s.level
    while level.closer and s.fault != F_DUPLICATE and s.fault != F_MEMORY:
        if level.closer == c'}':
            count = s.open - level.base
            # The last one may be incomplete, its own value being what is wrong, or what that is in.
            if count and s.members[s.open - 1].end == 0:
                count -= 1
            sort_members(s, s.members + level.base, count)
            s.open = level.base
        level -= 1
    return 0


cdef int scan_values(Scan *s) noexcept nogil:
    cdef const uint8_t *p = skip_space(s.data, s.end)
    cdef const uint8_t *start
    cdef const uint8_t *end = s.end
    cdef Level *level = &s.levels[0]
    cdef Level *deepest = level + s.max_depth
    cdef size_t nodes_left = s.max_nodes
    cdef Py_ssize_t in_row = 0  # numbers lately, less what looking for them in vain has cost
    cdef size_t header
    cdef uint8_t closer = 0    # of `level`
    s.start = p - s.data
    s.level = level
    while True:
        # Here a member or an element begins.
        if closer == c'}':
            if p[0] <= 0x20:
                p = cut_space(s, p)
                if p == NULL:
                    return 0
            p = scan_name(s, level, p)
            if p == NULL:
                return 0
            if p[0] <= 0x20:
                p = cut_space(s, p)
                if p == NULL:
                    return 0
            if p[0] != c':':
                return fail(s, MI_END if p == end else F_COLON, p)
            p += 1
        if p[0] <= 0x20:
            p = cut_space(s, p)
            if p == NULL:
                return 0
        if nodes_left == 0:
            return fail(s, MI_END if p == end else F_NODES, p)
        nodes_left -= 1
        if p[0] == c'"':
            p = scan_value_string(s, p)
            if p == NULL:
                return 0
        elif is_number_start(p[0]):
            # PERF: in long arrays of numbers, several are passed over at one look.
            if in_row >= ROW and closer == c']':
                start = p
                p = skip_row(s, p, &nodes_left)
                if p == NULL:
                    return 0
                if p - start < ROW_BYTES:
                    in_row -= ROW_COST
                if not is_number_start(p[0]):
                    nodes_left += 1
                    continue
            in_row += 1
            p = scan_value_number(s, p)
            if p == NULL:
                return 0
        elif p[0] == c'{' or p[0] == c'[':
            if level == deepest:
                return fail(s, F_DEPTH, p)
            start = p
            header = s.used
            closer = p[0] + 2  # "}" and "]" both stand two behind their opening
            if closer == c'}' and not put_edit(s, NOTHING, p, p):
                return 0
            p += 1
            if p[0] <= 0x20:
                p = cut_space(s, p)
                if p == NULL:
                    return 0
            if p[0] != closer:
                level += 1
                s.level = level
                level.closer = closer
                level.place = ELSEWHERE
                if closer == c'}':
                    open_object(s, level, header)
                elif p == end:
                    return fail(s, MI_END, p)
                continue
            p += 1
            if closer == c'}':
                if level.place != ELSEWHERE:
                    note_object(s, place_below(s, level), header, start, p)
                drop_header(s, header)
            closer = level.closer
        else:
            p = scan_word(s, p)
            if p == NULL:
                return 0
        while True:
            # Here a value has ended.
            if closer == c'}':
                s.members[s.open - 1].end = p - s.data
            elif closer == 0:
                s.stop = p - s.data
                p = skip_space(p, end)
                return 1 if p == end else fail(s, F_TRAILING, p)
            if p[0] <= 0x20:
                p = cut_space(s, p)
                if p == NULL:
                    return 0
            if p[0] == c',':
                p += 1
                break
            if p[0] != closer:
                return fail(s, MI_END if p == end else F_COMMA, p)
            p += 1
            if closer == c'}' and not close_object(s, level, p):
                return 0
            level -= 1
            s.level = level
            closer = level.closer


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
        return text_error(JsonErrorKind.DUPLICATE, "an object has a second member of one name", at)
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
    const Placed *placed
    uint8_t *chunk
    size_t used
    size_t room
    size_t full_room    # of a chunk that is not in memory of the call
    size_t direct       # bytes from which on a run is not copied
    size_t flushed
    size_t allowance
    PyObject *pieces    # a list, or NULL
    PyObject *sha       # owned; NULL before the first chunk
    uint8_t number[MI_NUMBER_TEXT]    # here, and not in a frame of the recursion
    uint8_t first_bytes[FIRST_BYTES]


cdef int hash_bytes(Writer *w, const uint8_t *p, size_t length) except -1:
    w.flushed += length
    if w.flushed > w.allowance:
        raise JsonParseError(
            JsonErrorKind.SIZE,
            f"the canonical text is over the size limit of {w.allowance} bytes",
            None,
            w.allowance,
        )
    if w.pieces != NULL:
        (<list>w.pieces).append(PyBytes_FromStringAndSize(<char *>p, length))
    elif w.sha != NULL:
        (<object>w.sha).update(PyMemoryView_FromMemory(<char *>p, length, PyBUF_READ))
    else:
        # Bytes are made faster than a view, where there are few.
        first = (
            PyBytes_FromStringAndSize(<char *>p, length) if length <= FIRST_BYTES
            else PyMemoryView_FromMemory(<char *>p, length, PyBUF_READ)
        )
        sha = new_sha256(first)
        Py_INCREF(sha)
        w.sha = <PyObject *>sha
    return 0


cdef int flush(Writer *w) except -1:
    hash_bytes(w, w.chunk, w.used)
    w.used = 0
    return 0


cdef int make_room(Writer *w) except -1:
    """Moves what is written to a chunk of full size, or flushes it."""
    if w.room == w.full_room:
        return flush(w)
    w.chunk = <uint8_t *>PyMem_RawMalloc(w.full_room)
    if w.chunk == NULL:
        w.chunk = w.first_bytes
        raise MemoryError
    memcpy(w.chunk, w.first_bytes, w.used)
    w.room = w.full_room
    return 0


cdef int put_slowly(Writer *w, const uint8_t *p, size_t length) except -1:
    cdef size_t part
    if length >= w.direct:
        if w.used:
            flush(w)
        while length:
            part = length if length < w.full_room else w.full_room
            hash_bytes(w, p, part)
            p += part
            length -= part
    while length:
        if w.used == w.room:
            make_room(w)
        part = w.room - w.used
        if part > length:
            part = length
        memcpy(w.chunk + w.used, p, part)
        w.used += part
        p += part
        length -= part
    return 0


cdef inline int put(Writer *w, const uint8_t *p, size_t length) except -1:
    # PERF: most runs are short, and a copy of fixed size needs no call. What it copies too much is overwritten.
    if length <= SHORT_SPAN and w.room - w.used >= SHORT_SPAN and w.end - p >= SHORT_SPAN:
        memcpy(w.chunk + w.used, p, SHORT_SPAN)
        w.used += length
        return 0
    return put_long(w, p, length)


cdef int put_long(Writer *w, const uint8_t *p, size_t length) except -1:
    if length >= w.direct or w.room - w.used < length:
        return put_slowly(w, p, length)
    memcpy(w.chunk + w.used, p, length)
    w.used += length
    return 0


cdef inline int put_byte(Writer *w, uint8_t c) except -1:
    if w.used == w.room:
        make_room(w)
    w.chunk[w.used] = c
    w.used += 1
    return 0


cdef inline int put_number(Writer *w, const uint8_t *p, size_t length) except -1:
    if length < SHORT_NUMBER and w.room - w.used >= MI_SHORT_TEXT:
        w.used += mi_canonical_short(p, p + length, w.chunk + w.used)
        return 0
    return put_long_number(w, p, length)


cdef int put_long_number(Writer *w, const uint8_t *p, size_t length) except -1:
    """Any number."""
    cdef mi_number number
    if mi_scan_number(p, p + length, MI_READING, &number) != MI_OK:
        return 0  # it was MI_OK in pass 1, and the text cannot have changed
    return put_slowly(w, w.number, mi_canonical_number(&number, w.number))


cdef int put_respelled(Writer *w, const uint8_t *p, const uint8_t *stop) except -1:
    """The inside of a string from an escape on; `stop` is not within another."""
    cdef const uint8_t *escape
    cdef uint8_t value[4]
    cdef uint8_t text[6]
    cdef size_t size
    while True:
        escape = next_respelled(p, stop)
        put(w, p, escape - p)
        if escape == stop:
            return 0
        if escape[1] == c'/':
            put_byte(w, c'/')
            p = escape + 2
            continue
        # Of a surrogate pair this takes both halves; only a pair becomes four bytes.
        size = mi_unescape(escape, escape + 6, value)
        p = escape + (12 if size == 4 else 6)
        if value[0] < 0x80:
            put_slowly(w, text, mi_put_escaped(value[0], text))
        else:
            put_slowly(w, value, size)


cdef int put_object(Writer *w, const Placed *head) except -1:
    cdef const Placed *member = head + 1
    cdef const Placed *stop = member + head.start
    cdef const uint8_t *p
    cdef size_t length
    cdef uint8_t before = c'{'
    while member != stop:
        p = w.data + member.start
        length = member.end - member.start
        if place_of(w.tape[member.edit]) < member.end:
            put_byte(w, before)
            put_range(w, member.edit, member.start, member.end)
        elif length <= SHORT_SPAN and w.room - w.used > SHORT_SPAN and w.end - p >= SHORT_SPAN:  # PERF: as in put
            w.chunk[w.used] = before
            memcpy(w.chunk + w.used + 1, p, SHORT_SPAN)
            w.used += length + 1
        else:
            put_byte(w, before)
            put_long(w, p, length)
        before = c','
        member += 1
    if before == c'{':
        put_byte(w, before)
    return put_byte(w, c'}')


cdef int put_range(Writer *w, size_t at, size_t start, size_t end) except -1:
    """Writes the text from `start` to `end`, of which the first edit is `at`, or behind it. The scan has counted the
    depth, so the recursion is bounded."""
    cdef uint64_t edit
    cdef size_t place
    cdef size_t length
    cdef uint32_t kind
    cdef const Placed *head
    while True:
        edit = w.tape[at]
        at += 1
        place = place_of(edit)
        if place >= end:
            return put(w, w.data + start, end - start)
        kind = kind_of(edit)
        if kind == NOTHING:
            continue
        length = length_of(edit)
        put(w, w.data + start, place - start)
        if kind == OBJECT:
            head = w.placed + length
            put_object(w, head)
            start = head.end
            at = head.edit
            continue
        start = place + length
        if kind == NUMBER:
            put_number(w, w.data + place, length)
        elif kind == ESCAPES:
            put_respelled(w, w.data + place, w.data + start)


# ---- both passes ----


cdef object run(object data, Where around, Bounds limits, size_t chunk):
    """Canonical bytes of the text (ELSEWHERE), or the digest of the params that it is or holds."""
    cdef bytes text = text_bytes(data, limits.max_body)
    cdef size_t size = PyBytes_GET_SIZE(text)
    cdef Scan s
    cdef int accepted
    s.data = <const uint8_t *>PyBytes_AS_STRING(text)
    s.end = s.data + size
    s.max_depth = <int>limits.max_depth
    s.max_nodes = limits.max_nodes
    s.max_string = limits.max_string
    s.tape = s.first_tape
    s.used = 0
    s.room = FIRST_EDITS
    s.members = s.first_members
    s.open = 0
    s.members_room = FIRST_MEMBERS
    s.placed = s.first_placed
    s.placed_used = 1
    s.placed_room = FIRST_PLACED
    s.records = s.first_records
    s.records_room = FIRST_RECORDS
    s.arena = NULL
    s.arena_room = 0
    s.levels[0].closer = 0
    s.levels[0].place = around
    s.levels[0].model = 0
    s.modelled = s.levels
    s.params_stop = 0
    s.names_params = False
    s.empty_meta = False
    try:
        if size >= RELEASE:
            with nogil:
                accepted = scan(&s)
        else:
            accepted = scan(&s)
        if not accepted:
            raise scan_error(&s)
        # What only the scan needs is given back before the chunk is made.
        free_scanning(&s)
        return write(&s, around, limits.max_canonical, chunk)
    finally:
        free_scanning(&s)
        if s.placed != s.first_placed:
            PyMem_RawFree(s.placed)
        if s.tape != s.first_tape:
            PyMem_RawFree(s.tape)


cdef int free_scanning(Scan *s) noexcept:
    PyMem_RawFree(s.arena)
    s.arena = NULL
    if s.records != s.first_records:
        PyMem_RawFree(s.records)
    s.records = s.first_records
    if s.members != s.first_members:
        PyMem_RawFree(s.members)
    s.members = s.first_members
    return 0


cdef object write(const Scan *s, Where around, size_t allowance, size_t chunk):
    cdef Writer w
    cdef size_t twice = 2 * <size_t>(s.end - s.data)
    cdef list pieces = [] if around == ELSEWHERE else None
    if around == AROUND_MESSAGE and s.data[s.start] != c'{':
        raise JsonParseError(JsonErrorKind.SYNTAX, "the message must be an object")
    if around != ELSEWHERE and s.params_stop == 0:
        if around == AROUND_MESSAGE and not s.names_params:
            return sha256(b"{}").digest()
        raise JsonParseError(JsonErrorKind.SYNTAX, "params must be an object")
    w.data = s.data
    w.end = s.end
    w.tape = s.tape
    w.placed = s.placed
    w.used = 0
    w.flushed = 0
    w.allowance = allowance
    w.pieces = <PyObject *>pieces if around == ELSEWHERE else NULL
    w.sha = NULL
    # Canonical text is at most twice as long as the text: "10" becomes "1E+1".
    w.full_room = chunk if chunk < twice else twice
    w.room = FIRST_BYTES if FIRST_BYTES < w.full_room else w.full_room
    w.chunk = w.first_bytes
    w.direct = (chunk + 1) // 2
    try:
        if around == ELSEWHERE:
            put_range(&w, 0, s.start, s.stop)
        else:
            put_range(&w, s.params_edit, s.params_start, s.params_stop)
        if w.used or w.flushed == 0:
            flush(&w)
        if around == ELSEWHERE:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return sha256_digest(<object>w.sha)
    finally:
        Py_XDECREF(w.sha)
        if w.chunk != w.first_bytes:
            PyMem_RawFree(w.chunk)


def canonical_raw(data, *, limits=DEFAULT):
    """Canonical form v1 of a JSON text: ``canonical_bytes(parse(data))`` without the tree.

    Raises:
        JsonParseError: As ``parse``, or the canonical text is over ``limits.canonical_bytes``.
    """
    return run(data, ELSEWHERE, bounds(limits), CHUNK)


def parameter_digest(params, *, limits=DEFAULT):
    """SHA-256 over canonical form v1 of the stable members of a request's ``params``.

    Left out, at the top level only: ``inputResponses``, ``requestState``, and of ``_meta`` the members
    ``progressToken``, ``traceparent``, ``tracestate`` and ``baggage``. A ``_meta`` that is empty, or empty then, counts
    as absent.

    Args:
        params: Raw bytes of the JSON-RPC ``params`` object, or the mapping that ``parse`` makes of them.
        limits: As ``parse``, and ``canonical_bytes``.

    Returns:
        32 bytes, the same for both kinds of argument.

    Raises:
        JsonParseError: The bytes are not acceptable JSON, or no object.
        JsonWriteError: The mapping cannot be written in canonical form.
    """
    if not isinstance(params, bytes) and isinstance(params, Mapping):
        tree = params if isinstance(params, dict) else dict(params)
        return sha256(canonical_tree(tree, bounds(limits), False, IN_PARAMS)).digest()
    return run(params, AROUND_PARAMS, bounds(limits), CHUNK)


def message_digest(message, *, limits=DEFAULT):
    """parameter_digest of the raw bytes of a whole JSON-RPC message: of its top-level member ``params``, the name
    compared unescaped; of an empty object where there is none. Raises JsonParseError."""
    return run(message, AROUND_MESSAGE, bounds(limits), CHUNK)


cdef Bounds WIDEST = Bounds.__new__(Bounds)
WIDEST._hold(256, 1_000_000, 8 * 1024 * 1024, 16 * 1024 * 1024, 32 * 1024 * 1024, 1)


def _in_chunks(data, size_t chunk, bint params):
    """For tests: ``canonical_raw``, or ``parameter_digest`` of bytes, by the widest limits and with chunks of `chunk`
    bytes."""
    if chunk == 0:
        raise ValueError("chunk must be positive")
    return run(data, AROUND_PARAMS if params else ELSEWHERE, WIDEST, chunk)
