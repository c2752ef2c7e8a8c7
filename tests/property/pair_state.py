"""The compiled steps of request state beside their twin: both do the same, or refuse for the same reason."""

# ruff: noqa: PT017 - these are no tests of pytest's

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from mcpinput._core import state as core
from mcpinput.errors import EnvelopeError, JsonError, JsonErrorKind, ProtectionFailure, RequestStateProtectionError
from mcpinput.json import Limits
from tests.property import twin_state
from tests.property.twin_state import Parts, Situation

KEY_ID: Final = "key-1"
NUMBERS: Final = range(-(1 << 63), 1 << 63)


class _Bindings:
    def __init__(self, digests: bytes) -> None:
        self._digests = digests

    def digests(self) -> bytes:
        return self._digests


@functools.lru_cache(1000)  # a fuzzing engine draws new ones for as long as it runs
def _limits(size: int) -> Limits:
    return Limits(body_bytes=size, canonical_bytes=size)


def _call(situation: Situation) -> core.Call:
    def digest() -> bytes:
        if situation.parameters is None:
            raise JsonError(JsonErrorKind.SIZE, "over the limit", limit=1)
        return situation.parameters

    return core.Call(_Bindings(situation.digests), situation.request_id, digest)


def _terms(situation: Situation) -> core.Terms:
    return core.Terms(situation.lifetime_ms, situation.rounds, situation.replayed)


def _with_types(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_types(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_with_types(item) for item in value]
    return type(value), str(value)


def _parts(opened: core.OpenedState) -> Parts:
    payload = opened.payload
    return Parts(
        payload.flags,
        payload.round,
        payload.issued_ms,
        payload.expires_ms,
        payload.flow_id,
        payload.bindings,
        payload.parameter_digest,
        payload.request_id_hash,
        opened.asked,
        payload.state,
    )


def opens_alike(data: bytes, situation: Situation) -> core.OpenedState | None:
    """What both make of a payload; None where both refuse it."""
    expected = twin_state.open_payload(data, situation)
    try:
        opened = core.open_payload(
            data,
            KEY_ID,
            _call(situation),
            situation.bind_principal,
            situation.now_ms,
            _terms(situation),
            _limits(situation.maximum_state),
            situation.maximum_size,
        )
    except RequestStateProtectionError as error:
        assert error.reason is expected
        assert error.key_id == KEY_ID
        assert error.__context__ is None
        parts = twin_state.decode(data) if error.reason is not ProtectionFailure.TOO_LARGE else None
        known = (None, None) if parts is None else (situation.now_ms - parts.issued_ms, parts.round)
        assert (error.age_ms, error.round) == known
        return None
    assert not isinstance(expected, ProtectionFailure), expected
    parts, value = expected
    payload = opened.payload
    assert payload.state == parts.state
    assert (opened.round, opened.issued_ms, opened.expires_ms) == (parts.round, parts.issued_ms, parts.expires_ms)
    assert (opened.flow_id, opened.asked, opened.has_state) == (parts.flow_id, parts.asked, bool(parts.flags & 1))
    assert (opened.age_ms, opened.key_id) == (situation.now_ms - parts.issued_ms, KEY_ID)
    assert _with_types(opened.state) == _with_types(value)
    return opened


def goes_on_alike(
    situation: Situation,
    previous: core.OpenedState | None,
    flow_id: bytes,
    asked: Mapping[str, tuple[int, bytes]],
    has_state: bool,
    state: Any,
) -> bytes | None:
    """The payload that both make; None where both refuse to."""
    parts = None if previous is None else _parts(previous)
    expected: bytes | ProtectionFailure | None = None
    if previous is not None or situation.now_ms + situation.lifetime_ms in NUMBERS:
        expected = twin_state.next_payload(situation, parts, flow_id, asked, has_state, state)
    try:
        found = core.next_payload(
            _call(situation),
            situation.bind_principal,
            previous,
            None if previous is not None else flow_id,
            asked,
            has_state,
            state,
            situation.now_ms,
            _terms(situation),
            _limits(situation.maximum_state),
            situation.maximum_size,
        )
    except EnvelopeError:
        assert expected is None
        return None
    except RequestStateProtectionError as error:
        assert error.reason is expected
        assert error.__context__ is None
        issued, round_ = (situation.now_ms, 1) if parts is None else (parts.issued_ms, parts.round + 1)
        assert (error.age_ms, error.round) == (situation.now_ms - issued, round_)
        return None
    assert found == expected
    return found
