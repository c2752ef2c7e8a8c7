"""The request context: what a handler, an interceptor and an observer know of one request. One object for all three."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, final, overload

from mcpinput import protocol
from mcpinput._core.envelope import field
from mcpinput.binding import convert
from mcpinput.json import canonical_bytes, freeze
from mcpinput.results import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpinput.json import JsonValue
    from mcpinput.protection.state import OpenedState, StateBoundary, Terms
    from mcpinput.responses import InputResponses
    from mcpinput.server.admission import Admission

_T = TypeVar("_T")

_IDEMPOTENCY: Final = b"mcpinput-idempotency-v1"


@final
class RequestContext:
    """One admitted request. Complete and unchangeable once made; trees reached from it cannot be changed either.

    Attributes:
        method: JSON-RPC method: ``tools/call``, ``prompts/get`` or ``resources/read``.
        endpoint_path: The server's path, as configured.
        protocol_version: Protocol version of the request.
        request_id: JSON-RPC id, with its JSON type.
        admission: The application's decision to let the request in.
        input_responses: Verified answers, by key; empty on a first request.
        application_request_state: The opaque string of an APPLICATION_PROTECTED operation, or None.
        round: Asks emitted so far in this flow: 0 on a first request. It counts where the state is FRAMEWORK_PROTECTED.
    """

    __slots__ = (
        "_boundary",
        "_flow_id",
        "_frozen_meta",
        "_frozen_state",
        "_meta",
        "_opened",
        "_state_returned",
        "_terms",
        "admission",
        "application_request_state",
        "endpoint_path",
        "input_responses",
        "method",
        "protocol_version",
        "request_id",
        "round",
    )

    method: str
    endpoint_path: str
    protocol_version: str
    request_id: int | str
    admission: Admission
    input_responses: InputResponses
    application_request_state: str | None
    round: int
    _boundary: StateBoundary | None
    _flow_id: bytes | None
    _frozen_meta: Mapping[str, Any]
    _frozen_state: JsonValue
    _meta: Mapping[str, Any]
    _opened: OpenedState | None
    _state_returned: bool
    _terms: Terms | None

    def __init__(
        self,
        *,
        method: str,
        endpoint_path: str,
        protocol_version: str,
        request_id: int | str,
        meta: Mapping[str, Any],
        admission: Admission,
        input_responses: InputResponses,
        application_request_state: str | None,
        opened: OpenedState | None,
        boundary: StateBoundary | None,
        terms: Terms | None,
    ) -> None:
        put = object.__setattr__
        put(self, "method", method)
        put(self, "endpoint_path", endpoint_path)
        put(self, "protocol_version", protocol_version)
        put(self, "request_id", request_id)
        put(self, "admission", admission)
        put(self, "input_responses", input_responses)
        put(self, "application_request_state", application_request_state)
        put(self, "round", 0 if opened is None else opened.round)
        put(self, "_meta", meta)
        put(self, "_opened", opened)
        put(self, "_boundary", boundary)
        put(self, "_terms", terms)
        put(self, "_state_returned", False)
        put(self, "_flow_id", None if opened is None else opened.flow_id)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a RequestContext cannot be changed ({name})")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a RequestContext cannot be changed ({name})")

    def __repr__(self) -> str:
        return f"<RequestContext {self.method} round {self.round}>"

    # ---- what the client says of itself ----

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's ``_meta``."""
        try:
            return self._frozen_meta
        except AttributeError:
            meta: Mapping[str, Any] = freeze(self._meta)
            object.__setattr__(self, "_frozen_meta", meta)
            return meta

    @property
    def client_info(self) -> Mapping[str, Any] | None:
        """``clientInfo`` as the client sent it: for display and logs, never for decisions. None where absent."""
        return self.meta.get(protocol.META_CLIENT_INFO)

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        """What the client declares that it can be asked for."""
        capabilities: Mapping[str, Any] = self.meta[protocol.META_CLIENT_CAPABILITIES]
        return capabilities

    # ---- state ----

    @property
    def has_request_state(self) -> bool:
        """Whether this retry carries state that the handler gave; tells a null state from none.

        An ask without state leaves this False on its retry: ``ctx.round > 0`` tells a FRAMEWORK_PROTECTED retry.
        """
        return self.application_request_state is not None or (self._opened is not None and self._opened.has_state)

    @property
    def framework_request_state(self) -> JsonValue:
        """The verified state of a FRAMEWORK_PROTECTED operation, with canonical numbers; None where absent or null."""
        if self._opened is None or not self._opened.has_state:
            return None
        try:
            return self._frozen_state
        except AttributeError:
            state: JsonValue = freeze(self._opened.state)
            object.__setattr__(self, "_frozen_state", state)
            return state

    @overload
    def state(self) -> JsonValue: ...
    @overload
    def state(self, type: type[_T]) -> _T: ...
    def state(self, type: Any = None) -> Any:
        """The verified state, converted to a type: exact, as :meth:`InputResponses.find` converts.

        Raises:
            LookupError: There is no framework state on this request.
            InputConversionError: The state does not fit the type; names the path.
        """
        if self._opened is None or not self._opened.has_state:
            raise LookupError("this request carries no framework state; see ctx.has_request_state")
        if type is None:
            return self.framework_request_state
        return convert(self.framework_request_state, type)

    # ---- flow ----

    @property
    def rounds_left(self) -> int:
        """How many more asks this flow may emit: the operation's maximum less :attr:`round`.

        In the modes NONE and APPLICATION_PROTECTED nobody counts, so it stays as it is.
        """
        if self._terms is not None:
            return max(0, self._terms.rounds - self.round)
        return 0 if self._boundary is None else self._boundary.default_terms.rounds

    @property
    def expires_at(self) -> datetime | None:
        """When the flow's state expires (UTC, exact to the millisecond); None before the first ask."""
        if self._opened is None:
            return None
        seconds, milliseconds = divmod(self._opened.expires_ms, 1000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=milliseconds * 1000)

    @property
    def flow_id(self) -> bytes:
        """16 random bytes, the same in all rounds of a FRAMEWORK_PROTECTED flow. A name for traces, not outcomes."""
        flow_id = self._flow_id
        if flow_id is None:
            flow_id = os.urandom(16)
            object.__setattr__(self, "_flow_id", flow_id)
        return flow_id

    def idempotency_key(self, name: str) -> str:
        """A key under which a payment system, say, recognises that it is told the same once more.

        The same for every identical retry: a hash of the flow, the round, the name, and the answers to what was asked,
        compared by value. Another answer to the same question makes another key, and so does a flow that begins anew.
        Without FRAMEWORK_PROTECTED state no two requests have one.

        Args:
            name: What is to be done, such as ``"refund"``.

        Returns:
            64 hexadecimal digits.

        Raises:
            TypeError: ``name`` is no str.
            EnvelopeError: ``name`` holds a lone surrogate.
        """
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, not {type(name).__name__}")
        responses = self.input_responses
        asked = () if self._opened is None else self._opened.asked
        answers = {key: responses[key] for key in asked if key in responses}
        digest = hashlib.sha256(_IDEMPOTENCY)
        digest.update(self.flow_id + self.round.to_bytes(2, "big") + field(name))
        digest.update(canonical_bytes(answers))
        return digest.hexdigest()

    def can_seal(self, state: object = ABSENT, *, keys: Iterable[str] = ()) -> bool:
        """Whether an ask with this state could be sealed now: to be asked before a side effect, not after it.

        False where the flow has no round left or has expired, where state and keys are too large, and in the modes that
        seal nothing. How long a custom protector makes its token is not known here.

        Args:
            state: State as it would be given to the ask; left out, that of an ask without state.
            keys: Keys of its input requests: they are sealed too.

        Raises:
            JsonError: The state has no JSON form that can be sealed: a float, a foreign type, over a limit of JSON.
            TypeError: ``keys`` is one str, or holds something else than str.
        """
        boundary, terms = self._boundary, self._terms
        if boundary is None or terms is None:
            return False
        if self.round >= terms.rounds or boundary.is_over(self._opened):
            return False
        return boundary.fits(state, keys, has_state=state is not ABSENT)

    def return_state(self) -> None:
        """Says that nothing has happened yet: once the handler has ended, its token may be used again.

        For ``ProtectionConfig(single_use=...)``, and before the first side effect alone: a service that could not be
        reached, say. Without single use it changes nothing. Where the store fails, or the request ends before its
        handler does (nothing can stop the thread of a ``def``), the token stays spent.
        """
        object.__setattr__(self, "_state_returned", True)
