"""Request state around the cipher: what a request binds it to, what must hold of a payload that comes back, and the
payload of the next ask.

Rules

- No key and no clock is here: a step is given what it needs.
- A payload is judged in the order of `failure_of`; the first thing that does not hold is the reason. Bindings,
  parameter digest and request id are compared in constant time.
- An error holds nothing of a payload, of state or of parameters.

PERF: one call for each step. In Python the same steps took twice as long as the cipher (benchmarks/state.py, 1 item).
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t

from mcpinput._core.canonical cimport ANYWHERE, canonical_tree
from mcpinput._core.envelope cimport (
    BINDINGS,
    BINDINGS_AT,
    DIGEST,
    DIGEST_AT,
    FLAG_REPLAYED,
    FLAG_STATE,
    FLOW_ID_AT,
    REQUEST_ID_AT,
    SHORT,
    Payload,
    asked_bytes,
    hash_of_request_id,
    payload_bytes,
    payload_of,
    require_length,
)
from mcpinput._core.limits cimport Bounds, bounds
from mcpinput._core.parse cimport read
from mcpinput._core.scan cimport MI_WRITING

from mcpinput._core.envelope import binding
from mcpinput.errors import (
    EnvelopeError,
    JsonError,
    JsonErrorKind,
    ProtectionFailure,
    RequestStateProtectionError,
)

cdef enum:
    SKEW = 60_000           # milliseconds that state may have been issued in the future: clocks differ
    MAXIMUM_ASKED = 65_535
    MAXIMUM_ROUNDS = 65_535
    COUNTERS = 1024

CLOCK_SKEW_MS = SKEW

cdef tuple BINDING_FAILURES = (
    ProtectionFailure.AUDIENCE,
    ProtectionFailure.ENDPOINT_PATH,
    ProtectionFailure.PROTOCOL_VERSION,
    ProtectionFailure.METHOD,
    ProtectionFailure.PARTITION,
    ProtectionFailure.TENANT,
    ProtectionFailure.PRINCIPAL,
)

cdef bytes ABSENT_BINDING = binding(None)

# PERF: most clients count their requests from 0 or 1, and a hash costs more than all of the comparisons.
cdef list HASHES_OF_COUNTERS = [None] * COUNTERS


@cython.final
cdef class Call:
    """What one request binds state to. Each part is computed when first needed, and once."""

    cdef readonly object bindings
    cdef readonly object request_id
    cdef object compute_parameter_digest
    cdef bytes known_parameter_digest
    cdef bytes known_binding_digests
    cdef bytes known_request_id_hash

    def __cinit__(self, bindings not None, request_id not None, parameter_digest not None):
        self.bindings = bindings
        self.request_id = request_id
        self.compute_parameter_digest = parameter_digest

    cdef bytes digest_of_parameters(self):
        cdef bytes digest
        if self.known_parameter_digest is None:
            digest = self.compute_parameter_digest()
            require_length(digest, DIGEST, "parameter_digest")
            self.known_parameter_digest = digest
        return self.known_parameter_digest

    cdef bytes digests_of_bindings(self):
        cdef bytes digests
        if self.known_binding_digests is None:
            digests = self.bindings.digests()
            require_length(digests, BINDINGS, "bindings")
            self.known_binding_digests = digests
        return self.known_binding_digests

    cdef bytes bound(self, bint bind_principal):
        # What the bindings of a payload must be: without the principal where state is not bound to it.
        cdef bytes digests = self.digests_of_bindings()
        return digests if bind_principal else digests[:BINDINGS - SHORT] + ABSENT_BINDING

    cdef bytes hash_of_id(self):
        cdef int64_t number
        if self.known_request_id_hash is None:
            if type(self.request_id) is int and 0 <= self.request_id < COUNTERS:
                number = self.request_id
                if HASHES_OF_COUNTERS[number] is None:
                    HASHES_OF_COUNTERS[number] = hash_of_request_id(self.request_id)
                self.known_request_id_hash = HASHES_OF_COUNTERS[number]
            else:
                self.known_request_id_hash = hash_of_request_id(self.request_id)
        return self.known_request_id_hash

    def parameter_digest(self):
        return self.digest_of_parameters()

    def binding_digests(self):
        return self.digests_of_bindings()

    def request_id_hash(self):
        return self.hash_of_id()


@cython.final
cdef class Terms:
    """What one operation allows its flows. Immutable."""

    cdef readonly int64_t lifetime_ms
    cdef readonly int rounds
    cdef readonly bint replayed

    def __cinit__(self, int64_t lifetime_ms, int rounds, bint replayed=False):
        # What is sealed has 16 bits for the round; times are compared and added on the premise of a positive lifetime.
        if lifetime_ms < 1:
            raise ValueError("lifetime_ms must be positive")
        if rounds < 1 or rounds > MAXIMUM_ROUNDS:
            raise ValueError("rounds must be from 1 to 65535")
        self.lifetime_ms = lifetime_ms
        self.rounds = rounds
        self.replayed = replayed


@cython.final
@cython.nonecheck(True)
cdef class OpenedState:
    """What a token carried, verified. Immutable; open_payload makes it."""

    cdef readonly Payload payload
    cdef readonly object state
    cdef readonly object key_id
    cdef readonly int64_t opened_ms

    # open_payload gives it a payload. nonecheck is for one that __new__ alone made: an exception, no crash.
    def __init__(self):
        raise TypeError("an OpenedState is made by open_payload()")

    def __repr__(self):
        return f"<OpenedState round {self.payload.round}>"

    @property
    def has_state(self):
        return bool(self.payload.flags & FLAG_STATE)

    @property
    def round(self):
        return self.payload.round

    @property
    def issued_ms(self):
        return self.payload.issued_ms

    @property
    def expires_ms(self):
        return self.payload.expires_ms

    @property
    def age_ms(self):
        return <object>self.opened_ms - <object>self.payload.issued_ms

    @property
    def flow_id(self):
        return self.payload.flow_id

    @property
    def asked(self):
        cdef dict asked = {}
        for key, kind, digest in self.payload.asked:
            asked[key] = (kind, digest)
        return asked


# ---- opening ----

cdef bint same_bytes(const uint8_t *a, const uint8_t *b, Py_ssize_t size) noexcept nogil:
    # All of them are looked at, whatever they are: how long it takes says nothing about where they differ.
    cdef uint8_t difference = 0
    cdef Py_ssize_t i
    for i in range(size):
        difference |= a[i] ^ b[i]
    return difference == 0


cdef inline const uint8_t *chars(bytes data) noexcept:
    return <const uint8_t *>PyBytes_AS_STRING(data)


cdef int differing_binding(const uint8_t *sealed, const uint8_t *bound) noexcept:
    # Index of the first of the bindings that differs, or -1. Always compares all of them.
    cdef int first = -1
    cdef int i
    for i in range(BINDINGS // SHORT - 1, -1, -1):
        if not same_bytes(sealed + i * SHORT, bound + i * SHORT, SHORT):
            first = i
    return first


cdef object failure_of(Payload payload, Call call, bytes bound, int64_t now, Terms terms):
    # The first thing that does not hold of an authentic payload, or None.
    cdef const uint8_t *sealed = chars(payload.data)
    cdef int64_t issued = payload.issued_ms
    cdef int64_t expires = payload.expires_ms
    cdef int differing = differing_binding(sealed + BINDINGS_AT, chars(bound))
    if differing >= 0:
        return BINDING_FAILURES[differing]
    try:
        call.digest_of_parameters()
    except JsonError:  # the body was read, but its canonical form is over the limit: it never sealed anything
        return ProtectionFailure.PARAMETERS
    if not same_bytes(sealed + DIGEST_AT, chars(call.known_parameter_digest), DIGEST):
        return ProtectionFailure.PARAMETERS
    if same_bytes(sealed + REQUEST_ID_AT, chars(call.hash_of_id()), SHORT):
        return ProtectionFailure.REQUEST_ID
    if payload.round < 1 or payload.round > terms.rounds:
        return ProtectionFailure.ROUND
    # Differences are taken unsigned, of the larger less the smaller: any 64 bits can have been sealed.
    if expires <= issued or <uint64_t>expires - <uint64_t>issued > <uint64_t>terms.lifetime_ms:
        return ProtectionFailure.LIFETIME
    if issued > now and <uint64_t>issued - <uint64_t>now > SKEW:
        return ProtectionFailure.ISSUED_IN_FUTURE
    if now >= expires:
        return ProtectionFailure.EXPIRED
    if bool(payload.flags & FLAG_REPLAYED) != terms.replayed:
        return ProtectionFailure.ASK_KIND
    return None


def open_payload(
    bytes data not None,
    key_id,
    Call call not None,
    bint bind_principal,
    int64_t now_ms,
    Terms terms not None,
    limits,
    Py_ssize_t maximum_size,
):
    cdef Bounds read_limits = bounds(limits)
    cdef OpenedState opened = OpenedState.__new__(OpenedState)
    cdef Payload payload = None
    cdef object failure = ProtectionFailure.MALFORMED
    if PyBytes_GET_SIZE(data) > maximum_size:
        failure = ProtectionFailure.TOO_LARGE
    else:
        try:
            payload = payload_of(data)
        except EnvelopeError:
            pass  # raised below, outside: nothing is chained to it
    if payload is None:
        raise RequestStateProtectionError(failure, key_id=key_id)
    failure = failure_of(payload, call, call.bound(bind_principal), now_ms, terms)
    if failure is None and payload.flags & FLAG_STATE:
        try:
            opened.state = read(payload.state, read_limits, MI_WRITING)
        except JsonError:
            failure = ProtectionFailure.MALFORMED
    if failure is not None:
        age_ms = <object>now_ms - <object>payload.issued_ms
        raise RequestStateProtectionError(failure, key_id=key_id, age_ms=age_ms, round=payload.round)
    opened.payload = payload
    opened.key_id = key_id
    opened.opened_ms = now_ms
    return opened


# ---- sealing ----


def next_payload(
    Call call not None,
    bint bind_principal,
    OpenedState previous,
    bytes flow_id,
    asked not None,
    bint has_state,
    state,
    int64_t now_ms,
    Terms terms not None,
    limits,
    Py_ssize_t maximum_size,
):
    cdef Bounds write_limits = bounds(limits)
    cdef int flags = FLAG_REPLAYED if terms.replayed else 0
    cdef int round = 1
    cdef int64_t issued = now_ms
    cdef int64_t expires
    cdef bytes state_bytes = b""
    cdef bytes payload = None
    cdef bytes digest
    cdef list parts
    cdef object failure = None
    if previous is None:
        require_length(flow_id, SHORT, "flow_id")
        if now_ms > INT64_MAX - terms.lifetime_ms:
            raise EnvelopeError("issued_ms and expires_ms must fit 64 bits")
        expires = now_ms + terms.lifetime_ms
    elif previous.payload is None:
        raise TypeError("previous must come from open_payload()")
    else:
        round = previous.payload.round + 1
        issued = previous.payload.issued_ms
        expires = previous.payload.expires_ms
        flow_id = previous.payload.data[FLOW_ID_AT:BINDINGS_AT]
    if round > terms.rounds:
        failure = ProtectionFailure.ROUND
    elif now_ms >= expires:
        failure = ProtectionFailure.EXPIRED
    elif len(asked) > MAXIMUM_ASKED:
        failure = ProtectionFailure.TOO_LARGE
    else:
        if has_state:
            flags |= FLAG_STATE
            try:
                state_bytes = canonical_tree(state, write_limits, False, ANYWHERE)
            except JsonError as error:
                # Out of memory, what is caught can be a MemoryError: an error's instance is made only here.
                if not isinstance(error, JsonError) or error.kind is not JsonErrorKind.SIZE:
                    raise
                failure = ProtectionFailure.TOO_LARGE
        if failure is None:
            parts = []
            for key, (kind, digest) in asked.items():
                parts.append(asked_bytes(key, kind, digest))
            payload = payload_bytes(
                flags,
                round,
                issued,
                expires,
                flow_id,
                call.bound(bind_principal),
                call.digest_of_parameters(),
                call.hash_of_id(),
                parts,
                state_bytes,
            )
            if PyBytes_GET_SIZE(payload) > maximum_size:
                failure = ProtectionFailure.TOO_LARGE
    if failure is not None:
        raise RequestStateProtectionError(failure, age_ms=<object>now_ms - <object>issued, round=round)
    return payload
