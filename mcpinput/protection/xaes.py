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

from mcpinput._core.envelope import nonce_blocks
from mcpinput.protection.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KEY_BYTES", "NONCE_BYTES", "TAG_BYTES", "XaesGcm"]

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 24
TAG_BYTES: Final = 16

_COUNTERS: Final = 0x00015800 << 224 | 0x00025800 << 96
"""M1 and M2 before the nonce is in them: counter (u16be), the label "X", a zero byte, 12 bytes of nonce."""


def _masks(block: bytes) -> bytes:
    """Both blocks before the nonce is in them, masked with CMAC's subkey K1 (NIST SP 800-38B, section 6.1)."""
    number = int.from_bytes(block, "big")
    doubled = number << 1 & (1 << 128) - 1
    if number >> 127:
        doubled ^= 0x87
    return ((doubled << 128 | doubled) ^ _COUNTERS).to_bytes(32, "big")


@final
class XaesGcm(Secret):
    """One key. Safe to use from any number of threads."""

    __slots__ = ("_key", "_masks", "_thread")

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            del key
            raise ValueError(f"an XAES-256-GCM key has {KEY_BYTES} bytes")
        self._key = key
        del key  # so that it is in no traceback where what follows fails
        self._thread = threading.local()
        self._masks = _masks(self._block_encryption()(bytes(16)))

    def encrypt(self, nonce: bytes, plaintext: bytes, associated_data: bytes) -> bytes:
        """Ciphertext and tag. The nonce, 24 bytes, must never be used again with this key.

        Raises:
            ValueError: The nonce has another length.
        """
        try:
            encrypt: Callable[[bytes], bytes] = self._thread.encrypt
        except AttributeError:
            encrypt = self._block_encryption()
        return AESGCM(encrypt(nonce_blocks(self._masks, nonce))).encrypt(nonce[12:], plaintext, associated_data)

    def decrypt(self, nonce: bytes, ciphertext: bytes, associated_data: bytes) -> bytes:
        """Plaintext.

        Raises:
            cryptography.exceptions.InvalidTag: Not what was encrypted under this key, nonce and associated data.
            ValueError: The nonce has another length.
        """
        try:
            encrypt: Callable[[bytes], bytes] = self._thread.encrypt
        except AttributeError:
            encrypt = self._block_encryption()
        return AESGCM(encrypt(nonce_blocks(self._masks, nonce))).decrypt(nonce[12:], ciphertext, associated_data)

    def _block_encryption(self) -> Callable[[bytes], bytes]:
        """AES-ECB of whole blocks, with a context of this thread's own."""
        context = Cipher(algorithms.AES(self._key), modes.ECB()).encryptor()  # noqa: S305 - whole single blocks
        encrypt: Callable[[bytes], bytes] = context.update
        self._thread.encrypt = encrypt
        return encrypt
