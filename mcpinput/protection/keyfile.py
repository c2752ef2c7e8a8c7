"""A file of keys: its format, who may have written it, and which of its keys seals.

Rules

- A file is taken whole or refused whole. What is wrong is named by its place (``keys[1].not_before``) and never by what
  stands there: a secret may have slipped into any member.
- No frame that has seen key text is in a traceback that leaves this module (:func:`unseen`).
- Mode, type and size are judged on the open descriptor, not on the path.
- Which key seals depends on the content and on one answer alone: whether the active key may seal yet. The watcher gives
  it from what its process has seen, the commands from the times of the file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import itertools
import os
import re
import stat
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from mcpinput._ending import ends_from_outside
from mcpinput.errors import JsonError, KeyFileError
from mcpinput.json import dump, parse
from mcpinput.protection.key import MINIMUM_KEY_BYTES, ProtectionKey
from mcpinput.protection.keyring import ProtectionKeyring
from mcpinput.protection.secret import Secret
from mcpinput.protection.watch import KeyFileWatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpinput.protection.manager import ProtectionKeyringSnapshot

__all__ = [
    "DEFAULT_ACTIVATION_DELAY",
    "FILE_IN_FOLDER",
    "MAXIMUM_FILE_BYTES",
    "MAXIMUM_KEYS",
    "KeyEntry",
    "KeyFile",
    "KeyFileContent",
    "Refused",
    "content_of",
    "data_of",
    "is_delivered",
    "read_open",
    "time_text",
    "unseen",
]

_T = TypeVar("_T")

VERSION: Final = 1
MAXIMUM_FILE_BYTES: Final = 1024 * 1024
MAXIMUM_KEYS: Final = 100
FILE_IN_FOLDER: Final = "keyring.json"
DEFAULT_ACTIVATION_DELAY: Final = timedelta(seconds=120)

_MAXIMUM_DELAY: Final = timedelta(days=1)
_SHORTEST_INTERVAL: Final = timedelta(milliseconds=10)
_LONGEST_INTERVAL: Final = timedelta(hours=1)

_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z")
_SHORT_NAME: Final = re.compile(r"[A-Za-z_]{1,20}")  # too short to be a key
_DISTINCT_BYTES: Final = 10


class Refused(Exception):
    """What is wrong with a file; :func:`unseen` makes a KeyFileError of it, which names the file."""


def unseen(path: str, work: Callable[[], _T]) -> _T:
    """What ``work`` returns. What it raises instead leads to none of its frames, since those have seen keys.

    Raises:
        KeyFileError: Refused, an error of the operating system, or whatever else it was, by its type alone.
    """
    outside: BaseException | None = None
    try:
        return work()
    except Refused as refused:
        problem = str(refused)
    except OSError as error:
        problem = f"cannot be used: {os.strerror(error.errno) if error.errno else type(error).__name__}"
    except BaseException as error:
        problem = f"cannot be used: {type(error).__name__}"
        if ends_from_outside(error):
            outside = type(error)()
    if outside is not None:
        raise outside
    raise KeyFileError(f"key file {path!r}: {problem}")


# ---- content ----


@final
class KeyEntry(Secret):
    """One key of a file.

    Attributes:
        key: The key.
        created: When it was made, where the file says so.
        not_before: From when on it may seal, where the file says so.
        revoked: Whether it opens nothing any more.
    """

    __slots__ = ("_text", "created", "key", "not_before", "revoked")

    def __init__(
        self,
        key: ProtectionKey,
        text: str,
        *,
        created: datetime | None = None,
        not_before: datetime | None = None,
        revoked: bool = False,
    ) -> None:
        self.key: Final = key
        self._text: Final = text
        self.created: Final = created
        self.not_before: Final = not_before
        self.revoked: Final = revoked

    @classmethod
    def random(cls, key_id: str, created: datetime) -> KeyEntry:
        """A new key of 32 random bytes.

        Raises:
            ValueError: The id is none.
        """
        while True:
            data = os.urandom(MINIMUM_KEY_BYTES)
            text = _base64url(data)
            if not _is_made_up(text, data):
                return cls(ProtectionKey.from_id_and_bytes(key_id, data), text, created=created)

    def with_not_before(self, not_before: datetime) -> KeyEntry:
        """This key, to seal from another time on."""
        return KeyEntry(self.key, self._text, created=self.created, not_before=not_before, revoked=self.revoked)

    def __repr__(self) -> str:
        return f"<KeyEntry {self.key.id!r} (redacted)>"


@final
class KeyFileContent(Secret):
    """What a file of keys says, found good.

    Attributes:
        entries: Its keys in their order, the revoked ones included.
        active: The key that seals once it may.
        previous: The key that seals until then, where the file names one that is not revoked.
        digest: SHA-256 of the bytes that it was read from.
        is_exposed: Whether others than owner and group may read the file, in a mounted folder.
    """

    __slots__ = ("active", "digest", "entries", "is_exposed", "previous")

    def __init__(
        self,
        entries: tuple[KeyEntry, ...],
        active: KeyEntry,
        previous: KeyEntry | None = None,
        *,
        digest: bytes = b"",
        is_exposed: bool = False,
    ) -> None:
        self.entries: Final = entries
        self.active: Final = active
        self.previous: Final = previous
        self.digest: Final = digest
        self.is_exposed: Final = is_exposed

    @property
    def usable(self) -> tuple[KeyEntry, ...]:
        """The keys that open: all but the revoked ones."""
        return tuple(entry for entry in self.entries if not entry.revoked)

    def find(self, key_id: str) -> KeyEntry | None:
        """The entry of an id."""
        return next((entry for entry in self.entries if entry.key.id == key_id), None)

    def sealing(self, active_may_seal: bool, now: float) -> KeyEntry:
        """The key that seals, given whether the active one may; for lack of another, that one may once it is due."""
        active = self.active
        if active_may_seal:
            return active
        if self.previous is not None:
            return self.previous
        others = [entry for entry in self.usable if entry is not active]
        # A key that was made after the active one is new: it must not seal, least of all before it.
        former = [entry for entry in others if not _is_younger(entry, active)]
        return (former or ([] if _is_due(active, now) else others) or [active])[0]

    def sealing_at(self, now: float) -> KeyEntry:
        """The key that seals by the times of the file alone."""
        return self.sealing(_is_due(self.active, now), now)

    def ring(self, sealing: KeyEntry, gone: Iterable[ProtectionKey] = ()) -> ProtectionKeyring:
        """The ring in which one of the keys seals.

        Args:
            sealing: That key.
            gone: Keys that open as well, though they have left the file.

        Raises:
            ValueError: One of those has the id or the bytes of a key of the file.
        """
        builder = ProtectionKeyring.with_active_key(sealing.key)
        for key in (*(entry.key for entry in self.usable if entry is not sealing), *gone):
            builder.verification_key(key)
        return builder.build()

    def __repr__(self) -> str:
        return f"<KeyFileContent active: {self.active.key.id!r} (redacted)>"


def _is_due(entry: KeyEntry, now: float) -> bool:
    return entry.not_before is None or entry.not_before.timestamp() <= now


def _is_younger(entry: KeyEntry, other: KeyEntry) -> bool:
    return entry.created is not None and other.created is not None and entry.created > other.created


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _is_made_up(text: str, data: bytes) -> bool:
    """Whether a person rather than a random generator chose a key. Of random keys, fewer than one in 10^9 look so."""
    steps = {(after - before) % 256 for before, after in itertools.pairwise(data)}
    return (
        len(steps) == 1  # one byte repeated, or counted up
        or len(set(data)) <= _DISTINCT_BYTES
        or data.isascii()
        or text in (text.lower(), text.upper())
    )


# ---- reading and writing ----


def time_text(time: datetime) -> str:
    """A time in UTC as the file spells it: RFC 3339, with Z."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def data_of(content: KeyFileContent) -> bytes:
    """The file of a content: JSON, a line for each key."""
    head: dict[str, Any] = {"version": VERSION, "active": content.active.key.id}
    if content.previous is not None:
        head["previous"] = content.previous.key.id
    lines = []
    for entry in content.entries:
        members: dict[str, Any] = {"id": entry.key.id, "key": entry._text}
        for name, time in (("created", entry.created), ("not_before", entry.not_before)):
            if time is not None:
                members[name] = time_text(time)
        if entry.revoked:
            members["revoked"] = True
        lines.append(dump(members))
    return dump(head)[:-1] + b',"keys":[\n' + b",\n".join(lines) + b"\n]}\n"


