"""The ledger of spent tokens, over stores that behave and stores that do not."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from mcpinput.errors import ProtectionFailure, RequestStateProtectionError, StoreUnavailableError
from mcpinput.protection import ProtectionConfig, single_use
from mcpinput.protection.single_use import KEPT_AFTER_EXPIRY_MS, SingleUse
from mcpinput.stores import MemoryStore

FLOW = bytes(range(16))
NOW_MS = 1_800_000_000_000
EXPIRES_MS = NOW_MS + 900_000
SECRET = "postgres://user:hunter2@db"


class Clock:
    def __init__(self):
        self.ms = NOW_MS

    def __call__(self):
        return self.ms / 1000


class Store:
    """A store whose methods do what a test says."""

    def __init__(self, insert=None, delete=None):
        self.does = {"insert": insert, "delete": delete}
        self.calls = []

    async def get(self, kind, key):
        raise AssertionError("single use reads nothing")

    async def insert(self, kind, key, value, *, expires_ms):
        return await self._do("insert", kind, key, value, expires_ms)

    async def delete(self, kind, key, version):
        return await self._do("delete", kind, key, version)

    async def _do(self, method, *arguments):
        self.calls.append((method, *arguments))
        does = self.does[method]
        if isinstance(does, BaseException):
            raise does
        return await does() if callable(does) else does


def spend(store, flow_id=FLOW, round=1, expires_ms=EXPIRES_MS):
    return SingleUse(store).spend(flow_id, round, expires_ms)


def reason(coroutine):
    with pytest.raises(RequestStateProtectionError) as caught:
        asyncio.run(coroutine)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert SECRET not in repr(vars(caught.value))
    return caught.value.reason


def test_one_record_under_flow_and_round():
    store = Store(insert=b"v" * 16)
    asyncio.run(spend(store, round=3))
    assert store.calls == [("insert", "spent", "000102030405060708090a0b0c0d0e0f-3", b"", EXPIRES_MS + 120_000)]


def test_a_token_is_spent_once():
    async def run():
        ledger = SingleUse(MemoryStore(clock=Clock()))
        await ledger.spend(FLOW, 1, EXPIRES_MS)
        for _ in range(3):
            with pytest.raises(RequestStateProtectionError) as caught:
                await ledger.spend(FLOW, 1, EXPIRES_MS)
            assert caught.value.reason is ProtectionFailure.SPENT
            assert caught.value.round == 1
        await ledger.spend(FLOW, 2, EXPIRES_MS)
        await ledger.spend(bytes(16), 1, EXPIRES_MS)

    asyncio.run(run())


def test_a_token_stays_spent_until_two_minutes_after_its_expiry():
    clock = Clock()
    store = MemoryStore(clock=clock)
    asyncio.run(spend(store))
    clock.ms = EXPIRES_MS + KEPT_AFTER_EXPIRY_MS - 1
    assert reason(spend(store)) is ProtectionFailure.SPENT


def test_a_clock_of_the_store_that_is_far_ahead_lets_nothing_through():
    clock = Clock()
    clock.ms = EXPIRES_MS + KEPT_AFTER_EXPIRY_MS
    store = MemoryStore(clock=clock)
    assert [reason(spend(store)) for _ in range(2)] == [ProtectionFailure.UNAVAILABLE] * 2


def test_of_fifty_at_once_one_goes_on():
    async def one(ledger):
        try:
            await ledger.spend(FLOW, 1, EXPIRES_MS)
        except RequestStateProtectionError as failure:
            return failure.reason
        return None

    async def run():
        ledger = SingleUse(MemoryStore(clock=Clock()))
        return await asyncio.gather(*(one(ledger) for _ in range(50)))

    reasons = asyncio.run(run())
    assert reasons.count(None) == 1
    assert reasons.count(ProtectionFailure.SPENT) == 49


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailableError(SECRET),
        TimeoutError(SECRET),
        ConnectionRefusedError(SECRET),
        ConnectionResetError(SECRET),
        OSError(SECRET),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_outage_is_unavailable(error, caplog):
    assert reason(spend(Store(insert=error))) is ProtectionFailure.UNAVAILABLE
    assert caplog.records == []


@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRET),
        KeyError(SECRET),
        SystemExit(SECRET),
        asyncio.CancelledError(SECRET),
        ExceptionGroup(SECRET, [ValueError(SECRET)]),
        BaseExceptionGroup(SECRET, [SystemExit(SECRET)]),
        RequestStateProtectionError(ProtectionFailure.SPENT),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_other_failure_is_unavailable_and_logged_by_type(error, caplog):
    assert reason(spend(Store(insert=error))) is ProtectionFailure.UNAVAILABLE
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert type(error).__name__ in record.getMessage()
    assert SECRET not in record.getMessage()
    assert record.exc_info is None


@pytest.mark.parametrize("answer", [True, False, "ok", 1, 0, b"", "", object(), [b"v"]], ids=repr)
def test_an_answer_of_another_type_is_unavailable(answer, caplog):
    assert reason(spend(Store(insert=answer))) is ProtectionFailure.UNAVAILABLE
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert type(answer).__name__ in record.getMessage()


def test_what_ends_the_process_goes_through():
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(spend(Store(insert=KeyboardInterrupt())))


def test_a_silent_store_is_unavailable(monkeypatch):
    monkeypatch.setattr(single_use, "TIME_LIMIT", 0.01)
    store = Store(insert=asyncio.Event().wait)
    assert reason(spend(store)) is ProtectionFailure.UNAVAILABLE


def test_a_store_that_fails_when_its_time_is_up_is_unavailable(monkeypatch):
    async def stubborn():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError(SECRET) from None

    monkeypatch.setattr(single_use, "TIME_LIMIT", 0.01)
    assert reason(spend(Store(insert=stubborn))) is ProtectionFailure.UNAVAILABLE


def test_a_cancelled_spend_leaves_nothing_behind():
    problems = []

    async def run():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(context))
        store = Store(insert=asyncio.Event().wait)
        task = asyncio.create_task(spend(store))
        await asyncio.sleep(0)  # the task runs up to its first wait
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert [call[0] for call in store.calls] == ["insert"]
        del task
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(run())
    assert problems == []


# ---- giving back ----


def test_a_token_that_is_given_back_opens_once_more():
    async def run():
        ledger = SingleUse(MemoryStore(clock=Clock()))
        await (await ledger.spend(FLOW, 1, EXPIRES_MS)).give_back()
        await ledger.spend(FLOW, 1, EXPIRES_MS)
        with pytest.raises(RequestStateProtectionError):
            await ledger.spend(FLOW, 1, EXPIRES_MS)

    asyncio.run(run())


def test_a_later_request_is_not_undone(caplog):
    async def run():
        ledger = SingleUse(MemoryStore(clock=Clock()))
        first = await ledger.spend(FLOW, 1, EXPIRES_MS)
        await first.give_back()
        await ledger.spend(FLOW, 1, EXPIRES_MS)
        await first.give_back()
        with pytest.raises(RequestStateProtectionError) as caught:
            await ledger.spend(FLOW, 1, EXPIRES_MS)
        assert caught.value.reason is ProtectionFailure.SPENT

    asyncio.run(run())
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize(
    "failing",
    [
        {"delete": StoreUnavailableError(SECRET)},
        {"delete": OSError(SECRET)},
        {"delete": ValueError(SECRET)},
        {"delete": asyncio.CancelledError(SECRET)},
        {"delete": SystemExit(SECRET)},
        {"delete": asyncio.Event().wait},
        {"delete": None},
        {"delete": False},
        {"delete": "yes"},
    ],
    ids=lambda failing: repr(failing["delete"])[:30],
)
def test_giving_back_raises_nothing(failing, monkeypatch, caplog):
    monkeypatch.setattr(single_use, "TIME_LIMIT", 0.01)

    async def run():
        spent = await spend(Store(insert=b"v" * 16, **failing))
        assert await spent.give_back() is None

    asyncio.run(run())
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert SECRET not in record.getMessage()
    assert record.exc_info is None


def test_giving_back_can_be_cancelled():
    async def run():
        store = Store(insert=b"v" * 16, delete=asyncio.Event().wait)
        spent = await spend(store)
        task = asyncio.create_task(spent.give_back())
        await asyncio.sleep(0)  # the task runs up to its first wait
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


# ---- configuration ----


def test_single_use_is_off_by_default():
    assert ProtectionConfig.ephemeral().single_use is None


@pytest.mark.parametrize("store", [MemoryStore(), Store()], ids=["memory", "of the application"])
def test_a_store_turns_it_on(store):
    assert ProtectionConfig.ephemeral(single_use=store).single_use is store


@pytest.mark.parametrize("lacking", ["get", "insert", "delete"])
def test_what_a_store_lacks_is_named(lacking):
    async def method(self):
        raise NotImplementedError

    def plain(self):
        raise NotImplementedError

    methods = {name: method for name in ("get", "insert", "delete") if name != lacking}
    for store in (type("Store", (), methods)(), type("Store", (), methods | {lacking: plain})()):
        with pytest.raises(TypeError, match=rf"single_use must have a method async def {lacking}\(\); see RecordStore"):
            ProtectionConfig.ephemeral(single_use=store)


@pytest.mark.parametrize("other", [True, "sqlite:///ledger", {}, object()], ids=repr)
def test_what_is_no_store_is_refused(other):
    with pytest.raises(TypeError, match="single_use must have a method"):
        ProtectionConfig.ephemeral(single_use=other)


def test_a_class_is_no_store():
    with pytest.raises(TypeError, match="not the class MemoryStore: call it"):
        ProtectionConfig.ephemeral(single_use=MemoryStore)
