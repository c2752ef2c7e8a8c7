"""``mcpinput keys``: makes, checks and rotates files of keys.

Rules

- Keys are neither taken from the command line nor printed. Everything that has seen one runs inside of ``unseen``.
- A rotation has three phases, one for each run. Which one it is stands in the file alone, and what can be read in two
  ways is refused. A phase that comes too early is refused too, with the time from when on it is right.
- A file is replaced whole: a crash at any point leaves the old one or the new one. Who replaces it holds its lock, and
  decides by what it says then.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import math
import os
import secrets
import stat
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from mcpinput.protection.keyfile import (
    DEFAULT_ACTIVATION_DELAY,
    KeyEntry,
    KeyFile,
    KeyFileContent,
    Refused,
    content_of,
    data_of,
    is_delivered,
    read_open,
    time_text,
    unseen,
)
from mcpinput.protection.watch import GRACE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpinput.protection.keyring import ProtectionKeyringFingerprint

__all__ = ["add_commands", "check", "fingerprint", "new", "rotate"]

_MAXIMUM_SECONDS: Final = 366 * 86_400
_DEFAULT_LIFETIME: Final = 900
_MADE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``keys`` and what it can do to the commands of ``mcpinput``."""
    keys = commands.add_parser(
        "keys",
        help="make, check and rotate a file of keys",
        description="Makes, checks and rotates files of keys, which servers follow while they run (KeyFile).",
    )
    actions = keys.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, run: Callable[[argparse.Namespace], list[str]], help: str) -> argparse.ArgumentParser:
        parser = actions.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        parser.add_argument("file", metavar="FILE", type=_path, help="the file of keys")
        parser.set_defaults(run=lambda options: print("\n".join(run(options))))
        return parser

    parser = action(
        "new",
        lambda options: new(options.file, time.time(), options.id),
        "make a file with one random key, which its owner alone can read",
    )
    parser.add_argument("--id", help="id of the key (default: the date and random digits)")
    action(
        "check",
        lambda options: check(options.file, time.time()),
        "tell what a server would make of a file or mounted folder, or why it would refuse it",
    )
    action(
        "fingerprint",
        lambda options: [_fingerprint_text(fingerprint(options.file, time.time()))],
        "print version, profile and value of the fingerprint, to compare with the snapshot of a server",
    )
    parser = action(
        "rotate",
        lambda options: rotate(options.file, time.time(), options.lifetime, options.activation_delay, options.id),
        "take the next of three steps: add a new key; let it seal; take the former one out",
    )
    parser.add_argument(
        "--lifetime",
        type=_seconds,
        default=_DEFAULT_LIFETIME,
        metavar="SECONDS",
        help="maximum_request_state_lifetime of the service (default: %(default)s)",
    )
    parser.add_argument(
        "--activation-delay",
        type=_seconds,
        default=int(DEFAULT_ACTIVATION_DELAY.total_seconds()),
        metavar="SECONDS",
        help="how long it takes until every instance has a new file (default: %(default)s)",
    )
    parser.add_argument("--id", help="id of the new key (default: the date and random digits)")


