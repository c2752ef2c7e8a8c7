"""What seals and opens payloads: the interface for an application's own, and the built-in one over a ring.

Rules of the built-in protector

- A token names its key; no other key is tried. The header, with key id and nonce, is authenticated.
- What state is bound to is not in the associated data: it is inside the payload, and the framework compares it after
  opening, for every protector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from cryptography.exceptions import InvalidTag

from mcpinput._core.envelope import decode_token, encode_header, encode_token, field
from mcpinput.errors import EnvelopeError, ProtectionFailure, RequestStateProtectionError
from mcpinput.protection.key import PROFILE

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mcpinput.protection.context import ProtectionContext
    from mcpinput.protection.key import ProtectionKey
    from mcpinput.protection.keyring import ProtectionKeyring

__all__ = ["RequestStateProtector", "open_token", "seal_token"]

_ASSOCIATED_DATA_PREFIX: Final = field(PROFILE)


class RequestStateProtector(Protocol):
    """An application's own way to protect request state, a key management service say. Methods may be coroutines.

    Both must authenticate ``context.associated_data``. A service that cannot be reached for now is told by raising
    ``RequestStateProtectionError(ProtectionFailure.UNAVAILABLE)``: honest clients then keep their state and try again.
    Any other exception, and any other type than asked for, refuses the state.
    """

    def seal(self, payload: bytes, context: ProtectionContext) -> str | Awaitable[str]:
        """Turns a payload into a token: a nonempty string of printable ASCII characters."""
        ...

    def open(self, token: str, context: ProtectionContext) -> bytes | Awaitable[bytes]:
        """Gives back the payload of a token that ``seal`` made under equal associated data."""
        ...


def seal_token(key: ProtectionKey, nonce: bytes, payload: bytes) -> str:
    """Token of a payload under a key. The nonce, 24 bytes, must be drawn at random for each call."""
    header = encode_header(key._id, nonce)
    return encode_token(header, key._state_cipher.encrypt(nonce, payload, _ASSOCIATED_DATA_PREFIX + header))


def open_token(keyring: ProtectionKeyring, token: str) -> tuple[str, bytes]:
    """Key id and payload of a token.

    Raises:
        RequestStateProtectionError: MALFORMED, UNKNOWN_KEY or NOT_AUTHENTIC.
    """
    key_id: str | None = None
    failure = ProtectionFailure.MALFORMED
    try:
        key_id, header, nonce, sealed = decode_token(token)
        key = keyring._keys.get(key_id)  # PERF: find() would be one frame of some ten in a round
        if key is not None:
            return key_id, key._state_cipher.decrypt(nonce, sealed, _ASSOCIATED_DATA_PREFIX + header)
        failure = ProtectionFailure.UNKNOWN_KEY
    except EnvelopeError:
        pass  # raised below, so that nothing is chained to it
    except InvalidTag:
        failure = ProtectionFailure.NOT_AUTHENTIC
    raise RequestStateProtectionError(failure, key_id=key_id)
