"""Live rotation: one server's ring, replaced whole while requests run.

Rules

- Everything that a change replaces stands in one immutable object, and one store of one reference replaces it. So
  readers need no lock, and no thread, and no process that is forked in the middle, sees half a change. Changes are
  decided one after another under a lock; a refused one has stored nothing that a reader could see.
- A seal is counted by a reservation in the set of its key, until its message is out or its request has ended. Who seals
  takes no lock: it puts its reservation into the set of the key that seals, then looks again whether that key still
  does; if not, it takes the reservation out and chooses anew. Who drops a key first sees to it that nobody passes the
  second look, then looks into the set.
- Each of these steps is one operation of a built-in set, or one load or store of an attribute, so none needs the
  interpreter's lock to be whole. The look into the set is a copy, which takes the set's own lock where there is no
  other: either the copy has the reservation, or who added it later sees what was stored before the copy.
- A release is one ``set.discard``: it may come twice, from any thread, and from a finalizer, as it waits for nothing.
- Changes are told in their order, outside of the lock, by whichever thread is telling already.
- A forked child has the parent's ring and none of its reservations. Changes of the parent are told in the parent alone.
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from mcpinput._ending import ends_from_outside
from mcpinput.errors import ProtectionKeyInUseError
from mcpinput.json import freeze
from mcpinput.protection.keyring import ProtectionKeyring, ProtectionKeyringFingerprint, key_problem, keyring_problem
from mcpinput.protection.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from mcpinput.protection.key import ProtectionKey

__all__ = ["ProtectionKeyringManager", "ProtectionKeyringSnapshot", "SealingReservation"]

logger = logging.getLogger("mcpinput")


@dataclass(frozen=True, slots=True)
class ProtectionKeyringSnapshot:
    """A ring at one moment, without secrets: for comparison between instances, and for monitoring.

    Attributes:
        active_key_id: Id of the key that seals.
        verification_key_ids: Ids of the keys that only open, sorted.
        sealing_reservations: For each id, seals of this process that are still on their way to clients.
        last_used: For each id, when it last opened a token in this process (seconds, by the server's clock), or None.
        fingerprint: Of ids, roles and exact bytes.
        revoked_key_ids: Ids of the keys that were revoked in this process, sorted. They count for no fingerprint.
    """

    active_key_id: str
    verification_key_ids: tuple[str, ...]
    sealing_reservations: Mapping[str, int]
    last_used: Mapping[str, float | None]
    fingerprint: ProtectionKeyringFingerprint
    revoked_key_ids: tuple[str, ...]


@final
class SealingReservation(Secret):
    """A key that one seal uses, counted until :meth:`release`."""

    __slots__ = ("_held", "key")

    def __init__(self, key: ProtectionKey, held: set[SealingReservation]) -> None:
        self.key: Final = key
        self._held = held

    def release(self) -> None:
        """Ends the reservation. A second call does nothing. Never waits."""
        self._held.discard(self)


class _Use(Secret):
    """What is counted of one key, from when it comes into the ring until it leaves it."""

    __slots__ = ("held", "key", "last_used")

    def __init__(self, key: ProtectionKey) -> None:
        self.key: Final = key
        self.held: Final[set[SealingReservation]] = set()
        self.last_used: float | None = None


class _Moment(Secret):
    """Everything that a change replaces. Immutable.

    ``sealing`` is of the ring's active key, or None while it is being decided whether that key can be dropped.
    """

    __slots__ = ("revoked", "ring", "sealing", "uses")

    def __init__(
        self,
        ring: ProtectionKeyring,
        uses: Mapping[str, _Use],
        revoked: Mapping[str, ProtectionKey],
        sealing: _Use | None,
    ) -> None:
        self.ring: Final = ring
        self.uses: Final = uses
        self.revoked: Final = revoked
        self.sealing: Final = sealing

    def snapshot(self) -> ProtectionKeyringSnapshot:
        uses = sorted(self.uses.items())
        return ProtectionKeyringSnapshot(
            active_key_id=self.ring.active_key_id,
            verification_key_ids=self.ring.verification_key_ids,
            sealing_reservations=freeze({key_id: len(use.held) for key_id, use in uses}),
            last_used=freeze({key_id: use.last_used for key_id, use in uses}),
            fingerprint=self.ring.fingerprint,
            revoked_key_ids=tuple(sorted(self.revoked)),
        )


@final
class ProtectionKeyringManager(Secret):
    """Live control of one server's ring. Every method may be called from any thread.

    The way to rotate: stage the new key on every instance; compare snapshots; activate it everywhere; wait the maximum
    lifetime plus 60 seconds, and for the former key's reservations to drain; remove that key.

    Args:
        keyring: The ring to start from.
        on_change: Called with a snapshot after each change, in the order of the changes; a change that changes nothing
            calls nothing. While another thread is in it, that thread makes the call, so a method may return before. It
            may call any method of the manager. What it raises is logged by type and changes nothing.

    Raises:
        TypeError: ``keyring`` is no ring, or ``on_change`` no plain function.
    """

    __slots__ = ("__weakref__", "_lock", "_now", "_on_change", "_telling", "_untold")

    def __init__(
        self,
        keyring: ProtectionKeyring,
        *,
        on_change: Callable[[ProtectionKeyringSnapshot], None] | None = None,
    ) -> None:
        problem = keyring_problem(keyring)
        if problem is not None:
            del keyring  # it may be the bytes of a key
            raise problem
        if on_change is not None and (not callable(on_change) or inspect.iscoroutinefunction(on_change)):
            raise TypeError(f"on_change must be a plain function (nobody awaits it), not {type(on_change).__name__}")
        self._on_change = on_change
        self._begin(keyring, {})
        _MANAGERS.add(self)

    def _begin(self, ring: ProtectionKeyring, revoked: Mapping[str, ProtectionKey]) -> None:
        """Starts with nothing reserved, used or untold, and with locks that nobody holds."""
        uses = {key.id: _Use(key) for key in ring.keys}
        self._now = _Moment(ring, uses, revoked, uses[ring.active_key_id])
        self._lock = threading.Lock()
        self._telling = threading.Lock()
        self._untold: deque[ProtectionKeyringSnapshot] = deque()

    @property
    def keyring(self) -> ProtectionKeyring:
        """The ring of this moment."""
        return self._now.ring

    # ---- seals and openings ----

    def sealing(self) -> SealingReservation:
        """Chooses the active key for one seal and counts it. Who calls this calls ``release()`` on the answer."""
        while True:
            use = self._now.sealing
            if use is None:
                with self._lock:  # until it is decided which key seals
                    continue
            reservation = SealingReservation(use.key, use.held)
            use.held.add(reservation)
            if self._now.sealing is use:
                return reservation
            use.held.discard(reservation)

    def snapshot(self) -> ProtectionKeyringSnapshot:
        """Ids, counts and fingerprint at this moment."""
        return self._now.snapshot()

    # ---- changes ----

    def stage_verification_key(self, key: ProtectionKey) -> None:
        """Adds a key that only opens. A key that is in the ring with the same bytes stays as it is.

        Raises:
            TypeError: ``key`` is no ProtectionKey.
            ValueError: The ring has other bytes under its id, or its bytes under another id; or it was revoked.
        """
        problem = key_problem(key)
        if problem is not None:
            del key  # it may be the bytes of one
            raise problem
        with self._lock:
            self._change(self._now.ring.staged(key))
        self._tell()

    def activate_staged_key(self, key_id: str) -> None:
        """Makes a verification key the one that seals; the former one stays as a verification key.

        Raises:
            TypeError: ``key_id`` is no str.
            ValueError: The key is the active one already, is not in the ring, or was revoked.
        """
        problem = _key_id_problem(key_id)
        if problem is not None:
            del key_id  # it may be the bytes of a key
            raise problem
        with self._lock:
            if key_id in self._now.revoked:
                raise ValueError(f"key {key_id!r} was revoked; stage a new key and activate that one")
            self._change(self._now.ring.activated(key_id))
        self._tell()

    def rotate_active_key(self, key: ProtectionKey) -> None:
        """Stages and activates a key in one step. A key that is the active one already stays so.

        For servers of one instance: others would meet tokens under a key that they do not have yet.

        Raises:
            TypeError: ``key`` is no ProtectionKey.
            ValueError: The ring has other bytes under its id, or its bytes under another id; or it was revoked.
        """
        problem = key_problem(key)
        if problem is not None:
            del key  # it may be the bytes of one
            raise problem
        with self._lock:
            ring = self._now.ring.staged(key)
            self._change(ring if ring.active_key_id == key.id else ring.activated(key.id))
        self._tell()

    def remove_verification_key(self, key_id: str, *, revoke: bool = False) -> None:
        """Removes a key: from now on its tokens do not open.

        Args:
            key_id: Id of a verification key.
            revoke: For a key that others may know: removes it whatever seals are on their way, so that their tokens
                will not open. Neither its id nor its bytes come into this manager's ring again.

        Raises:
            ProtectionKeyInUseError: Seals under it are still on their way to clients, and ``revoke`` is false.
            TypeError: ``key_id`` is no str.
            ValueError: The key is the active one, or is not in the ring.
        """
        problem = _key_id_problem(key_id)
        if problem is not None:
            del key_id  # it may be the bytes of a key
            raise problem
        with self._lock:
            if key_id in self._now.revoked:
                raise ValueError(f"key {key_id!r} was revoked already; nothing is left to remove")
            self._change(self._now.ring.removed(key_id), {key_id} if revoke else ())
        self._tell()

    def replace_keyring(self, keyring: ProtectionKeyring, *, revoke: Iterable[str] = ()) -> None:
        """Changes to a whole other ring in one step. A ring with the same ids, roles and bytes changes nothing.

        Args:
            keyring: The new ring.
            revoke: Ids of keys that the new ring lacks and that are revoked, as by :meth:`remove_verification_key`. Ids
                that the present ring does not have are passed over.

        Raises:
            ProtectionKeyInUseError: Seals are still on their way to clients under keys that the new ring lacks and that
                are not revoked.
            TypeError: ``keyring`` is no ProtectionKeyring, or ``revoke`` no iterable of str.
            ValueError: The new ring has other bytes under an id of the present one, or a key that is revoked.
        """
        problem = keyring_problem(keyring)
        if problem is not None:
            del keyring  # it may be the bytes of a key
            raise problem
        key_ids = _key_ids(revoke)
        if key_ids is None:
            del revoke  # it may hold the bytes of a key
            raise TypeError("revoke must be an iterable of key ids, each a str")
        with self._lock:
            self._change(self._now.ring.replaced(keyring), key_ids)
        self._tell()

    def _change(self, ring: ProtectionKeyring, revoke: Collection[str] = ()) -> None:
        """Puts a ring in place of the present one, or raises and leaves everything as it is. Under the lock."""
        now = self._now
        revoked = {**now.revoked, **{key_id: now.uses[key_id].key for key_id in revoke if key_id in now.uses}}
        for key in ring.keys:
            if key.id not in now.uses or key.id in revoked:
                _refuse_revoked(key, revoked)
        if ring is now.ring:
            return
        uses = {key.id: now.uses.get(key.id) or _Use(key) for key in ring.keys}
        waits = [use for key_id, use in now.uses.items() if key_id not in uses and key_id not in revoked]
        after = now
        made = _Moment(ring, uses, revoked, uses[ring.active_key_id])
        try:
            if now.sealing in waits:  # who seals waits meanwhile; who opens sees the same ring
                self._now = _Moment(now.ring, now.uses, now.revoked, None)
            _refuse_held(waits)
            snapshot = made.snapshot()
            after = made
        finally:
            self._now = after
        self._untold.append(snapshot)

    # ---- telling ----

    def _tell(self) -> None:
        """Tells what is untold, unless another thread (or a caller of this one) is at it and will tell this as well."""
        telling = self._telling
        while self._untold and telling.acquire(blocking=False):
            try:
                while self._untold:
                    self._tell_of(self._untold.popleft())
            finally:
                telling.release()

    def _tell_of(self, snapshot: ProtectionKeyringSnapshot) -> None:
        logger.info(
            "keyring changed: active %s, verification %s, revoked %s, fingerprint %s",
            snapshot.active_key_id,
            ", ".join(snapshot.verification_key_ids) or "none",
            ", ".join(snapshot.revoked_key_ids) or "none",
            snapshot.fingerprint.value,
        )
        if self._on_change is None:
            return
        try:
            self._on_change(snapshot)
        except BaseException as error:  # the ring has changed, whatever the application makes of it
            if ends_from_outside(error):
                raise
            logger.error("on_change raised %s after the keyring had changed", type(error).__name__)

    def __repr__(self) -> str:
        return f"<ProtectionKeyringManager {self._now.ring!r}>" if hasattr(self, "_now") else super().__repr__()


def _key_id_problem(key_id: object) -> TypeError | None:
    if isinstance(key_id, str):
        return None
    return TypeError(f"key_id must be the id of a key, a str, not {type(key_id).__name__}")


def _key_ids(revoke: Iterable[str]) -> frozenset[str] | None:
    """The ids, or None where it is something else."""
    if isinstance(revoke, str) or not isinstance(revoke, Iterable):  # the characters of one would be taken for ids
        return None
    key_ids = tuple(revoke)
    return frozenset(key_ids) if all(isinstance(key_id, str) for key_id in key_ids) else None


def _refuse_revoked(key: ProtectionKey, revoked: Mapping[str, ProtectionKey]) -> None:
    if key.id in revoked:
        raise ValueError(f"key {key.id!r} is revoked and cannot be in the ring; make a new key under an id of its own")
    for other in revoked.values():
        if other.same_secret(key):
            raise ValueError(f"key {key.id!r} has the bytes of {other.id!r}, which is revoked; make a new key")


def _refuse_held(uses: Iterable[_Use]) -> None:
    counts = {use.key.id: len(use.held.copy()) for use in uses}  # copied for the sake of the rule above
    ids = [repr(key_id) for key_id, count in sorted(counts.items()) if count]
    if ids:
        raise ProtectionKeyInUseError(
            f"key {', '.join(ids)} cannot be removed yet: {sum(counts.values())} sealed states are on their way to "
            "clients; try again when they are out"
        )


# ---- fork ----

_MANAGERS: Final[weakref.WeakSet[ProtectionKeyringManager]] = weakref.WeakSet()


def _begin_in_child() -> None:
    """A thread that held a lock in the parent, or a reservation, does not exist in the child."""
    for manager in _MANAGERS:
        manager._begin(manager._now.ring, manager._now.revoked)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)
