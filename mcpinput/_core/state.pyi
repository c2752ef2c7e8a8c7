from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, Self, TypeAlias, final

from mcpinput._core.envelope import Payload
from mcpinput._core.limits import Bounds

CLOCK_SKEW_MS: Final[int]
"""How far in the future state may have been issued, in milliseconds: the clocks of instances differ."""

class _Bindings(Protocol):
    """What :class:`Call` needs of what it is given as bindings."""

    def digests(self) -> bytes:
        """112 bytes: the bindings of a payload."""

_Asked: TypeAlias = tuple[int, bytes]

@final
class Call:
    """What one request binds state to. Each part is computed when first needed, and once."""

    bindings: Final[Any]
    request_id: Final[int | str]

    def __new__(cls, bindings: _Bindings, request_id: int | str, parameter_digest: Callable[[], bytes]) -> Self:
        """``parameter_digest`` computes the digest of the stable parameters, 32 bytes."""
    def parameter_digest(self) -> bytes:
        """Digest of the stable parameters, 32 bytes. Raises what computing it raises."""
    def binding_digests(self) -> bytes:
        """``bindings.digests()``, 112 bytes."""
    def request_id_hash(self) -> bytes:
        """Hash of the request's id and its JSON type, 16 bytes."""

@final
class Terms:
    """What one operation allows its flows. Immutable."""

    lifetime_ms: Final[int]
    rounds: Final[int]
    replayed: Final[bool]

    def __new__(cls, lifetime_ms: int, rounds: int, replayed: bool = False) -> Self:
        """``lifetime_ms``: from a flow's first ask to its expiry. ``rounds``: asks that one flow may emit.
        ``replayed``: whether the asks are replayed rather than returned. Raises ValueError where the lifetime is not
        positive or rounds are not from 1 to 65,535, OverflowError where a number does not fit its integer type."""

@final
class OpenedState:
    """What a token carried, verified. Immutable."""

    payload: Final[Payload]
    state: Final[Any]
    """What the handler gave, with canonical numbers; None also where it gave nothing."""
    key_id: Final[str | None]
    """Id of the key that opened it; None under a custom protector."""
    opened_ms: Final[int]
    """When it was opened, in milliseconds since 1970."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeError: open_payload makes them."""
    @property
    def has_state(self) -> bool:
        """Whether the handler gave state; it may have been null."""
    @property
    def round(self) -> int:
        """Asks emitted so far in this flow, from 1."""
    @property
    def issued_ms(self) -> int:
        """When the flow's first ask was sealed, in milliseconds since 1970."""
    @property
    def expires_ms(self) -> int:
        """When the flow expires."""
    @property
    def age_ms(self) -> int:
        """Milliseconds from the flow's first ask to the opening."""
    @property
    def flow_id(self) -> bytes:
        """16 bytes, the same in all rounds of a flow."""
    @property
    def asked(self) -> dict[str, _Asked]:
        """What the last ask asked, by key: kind (1 form, 2 url, 3 sampling, 4 roots) and request digest. A new dict."""

def open_payload(
    data: bytes,
    key_id: str | None,
    call: Call,
    bind_principal: bool,
    now_ms: int,
    terms: Terms,
    limits: Bounds,
    maximum_size: int,
) -> OpenedState:
    """Judges an authentic payload for a request: size, bindings, parameters, id, round, lifetime, times, kind of asks,
    state.

    Where ``bind_principal`` is false, a payload has no principal. ``limits`` bound the state. Raises
    RequestStateProtectionError with the first thing that does not hold, OverflowError where the time does not fit 64
    bits.
    """

def next_payload(
    call: Call,
    bind_principal: bool,
    previous: OpenedState | None,
    flow_id: bytes | None,
    asked: Mapping[str, _Asked],
    has_state: bool,
    state: object,
    now_ms: int,
    terms: Terms,
    limits: Bounds,
    maximum_size: int,
) -> bytes:
    """The payload of an ask: the next round of the flow of ``previous``, or the first one of ``flow_id``.

    Raises RequestStateProtectionError (ROUND, EXPIRED, TOO_LARGE), JsonError where state or parameters have no
    canonical form, EnvelopeError or OverflowError where a time does not fit 64 bits, EnvelopeError where a key has a
    lone surrogate.
    """
