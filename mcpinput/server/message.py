"""What one message must be, before anything is done with it, and the errors that say what it is not.

Every check raises :class:`Refused` with the whole answer in it. The order of the checks is the dispatcher's.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mcpinput import protocol
from mcpinput._ending import ends_from_outside
from mcpinput.errors import JsonError, RequestStateProtectionError
from mcpinput.json import Limits, dump
from mcpinput.requests import InputRequestType
from mcpinput.responses import InputResponses, fits_kind, fits_union
from mcpinput.server.capabilities import malformed_capability
from mcpinput.server.headers import mirrors, mirrors_encoded
from mcpinput.server.observers import Dropped
from mcpinput.server.registry import RequestStateMode

if TYPE_CHECKING:
    from mcpinput.protection.state import OpenedState
    from mcpinput.server.headers import Headers
    from mcpinput.server.registry import Operation

logger = logging.getLogger("mcpinput")

REQUEST_ID_CHARACTERS: Final = 65_536
NAME_CHARACTERS: Final = 65_536
"""Ids and URIs are repeated in answers, and those have to stay within the response limit."""

_KINDS: Final = {kind.code: kind for kind in InputRequestType}


class Refused(Exception):
    """The request is answered with an error before its handler runs."""

    def __init__(
        self,
        status: int,
        code: int,
        message: str,
        data: Any = None,
        *,
        reason: str,
        failure: RequestStateProtectionError | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.data = data
        self.reason = reason
        self.failure = failure
        self.headers = headers
        self.operation: str | None = None
        """Kind and name of the operation, once it is known and admitted."""


def check_jsonrpc(message: Mapping[str, Any]) -> None:
    if message.get("jsonrpc") != protocol.JSONRPC_VERSION:
        raise Refused(400, protocol.INVALID_REQUEST, 'Invalid request: jsonrpc must be "2.0"', reason="json-rpc")


def request_id_of(message: Mapping[str, Any]) -> int | str:
    request_id = message["id"]
    if isinstance(request_id, str):
        if len(request_id) <= REQUEST_ID_CHARACTERS:
            return request_id
        raise Refused(
            400,
            protocol.INVALID_REQUEST,
            f"Invalid request: id has over {REQUEST_ID_CHARACTERS} characters",
            reason="json-rpc",
        )
    if isinstance(request_id, int) and not isinstance(request_id, bool):
        return request_id
    raise Refused(
        400, protocol.INVALID_REQUEST, "Invalid request: id must be a string or an integer", reason="json-rpc"
    )


def method_of(message: Mapping[str, Any]) -> str:
    check_jsonrpc(message)
    method = message.get("method")
    if isinstance(method, str):
        return method
    raise Refused(400, protocol.INVALID_REQUEST, "Invalid request: method must be a string", reason="json-rpc")


def params_of(message: Mapping[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    if not isinstance(params, dict):
        what = "params must be an object" if "params" in message else "params is missing"
        raise Refused(400, protocol.INVALID_PARAMS, f"Invalid params: {what} (with _meta in it)", reason="params")
    if not isinstance(params.get("_meta"), dict):
        what = "must be an object" if "_meta" in params else "is missing"
        raise Refused(400, protocol.INVALID_PARAMS, f"Invalid params: _meta {what}", reason="_meta")
    return params


def check_meta(meta: Mapping[str, Any]) -> str:
    """Checks the members of ``_meta`` that every request has; answers the protocol version."""

    def refuse(key: str, what: str) -> NoReturn:
        raise Refused(400, protocol.INVALID_PARAMS, f"Invalid params: _meta member {key} {what}", reason="_meta")

    version = meta.get(protocol.META_PROTOCOL_VERSION)
    if not isinstance(version, str):
        here = protocol.META_PROTOCOL_VERSION in meta
        refuse(protocol.META_PROTOCOL_VERSION, "must be a string" if here else "is missing")
    capabilities = meta.get(protocol.META_CLIENT_CAPABILITIES)
    if not isinstance(capabilities, dict):
        here = protocol.META_CLIENT_CAPABILITIES in meta
        refuse(protocol.META_CLIENT_CAPABILITIES, "must be an object" if here else "is missing")
    malformed = malformed_capability(capabilities)
    if malformed is not None:
        refuse(protocol.META_CLIENT_CAPABILITIES, f"is malformed: {malformed} must be an object")
    if not isinstance(meta.get(protocol.META_CLIENT_INFO, {}), dict):
        refuse(protocol.META_CLIENT_INFO, "must be an object")
    if protocol.META_PROGRESS_TOKEN in meta:
        token = meta[protocol.META_PROGRESS_TOKEN]
        if not isinstance(token, (str, int)) or isinstance(token, bool):
            refuse(protocol.META_PROGRESS_TOKEN, "must be a string or an integer")
    return version


def check_version_header(headers: Headers, version: str) -> None:
    if not mirrors(headers.one(b"mcp-protocol-version"), version):
        raise _header_mismatch("MCP-Protocol-Version", f"_meta member {protocol.META_PROTOCOL_VERSION}")


def check_version(version: str) -> None:
    if version not in protocol.SUPPORTED_VERSIONS:
        raise Refused(
            400,
            protocol.UNSUPPORTED_PROTOCOL_VERSION,
            f"Unsupported protocol version: {shortened(version)}; supported: {', '.join(protocol.SUPPORTED_VERSIONS)}",
            {"supported": list(protocol.SUPPORTED_VERSIONS), "requested": shortened(version)},
            reason="protocol version",
        )


def check_target(headers: Headers | None, method: str, params: Mapping[str, Any]) -> None:
    """Checks the name that the method needs, and the headers that repeat method and name."""
    if headers is not None and not mirrors(headers.one(b"mcp-method"), method):
        raise _header_mismatch("Mcp-Method", "method")
    member = protocol.NAME_MEMBER.get(method)
    if member is None:
        return
    name = params.get(member)
    if not isinstance(name, str) or len(name) > NAME_CHARACTERS:
        problem = "is missing"
        if isinstance(name, str):
            problem = f"has over {NAME_CHARACTERS} characters"
        elif member in params:
            problem = "must be a string"
        raise Refused(400, protocol.INVALID_PARAMS, f"Invalid params: {member} {problem}", reason="params")
    if headers is not None and not mirrors_encoded(headers.one(b"mcp-name"), name):
        raise _header_mismatch("Mcp-Name", f"params.{member}")


def _header_mismatch(header: str, body: str) -> Refused:
    # The values stay out of the message: headers may hold what their sender did not mean to show.
    return Refused(
        400,
        protocol.HEADER_MISMATCH,
        f"Header mismatch: {header} must be present once and equal to the body's {body}",
        reason="header mismatch",
    )


def bad_state(failure: RequestStateProtectionError) -> Refused:
    return Refused(
        400,
        protocol.INVALID_PARAMS,
        protocol.INVALID_STATE_MESSAGE,
        protocol.INVALID_STATE_DATA,
        reason="request state",
        failure=failure,
    )


def input_responses_of(
    operation: Operation, params: Mapping[str, Any], opened: OpenedState | None
) -> tuple[InputResponses, Sequence[Dropped]]:
    """The answers that the handler sees, and what it is not shown."""
    if "inputResponses" not in params:
        return InputResponses.empty(), ()
    values = params["inputResponses"]
    if not isinstance(values, dict):
        raise Refused(
            400, protocol.INVALID_PARAMS, "Invalid params: inputResponses must be an object", reason="input responses"
        )
    if operation.mode is not RequestStateMode.FRAMEWORK_PROTECTED:
        for key, value in values.items():
            if not fits_union(value):
                raise _bad_answer(key)
        return InputResponses._for_asked(values, None), ()
    if opened is None:
        # Without the token of an ask they prove nothing, and would escape its rounds, lifetime and pinned questions.
        return InputResponses.empty(), (Dropped(tuple(values), "no state"),) if values else ()
    asked = opened.asked
    shown = {}
    malformed = []
    for key, value in values.items():
        pinned = asked.get(key)
        if pinned is not None:
            if not fits_kind(value, _KINDS[pinned[0]]):
                raise _bad_answer(key)
        elif not fits_union(value):
            malformed.append(key)
            continue
        shown[key] = value
    return InputResponses._for_asked(shown, asked), (Dropped(tuple(malformed), "malformed"),) if malformed else ()


def _bad_answer(key: str) -> Refused:
    return Refused(
        400,
        protocol.INVALID_PARAMS,
        f"Invalid params: inputResponses member {shortened(key)!r} is no answer to what was asked",
        reason="input responses",
    )


# ---- answers ----


def shortened(text: str) -> str:
    return text if len(text) <= 64 else text[:64] + "…"


def missing_message(missing: Mapping[str, Any]) -> str:
    names = [f"{name}.{part}" if part else name for name, parts in missing.items() for part in (parts or {"": None})]
    return f"This request needs client capabilities that were not declared: {', '.join(names)}"


def error_body(
    request_id: int | str | None, code: int, message: str, data: Any = None, limits: Limits | None = None
) -> bytes:
    """One JSON-RPC error. What cannot be written of it must not cost the client the rest: detail goes first."""
    error: dict[str, Any] = {"code": code, "message": message}
    head = _head(request_id)
    for attempt in (error,) if data is None else ({**error, "data": data}, error):
        try:
            return dump({**head, "error": attempt}, limits=limits or Limits())
        except BaseException as refused:  # data may hold objects whose own code runs when they are written
            if ends_from_outside(refused):
                raise
            logger.error("error %s cannot be written as it is: %s", code, _reason(refused))
    return internal_error_body(request_id)


def _reason(error: BaseException) -> str:
    """What a log may say: the text of this library's own errors; of others, which may quote data, the type alone."""
    return str(error) if isinstance(error, JsonError) else type(error).__name__


def internal_error_body(request_id: int | str | None) -> bytes:
    error = {"code": protocol.INTERNAL_ERROR, "message": protocol.INTERNAL_ERROR_MESSAGE}
    return dump(
        {**_head(request_id), "error": error}
    )  # fixed text and a short id: within any response that could be sent


def _head(request_id: int | str | None) -> dict[str, Any]:
    if request_id is None:
        return {"jsonrpc": protocol.JSONRPC_VERSION}
    return {"jsonrpc": protocol.JSONRPC_VERSION, "id": request_id}
