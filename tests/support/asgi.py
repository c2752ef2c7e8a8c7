"""An in-process client: one request through the ASGI application, headers and bytes as a test wants them."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

VERSION = "2026-07-28"
ALL_CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
NAME_MEMBER = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@dataclass
class Response:
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body, parse_float=Decimal)

    @property
    def result(self) -> Any:
        assert "error" not in self.json, self.json
        return self.json["result"]

    @property
    def error(self) -> Any:
        assert "result" not in self.json, self.json
        return self.json["error"]

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key == name), None)


def meta(capabilities: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": ALL_CAPABILITIES if capabilities is None else capabilities,
        **more,
    }


def encoded(text: str) -> bytes:
    plain = text.isascii() and text.isprintable() and text == text.strip()
    return text.encode() if plain else b"=?base64?" + base64.b64encode(text.encode()) + b"?="


class Client:
    """Talks to one ASGI application; every call runs on an event loop of its own."""

    def __init__(self, app: Any, host: bytes = b"localhost", path: str = "/mcp") -> None:
        self.app = app
        self.host = host
        self.path = path

    def headers(self, method: str, params: Any) -> dict[bytes, bytes]:
        headers = {
            b"host": self.host,
            b"content-type": b"application/json",
            b"accept": b"application/json, text/event-stream",
            b"mcp-protocol-version": VERSION.encode(),
            b"mcp-method": method.encode(),
        }
        member = NAME_MEMBER.get(method)
        if member and isinstance(params, dict) and isinstance(params.get(member), str):
            headers[b"mcp-name"] = encoded(params[member])
        return headers

    def send(
        self,
        body: bytes,
        headers: dict[bytes, bytes] | list[tuple[bytes, bytes]],
        *,
        http_method: str = "POST",
        path: str | None = None,
        chunks: list[bytes] | None = None,
        **scope: Any,
    ) -> Response:
        return asyncio.run(self.exchange(body, headers, http_method=http_method, path=path, chunks=chunks, **scope))

    async def exchange(
        self,
        body: bytes,
        headers: dict[bytes, bytes] | list[tuple[bytes, bytes]],
        *,
        http_method: str = "POST",
        path: str | None = None,
        chunks: list[bytes] | None = None,
        **scope: Any,
    ) -> Response:
        pairs = list(headers.items()) if isinstance(headers, dict) else headers
        parts = [body] if chunks is None else chunks
        incoming = [
            {"type": "http.request", "body": part, "more_body": index < len(parts) - 1}
            for index, part in enumerate(parts)
        ]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if incoming:
                return incoming.pop(0)
            await asyncio.Event().wait()  # the client is still there, waiting for its answer
            raise AssertionError("never")

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        full = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": http_method,
            "path": self.path if path is None else path,
            "root_path": "",
            "query_string": b"",
            "headers": pairs,
            "client": ("127.0.0.1", 12345),
            **scope,
        }
        await self.app(full, receive, send)
        start, *bodies = sent
        return Response(start["status"], start["headers"], b"".join(part["body"] for part in bodies))

    def request(
        self,
        method: str,
        params: Any = None,
        *,
        id: Any = 1,
        capabilities: Any = None,
        headers: dict[bytes, bytes | None] | None = None,
        raw_params: bytes | None = None,
    ) -> Response:
        """One JSON-RPC request. ``headers`` replace (None: leave out); ``raw_params`` is the params' own spelling."""
        params = {} if params is None else params
        if isinstance(params, dict) and "_meta" not in params:
            params = {**params, "_meta": meta(capabilities)}
        merged = self.headers(method, params)
        for name, value in (headers or {}).items():
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = value
        spelled = json.dumps(params).encode() if raw_params is None else raw_params
        body = b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (
            json.dumps(id).encode(),
            json.dumps(method).encode(),
            spelled,
        )
        return self.send(body, merged)

    def call_tool(
        self, name: str, arguments: Any = None, *, answers: Any = None, state: Any = None, **more: Any
    ) -> Any:
        return self.request("tools/call", operation_params("name", name, arguments, answers, state), **more)

    def get_prompt(
        self, name: str, arguments: Any = None, *, answers: Any = None, state: Any = None, **more: Any
    ) -> Any:
        return self.request("prompts/get", operation_params("name", name, arguments, answers, state), **more)

    def read_resource(self, uri: str, *, answers: Any = None, state: Any = None, **more: Any) -> Any:
        return self.request("resources/read", operation_params("uri", uri, None, answers, state), **more)


def operation_params(member: str, name: str, arguments: Any, answers: Any, state: Any) -> dict[str, Any]:
    params: dict[str, Any] = {member: name}
    if arguments is not None:
        params["arguments"] = arguments
    if answers is not None:
        params["inputResponses"] = answers
    if state is not None:
        params["requestState"] = state
    return params
