"""Records in one SQLite file, which several processes of one machine may share.

Rules

- What was answered is on the disk: write-ahead log, ``synchronous=FULL``. A process killed at any moment, or a loss of
  power, loses nothing that a caller was told.
- One thread in each process works on the file, never the event loop. All that waits for it goes into one transaction,
  so that many callers share the price of one flush.
- Nothing is open while the process forks: SQLite keeps track of its locks for the whole process, and a child would
  take those of its parent for its own. Parent and child open the file again when they need it.
- Each insert drops a few expired records in its own transaction. No transaction ever goes over the whole file.
- A failure ends the connection; the next request opens a new one. Only the constructor makes a file, and a store works
  on that one alone: where it was removed or replaced under a running server, that is an outage, and no second ledger.
- Answers travel as values, errors too: one that nobody waits for any more is no error in any log.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import queue
import threading
import time
import weakref
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from mcpinput.errors import StoreUnavailableError
from mcpinput.stores.base import Record, check_contents, check_name, expired_already, new_version, now_ms

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

__all__ = ["SqliteStore"]

BUSY_SECONDS: Final = 2.0
"""How long a transaction waits for another process. A request waits for the transaction before it, too, and both are to
be over before the ledger's own time limit."""

APPLICATION_ID: Final = 0x6D637069
"""Marks a file as ours: "mcpi"."""

SCHEMA_VERSION: Final = 1

TURNSTILE: Final = "-turnstile"
"""What the name of the file is followed by, where processes wait for their turn."""

_STOP_SECONDS: Final = 3 * BUSY_SECONDS
_FIRST_PAUSE: Final = 0.0001
_LONGEST_PAUSE: Final = 0.002
_BATCH: Final = 256
_MOST_WAITING: Final = 10_000
_DROPS_PER_INSERT: Final = 4