def content_of(data: bytes, now: float, *, is_exposed: bool = False) -> KeyFileContent:
    """What the bytes of a file say.

    Args:
        data: The whole file.
        now: Seconds since 1970: with one key alone, that key must be good to seal by now.
        is_exposed: See :class:`KeyFileContent`.

    Raises:
        Refused: What is wrong, and where.
    """
    if not data:
        raise Refused("is no JSON text: it is empty")
    problem = None
    try:
        tree = parse(data)
    except JsonError as error:
        problem = f"is no JSON text: {error}"
    if problem is not None:
        raise Refused(problem)
    if type(tree) is dict and (type(tree.get("version")) is not int or tree["version"] != VERSION):
        raise Refused(f"version must be {VERSION}: this release reads no other")
    members = _members(tree, "", ("version", "active", "keys"), ("previous",))
    keys = members["keys"]
    if type(keys) is not list or not 1 <= len(keys) <= MAXIMUM_KEYS:
        raise Refused(f"keys must be an array of 1 to {MAXIMUM_KEYS} keys")
    entries: list[KeyEntry] = []
    for index, item in enumerate(keys):
        entry = _entry(item, f"keys[{index}]")
        for other_index, other in enumerate(entries):
            if other.key.id == entry.key.id:
                raise Refused(f"keys[{index}].id is the id of keys[{other_index}] too; each key needs its own")
            if other.key.same_secret(entry.key):
                raise Refused(f"keys[{index}].key is the key of keys[{other_index}] too; each id needs its own")
        entries.append(entry)
    active = _named(members, "active", entries)
    if active.revoked:
        raise Refused("active names a revoked key; make another one active")
    previous = _named(members, "previous", entries) if "previous" in members else None
    if previous is active:
        raise Refused("previous must name another key than active")
    if previous is not None and previous.revoked:
        previous = None  # a key is revoked in a hurry: that must not fail for a member that was forgotten
    content = KeyFileContent(
        tuple(entries), active, previous, digest=hashlib.sha256(data).digest(), is_exposed=is_exposed
    )
    if len(content.usable) == 1 and not _is_due(active, now):
        raise Refused(
            f"keys[{entries.index(active)}].not_before is in the future, and no other key could seal until then"
        )
    return content


