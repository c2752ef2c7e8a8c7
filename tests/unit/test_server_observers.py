"""Events, counters and limited log records: what an operator is told of, how often, and what never."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import threading
import warnings
from typing import Any

import pytest

from mcpinput import (
    ProtectionConfig,
    ProtectionFailure,
    ProtectionKey,
    ProtectionKeyringSnapshot,
    Rejection,
    RequestContext,
    RequestStateMode,
    RequestStateProtectionError,
    Server,
    TransportFacts,
    input_required,
)
from mcpinput.server.counters import CountersSnapshot
from mcpinput.server.observers import Dropped, Observers, Outcome
from tests.support.asgi import Client
from tests.support.servers import FORM, Clock, Recorder, accept, ask_form, price_server, ring

FACTS = TransportFacts(None, None, {})
NOBODY: Any = None  # a context that no observer here looks at


def refused(failure: ProtectionFailure | None = ProtectionFailure.UNKNOWN_KEY, **facts: Any) -> Rejection:
    return Rejection(400, -32602, "request state", "tools/call", failure, **facts)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The fields that a formatter of JSON finds beside those of every record."""
    return {
        name.removeprefix("mcpinput_"): value for name, value in vars(record).items() if name.startswith("mcpinput_")
    }


# ---- log records ----


def test_a_refused_token_is_a_record_with_text_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    Observers([]).rejection(
        FACTS, refused(ProtectionFailure.TENANT, key_id="k1", age_ms=5, round=2, operation="tool 'pay'")
    )
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("mcpinput", logging.WARNING)
    text = "request state refused: tenant (key k1, age 5 ms, round 2, method tools/call, operation tool 'pay')"
    assert record.getMessage() == text
    assert fields_of(record) == {
        "event": "state_refused",
        "failure": "tenant",
        "key_id": "k1",
        "age_ms": 5,
        "round": 2,
        "method": "tools/call",
        "operation": "tool 'pay'",
        "audience": None,
        "detail": None,
        "left_out": 0,
    }


def test_what_is_not_known_of_a_token_is_left_out_of_the_text(caplog: pytest.LogCaptureFixture) -> None:
    Observers([]).rejection(FACTS, refused(ProtectionFailure.MALFORMED))
    assert caplog.messages == ["request state refused: malformed (method tools/call)"]


def test_a_foreign_audience_names_our_own_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    Observers([]).rejection(FACTS, refused(ProtectionFailure.AUDIENCE, audience="pod-7"))
    (record,) = caplog.records
    assert record.getMessage() == (
        "request state refused: audience (method tools/call); this server's audience is 'pod-7': all instances of a "
        "service must share one name, or ProtectionConfig(audience=...)"
    )
    assert fields_of(record)["audience"] == "pod-7"


