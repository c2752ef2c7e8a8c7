"""The framework's half of request state: what goes into a payload, and what must hold of one that comes back.

Rules

- Bindings are compared here after opening, for every protector, so that a sloppy or lying one is caught. All of them
  are compared in constant time; the first that differs is the reason.
- Every refusal is one :class:`RequestStateProtectionError` with its reason and no chained exception. Nothing of a
  token, payload, state or protector's exception is in it.
- A token is judged cheapest first: length, envelope, key, tag; the digest of the request's parameters is computed only
  once the tag has verified (a custom protector may ask for it earlier).
- Time is read once for each opening and each sealing.
"""

from __future__ import annotations

import hmac
import inspect
import os
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, final

from mcpinput._core.canonical import canonical_bytes
from mcpinput._core.envelope import Payload, decode_payload, encode_payload, request_id_hash
from mcpinput._core.parse import parse_state
from mcpinput._ending import ends_from_outside
from mcpinput.errors import EnvelopeError, JsonError, JsonErrorKind, ProtectionFailure, RequestStateProtectionError
from mcpinput.json import Limits
from mcpinput.protection.context import ABSENT_BINDING, BINDING_BYTES, Bindings, ProtectionContext
from mcpinput.protection.manager import ProtectionKeyringManager
from mcpinput.protection.protector import open_token, seal_token
from mcpinput.protection.xaes import NONCE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpinput.protection.config import ProtectionConfig
    from mcpinput.protection.manager import SealingReservation
    from mcpinput.protection.protector import RequestStateProtector

__all__ = ["CLOCK_SKEW_MS", "AskedRequest", "Call", "OpenedState", "SealedState", "StateBoundary"]

CLOCK_SKEW_MS: Final = 60_000
"""How far in the future state may have been issued: the clocks of instances differ."""

_FLOW_ID_BYTES: Final = 16
_MAXIMUM_ASKED: Final = 65_535
_MAXIMUM_STATE: Final = 16 * 1024 * 1024
_FLAG_STATE: Final = 1
_FLAG_REPLAYED: Final = 2

_BINDING_FAILURES: Final = (
    ProtectionFailure.AUDIENCE,
    ProtectionFailure.ENDPOINT_PATH,
    ProtectionFailure.PROTOCOL_VERSION,
    ProtectionFailure.METHOD,
    ProtectionFailure.PARTITION,
    ProtectionFailure.TENANT,
    ProtectionFailure.PRINCIPAL,
)


@dataclass(frozen=True, slots=True)
class AskedRequest:
    """One request that an ask carried.

    Attributes:
        kind: 1 form, 2 url, 3 sampling, 4 roots.
        digest: First 16 bytes of SHA-256 over canonical form v1 of its method and params.
    """

    kind: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class OpenedState:
    """What a token carried, verified.

    Attributes:
        has_state: Whether the handler gave state; it may have been null.
        state: That state, with canonical numbers. None without.
        round: Asks emitted so far in this flow, from 1.
        issued_ms: When the flow's first ask was sealed, in milliseconds since 1970.
        expires_ms: When the flow expires.
        flow_id: 16 bytes, the same in all rounds of a flow.
        asked: What the last ask asked, by key.
        key_id: Id of the key that opened it; None under a custom protector.
    """

    has_state: bool
    state: Any = field(repr=False)
    round: int
    issued_ms: int
    expires_ms: int
    flow_id: bytes
    asked: Mapping[str, AskedRequest] = field(repr=False)
    key_id: str | None


@final
class Call:
    """What one request binds state to. Each part is hashed when first needed, and once."""

    __slots__ = (
        "_binding_digests",
        "_compute_parameter_digest",
        "_parameter_digest",
        "_request_id_hash",
        "bindings",
        "request_id",
    )

    def __init__(self, bindings: Bindings, request_id: int | str, parameter_digest: Callable[[], bytes]) -> None:
        self.bindings: Final = bindings
        self.request_id: Final = request_id
        self._compute_parameter_digest = parameter_digest
        self._parameter_digest: bytes | None = None
        self._binding_digests: bytes | None = None
        self._request_id_hash: bytes | None = None

    def parameter_digest(self) -> bytes:
        """Digest of the stable parameters, 32 bytes. Raises what computing it raises."""
        if self._parameter_digest is None:
            self._parameter_digest = self._compute_parameter_digest()
        return self._parameter_digest

    def binding_digests(self) -> bytes:
        """``bindings.digests()``."""
        if self._binding_digests is None:
            self._binding_digests = self.bindings.digests()
        return self._binding_digests

    def request_id_hash(self) -> bytes:
        """Hash of the request's id and its JSON type, 16 bytes."""
        if self._request_id_hash is None:
            self._request_id_hash = request_id_hash(self.request_id)
        return self._request_id_hash