def _members(value: object, place: str, required: tuple[str, ...], optional: tuple[str, ...]) -> Mapping[str, Any]:
    if type(value) is not dict:
        raise Refused(f"{place or 'it'} must be a JSON object")
    for name in value:
        if name not in required and name not in optional:
            shown = f"{name!r}" if _SHORT_NAME.fullmatch(name) else "of a name that is not shown"
            known = ", ".join((*required, *optional))
            raise Refused(f"{place or 'it'} has a member {shown}, which is not known; members are {known}")
    for name in required:
        if name not in value:
            raise Refused(f"{place or 'it'} has no member {name!r}")
    return value


def _named(members: Mapping[str, Any], name: str, entries: list[KeyEntry]) -> KeyEntry:
    wanted = members[name]
    if type(wanted) is not str:
        raise Refused(f"{name} must be a string, the id of one of the keys")
    for entry in entries:
        if entry.key.id == wanted:
            return entry
    raise Refused(f"{name} is the id of none of the keys")


def _entry(value: object, place: str) -> KeyEntry:
    members = _members(value, place, ("id", "key"), ("created", "not_before", "revoked"))
    for name in ("id", "key"):
        if type(members[name]) is not str:
            raise Refused(f"{place}.{name} must be a string")
    revoked = members.get("revoked", False)
    if type(revoked) is not bool:
        raise Refused(f"{place}.revoked must be true or false")
    text = members["key"]
    data = _key_bytes(text)
    if data is None or len(data) < MINIMUM_KEY_BYTES:
        raise Refused(f"{place}.key must be unpadded base64url of at least {MINIMUM_KEY_BYTES} bytes")
    if _is_made_up(text, data):
        raise Refused(f"{place}.key is no random key but a pattern or a text; 'mcpinput keys new' makes good ones")
    try:
        key = ProtectionKey.from_id_and_bytes(members["id"], data)
    except ValueError:
        pass
    else:
        return KeyEntry(
            key,
            text,
            created=_time(members, "created", place),
            not_before=_time(members, "not_before", place),
            revoked=revoked,
        )
    raise Refused(f"{place}.id must be an HTTP token of 1 to 64 ASCII characters")


def _key_bytes(text: str) -> bytes | None:
    """The bytes of the one spelling that they have; None for every other text."""
    if _BASE64URL.fullmatch(text) is None:
        return None
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return None
    return data if _base64url(data) == text else None


def _time(members: Mapping[str, Any], name: str, place: str) -> datetime | None:
    if name not in members:
        return None
    text = members[name]
    if type(text) is str and _TIME.fullmatch(text) is not None:
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass
    raise Refused(f"{place}.{name} must be a time in UTC as RFC 3339 has it, such as 2026-12-01T00:20:00Z")


# ---- the file ----


