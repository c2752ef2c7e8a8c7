"""Streamable HTTP as an ASGI 3 application: framing and headers, and nothing of what the messages mean.

Checks, in this order: Host and Origin, path, HTTP method, ``authenticate``, Content-Type, Accept, body. The rest is the
dispatcher's. Source: ``basic/transports/streamable-http``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcpinput import protocol
from mcpinput.server.admission import Identity, Refusal, TransportFacts, decision_of
from mcpinput.server.dispatcher import Reply
from mcpinput.server.headers import Headers, HostPolicy, accepts_both, is_json
from mcpinput.server.message import internal_error_body
from mcpinput.server.observers import Rejection

if TYPE_CHECKING:
    from mcpinput.server.admission import Authenticate
    from mcpinput.server.dispatcher import Dispatcher
    from mcpinput.server.observers import Observers

logger = logging.getLogger("mcpinput")

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BODY_SECONDS: Final = 30.0


class _Disconnected(Exception):
    """The client went away before its body was complete."""


class AsgiApp:
    """One server as an ASGI 3 application, to be served by uvicorn or mounted.

    Args:
        dispatcher: Answers the messages.
        start: Begins what runs beside the requests, once the server that runs this application has started.
        endpoint_path: The one path that is served, below ``root_path``.
        hosts: Which Host and Origin are answered.
        authenticate: The application's first door, or None.
        observers: Told of every refusal.
        body_bytes: Bytes of the largest body that is read.
        warn_credentials: Whether to warn once when a request carries credentials that nobody looks at.
    """

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        start: Callable[[], None],
        endpoint_path: str,
        hosts: HostPolicy,
        authenticate: Authenticate | None,
        observers: Observers,
        body_bytes: int,
        warn_credentials: bool,
    ) -> None:
        self._dispatcher: Final = dispatcher
        self._start: Final = start
        self.endpoint_path: Final = endpoint_path
        self._hosts: Final = hosts
        self._authenticate: Final = authenticate
        self._observers: Final = observers
        self._body_bytes: Final = body_bytes
        self._warn_credentials = warn_credentials

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope["headers"])
        facts = TransportFacts(headers, scope.get("client"), scope)
        try:
            reply = await self._answer(scope, receive, facts)
        except _Disconnected:
            return
        try:
            await _send(send, reply, close="upgrade" in headers)
        finally:
            reply.release()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _answer(self, scope: Scope, receive: Receive, facts: TransportFacts) -> Reply:
        headers = facts.headers
        assert headers is not None
        host = headers.one(b"host")
        if host is None or not self._hosts.host_allowed(host):
            return self._refuse(facts, 421, "host", "This Host is not served here; see allowed_hosts")
        origins = headers.all(b"origin")
        if origins and not (len(origins) == 1 and self._hosts.origin_allowed(origins[0], host)):
            return self._refuse(facts, 403, "origin", "This Origin is not allowed; see allowed_origins")
        if _path_below_root(scope) != self.endpoint_path:
            return self._refuse(facts, 404, "path", "Not Found")
        if scope["method"] != "POST":
            return self._refuse(facts, 405, "http method", "Method Not Allowed; use POST", (("allow", "POST"),))
        identity = None
        if self._authenticate is not None:
            answer = await self._identify(facts)
            if isinstance(answer, Reply):
                return answer
            identity = answer
        if self._warn_credentials and ("authorization" in headers or "cookie" in headers):
            self._warn_credentials = False
            logger.warning(
                "a request carries credentials, but every caller is admitted as the same one (ANONYMOUS): "
                "give the server an admission= that tells callers apart"
            )
        if not is_json(headers.all(b"content-type")):
            return self._refuse(facts, 415, "content type", "Content-Type must be application/json")
        if not accepts_both(headers.all(b"accept")):
            return self._refuse(facts, 406, "accept", "Accept must list application/json and text/event-stream")
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._read(receive, headers)
        except TimeoutError:
            return self._refuse(facts, 408, "body time", f"The body did not arrive within {BODY_SECONDS:.0f} seconds")
        if body is None:
            return self._refuse(facts, 413, "body size", f"The body is over {self._body_bytes} bytes")
        if not body and "upgrade" in headers:
            return self._refuse(
                facts, 400, "upgrade", "Send the request without Upgrade: no other protocol is spoken here"
            )
        return await self._dispatcher.dispatch(body, facts, identity)

    async def _identify(self, facts: TransportFacts) -> Identity | Reply:
        assert self._authenticate is not None
        answer = await decision_of(self._authenticate, Identity, facts)
        if isinstance(answer, Identity):
            return answer
        if isinstance(answer, Refusal):
            self._observers.rejection(facts, Rejection(answer.status, None, "authenticate"))
            return Reply(answer.status, b"", tuple(answer.headers.items()))
        self._observers.rejection(facts, Rejection(500, protocol.INTERNAL_ERROR, "authenticate hook"))
        return Reply(500, internal_error_body(None))

    async def _read(self, receive: Receive, headers: Headers) -> bytes | None:
        """The whole body, or None where it is over the limit (as it says, or as it comes)."""
        length = headers.one(b"content-length")
        if length is not None and length.isdigit() and (len(length) > 18 or int(length) > self._body_bytes):
            return None
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Disconnected
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self._body_bytes:
                return None
            chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _refuse(
        self, facts: TransportFacts, status: int, reason: str, text: str, headers: tuple[tuple[str, str], ...] = ()
    ) -> Reply:
        self._observers.rejection(facts, Rejection(status, None, reason))
        return Reply(status, text.encode(), (("content-type", "text/plain; charset=utf-8"), *headers))


def _path_below_root(scope: Mapping[str, Any]) -> str:
    """The request's path as this application sees it: what a mount or a proxy put before it is left out."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    if root and path.startswith(root + "/"):
        return path[len(root) :]
    return path


async def _send(send: Send, reply: Reply, *, close: bool) -> None:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers]
    if reply.body and not any(name == b"content-type" for name, _ in headers):
        headers.append((b"content-type", b"application/json"))
    headers.append((b"content-length", str(len(reply.body)).encode()))
    if close:
        # Some servers take the body of a request with Upgrade for the next request. There must be none.
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
