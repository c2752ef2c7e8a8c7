"""Time and request state: what instances may differ by, exact expiry, absurd times, and clocks that are broken."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from mcpinput import (
    InputRequiredResult,
    ProtectionConfig,
    ProtectionFailure,
    RequestContext,
    RequestStateMode,
    Server,
    input_required,
)
from mcpinput.protection.protector import open_token, seal_token
from tests.support.asgi import Client
from tests.support.secrets import told_in
from tests.support.servers import FORM, KEY, Clock, Recorder, accept, anybody, ask_form, price_server, ring

F = ProtectionFailure
LIFETIME_MS = 900_000
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)
FROZEN = (
    b'{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"Invalid or expired requestState",'
    b'"data":{"reason":"invalid_request_state"}}}'
)
INTERNAL = {"code": -32603, "message": "Internal error"}
UNSEALED = {"code": -32603, "message": "Request state could not be sealed"}


class Instance:
    """One server with a clock of its own, in whole milliseconds, and a client that has been asked by it."""

    def __init__(self, ahead_ms: int = 0, **settings: Any) -> None:
        self.ms = 1_800_000_000_000 + ahead_ms
        self.recorder = Recorder()
        self.server, self.entered = price_server(
            observer=self.recorder,
            protection=ProtectionConfig(keyring=ring(), clock=lambda: self.ms / 1000, **settings),
        )
        self.client = Client(self.server.asgi())

    def ask(self) -> str:
        token: str = self.client.call_tool("set_price", {}, id=1).result["requestState"]
        self.entered.clear()
        return token

    def retry(self, token: str, *, id: int = 2, **more: Any) -> Any:
        self.entered.clear()
        more.setdefault("answers", accept(price=1))
        return self.client.call_tool("set_price", {}, id=id, state=token, **more)

    def refusal(self, token: str) -> ProtectionFailure | None:
        """Why a token is refused, with the frozen answer; None where it opens."""
        response = self.retry(token)
        if response.status == 200:
            assert response.result["resultType"] == "complete"
            assert len(self.entered) == 1
            return None
        assert (response.status, response.body) == (400, FROZEN)
        assert self.entered == []
        failure: ProtectionFailure = self.recorder.rejections[-1].failure
        return failure


# ---- clocks of instances, and clocks that are set ----


@pytest.mark.parametrize(
    ("ahead_ms", "failure"),
    [
        (-LIFETIME_MS - 1, F.EXPIRED),
        (-LIFETIME_MS, F.EXPIRED),
        (-LIFETIME_MS + 1, None),
        (-61_000, None),
        (0, None),
        (30_000, None),
        (60_000, None),
        (60_001, F.ISSUED_IN_FUTURE),
        (61_000, F.ISSUED_IN_FUTURE),
        (3_600_000, F.ISSUED_IN_FUTURE),
        (365 * 86_400_000, F.ISSUED_IN_FUTURE),
    ],
)
def test_an_instance_may_be_a_minute_ahead_of_the_one_that_opens(
    ahead_ms: int, failure: ProtectionFailure | None
) -> None:
    token = Instance(ahead_ms).ask()
    here = Instance()
    assert here.refusal(token) is failure
    if failure is not None:
        assert here.recorder.rejections[-1].age_ms == -ahead_ms


def test_a_clock_that_is_set_back_by_an_hour_loses_no_flow() -> None:
    here = Instance()
    token = here.ask()
    here.ms -= 3_600_000
    assert here.refusal(token) is F.ISSUED_IN_FUTURE
    here.ms += 3_600_000 - 60_001
    assert here.refusal(token) is F.ISSUED_IN_FUTURE
    here.ms += 1
    assert here.refusal(token) is None
    here.ms += 60_000 + LIFETIME_MS - 1
    assert here.refusal(token) is None
    here.ms += 1
    assert here.refusal(token) is F.EXPIRED


def test_a_clock_that_is_set_forward_and_back_again_loses_no_flow() -> None:
    here = Instance()
    token = here.ask()
    here.ms += 3_600_000
    assert here.refusal(token) is F.EXPIRED
    here.ms -= 3_600_000
    assert here.refusal(token) is None


def test_a_flow_keeps_its_expiry_while_the_clock_is_set_back_between_its_legs() -> None:
    here = Instance()
    first = here.ask()
    here.ms -= 50_000
    second = here.retry(first, id=3, answers={}).result["requestState"]
    here.ms -= 10_000
    assert here.refusal(second) is None
    here.ms -= 1
    assert here.refusal(second) is F.ISSUED_IN_FUTURE
    here.ms += 60_001 + LIFETIME_MS
    assert here.refusal(second) is F.EXPIRED


# ---- expiry ----


@pytest.mark.parametrize("lifetime_ms", [1, 2, 999, 1000, 60_000, LIFETIME_MS, 366 * 86_400_000])
def test_state_opens_to_the_last_millisecond_of_its_lifetime(lifetime_ms: int) -> None:
    here = Instance(maximum_request_state_lifetime=timedelta(milliseconds=lifetime_ms))
    token = here.ask()
    here.ms += lifetime_ms - 1
    assert here.refusal(token) is None
    here.ms += 1
    assert here.refusal(token) is F.EXPIRED


@pytest.mark.parametrize("fraction", [0.0, 0.0001, 0.25, 0.4999, 0.5, 0.75, 0.9999])
def test_fractions_of_a_millisecond_neither_stretch_nor_shorten_a_lifetime_by_more_than_one(fraction: float) -> None:
    clock = Clock(1_800_000_000 + fraction / 1000)
    recorder = Recorder()
    server, _ = price_server(clock=clock, observer=recorder)
    client = Client(server.asgi())
    token = client.call_tool("set_price", {}).result["requestState"]
    clock.now += 900 - 0.002
    assert client.call_tool("set_price", {}, id=2, state=token, answers=accept(price=1)).status == 200
    clock.now += 0.003
    assert client.call_tool("set_price", {}, id=2, state=token, answers=accept(price=1)).body == FROZEN
    assert recorder.rejections[-1].failure is F.EXPIRED


def test_a_hundred_more_asks_do_not_outlive_the_first_expiry() -> None:
    here = Instance(maximum_request_state_rounds=200)
    token = here.ask()
    start = here.ms
    expiries = set()
    for number in range(100):
        here.ms += LIFETIME_MS // 101
        token = here.retry(token, id=number + 3, answers={}).result["requestState"]
        assert here.entered[-1].round == number + 1
        expiries.add(here.entered[-1].expires_at)
    assert expiries == {datetime.datetime.fromtimestamp((start + LIFETIME_MS) / 1000, datetime.UTC)}
    here.ms = start + LIFETIME_MS - 1
    assert here.refusal(token) is None
    here.ms += 1
    assert here.refusal(token) is F.EXPIRED


def test_what_expires_while_its_handler_runs_may_complete_but_not_ask_again() -> None:
    here = Instance()
    recorder = Recorder()
    server = Server(
        "slow",
        version="1",
        admission=anybody,
        observers=[recorder],
        protection=ProtectionConfig(keyring=ring(), clock=lambda: here.ms / 1000),
    )

    @server.tool("slow", input_requests=[FORM], request_state=RequestStateMode.FRAMEWORK_PROTECTED)
    async def slow(ctx: RequestContext) -> str | InputRequiredResult:
        if ctx.round:
            here.ms += LIFETIME_MS
        if "done" in ctx.input_responses:
            return "done"
        return input_required({"done": ask_form()})

    client = Client(server.asgi())
    token = client.call_tool("slow", id=1).result["requestState"]
    asked_again = client.call_tool("slow", id=2, state=token)
    assert (asked_again.status, asked_again.error) == (200, UNSEALED)
    assert recorder.outcomes[-1].failure is F.EXPIRED
    token = client.call_tool("slow", id=1).result["requestState"]
    answers = {"done": {"action": "accept", "content": {}}}
    assert client.call_tool("slow", id=2, state=token, answers=answers).result["resultType"] == "complete"
    assert server.protection_keyring_manager.snapshot().sealing_reservations == {"k1": 0}


# ---- absurd times that were sealed with our own key ----

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("issued_ms", "expires_ms", "failure"),
    [
        (NOW, NOW + LIFETIME_MS, None),
        (NOW, NOW + LIFETIME_MS + 1, F.LIFETIME),
        (NOW, NOW + 1, None),
        (NOW, NOW, F.LIFETIME),
        (NOW, NOW - 1, F.LIFETIME),
        (NOW - LIFETIME_MS, NOW, F.EXPIRED),
        (NOW - LIFETIME_MS + 1, NOW + 1, None),
        (NOW + 60_000, NOW + 60_001, None),
        (NOW + 60_001, NOW + 60_002, F.ISSUED_IN_FUTURE),
        (0, 0, F.LIFETIME),
        (0, 1, F.EXPIRED),
        (0, NOW + 1, F.LIFETIME),
        (-1, 0, F.EXPIRED),
        (-1, NOW + 1, F.LIFETIME),
        (0, -1, F.LIFETIME),
        (NOW, 0, F.LIFETIME),
        (NOW, INT64_MAX, F.LIFETIME),
        (NOW, INT64_MIN, F.LIFETIME),
        (INT64_MAX, INT64_MAX, F.LIFETIME),
        (INT64_MAX - 1, INT64_MAX, F.ISSUED_IN_FUTURE),
        (INT64_MAX - LIFETIME_MS, INT64_MAX, F.ISSUED_IN_FUTURE),
        (INT64_MIN, INT64_MIN, F.LIFETIME),
        (INT64_MIN, INT64_MIN + 1, F.EXPIRED),
        (INT64_MIN, NOW + 1, F.LIFETIME),
        (INT64_MIN, INT64_MAX, F.LIFETIME),
        (INT64_MAX, INT64_MIN, F.LIFETIME),
    ],
)
def test_times_that_only_a_holder_of_the_key_could_seal(
    issued_ms: int, expires_ms: int, failure: ProtectionFailure | None
) -> None:
    here = Instance()
    manager = here.server.protection_keyring_manager
    payload = bytearray(open_token(manager.keyring, here.ask())[1])
    payload[4:12] = issued_ms.to_bytes(8, "big", signed=True)
    payload[12:20] = expires_ms.to_bytes(8, "big", signed=True)
    assert here.refusal(seal_token(KEY, os.urandom(24), bytes(payload))) is failure


# ---- clocks that are broken ----


def failing() -> float:
    raise OSError("secret detail of the clock")


BROKEN: dict[str, Callable[[], Any]] = {
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "-inf": lambda: -math.inf,
    "a decimal that is no number": lambda: Decimal("nan"),
    "none": lambda: None,
    "text": lambda: "1800000000",
    "complex": lambda: 1j,
    "a time": lambda: datetime.datetime.now(datetime.UTC),
    "raises": failing,
    "beyond 64 bits": lambda: 2.0**63,
    "far beyond": lambda: 1e300,
    "far before": lambda: -1e18,
    "just beyond": lambda: Fraction(INT64_MAX + 1, 1000),
    "just before": lambda: Fraction(INT64_MIN - 1, 1000),
}
each_broken = pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)


class Replaceable:
    """A clock that another one takes the place of."""

    def __init__(self) -> None:
        self.read: Callable[[], Any] = lambda: 1_800_000_000.0

    def __call__(self) -> Any:
        return self.read()


def with_clock(clock: Any) -> tuple[Server, list[Any], Client]:
    server, entered = price_server(protection=ProtectionConfig(keyring=ring(), clock=clock))
    return server, entered, Client(server.asgi())


@each_broken
def test_while_the_clock_is_broken_nothing_is_opened(
    broken: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    clock = Replaceable()
    server, entered, client = with_clock(clock)
    good = clock.read
    token = client.call_tool("set_price", {}).result["requestState"]
    entered.clear()
    clock.read = broken
    response = client.call_tool("set_price", {}, id=2, state=token, answers=accept(price=1))
    assert (response.status, response.error) == (500, INTERNAL)
    assert entered == []
    assert token not in caplog.text
    assert '"step"' not in told_in(caplog.records)  # of the state, as it is sealed
    # The honest flow was not told to give up: once the clock is right again, the same token opens.
    clock.read = good
    assert client.call_tool("set_price", {}, id=2, state=token, answers=accept(price=1)).status == 200
    assert server.protection_keyring_manager.snapshot().last_used == {"k1": 1_800_000_000.0}


@each_broken
def test_while_the_clock_is_broken_nothing_is_sealed(
    broken: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    clock = Replaceable()
    server, _, client = with_clock(clock)
    good = clock.read
    clock.read = broken
    response = client.call_tool("set_price", {})
    assert response.status == 200
    assert response.error in (INTERNAL, UNSEALED)
    assert b"secret" not in response.body
    assert caplog.records
    clock.read = good
    assert client.call_tool("set_price", {}).result["resultType"] == "input_required"
    assert server.protection_keyring_manager.snapshot().sealing_reservations == {"k1": 0}


@each_broken
def test_a_broken_clock_changes_nothing_for_what_needs_no_time(broken: Callable[[], Any]) -> None:
    clock = Replaceable()
    server, _, client = with_clock(clock)
    server.tool("plain")(lambda ctx: "done")
    clock.read = broken
    assert client.call_tool("plain").result["resultType"] == "complete"
    assert client.call_tool("set_price", {}, id=2, state="no token").body == FROZEN
    assert server.protection_keyring_manager.snapshot().active_key_id == "k1"


EDGES_MS = [INT64_MAX - ms for ms in (0, 1, 59_999, 60_000, 60_001, LIFETIME_MS - 1, LIFETIME_MS, LIFETIME_MS + 1)]
EDGES_MS += [INT64_MIN, INT64_MIN + 1, INT64_MIN + 60_000, INT64_MIN + LIFETIME_MS, -1, 0, 1]


@pytest.mark.parametrize("at_ms", EDGES_MS)
def test_at_the_ends_of_what_a_token_can_hold_nothing_wraps_around(at_ms: int) -> None:
    clock = Replaceable()
    server, entered, client = with_clock(clock)
    token = client.call_tool("set_price", {}).result["requestState"]
    entered.clear()
    clock.read = lambda: Fraction(at_ms, 1000)
    refused = client.call_tool("set_price", {}, id=2, state=token, answers=accept(price=1))
    assert (refused.status, refused.body) == (400, FROZEN)
    assert entered == []
    asked = client.call_tool("set_price", {})
    if at_ms > INT64_MAX - LIFETIME_MS:  # its expiry would not fit
        assert asked.status == 200
        assert asked.error in (INTERNAL, UNSEALED)
    else:
        sealed = asked.result["requestState"]
        clock.read = lambda: Fraction(at_ms + LIFETIME_MS - 1, 1000)
        assert client.call_tool("set_price", {}, id=2, state=sealed, answers=accept(price=1)).status == 200
        clock.read = lambda: Fraction(at_ms + LIFETIME_MS, 1000)
        assert client.call_tool("set_price", {}, id=2, state=sealed, answers=accept(price=1)).body == FROZEN
    assert server.protection_keyring_manager.snapshot().sealing_reservations == {"k1": 0}


@pytest.mark.parametrize(
    "seconds",
    [-1.0, -1e9, 0, 0.0, 1, 1_800_000_000, Decimal("1800000000.001"), Fraction(10**12, 7), 253_402_300_799, 1e12, 1e15],
)
def test_any_other_clock_is_as_good_as_another(seconds: Any) -> None:
    """Only differences count, so instances that agree on a wrong time serve each other's flows."""
    (_, _, here), (_, entered, there) = with_clock(lambda: seconds), with_clock(lambda: seconds)
    token = here.call_tool("set_price", {}).result["requestState"]
    done = there.call_tool("set_price", {}, id=2, state=token, answers=accept(price=1))
    assert done.result["resultType"] == "complete"
    assert len(entered) == 1


def test_the_clock_is_read_anew_for_each_request() -> None:
    clock = Replaceable()
    _, entered, client = with_clock(clock)
    token = client.call_tool("set_price", {}).result["requestState"]
    entered.clear()
    for late in (1_800_000_900.0, 1_800_000_901.0, 4e9):
        clock.read = lambda late=late: late  # type: ignore[misc]
        assert client.call_tool("set_price", {}, id=2, state=token).body == FROZEN
    assert entered == []
