"""An application's own protector behind the server: it works, and whatever it does wrong fails closed."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from mcpinput import ProtectionConfig, ProtectionContext, ProtectionFailure, RequestStateProtectionError
from tests.support.asgi import Client
from tests.support.servers import Recorder, accept, price_server


class Vault:
    """Keeps payloads on its own side, with the associated data that must come back with the token."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[bytes, bytes]] = {}
        self.fails: Any = None

    async def seal(self, payload: bytes, context: ProtectionContext) -> Any:
        await asyncio.sleep(0)
        if isinstance(self.fails, BaseException):
            raise self.fails
        if self.fails is not None:
            return self.fails
        token = base64.urlsafe_b64encode(len(self.kept).to_bytes(3, "big")).decode()
        self.kept[token] = (payload, context.associated_data)
        return token

    async def open(self, token: str, context: ProtectionContext) -> Any:
        await asyncio.sleep(0)
        if isinstance(self.fails, BaseException):
            raise self.fails
        if self.fails is not None:
            return self.fails
        payload, associated_data = self.kept[token]
        if associated_data != context.associated_data:
            raise PermissionError("secret detail")
        return payload


def vault_flow() -> tuple[Vault, Client, list[Any], Recorder]:
    vault, recorder = Vault(), Recorder()
    server, entered = price_server(observer=recorder, protection=ProtectionConfig(protector=vault))
    return vault, Client(server.asgi()), entered, recorder


def test_a_custom_protector_carries_the_flow() -> None:
    _, client, entered, _ = vault_flow()
    state = client.call_tool("set_price", {"a": 1}).result["requestState"]
    assert client.call_tool("set_price", {"a": 1.0}, id=2, state=state, answers=accept(price=1)).status == 200
    assert entered[-1].framework_request_state == {"step": 10}


def test_its_refusals_are_the_frozen_answer() -> None:
    _, client, entered, recorder = vault_flow()
    state = client.call_tool("set_price", {"a": 1}).result["requestState"]
    entered.clear()
    answers = [
        client.call_tool("set_price", {"a": 2}, id=2, state=state),
        client.call_tool("set_price", {"a": 1}, id=2, state="unknown"),
        client.call_tool("set_price", {"a": 1}, id=1, state=state),
    ]
    assert {answer.status for answer in answers} == {400}
    assert len({answer.body.replace(b'"id":1', b'"id":2') for answer in answers}) == 1
    assert entered == []
    assert recorder.rejections[-1].failure is ProtectionFailure.REQUEST_ID


@pytest.mark.parametrize(
    "wrong", [None, 7, b"", b"x", "", "\n", "é", "x" * 70_000, RuntimeError("secret"), KeyError(1)]
)
def test_whatever_it_does_wrong_fails_closed(wrong: Any, caplog: pytest.LogCaptureFixture) -> None:
    vault, client, entered, _ = vault_flow()
    state = client.call_tool("set_price", {}).result["requestState"]
    entered.clear()
    vault.fails = RuntimeError("secret") if wrong is None else wrong
    refused = client.call_tool("set_price", {}, id=2, state=state)
    assert (refused.status, refused.error["data"]) == (400, {"reason": "invalid_request_state"})
    assert entered == []
    unsealed = client.call_tool("set_price", {})
    assert (unsealed.status, unsealed.error["code"]) == (200, -32603)
    assert "secret" not in caplog.text


def test_an_outage_does_not_drop_the_flow() -> None:
    vault, client, entered, recorder = vault_flow()
    state = client.call_tool("set_price", {}).result["requestState"]
    entered.clear()
    vault.fails = RequestStateProtectionError(ProtectionFailure.UNAVAILABLE)
    outage = client.call_tool("set_price", {}, id=2, state=state)
    assert (outage.status, outage.error["code"], outage.header(b"retry-after")) == (503, -32603, b"1")
    assert entered == []
    assert recorder.rejections[-1].failure is ProtectionFailure.UNAVAILABLE
    unsealed = client.call_tool("set_price", {})
    assert (unsealed.status, unsealed.error["code"]) == (200, -32603)
    vault.fails = None
    assert client.call_tool("set_price", {}, id=2, state=state, answers=accept(price=1)).status == 200