_SCHEMA: Final = (
    """
    CREATE TABLE records (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        value BLOB NOT NULL,
        version BLOB NOT NULL,
        expires_ms INTEGER NOT NULL,
        UNIQUE (kind, key)
    )
    """,
    "CREATE INDEX records_by_expiry ON records (expires_ms)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

_T = TypeVar("_T")

logger = logging.getLogger("mcpinput")


# ---- the file ----


def _open(path: str) -> sqlite3.Connection:
    """A connection to a file that exists, with nothing about it checked yet."""
    import sqlite3

    # A path of its own kind of URI, since that is how a missing file is not made.
    connection = sqlite3.connect(f"{Path(path).as_uri()}?mode=rw", uri=True, timeout=0.0, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _pragma(connection: sqlite3.Connection, name: str) -> Any:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _is_new(connection: sqlite3.Connection) -> bool:
    """Whether the file is empty; StoreUnavailableError where it is somebody else's, or of another version."""
    application, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
    if application == version == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
        return True
    if application != APPLICATION_ID:
        raise StoreUnavailableError("the file is the database of another application: give the store a file of its own")
    if version != SCHEMA_VERSION:
        raise StoreUnavailableError(
            f"the file has version {version} of the store's schema, and this release reads {SCHEMA_VERSION}"
        )
    return False


def _patiently(work: Callable[[], _T]) -> _T:
    """Does what begins by taking a lock, again while another process has it, until BUSY_SECONDS are over.

    PERF: SQLite's own waiting sleeps up to 100 ms at a time.
    """
    import sqlite3

    end = time.monotonic() + BUSY_SECONDS
    pause = _FIRST_PAUSE
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", 0)  # the module's own errors have none
            if code & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


@contextmanager
def _turn(turnstile: int) -> Iterator[None]:
    """Waits until it is this process's turn to take the lock of the file.

    Whoever waits for that lock has to ask for it again and again, and would hardly ever meet the moment at which a busy
    process has released it and not yet taken it again. So one process alone asks, and the others wait in the kernel at
    this lock before it; the busy one stands at the end of the queue like everybody else.

    PERF: four processes with one caller each, and 5 ms for a flush: some callers waited for more than 2 s, and now none
    for more than 50 ms.
    """
    # For fairness alone, so where there is no such lock it goes on without. Of the kind that ends with its process and
    # that no child inherits.
    with suppress(OSError):
        fcntl.lockf(turnstile, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.lockf(turnstile, fcntl.LOCK_UN)


def _open_turnstile(path: str) -> int:
    return os.open(f"{path}{TURNSTILE}", os.O_RDWR | os.O_CREAT, 0o600)


def _opened(path: str) -> tuple[sqlite3.Connection, bool]:
    """A connection that has read the file, and whether that is empty.

    To be called again, and not to be waited in, where the file is busy: who opens while another process closes its last
    connection, and so removes the log, may hold a connection that never reads (SQLITE_BUSY_RECOVERY, seen where parent
    and child go on at once after a fork).
    """
    connection = _open(path)
    try:
        return connection, _is_new(connection)
    except BaseException:
        _close(connection)
        raise


def _prepare(path: str) -> tuple[int, int]:
    """Makes the file where there is none, and its schema; checks that it can be used; which file it is."""
    # Opened by hand only where it is new. To close a file ends every lock that the process has on it, those of another
    # store's connection too: https://www.sqlite.org/howtocorrupt.html, "Posix advisory locks".
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    turnstile = _open_turnstile(path)
    try:
        with _turn(turnstile):
            connection, _ = _patiently(partial(_opened, path))  # before anything is changed in a file that is not ours
            try:
                if _patiently(partial(_pragma, connection, "journal_mode = WAL")) != "wal":
                    raise StoreUnavailableError("the file cannot have a write-ahead log: keep it on a local disk")
                _patiently(partial(connection.execute, "BEGIN IMMEDIATE"))
                if _is_new(connection):
                    for statement in _SCHEMA:
                        connection.execute(statement)
                connection.execute("COMMIT")
                return _identity(path)
            finally:
                _close(connection)
    finally:
        os.close(turnstile)


@final
class _File:
    """What is open of a file that was prepared."""

    __slots__ = ("connection", "turnstile")

    def __init__(self, path: str) -> None:
        self.connection, is_new = _patiently(partial(_opened, path))
        try:
            self.turnstile = _open_turnstile(path)
        except BaseException:
            _close(self.connection)
            raise
        if is_new:
            self.close()
            raise StoreUnavailableError("the file was emptied: make the store anew")

    def close(self) -> None:
        _close(self.connection)
        with suppress(OSError):  # closed already, by an application that closes all descriptors
            os.close(self.turnstile)


def _close(connection: sqlite3.Connection) -> None:
    import sqlite3

    with suppress(sqlite3.Error):
        connection.rollback()  # a transaction that is open would outlive the connection where a cursor does
    with suppress(sqlite3.Error):
        connection.close()


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _problem(error: BaseException) -> StoreUnavailableError:
    """What is told of a failure."""
    if isinstance(error, StoreUnavailableError):
        return error
    import sqlite3

    if isinstance(error, sqlite3.Error):
        # SQLite's own fixed texts: "database is locked", "database or disk is full", "disk I/O error".
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        return StoreUnavailableError(f"SQLite cannot use the file: {error} ({name})")
    if isinstance(error, OSError):
        return StoreUnavailableError(f"the file cannot be used: {error.strerror}")
    return StoreUnavailableError(f"the store failed with {type(error).__name__}")


# ---- what a transaction is made of ----


def _get(connection: sqlite3.Connection, now: int, kind: str, key: str) -> Record | None:
    row = connection.execute(
        "SELECT value, version, expires_ms FROM records WHERE kind = ? AND key = ? AND expires_ms > ?", (kind, key, now)
    ).fetchone()
    if row is None:
        return None
    value, version, expires_ms = row
    return Record(kind=kind, key=key, value=value, version=version, expires_ms=expires_ms)


def _insert(
    connection: sqlite3.Connection, now: int, kind: str, key: str, value: bytes, expires_ms: int
) -> bytes | ValueError | None:
    if expires_ms <= now:
        return expired_already()
    version = new_version()
    added = connection.execute(
        "INSERT INTO records (kind, key, value, version, expires_ms) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (kind, key) DO UPDATE"
        " SET value = excluded.value, version = excluded.version, expires_ms = excluded.expires_ms"
        " WHERE records.expires_ms <= ?",
        (kind, key, value, version, expires_ms, now),
    ).rowcount
    return version if added else None


def _delete(connection: sqlite3.Connection, now: int, kind: str, key: str, version: bytes) -> bool:
    deleted = connection.execute(
        "DELETE FROM records WHERE kind = ? AND key = ? AND version = ? AND expires_ms > ?", (kind, key, version, now)
    ).rowcount
    return deleted == 1


def _drop_expired(connection: sqlite3.Connection, now: int, most: int) -> None:
    connection.execute(
        "DELETE FROM records WHERE id IN (SELECT id FROM records WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?)",
        (now, most),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """What one caller waits for."""

    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
    work: Callable[[sqlite3.Connection, int], object]
    writes: bool
    drops: int = 0


def _transact(file: _File, requests: list[_Request], clock: Callable[[], float]) -> list[object]:
    """Does all or, where it raises, none; the answers, once they are on the disk."""
    connection = file.connection
    if not any(request.writes for request in requests):
        now = now_ms(clock)
        return [_patiently(partial(request.work, connection, now)) for request in requests]
    with _turn(file.turnstile):
        _patiently(partial(connection.execute, "BEGIN IMMEDIATE"))
    now = now_ms(clock)  # with the lock held: what has expired while others had it, has
    answers = [request.work(connection, now) for request in requests]
    drops = sum(request.drops for request in requests)
    if drops:
        _drop_expired(connection, now, drops)
    connection.execute("COMMIT")
    return answers


# ---- the thread ----


@final
class _Worker:
    """The thread of one process, and the queue to it. It knows nothing of the store, which may be forgotten before."""

    __slots__ = ("_clock", "_identity", "_path", "_requests", "_thread")

    def __init__(self, path: str, identity: tuple[int, int], clock: Callable[[], float]) -> None:
        self._path = path
        self._identity = identity
        self._clock = clock
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="mcpinput-sqlite-store", daemon=True)
        self._thread.start()

    def put(self, request: _Request) -> None:
        if self._requests.qsize() >= _MOST_WAITING:  # the disk hangs; who gave up waiting still stands in the queue
            raise StoreUnavailableError("too many requests wait for the file")
        self._requests.put(request)

    def stop(self) -> None:
        """Lets the thread do what waits, and waits for its end, some seconds at most. Nothing is put afterwards."""
        self._requests.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(_STOP_SECONDS)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def _next_requests(self) -> list[_Request]:
        """Waits for one request and takes all that wait with it; empty where it is time to end."""
        requests: list[_Request] = []
        request = self._requests.get()
        while request is not None:
            requests.append(request)
            if len(requests) == _BATCH:
                return requests
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                return requests
        if requests:
            self._requests.put(None)  # to be met again when these are done
        return requests

    def _run(self) -> None:
        file: _File | None = None
        failing = False
        while requests := self._next_requests():
            requests = [request for request in requests if not request.answer.cancelled()]
            if not requests:
                continue
            problem: str | None = None
            try:
                if _identity(self._path) != self._identity:
                    raise StoreUnavailableError("the file was replaced: make the store anew")
                if file is None:
                    file = _File(self._path)
                answers = _transact(file, requests, self._clock)
            except BaseException as error:  # whatever it is, the callers are answered and the thread goes on
                problem = str(_problem(error))
                answers = [StoreUnavailableError(problem) for _ in requests]
                if file is not None:
                    file.close()
                    file = None
            if failing is (problem is None):
                failing = not failing
                self._tell(problem)
            _deliver(requests, answers)
            del requests, answers
        if file is not None:
            file.close()

    def _tell(self, problem: str | None) -> None:
        with suppress(Exception):  # a filter of the application's; the answers are what they are
            if problem is None:
                logger.warning("the SQLite store %s works again", self._path)
            else:
                logger.error("the SQLite store %s does not work: %s", self._path, problem)


def _deliver(requests: list[_Request], answers: list[object]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], object]]] = {}
    for request, answer in zip(requests, answers, strict=True):
        by_loop.setdefault(request.loop, []).append((request.answer, answer))
    for loop, pairs in by_loop.items():
        with suppress(RuntimeError):  # a loop that was closed has nobody who waits
            loop.call_soon_threadsafe(_set_answers, pairs)


