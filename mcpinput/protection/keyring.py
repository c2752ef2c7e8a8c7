"""The ring: one active key that seals, any number of verification keys that open. Immutable.

Rules

- A ring always has an active key. No id and no secret stands in it twice.
- A change makes a new ring, validated whole; a refused change leaves the old one as it is.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from mcpinput._core.envelope import field
from mcpinput.protection.key import PROFILE, ProtectionKey
from mcpinput.protection.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ProtectionKeyring",
    "ProtectionKeyringBuilder",
    "ProtectionKeyringFingerprint",
    "key_problem",
    "keyring_problem",
]

FINGERPRINT_VERSION: Final = 2
_FINGERPRINT_DOMAIN: Final = b"mcpinput-fingerprint-v2"
_ROLE_ACTIVE: Final = b"a"
_ROLE_VERIFICATION: Final = b"v"


@dataclass(frozen=True, slots=True)
class ProtectionKeyringFingerprint:
    """What tells two rings apart without telling their keys.

    Equal only when version, profile and value are: that is, when ids, roles and exact key bytes are equal. Fingerprints
    of different versions are never equal and say nothing about each other.

    Attributes:
        version: Of the encoding that is hashed.
        profile: The protection profile.
        value: SHA-256 in hexadecimal.
    """

    version: int
    profile: str
    value: str


@final
class ProtectionKeyring(Secret):
    """Immutable set of keys; made by ``ProtectionKeyring.with_active_key(k).verification_key(k2).build()``."""

    __slots__ = ("_active", "_ephemeral", "_fingerprint", "_keys")

    _active: ProtectionKey
    _keys: Mapping[str, ProtectionKey]
    _ephemeral: bool
    _fingerprint: ProtectionKeyringFingerprint | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        raise TypeError("a ProtectionKeyring is made by ProtectionKeyring.with_active_key(key).build()")

    @staticmethod
    def with_active_key(key: ProtectionKey) -> ProtectionKeyringBuilder:
        """Starts a ring from the key that seals.

        Raises:
            TypeError: ``key`` is no ProtectionKey.
        """
        problem = key_problem(key)
        if problem is not None:
            del key  # it may be the bytes of one
            raise problem
        return ProtectionKeyringBuilder(key)

    @classmethod
    def _of(cls, active: ProtectionKey, keys: Mapping[str, ProtectionKey], *, ephemeral: bool) -> ProtectionKeyring:
        made = cls.__new__(cls)
        made._active = active
        made._keys = keys
        made._ephemeral = ephemeral
        made._fingerprint = None
        return made

    @classmethod
    def ephemeral(cls) -> ProtectionKeyring:
        """A ring of one random key that no other process has."""
        key = ProtectionKey.from_id_and_bytes(f"ephemeral-{secrets.token_hex(8)}", secrets.token_bytes(32))
        return cls._of(key, {key.id: key}, ephemeral=True)

    @property
    def is_ephemeral(self) -> bool:
        """Whether the ring was made of a random key of this process."""
        return self._ephemeral

    @property
    def active_key(self) -> ProtectionKey:
        """The key that seals. It opens as well."""
        return self._active

    @property
    def active_key_id(self) -> str:
        """Id of the key that seals."""
        return self._active.id

    @property
    def verification_key_ids(self) -> tuple[str, ...]:
        """Ids of the keys that only open, sorted."""
        return tuple(sorted(self._keys.keys() - {self._active.id}))

    @property
    def keys(self) -> tuple[ProtectionKey, ...]:
        """Every key, in the order of ids."""
        return tuple(key for _, key in sorted(self._keys.items()))

    def find(self, key_id: str) -> ProtectionKey | None:
        """The key of an id, active or not."""
        return self._keys.get(key_id)

    @property
    def fingerprint(self) -> ProtectionKeyringFingerprint:
        """Fingerprint of ids, roles and exact bytes. Computed when first read."""
        if self._fingerprint is None:
            digest = hashlib.sha256(_FINGERPRINT_DOMAIN)
            for key in self.keys:
                digest.update(field(key.id))
                digest.update(_ROLE_ACTIVE if key is self._active else _ROLE_VERIFICATION)
                digest.update(key.output("fingerprint"))
            self._fingerprint = ProtectionKeyringFingerprint(FINGERPRINT_VERSION, PROFILE, digest.hexdigest())
        return self._fingerprint

    def __repr__(self) -> str:
        return f"<ProtectionKeyring {self._ids()} (redacted)>" if hasattr(self, "_keys") else super().__repr__()

    def _ids(self) -> str:
        # Errors show these instead of what was passed, which may be anything.
        verification = ", ".join(map(repr, self.verification_key_ids)) or "none"
        return f"active: {self.active_key_id!r}, verification: {verification}"

    # ---- changes, each a new ring ----

    def staged(self, key: ProtectionKey) -> ProtectionKeyring:
        """This ring with one more verification key; itself if the key is in it already.

        Raises:
            TypeError: ``key`` is no ProtectionKey.
            ValueError: The ring has other bytes under its id, or its bytes under another id.
        """
        problem = key_problem(key)
        if problem is not None:
            del key  # it may be the bytes of one
            raise problem
        if key == self._keys.get(key.id):
            return self
        return self._of(self._active, _joined(self._keys, key), ephemeral=self._ephemeral)

    def activated(self, key_id: str) -> ProtectionKeyring:
        """This ring with a verification key as the active one, and the former active key among the others.

        Raises:
            ValueError: The key is the active one already, or is not in the ring.
        """
        if key_id == self._active.id:
            raise ValueError(f"key {key_id!r} is the active key already")
        key = self._keys.get(key_id)
        if key is None:
            raise ValueError(f"no such key is staged ({self._ids()}); stage it on every instance first")
        return self._of(key, self._keys, ephemeral=self._ephemeral)

    def removed(self, key_id: str) -> ProtectionKeyring:
        """This ring without a verification key.

        Raises:
            ValueError: The key is the active one, or is not in the ring.
        """
        if key_id == self._active.id:
            raise ValueError(f"key {key_id!r} is the active key; activate another one before it is removed")
        if key_id not in self._keys:
            raise ValueError(f"no such key is in the ring ({self._ids()})")
        rest = {known: key for known, key in self._keys.items() if known != key_id}
        return self._of(self._active, rest, ephemeral=self._ephemeral)

    def replaced(self, other: ProtectionKeyring) -> ProtectionKeyring:
        """The other ring; this one itself if ids, roles and bytes are the same.

        Keys that both have stay the objects that they are here: what was derived from them is not derived again.

        Raises:
            TypeError: ``other`` is no ProtectionKeyring.
            ValueError: The other ring has other bytes under an id of this one.
        """
        problem = keyring_problem(other)
        if problem is not None:
            del other  # it may be the bytes of a key
            raise problem
        keys = {}
        for key in other.keys:
            known = self._keys.get(key.id, key)
            if not known.same_secret(key):
                raise ValueError(
                    f"the new ring has key id {key.id!r} with other bytes; give the new key an id of its own"
                )
            keys[key.id] = known
        if other.active_key_id == self._active.id and keys.keys() == self._keys.keys():
            return self
        return self._of(keys[other.active_key_id], keys, ephemeral=other.is_ephemeral)


@final
class ProtectionKeyringBuilder(Secret):
    """Collects the keys of a :class:`ProtectionKeyring`."""

    __slots__ = ("_active", "_keys")

    def __init__(self, active: ProtectionKey) -> None:
        self._active = active
        self._keys: Mapping[str, ProtectionKey] = {active.id: active}

    def verification_key(self, key: ProtectionKey) -> ProtectionKeyringBuilder:
        """Adds a key that only opens.

        Raises:
            TypeError: ``key`` is no ProtectionKey.
            ValueError: Its id, or its bytes, are in the ring already.
        """
        problem = key_problem(key)
        if problem is not None:
            del key  # it may be the bytes of one
            raise problem
        self._keys = _joined(self._keys, key)
        return self

    def build(self) -> ProtectionKeyring:
        """The ring. The builder may go on and build others."""
        return ProtectionKeyring._of(self._active, self._keys, ephemeral=False)


def keyring_problem(keyring: object) -> TypeError | None:
    """What to raise where a ring is none, once nothing holds it any more."""
    if isinstance(keyring, ProtectionKeyring):
        return None
    return TypeError(f"keyring must be a ProtectionKeyring, not {type(keyring).__name__}")


def key_problem(key: object) -> TypeError | None:
    """What to raise where a key is none, once nothing holds it any more."""
    if isinstance(key, ProtectionKey):
        return None
    return TypeError(f"a ring is made of ProtectionKey objects, not of {type(key).__name__}")


def _joined(keys: Mapping[str, ProtectionKey], key: ProtectionKey) -> Mapping[str, ProtectionKey]:
    known = keys.get(key.id)
    if known is not None:
        what = "already" if known.same_secret(key) else "with other bytes; give the new key an id of its own"
        raise ValueError(f"key id {key.id!r} is in the ring {what}")
    for other in keys.values():
        if other.same_secret(key):
            raise ValueError(f"keys {other.id!r} and {key.id!r} have the same bytes; each id needs its own secret")
    return {**keys, key.id: key}
