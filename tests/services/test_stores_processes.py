"""One SQLite file and several processes: who wins, who is killed, and who forks."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcpinput.stores import SqliteStore
from tests.services.conftest import SECONDS

HEAD = """
import asyncio, os, sys, time
from mcpinput.errors import RequestStateProtectionError
from mcpinput.protection.single_use import SingleUse
from mcpinput.stores import MemoryStore, SqliteStore

path = sys.argv[1]
expires_ms = round(time.time() * 1000) + 900_000

async def spend(store, number, round=1):
    try:
        await SingleUse(store).spend(number.to_bytes(16, "big"), round, expires_ms)
    except RequestStateProtectionError as failure:
        return str(failure.reason)
    return "won"
"""

RACE = """
store = SqliteStore(path)

async def race():
    answers = await asyncio.gather(*(spend(store, number) for number in range(200) for _ in range(10)))
    for number in range(200):
        print(number, *sorted(answers[number * 10 : number * 10 + 10]))

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(race())
"""

FORKS_AT_ONCE = """
import threading

sys.setswitchinterval(1e-5)
stores = [SqliteStore(f"{path}-{number}") for number in range(3)]
failed = []
sys.unraisablehook = lambda told: failed.append(type(told.exc_value).__name__)

def fork():
    for _ in range(40):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)

threads = [threading.Thread(target=fork) for _ in range(4)]
for thread in threads:
    thread.start()
for number in range(60):
    assert asyncio.run(spend(stores[number % 3], number)) == "won"
for thread in threads:
    thread.join()
print(*failed or ["done"])
"""

SPEND = """
store = SqliteStore(path)

async def client(first):
    for number in range(first, 10**9, 50):
        assert await spend(store, number) == "won"
        os.write(1, b"%d\\n" % number)

async def main():
    await asyncio.gather(*(client(first) for first in range(50)))

asyncio.run(main())
"""

BUSY = """
import threading
stop = False

def busy(store, first):
    async def main():
        number = first
        while not stop:
            number += 1
            assert await spend(store, number, round=2) == "won"
    asyncio.run(main())

def keep_busy(store):
    for first in range(3):
        threading.Thread(target=busy, args=(store, first * 10**9)).start()

def each(numbers, expected, store):
    for number in numbers:
        assert asyncio.run(spend(store, number)) == expected
"""

FORK = """
store = SqliteStore(path)
keep_busy(SqliteStore(path))  # another one of the same file is in use, too
for number in range(20):
    each([number], "won", store)
    child = os.fork()
    if not child:
        each([number], "spent", store)
        each([1000 + number], "won", store)
        store.close()
        os._exit(0)
    each([number], "spent", store)
    assert os.waitpid(child, 0) == (child, 0)
    each([1000 + number], "spent", store)
stop = True
print("done")
"""

FORK_MEMORY = """
store = MemoryStore()
keep_busy(store)
for number in range(50):
    each([number], "won", store)
    child = os.fork()
    if not child:
        each([number], "spent", store)
        each([1000 + number], "won", store)
        os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)
    each([1000 + number], "won", store)
stop = True
print("done")
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a program of this file, with the database's path as its argument."""
    processes: list[subprocess.Popen[bytes]] = []

    def run(program: str, *options: str) -> subprocess.Popen[bytes]:
        processes.append(
            subprocess.Popen(
                [sys.executable, *options, "-c", HEAD + program, str(tmp_path / "ledger.db")],
                cwd=tmp_path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
        return processes[-1]

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def output(process: subprocess.Popen[bytes], typed: bytes = b"") -> str:
    out, err = process.communicate(typed, timeout=SECONDS)
    assert (process.returncode, err.decode()) == (0, "")
    return out.decode()


def test_in_several_processes_each_token_is_spent_once(start: Start) -> None:
    """They make the file together, too: none of them finds it ready."""
    processes = [start(RACE) for _ in range(5)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    answers: dict[str, list[str]] = {}
    for process in processes:
        for line in output(process).splitlines():
            number, *found = line.split()
            answers.setdefault(number, []).extend(found)
    assert len(answers) == 200
    for found in answers.values():
        assert (len(found), found.count("won"), found.count("spent")) == (50, 1, 49)


def test_what_was_acknowledged_is_spent_after_a_kill(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    kills = 5
    acknowledged: set[int] = set()
    for turn in range(kills):
        process = start(SPEND.replace("range(50)", f"range({turn * 10**7}, {turn * 10**7} + 50)"))
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(1000)]
        process.send_signal(signal.SIGKILL)
        out, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, err) == (-signal.SIGKILL, b"")
        whole = [line for line in (b"".join(lines) + out).split(b"\n")[:-1] if line]
        acknowledged |= {int(line) for line in whole}
    assert len(acknowledged) >= 1000 * kills

    async def found(store: SqliteStore) -> list[bool]:
        names = [f"{number.to_bytes(16, 'big').hex()}-1" for number in acknowledged]
        return [await store.get("spent", name) is not None for name in names]

    store = SqliteStore(path)
    assert all(asyncio.run(found(store)))
    store.close()


def test_a_process_that_is_killed_holds_nobody_up(start: Start) -> None:
    processes = [start(SPEND.replace("range(50)", f"range({at}, {at} + 50)")) for at in (0, 10**7)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline()
    processes[0].send_signal(signal.SIGKILL)
    stdout = processes[1].stdout
    assert stdout is not None
    for _ in range(1000):
        assert stdout.readline()


def test_a_file_that_stays_locked_is_an_outage_for_a_start_too(start: Start) -> None:
    holder = start(
        """
import sqlite3
SqliteStore(path).close()
connection = sqlite3.connect(path, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("ready", flush=True)
sys.stdin.readline()
"""
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"ready\n"
    waiting = start("SqliteStore(path)")
    out, err = waiting.communicate(timeout=SECONDS)
    assert (waiting.returncode, out) == (1, b"")
    assert b"StoreUnavailableError" in err
    assert b"database is locked" in err
    assert output(holder, b"go\n") == ""


def test_parent_and_children_share_a_file_over_forks(start: Start) -> None:
    assert output(start(BUSY + FORK, "-W", "ignore::DeprecationWarning")) == "done\n"


def test_threads_that_fork_at_once(start: Start) -> None:
    assert output(start(FORKS_AT_ONCE, "-W", "ignore::DeprecationWarning")) == "done\n"


def test_a_fork_while_threads_use_a_memory_store(start: Start) -> None:
    """The child goes on with a copy; no lock of a thread that it does not have stops it."""
    assert output(start(BUSY + FORK_MEMORY, "-W", "ignore::DeprecationWarning")) == "done\n"
