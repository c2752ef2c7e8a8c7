"""How large sealed state is, before it is sealed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mcpinput._core.canonical import canonical_bytes
from mcpinput._core.envelope import field
from mcpinput.errors import JsonError, JsonErrorKind
from mcpinput.json import Limits
from mcpinput.protection.xaes import NONCE_BYTES, TAG_BYTES

__all__ = ["LONGEST_KEY_ID", "MAXIMUM_STATE", "SealedSize", "sealed_size"]

LONGEST_KEY_ID: Final = 64
MAXIMUM_STATE: Final = 16 * 1024 * 1024
"""Bytes of canonical state that can be read back, however much the configuration allows."""

_FIXED: Final = 198  # version, flags, round, times, flow id, bindings, digest, id hash, number of keys
_PER_KEY: Final = 17  # kind, and digest of the request
_MEASURED: Final = Limits(canonical_bytes=MAXIMUM_STATE)


@dataclass(frozen=True, slots=True)
class SealedSize:
    """Size of an ask's state.

    Attributes:
        decoded_bytes: Framework metadata and canonical state.
        encoded_bytes: Length of the token; None under a custom protector, which makes it.
        fits: Whether both are within the limits.
    """

    decoded_bytes: int
    encoded_bytes: int | None
    fits: bool


def sealed_size(
    state: object,
    keys: Iterable[str],
    *,
    key_id: str | None,
    has_state: bool,
    maximum_encoded: int,
    maximum_decoded: int,
) -> SealedSize:
    """Measures an ask. State of over 16 MiB counts as 16 MiB and does not fit.

    Args:
        state: What the handler gives, where ``has_state``.
        keys: Keys of its input requests.
        key_id: Id of the key that seals; None under a custom protector.
        has_state: Whether it gives state.
        maximum_encoded, maximum_decoded: The limits.

    Raises:
        JsonError: The state has no canonical form.
        EnvelopeError: A key holds a lone surrogate.
        TypeError: ``keys`` is one str, or holds something else than str.
    """
    if isinstance(keys, str):
        raise TypeError("keys must be a collection of str, not one str")
    names = set(keys)
    too_large = len(names) > 0xFFFF
    decoded = _FIXED
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"keys must hold str, not {type(name).__name__}")
        decoded += len(field(name)) + _PER_KEY
    if has_state:
        try:
            decoded += len(canonical_bytes(state, limits=_MEASURED))
        except JsonError as error:
            if error.kind is not JsonErrorKind.SIZE:
                raise
            decoded += MAXIMUM_STATE
            too_large = True
    encoded = None
    if key_id is not None:
        encoded = (4 * (2 + len(key_id) + NONCE_BYTES + decoded + TAG_BYTES) + 2) // 3
        too_large = too_large or encoded > maximum_encoded
    return SealedSize(decoded, encoded, not too_large and decoded <= maximum_decoded)