def _path(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("a path is needed")
    return os.path.abspath(text)


def _seconds(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 8 and 1 <= int(text) <= _MAXIMUM_SECONDS:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no time: whole seconds from 1 to {_MAXIMUM_SECONDS} are needed")


# ---- what the actions do ----


def new(path: str, now: float, key_id: str | None = None) -> list[str]:
    """Makes a file with one random key.

    Args:
        path: Where; nothing may be there.
        now: Seconds since 1970.
        key_id: Id of the key; by default one is made.

    Returns:
        What to print: id and fingerprint.

    Raises:
        KeyFileError: Something is there, it cannot be written, or the id is none.
    """
    return unseen(path, lambda: _new(path, now, key_id))


def check(path: str, now: float) -> list[str]:
    """Reads a file or mounted folder as a server would that starts now.

    Returns:
        What to print: a line for each key, the fingerprint, and what could be better.

    Raises:
        KeyFileError: A server would refuse it; says why.
    """
    content = KeyFile(path).read(now)
    sealing = content.sealing_at(now)
    lines = [f"{entry.key.id}: {_role(entry, content, sealing)}" for entry in content.entries]
    lines.append(f"fingerprint {_fingerprint_text(content.ring(sealing).fingerprint)}")
    at_start = content.sealing(False, now)
    if content.active.not_before is None and at_start is not content.active:
        lines.append(
            f"note: {content.active.key.id} has no not_before, so {at_start.key.id} seals for the activation delay of "
            "every server that starts"
        )
    if content.is_exposed:
        lines.append("note: others than its owner and group may read the file; let the secret's defaultMode be 0400")
    return lines


def fingerprint(path: str, now: float) -> ProtectionKeyringFingerprint:
    """The fingerprint that servers have, once they have seen the file and its delays have passed.

    Raises:
        KeyFileError: A server would refuse the file; says why.
    """
    content = KeyFile(path).read(now)
    return content.ring(content.sealing_at(now)).fingerprint


def rotate(path: str, now: float, lifetime: int, activation_delay: int, key_id: str | None = None) -> list[str]:
    """Takes the next step of a rotation: stages a new key, lets it seal, or takes the former one out.

    Args:
        path: Of the file.
        now: Seconds since 1970.
        lifetime: Maximum lifetime of state in the service, in seconds.
        activation_delay: Seconds until every instance has a new file.
        key_id: Id of the new key; by default one is made.

    Returns:
        What to print: which step it was, and what comes next.

    Raises:
        KeyFileError: It is too early, the file is not as a rotation leaves it, or it cannot be replaced. It is as it
            was.
    """
    return unseen(path, lambda: _rotate(path, now, lifetime, activation_delay, key_id))


def _fingerprint_text(fingerprint: ProtectionKeyringFingerprint) -> str:
    return f"{fingerprint.version} {fingerprint.profile} {fingerprint.value}"


def _role(entry: KeyEntry, content: KeyFileContent, sealing: KeyEntry) -> str:
    since = "" if entry.created is None else f", made at {time_text(entry.created)}"
    if entry.revoked:
        return f"revoked{since}"
    if entry is content.active:
        start = content.active.not_before
        if entry is sealing:
            return f"seals and opens{'' if start is None else f' since {time_text(start)}'}{since}"
        assert start is not None  # else nothing would have kept it from sealing
        return f"opens, and seals from {time_text(start)} on{since}"
    if entry is sealing:
        assert content.active.not_before is not None
        return f"seals until {time_text(content.active.not_before)}, and opens{since}"
    return f"opens{since}"


# ---- making ----


def _second(now: float) -> datetime:
    """The next whole second: what is counted from it never ends too early."""
    return datetime.fromtimestamp(math.ceil(now), UTC)


def _entry(key_id: str | None, now: float) -> KeyEntry:
    created = _second(now)
    if key_id is None:
        key_id = f"{created.date().isoformat()}-{secrets.token_hex(3)}"
    try:
        return KeyEntry.random(key_id, created)
    except ValueError:
        pass
    raise Refused("is not written: --id must be an HTTP token of 1 to 64 ASCII characters")


def _new(path: str, now: float, key_id: str | None) -> list[str]:
    entry = _entry(key_id, now)
    content = KeyFileContent((entry,), entry)
    try:
        descriptor = os.open(path, _MADE, 0o600)
    except FileExistsError:
        raise Refused("exists already, and is left as it is") from None
    try:
        _write(descriptor, data_of(content))
    except BaseException:
        os.unlink(path)
        raise
    _sync_folder(path)
    return [f"key {entry.key.id}", f"fingerprint {_fingerprint_text(content.ring(entry).fingerprint)}"]


# ---- rotating ----


def _rotate(path: str, now: float, lifetime: int, activation_delay: int, key_id: str | None) -> list[str]:
    if os.path.isdir(path) or is_delivered(path):
        raise Refused("is a mounted secret: rotate the file that the secret is made of, and have it delivered anew")
    descriptor = _locked(path)
    try:
        data, mode = read_open(descriptor)
        if mode & stat.S_IROTH:
            raise Refused("may be read by others than its owner and group; chmod 600 it")
        content = content_of(data, now)
        after, lines = _next(content, now, timedelta(seconds=lifetime), timedelta(seconds=activation_delay), key_id)
        written = data_of(after)
        content_of(written, now)  # nothing is put in place that a server would refuse
        _replace(path, written, os.fstat(descriptor))
    finally:
        os.close(descriptor)
    return lines


def _next(
    content: KeyFileContent, now: float, lifetime: timedelta, delay: timedelta, key_id: str | None
) -> tuple[KeyFileContent, list[str]]:
    """The content that comes after one, and what to tell of it."""
    active = content.active
    others = [entry for entry in content.usable if entry is not active]
    if len(others) > 1:
        raise _unclear(f"{len(others) + 1} keys open; take out, or mark as revoked, all but the two that are in use")
    if not others:
        return _staged(content, now, delay, key_id)
    other = others[0]
    place = f"keys[{content.entries.index(other)}]"
    if key_id is not None:
        raise Refused("is left as it is: --id names a new key, and the next step of this file makes none")
    if content.previous is None:
        if active.not_before is not None and active.not_before.timestamp() > now:
            raise _unclear("the active key does not seal yet, and previous does not say which one does")
        if other.not_before is not None:
            raise _unclear(f"{place} has a not_before, which a new key that is not active has not")
        if other.created is None:
            raise _unclear(f"{place} has no created, so nobody can tell since when instances have it")
        if active.created is not None and other.created < active.created:
            raise _unclear(f"{place} is older than the active key; let previous name it, or take it out")
        if active.created is None and active.not_before is None:
            raise _unclear("the active key has neither created nor not_before, so nobody can tell which key is new")
        return _activated(content, other, now, lifetime, delay)
    if active.not_before is None:
        raise _unclear("the active key has no not_before, so nobody can tell since when it seals")
    if other.not_before is not None and other.not_before > active.not_before:
        raise _unclear("previous began to seal after active did, so nobody can tell when it ceased to")
    return _removed(content, other, active.not_before, now, lifetime)


def _unclear(what: str) -> Refused:
    return Refused(f"is not as a rotation leaves it: {what}")


def _not_before(time: datetime, now: float, why: str) -> None:
    if time.timestamp() > now:
        raise Refused(f"is left as it is: the next step is right from {time_text(time)} on, {why}")


def _staged(
    content: KeyFileContent, now: float, delay: timedelta, key_id: str | None
) -> tuple[KeyFileContent, list[str]]:
    new = _entry(key_id, now)
    if content.find(new.key.id) is not None:
        raise Refused(f"is left as it is: it has a key {new.key.id!r} already; a new key needs an id of its own")
    active = content.active
    if active.not_before is None:
        # Beside a second key, one without this would have to wait in every server that starts.
        earliest = _second(now) - delay
        active = active.with_not_before(min(active.created or earliest, earliest))
    entries = (*(active if entry is content.active else entry for entry in content.entries), new)
    return KeyFileContent(entries, active), [
        f"step 1 of 3: key {new.key.id} is new; it opens, and {active.key.id} goes on to seal",
        f"next: once every instance has this file, and from {time_text(_second(now) + delay)} on, 'mcpinput keys "
        f"rotate' lets {new.key.id} seal",
    ]


def _activated(
    content: KeyFileContent, new: KeyEntry, now: float, lifetime: timedelta, delay: timedelta
) -> tuple[KeyFileContent, list[str]]:
    assert new.created is not None
    _not_before(new.created + delay, now, "when every instance has the new key")
    start = _second(now) + delay
    active = new.with_not_before(start)
    entries = tuple(active if entry is new else entry for entry in content.entries)
    former = content.active.key.id
    return KeyFileContent(entries, active, content.active), [
        f"step 2 of 3: key {active.key.id} seals from {time_text(start)} on; {former} seals until then, and opens",
        f"next: from {time_text(_end(start, lifetime))} on, 'mcpinput keys rotate' takes {former} out",
    ]


def _removed(
    content: KeyFileContent, former: KeyEntry, start: datetime, now: float, lifetime: timedelta
) -> tuple[KeyFileContent, list[str]]:
    _not_before(_end(start, lifetime), now, f"when nothing is good any more that {former.key.id} has sealed")
    entries = tuple(entry for entry in content.entries if entry is not former)
    return KeyFileContent(entries, content.active), [
        f"step 3 of 3: key {former.key.id} is taken out; {content.active.key.id} seals and opens",
        "next: nothing; 'mcpinput keys rotate' begins anew",
    ]


def _end(start: datetime, lifetime: timedelta) -> datetime:
    return start + lifetime + timedelta(seconds=GRACE_SECONDS)


# ---- files ----


def _locked(path: str) -> int:
    """A descriptor of the file that is at a path, with its lock.

    Raises:
        OSError, Refused: It cannot be opened for writing.
    """
    while True:
        problem = ""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            problem = "is a symbolic link: rotate the file that it leads to"
        if problem:
            raise Refused(problem)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False)):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # whoever held the lock has put another file in its place


def _replace(path: str, data: bytes, former: os.stat_result) -> None:
    """Puts a new file in the place of one, of the same owner and mode."""
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name}.new")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)  # of a run that was killed: the lock says that none is at it
    descriptor = os.open(beside, _MADE, 0o600)
    try:
        _write(descriptor, data, former)
        os.rename(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    _sync_folder(path)


def _write(descriptor: int, data: bytes, former: os.stat_result | None = None) -> None:
    """Writes a whole file to the disk, and closes it."""
    try:
        if former is not None:
            if (former.st_uid, former.st_gid) != (os.fstat(descriptor).st_uid, os.fstat(descriptor).st_gid):
                os.fchown(descriptor, former.st_uid, former.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(former.st_mode))
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: str) -> None:
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
