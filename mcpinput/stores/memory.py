"""Records in the memory of one process.

Rules

- Every operation is a few steps under one lock, and none waits: threads and event loops may share a store.
- An insert drops a few expired records, so that memory follows what is alive without any pause.
- Each record has an entry in a heap by expiry. An entry without its record is harmless, a record without its entry
  would stay for ever: so the entry comes first and goes last, even where a fork cuts the steps in two.
"""

from __future__ import annotations

import heapq
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Final, final

from mcpinput.errors import StoreUnavailableError
from mcpinput.stores.base import Record, check_contents, check_name, expired_already, new_version, now_ms

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MemoryStore"]

_DROPS_PER_INSERT: Final = 8
_SPARE_ENTRIES: Final = 64


@final
class MemoryStore:
    """A record store for one process: it dies with it, and another process does not see it.

    A forked process goes on with a copy of its own. Services of several processes need a store that these share.

    Args:
        maximum_records: How many records it holds; an insert beyond raises StoreUnavailableError. One takes about 500
            bytes and its value.
        clock: Wall clock, in seconds since 1970.

    Raises:
        TypeError: ``maximum_records`` is no int, or ``clock`` not callable.
        ValueError: ``maximum_records`` is not positive.
    """

    __slots__ = ("__weakref__", "_clock", "_expiries", "_lock", "_maximum_records", "_records")

    def __init__(self, *, maximum_records: int = 1_000_000, clock: Callable[[], float] = time.time) -> None:
        if not isinstance(maximum_records, int) or isinstance(maximum_records, bool):
            raise TypeError(f"maximum_records must be an int, not {type(maximum_records).__name__}")
        if maximum_records < 1:
            raise ValueError("maximum_records must be positive")
        if not callable(clock):
            raise TypeError(f"clock must be callable, not {type(clock).__name__}")
        self._maximum_records = maximum_records
        self._clock = clock
        self._lock = threading.Lock()
        self._records: dict[tuple[str, str], Record] = {}
        self._expiries: list[tuple[int, tuple[str, str]]] = []
        _stores.add(self)

    async def get(self, kind: str, key: str) -> Record | None:
        """As :meth:`RecordStore.get`."""
        check_name(kind, key)
        now = now_ms(self._clock)
        with self._lock:
            return self._live((kind, key), now)

    async def insert(self, kind: str, key: str, value: bytes, *, expires_ms: int) -> bytes | None:
        """As :meth:`RecordStore.insert`.

        Raises:
            StoreUnavailableError: ``maximum_records`` are alive.
        """
        check_name(kind, key)
        check_contents(value, expires_ms)
        name = (kind, key)
        now = now_ms(self._clock)
        if expires_ms <= now:
            raise expired_already()
        with self._lock:
            self._drop_expired(now)
            if self._live(name, now) is not None:
                return None
            if len(self._records) >= self._maximum_records and name not in self._records:
                raise StoreUnavailableError(f"the store is full: {self._maximum_records} records; see maximum_records")
            version = new_version()
            heapq.heappush(self._expiries, (expires_ms, name))
            self._records[name] = Record(kind=kind, key=key, value=value, version=version, expires_ms=expires_ms)
        return version

    async def delete(self, kind: str, key: str, version: bytes) -> bool:
        """As :meth:`RecordStore.delete`."""
        check_name(kind, key)
        name = (kind, key)
        now = now_ms(self._clock)
        with self._lock:
            found = self._live(name, now)
            if found is None or found.version != version:
                return False
            del self._records[name]
            if len(self._expiries) > 2 * len(self._records) + _SPARE_ENTRIES:
                self._drop_spare_entries()
        return True

    def _live(self, name: tuple[str, str], now: int) -> Record | None:
        found = self._records.get(name)
        return None if found is None or found.expires_ms <= now else found

    def _drop_expired(self, now: int) -> None:
        for _ in range(_DROPS_PER_INSERT):
            if not self._expiries or self._expiries[0][0] > now:
                return
            name = self._expiries[0][1]
            if self._live(name, now) is None:
                self._records.pop(name, None)
            heapq.heappop(self._expiries)

    def _drop_spare_entries(self) -> None:
        """Makes the heap anew where most of its entries are of deleted records: seldom enough to cost nothing each."""
        entries = [(record.expires_ms, name) for name, record in self._records.items()]
        heapq.heapify(entries)
        self._expiries = entries

    def _start_in_child(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may have held it


_stores: Final[weakref.WeakSet[MemoryStore]] = weakref.WeakSet()


def _start_in_child() -> None:
    for store in list(_stores):
        store._start_in_child()


os.register_at_fork(after_in_child=_start_in_child)
