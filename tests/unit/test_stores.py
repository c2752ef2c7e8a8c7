"""Record stores: one behaviour, whatever the backend; and what is of SQLite alone."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from mcpinput.errors import StoreUnavailableError
from mcpinput.stores import MemoryStore, Record, SqliteStore
from mcpinput.stores import sqlite as backend

NOW_MS = 1_800_000_000_000
SECONDS = 60


class Clock:
    def __init__(self):
        self.ms = NOW_MS

    def __call__(self):
        return self.ms / 1000


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request, clock, tmp_path):
    if request.param == "memory":
        yield MemoryStore(clock=clock)
    else:
        made = SqliteStore(tmp_path / "records.db", clock=clock)
        yield made
        made.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "records.db"


@pytest.fixture
def file_store(path, clock):
    made = SqliteStore(path, clock=clock)
    yield made
    made.close()


def get(store, key="a", kind="spent"):
    return asyncio.run(store.get(kind, key))


def insert(store, key="a", kind="spent", value=b"", expires_ms=NOW_MS + 1000):
    return asyncio.run(store.insert(kind, key, value, expires_ms=expires_ms))


def delete(store, version, key="a", kind="spent"):
    return asyncio.run(store.delete(kind, key, version))


# ---- every store ----


def test_a_record_comes_back_as_it_was_given(store):
    version = insert(store, key="a\0\u00e9\U0001f600", kind="k'\"", value=bytes(range(256)), expires_ms=NOW_MS + 1)
    found = get(store, key="a\0\u00e9\U0001f600", kind="k'\"")
    assert found == Record(
        kind="k'\"", key="a\0\u00e9\U0001f600", value=bytes(range(256)), version=version, expires_ms=NOW_MS + 1
    )


def test_nothing_is_found_where_nothing_was_put(store):
    insert(store)
    assert get(store, key="b") is None
    assert get(store, kind="other") is None
    assert get(store, key="a\0") is None
    assert get(store, key="A") is None


def test_an_insert_adds_and_never_replaces(store):
    version = insert(store, value=b"first")
    assert insert(store, value=b"second", expires_ms=NOW_MS + 5000) is None
    found = get(store)
    assert (found.value, found.version, found.expires_ms) == (b"first", version, NOW_MS + 1000)


def test_versions_have_128_bits_and_are_never_the_same(store):
    versions = set()
    for _ in range(100):
        version = insert(store)
        assert isinstance(version, bytes)
        assert len(version) == 16
        versions.add(version)
        assert delete(store, version)
    assert len(versions) == 100


def test_delete_wants_the_version_that_is_there(store):
    first = insert(store)
    assert delete(store, bytes(16)) is False
    assert delete(store, first[:-1]) is False
    assert delete(store, first, key="b") is False
    assert get(store).version == first
    assert delete(store, first) is True
    assert delete(store, first) is False
    assert get(store) is None
    second = insert(store)
    assert delete(store, first) is False
    assert get(store).version == second


def test_a_record_is_absent_from_the_millisecond_at_which_it_expires(store, clock):
    first = insert(store, expires_ms=NOW_MS + 1000)
    clock.ms = NOW_MS + 999
    assert get(store) is not None
    assert insert(store) is None
    clock.ms = NOW_MS + 1000
    assert get(store) is None
    assert delete(store, first) is False
    second = insert(store, value=b"new", expires_ms=NOW_MS + 2000)
    assert second not in (None, first)
    assert get(store).value == b"new"


@pytest.mark.parametrize("expires_ms", [NOW_MS, NOW_MS - 1, 0, -1, -(2**70)])
def test_a_record_that_expired_already_is_refused(store, expires_ms):
    with pytest.raises(ValueError, match="not later than now"):
        insert(store, expires_ms=expires_ms)
    assert get(store) is None


def test_a_record_that_expired_already_is_refused_over_a_live_one_too(store):
    insert(store)
    with pytest.raises(ValueError, match="not later than now"):
        insert(store, expires_ms=NOW_MS)
    assert get(store) is not None


def test_a_clock_that_steps_back_brings_no_second_insert(store, clock):
    insert(store, expires_ms=NOW_MS + 1000)
    clock.ms = NOW_MS - 3_600_000
    assert insert(store) is None
    assert get(store) is not None


def test_a_clock_that_steps_forward_expires(store, clock):
    insert(store, expires_ms=NOW_MS + 1000)
    clock.ms = NOW_MS + 3_600_000
    assert get(store) is None
    assert insert(store, expires_ms=NOW_MS + 3_600_001) is not None


def test_the_last_millisecond_that_there_is(store):
    insert(store, expires_ms=2**63 - 1)
    assert get(store).expires_ms == 2**63 - 1
    with pytest.raises(ValueError, match="below 2"):
        insert(store, key="b", expires_ms=2**63)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"kind": b"spent"}, "kind must be a str, not bytes"),
        ({"key": None}, "key must be a str, not NoneType"),
        ({"value": "text"}, "value must be bytes, not str"),
        ({"value": bytearray(1)}, "value must be bytes, not bytearray"),
        ({"expires_ms": 1e15}, "expires_ms must be an int of milliseconds, not float"),
        ({"expires_ms": True}, "expires_ms must be an int of milliseconds, not bool"),
    ],
)
def test_arguments_of_another_type_are_refused(store, arguments, text):
    with pytest.raises(TypeError, match=text):
        insert(store, **arguments)


@pytest.mark.parametrize("method", [get, insert, lambda store, **name: delete(store, b"", **name)])
@pytest.mark.parametrize("name", ["kind", "key"])
def test_text_without_utf_8_is_refused(store, method, name):
    with pytest.raises(ValueError, match=f"{name} must be text without lone surrogates"):
        method(store, **{name: "\ud800"})


def test_a_record_shows_no_content():
    record = Record(kind="spent", key="a", value=b"hunter2", version=b"v" * 16, expires_ms=1)
    assert "hunter2" not in repr(record)


def test_of_fifty_tasks_one_inserts(store):
    async def run():
        return await asyncio.gather(*(store.insert("spent", "a", b"", expires_ms=NOW_MS + 1) for _ in range(50)))

    versions = asyncio.run(run())
    assert versions.count(None) == 49


def test_of_fifty_threads_with_event_loops_of_their_own_one_inserts(store):
    together = threading.Barrier(50)

    def one(_):
        together.wait(SECONDS)
        return insert(store)

    with ThreadPoolExecutor(50) as pool:
        versions = list(pool.map(one, range(50)))
    assert versions.count(None) == 49
    assert get(store).version in versions


def test_of_fifty_tasks_one_deletes(store):
    async def run():
        version = await store.insert("spent", "a", b"", expires_ms=NOW_MS + 1)
        return await asyncio.gather(*(store.delete("spent", "a", version) for _ in range(50)))

    assert asyncio.run(run()).count(True) == 1


@pytest.mark.parametrize("clock", [lambda: 1 / 0], ids=["broken"])
def test_a_clock_that_fails_lets_nothing_through(store):
    with pytest.raises((StoreUnavailableError, ZeroDivisionError)):
        insert(store)


@pytest.mark.parametrize("make", [lambda **more: MemoryStore(**more), lambda **more: SqliteStore("unused", **more)])
def test_a_clock_is_callable(make):
    with pytest.raises(TypeError, match="clock must be callable, not float"):
        make(clock=time.time())


class Model(RuleBasedStateMachine):
    """What a store says, step by step, against a dict that forgets nothing."""

    keys = st.sampled_from(["a", "b", "c"])
    kinds = st.sampled_from(["spent", "task"])

    def __init__(self):
        super().__init__()
        self.clock = Clock()
        self.records = {}
        self.versions = [bytes(16)]
        self.store = self.make()

    def live(self, kind, key):
        found = self.records.get((kind, key))
        return None if found is None or found.expires_ms <= self.clock.ms else found

    @rule(kind=kinds, key=keys)
    def get(self, kind, key):
        assert get(self.store, key, kind) == self.live(kind, key)

    @rule(kind=kinds, key=keys, value=st.binary(max_size=4), lasts=st.integers(0, 6))
    def insert(self, kind, key, value, lasts):
        expires_ms = self.clock.ms + lasts
        if not lasts:
            with pytest.raises(ValueError, match="not later than now"):
                insert(self.store, key, kind, value, expires_ms)
            return
        version = insert(self.store, key, kind, value, expires_ms)
        assert (version is None) == (self.live(kind, key) is not None)
        if version is not None:
            assert version not in self.versions
            self.versions.append(version)
            self.records[kind, key] = Record(kind=kind, key=key, value=value, version=version, expires_ms=expires_ms)

    @rule(kind=kinds, key=keys, at=st.integers(0, 100))
    def delete_some(self, kind, key, at):
        self.delete(kind, key, self.versions[at % len(self.versions)])

    @rule(kind=kinds, key=keys)
    def delete_this(self, kind, key):
        found = self.records.get((kind, key))
        if found is not None:
            self.delete(kind, key, found.version)

    def delete(self, kind, key, version):
        found = self.live(kind, key)
        there = found is not None and found.version == version
        assert delete(self.store, version, key, kind) is there
        if there:
            del self.records[kind, key]

    @rule(ms=st.integers(0, 4))
    def pass_time(self, ms):
        self.clock.ms += ms


class MemoryModel(Model):
    def make(self):
        return MemoryStore(clock=self.clock)


def test_memory_agrees_with_the_model():
    run_state_machine_as_test(MemoryModel, settings=settings(max_examples=100, stateful_step_count=40, deadline=None))


def test_sqlite_agrees_with_the_model(tmp_path):
    made = []

    class SqliteModel(Model):
        def make(self):
            made.append(SqliteStore(tmp_path / f"{len(made)}.db", clock=self.clock))
            return made[-1]

        def teardown(self):
            self.store.close()

    run_state_machine_as_test(
        SqliteModel,
        settings=settings(
            max_examples=20, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )


# ---- memory ----


def test_memory_stays_flat_under_records_that_expire(clock):
    store = MemoryStore(clock=clock)

    async def fill(first, count):
        for number in range(first, first + count):
            clock.ms += 1
            assert await store.insert("spent", str(number), b"", expires_ms=clock.ms + 1000)

    asyncio.run(fill(0, 2000))
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        asyncio.run(fill(2000, 100_000))
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 2_000_000  # about 1,000 records are alive


def test_memory_follows_after_a_burst(clock):
    store = MemoryStore(clock=clock, maximum_records=1000)
    for number in range(1000):
        insert(store, str(number))
    with pytest.raises(StoreUnavailableError, match="the store is full: 1000 records; see maximum_records"):
        insert(store, "one more")
    assert insert(store, "0") is None
    clock.ms += 1000
    for number in range(1000):
        assert insert(store, f"later {number}", expires_ms=clock.ms + 1000)
    with pytest.raises(StoreUnavailableError):
        insert(store, "one more", expires_ms=clock.ms + 1000)


def test_memory_stays_flat_under_records_that_are_deleted(clock):
    store = MemoryStore(clock=clock)

    async def churn(count):
        for _ in range(count):
            version = await store.insert("spent", "a", b"", expires_ms=NOW_MS + 10**9)
            assert await store.delete("spent", "a", version)

    asyncio.run(churn(1000))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        asyncio.run(churn(20_000))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 200_000


def test_deleted_records_leave_the_others_their_expiry(clock):
    store = MemoryStore(clock=clock, maximum_records=100)
    kept = [insert(store, f"kept {number}", expires_ms=NOW_MS + 500) for number in range(50)]
    for _ in range(1000):
        assert delete(store, insert(store, expires_ms=NOW_MS + 10**9))
    assert None not in kept
    clock.ms += 500
    for number in range(100):
        assert insert(store, f"later {number}", expires_ms=NOW_MS + 1000)


@pytest.mark.parametrize(("maximum", "error"), [(0, ValueError), (-1, ValueError), (True, TypeError), (1.5, TypeError)])
def test_a_maximum_is_a_positive_int(maximum, error):
    with pytest.raises(error, match="maximum_records must be"):
        MemoryStore(maximum_records=maximum)


# ---- SQLite: the file ----


def test_a_file_is_made_for_its_owner_alone(path, clock):
    before = os.umask(0)
    try:
        store = SqliteStore(path, clock=clock)
        insert(store)
        modes = {name: stat.S_IMODE(os.stat(path.parent / name).st_mode) for name in os.listdir(path.parent)}
        store.close()
    finally:
        os.umask(before)
    assert modes == {f"records.db{more}": 0o600 for more in ("", "-wal", "-shm", "-turnstile")}


def test_records_outlive_the_store(path, clock):
    store = SqliteStore(path, clock=clock)
    version = insert(store)
    store.close()
    again = SqliteStore(path, clock=clock)
    assert get(again).version == version
    assert insert(again) is None
    again.close()


def test_an_answer_is_on_the_disk(file_store, path):
    version = insert(file_store)
    other = sqlite3.connect(path)
    assert other.execute("SELECT version FROM records").fetchall() == [(version,)]
    other.close()


def test_every_commit_is_flushed(path):
    store = SqliteStore(path)
    file = backend._File(str(path))
    assert file.connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert file.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    file.close()
    store.close()


@pytest.mark.parametrize("name", ["with space", "100%25", "a?mode=ro", "b#c", "d&e", "\u00e9\u4e2d", "'", '"', ";--"])
def test_any_name_of_a_file_will_do(tmp_path, clock, name):
    store = SqliteStore(tmp_path / name, clock=clock)
    insert(store)
    store.close()
    assert (tmp_path / name).stat().st_size > 0
    assert set(os.listdir(tmp_path)) == {name, f"{name}-turnstile"}


def test_a_relative_path_stays_the_same_file(tmp_path, clock, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("records.db", clock=clock)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    insert(store)
    store.close()
    assert os.listdir(tmp_path / "elsewhere") == []


def test_an_empty_file_becomes_a_store(path, clock):
    path.touch()
    store = SqliteStore(path, clock=clock)
    insert(store)
    store.close()


@pytest.mark.parametrize("given", ["", ":memory:"])
def test_a_store_in_memory_is_another_one(given):
    with pytest.raises(ValueError, match="use MemoryStore"):
        SqliteStore(given)


@pytest.mark.parametrize("given", [None, 3, b"records.db"])
def test_a_path_is_text(given):
    with pytest.raises(TypeError):
        SqliteStore(given)


def refusal(path):
    with pytest.raises(StoreUnavailableError) as caught:
        SqliteStore(path)
    assert str(path) in str(caught.value)
    assert caught.value.__context__ is None
    return str(caught.value)


def test_what_is_no_database_is_refused_and_left_alone(path):
    path.write_bytes(b"no database, but long enough to have a header" * 100)
    before = path.read_bytes()
    assert "file is not a database" in refusal(path)
    assert path.read_bytes() == before


def test_a_folder_that_is_missing(tmp_path):
    assert "No such file or directory" in refusal(tmp_path / "missing" / "records.db")


def test_a_folder_in_place_of_a_file(tmp_path):
    assert "unable to open database file" in refusal(tmp_path)


def test_a_database_of_another_application_is_refused_and_left_alone(path):
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE accounts (id INTEGER)")
    other.commit()
    other.close()
    before = path.read_bytes()
    assert "another application" in refusal(path)
    assert path.read_bytes() == before


def test_another_version_of_the_schema_is_refused(path):
    SqliteStore(path).close()
    other = sqlite3.connect(path)
    other.execute(f"PRAGMA user_version = {backend.SCHEMA_VERSION + 1}")
    other.close()
    assert f"version {backend.SCHEMA_VERSION + 1} of the store's schema" in refusal(path)


def test_a_damaged_file_is_an_outage(path, clock):
    store = SqliteStore(path, clock=clock)
    for number in range(200):
        insert(store, str(number), value=bytes(100))
    store.close()
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    damaged = SqliteStore(path, clock=clock)
    with pytest.raises(StoreUnavailableError, match="malformed"):
        insert(damaged)
    damaged.close()


# ---- SQLite: while it runs ----


async def taken(store):
    """Until the thread has taken all that waits, and works on it."""
    for _ in range(SECONDS * 1000):
        await asyncio.sleep(0.001)
        if not store._worker._requests.qsize():
            return
    raise AssertionError("the thread takes nothing")


def test_expired_records_are_dropped_along_with_inserts(path, clock, file_store):
    async def fill(first, count):
        inserts = (
            file_store.insert("spent", str(number), b"", expires_ms=clock.ms + 1000)
            for number in range(first, first + count)
        )
        await asyncio.gather(*inserts)

    asyncio.run(fill(0, 5000))
    clock.ms += 1000
    asyncio.run(fill(5000, 2500))
    other = sqlite3.connect(path)
    assert other.execute("SELECT count(*) FROM records").fetchone() == (2500,)
    other.close()
    file_store.close()
    size = path.stat().st_size
    again = SqliteStore(path, clock=clock)
    clock.ms += 1000
    for number in range(10_000, 10_100):
        insert(again, str(number), expires_ms=clock.ms + 1000)
    again.close()
    assert path.stat().st_size <= size  # free pages are used again


def test_a_locked_file_is_an_outage_and_then_none(path, file_store, monkeypatch, caplog):
    monkeypatch.setattr(backend, "BUSY_SECONDS", 0.05)
    caplog.set_level(logging.INFO, "mcpinput")
    insert(file_store, "before")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for _ in range(3):
        with pytest.raises(StoreUnavailableError, match="database is locked"):
            insert(file_store)
    assert get(file_store, "before") is not None  # readers need no lock
    other.execute("ROLLBACK")
    other.close()
    assert insert(file_store)
    texts = [record.getMessage() for record in caplog.records]
    assert "does not work: SQLite cannot use the file: database is locked" in texts[0]
    assert "works again" in texts[-1]


def test_a_full_disk_is_an_outage(path, clock, file_store, monkeypatch):
    def open_small(path):
        connection = real(path)
        connection.execute("PRAGMA max_page_count = 1")  # raised by SQLite to what the file has already
        return connection

    real = backend._open
    monkeypatch.setattr(backend, "_open", open_small)
    with pytest.raises(StoreUnavailableError, match="database or disk is full"):
        insert(file_store, value=bytes(100_000))
    monkeypatch.undo()
    assert insert(file_store, value=bytes(100_000))


def test_one_that_fails_takes_the_others_of_its_transaction_along(path, file_store):
    other = sqlite3.connect(path, isolation_level=None)

    async def run():
        other.execute("BEGIN IMMEDIATE")
        first = asyncio.create_task(file_store.insert("spent", "first", b"", expires_ms=NOW_MS + 1))
        await taken(file_store)  # it waits for the file now, and the rest comes together
        good = [file_store.insert("spent", str(number), b"", expires_ms=NOW_MS + 1) for number in range(5)]
        bad = file_store._ask(lambda connection, now: connection.execute("no SQL"), writes=True)
        rest = asyncio.gather(*good, bad, return_exceptions=True)
        for _ in range(3):
            await asyncio.sleep(0)  # each puts its request
        other.execute("ROLLBACK")
        return await first, await rest

    first, rest = asyncio.run(run())
    other.close()
    assert first is not None
    assert [type(answer) for answer in rest] == [StoreUnavailableError] * 6
    assert [get(file_store, str(number)) for number in range(5)] == [None] * 5
    assert get(file_store, "first") is not None


def test_a_file_that_was_removed_is_an_outage_and_not_made_again(path, file_store):
    insert(file_store)
    for name in os.listdir(path.parent):
        os.unlink(path.parent / name)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            insert(file_store)
    assert not path.exists()


def test_a_file_that_was_replaced_is_an_outage(path, tmp_path, clock, file_store):
    insert(file_store)
    other = SqliteStore(tmp_path / "other.db", clock=clock)
    other.close()
    os.replace(tmp_path / "other.db", path)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="the file was replaced: make the store anew"):
            insert(file_store, "b")


def test_a_file_that_was_emptied_is_an_outage(path, clock):
    store = SqliteStore(path, clock=clock)
    os.truncate(path, 0)
    with pytest.raises(StoreUnavailableError, match="the file was emptied"):
        insert(store)
    store.close()


def test_two_stores_of_one_process_share_a_file(path, clock, file_store):
    other = SqliteStore(path, clock=clock)
    assert insert(file_store)
    assert insert(other) is None
    other.close()
    assert insert(file_store) is None
    assert insert(file_store, "b")


def test_the_event_loop_goes_on_while_the_file_is_locked(path, file_store, monkeypatch):
    async def run():
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        task = asyncio.create_task(file_store.insert("spent", "a", b"", expires_ms=NOW_MS + 1))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not task.done()
        other.execute("ROLLBACK")
        other.close()
        assert await task

    asyncio.run(run())


def test_who_was_cancelled_leaves_nothing_behind(path, file_store):
    problems = []

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        inserts = [file_store.insert("spent", str(number), b"", expires_ms=NOW_MS + 1) for number in range(100)]
        tasks = [asyncio.create_task(one) for one in inserts]
        await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        other.execute("ROLLBACK")
        other.close()
        assert {type(answer) for answer in await asyncio.gather(*tasks, return_exceptions=True)} == {
            asyncio.CancelledError
        }
        assert await file_store.insert("spent", "after", b"", expires_ms=NOW_MS + 1)

    asyncio.run(run())
    gc.collect()
    assert problems == []


def test_a_loop_that_was_closed_meanwhile_disturbs_nobody(path, file_store):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def give_up():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(file_store.insert("spent", "a", b"", expires_ms=NOW_MS + 1), 0.01)

    asyncio.run(give_up())
    other.execute("ROLLBACK")
    other.close()
    insert(file_store, "b")
    assert get(file_store, "b") is not None


def test_too_many_that_wait_are_told_so(path, file_store, monkeypatch):
    monkeypatch.setattr(backend, "_MOST_WAITING", 10)
    other = sqlite3.connect(path, isolation_level=None)

    async def run():
        other.execute("BEGIN IMMEDIATE")
        first = asyncio.create_task(file_store.insert("spent", "first", b"", expires_ms=NOW_MS + 1))
        await taken(file_store)
        others = [file_store.insert("spent", str(number), b"", expires_ms=NOW_MS + 1) for number in range(50)]
        waiting = asyncio.gather(first, *others, return_exceptions=True)
        for _ in range(3):
            await asyncio.sleep(0)  # each puts its request
        other.execute("ROLLBACK")
        return await waiting

    answers = asyncio.run(run())
    other.close()
    refused = [answer for answer in answers if isinstance(answer, StoreUnavailableError)]
    assert len(refused) == 40
    assert {str(answer) for answer in refused} == {"too many requests wait for the file"}


# ---- SQLite: its end ----


def test_a_closed_store_says_so(path, clock):
    store = SqliteStore(path, clock=clock)
    insert(store)
    store.close()
    store.close()
    for ask in (lambda: insert(store, "b"), lambda: get(store), lambda: delete(store, b"")):
        with pytest.raises(StoreUnavailableError, match="the store is closed"):
            ask()
    assert set(os.listdir(path.parent)) == {"records.db", "records.db-turnstile"}


def test_a_store_that_was_never_used_closes(path):
    store = SqliteStore(path)
    store.close()
    with pytest.raises(StoreUnavailableError):
        get(store)


def test_closing_finishes_what_was_asked_for(path, clock):
    store = SqliteStore(path, clock=clock)

    async def run():
        inserts = [store.insert("spent", str(number), b"", expires_ms=NOW_MS + 1) for number in range(1000)]
        tasks = [asyncio.create_task(one) for one in inserts]
        await asyncio.sleep(0)
        store.close()
        return await asyncio.gather(*tasks)

    assert None not in asyncio.run(run())


def test_a_fork_that_nobody_announced_ends_the_store_in_the_child(path, clock):
    """As by a program in C that forks by itself: the child has its parent's locks in memory, and not in fact."""
    store = SqliteStore(path, clock=clock)
    fresh = SqliteStore(path, clock=clock)
    insert(store)
    for one in (store, fresh):
        one._after_fork_in_child()
    with pytest.raises(StoreUnavailableError, match="forked while the file was in use: make the store in the child"):
        insert(store, "b")
    assert insert(fresh, "b")
    for one in (store, fresh):
        one.close()


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "mcpinput-sqlite-store"]


