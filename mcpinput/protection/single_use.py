"""The ledger of spent tokens: each opens for one request alone.

Rules

- A token is spent by one atomic insert under its flow and round, before anything of the application runs. A second
  insert finds the record: spent. It stays until the state's expiry and two minutes more, as clocks differ.
- Only a version that the store has answered lets a request go on. Silence, failure and nonsense are all UNAVAILABLE:
  nothing may run, and no honest flow may be dropped for an outage.
- Of what a store raises, the type alone is logged. It is in no exception that leaves this module.
- Everything is awaited in the request's own task. No task is left behind.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, final

from mcpinput._ending import ends_from_outside
from mcpinput.errors import ProtectionFailure, RequestStateProtectionError, StoreUnavailableError

if TYPE_CHECKING:
    from mcpinput.stores.base import RecordStore

__all__ = ["KEPT_AFTER_EXPIRY_MS", "TIME_LIMIT", "SingleUse", "Spent"]

TIME_LIMIT: Final = 5.0
"""How long the store may take for one answer, in seconds."""

KEPT_AFTER_EXPIRY_MS: Final = 120_000
"""How long a token stays recorded after its state has expired."""

_KIND: Final = "spent"

logger = logging.getLogger("mcpinput")


@final
class Spent:
    """A token that this request has spent."""

    __slots__ = ("_key", "_store", "_version")

    def __init__(self, store: RecordStore, key: str, version: bytes) -> None:
        self._store = store
        self._key = key
        self._version = version

    async def give_back(self) -> None:
        """Lets the token open once more. Raises nothing but a cancellation: where it fails, the token stays spent.

        The record is deleted by its version, so what a later request spends is never given back by this one.
        """
        try:
            async with asyncio.timeout(TIME_LIMIT):
                deleted = await self._store.delete(_KIND, self._key, self._version)
        except BaseException as error:
            if ends_from_outside(error):
                raise
            logger.warning("single use: a token stays spent, since the store raised %s", type(error).__name__)
            return
        if deleted is not True:
            logger.warning("single use: a token stays spent, or its record was gone already")


@final
class SingleUse:
    """Spends tokens in a record store.

    Args:
        store: Shared by all instances of the service.
    """

    __slots__ = ("_store",)

    def __init__(self, store: RecordStore) -> None:
        self._store = store

    async def spend(self, flow_id: bytes, round: int, expires_ms: int) -> Spent:
        """Spends the token of one round of a flow. A call that is cancelled may or may not have spent it.

        Args:
            flow_id: Of the opened state.
            round: Likewise.
            expires_ms: Likewise.

        Raises:
            RequestStateProtectionError: SPENT: it was spent before. UNAVAILABLE: the store does not say.
        """
        key = f"{flow_id.hex()}-{round}"
        answer = await self._insert(key, expires_ms + KEPT_AFTER_EXPIRY_MS)
        if isinstance(answer, ProtectionFailure):
            raise RequestStateProtectionError(answer, round=round)
        return Spent(self._store, key, answer)

    async def _insert(self, key: str, expires_ms: int) -> bytes | ProtectionFailure:
        try:
            async with asyncio.timeout(TIME_LIMIT):
                version = await self._store.insert(_KIND, key, b"", expires_ms=expires_ms)
        except (StoreUnavailableError, OSError):  # TimeoutError is an OSError
            return ProtectionFailure.UNAVAILABLE
        except BaseException as error:
            if ends_from_outside(error):
                raise
            logger.error("single use: the store's insert raised %s, so no token opens", type(error).__name__)
            return ProtectionFailure.UNAVAILABLE
        if version is None:
            return ProtectionFailure.SPENT
        if not isinstance(version, bytes) or not version:
            logger.error("single use: the store's insert returned %s, so no token opens", type(version).__name__)
            return ProtectionFailure.UNAVAILABLE
        return version
