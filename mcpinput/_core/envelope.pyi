from collections.abc import Iterable
from typing import Final, final

from typing_extensions import Buffer

def base64url_encode(data: Buffer) -> str:
    """Unpadded base64url (RFC 4648, section 5)."""

def base64url_decode(text: str) -> bytes:
    """Strict: exactly one text for each value. Raises EnvelopeError."""

def field(value: str | None) -> bytes:
    """F(value): ``00`` for None, else ``01``, u32be length, UTF-8 bytes. Raises EnvelopeError for a lone surrogate."""

def binding(value: str | None) -> bytes:
    """First 16 bytes of SHA-256 over F(value)."""

def request_id_hash(request_id: int | str) -> bytes:
    """16 bytes: SHA-256 over ``69`` and plain digits, or ``73`` and the UTF-8 of the string."""

def encode_header(key_id: str, nonce: bytes) -> bytes:
    """``01``, u8 length, key id (ASCII, 1 to 64 bytes), nonce (24 bytes)."""

def nonce_blocks(masks: bytes, nonce: bytes) -> bytes:
    """Two blocks of 16 bytes: ``masks``, with the first 12 bytes of the nonce added (XOR) to the end of each. What
    XAES-256-GCM encrypts to derive a key. Raises EnvelopeError where a part has the wrong length."""

def encode_token(header: bytes, sealed: bytes) -> str:
    """Token text from header and ciphertext with tag."""

def decode_token(token: str) -> tuple[str, bytes, bytes, bytes]:
    """(key id, header, nonce, ciphertext with tag). Raises EnvelopeError."""

@final
class Payload:
    """What a token carries, decoded. Immutable."""

    flags: Final[int]
    round: Final[int]
    issued_ms: Final[int]
    expires_ms: Final[int]
    flow_id: Final[bytes]
    bindings: Final[bytes]
    parameter_digest: Final[bytes]
    request_id_hash: Final[bytes]
    asked: Final[tuple[tuple[str, int, bytes], ...]]
    state: Final[bytes]

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeError: decode_payload makes payloads."""

def encode_payload(
    flags: int,
    round: int,
    issued_ms: int,
    expires_ms: int,
    flow_id: bytes,
    bindings: bytes,
    parameter_digest: bytes,
    request_id_hash: bytes,
    asked: Iterable[tuple[str, int, bytes]],
    state: bytes,
) -> bytes:
    """Payload bytes, version 1. ``bindings`` is 7 x 16 bytes in the order audience, path, version, method, partition,
    tenant, principal. Raises EnvelopeError where a part has the wrong length or range."""

def decode_payload(payload: Buffer) -> Payload:
    """Raises EnvelopeError for anything but exactly one payload of version 1. What is no bytes object is copied."""

__pyx_capi__: dict[str, object]  # C functions for the other units of the core