@final
class SealedState:
    """A token on its way to the client. Its key stays reserved until :meth:`release`.

    Attributes:
        token: The request state for the wire.
    """

    __slots__ = ("_reservation", "token")

    def __init__(self, token: str, reservation: SealingReservation | None) -> None:
        self.token: Final = token
        self._reservation = reservation

    def release(self) -> None:
        """Tells that the message with the token is out, or that its request has ended. May be called again."""
        if self._reservation is not None:
            self._reservation.release()


@final
class StateBoundary:
    """Seals and opens the request state of one server. Every method may be called from any thread.

    Attributes:
        keyring_manager: Live control of the ring, which starts from that of ``config``; None with a custom protector.
        maximum_rounds: Asks that one flow may emit.
    """

    __slots__ = (
        "_bind_principal",
        "_clock",
        "_limits",
        "_maximum_decoded",
        "_maximum_encoded",
        "_maximum_lifetime_ms",
        "_protector",
        "keyring_manager",
        "maximum_rounds",
    )

    def __init__(self, config: ProtectionConfig) -> None:
        self._bind_principal = config.bind_principal
        self._clock = config.clock
        self._maximum_encoded = config.maximum_encoded_bytes
        self._maximum_decoded = config.maximum_decoded_bytes
        # State that could not be read back is not sealed.
        maximum_state = min(config.maximum_decoded_bytes, _MAXIMUM_STATE)
        self._limits = Limits(body_bytes=maximum_state, canonical_bytes=maximum_state)
        self._maximum_lifetime_ms = config.maximum_lifetime_ms
        self.maximum_rounds: Final = config.maximum_request_state_rounds
        self._protector: RequestStateProtector | None = config.protector
        self.keyring_manager: Final[ProtectionKeyringManager | None] = (
            None if config.keyring is None else ProtectionKeyringManager(config.keyring, clock=config.clock)
        )

    def now_ms(self) -> int:
        """The configured clock, to the nearest millisecond: a float of seconds rarely is a whole one."""
        return round(self._clock() * 1000)

    async def open(
        self,
        token: str,
        call: Call,
        *,
        maximum_lifetime_ms: int | None = None,
        maximum_rounds: int | None = None,
        replayed: bool = False,
    ) -> OpenedState:
        """Verifies a token for a request.

        Args:
            token: As the client sent it.
            call: What the request is.
            maximum_lifetime_ms: The operation's own, where it is lower than the configured one.
            maximum_rounds: Likewise.
            replayed: Whether the operation's asks are replayed rather than returned.

        Raises:
            RequestStateProtectionError: It does not open for this request, now; or (UNAVAILABLE) the protector cannot
                be reached.
        """
        if not token:
            raise RequestStateProtectionError(ProtectionFailure.MALFORMED)
        if len(token) > self._maximum_encoded:
            raise RequestStateProtectionError(ProtectionFailure.TOO_LARGE)
        key_id: str | None = None
        payload: Payload | ProtectionFailure
        if self.keyring_manager is not None:
            key_id, payload = self._open_by_keyring(self.keyring_manager, token)
        else:
            payload = await self._open_by_protector(token, call)
        if isinstance(payload, ProtectionFailure):
            raise RequestStateProtectionError(payload, key_id=key_id)
        now = self.now_ms()
        failure = self._judge(
            payload,
            call,
            now,
            _lower(self._maximum_lifetime_ms, maximum_lifetime_ms),
            _lower(self.maximum_rounds, maximum_rounds),
            replayed,
        )
        has_state = bool(payload.flags & _FLAG_STATE)
        state: Any = None
        if failure is None and has_state:
            try:
                state = parse_state(payload.state, limits=self._limits)
            except JsonError:
                failure = ProtectionFailure.MALFORMED
        if failure is not None:
            raise RequestStateProtectionError(
                failure, key_id=key_id, age_ms=now - payload.issued_ms, round=payload.round
            )
        return OpenedState(
            has_state=has_state,
            state=state,
            round=payload.round,
            issued_ms=payload.issued_ms,
            expires_ms=payload.expires_ms,
            flow_id=payload.flow_id,
            asked=MappingProxyType({key: AskedRequest(kind, digest) for key, kind, digest in payload.asked}),
            key_id=key_id,
        )

    async def seal(
        self,
        call: Call,
        previous: OpenedState | None,
        asked: Mapping[str, AskedRequest],
        *,
        has_state: bool,
        state: Any = None,
        flow_id: bytes | None = None,
        maximum_lifetime_ms: int | None = None,
        maximum_rounds: int | None = None,
        replayed: bool = False,
    ) -> SealedState:
        """Makes the token of an ask. Who calls this calls ``release()`` on the answer when the ask is out, or given up.

        Args:
            call: The request that is answered by the ask.
            previous: What that request's own token carried: the flow goes on. None begins a flow.
            asked: What the ask asks, by key; may be empty.
            has_state: Whether the handler gave state.
            state: That state, any JSON value without floats.
            flow_id: Id of a flow that begins here; drawn where it is None.
            maximum_lifetime_ms, maximum_rounds, replayed: As in :meth:`open`.

        Raises:
            RequestStateProtectionError: Over-round, expired meanwhile, too large, or the protector failed.
            JsonError: The state, or the request's parameters, have no canonical form within the limits.
        """
        now = self.now_ms()
        if previous is None:
            this_round = 1
            issued_ms = now
            expires_ms = now + _lower(self._maximum_lifetime_ms, maximum_lifetime_ms)
            flow_id = os.urandom(_FLOW_ID_BYTES) if flow_id is None else flow_id
        else:
            this_round = previous.round + 1
            issued_ms = previous.issued_ms
            expires_ms = previous.expires_ms
            flow_id = previous.flow_id
        age_ms = now - issued_ms
        if this_round > _lower(self.maximum_rounds, maximum_rounds):
            raise RequestStateProtectionError(ProtectionFailure.ROUND, age_ms=age_ms, round=this_round)
        if now >= expires_ms:
            raise RequestStateProtectionError(ProtectionFailure.EXPIRED, age_ms=age_ms, round=this_round)
        state_bytes = self._canonical_state(state) if has_state else b""
        if state_bytes is None or len(asked) > _MAXIMUM_ASKED:
            raise RequestStateProtectionError(ProtectionFailure.TOO_LARGE, age_ms=age_ms, round=this_round)
        payload = encode_payload(
            (_FLAG_STATE if has_state else 0) | (_FLAG_REPLAYED if replayed else 0),
            this_round,
            issued_ms,
            expires_ms,
            flow_id,
            self._binding_digests(call),
            call.parameter_digest(),
            call.request_id_hash(),
            [(key, request.kind, request.digest) for key, request in asked.items()],
            state_bytes,
        )
        if len(payload) > self._maximum_decoded:
            raise RequestStateProtectionError(ProtectionFailure.TOO_LARGE, age_ms=age_ms, round=this_round)
        if self.keyring_manager is None:
            token = await self._seal_by_protector(payload, call)
            if isinstance(token, ProtectionFailure):
                raise RequestStateProtectionError(token, age_ms=age_ms, round=this_round)
            if len(token) > self._maximum_encoded:
                raise RequestStateProtectionError(ProtectionFailure.TOO_LARGE, age_ms=age_ms, round=this_round)
            return SealedState(token, None)
        reservation = self.keyring_manager.sealing()
        try:
            token = seal_token(reservation.key, os.urandom(NONCE_BYTES), payload)
            if len(token) > self._maximum_encoded:
                raise RequestStateProtectionError(ProtectionFailure.TOO_LARGE, age_ms=age_ms, round=this_round)
            return SealedState(token, reservation)
        except BaseException:
            reservation.release()
            raise

    # ---- what must hold ----

    def _binding_digests(self, call: Call) -> bytes:
        digests = call.binding_digests()
        return digests if self._bind_principal else digests[:-BINDING_BYTES] + ABSENT_BINDING

    def _judge(
        self, payload: Payload, call: Call, now: int, maximum_lifetime_ms: int, maximum_rounds: int, replayed: bool
    ) -> ProtectionFailure | None:
        """The first thing that does not hold of an authentic payload, or None."""
        bound = self._binding_digests(call)
        if not hmac.compare_digest(payload.bindings, bound):
            same = [
                hmac.compare_digest(payload.bindings[at : at + BINDING_BYTES], bound[at : at + BINDING_BYTES])
                for at in range(0, len(bound), BINDING_BYTES)
            ]
            return _BINDING_FAILURES[same.index(False)]
        try:
            parameter_digest = call.parameter_digest()
        except JsonError:  # the body was read, but its canonical form is over the limit: it never sealed anything
            return ProtectionFailure.PARAMETERS
        if not hmac.compare_digest(payload.parameter_digest, parameter_digest):
            return ProtectionFailure.PARAMETERS
        if hmac.compare_digest(payload.request_id_hash, call.request_id_hash()):
            return ProtectionFailure.REQUEST_ID
        if not 1 <= payload.round <= maximum_rounds:
            return ProtectionFailure.ROUND
        if not 0 < payload.expires_ms - payload.issued_ms <= maximum_lifetime_ms:
            return ProtectionFailure.LIFETIME
        if payload.issued_ms > now + CLOCK_SKEW_MS:
            return ProtectionFailure.ISSUED_IN_FUTURE
        if now >= payload.expires_ms:
            return ProtectionFailure.EXPIRED
        if bool(payload.flags & _FLAG_REPLAYED) != replayed:
            return ProtectionFailure.ASK_KIND
        return None

    def _canonical_state(self, state: object) -> bytes | None:
        """Canonical bytes, or None where they alone are over the limit."""
        try:
            return canonical_bytes(state, limits=self._limits)
        except JsonError as error:
            if error.kind is not JsonErrorKind.SIZE:
                raise
        return None

    # ---- providers ----

    def _open_by_keyring(
        self, manager: ProtectionKeyringManager, token: str
    ) -> tuple[str, Payload | ProtectionFailure]:
        key_id, opened = open_token(manager.keyring, token)
        manager.note_opened(key_id)
        return key_id, self._decoded(opened)

    async def _open_by_protector(self, token: str, call: Call) -> Payload | ProtectionFailure:
        assert self._protector is not None
        if not _is_protector_text(token):
            return ProtectionFailure.MALFORMED
        try:
            opened = self._protector.open(token, self._context(call))
            if inspect.isawaitable(opened):
                opened = await opened
        except BaseException as error:  # whatever it raises, the state does not open
            if ends_from_outside(error):
                raise
            return _protector_failure(error)
        return self._decoded(opened) if isinstance(opened, bytes) else ProtectionFailure.PROTECTOR_FAILED

    async def _seal_by_protector(self, payload: bytes, call: Call) -> str | ProtectionFailure:
        assert self._protector is not None
        try:
            token = self._protector.seal(payload, self._context(call))
            if inspect.isawaitable(token):
                token = await token
        except BaseException as error:  # whatever it raises, nothing is sealed
            if ends_from_outside(error):
                raise
            return _protector_failure(error)
        if isinstance(token, str) and _is_protector_text(token):
            return token
        return ProtectionFailure.PROTECTOR_FAILED

    def _context(self, call: Call) -> ProtectionContext:
        bindings = call.bindings if self._bind_principal else replace(call.bindings, principal=None)
        return ProtectionContext(bindings, call.parameter_digest)

    def _decoded(self, opened: bytes) -> Payload | ProtectionFailure:
        if len(opened) > self._maximum_decoded:
            return ProtectionFailure.TOO_LARGE
        try:
            return decode_payload(opened)
        except EnvelopeError:
            return ProtectionFailure.MALFORMED


def _lower(configured: int, own: int | None) -> int:
    return configured if own is None or own > configured else own


def _is_protector_text(token: str) -> bool:
    """Whether a token is one that a custom protector may have made: nonempty, printable ASCII."""
    return bool(token) and token.isascii() and token.isprintable()


def _protector_failure(error: BaseException) -> ProtectionFailure:
    if isinstance(error, RequestStateProtectionError) and error.reason is ProtectionFailure.UNAVAILABLE:
        return ProtectionFailure.UNAVAILABLE
    return ProtectionFailure.PROTECTOR_FAILED
