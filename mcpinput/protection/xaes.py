"""XAES-256-GCM (C2SP, ``c2sp.org/XAES-256-GCM``): AES-256-GCM with 192-bit nonces, composed of ``cryptography`` calls.

Rules

- The nonce is an argument, so that vectors need no patching; who seals draws 24 random bytes. Random nonces of this
  size set no practical limit on the number of messages under one key.
- A cipher context must not be used by two threads at once: each thread has its own AES-ECB context of the key, and the
  AES-GCM key is new for every message.
- No subkey is bound to a local name, so none is in the frames of a traceback.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mcpinput.protection.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KEY_BYTES", "NONCE_BYTES", "TAG_BYTES", "XaesGcm"]

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 24
TAG_BYTES: Final = 16

_BLOCK: Final = 1 << 128
_COUNTERS: Final = 0x00015800 << 224 | 0x00025800 << 96
"""M1 and M2 before the nonce is in them: counter (u16be), the label "X", a zero byte, 12 bytes of nonce."""
_BOTH: Final = _BLOCK | 1
"""Times this, a block stands in both halves of 32 bytes."""


def _doubled(block: int) -> int:
    """Multiplication by x in GF(2^128) (CMAC's subkey K1, NIST SP 800-38B, section 6.1)."""
    return block << 1 if block < _BLOCK >> 1 else (block << 1) ^ _BLOCK ^ 0x87


@final
class XaesGcm(Secret):
    """One key. Safe to use from any number of threads."""

    __slots__ = ("_key", "_masks", "_thread")

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            del key
            raise ValueError(f"an XAES-256-GCM key has {KEY_BYTES} bytes")
        self._key = key
        self._thread = threading.local()
        self._masks = _doubled(int.from_bytes(self._encrypt_blocks(bytes(16)), "big")) * _BOTH ^ _COUNTERS

    def encrypt(self, nonce: bytes, plaintext: bytes, associated_data: bytes) -> bytes:
        """Ciphertext and tag. The nonce must never be used again with this key."""
        return self._message_key(nonce).encrypt(nonce[12:], plaintext, associated_data)

    def decrypt(self, nonce: bytes, ciphertext: bytes, associated_data: bytes) -> bytes:
        """Plaintext.

        Raises:
            cryptography.exceptions.InvalidTag: Not what was encrypted under this key, nonce and associated data.
        """
        return self._message_key(nonce).decrypt(nonce[12:], ciphertext, associated_data)

    def _message_key(self, nonce: bytes) -> AESGCM:
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"an XAES-256-GCM nonce has {NONCE_BYTES} bytes")
        blocks = int.from_bytes(nonce[:12], "big") * _BOTH
        return AESGCM(self._encrypt_blocks((blocks ^ self._masks).to_bytes(32, "big")))

    def _encrypt_blocks(self, blocks: bytes) -> bytes:
        try:
            encrypt: Callable[[bytes], bytes] = self._thread.encrypt
        except AttributeError:
            context = Cipher(algorithms.AES(self._key), modes.ECB()).encryptor()  # noqa: S305 - whole single blocks
            encrypt = self._thread.encrypt = context.update
        return encrypt(blocks)
