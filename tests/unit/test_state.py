"""The core's unit of request state: what its callers may give it, and what comes of what goes wrong in the middle."""

import copy
import pickle
import traceback

import pytest

from mcpinput._core import envelope
from mcpinput._core.state import Call, OpenedState, Terms, next_payload, open_payload
from mcpinput.errors import (
    EnvelopeError,
    JsonError,
    JsonErrorKind,
    JsonWriteError,
    ProtectionFailure,
    RequestStateProtectionError,
)
from mcpinput.json import Limits

LIMITS = Limits()
TERMS = Terms(60_000, 3)
DIGEST = bytes(range(32))
NOW = 1_000_000


class Bindings:
    def __init__(self, digests=bytes(112)):
        self.given = digests
        self.calls = 0

    def digests(self):
        self.calls += 1
        return self.given


class Interruption(BaseException):
    pass


def call(request_id=1, *, bindings=None, digest=lambda: DIGEST):
    return Call(bindings or Bindings(), request_id, digest)


def sealed(first=None, *, asked=(), has_state=True, state="given", now=NOW, terms=TERMS, size=1 << 20, previous=None):
    return next_payload(
        first or call(), True, previous, bytes(16), dict(asked), has_state, state, now, terms, LIMITS, size
    )


def opened(payload, retry=None, *, now=NOW, terms=TERMS, size=1 << 20, limits=LIMITS):
    return open_payload(payload, "key-1", retry or call(2), True, now, terms, limits, size)


# ---- terms ----


@pytest.mark.parametrize("lifetime", [0, -1, -(2**63)])
def test_a_lifetime_that_is_not_positive_is_refused(lifetime):
    with pytest.raises(ValueError, match="lifetime_ms"):
        Terms(lifetime, 1)


@pytest.mark.parametrize("rounds", [0, -1, 65_536, -(2**31)])
def test_rounds_that_no_payload_can_hold_are_refused(rounds):
    with pytest.raises(ValueError, match="rounds"):
        Terms(1, rounds)


@pytest.mark.parametrize("numbers", [(2**63, 1), (1, 2**31), (10**30, 1)])
def test_numbers_beyond_their_type_are_refused(numbers):
    with pytest.raises(OverflowError):
        Terms(*numbers)


def test_the_widest_terms_are_taken_as_they_are():
    terms = Terms(2**63 - 1, 65_535, True)
    assert (terms.lifetime_ms, terms.rounds, terms.replayed) == (2**63 - 1, 65_535, True)


def test_terms_do_not_change():
    terms = Terms(5, 2)
    terms.__init__(7, 3)
    assert (terms.lifetime_ms, terms.rounds) == (5, 2)
    with pytest.raises(AttributeError):
        terms.rounds = 9


# ---- what a caller's code returns and raises ----


@pytest.mark.parametrize("wrong", [None, bytearray(32), "x" * 32, 7])
def test_a_parameter_digest_that_is_no_bytes_is_a_type_error(wrong):
    with pytest.raises(TypeError):
        call(digest=lambda: wrong).parameter_digest()
    with pytest.raises(TypeError):
        sealed(call(digest=lambda: wrong))


@pytest.mark.parametrize("wrong", [None, bytearray(112), 7])
def test_bindings_that_are_no_bytes_are_a_type_error(wrong):
    with pytest.raises(TypeError):
        call(bindings=Bindings(wrong)).binding_digests()
    with pytest.raises(TypeError):
        opened(sealed(), call(2, bindings=Bindings(wrong)))


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_parameter_digest_of_another_length_is_refused(size):
    with pytest.raises(EnvelopeError, match="parameter_digest must have 32 bytes"):
        call(digest=lambda: bytes(size)).parameter_digest()


@pytest.mark.parametrize("size", [0, 111, 113])
def test_bindings_of_another_length_are_refused(size):
    with pytest.raises(EnvelopeError, match="bindings must have 112 bytes"):
        call(bindings=Bindings(bytes(size))).binding_digests()


