"""The framework's half of request state: what goes into a payload, and what must hold of one that comes back.

Rules

- Bindings are compared after opening, for every protector, so that a sloppy or lying one is caught. The compiled core
  does that, in constant time; the first that differs is the reason.
- Every refusal is one :class:`RequestStateProtectionError` with its reason and no chained exception. Nothing of a
  token, payload, state or protector's exception is in it.
- A token is judged cheapest first: length, envelope, key, tag; the digest of the request's parameters is computed only
  once the tag has verified (a custom protector may ask for it earlier).
- Time is read once for each opening and each sealing, to the nearest millisecond: a float of seconds rarely is a whole
  one.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from mcpinput._core.state import CLOCK_SKEW_MS, Call, OpenedState, Terms, next_payload, open_payload
from mcpinput._ending import ends_from_outside
from mcpinput.errors import ProtectionFailure, RequestStateProtectionError
from mcpinput.json import Limits
from mcpinput.protection.config import ProtectionConfig, checked_lifetime_ms, checked_rounds
from mcpinput.protection.context import ProtectionContext
from mcpinput.protection.manager import ProtectionKeyringManager
from mcpinput.protection.protector import open_token, seal_token
from mcpinput.protection.single_use import SingleUse
from mcpinput.protection.sizes import MAXIMUM_STATE, sealed_size
from mcpinput.protection.xaes import NONCE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import timedelta

    from mcpinput.protection.manager import ProtectionKeyringSnapshot
    from mcpinput.protection.protector import RequestStateProtector
    from mcpinput.protection.watch import KeyFileWatcher

__all__ = ["CLOCK_SKEW_MS", "AskedRequest", "Call", "OpenedState", "SealedState", "StateBoundary", "Terms"]

_FLOW_ID_BYTES: Final = 16


class AskedRequest(NamedTuple):
    """One request that an ask carried.

    Attributes:
        kind: 1 form, 2 url, 3 sampling, 4 roots.
        digest: First 16 bytes of SHA-256 over canonical form v1 of its method and params.
    """

    kind: int
    digest: bytes


@final
class SealedState:
    """A token on its way to the client. Its key stays reserved until it is released.

    Attributes:
        token: The request state for the wire.
        release: To be called when the message with the token is out, or its request has ended. May be called again.
    """

    __slots__ = ("release", "token")

    def __init__(self, token: str, release: Callable[[], None]) -> None:
        self.token: Final = token
        self.release: Final = release


def _nothing() -> None:
    """What there is to release where no key is reserved."""


@final
class StateBoundary:
    """Seals and opens the request state of one server. Every method may be called from any thread.

    Args:
        config: How the state is protected.
        on_keyring_change: Told after each change of the ring, in the thread that made it.
        on_key_file_problem: Told what is wrong with the key file, in the thread that follows it.

    Attributes:
        default_terms: Those of an operation that sets none of its own.
        keyring_manager: Live control of the ring, which starts from that of ``config``; None with a custom protector.
        single_use: Spends tokens; None where they may open again.

    Raises:
        KeyFileError: The key file cannot be used.
    """

    __slots__ = (
        "_bind_principal",
        "_clock",
        "_limits",
        "_maximum_decoded",
        "_maximum_encoded",
        "_protector",
        "_watcher",
        "default_terms",
        "keyring_manager",
        "single_use",
    )

    def __init__(
        self,
        config: ProtectionConfig,
        *,
        on_keyring_change: Callable[[ProtectionKeyringSnapshot], None] | None = None,
        on_key_file_problem: Callable[[str], None] | None = None,
    ) -> None:
        self._bind_principal = config.bind_principal
        self._clock = config.clock
        self._maximum_encoded = config.maximum_encoded_bytes
        self._maximum_decoded = config.maximum_decoded_bytes
        # State that could not be read back is not sealed.
        maximum_state = min(config.maximum_decoded_bytes, MAXIMUM_STATE)
        self._limits = Limits(body_bytes=maximum_state, canonical_bytes=maximum_state)
        self.default_terms: Final = Terms(config.maximum_lifetime_ms, config.maximum_request_state_rounds)
        self._protector: RequestStateProtector | None = config.protector
        self._watcher: KeyFileWatcher | None = None
        manager = None
        if config.keyring is not None:
            manager = ProtectionKeyringManager(config.keyring, on_change=on_keyring_change)
        elif config.key_file is not None:
            self._watcher = config.key_file.follow(
                clock=config.clock,
                maximum_lifetime_ms=config.maximum_lifetime_ms,
                on_change=on_keyring_change,
                on_problem=on_key_file_problem,
            )
            manager = self._watcher.manager
        self.keyring_manager: Final = manager
        self.single_use: Final = None if config.single_use is None else SingleUse(config.single_use)

    def start(self) -> None:
        """Begins what runs beside the requests: following the key file. The first request would do it as well."""
        if self._watcher is not None:
            self._watcher.ensure()

    def fits(self, state: object, keys: Iterable[str], *, has_state: bool) -> bool:
        """Whether state, with these asked keys, is within the limits on sizes. Of a custom protector's token only what
        goes into it is known.

        Raises:
            JsonError: The state has no canonical form.
        """
        manager = self.keyring_manager
        size = sealed_size(
            state,
            keys,
            key_id=None if manager is None else manager.keyring.active_key_id,
            has_state=has_state,
            maximum_encoded=self._maximum_encoded,
            maximum_decoded=self._maximum_decoded,
        )
        return size.fits

    def is_over(self, opened: OpenedState | None) -> bool:
        """Whether a flow has expired by now."""
        return opened is not None and round(self._clock() * 1000) >= opened.expires_ms

    def terms(self, *, lifetime: timedelta | None = None, rounds: int | None = None, replayed: bool = False) -> Terms:
        """The terms of one operation: those of the configuration, or its own lower ones.

        Args:
            lifetime: From a flow's first ask to its expiry: whole milliseconds.
            rounds: Asks in one flow.
            replayed: Whether its asks are replayed rather than returned.

        Raises:
            TypeError: A part has the wrong type.
            ValueError: A part is out of range, or above the configured maximum.
        """
        lifetime_ms = self.default_terms.lifetime_ms
        if lifetime is not None:
            own_ms = checked_lifetime_ms("maximum_request_state_lifetime", lifetime)
            if own_ms > lifetime_ms:
                raise ValueError(
                    f"maximum_request_state_lifetime ({own_ms} ms) is above that of the server's ProtectionConfig "
                    f"({lifetime_ms} ms)"
                )
            lifetime_ms = own_ms
        maximum_rounds = self.default_terms.rounds
        if rounds is not None:
            own = checked_rounds("maximum_request_state_rounds", rounds)
            if own > maximum_rounds:
                raise ValueError(
                    f"maximum_request_state_rounds ({own}) is above that of the server's ProtectionConfig "
                    f"({maximum_rounds})"
                )
            maximum_rounds = own
        return Terms(lifetime_ms, maximum_rounds, replayed)

    def open_now(self, token: str, call: Call, terms: Terms) -> OpenedState:
        """:meth:`open` by the ring, which waits for nothing."""
        if not 0 < len(token) <= self._maximum_encoded:
            raise RequestStateProtectionError(_failure_of_length(token))
        manager = self.keyring_manager
        assert manager is not None
        if self._watcher is not None:
            self._watcher.ensure()
        # PERF: methods of the manager for the ring and for the use of its key would be two frames of some ten (0.3 us).
        moment = manager._now
        key_id, opened = open_token(moment.ring, token)
        try:
            seconds = moment.uses[key_id].last_used = self._clock()
            now = round(seconds * 1000)
            return open_payload(
                opened, key_id, call, self._bind_principal, now, terms, self._limits, self._maximum_decoded
            )
        finally:
            # The frame is in the traceback of a refusal, or of a clock that fails, and the payload must not be.
            del opened

    async def open(self, token: str, call: Call, terms: Terms | None = None) -> OpenedState:
        """Verifies a token for a request.

        Args:
            token: As the client sent it.
            call: What the request is.
            terms: Those of its operation; None takes those of the configuration.

        Raises:
            RequestStateProtectionError: It does not open for this request, now; or (UNAVAILABLE) the protector cannot
                be reached.
        """
        terms = terms or self.default_terms
        if self._protector is None:
            return self.open_now(token, call, terms)
        if not 0 < len(token) <= self._maximum_encoded:
            raise RequestStateProtectionError(_failure_of_length(token))
        opened = await self._open_by_protector(self._protector, token, call)
        if isinstance(opened, RequestStateProtectionError):
            raise opened
        try:
            now = round(self._clock() * 1000)
            return open_payload(
                opened, None, call, self._bind_principal, now, terms, self._limits, self._maximum_decoded
            )
        finally:
            del opened

    def seal_now(
        self,
        call: Call,
        previous: OpenedState | None,
        asked: Mapping[str, tuple[int, bytes]],
        has_state: bool,
        state: Any,
        flow_id: bytes | None,
        terms: Terms,
    ) -> SealedState:
        """:meth:`seal` by the ring, which waits for nothing."""
        assert self.keyring_manager is not None
        if self._watcher is not None:
            self._watcher.ensure()
        now = round(self._clock() * 1000)
        payload = self._next_payload(call, previous, asked, has_state, state, flow_id, now, terms)
        reservation = self.keyring_manager.sealing()
        try:
            token = seal_token(reservation.key, os.urandom(NONCE_BYTES), payload)
            if len(token) > self._maximum_encoded:
                raise _not_sealed(ProtectionFailure.TOO_LARGE, previous, now)
        except BaseException:
            reservation.release()
            raise
        return SealedState(token, reservation.release)

    async def seal(
        self,
        call: Call,
        previous: OpenedState | None,
        asked: Mapping[str, tuple[int, bytes]],
        has_state: bool,
        state: Any = None,
        flow_id: bytes | None = None,
        terms: Terms | None = None,
    ) -> SealedState:
        """Makes the token of an ask. Who calls this calls ``release()`` on the answer when the ask is out, or given up.

        Args:
            call: The request that is answered by the ask.
            previous: What that request's own token carried: the flow goes on. None begins a flow.
            asked: What the ask asks, by key: kind and request digest, as :class:`AskedRequest` has them. May be empty.
            has_state: Whether the handler gave state.
            state: That state, any JSON value without floats.
            flow_id: Id of a flow that begins here; drawn where it is None.
            terms: As in :meth:`open`.

        Raises:
            RequestStateProtectionError: Over-round, expired meanwhile, too large, or the protector failed.
            JsonError: The state, or the request's parameters, have no canonical form within the limits.
        """
        terms = terms or self.default_terms
        if self._protector is None:
            return self.seal_now(call, previous, asked, has_state, state, flow_id, terms)
        now = round(self._clock() * 1000)
        payload = self._next_payload(call, previous, asked, has_state, state, flow_id, now, terms)
        token = await self._seal_by_protector(self._protector, payload, call)
        if isinstance(token, RequestStateProtectionError):
            raise _not_sealed(token.reason, previous, now, token.detail)
        if len(token) > self._maximum_encoded:
            raise _not_sealed(ProtectionFailure.TOO_LARGE, previous, now)
        return SealedState(token, _nothing)

    def _next_payload(
        self,
        call: Call,
        previous: OpenedState | None,
        asked: Mapping[str, tuple[int, bytes]],
        has_state: bool,
        state: Any,
        flow_id: bytes | None,
        now: int,
        terms: Terms,
    ) -> bytes:
        if previous is None and flow_id is None:
            flow_id = os.urandom(_FLOW_ID_BYTES)
        return next_payload(
            call,
            self._bind_principal,
            previous,
            flow_id,
            asked,
            has_state,
            state,
            now,
            terms,
            self._limits,
            self._maximum_decoded,
        )

    # ---- providers ----

    async def _open_by_protector(
        self, protector: RequestStateProtector, token: str, call: Call
    ) -> bytes | RequestStateProtectionError:
        if not _is_protector_text(token):
            return RequestStateProtectionError(ProtectionFailure.MALFORMED)
        try:
            opened = protector.open(token, self._context(call))
            if inspect.isawaitable(opened):
                opened = await opened
        except BaseException as error:  # whatever it raises, the state does not open
            if ends_from_outside(error):
                raise
            return _protector_failure(error)
        return opened if type(opened) is bytes else _wrong_type(opened)

    async def _seal_by_protector(
        self, protector: RequestStateProtector, payload: bytes, call: Call
    ) -> str | RequestStateProtectionError:
        try:
            token = protector.seal(payload, self._context(call))
            if inspect.isawaitable(token):
                token = await token
        except BaseException as error:  # whatever it raises, nothing is sealed
            if ends_from_outside(error):
                raise
            return _protector_failure(error)
        if type(token) is not str:
            return _wrong_type(token)
        if _is_protector_text(token):
            return token
        return RequestStateProtectionError(
            ProtectionFailure.PROTECTOR_FAILED, detail="the protector returned text that is empty or no printable ASCII"
        )

    def _context(self, call: Call) -> ProtectionContext:
        bindings = call.bindings if self._bind_principal else replace(call.bindings, principal=None)
        return ProtectionContext(bindings, call.parameter_digest)


def _failure_of_length(token: str) -> ProtectionFailure:
    return ProtectionFailure.TOO_LARGE if token else ProtectionFailure.MALFORMED


def _not_sealed(
    failure: ProtectionFailure, previous: OpenedState | None, now: int, detail: str | None = None
) -> RequestStateProtectionError:
    if previous is None:
        return RequestStateProtectionError(failure, age_ms=0, round=1, detail=detail)
    return RequestStateProtectionError(
        failure, age_ms=now - previous.issued_ms, round=previous.round + 1, detail=detail
    )


def _is_protector_text(token: str) -> bool:
    """Whether a token is one that a custom protector may have made: nonempty, printable ASCII."""
    return bool(token) and token.isascii() and token.isprintable()


def _protector_failure(error: BaseException) -> RequestStateProtectionError:
    # A subclass that did not call its base has no reason, and what it says must stay out of the log.
    is_ours = isinstance(error, RequestStateProtectionError)
    if is_ours and getattr(error, "reason", None) is ProtectionFailure.UNAVAILABLE:
        return RequestStateProtectionError(ProtectionFailure.UNAVAILABLE)
    return RequestStateProtectionError(
        ProtectionFailure.PROTECTOR_FAILED, detail=f"the protector raised {type(error).__name__}"
    )


def _wrong_type(returned: object) -> RequestStateProtectionError:
    return RequestStateProtectionError(
        ProtectionFailure.PROTECTOR_FAILED, detail=f"the protector returned {type(returned).__name__}"
    )