def test_a_store_that_is_forgotten_ends_its_thread(path, clock):
    before = len(threads())
    store = SqliteStore(path, clock=clock)
    insert(store)
    assert len(threads()) == before + 1
    del store
    gc.collect()
    assert len(threads()) == before


def test_the_end_of_a_process_is_quiet(path):
    program = (
        "import asyncio, sys, time\n"
        "from mcpinput.stores import SqliteStore\n"
        "store = SqliteStore(sys.argv[1])\n"
        "print(asyncio.run(store.insert('spent', 'a', b'', expires_ms=2**62)) is not None)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program, path], capture_output=True, timeout=SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"True\n", b"")
    assert set(os.listdir(path.parent)) == {"records.db", "records.db-turnstile"}


def test_closing_all_descriptors_of_the_process_is_survived(path):
    """As a process does that makes itself a daemon."""
    code = f"""
import asyncio, os, time
from mcpinput import StoreUnavailableError
from mcpinput.stores import SqliteStore

store = SqliteStore({str(path)!r})
expires_ms = round(time.time() * 1000) + 1_000_000

async def insert(key):
    try:
        return await store.insert("kind", key, b"", expires_ms=expires_ms)
    except StoreUnavailableError:
        return None

async def main():
    assert await insert("k1")
    for name in os.listdir("/proc/self/fd"):
        place = f"/proc/self/fd/{{name}}"
        if os.path.exists(place) and os.readlink(place).startswith({str(path)!r}):
            os.close(int(name))
    await asyncio.wait_for(insert("k2"), 20)  # answered one way or the other
    assert await asyncio.wait_for(insert("k3"), 20)

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=SECONDS)


def test_a_log_that_fails_changes_no_answer(path, file_store):
    def failing(record):
        raise RuntimeError("no log")

    async def insert(key):
        return await asyncio.wait_for(file_store.insert("kind", key, b"", expires_ms=NOW_MS + 1000), SECONDS)

    logger = logging.getLogger("mcpinput")
    logger.addFilter(failing)
    try:
        aside = path.with_name("aside.db")
        os.rename(path, aside)
        with pytest.raises(StoreUnavailableError):
            asyncio.run(insert("k1"))
        os.rename(aside, path)
        assert asyncio.run(insert("k1"))  # that it works again is not logged either
        assert asyncio.run(insert("k1")) is None
    finally:
        logger.removeFilter(failing)


def test_a_thread_that_cannot_be_started_is_an_outage(file_store, monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    async def insert():
        return await file_store.insert("kind", "key", b"", expires_ms=NOW_MS + 1000)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(StoreUnavailableError, match="no thread can be started"):
            asyncio.run(insert())
    assert asyncio.run(insert())


def test_ctrl_c_while_a_fork_waits_for_the_stores_keeps_none_locked(tmp_path):
    """Of several stores, the first is waited for when it comes; the fork goes on, and so do later forks."""
    code = f"""
import asyncio, os, signal, sqlite3, sys, threading, time
from mcpinput.stores import SqliteStore

sys.unraisablehook = lambda unraisable: None  # Python tells it there, as it lets the fork go on
paths = [f"{tmp_path!s}/{{number}}.db" for number in range(3)]
stores = [SqliteStore(path) for path in paths]
expires_ms = round(time.time() * 1000) + 1_000_000

async def insert(key):
    return [await store.insert("kind", key, b"", expires_ms=expires_ms) for store in stores]

async def give_up():
    for store in stores:
        task = asyncio.ensure_future(store.insert("kind", "k2", b"", expires_ms=expires_ms))
        await asyncio.sleep(0.05)
        task.cancel()

def fork():
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)

asyncio.run(insert("k1"))
others = [sqlite3.connect(path, isolation_level=None) for path in paths]
for other in others:
    other.execute("BEGIN IMMEDIATE")
asyncio.run(give_up())
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
fork()
for other in others:
    other.close()
threading.Timer(20, os._exit, (2,)).start()
fork()
assert all(asyncio.run(insert("k3")))
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=SECONDS)