def _set_answers(pairs: list[tuple[asyncio.Future[Any], object]]) -> None:
    for future, answer in pairs:
        if not future.done():
            future.set_result(answer)


# ---- the store ----


@final
class SqliteStore:
    """A record store in one file on a local disk, for the processes of one machine.

    The file is made with mode 0600 where there is none, and is the store's own; ``-wal``, ``-shm`` and ``-turnstile``
    beside it belong to it. While a server runs, copies are made by SQLite's own means and not by copying files, and
    none of the files is removed or replaced. After a fork, parent and child both go on with the store.

    Args:
        path: The file. Its folder exists.
        clock: Wall clock, in seconds since 1970.

    Raises:
        TypeError: ``path`` is no path of text, or ``clock`` not callable.
        ValueError: ``path`` is empty or ``:memory:``.
        StoreUnavailableError: The file cannot be opened for reading and writing, is no database, is that of another
            application or of another version of the schema, or lies where SQLite cannot keep a write-ahead log.
    """

    __slots__ = ("__weakref__", "_clock", "_identity", "_lock", "_path", "_refusal", "_stop", "_worker")

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        text = os.fspath(path)
        if not isinstance(text, str):
            raise TypeError(f"path must be a str or a path of text, not {type(text).__name__}")
        if text in ("", ":memory:"):
            raise ValueError("path must name a file; for records in memory use MemoryStore")
        if not callable(clock):
            raise TypeError(f"clock must be callable, not {type(clock).__name__}")
        self._path: Final = os.path.abspath(text)  # the file stays the same where the process changes its folder
        self._clock = clock
        self._refusal: str | None = None
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self._stop: weakref.finalize[..., Any] | None = None
        problem: str | None = None
        try:
            self._identity = _prepare(self._path)
        except Exception as error:
            problem = str(_problem(error))
        if problem is not None:
            raise StoreUnavailableError(f"{self._path}: {problem}")
        _stores.add(self)

    async def get(self, kind: str, key: str) -> Record | None:
        """As :meth:`RecordStore.get`."""
        check_name(kind, key)
        found: Record | None = await self._ask(partial(_get, kind=kind, key=key), writes=False)
        return found

    async def insert(self, kind: str, key: str, value: bytes, *, expires_ms: int) -> bytes | None:
        """As :meth:`RecordStore.insert`."""
        check_name(kind, key)
        check_contents(value, expires_ms)
        work = partial(_insert, kind=kind, key=key, value=value, expires_ms=expires_ms)
        version: bytes | None = await self._ask(work, writes=True, drops=_DROPS_PER_INSERT)
        return version

    async def delete(self, kind: str, key: str, version: bytes) -> bool:
        """As :meth:`RecordStore.delete`."""
        check_name(kind, key)
        deleted: bool = await self._ask(partial(_delete, kind=kind, key=key, version=version), writes=True)
        return deleted

    def close(self) -> None:
        """Does what was asked for before, and closes the file. Waits for it: some seconds where another process has
        the file locked. Whatever is asked for later raises StoreUnavailableError. A second call does nothing.
        """
        with self._lock:
            self._refusal = self._refusal or "the store is closed"
            stop, self._stop, self._worker = self._stop, None, None
        if stop is not None:
            stop()

    async def _ask(self, work: Callable[[sqlite3.Connection, int], object], *, writes: bool, drops: int = 0) -> Any:
        loop = asyncio.get_running_loop()
        request = _Request(loop, loop.create_future(), work, writes, drops)
        with self._lock:
            if self._refusal is not None:
                raise StoreUnavailableError(self._refusal)
            if self._worker is None:
                try:
                    self._worker = _Worker(self._path, self._identity, self._clock)
                except RuntimeError:  # the process is at its limit of threads, or at its end
                    raise StoreUnavailableError("no thread can be started to work on the file") from None
                # Also at the end of the process, which would cut a daemon's transaction short, and when the store is
                # forgotten.
                self._stop = weakref.finalize(self, self._worker.stop)
            self._worker.put(request)
        answer = await request.answer
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _before_fork(self) -> None:
        if self._worker is not None and self._stop is not None:
            self._stop()
            if not self._worker.is_running:
                self._worker = None

    def _after_fork(self) -> None:
        self._worker = None  # one that could not be stopped ends when it can
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may have held it
        if self._worker is not None:
            self._worker = None
            self._refusal = "the process was forked while the file was in use: make the store in the child"

    def __repr__(self) -> str:
        return f"<SqliteStore {self._path!r}>"


_stores: Final[weakref.WeakSet[SqliteStore]] = weakref.WeakSet()
_forking: Final[list[SqliteStore]] = []
_one_fork = threading.Lock()


def _before_fork() -> None:
    _one_fork.acquire()  # another thread may fork as well, and each must find its own list
    for store in list(_stores):
        store._lock.acquire()  # no thread starts until the fork is over
        _forking.append(store)  # those that are locked, and no others, though Ctrl-C may end the waiting below
        store._before_fork()


def _after_fork() -> None:
    for store in _forking:
        store._after_fork()
    _forking.clear()
    _one_fork.release()


def _after_fork_in_child() -> None:
    global _one_fork
    _one_fork = threading.Lock()
    _forking.clear()
    for store in list(_stores):  # whoever forks without Python's knowledge calls nothing before
        store._after_fork_in_child()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
