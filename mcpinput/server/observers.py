"""Observers and interceptors: how an application watches requests, and steps in.

Rules

- An observer is any object with one or more of the methods of :class:`Observer`. Observers are called in the request's
  own step, so they should be quick; what one raises is logged and changes nothing.
- An interceptor wraps the handler and may answer in its place; neither ever sees a token.
- State that is refused, or cannot be sealed, is an event, a count and a log record. Log records alone are limited. None
  of the three holds a token, state, a principal, an argument or key material.
- Log records have their facts as fields too (``mcpinput_event`` and others with this prefix), for formatters that write
  JSON.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcpinput.server.counters import Counters, OfThisProcess

if TYPE_CHECKING:
    from mcpinput.errors import ProtectionFailure, RequestStateProtectionError
    from mcpinput.protection.manager import ProtectionKeyringSnapshot
    from mcpinput.server.admission import TransportFacts
    from mcpinput.server.context import RequestContext

__all__ = ["CallNext", "Dropped", "Interceptor", "Observer", "Outcome", "Rejection"]

logger = logging.getLogger("mcpinput")

CallNext: TypeAlias = Callable[[], Awaitable[Any]]
Interceptor: TypeAlias = Callable[["RequestContext", CallNext], Awaitable[Any]]
"""``async def interceptor(ctx, call_next)``: returns what ``await call_next()`` returns, or an answer of its own."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a request was refused before its handler ran. Holds no token, state, principal or argument.

    Attributes:
        status: HTTP status.
        code: JSON-RPC error code, or None where the refusal is HTTP's alone.
        reason: A short name of what was wrong, such as ``"origin"`` or ``"request state"``.
        method: JSON-RPC method, where it was read.
        failure: Why the state did not open, where that was it.
        key_id: Id of the key that the token names, where known.
        age_ms: Milliseconds since the flow began, where known.
        round: Round of the token, where known.
        audience: This server's audience, where the token was made for another one.
        detail: Of what type it was that a custom protector raised or returned, where that was it.
        operation: Kind and registered name of the operation, such as ``tool 'catalog.continue'``, where its state or
            the answers to it were refused.
    """

    status: int
    code: int | None
    reason: str
    method: str | None = None
    failure: ProtectionFailure | None = None
    key_id: str | None = None
    age_ms: int | None = None
    round: int | None = None
    audience: str | None = None
    detail: str | None = None
    operation: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request ended once its context was made.

    Attributes:
        kind: ``"complete"``, ``"input_required"`` or ``"error"``.
        status: HTTP status.
        code: JSON-RPC error code of an error.
        failure: Why state could not be sealed, where that was it.
        age_ms: Then also: milliseconds since the flow began, where known.
        round: Then also: the round that the ask would have had, where known.
    """

    kind: str
    status: int
    code: int | None = None
    failure: ProtectionFailure | None = None
    age_ms: int | None = None
    round: int | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """Input responses that the handler is not shown.

    Attributes:
        keys: Their keys.
        reason: ``"no state"`` (a retry without the token of its ask), ``"malformed"`` (under a key that nobody asked).
    """

    keys: tuple[str, ...]
    reason: str


class Observer:
    """Base for observers; every method may be left out."""

    def on_request(self, ctx: RequestContext) -> None:
        """The context is complete and the handler is about to run."""

    def on_outcome(self, ctx: RequestContext, outcome: Outcome) -> None:
        """The answer has been made."""

    def on_dropped(self, ctx: RequestContext, dropped: Dropped) -> None:
        """Some input responses are not shown to the handler."""

    def on_rejection(self, facts: TransportFacts, rejection: Rejection) -> None:
        """A request was refused before a context existed."""

    def on_keyring_change(self, snapshot: ProtectionKeyringSnapshot) -> None:
        """The server's ring was changed, by its manager or its key file. Called in the thread that changed it."""

    def on_key_file_problem(self, problem: str) -> None:
        """The key file cannot be used as it is now; the ring stays. Called in the thread that watches the file."""


