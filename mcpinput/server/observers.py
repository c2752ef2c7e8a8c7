"""Observers and interceptors: how an application watches requests, and steps in.

An observer is any object with one or more of the methods of :class:`Observer`. Observers are called in the request's
own step, so they should be quick; what one raises is logged and changes nothing. An interceptor wraps the handler and
may answer in its place; neither ever sees a token.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from mcpinput.errors import ProtectionFailure
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
    """

    status: int
    code: int | None
    reason: str
    method: str | None = None
    failure: ProtectionFailure | None = None
    key_id: str | None = None
    age_ms: int | None = None
    round: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request ended once its context was made.

    Attributes:
        kind: ``"complete"``, ``"input_required"`` or ``"error"``.
        status: HTTP status.
        code: JSON-RPC error code of an error.
        failure: Why state could not be sealed, where that was it.
    """

    kind: str
    status: int
    code: int | None = None
    failure: ProtectionFailure | None = None


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


class Observers:
    """All observers of one server, with their methods looked up once."""

    __slots__ = ("_dropped", "_limiter", "_outcome", "_rejection", "_request")

    def __init__(self, observers: Iterable[object]) -> None:
        observers = list(observers)
        self._request: Final = _methods(observers, "on_request")
        self._outcome: Final = _methods(observers, "on_outcome")
        self._dropped: Final = _methods(observers, "on_dropped")
        self._rejection: Final = _methods(observers, "on_rejection")
        self._limiter: Final = LogLimiter()
        for observer in observers:
            if not any(callable(getattr(observer, name, None)) for name in _EVENTS):
                raise TypeError(f"observers: {type(observer).__name__} has none of the methods {', '.join(_EVENTS)}")
            for name in _EVENTS:
                if inspect.iscoroutinefunction(getattr(observer, name, None)):
                    raise TypeError(
                        f"observers: {type(observer).__name__}.{name} must be a plain def; nobody awaits it"
                    )

    def request(self, ctx: RequestContext) -> None:
        _tell(self._request, ctx)

    def outcome(self, ctx: RequestContext, outcome: Outcome) -> None:
        _tell(self._outcome, ctx, outcome)

    def dropped(self, ctx: RequestContext, dropped: Dropped) -> None:
        _tell(self._dropped, ctx, dropped)

    def rejection(self, facts: TransportFacts, rejection: Rejection) -> None:
        if rejection.failure is not None and self._limiter.allows(rejection.failure):
            logger.warning(
                "request state refused: %s (key %s, age %s ms, round %s, method %s)",
                rejection.failure,
                rejection.key_id,
                rejection.age_ms,
                rejection.round,
                rejection.method,
            )
        _tell(self._rejection, facts, rejection)


_EVENTS: Final = ("on_request", "on_outcome", "on_dropped", "on_rejection")


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
            logger.exception("an observer failed; the request goes on")


class LogLimiter:
    """At most ten log records a second for each reason: a refused token costs an attacker little, and must us too."""

    __slots__ = ("_clock", "_counts", "_second")

    PER_SECOND: Final = 10

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Final = clock
        self._second = 0
        self._counts: dict[object, int] = {}

    def allows(self, reason: object) -> bool:
        second = int(self._clock())
        if second != self._second:
            self._second = second
            self._counts = {}
        count = self._counts.get(reason, 0) + 1
        self._counts[reason] = count
        return count <= self.PER_SECOND
