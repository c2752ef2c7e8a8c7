"""What a record store is: the interface, the record, and what every backend checks of its arguments.

Rules

- A record is found by its kind and key. It expires at an absolute time, judged by the store's clock alone; from that
  millisecond on it counts as absent, whether or not the store has dropped it yet.
- A version is 128 random bits, new with each change of a record, and so never the same twice for a key. Who wants to
  change or delete a record names the version that was seen, and does nothing to any later one.
- A store that cannot be reached raises :class:`~mcpinput.errors.StoreUnavailableError`. What it was asked to do may
  then be done or not, as after a cancellation.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Record", "RecordStore", "check_contents", "check_name", "expired_already", "new_version", "now_ms"]

VERSION_BYTES: Final = 16
_LATEST_MS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record, as it was at some moment.

    Attributes:
        kind: What sort of record.
        key: Its name within the kind.
        value: Its content.
        version: 16 random bytes, new with each change.
        expires_ms: When the store drops it, in milliseconds since 1970.
    """

    kind: str
    key: str
    value: bytes = field(repr=False)
    version: bytes = field(repr=False)
    expires_ms: int


class RecordStore(Protocol):
    """Where records are kept. Its methods may be called from several event loops, threads and processes at once.

    A store for others to use is durable: what ``insert`` and ``delete`` have answered outlives the process, and a loss
    of power too. It has to be honest above all: an ``insert`` that returns a version twice lets a token be used twice.

    All methods raise StoreUnavailableError where the store cannot be reached for now.
    """

    async def get(self, kind: str, key: str) -> Record | None:
        """The record under a key; None where there is none, or an expired one."""
        ...

    async def insert(self, kind: str, key: str, value: bytes, *, expires_ms: int) -> bytes | None:
        """Adds a record, atomically, where there is none under that key; an expired one counts as none.

        Args:
            kind: What sort of record.
            key: Its name within the kind.
            value: Its content.
            expires_ms: When the store drops it, in milliseconds since 1970.

        Returns:
            The version of the new record; None where there was one.

        Raises:
            ValueError: ``expires_ms`` is not later than now, by the store's clock: the record would protect nothing.
        """
        ...

    async def delete(self, kind: str, key: str, version: bytes) -> bool:
        """Deletes a record where it still has that version; whether it did."""
        ...


def now_ms(clock: Callable[[], float]) -> int:
    """A clock of seconds, to the nearest millisecond."""
    return round(clock() * 1000)


def new_version() -> bytes:
    """A version that no record ever had."""
    return os.urandom(VERSION_BYTES)


def check_name(kind: str, key: str) -> None:
    """Raises TypeError for what is no str, and ValueError for text that has no UTF-8."""
    for name, text in (("kind", kind), ("key", key)):
        if not isinstance(text, str):
            raise TypeError(f"{name} must be a str, not {type(text).__name__}")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} must be text without lone surrogates") from None


def check_contents(value: bytes, expires_ms: int) -> None:
    """Raises TypeError for what is no bytes or no int, and ValueError for a time that no store can hold."""
    if not isinstance(value, bytes):
        raise TypeError(f"value must be bytes, not {type(value).__name__}")
    if not isinstance(expires_ms, int) or isinstance(expires_ms, bool):
        raise TypeError(f"expires_ms must be an int of milliseconds, not {type(expires_ms).__name__}")
    if expires_ms > _LATEST_MS:
        raise ValueError("expires_ms must be below 2^63 milliseconds")


def expired_already() -> ValueError:
    """The error of an insert whose record would be absent at once."""
    return ValueError("expires_ms is not later than now: compare the store's clock with that of who calls it")
