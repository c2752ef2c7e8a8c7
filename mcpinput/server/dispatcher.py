"""The dispatcher: bytes of one message in, bytes of its answer and an HTTP status out. It knows no socket and no ASGI.

A request passes these checks in this order, and the first failure answers: JSON, one JSON-RPC object, id, ``_meta``,
headers against the body, protocol version, method, admission, operation, REQUIRED capabilities, arguments, request
state, input responses, single use. Then the context is made and the handler runs. What it returns is checked again
before it goes out: capabilities of what it asks, then the seal. Whatever waits on the outside (hooks, protector, store,
handler) is awaited here and nowhere lower.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mcpinput import protocol
from mcpinput._core.digest import message_digest
from mcpinput._ending import ends_from_outside
from mcpinput.errors import (
    JsonError,
    JsonErrorKind,
    JsonParseError,
    McpError,
    RequestStateProtectionError,
    ToolError,
)
from mcpinput.errors import ProtectionFailure as _F
from mcpinput.json import Limits, dump, freeze, parse
from mcpinput.protection.context import Bindings
from mcpinput.protection.state import AskedRequest, Call
from mcpinput.results import CompleteResult, InputRequiredResult, prompt_result, resource_result, tool_result
from mcpinput.server.admission import ANONYMOUS, EVERYBODY, Admission, AdmissionFacts, Refusal, decision_of
from mcpinput.server.capabilities import missing_capabilities
from mcpinput.server.context import RequestContext
from mcpinput.server.message import (
    Refused,
    bad_state,
    check_jsonrpc,
    check_meta,
    check_target,
    check_version,
    check_version_header,
    error_body,
    input_responses_of,
    internal_error_body,
    method_of,
    missing_message,
    params_of,
    request_id_of,
    shortened,
)
from mcpinput.server.observers import Outcome, Rejection
from mcpinput.server.registry import RequestStateMode

if TYPE_CHECKING:
    from mcpinput.protection.single_use import Spent
    from mcpinput.protection.state import OpenedState, SealedState, StateBoundary
    from mcpinput.server.admission import AdmissionHook, AnonymousType, Identity, TransportFacts
    from mcpinput.server.observers import Interceptor, Observers
    from mcpinput.server.registry import Operation, Registry

logger = logging.getLogger("mcpinput")

APPLICATION_STATE_BYTES: Final = 65_536
_COMPLETE_KINDS: Final = {
    protocol.TOOLS_CALL: "tool",
    protocol.PROMPTS_GET: "prompt",
    protocol.RESOURCES_READ: "resource",
}
_NO_CACHE: Final = {"ttlMs": 0, "cacheScope": "private"}


def _nothing() -> None:
    """What there is to release when no key was reserved."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, ready to send.

    Attributes:
        status: HTTP status.
        body: One JSON message on one line, or empty.
        headers: Headers beyond the body's own.
        release: To be called once the message has been sent, or never will be: gives back what sealing it reserved.
    """

    status: int
    body: bytes = field(repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    release: Callable[[], None] = _nothing


class _NotAdmitted(Exception):
    """Admission refused: an HTTP answer without JSON-RPC."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.status)
        self.refusal = refusal


