"""One protection key: its id, its bytes, and what is derived from them.

Rules

- Key bytes and everything derived from them stay in one holder whose ``repr`` is redacted. They are in no message, no
  ``vars()``, no pickle and no copy.
- Each purpose has its own output of HKDF-SHA256 (RFC 5869); no output serves two.
"""

from __future__ import annotations

import hmac
import re
from typing import Any, Final, Literal, TypeAlias, final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mcpinput.protection.secret import Secret
from mcpinput.protection.xaes import XaesGcm

__all__ = ["MINIMUM_KEY_BYTES", "PROFILE", "ProtectionKey", "Purpose"]

PROFILE: Final = "mcpinput-protection-v1"
"""Names the formats and algorithms of this version; in every derivation and all associated data."""

MINIMUM_KEY_BYTES: Final = 32

Purpose: TypeAlias = Literal["state", "sdk-state", "record", "fingerprint"]
_PURPOSES: Final = frozenset({"state", "sdk-state", "record", "fingerprint"})

_KEY_ID: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")  # an HTTP token: RFC 9110, section 5.6.2


class _Material(Secret):
    """The only object that holds key bytes."""

    __slots__ = ("_outputs", "_raw")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._outputs: dict[str, bytes] = {}

    def output(self, purpose: Purpose) -> bytes:
        if purpose not in self._outputs:
            if purpose not in _PURPOSES:
                raise ValueError(f"a key serves the purposes {', '.join(sorted(_PURPOSES))}")
            hkdf = HKDF(algorithm=SHA256(), length=32, salt=b"", info=f"{PROFILE}/{purpose}".encode())
            self._outputs.setdefault(purpose, hkdf.derive(self._raw))
        return self._outputs[purpose]

    def same_bytes(self, other: _Material) -> bool:
        return hmac.compare_digest(self._raw, other._raw)


@final
class ProtectionKey(Secret):
    """A key that seals and opens request state, under a public id. Immutable; made by :meth:`from_id_and_bytes`.

    Two keys are equal when ids and bytes are, compared in constant time. The hash is of the id alone.
    """

    __slots__ = ("_ciphers", "_id", "_material", "_state_cipher")

    _id: str
    _material: _Material
    _ciphers: dict[Purpose, XaesGcm]
    _state_cipher: XaesGcm  # PERF: of the purpose that every request needs, one attribute away for protector.py

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        raise TypeError("a ProtectionKey is made by ProtectionKey.from_id_and_bytes(id, key)")

    @classmethod
    def from_id_and_bytes(cls, id: str, key: bytes | bytearray | memoryview) -> ProtectionKey:
        """Makes a key of an id and secret bytes, which are copied.

        Args:
            id: 1 to 64 ASCII characters of an HTTP token (RFC 9110, section 5.6.2). It is public: tokens carry it.
            key: At least 32 random bytes, as from ``secrets.token_bytes(32)``.

        Raises:
            TypeError: ``id`` is no str, or ``key`` is none of bytes, bytearray and memoryview.
            ValueError: ``id`` is no HTTP token of 1 to 64 characters, or ``key`` is too short or all zeros.
        """
        # The key must not be in the frames of a traceback either: problems are told once nothing here holds it.
        problem = _problem(id, key)
        if problem is not None:
            del id, key
            raise problem
        made = cls.__new__(cls)
        made._id = id
        made._material = _Material(bytes(key))
        del key  # what follows may fail where OpenSSL lacks an algorithm, and this frame would be in the traceback
        made._ciphers = {}
        made._state_cipher = made.cipher("state")
        return made

    @property
    def id(self) -> str:
        """The public id."""
        return self._id

    def cipher(self, purpose: Purpose) -> XaesGcm:
        """The cipher under this key's output for ``purpose``."""
        try:
            return self._ciphers[purpose]
        except KeyError:
            # Two threads may both get here: one of the two equal ciphers stays.
            return self._ciphers.setdefault(purpose, XaesGcm(self.output(purpose)))

    def output(self, purpose: Purpose) -> bytes:
        """HKDF output for ``purpose``, 32 secret bytes."""
        return self._material.output(purpose)

    def same_secret(self, other: ProtectionKey) -> bool:
        """Whether both hold the same bytes, whatever their ids. Constant time."""
        return self._material.same_bytes(other._material)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProtectionKey):
            return NotImplemented
        same_id = hmac.compare_digest(self._id, other._id)
        return self.same_secret(other) and same_id

    def __hash__(self) -> int:
        return hash((ProtectionKey, self._id))

    def __repr__(self) -> str:
        return f"<ProtectionKey {getattr(self, '_id', None)!r} (redacted)>"  # None: it was never made


def _problem(key_id: object, key: object) -> TypeError | ValueError | None:
    if not isinstance(key_id, str):
        return TypeError(f"a key id must be a str, not {type(key_id).__name__}")
    if _KEY_ID.fullmatch(key_id) is None:
        return ValueError("a key id must be an HTTP token of 1 to 64 ASCII characters")
    if not isinstance(key, (bytes, bytearray, memoryview)):
        return TypeError(f"key must be bytes, bytearray or memoryview, not {type(key).__name__}")
    data = bytes(key)
    if len(data) < MINIMUM_KEY_BYTES:
        return ValueError(f"key must have at least {MINIMUM_KEY_BYTES} bytes; secrets.token_bytes({MINIMUM_KEY_BYTES})")
    if not any(data):
        return ValueError("key must not be all zeros; use secrets.token_bytes(32)")
    return None
