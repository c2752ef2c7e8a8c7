"""A ring that follows a file of keys: which key seals when, and how long one is kept that has left the file.

Rules

- The file decides. What else changes the ring lasts until the next poll.
- One step, :meth:`KeyFileWatcher.poll_once`, reads the clock once, judges everything anew and changes the ring at most
  once, but for keys that are let go. It raises nothing: whatever is wrong, what was last good stays in force, its times
  included.
- What a process has seen of each key is one immutable mapping, replaced whole, so that a child that is forked in the
  middle of a step has the old one or the new.
- A clock that is set back makes nothing wait for longer than it would have waited from then on, and takes no key back
  that has begun to seal.
- The thread knows the watcher weakly, and ends at its first waking after it. Each process starts its own, and waits for
  its first step, though not for long, where the file was last read too long ago: nobody may have asked for the ring for
  days.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, final

from mcpinput._ending import ends_from_outside
from mcpinput.errors import ProtectionKeyInUseError
from mcpinput.protection.manager import ProtectionKeyringManager
from mcpinput.protection.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from mcpinput.protection.keyfile import KeyEntry, KeyFileContent
    from mcpinput.protection.manager import ProtectionKeyringSnapshot

__all__ = ["GRACE_SECONDS", "KeyFileWatcher"]

logger = logging.getLogger("mcpinput")

GRACE_SECONDS: Final = 60.0
"""What is added to the lifetime of state before a key is let go: the clocks of instances differ."""

_FIRST_STEP_SECONDS: Final = 0.25
"""How long the first request of a process may be held up by a disk that does not answer."""

_forks = 0
_starting = threading.Lock()


def _after_fork() -> None:
    # Threads do not come along into a child, and the lock may have been held by one of them.
    global _forks, _starting
    _forks += 1
    _starting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What this process has seen of one key, in seconds of the clock; None for what has not happened.

    Attributes:
        met: When it came into the file while this process ran.
        active: When it was first the active one.
        not_before: What the file says of it.
        has_sealed: Whether, as the active one and under this ``not_before``, it has begun to seal.
        sealed_until: When it last ceased to seal.
        gone: When it was first missing from the file.
    """

    met: float | None = None
    active: float | None = None
    not_before: datetime | None = None
    has_sealed: bool = False
    sealed_until: float | None = None
    gone: float | None = None

    def not_after(self, now: float) -> _Seen:
        """The same, with nothing in the future."""
        return replace(
            self,
            met=_earlier(self.met, now),
            active=_earlier(self.active, now),
            sealed_until=_earlier(self.sealed_until, now),
            gone=_earlier(self.gone, now),
        )


def _earlier(time: float | None, now: float) -> float | None:
    return None if time is None else min(time, now)