@pytest.mark.parametrize("digest", [None, b"", bytes(17)])
def test_a_request_digest_is_sixteen_bytes(digest):
    with pytest.raises((TypeError, EnvelopeError), match="request digest"):
        sealed(asked={"key": (1, digest)})


def test_a_first_ask_needs_a_flow_id():
    with pytest.raises(TypeError, match="flow_id"):
        next_payload(call(), True, None, None, {}, False, None, NOW, TERMS, LIMITS, 1 << 20)


def test_what_a_caller_raises_comes_through_and_the_next_try_starts_anew():
    results = [Interruption(), RuntimeError("no"), DIGEST]

    def digest():
        result = results.pop(0)
        if isinstance(result, bytes):
            return result
        raise result

    payload = sealed()
    retry = call(2, digest=digest)
    with pytest.raises(Interruption):
        opened(payload, retry)
    with pytest.raises(RuntimeError, match="no"):
        opened(payload, retry)
    assert opened(payload, retry).state == "given"
    assert opened(payload, retry).state == "given"
    assert results == []


def test_a_digest_that_is_asked_for_while_it_is_computed_is_computed_within():
    answers = []

    def digest():
        if not answers:
            answers.append(None)
            answers.append(retry.parameter_digest())
        return DIGEST

    retry = call(2, digest=digest)
    assert opened(sealed(), retry).round == 1
    assert answers == [None, DIGEST]


def test_parts_are_computed_once():
    bindings = Bindings()
    digests = []
    first = call(bindings=bindings, digest=lambda: digests.append(1) or DIGEST)
    for _ in range(3):
        sealed(first)
    assert (bindings.calls, len(digests)) == (1, 1)


def test_parameters_over_the_canonical_limit_never_sealed_anything():
    def digest():
        raise JsonError(JsonErrorKind.SIZE, "too large", limit=1)

    payload = sealed()
    with pytest.raises(RequestStateProtectionError) as caught:
        opened(payload, call(2, digest=digest))
    assert caught.value.reason is ProtectionFailure.PARAMETERS
    assert caught.value.__context__ is None
    with pytest.raises(JsonError):
        sealed(call(digest=digest))


def test_a_key_with_a_lone_surrogate_is_refused_without_a_chain():
    with pytest.raises(EnvelopeError) as caught:
        sealed(asked={"\ud800": (1, bytes(16))})
    assert caught.value.__context__ is None


def test_state_without_canonical_form_says_so_and_state_that_is_too_large_is_a_refusal():
    with pytest.raises(JsonWriteError):
        sealed(state=object())
    with pytest.raises(RequestStateProtectionError) as caught:
        next_payload(
            *(call(), True, None, bytes(16), {}, True, "x" * 90, NOW, TERMS, Limits(canonical_bytes=80), 1 << 20)
        )
    assert caught.value.reason is ProtectionFailure.TOO_LARGE
    assert caught.value.__context__ is None


# ---- numbers ----


@pytest.mark.parametrize("now", [2**63, -(2**63) - 1, 10**30])
def test_a_time_beyond_64_bits_is_an_overflow(now):
    payload = sealed()
    with pytest.raises(OverflowError):
        opened(payload, now=now)
    with pytest.raises(OverflowError):
        sealed(now=now)


def test_a_flow_that_would_expire_beyond_64_bits_is_not_begun():
    with pytest.raises(EnvelopeError, match="64 bits"):
        sealed(now=2**63 - 60_000)
    assert opened(sealed(now=2**63 - 60_001), now=2**63 - 60_001).expires_ms == 2**63 - 1


