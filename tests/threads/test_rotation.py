"""Eight threads seal and open while the ring changes ten thousand times: nobody sees half a change."""

from __future__ import annotations

import collections
import random
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from mcpinput.errors import ProtectionFailure, ProtectionKeyInUseError, RequestStateProtectionError
from mcpinput.protection import ProtectionConfig, ProtectionKey, ProtectionKeyring, ProtectionKeyringManager
from mcpinput.protection.context import Bindings
from mcpinput.protection.state import Call, StateBoundary

THREADS = 8
CHANGES = 10_000
BINDINGS = Bindings("refunds", "/mcp", "2026-07-28", "tools/call", "acme", "eu", "alice")


@pytest.fixture(autouse=True)
def _restless_threads() -> Iterator[None]:
    """Threads take turns far more often than they would."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    yield
    sys.setswitchinterval(before)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Drives a coroutine that never suspends, as those of the built-in protector."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("suspended")


def call(request_id: int) -> Call:
    return Call(BINDINGS, request_id, lambda: b"p" * 32)


def new_keys() -> Iterator[ProtectionKey]:
    number = 0
    while True:
        number += 1
        yield ProtectionKey.from_id_and_bytes(f"k{number}", f"key number {number}".encode().ljust(32, b"."))


class Rotation:
    """The server's ring and what its operator knows of it."""

    def __init__(self) -> None:
        self.fresh = new_keys()
        first = next(self.fresh)
        ring = ProtectionKeyring.with_active_key(first).build()
        self.boundary = StateBoundary(ProtectionConfig(keyring=ring))
        manager = self.boundary.keyring_manager
        assert manager is not None
        self.manager: ProtectionKeyringManager = manager
        self.active = first
        self.others: dict[str, ProtectionKey] = {}
        # The first two have an id before its change begins; the last has it once that has returned, and in which order.
        self.leaving: set[str] = set()
        self.revoking: set[str] = set()
        self.gone: dict[str, int] = {}
        self.refused = 0
        self.made: collections.Counter[str] = collections.Counter()
        self.draw = random.Random(20260728)

    def change(self) -> None:
        """One change of some kind, as the ring of this moment allows."""
        kinds = ["stage", "rotate", "replace"] if len(self.others) < 6 else []
        kinds += ["activate", "activate", "remove", "remove", "revoke", "replace by less"] if self.others else []
        kind = self.draw.choice(kinds)
        getattr(self, kind.replace(" ", "_"))()
        self.made[kind] += 1

    def allowed(self, change: Callable[[], None]) -> bool:
        """Makes a change, unless a key is in use that it drops."""
        try:
            change()
        except ProtectionKeyInUseError:
            self.refused += 1
            return False
        return True

    def stage(self) -> None:
        key = next(self.fresh)
        self.manager.stage_verification_key(key)
        self.others[key.id] = key

    def rotate(self) -> None:
        key = next(self.fresh)
        self.manager.rotate_active_key(key)
        self.others[self.active.id] = self.active
        self.active = key

    def activate(self) -> None:
        key = self.others.pop(self.draw.choice(list(self.others)))
        self.manager.activate_staged_key(key.id)
        self.others[self.active.id] = self.active
        self.active = key

    def remove(self) -> None:
        key_id = self.draw.choice(list(self.others))
        self.leaving.add(key_id)
        while not self.allowed(lambda: self.manager.remove_verification_key(key_id)):
            time.sleep(0)
        self.gone[key_id] = len(self.gone)
        del self.others[key_id]

    def revoke(self) -> None:
        key_id = self.draw.choice(list(self.others))
        self.leaving.add(key_id)
        self.revoking.add(key_id)
        self.manager.remove_verification_key(key_id, revoke=True)
        self.gone[key_id] = len(self.gone)
        del self.others[key_id]

    def replace(self) -> None:
        self._replace(next(self.fresh), [self.active, *self.others.values()], [])

    def replace_by_less(self) -> None:
        """The key that seals is dropped with some others, and one of them revoked."""
        kept = [key for key in self.others.values() if self.draw.random() < 0.7]
        dropped = [key.id for key in (self.active, *self.others.values()) if key not in kept]
        self._replace(next(self.fresh), kept, [self.draw.choice(dropped)] if self.draw.random() < 0.3 else [])

    def _replace(self, active: ProtectionKey, others: list[ProtectionKey], revoke: list[str]) -> None:
        builder = ProtectionKeyring.with_active_key(active)
        for key in others:
            builder.verification_key(key)
        ring = builder.build()
        dropped = {key.id for key in (self.active, *self.others.values()) if ring.find(key.id) is None}
        self.leaving |= dropped
        self.revoking |= set(revoke)
        for _ in range(10):
            if self.allowed(lambda: self.manager.replace_keyring(ring, revoke=revoke)):
                break
            time.sleep(0)
        else:  # some thread always seals: then they are not waited for
            self.revoking |= dropped
            self.manager.replace_keyring(ring, revoke=dropped)
        for key_id in dropped:
            self.gone[key_id] = len(self.gone)
        self.active, self.others = active, {key.id: key for key in others}


