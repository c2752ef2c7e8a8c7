"""Single use through a whole server: who gets in, what stays spent, and what a handler may give back."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from mcpinput import ProtectionConfig, RequestContext, RequestStateMode, Server, ToolError, input_required
from mcpinput.stores import MemoryStore
from tests.support.asgi import Client, Response, meta
from tests.support.servers import FORM, Clock, accept, anybody, ask_form, ring


class Service:
    """A server with one tool, ``pay``, whose first request asks and whose retry does what a test wants."""

    def __init__(self, handler: Any, *, uses: bool = True) -> None:
        clock = Clock()
        store = MemoryStore(clock=clock) if uses else None
        protection = ProtectionConfig(keyring=ring(), clock=clock, single_use=store)
        server = Server("payments", version="1", protection=protection, admission=anybody)
        server.tool("pay", input_requests=[FORM], request_state=RequestStateMode.FRAMEWORK_PROTECTED)(handler)
        self.client = Client(server.asgi())
        first = self.client.call_tool("pay", {}, id=1).result
        self.token = first["requestState"]

    async def retry(self, id: int, **changed: Any) -> Response:
        params = {"name": "pay", "arguments": {}, "_meta": meta(), "requestState": self.token}
        params |= {"inputResponses": accept(price=3)} | changed
        body = json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
        return await self.client.exchange(body.encode(), self.client.headers("tools/call", params))


def ask() -> Any:
    return input_required({"price": ask_form()})


def test_of_fifty_identical_retries_one_enters_the_handler() -> None:
    entered = []

    async def pay(ctx: RequestContext) -> Any:
        if ctx.round == 0:
            return ask()
        entered.append(ctx)
        await asyncio.sleep(0)
        return "paid"

    service = Service(pay)

    async def storm() -> list[Response]:
        return await asyncio.gather(*(service.retry(2) for _ in range(50)))

    answers = asyncio.run(storm())
    assert sorted(answer.status for answer in answers) == [200] + [400] * 49
    assert len({answer.body for answer in answers}) == 2
    assert len(entered) == 1


@pytest.mark.parametrize("steps", range(12))
def test_who_hangs_up_at_any_step_redeems_at_most_once(steps: int) -> None:
    paid = []

    async def pay(ctx: RequestContext) -> Any:
        if ctx.round == 0:
            return ask()
        for _ in range(4):
            await asyncio.sleep(0)
        paid.append(ctx)
        for _ in range(4):
            await asyncio.sleep(0)
        return "paid"

    service = Service(pay)

    async def hang_up() -> Response:
        task = asyncio.create_task(service.retry(2))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return await service.retry(3)

    asyncio.run(hang_up())
    asyncio.run(service.retry(4))
    assert len(paid) <= 1


def test_what_is_refused_before_the_handler_spends_nothing() -> None:
    async def pay(ctx: RequestContext) -> Any:
        return ask() if ctx.round == 0 else "paid"

    service = Service(pay)
    assert asyncio.run(service.retry(2, inputResponses={"price": 7})).error["code"] == -32602
    assert asyncio.run(service.retry(2, arguments={"other": 1})).status == 400
    assert asyncio.run(service.retry(2)).status == 200
    assert asyncio.run(service.retry(3)).status == 400


@pytest.mark.parametrize("waits", [True, False], ids=["async def", "def"])
@pytest.mark.parametrize("gives_back", [True, False])
def test_a_failed_handler_leaves_its_token_spent_unless_it_gave_it_back(waits: bool, gives_back: bool) -> None:
    def pay(ctx: RequestContext) -> Any:
        if ctx.round == 0:
            return ask()
        if gives_back:
            ctx.return_state()
        raise ToolError("the bank is closed")

    async def pay_later(ctx: RequestContext) -> Any:
        return pay(ctx)

    service = Service(pay_later if waits else pay)
    assert asyncio.run(service.retry(2)).result["isError"] is True
    assert asyncio.run(service.retry(3)).status == (200 if gives_back else 400)


def test_a_token_stays_spent_while_the_thread_of_its_handler_still_runs() -> None:
    entered, goes_on = threading.Semaphore(0), threading.Event()

    def pay(ctx: RequestContext) -> Any:
        if ctx.round == 0:
            return ask()
        ctx.return_state()
        entered.release()
        goes_on.wait()
        return "paid"

    service = Service(pay)

    async def hang_up() -> Response:
        task = asyncio.create_task(service.retry(2))
        await asyncio.to_thread(entered.acquire)
        task.cancel()
        await asyncio.wait([task])
        try:
            return await asyncio.wait_for(service.retry(3), 30)
        finally:
            goes_on.set()

    assert asyncio.run(hang_up()).status == 400


def test_an_idempotency_key_is_the_same_for_a_retry_and_another_for_another_answer_name_or_flow() -> None:
    keys: list[str] = []

    async def pay(ctx: RequestContext) -> Any:
        if ctx.round == 0:
            return ask()
        keys.extend((ctx.idempotency_key("pay"), ctx.idempotency_key("tell")))
        return "paid"

    service = Service(pay, uses=False)
    asyncio.run(service.retry(2))
    asyncio.run(service.retry(3))
    asyncio.run(service.retry(4, inputResponses=accept(price=4)))
    service.token = service.client.call_tool("pay", {}, id=1).result["requestState"]
    asyncio.run(service.retry(5))
    assert keys[:2] == keys[2:4]
    assert len(set(keys)) == 6


def test_can_seal_tells_what_a_seal_would_do() -> None:
    told: list[tuple[bool, bool]] = []

    async def pay(ctx: RequestContext) -> Any:
        told.append((ctx.can_seal("x", keys=["price"]), ctx.can_seal("x" * 50_000)))
        return ask()

    service = Service(pay)
    for round in range(2, 12):
        service.token = asyncio.run(service.retry(round)).json.get("result", {}).get("requestState", "")
    assert told == [(True, False)] * 10 + [(False, False)]
    assert service.token == ""
