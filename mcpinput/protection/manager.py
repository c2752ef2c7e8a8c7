"""Live rotation: one server's ring, replaced whole while requests run.

Rules

- Readers take one reference to an immutable ring and need no lock; changes are made one after another under a lock.
- The key for a seal is chosen and counted in one step, so that no key is removed between the two. It stays counted
  until the seal is released: when the message that carries the token is out, or its request has ended.
- A refused change leaves everything as it is.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from mcpinput.errors import ProtectionKeyInUseError
from mcpinput.json import freeze
from mcpinput.protection.keyring import ProtectionKeyring, ProtectionKeyringFingerprint
from mcpinput.protection.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpinput.protection.key import ProtectionKey

__all__ = ["ProtectionKeyringManager", "ProtectionKeyringSnapshot", "SealingReservation"]


@dataclass(frozen=True, slots=True)
class ProtectionKeyringSnapshot:
    """A ring at one moment, without secrets: for comparison between instances, and for monitoring.

    Attributes:
        active_key_id: Id of the key that seals.
        verification_key_ids: Ids of the keys that only open, sorted.
        sealing_reservations: For each id, seals that are still on their way to clients.
        last_used: For each id, when it last opened a token here (seconds, by the server's clock), or None.
        fingerprint: Of ids, roles and exact bytes.
    """

    active_key_id: str
    verification_key_ids: tuple[str, ...]
    sealing_reservations: Mapping[str, int]
    last_used: Mapping[str, float | None]
    fingerprint: ProtectionKeyringFingerprint


@final
class SealingReservation:
    """A key that one seal uses, counted until :meth:`release`."""

    __slots__ = ("_manager", "_released", "key")

    def __init__(self, manager: ProtectionKeyringManager, key: ProtectionKey) -> None:
        self.key: Final = key
        self._manager = manager
        self._released = False

    def release(self) -> None:
        """Ends the reservation. A second call does nothing."""
        self._manager._release(self)


@final
class ProtectionKeyringManager(Secret):
    """Live control of one server's ring. Every method may be called from any thread.

    The way to rotate: stage the new key on every instance; compare snapshots; activate it everywhere; wait the maximum
    lifetime plus 60 seconds, and for the former key's reservations to drain; remove that key.
    """

    __slots__ = ("_clock", "_last_used", "_lock", "_reservations", "_ring")

    def __init__(self, keyring: ProtectionKeyring, *, clock: Callable[[], float] = time.time) -> None:
        if not isinstance(keyring, ProtectionKeyring):
            raise TypeError(f"keyring must be a ProtectionKeyring, not {type(keyring).__name__}")
        self._ring = keyring
        self._clock = clock
        self._lock = threading.Lock()
        self._reservations: dict[str, int] = {}
        self._last_used: dict[str, float] = {}

    @property
    def keyring(self) -> ProtectionKeyring:
        """The ring of this moment."""
        return self._ring

    def stage_verification_key(self, key: ProtectionKey) -> None:
        """Adds a key that only opens. A key that is in the ring with the same bytes stays as it is.

        Raises:
            TypeError: ``key`` is no ProtectionKey.
            ValueError: The ring has other bytes under its id, or its bytes under another id.
        """
        with self._lock:
            self._ring = self._ring.staged(key)

    def activate_staged_key(self, key_id: str) -> None:
        """Makes a verification key the one that seals; the former one stays as a verification key.

        Raises:
            ValueError: The key is the active one already, or is not in the ring.
        """
        with self._lock:
            self._ring = self._ring.activated(key_id)

    def rotate_active_key(self, key: ProtectionKey) -> None:
        """Stages and activates a key in one step. A key that is the active one already stays so.

        For servers of one instance: others would meet tokens under a key that they do not have yet.

        Raises:
            TypeError: ``key`` is no ProtectionKey.
            ValueError: The ring has other bytes under its id, or its bytes under another id.
        """
        with self._lock:
            ring = self._ring.staged(key)
            self._ring = ring if ring.active_key_id == key.id else ring.activated(key.id)

    def remove_verification_key(self, key_id: str) -> None:
        """Removes a key: from now on its tokens do not open.

        Raises:
            ProtectionKeyInUseError: Seals under it are still on their way to clients; try again when they are out.
            ValueError: The key is the active one, or is not in the ring.
        """
        with self._lock:
            ring = self._ring.removed(key_id)
            count = self._reservations.get(key_id, 0)
            if count:
                raise ProtectionKeyInUseError(
                    f"key {key_id!r} cannot be removed yet: {count} sealed states are on their way to clients"
                )
            self._ring = ring
            self._last_used.pop(key_id, None)

    def snapshot(self) -> ProtectionKeyringSnapshot:
        """Ids, counts and fingerprint at this moment."""
        with self._lock:
            ring = self._ring
            ids = sorted((ring.active_key_id, *ring.verification_key_ids))
            return ProtectionKeyringSnapshot(
                active_key_id=ring.active_key_id,
                verification_key_ids=ring.verification_key_ids,
                sealing_reservations=freeze({key_id: self._reservations.get(key_id, 0) for key_id in ids}),
                last_used=freeze({key_id: self._last_used.get(key_id) for key_id in ids}),
                fingerprint=ring.fingerprint,
            )

    def sealing(self) -> SealingReservation:
        """Chooses the active key for one seal and counts it. Who calls this calls ``release()`` on the answer."""
        with self._lock:
            key = self._ring.active_key
            self._reservations[key.id] = self._reservations.get(key.id, 0) + 1
        return SealingReservation(self, key)

    def note_opened(self, key_id: str) -> None:
        """Records that a key has opened a token."""
        self._last_used[key_id] = self._clock()

    def _release(self, reservation: SealingReservation) -> None:
        key_id = reservation.key.id
        with self._lock:
            if reservation._released:
                return
            reservation._released = True
            left = self._reservations[key_id] - 1
            if left:
                self._reservations[key_id] = left
            else:
                del self._reservations[key_id]

    def __repr__(self) -> str:
        return f"<ProtectionKeyringManager {self._ring!r}>"