class Observers:
    """All observers of one server, with their methods looked up once, its counters and its limited log records.

    Every method may be called from any thread, and none raises but for Ctrl-C.

    Attributes:
        counters: What has happened so far.
    """

    __slots__ = (
        "_dropped",
        "_key_file_problem",
        "_keyring_change",
        "_limiter",
        "_outcome",
        "_rejection",
        "_request",
        "counters",
    )

    def __init__(self, observers: Iterable[object], *, clock: Callable[[], float] = time.monotonic) -> None:
        observers = list(observers)
        self._request: Final = _methods(observers, "on_request")
        self._outcome: Final = _methods(observers, "on_outcome")
        self._dropped: Final = _methods(observers, "on_dropped")
        self._rejection: Final = _methods(observers, "on_rejection")
        self._keyring_change: Final = _methods(observers, "on_keyring_change")
        self._key_file_problem: Final = _methods(observers, "on_key_file_problem")
        self._limiter: Final = LogLimiter(clock)
        self.counters: Final = Counters()
        for observer in observers:
            if not any(callable(getattr(observer, name, None)) for name in _EVENTS):
                raise TypeError(f"observers: {type(observer).__name__} has none of the methods {', '.join(_EVENTS)}")
            for name in _EVENTS:
                if inspect.iscoroutinefunction(getattr(observer, name, None)):
                    raise TypeError(
                        f"observers: {type(observer).__name__}.{name} must be a plain def; nobody awaits it"
                    )

    def request(self, ctx: RequestContext) -> None:
        if self._request:
            _tell(self._request, ctx)

    def outcome(self, ctx: RequestContext, outcome: Outcome) -> None:
        self.counters._add("outcomes", outcome.kind)
        if self._outcome:
            _tell(self._outcome, ctx, outcome)

    def dropped(self, ctx: RequestContext, dropped: Dropped) -> None:
        for _ in dropped.keys:
            self.counters._add("responses_dropped", dropped.reason)
        _tell(self._dropped, ctx, dropped)

    def rejection(self, facts: TransportFacts, rejection: Rejection) -> None:
        self.counters._add("requests_refused", rejection.reason)
        if rejection.failure is not None:
            self.counters._add("state_refused", rejection.failure)
            self._log_refused(rejection.failure, rejection)
        _tell(self._rejection, facts, rejection)

    def seal_failed(self, operation: str, failure: RequestStateProtectionError, detail: str = "") -> None:
        """Counts and logs state that could not be sealed; the outcome that follows is what observers are told.

        Args:
            operation: Kind and name of the operation, such as ``tool 'catalog.continue'``.
            failure: Why.
            detail: More on it for the log, without anything of the state.
        """
        self.counters._add("seals_failed", failure.reason)
        left_out = self._limiter.left_out("state_not_sealed", failure.reason)
        if left_out is not None:
            logger.error(
                "%s: its state could not be sealed: %s%s%s%s",
                operation,
                failure.reason,
                _known(age_ms=failure.age_ms, round=failure.round),
                f"; {detail}" if detail else "",
                _left_out(left_out),
                extra={
                    "mcpinput_event": "state_not_sealed",
                    "mcpinput_failure": str(failure.reason),
                    "mcpinput_operation": operation,
                    "mcpinput_age_ms": failure.age_ms,
                    "mcpinput_round": failure.round,
                    "mcpinput_detail": detail or None,
                    "mcpinput_left_out": left_out,
                },
            )

    def keyring_change(self, snapshot: ProtectionKeyringSnapshot) -> None:
        _tell(self._keyring_change, snapshot)

    def key_file_problem(self, problem: str) -> None:
        _tell(self._key_file_problem, problem)

    def _log_refused(self, failure: ProtectionFailure, rejection: Rejection) -> None:
        left_out = self._limiter.left_out("state_refused", failure)
        if left_out is None:
            return
        hint = f"; {rejection.detail}" if rejection.detail else ""
        if rejection.audience is not None:
            hint = (
                f"; this server's audience is {rejection.audience!r}: all instances of a service must share one name, "
                "or ProtectionConfig(audience=...)"
            )
        logger.warning(
            "request state refused: %s%s%s%s",
            failure,
            _known(
                key=rejection.key_id,
                age_ms=rejection.age_ms,
                round=rejection.round,
                method=rejection.method,
                operation=rejection.operation,
            ),
            hint,
            _left_out(left_out),
            extra={
                "mcpinput_event": "state_refused",
                "mcpinput_failure": str(failure),
                "mcpinput_key_id": rejection.key_id,
                "mcpinput_age_ms": rejection.age_ms,
                "mcpinput_round": rejection.round,
                "mcpinput_method": rejection.method,
                "mcpinput_operation": rejection.operation,
                "mcpinput_audience": rejection.audience,
                "mcpinput_detail": rejection.detail,
                "mcpinput_left_out": left_out,
            },
        )


_EVENTS: Final = (
    "on_request",
    "on_outcome",
    "on_dropped",
    "on_rejection",
    "on_keyring_change",
    "on_key_file_problem",
)


def _methods(observers: list[object], name: str) -> tuple[Callable[..., None], ...]:
    found = (getattr(observer, name, None) for observer in observers)
    return tuple(method for method in found if callable(method))


def _tell(methods: tuple[Callable[..., None], ...], *event: object) -> None:
    for method in methods:
        try:
            method(*event)
        except BaseException as error:  # an observer must not change what a client gets, nor keep a key reserved
            if isinstance(error, KeyboardInterrupt):
                raise
            logger.exception("an observer failed; what it was told of goes on")


def _known(
    *,
    age_ms: int | None,
    round: int | None,
    key: str | None = None,
    method: str | None = None,
    operation: str | None = None,
) -> str:
    """What is known of a token, in parentheses."""
    age = None if age_ms is None else f"{age_ms} ms"
    facts = {"key": key, "age": age, "round": round, "method": method, "operation": operation}
    known = ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
    return f" ({known})" if known else ""


def _left_out(number: int) -> str:
    return f" [{number} more like this were not logged]" if number else ""


class LogLimiter(OfThisProcess):
    """At most ten log records a second of each kind: a refused token costs an attacker little, and must us too.

    Kinds are events with their reason, both from lists in the code, so that their number has a bound.
    """

    __slots__ = ("_clock", "_kinds", "_lock")

    PER_SECOND: Final = 10

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock: Final = clock

    def _begin(self) -> None:
        self._lock = threading.RLock()  # a signal handler may log, and have interrupted the lines that hold it
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def left_out(self, event: str, reason: str) -> int | None:
        """How many records of a kind were left out since its last one, where one may be written now; else None."""
        second = int(self._clock())
        with self._lock:
            kind = self._kinds.setdefault((event, reason), _Kind())
            if second != kind.second:
                kind.second = second
                kind.written = 0
            if kind.written == self.PER_SECOND:
                kind.left_out += 1
                return None
            kind.written += 1
            left_out, kind.left_out = kind.left_out, 0
            return left_out


@dataclass(slots=True)
class _Kind:
    second: int = -1
    written: int = 0
    left_out: int = 0