class Traffic:
    """What one thread does until the end: seals, opens at once, opens what it sealed earlier."""

    def __init__(self, rotation: Rotation, end: threading.Event) -> None:
        self.rotation = rotation
        self.end = end
        self.failure: BaseException | None = None
        self.opened: collections.Counter[str] = collections.Counter()
        self.earlier: collections.deque[tuple[str, str]] = collections.deque(maxlen=30)
        self.thread = threading.Thread(target=self.guarded)

    def guarded(self) -> None:
        """The sleeps leave turns to the one thread that changes the ring."""
        try:
            while not self.end.is_set():
                self.reserve()
                self.flow()
                self.retry()
                self.retry()
                time.sleep(0.004)
        except BaseException as error:
            self.failure = error
            self.end.set()

    def reserve(self) -> None:
        """A key that is reserved is in the ring, unless somebody revokes it."""
        manager = self.rotation.manager
        reservation = manager.sealing()
        try:
            key = reservation.key
            assert manager.keyring.find(key.id) is key or key.id in self.rotation.revoking
            counts = manager.snapshot().sealing_reservations
            assert counts.get(key.id, 0) > 0 or key.id in self.rotation.revoking
        finally:
            reservation.release()

    def flow(self) -> None:
        """What is on its way to the client opens, unless somebody revokes its key."""
        before = len(self.rotation.gone)
        sealed = run(self.rotation.boundary.seal(call(1), None, {}, has_state=True, state="state"))
        try:
            time.sleep(0.001)  # it is on its way
            key_id, opens = self.open(sealed.token)
        finally:
            sealed.release()
        assert self.rotation.gone.get(key_id, before) >= before, "a seal used a key that had been removed before"
        if opens:
            self.opened["at once"] += 1
            self.earlier.append((key_id, sealed.token))
        else:
            assert key_id in self.rotation.revoking
            self.opened["revoked on its way"] += 1

    def retry(self) -> None:
        """An earlier token opens until its key is removed, and never again from then on."""
        if not self.earlier:
            return
        key_id, token = self.earlier.popleft()
        gone = key_id in self.rotation.gone
        told_id, opens = self.open(token)
        assert told_id == key_id
        if opens:
            assert not gone
            self.opened["later"] += 1
            self.earlier.append((key_id, token))
        else:
            assert key_id in self.rotation.leaving
            self.opened["never again"] += 1

    def open(self, token: str) -> tuple[str, bool]:
        """Key id of a token, and whether it opens; if not, then because that key is not in the ring."""
        try:
            opened = run(self.rotation.boundary.open(token, call(2)))
        except RequestStateProtectionError as error:
            if error.reason is not ProtectionFailure.UNKNOWN_KEY or error.key_id is None:
                raise
            return error.key_id, False
        assert opened.state == "state"
        return opened.key_id, True


def test_no_thread_sees_half_a_change() -> None:
    rotation, end = Rotation(), threading.Event()
    traffic = [Traffic(rotation, end) for _ in range(THREADS)]
    for each in traffic:
        each.thread.start()
    try:
        while sum(rotation.made.values()) < CHANGES and not end.is_set():
            rotation.change()
    finally:
        end.set()
        for each in traffic:
            each.thread.join(60)
    for each in traffic:
        if each.failure is not None:
            raise each.failure
    opened = sum((each.opened for each in traffic), collections.Counter())
    print(f"{dict(rotation.made)}, {rotation.refused} refusals; tokens: {dict(opened)}")
    assert sum(rotation.made.values()) == CHANGES
    assert rotation.refused > 0
    assert min(rotation.made[kind] for kind in ("stage", "rotate", "activate", "remove", "revoke", "replace")) > 100
    assert min(opened[kind] for kind in ("at once", "later", "never again", "revoked on its way")) > 0
    snapshot = rotation.manager.snapshot()
    assert set(snapshot.sealing_reservations.values()) == {0}
    assert snapshot.sealing_reservations.keys() == {rotation.active.id, *rotation.others}
    assert set(snapshot.revoked_key_ids) <= rotation.revoking