@final
class KeyFile:
    """Where keys are read from, again and again while a server runs: a file, or a folder that a secret is mounted in.

    ``docs/formats.md`` has the format; ``mcpinput keys`` makes, checks and rotates such files. The folder holds
    ``keyring.json``. Immutable.

    Args:
        path: Of the file or folder. A relative one is resolved here and now.
        activation_delay: How long a key waits until it seals where the file has no ``not_before`` for it: what all
            instances need to see a new file. From ``poll_interval`` to one day.
        poll_interval: How often the file is read: 10 milliseconds to one hour. A revoked key opens nothing after it.

    Raises:
        TypeError: An argument of a wrong type.
        ValueError: A time out of range.
    """

    __slots__ = ("_activation_delay", "_path", "_poll_interval")

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        activation_delay: timedelta = DEFAULT_ACTIVATION_DELAY,
        poll_interval: timedelta = timedelta(seconds=1),
    ) -> None:
        where = os.fspath(path)
        if not isinstance(where, str):
            del path, where  # they may be the bytes of a key
            raise TypeError("path must be a str or a path of str, not of bytes")
        if not where:
            raise ValueError("path must not be empty")
        for name, value in (("activation_delay", activation_delay), ("poll_interval", poll_interval)):
            if not isinstance(value, timedelta):
                raise TypeError(f"{name} must be a timedelta, not {type(value).__name__}")
        if not _SHORTEST_INTERVAL <= poll_interval <= _LONGEST_INTERVAL:
            raise ValueError("poll_interval must be from 10 milliseconds to one hour")
        if not poll_interval <= activation_delay <= _MAXIMUM_DELAY:
            raise ValueError(
                "activation_delay must be from poll_interval to one day: every instance has read a key before it seals"
            )
        self._path: Final = os.path.abspath(where)
        self._activation_delay: Final = activation_delay
        self._poll_interval: Final = poll_interval

    @property
    def path(self) -> str:
        """The absolute path."""
        return self._path

    @property
    def activation_delay(self) -> timedelta:
        """How long a key waits until it seals, where the file does not say it."""
        return self._activation_delay

    @property
    def poll_interval(self) -> timedelta:
        """How often the file is read."""
        return self._poll_interval

    def read(self, now: float, known: KeyFileContent | None = None) -> KeyFileContent:
        """What the file says.

        Args:
            now: Seconds since 1970.
            known: What it said before; returned itself where the file has not changed.

        Raises:
            KeyFileError: It cannot be used; says why.
        """
        return unseen(self._path, lambda: _read(self._path, now, known))

    def follow(
        self,
        *,
        clock: Callable[[], float],
        maximum_lifetime_ms: int,
        on_change: Callable[[ProtectionKeyringSnapshot], None] | None = None,
        on_problem: Callable[[str], None] | None = None,
    ) -> KeyFileWatcher:
        """Reads the file and makes a ring of it, which changes with the file once ``ensure()`` was called.

        Args:
            clock: Wall clock, in seconds since 1970.
            maximum_lifetime_ms: Of the state that is sealed: how long a key is kept that has left the file.
            on_change: Told of every change of the ring.
            on_problem: Told once of each thing that is wrong with the file.

        Raises:
            KeyFileError: The file cannot be used; says why.
        """
        return KeyFileWatcher(
            self.read,
            name=f"key file {self._path!r}",
            clock=clock,
            activation_delay=self._activation_delay.total_seconds(),
            poll_interval=self._poll_interval.total_seconds(),
            maximum_lifetime_ms=maximum_lifetime_ms,
            on_change=on_change,
            on_problem=on_problem,
        )

    def __repr__(self) -> str:
        return f"<KeyFile {getattr(self, '_path', None)!r}>"  # None: it was never made


def _read(path: str, now: float, known: KeyFileContent | None) -> KeyFileContent:
    place = os.path.join(path, FILE_IN_FOLDER) if os.path.isdir(path) else path
    if place != path and not os.path.lexists(place):
        raise Refused(f"is a folder without {FILE_IN_FOLDER}")
    is_mounted = place != path or is_delivered(path)
    # Not to hang on a pipe that lies there, nor to take over a terminal.
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        data, mode = read_open(descriptor)
    finally:
        os.close(descriptor)
    is_exposed = bool(mode & stat.S_IROTH)
    if is_exposed and not is_mounted:
        raise Refused("may be read by others than its owner and group; chmod 600 it")
    if known is not None and known.digest == hashlib.sha256(data).digest():
        return known
    return content_of(data, now, is_exposed=is_exposed)


def is_delivered(path: str) -> bool:
    """Whether a path leads through the link by which mounted secrets are exchanged whole."""
    return "..data" in path.split(os.sep) or (os.path.islink(path) and "..data" in os.readlink(path).split(os.sep))


def read_open(descriptor: int) -> tuple[bytes, int]:
    """All bytes of an open file, and its mode.

    Raises:
        OSError: It cannot be read.
        Refused: It is no regular file, too large, or others may have written it.
    """
    before = os.fstat(descriptor)
    if not stat.S_ISREG(before.st_mode):
        raise Refused("is no regular file")
    if before.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Refused("may be written by others than its owner; chmod 600 it")
    chunks: list[bytes] = []
    left = MAXIMUM_FILE_BYTES + 1
    while left and (chunk := os.read(descriptor, left)):
        chunks.append(chunk)
        left -= len(chunk)
    if not left:
        raise Refused(f"has more than {MAXIMUM_FILE_BYTES} bytes")
    after = os.fstat(descriptor)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise Refused("was written while it was read; replace it by a rename")
    return b"".join(chunks), before.st_mode