def test_the_last_round_that_a_payload_holds_is_the_end_of_its_flow():
    terms = Terms(60_000, 65_535)
    last = bytearray(sealed())
    last[2:4] = b"\xff\xff"
    previous = opened(bytes(last), terms=terms)
    assert previous.round == 65_535
    with pytest.raises(RequestStateProtectionError) as caught:
        sealed(call(2), previous=previous, terms=terms)
    assert (caught.value.reason, caught.value.round) == (ProtectionFailure.ROUND, 65_536)


def test_the_age_of_what_is_as_far_apart_as_can_be_is_exact():
    payload = bytearray(sealed(has_state=False, state=None))
    payload[4:12] = (2**63 - 1).to_bytes(8, "big")
    with pytest.raises(RequestStateProtectionError) as caught:
        opened(bytes(payload), now=-(2**63))
    assert caught.value.age_ms == -(2**64) + 1


@pytest.mark.parametrize(
    "request_id",
    [0, 1, 1_023, 1_024, -1, 2**63, 10**5_000, -(10**5_000), "", "é", "1"],
    ids=lambda value: f"{type(value).__name__} of {value.bit_length() if isinstance(value, int) else len(value)}",
)
def test_any_request_id_is_hashed_alike_by_both_ways(request_id):
    first = call(request_id)
    assert first.request_id_hash() == first.request_id_hash() == envelope.request_id_hash(request_id)


@pytest.mark.parametrize("wrong", [True, 1.0, b"1"])
def test_a_request_id_is_a_text_or_an_int(wrong):
    with pytest.raises(TypeError, match="request id"):
        call(wrong).request_id_hash()


def test_as_many_keys_as_a_payload_can_count_are_asked_and_no_more():
    asked = {f"{index:x}": (1 + index % 4, index.to_bytes(16, "big")) for index in range(65_535)}
    payload = sealed(asked=asked, size=4 << 20)
    assert opened(payload, size=4 << 20).asked == asked
    with pytest.raises(RequestStateProtectionError) as caught:
        sealed(asked={**asked, "more": (1, bytes(16))}, size=4 << 20)
    assert caught.value.reason is ProtectionFailure.TOO_LARGE


@pytest.mark.parametrize("size", [-1, 0])
def test_no_payload_is_within_no_size(size):
    for step in (lambda: opened(sealed(), size=size), lambda: sealed(size=size)):
        with pytest.raises(RequestStateProtectionError) as caught:
            step()
        assert caught.value.reason is ProtectionFailure.TOO_LARGE


# ---- what is opened ----


def test_an_opened_state_is_made_by_opening_alone():
    with pytest.raises(TypeError, match="open_payload"):
        OpenedState()
    bare = OpenedState.__new__(OpenedState)
    for name in ("round", "asked", "flow_id", "has_state", "issued_ms", "expires_ms", "age_ms"):
        with pytest.raises(AttributeError):
            getattr(bare, name)
    with pytest.raises(TypeError, match="open_payload"):
        sealed(previous=bare)


def test_an_opened_state_is_neither_copied_nor_pickled_nor_shown():
    found = opened(sealed(state="hidden words", asked={"hidden key": (1, bytes(16))}))
    assert "hidden" not in repr(found)
    for function in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            function(found)


def test_a_change_of_what_asked_gives_changes_nothing():
    found = opened(sealed(asked={"key": (1, bytes(16))}))
    found.asked.clear()
    assert found.asked == {"key": (1, bytes(16))}


def test_a_refusal_shows_nothing_of_a_payload():
    payload = sealed(state="hidden words")[:-1]  # no JSON any more
    with pytest.raises(RequestStateProtectionError) as caught:
        opened(payload)
    error = caught.value
    assert (error.reason, error.round, error.age_ms) == (ProtectionFailure.MALFORMED, 1, 0)
    assert error.__context__ is None
    assert "hidden" not in "".join(traceback.format_exception(error)) + repr(vars(error))


@pytest.mark.parametrize("wrong", [None, bytearray(200), "text"])
def test_a_payload_is_bytes(wrong):
    with pytest.raises(TypeError):
        opened(wrong)