def test_other_refusals_are_no_records(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    Observers([]).rejection(FACTS, refused(None))
    assert caplog.records == []


def test_state_that_could_not_be_sealed_is_a_record_with_text_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    observers = Observers([])
    failure = RequestStateProtectionError(ProtectionFailure.ROUND, age_ms=7, round=11)
    observers.seal_failed("tool 'pay'", failure, "it has asked 10 times")
    observers.seal_failed("tool 'pay'", RequestStateProtectionError(ProtectionFailure.NOT_JSON))
    first, second = caplog.records
    assert first.levelno == logging.ERROR
    assert first.getMessage() == (
        "tool 'pay': its state could not be sealed: round (age 7 ms, round 11); it has asked 10 times"
    )
    assert fields_of(first) == {
        "event": "state_not_sealed",
        "failure": "round",
        "operation": "tool 'pay'",
        "age_ms": 7,
        "round": 11,
        "detail": "it has asked 10 times",
        "left_out": 0,
    }
    assert second.getMessage() == "tool 'pay': its state could not be sealed: not json"


def test_ten_records_a_second_for_each_reason_and_the_next_tells_of_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(100.0)
    observers = Observers([], clock=clock)

    def attack(times: int, failure: ProtectionFailure = ProtectionFailure.UNKNOWN_KEY) -> list[int]:
        """What each record that was written says of those that were not."""
        caplog.clear()
        for _ in range(times):
            observers.rejection(FACTS, refused(failure))
        return [fields_of(record)["left_out"] for record in caplog.records]

    assert attack(25) == [0] * 10
    clock.now = 100.999
    assert attack(5) == []
    assert attack(1, ProtectionFailure.TENANT) == [0]
    clock.now = 101.0
    assert attack(2) == [20, 0]
    assert "[20 more like this were not logged]" in caplog.messages[0]
    clock.now = 3600.0
    assert attack(1) == [0]
    assert attack(1, ProtectionFailure.TENANT) == [0]
    assert observers.counters.snapshot().state_refused == {"unknown key": 33, "tenant": 2}


def test_opening_and_sealing_do_not_share_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    observers = Observers([], clock=Clock())
    for _ in range(12):
        observers.rejection(FACTS, refused(ProtectionFailure.EXPIRED))
        observers.seal_failed("tool 'pay'", RequestStateProtectionError(ProtectionFailure.EXPIRED))
    assert len(caplog.records) == 20


def test_no_record_is_lost_or_written_twice_among_threads(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    observers = Observers([], clock=clock)

    def work() -> None:
        for _ in range(500):
            observers.rejection(FACTS, refused())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(caplog.records) == 10
    clock.now += 1
    observers.rejection(FACTS, refused())
    assert fields_of(caplog.records[-1])["left_out"] == 3990
    assert observers.counters.snapshot().state_refused == {ProtectionFailure.UNKNOWN_KEY: 4001}
    assert observers.counters.snapshot().requests_refused == {"request state": 4001}


# ---- counters ----


def test_counters_of_a_server_that_has_done_nothing() -> None:
    assert Observers([]).counters.snapshot() == CountersSnapshot({}, {}, {}, {}, {})


def test_everything_is_counted_once() -> None:
    observers = Observers([])
    observers.request(NOBODY)
    observers.outcome(NOBODY, Outcome("complete", 200))
    observers.outcome(NOBODY, Outcome("error", 200, -32603, ProtectionFailure.TOO_LARGE))
    observers.seal_failed("tool 'pay'", RequestStateProtectionError(ProtectionFailure.TOO_LARGE))
    observers.dropped(NOBODY, Dropped(("a", "b"), "malformed"))
    observers.dropped(NOBODY, Dropped(("a",), "no state"))
    observers.rejection(FACTS, Rejection(403, None, "origin"))
    observers.rejection(FACTS, refused())
    assert observers.counters.snapshot() == CountersSnapshot(
        requests_refused={"origin": 1, "request state": 1},
        state_refused={ProtectionFailure.UNKNOWN_KEY: 1},
        seals_failed={ProtectionFailure.TOO_LARGE: 1},
        outcomes={"complete": 1, "error": 1},
        responses_dropped={"malformed": 2, "no state": 1},
    )


def test_a_snapshot_does_not_change() -> None:
    observers = Observers([])
    observers.outcome(NOBODY, Outcome("complete", 200))
    before = observers.counters.snapshot()
    observers.outcome(NOBODY, Outcome("complete", 200))
    assert before.outcomes == {"complete": 1}
    with pytest.raises(TypeError):
        before.outcomes["complete"] = 7  # type: ignore[index]
    with pytest.raises(AttributeError):
        before.outcomes = {}  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(before)) == before
    assert observers.counters.snapshot().outcomes == {"complete": 2}


def test_servers_count_for_themselves() -> None:
    first, second = Observers([]), Observers([])
    first.outcome(NOBODY, Outcome("complete", 200))
    assert second.counters.snapshot().outcomes == {}


def test_a_flow_and_what_was_refused_of_it_are_counted() -> None:
    server, _ = price_server()
    client = Client(server.asgi())
    token = client.call_tool("set_price", {}).result["requestState"]
    assert client.call_tool("set_price", {"a": 1}, id=2, state=token).status == 400
    assert client.call_tool("set_price", {}, id=2, state="!").status == 400
    assert client.call_tool("set_price", {}, id=2, state=token, answers=accept(price=1)).status == 200
    client.call_tool("set_price", {}, answers=accept(price=1))
    client.call_tool("nothing")
    counted = server.counters.snapshot()
    assert counted.outcomes == {"input_required": 2, "complete": 1}
    assert counted.state_refused == {"parameters": 1, "malformed": 1}
    assert counted.requests_refused == {"request state": 2, "operation": 1}
    assert counted.responses_dropped == {"no state": 1}
    assert counted.seals_failed == {}


# ---- in a child of fork ----


def in_child(check: Any) -> None:
    """Runs a check in a child of fork, which has ten seconds for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn where threads run, which is the case
        child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(10)
            check()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def test_a_child_counts_from_zero_and_waits_for_no_thread_of_its_parent() -> None:
    observers = Observers([])
    observers.rejection(FACTS, refused())
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with observers._limiter._lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()

    def check() -> None:
        assert observers.counters.snapshot().state_refused == {}
        observers.rejection(FACTS, refused())
        assert observers.counters.snapshot().state_refused == {"unknown key": 1}

    try:
        in_child(check)
    finally:
        done.set()
        thread.join()
    assert observers.counters.snapshot().state_refused == {"unknown key": 1}


# ---- observers ----


def test_a_change_of_the_ring_and_a_bad_key_file_are_told() -> None:
    told: list[object] = []

    class Watch:
        def on_keyring_change(self, snapshot: object) -> None:
            told.append(snapshot)

        def on_key_file_problem(self, problem: str) -> None:
            told.append(problem)

    observers = Observers([Watch(), Recorder()])
    server, _ = price_server()
    snapshot = server.protection_keyring_manager.snapshot()
    observers.keyring_change(snapshot)
    observers.key_file_problem("keys.json is empty")
    assert told == [snapshot, "keys.json is empty"]


def test_an_observer_that_fails_hides_nothing_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        def on_rejection(self, *event: object) -> None:
            raise SystemExit(3)

        on_keyring_change = on_key_file_problem = on_dropped = on_rejection

    recorder = Recorder()
    observers = Observers([Failing(), recorder])
    observers.rejection(FACTS, refused())
    observers.dropped(NOBODY, Dropped((), "malformed"))
    observers.key_file_problem("x")
    assert (len(recorder.rejections), len(recorder.drops)) == (1, 1)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "an observer failed; what it was told of goes on"
    ] * 3


def test_a_live_change_of_a_servers_ring_reaches_its_observers() -> None:
    told: list[str] = []

    class Watch:
        def on_keyring_change(self, snapshot: ProtectionKeyringSnapshot) -> None:
            told.append(snapshot.active_key_id)

    server, _ = price_server(observer=Watch())
    server.protection_keyring_manager.rotate_active_key(ProtectionKey.from_id_and_bytes("k2", bytes(range(1, 33))))
    assert told == ["k2"]


@pytest.mark.parametrize("name", ["on_keyring_change", "on_key_file_problem"])
def test_one_of_the_newer_methods_is_enough_and_must_be_a_plain_def(name: str) -> None:
    async def coroutine(self: object, event: object) -> None: ...

    Server("s", version="1", observers=[type("Plain", (), {name: lambda self, event: None})()])
    with pytest.raises(TypeError, match=rf"Waiting\.{name}"):
        Server("s", version="1", observers=[type("Waiting", (), {name: coroutine})()])


# ---- through a whole server ----


def test_a_token_of_a_replica_of_another_name_is_told_with_our_own(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    first, _ = price_server(name="pod-1")
    second, _ = price_server(name="pod-2", observer=recorder)
    token = Client(first.asgi()).call_tool("set_price", {}).result["requestState"]
    assert Client(second.asgi()).call_tool("set_price", {}, id=2, state=token).status == 400
    assert recorder.rejections[-1].failure is ProtectionFailure.AUDIENCE
    assert recorder.rejections[-1].audience == "pod-2"
    assert "this server's audience is 'pod-2'" in caplog.messages[-1]
    assert Client(second.asgi()).call_tool("set_price", {}, id=2, state="!").status == 400
    assert recorder.rejections[-1].audience is None


def test_state_that_is_not_json_is_an_outcome_a_count_and_a_record(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    server = Server("s", version="1", protection=ProtectionConfig.ephemeral(), observers=[recorder])

    @server.tool("t", input_requests=[FORM], request_state=RequestStateMode.FRAMEWORK_PROTECTED)
    async def t(ctx: RequestContext) -> Any:
        return input_required({"price": ask_form()}, framework_request_state={"secret": 1.5})

    assert Client(server.asgi()).call_tool("t").error["code"] == -32603
    assert recorder.outcomes == [Outcome("error", 200, -32603, ProtectionFailure.NOT_JSON, None, 1)]
    assert server.counters.snapshot().seals_failed == {ProtectionFailure.NOT_JSON: 1}
    assert server.counters.snapshot().outcomes == {"error": 1}
    (record,) = caplog.records
    assert fields_of(record)["operation"] == "tool 't'"
    assert "float" in record.getMessage()
    assert "secret" not in record.getMessage()


def test_an_ask_over_the_last_round_is_an_outcome_with_round_and_age(caplog: pytest.LogCaptureFixture) -> None:
    recorder, clock = Recorder(), Clock()
    protection = ProtectionConfig(keyring=ring(), clock=clock, maximum_request_state_rounds=1)
    server, _ = price_server(protection=protection, observer=recorder)
    client = Client(server.asgi())
    token = client.call_tool("set_price", {}).result["requestState"]
    clock.now += 3
    assert client.call_tool("set_price", {}, id=2, state=token).error["code"] == -32603
    assert recorder.outcomes[-1] == Outcome("error", 200, -32603, ProtectionFailure.ROUND, 3000, 2)
    assert caplog.messages == [
        "tool 'set_price': its state could not be sealed: round (age 3000 ms, round 2); it has asked 1 times, "
        "the maximum; see ctx.rounds_left before asking again"
    ]