class _Failed(Exception):
    """What the handler answered cannot go out, or it answered with an error."""

    def __init__(
        self,
        code: int,
        message: str,
        data: Any = None,
        *,
        status: int = 200,
        failure: RequestStateProtectionError | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status
        self.failure = failure


@dataclass(slots=True)
class _Request:
    """One request on its way through the checks."""

    raw: bytes = field(repr=False)
    transport: TransportFacts
    id: int | str
    method: str
    params: dict[str, Any] = field(repr=False)


class Dispatcher:
    """Answers messages for one server.

    Args:
        registry: What the server offers.
        endpoint_path: The server's normalised path, bound into state.
        audience: The service, bound into state.
        server_info: ``Implementation`` of the specification, sent with every result.
        instructions: Hints for the model, sent by ``server/discover``.
        boundary: What seals and opens framework state, or None without protection.
        admission: The application's hook, or ANONYMOUS.
        observers: Told of every request.
        interceptors: Wrap every handler, the first one outermost.
        limits: Bounds on what is read and written.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        endpoint_path: str,
        audience: str,
        server_info: Mapping[str, Any],
        instructions: str | None,
        boundary: StateBoundary | None,
        admission: AdmissionHook | AnonymousType,
        observers: Observers,
        interceptors: Sequence[Interceptor],
        limits: Limits,
    ) -> None:
        self._registry: Final = registry
        self._path: Final = endpoint_path
        self._audience: Final = audience
        self._meta: Final = {protocol.META_SERVER_INFO: dict(server_info)}
        self._instructions: Final = instructions
        self._boundary: Final = boundary
        self._admission: Final = admission
        self._observers: Final = observers
        self._interceptors: Final = tuple(interceptors)
        self._limits: Final = limits
        # PERF: the same in all rounds of a flow; to make them, and their digests, takes as long as the cipher does.
        self._bindings: Final = functools.lru_cache(maxsize=1024)(
            functools.partial(Bindings, audience, endpoint_path, protocol.PROTOCOL_VERSION)
        )
        self._methods: Final[dict[str, Callable[[_Request, Admission], Awaitable[Reply]]]] = {
            protocol.DISCOVER: self._discover,
            protocol.TOOLS_LIST: self._list_tools,
            protocol.PROMPTS_LIST: self._list_prompts,
            protocol.RESOURCES_LIST: self._list_resources,
            protocol.RESOURCES_TEMPLATES_LIST: self._list_templates,
            protocol.TOOLS_CALL: self._call_tool,
            protocol.PROMPTS_GET: self._get_prompt,
            protocol.RESOURCES_READ: self._read_resource,
        }

    async def dispatch(self, raw: bytes, transport: TransportFacts, identity: Identity | None = None) -> Reply:
        """Answers one message.

        Args:
            raw: The message, UTF-8.
            transport: What the transport knows; with headers, they are checked against the body.
            identity: What ``authenticate`` answered.
        """
        request_id: int | str | None = None
        method: str | None = None
        try:
            message = self._decode(raw)
            if "id" not in message:
                return self._notification(message)
            request_id = request_id_of(message)
            method = method_of(message)
            request = _Request(raw, transport, request_id, method, params_of(message))
            version = check_meta(request.params["_meta"])
            if transport.headers is not None:
                check_version_header(transport.headers, version)
            check_version(version)
            check_target(transport.headers, method, request.params)
            answer = self._methods.get(method)
            if answer is None:
                raise Refused(404, protocol.METHOD_NOT_FOUND, f"Method not found: {shortened(method)}", reason="method")
            admission = await self._admit(request, identity)
            return await answer(request, admission)
        except Refused as refused:
            return self._refuse(refused, transport, request_id, method)
        except _NotAdmitted as refused:
            self._observers.rejection(transport, Rejection(refused.refusal.status, None, "admission", method))
            return Reply(refused.refusal.status, b"", tuple(refused.refusal.headers.items()))
        except BaseException as error:  # a fault of this library: the client still gets an answer, the log the reason
            if ends_from_outside(error):
                raise
            logger.exception("a request failed before its handler could answer")
            self._observers.rejection(transport, Rejection(500, protocol.INTERNAL_ERROR, "internal error", method))
            return Reply(500, internal_error_body(request_id))

    # ---- before the handler ----

    def _decode(self, raw: bytes) -> dict[str, Any]:
        try:
            message = parse(raw, limits=self._limits)
        except JsonParseError as error:
            raise Refused(400, protocol.PARSE_ERROR, f"Parse error: {error}", reason="json") from None
        if not isinstance(message, dict):
            raise Refused(
                400,
                protocol.INVALID_REQUEST,
                "Invalid request: the body must be one JSON-RPC object (batches are not part of this revision)",
                reason="json-rpc",
            )
        return message

    def _notification(self, message: Mapping[str, Any]) -> Reply:
        # Nothing is ever done with one over HTTP: this revision defines none that a server would act upon.
        check_jsonrpc(message)
        method_of(message)
        return Reply(202, b"")

    async def _admit(self, request: _Request, identity: Identity | None) -> Admission:
        if self._admission is ANONYMOUS:
            return EVERYBODY
        target = protocol.NAME_MEMBER.get(request.method)
        facts = AdmissionFacts(
            transport=request.transport,
            method=request.method,
            target=None if target is None else request.params[target],
            protocol_version=protocol.PROTOCOL_VERSION,
            meta=freeze(request.params["_meta"]),
        )
        decision = await decision_of(self._admission, Admission, facts, identity)
        if isinstance(decision, Admission):
            return decision
        if isinstance(decision, Refusal):
            raise _NotAdmitted(decision)
        raise Refused(500, protocol.INTERNAL_ERROR, protocol.INTERNAL_ERROR_MESSAGE, reason="admission hook")

    def _refuse(
        self, refused: Refused, transport: TransportFacts, request_id: int | str | None, method: str | None
    ) -> Reply:
        failure = refused.failure
        self._observers.rejection(
            transport,
            Rejection(
                status=refused.status,
                code=refused.code,
                reason=refused.reason,
                method=method,
                operation=refused.operation,
                failure=None if failure is None else failure.reason,
                key_id=None if failure is None else failure.key_id,
                age_ms=None if failure is None else failure.age_ms,
                round=None if failure is None else failure.round,
                audience=self._audience if failure is not None and failure.reason is _F.AUDIENCE else None,
                detail=None if failure is None else failure.detail,
            ),
        )
        message, data = refused.message, refused.data
        if method == protocol.INITIALIZE:
            # A client of an older revision: whatever is wrong first, tell it which revision is spoken here.
            message = f"{message} (this server speaks protocol version {protocol.PROTOCOL_VERSION} only)"
            data = {"supported": list(protocol.SUPPORTED_VERSIONS)} | (data or {})
        body = error_body(request_id, refused.code, message, data, self._limits)
        return Reply(refused.status, body, refused.headers)

    # ---- lists ----

    async def _discover(self, request: _Request, admission: Admission) -> Reply:
        registry = self._registry
        capabilities: dict[str, Any] = {}
        if registry.tools:
            capabilities["tools"] = {}
        if registry.prompts:
            capabilities["prompts"] = {}
        if registry.resources or registry.templates:
            capabilities["resources"] = {}
        result: dict[str, Any] = {
            "supportedVersions": list(protocol.SUPPORTED_VERSIONS),
            "capabilities": capabilities,
            **_NO_CACHE,
        }
        if self._instructions is not None:
            result["instructions"] = self._instructions
        return self._complete(request, result)

    async def _list_tools(self, request: _Request, admission: Admission) -> Reply:
        return self._list(request, "tools", self._registry.tools)

    async def _list_prompts(self, request: _Request, admission: Admission) -> Reply:
        return self._list(request, "prompts", self._registry.prompts)

    async def _list_resources(self, request: _Request, admission: Admission) -> Reply:
        return self._list(request, "resources", self._registry.resources)

    async def _list_templates(self, request: _Request, admission: Admission) -> Reply:
        return self._list(request, "resourceTemplates", self._registry.templates)

    def _list(self, request: _Request, member: str, operations: Mapping[str, Operation]) -> Reply:
        if "cursor" in request.params:  # everything fits one page, so no cursor was ever given out
            raise Refused(400, protocol.INVALID_PARAMS, "Invalid params: unknown cursor", reason="cursor")
        return self._complete(request, {member: [op.entry for op in operations.values()], **_NO_CACHE})

    def _complete(self, request: _Request, result: Mapping[str, Any]) -> Reply:
        try:
            return Reply(200, self._result_body(request.id, protocol.COMPLETE, result))
        except JsonError:
            logger.exception("the answer to %s cannot be written", request.method)
            return Reply(200, internal_error_body(request.id))

    # ---- operations ----

    async def _call_tool(self, request: _Request, admission: Admission) -> Reply:
        name = request.params["name"]
        operation = self._registry.tools.get(name)
        if operation is None:
            raise Refused(400, protocol.INVALID_PARAMS, f"Unknown tool: {shortened(name)}", reason="operation")
        self._require(operation, request)
        arguments = request.params.get("arguments", {})
        if not isinstance(arguments, dict):
            raise Refused(
                400, protocol.INVALID_PARAMS, "Invalid params: arguments must be an object", reason="arguments"
            )
        if operation.schema is not None:
            problems = operation.schema.problems(arguments)
            if problems:  # a result that the model sees, so that it can correct itself (server/tools, Error Handling)
                text = "Invalid arguments:\n" + "\n".join(problems)
                return self._complete(request, CompleteResult.from_tool_text(text, is_error=True).members)
        return await self._run(operation, request, admission, arguments, tool_result)

    async def _get_prompt(self, request: _Request, admission: Admission) -> Reply:
        name = request.params["name"]
        operation = self._registry.prompts.get(name)
        if operation is None:
            raise Refused(400, protocol.INVALID_PARAMS, f"Unknown prompt: {shortened(name)}", reason="operation")
        self._require(operation, request)
        arguments = request.params.get("arguments", {})
        if not isinstance(arguments, dict) or not all(isinstance(value, str) for value in arguments.values()):
            raise Refused(
                400,
                protocol.INVALID_PARAMS,
                "Invalid params: arguments must be an object of strings",
                reason="arguments",
            )
        lacking = [argument for argument in operation.required_arguments if argument not in arguments]
        if lacking:
            raise Refused(
                400, protocol.INVALID_PARAMS, f"Missing required argument: {', '.join(lacking)}", reason="arguments"
            )
        return await self._run(operation, request, admission, arguments, prompt_result)

    async def _read_resource(self, request: _Request, admission: Admission) -> Reply:
        uri = request.params["uri"]
        found = self._registry.resource(uri)
        if found is None:
            raise Refused(400, protocol.INVALID_PARAMS, "Resource not found", {"uri": uri}, reason="operation")
        operation, variables = found
        self._require(operation, request)

        def to_result(value: object) -> CompleteResult:
            return resource_result(value, uri, operation.mime_type)

        return await self._run(operation, request, admission, variables, to_result)

    def _require(self, operation: Operation, request: _Request) -> None:
        if operation.required:
            declared = request.params["_meta"][protocol.META_CLIENT_CAPABILITIES]
            missing = missing_capabilities(operation.required, declared)
            if missing is not None:
                raise Refused(
                    400,
                    protocol.MISSING_CLIENT_CAPABILITY,
                    missing_message(missing),
                    {"requiredCapabilities": missing},
                    reason="capabilities",
                )

    async def _run(
        self,
        operation: Operation,
        request: _Request,
        admission: Admission,
        arguments: dict[str, Any],
        to_result: Callable[[object], CompleteResult],
    ) -> Reply:
        call = self._call(request, admission)
        try:
            opened, application_state = await self._open(operation, request, call)
            responses, dropped = input_responses_of(operation, request.params, opened)
            spent = None if opened is None else await self._spend(opened)
        except Refused as refused:
            refused.operation = f"{operation.kind} {operation.name!r}"
            raise
        ctx = RequestContext(
            method=request.method,
            endpoint_path=self._path,
            protocol_version=protocol.PROTOCOL_VERSION,
            request_id=request.id,
            meta=request.params["_meta"],
            admission=admission,
            input_responses=responses,
            application_request_state=application_state,
            opened=opened,
            boundary=self._boundary,
            terms=operation.terms,
        )
        for drop in dropped:
            logger.debug(
                "%s %r is not shown %d input responses: %s", operation.kind, operation.name, len(drop.keys), drop.reason
            )
            self._observers.dropped(ctx, drop)
        self._observers.request(ctx)
        sealed: SealedState | None = None
        try:
            try:
                if spent is None:
                    answer = await self._handle(operation, ctx, arguments, [])
                else:
                    answer = await self._handle_once(operation, ctx, arguments, spent)
            except ToolError as error:
                if operation.kind != "tool":
                    raise
                answer = _tool_error(error)
            result: Mapping[str, Any]
            if isinstance(answer, InputRequiredResult):
                result, sealed = await self._ask(operation, request, ctx, call, opened, answer)
                kind = protocol.INPUT_REQUIRED
            else:
                result = self._completed(answer, request, to_result)
                kind = protocol.COMPLETE
            body = self._result_body(request.id, kind, result)
        except BaseException as error:
            if sealed is not None:
                sealed.release()
            failed = self._failed(error, operation)
            body = error_body(request.id, failed.code, failed.message, failed.data, self._limits)
            failure = failed.failure
            if failure is None:
                outcome = Outcome("error", failed.status, failed.code)
            else:
                outcome = Outcome("error", failed.status, failed.code, failure.reason, failure.age_ms, failure.round)
            self._observers.outcome(ctx, outcome)
            return Reply(failed.status, body)
        self._observers.outcome(ctx, Outcome(kind, 200))
        return Reply(200, body, (), _nothing if sealed is None else sealed.release)

    def _call(self, request: _Request, admission: Admission) -> Call:
        bindings = self._bindings(request.method, admission.partition, admission.tenant, admission.principal)
        return Call(bindings, request.id, functools.partial(message_digest, request.raw, limits=self._limits))

    async def _open(self, operation: Operation, request: _Request, call: Call) -> tuple[OpenedState | None, str | None]:
        """Framework state, application state; both None on a request without a token."""
        if "requestState" not in request.params:
            return None, None
        token = request.params["requestState"]
        if not isinstance(token, str):
            raise Refused(
                400, protocol.INVALID_PARAMS, "Invalid params: requestState must be a string", reason="request state"
            )
        if operation.mode is RequestStateMode.APPLICATION_PROTECTED:
            if token and len(token.encode()) <= APPLICATION_STATE_BYTES:
                return None, token
            raise bad_state(RequestStateProtectionError(_F.TOO_LARGE if token else _F.MALFORMED))
        if operation.mode is RequestStateMode.NONE:
            raise bad_state(RequestStateProtectionError(_F.MALFORMED))
        assert self._boundary is not None
        assert operation.terms is not None
        try:
            if self._boundary.keyring_manager is not None:  # PERF: a coroutine that waits for nothing costs 0.3 us
                return self._boundary.open_now(token, call, operation.terms), None
            return await self._boundary.open(token, call, operation.terms), None
        except RequestStateProtectionError as failure:
            raise _refused_state(failure) from None

    async def _spend(self, opened: OpenedState) -> Spent | None:
        """Spends the request's token, where tokens are for single use. Whatever happens from here on, it stays so."""
        assert self._boundary is not None
        ledger = self._boundary.single_use
        if ledger is None:
            return None
        try:
            return await ledger.spend(opened.flow_id, opened.round, opened.expires_ms)
        except RequestStateProtectionError as failure:
            reason = failure.reason
        raise _refused_state(
            RequestStateProtectionError(reason, key_id=opened.key_id, age_ms=opened.age_ms, round=opened.round)
        )

    # ---- the handler ----

    async def _handle_once(
        self, operation: Operation, ctx: RequestContext, arguments: dict[str, Any], spent: Spent
    ) -> Any:
        """Runs the handler, and gives the token back where it said that nothing had happened."""
        running: list[None] = []
        try:
            answer = await self._handle(operation, ctx, arguments, running)
        except (KeyboardInterrupt, GeneratorExit):  # the process ends, or nothing can be awaited any more
            raise
        except BaseException:
            await _give_back(spent, ctx, running)
            raise
        await _give_back(spent, ctx, running)
        return answer

    async def _handle(
        self, operation: Operation, ctx: RequestContext, arguments: dict[str, Any], running: list[None]
    ) -> Any:
        """Runs the handler inside of the interceptors; ``running`` has an entry for as long as it runs."""

        async def innermost() -> Any:
            handler = operation.handler
            parts: tuple[Any, ...] = (ctx, arguments) if operation.takes_arguments else (ctx,)
            if not operation.is_async:
                running.append(None)
                answer = await asyncio.to_thread(_in_thread, running, handler, parts)
                if not inspect.isawaitable(answer):
                    return answer
            running.append(None)
            try:
                return await (handler(*parts) if operation.is_async else answer)
            finally:
                running.pop()

        call = innermost
        for interceptor in reversed(self._interceptors):
            call = _wrap(interceptor, ctx, call)
        return await call()

    def _failed(self, error: BaseException, operation: Operation) -> _Failed:
        """The error that goes out for what the handler, or the way out, raised."""
        if isinstance(error, _Failed):
            return error
        if isinstance(error, McpError):
            return _Failed(error.code, error.message, error.data)
        if ends_from_outside(error):
            raise error
        logger.error("%s %r failed", operation.kind, operation.name, exc_info=error)
        return _Failed(protocol.INTERNAL_ERROR, protocol.INTERNAL_ERROR_MESSAGE)

    def _completed(
        self, answer: object, request: _Request, to_result: Callable[[object], CompleteResult]
    ) -> Mapping[str, Any]:
        result = answer if isinstance(answer, CompleteResult) else to_result(answer)
        expected = _COMPLETE_KINDS[request.method]
        if result.kind != expected:
            raise TypeError(f"a {expected} handler returned the result of a {result.kind}")
        members = result.members
        if expected == "resource" and not request.params.keys().isdisjoint(protocol.RETRY_PARAMS):
            return {**members, **_NO_CACHE}  # what somebody answered must not be served to others from a cache
        return members

    async def _ask(
        self,
        operation: Operation,
        request: _Request,
        ctx: RequestContext,
        call: Call,
        opened: OpenedState | None,
        ask: InputRequiredResult,
    ) -> tuple[dict[str, Any], SealedState | None]:
        requests = ask.input_requests
        for key, embedded in requests.items():
            if not operation.may_emit(embedded):
                self._application_error(
                    operation,
                    f"asked {shortened(key)!r} by {embedded.json_rpc_method}, which it did not declare so; "
                    "add a declaration that covers it to its input_requests",
                )
        missing = missing_capabilities(
            [embedded.declaration.capabilities for embedded in requests.values()],
            request.params["_meta"][protocol.META_CLIENT_CAPABILITIES],
        )
        if missing is not None:
            raise _Failed(
                protocol.MISSING_CLIENT_CAPABILITY,
                missing_message(missing),
                {"requiredCapabilities": missing},
                status=400,
            )
        result: dict[str, Any] = {}
        if requests:
            result["inputRequests"] = {key: embedded.to_wire() for key, embedded in requests.items()}
        if ask.metadata is not None:
            result["_meta"] = ask.metadata
        if operation.mode is RequestStateMode.FRAMEWORK_PROTECTED:
            if ask.application_request_state is not None:
                self._application_error(operation, "gave application state, but its mode is FRAMEWORK_PROTECTED")
            sealed = await self._seal(operation, ctx, call, opened, ask)
            result["requestState"] = sealed.token
            return result, sealed
        if ask.has_framework_request_state:
            self._application_error(
                operation,
                f"gave framework state, but its mode is {operation.mode.name}; "
                "register it with request_state=RequestStateMode.FRAMEWORK_PROTECTED",
            )
        state = ask.application_request_state
        if state is not None:
            if operation.mode is RequestStateMode.NONE:
                self._application_error(
                    operation,
                    "gave application state, but its mode is NONE; "
                    "register it with request_state=RequestStateMode.APPLICATION_PROTECTED",
                )
            if len(state.encode()) > APPLICATION_STATE_BYTES:
                self._application_error(operation, f"gave application state of over {APPLICATION_STATE_BYTES} bytes")
            result["requestState"] = state
        return result, None

    async def _seal(
        self,
        operation: Operation,
        ctx: RequestContext,
        call: Call,
        opened: OpenedState | None,
        ask: InputRequiredResult,
    ) -> SealedState:
        assert self._boundary is not None
        assert operation.terms is not None
        asked = {
            key: AskedRequest(embedded.declaration.input_request_type.code, embedded.digest)
            for key, embedded in ask.input_requests.items()
        }
        parts = (
            call,
            opened,
            asked,
            ask.has_framework_request_state,
            ask.framework_request_state,
            ctx.flow_id,
            operation.terms,
        )
        try:
            if self._boundary.keyring_manager is not None:  # PERF: as in _open
                return self._boundary.seal_now(*parts)
            return await self._boundary.seal(*parts)
        except RequestStateProtectionError as error:
            failure, detail = error, error.detail or ""
            if error.reason is _F.ROUND:
                detail = f"it has asked {ctx.round} times, the maximum; see ctx.rounds_left before asking again"
        except JsonError as error:
            reason = _F.TOO_LARGE if error.kind is JsonErrorKind.SIZE else _F.NOT_JSON
            failure = RequestStateProtectionError(
                reason, age_ms=None if opened is None else opened.age_ms, round=ctx.round + 1
            )
            detail = str(error)
        self._observers.seal_failed(f"{operation.kind} {operation.name!r}", failure, detail)
        raise _Failed(protocol.INTERNAL_ERROR, "Request state could not be sealed", failure=failure)

    def _application_error(self, operation: Operation, what: str) -> NoReturn:
        logger.error("%s %r %s", operation.kind, operation.name, what)
        raise _Failed(protocol.INTERNAL_ERROR, protocol.INTERNAL_ERROR_MESSAGE)

    # ---- encoding ----

    def _result_body(self, request_id: int | str, result_type: str, members: Mapping[str, Any]) -> bytes:
        meta = members.get("_meta")
        result = {
            "resultType": result_type,
            **members,
            "_meta": self._meta if meta is None else {**meta, **self._meta},
        }
        return dump({"jsonrpc": protocol.JSONRPC_VERSION, "id": request_id, "result": result}, limits=self._limits)


def _refused_state(failure: RequestStateProtectionError) -> Refused:
    if failure.reason is not _F.UNAVAILABLE:
        return bad_state(failure)
    return Refused(  # an honest client keeps its state, and tries again
        503,
        protocol.INTERNAL_ERROR,
        "Request state cannot be checked for now; try again",
        reason="unavailable",
        failure=failure,
        headers=(("retry-after", "1"),),
    )


async def _give_back(spent: Spent, ctx: RequestContext, running: list[None]) -> None:
    # A thread outlives its request where that is cancelled, and an interceptor need not wait for what it has begun: no
    # other retry must run beside it, so its token stays spent.
    if ctx._state_returned and not running:
        await spent.give_back()


def _in_thread(running: list[None], handler: Callable[..., Any], parts: tuple[Any, ...]) -> Any:
    try:
        return handler(*parts)
    except (StopIteration, KeyboardInterrupt, GeneratorExit) as error:
        # A future cannot carry the first: whoever awaits the thread would wait for ever. The others mean an end from
        # outside only where the loop runs.
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error
    finally:
        running.pop()


def _wrap(interceptor: Interceptor, ctx: RequestContext, call: Callable[[], Awaitable[Any]]) -> Callable[[], Any]:
    async def wrapped() -> Any:
        return await interceptor(ctx, call)

    return wrapped


def _tool_error(error: ToolError) -> CompleteResult:
    if isinstance(error.content, str):
        return CompleteResult.from_tool_text(error.content, is_error=True)
    return CompleteResult.from_tool_content(error.content, is_error=True)
