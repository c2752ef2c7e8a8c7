# What state.pyx uses of envelope.pyx.
from libc.stdint cimport int64_t, uint8_t


cdef class Payload:
    cdef bytes data
    cdef Py_ssize_t state_at
    cdef readonly int flags
    cdef readonly int round
    cdef readonly int64_t issued_ms
    cdef readonly int64_t expires_ms
    cdef readonly tuple asked


cdef enum:
    FLAG_STATE = 1
    FLAG_REPLAYED = 2
    SHORT = 16          # bytes of flow id, binding, request id hash and request digest
    BINDINGS = 112
    DIGEST = 32
    FLOW_ID_AT = 20
    BINDINGS_AT = 36
    DIGEST_AT = 148
    REQUEST_ID_AT = 180
    COUNT_AT = 196
    FIXED = 198         # bytes of a payload before the asked keys


# The payload that these bytes are, and no others. Raises EnvelopeError.
cdef Payload payload_of(bytes data)
cdef int require_length(bytes part, Py_ssize_t size, str name) except -1
# F(key), the kind, 16 bytes of digest. Raises EnvelopeError.
cdef bytes asked_bytes(object key, object kind, bytes digest)
# A payload of parts whose lengths have been checked. Raises EnvelopeError for more than 65,535 asked keys.
cdef bytes payload_bytes(
    int flags,
    int round,
    int64_t issued_ms,
    int64_t expires_ms,
    bytes flow_id,
    bytes bindings,
    bytes parameter_digest,
    bytes request_id_hash,
    list asked,
    bytes state,
)
cdef bytes hash_of_request_id(object request_id)