@final
class KeyFileWatcher(Secret):
    """Keeps a ring as a file of keys has it; made by :meth:`KeyFile.follow`.

    Attributes:
        manager: The manager whose ring follows the file.
    """

    __slots__ = (
        "__weakref__",
        "_activation_delay",
        "_clock",
        "_content",
        "_ended",
        "_exposed",
        "_name",
        "_on_problem",
        "_poll_interval",
        "_polling",
        "_read",
        "_read_at",
        "_reported",
        "_retention",
        "_seen",
        "_started",
        "_stopped",
        "manager",
    )

    def __init__(
        self,
        read: Callable[[float, KeyFileContent | None], KeyFileContent],
        *,
        name: str,
        clock: Callable[[], float],
        activation_delay: float,
        poll_interval: float,
        maximum_lifetime_ms: int,
        on_change: Callable[[ProtectionKeyringSnapshot], None] | None = None,
        on_problem: Callable[[str], None] | None = None,
    ) -> None:
        self._read: Final = read
        self._name: Final = name
        self._clock: Final = clock
        self._activation_delay: Final = activation_delay
        self._poll_interval: Final = poll_interval
        self._retention: Final = maximum_lifetime_ms / 1000 + GRACE_SECONDS
        self._on_problem: Final = on_problem
        self._reported: set[str] = set()
        self._exposed = False
        self._started = -1
        self._stopped = False
        self._ended = threading.Event()
        self._polling = threading.Lock()
        self._read_at: Final = time.monotonic()
        now = clock()
        content = read(now, None)
        # As if every key had been there before: a restart changes nothing where the file has the times.
        seen, sealing = self._judged(content, {entry.key.id: _Seen() for entry in content.usable}, now)
        self._content: KeyFileContent = content
        self._seen: Mapping[str, _Seen] = seen
        self.manager: Final = ProtectionKeyringManager(content.ring(sealing), on_change=on_change)
        self._tell_of_exposure(content)

    # ---- the thread ----

    def ensure(self) -> None:
        """Sees to it that the file is followed in this process, which may be a fork of the one that made this."""
        if self._started != _forks:
            self._start()

    def stop(self) -> None:
        """Ends the following for good, without waiting for a step that is under way. The ring stays as it is."""
        with _starting:
            self._stopped = True
            if self._started == _forks:  # else it is the parent's, whose lock its thread may have held in the fork
                self._ended.set()

    def _start(self) -> None:
        with _starting:
            if self._stopped or self._started == _forks:
                return
            # The parent's may be held, or waited for, by threads that are not here.
            self._ended = threading.Event()
            self._polling = threading.Lock()
            stepped = threading.Event()
            arguments = (weakref.ref(self), self._ended, stepped, self._poll_interval)
            try:
                threading.Thread(target=_follow, args=arguments, name="mcpinput-keys", daemon=True).start()
                if time.monotonic() - self._read_at > self._poll_interval:
                    stepped.wait(_FIRST_STEP_SECONDS)
                self._started = _forks
            except RuntimeError:  # no thread is to be had for now; the next request tries again
                pass
            except BaseException:  # Ctrl-C: the next request starts another one, so this one, if there is one, ends
                self._ended.set()
                raise
        if self._started != _forks:
            self._report("it is not followed for now: no thread can be started")

    # ---- one step ----

    def poll_once(self, now: float | None = None) -> None:
        """Reads the file and changes the ring to what it should be now. Raises nothing that the file can cause.

        Args:
            now: Seconds since 1970; by default the clock's.
        """
        with self._polling:
            try:
                self._poll(self._clock() if now is None else now)
            except BaseException as error:
                if ends_from_outside(error):
                    raise
                self._report(f"it cannot be followed: {type(error).__name__}")

    def _poll(self, now: float) -> None:
        try:
            content = self._read(now, self._content)
            self._apply(content, now)
        except ValueError as error:  # of the file (KeyFileError), or of its keys with those of the ring
            self._report(str(error).removeprefix(f"{self._name}: "))
            self._apply(self._content, now)
        else:
            self._tell_of_exposure(content)
            if self._reported:
                self._reported = set()
                logger.warning("%s is good again", self._name)

    def _apply(self, content: KeyFileContent, now: float) -> None:
        """Makes the ring what a content asks for by now.

        Raises:
            ValueError: The content does not go with the keys that this process has had.
        """
        ring = self.manager.keyring
        known = {key_id: seen.not_after(now) for key_id, seen in self._seen.items()}
        before = {entry.key.id: known.get(entry.key.id, _Seen(met=now)) for entry in content.usable}
        seen, sealing = self._judged(content, before, now)
        revoked = [entry.key for entry in content.entries if entry.revoked]
        revoke = [key.id for key in ring.keys if any(key.id == other.id or key.same_secret(other) for other in revoked)]
        # What is in the ring and no longer in the file.
        gone = [key for key in ring.keys if key.id not in seen and key.id not in revoke]
        for key in gone:
            last = known.get(key.id, _Seen())
            seen[key.id] = last if last.gone is not None else replace(last, gone=now)
        if ring.active_key_id != sealing.key.id and ring.active_key_id in seen:
            seen[ring.active_key_id] = replace(seen[ring.active_key_id], sealed_until=now)
        # Nothing of an earlier time may count for it, should a fork or Ctrl-C cut off the step in which it ceases.
        seen[sealing.key.id] = replace(seen[sealing.key.id], sealed_until=None)
        ids = {key.id for key in ring.keys}
        if content is not self._content or ring.active_key_id != sealing.key.id or ids != seen.keys():
            self.manager.replace_keyring(content.ring(sealing, gone), revoke=revoke)
        for key in gone:
            last = seen[key.id]
            since = last.gone if last.sealed_until is None else last.sealed_until
            assert since is not None
            if now >= since + self._retention and self._removed(key.id):
                del seen[key.id]
        self._seen = seen
        self._content = content

    def _judged(
        self, content: KeyFileContent, before: Mapping[str, _Seen], now: float
    ) -> tuple[dict[str, _Seen], KeyEntry]:
        """What has now been seen of the keys of a content, and the one that seals."""
        seen: dict[str, _Seen] = {}
        for entry in content.usable:
            last = before[entry.key.id]
            if entry.not_before is not None and entry.not_before != last.not_before:
                last = replace(last, has_sealed=False)
            seen[entry.key.id] = replace(last, not_before=entry.not_before, gone=None)
        active_id = content.active.key.id
        active = seen[active_id]
        if active.active is None:
            active = replace(active, active=now)
        may_seal = len(seen) == 1 or active.has_sealed or now >= self._earliest(active)
        sealing = content.sealing(may_seal, now)
        seen[active_id] = replace(active, has_sealed=sealing is content.active)
        return seen, sealing

    def _earliest(self, active: _Seen) -> float:
        """From when on the active key may seal."""
        if active.not_before is None:
            assert active.active is not None
            return active.active + self._activation_delay
        earliest = active.not_before.timestamp()
        return earliest if active.met is None else max(earliest, active.met + self._activation_delay)

    def _removed(self, key_id: str) -> bool:
        try:
            self.manager.remove_verification_key(key_id)
        except ProtectionKeyInUseError:  # the next step tries again
            return False
        return True

    # ---- telling ----

    def _report(self, problem: str) -> None:
        if problem in self._reported:
            return
        self._reported.add(problem)
        logger.warning("%s: %s; what it said last stays in force", self._name, problem)
        if self._on_problem is None:
            return
        try:
            self._on_problem(problem)
        except BaseException as error:  # the ring is followed, whatever the application makes of it
            if ends_from_outside(error):
                raise
            logger.error("on_problem raised %s", type(error).__name__)

    def _tell_of_exposure(self, content: KeyFileContent) -> None:
        if content.is_exposed and not self._exposed:
            self._exposed = True
            logger.warning("%s may be read by others than its owner and group; let defaultMode be 0400", self._name)

    def __repr__(self) -> str:
        return f"<KeyFileWatcher {self._name} (redacted)>"


def _follow(
    reference: weakref.ref[KeyFileWatcher], ended: threading.Event, stepped: threading.Event, interval: float
) -> None:
    while True:
        watcher = reference()
        if watcher is None:
            return
        # Ctrl-C comes to the main thread alone, so what arrives here is the application's (an observer's, a log
        # filter's); and a thread that ended would never see that a key was revoked.
        with contextlib.suppress(BaseException):
            watcher.poll_once()
        stepped.set()
        del watcher  # so that nothing but its users keeps it
        if ended.wait(interval):
            return
