"""Requests by hand: httpx, with the bytes of the body as a test writes them."""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from typing import Any

import httpx

from mcpinput import protocol

FORM = {"elicitation": {"form": {}}}
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Nothing here is encrypted, and loading the certificates of the world takes longer than a test."""
_ids = count(1)


@dataclass
class Reply:
    status: int
    body: Any

    @property
    def result(self) -> Any:
        assert "result" in self.body, self.body
        return self.body["result"]

    @property
    def error(self) -> Any:
        assert "error" in self.body, self.body
        return self.body["error"]


def meta(capabilities: Any) -> dict[str, Any]:
    return {
        protocol.META_PROTOCOL_VERSION: protocol.PROTOCOL_VERSION,
        protocol.META_CLIENT_CAPABILITIES: capabilities,
        protocol.META_CLIENT_INFO: {"name": "by hand", "version": "1"},
    }


def headers(method: str, name: str | None) -> dict[str, str]:
    made = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": protocol.PROTOCOL_VERSION,
        "mcp-method": method,
    }
    return made if name is None else made | {"mcp-name": name}


def call(
    url: str,
    method: str,
    params: dict[str, Any],
    *,
    capabilities: Any = FORM,
    answers: bytes | None = None,
    token: str | None = None,
) -> Reply:
    """One request. ``answers`` are the bytes of ``inputResponses``, ``token`` is what the caller is known by."""
    name = params.get(protocol.NAME_MEMBER.get(method, ""))
    members = {"_meta": meta(capabilities), **params}
    text = json.dumps({"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": members}).encode()
    if answers is not None:
        text = text.removesuffix(b"}}") + b', "inputResponses": ' + answers + b"}}"
    sent = headers(method, name)
    return post(url, text, sent if token is None else sent | {"authorization": f"Bearer {token}"})


def post(url: str, body: bytes, sent: dict[str, str]) -> Reply:
    # A client of its own for each request: no connection is kept, as between a client and a fleet.
    with httpx.Client(timeout=30, trust_env=False, verify=NO_TLS) as client:
        response = client.post(url, content=body, headers=sent)
    if response.headers.get("content-type") != "application/json":
        return Reply(response.status_code, response.text)
    return Reply(response.status_code, json.loads(response.content, parse_float=Decimal))
