"""The compiled steps of request state do what their slow twin does, and what is sealed opens."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.property import twin_state
from tests.property.pair_state import goes_on_alike, opens_alike
from tests.property.twin_state import Parts, Situation

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int64 = st.integers(-(2**63), 2**63 - 1)
# Times about now: those of real clocks, and those at both ends of what fits.
times = st.one_of(st.integers(-200_000, 200_000), int64)
trees = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), text),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(text, inner, max_size=4)),
    max_leaves=8,
)


def exactly(size):
    return st.binary(min_size=size, max_size=size)


asked_keys = st.dictionaries(text, st.tuples(st.integers(1, 4), exactly(16)), max_size=4)
situations = st.builds(
    Situation,
    digests=exactly(112),
    request_id=st.one_of(st.integers(), st.integers(-2, 1_030), text),
    parameters=exactly(32),
    bind_principal=st.booleans(),
    now_ms=times,
    lifetime_ms=st.one_of(st.integers(1, 200_000), st.integers(1, 2**63 - 1)),
    rounds=st.one_of(st.integers(1, 4), st.integers(1, 65_535)),
    replayed=st.booleans(),
    maximum_size=st.one_of(st.just(1 << 20), st.integers(0, 400)),
    maximum_state=st.one_of(st.just(1 << 20), st.integers(1, 60)),
)


@st.composite
def nearly_right(draw):
    """A payload of which most things hold, and the situation to open it in."""
    situation = draw(situations)
    emitting = replace(situation, request_id="another")
    state = twin_state.twin_canonical.canonical(draw(trees)) if draw(st.booleans()) else b""
    issued = situation.now_ms - draw(st.one_of(st.integers(-60_002, 100), st.just(0)))
    expires = draw(
        st.one_of(
            st.just(issued + situation.lifetime_ms),
            st.integers(-1, 2).map(lambda more: issued + situation.lifetime_ms + more),
            st.integers(-1, 2).map(lambda more: situation.now_ms + more),
            int64,
        )
    )
    parts = Parts(
        flags=(1 if state else 0) | situation.replayed << 1,
        round=draw(st.one_of(st.just(1), st.integers(0, 65_535))),
        issued_ms=max(-(2**63), min(2**63 - 1, issued)),
        expires_ms=max(-(2**63), min(2**63 - 1, expires)),
        flow_id=draw(exactly(16)),
        bindings=situation.bound,
        parameter_digest=situation.parameters,
        request_id_hash=emitting.id_hash,
        asked=draw(asked_keys),
        state=state,
    )
    wrong = draw(st.sampled_from((None, None, "id", "flags", "parameters", "canonical")))
    if wrong == "id":
        parts = parts._replace(request_id_hash=situation.id_hash)
    elif wrong == "flags":
        parts = parts._replace(flags=parts.flags ^ 2)
    elif wrong == "parameters":
        parts = parts._replace(parameter_digest=draw(exactly(32)))
    elif wrong == "canonical":
        situation = replace(situation, parameters=None)
    return parts, situation


@given(nearly_right())
def test_a_payload_is_opened_or_refused_as_by_the_twin(case):
    parts, situation = case
    opens_alike(twin_state.encode(parts), situation)


@given(nearly_right(), st.data())
def test_a_changed_payload_is_opened_or_refused_as_by_the_twin(case, data):
    parts, situation = case
    changed = bytearray(twin_state.encode(parts))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at] ^= data.draw(st.integers(1, 255))
    opens_alike(bytes(changed[: data.draw(st.integers(0, len(changed)))]), situation)
    opens_alike(bytes(changed), situation)


@given(st.binary(max_size=300), situations)
def test_arbitrary_bytes_are_refused_as_by_the_twin(data, situation):
    opens_alike(data, situation)


@given(nearly_right(), st.sets(st.integers(0, 6), min_size=1))
def test_the_first_binding_that_differs_is_the_reason(case, differing):
    parts, situation = case
    bindings = bytearray(parts.bindings)
    for index in differing:
        bindings[16 * index + 15] ^= 1
    data = twin_state.encode(parts._replace(bindings=bytes(bindings)))
    situation = replace(situation, maximum_size=len(data))
    assert opens_alike(data, situation) is None
    assert twin_state.open_payload(data, situation) is twin_state.BOUND[min(differing)]


@given(situations, exactly(16), asked_keys, st.booleans(), trees)
def test_a_first_ask_is_made_or_refused_as_by_the_twin(situation, flow_id, asked, has_state, state):
    goes_on_alike(situation, None, flow_id, asked, has_state, state)


@given(situations, exactly(16), asked_keys, trees, st.integers(0, 300_000))
def test_a_flow_goes_on_as_by_the_twin(situation, flow_id, asked, state, later):
    situation = replace(situation, maximum_size=1 << 20, maximum_state=1 << 20, request_id="first")
    data = goes_on_alike(situation, None, flow_id, asked, True, state)
    assume(data is not None)
    retry = replace(situation, request_id=2, now_ms=min(situation.now_ms + later, 2**63 - 1))
    opened = opens_alike(data, retry)
    if opened is None:
        assert later >= situation.lifetime_ms
        return
    assert opened.flow_id == flow_id
    assert opened.asked == asked
    assert opened.state == state
    again = goes_on_alike(retry, opened, b"", asked, False, None)
    if again is None:
        assert situation.rounds == 1
    else:
        third = opens_alike(again, replace(retry, request_id=3))
        assert third.round == 2
        assert third.flow_id == flow_id


@given(situations, exactly(16), asked_keys, trees)
def test_the_id_that_emitted_an_ask_does_not_open_it(situation, flow_id, asked, state):
    situation = replace(situation, maximum_size=1 << 20, maximum_state=1 << 20)
    data = goes_on_alike(situation, None, flow_id, asked, True, state)
    assume(data is not None)
    assert opens_alike(data, situation) is None


@pytest.mark.parametrize("now", [-(2**63), 2**63 - 1])
@pytest.mark.parametrize("issued", [-(2**63), -1, 0, 2**63 - 2])
@pytest.mark.parametrize("expires", [-(2**63) + 1, 0, 2**63 - 1])
@pytest.mark.parametrize("lifetime", [1, 2**63 - 1])
def test_times_at_the_ends_of_what_fits_are_judged_exactly(now, issued, expires, lifetime):
    situation = Situation(bytes(112), 1, bytes(32), True, now, lifetime, 1, False, 4_096, 4_096)
    parts = Parts(0, 1, issued, expires, bytes(16), bytes(112), bytes(32), bytes(16), {}, b"")
    opens_alike(twin_state.encode(parts), situation)
