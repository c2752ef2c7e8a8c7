"""Single use through the whole server: of all requests with one token, at most one enters a handler.

The application is driven in-process, at every point where its task waits, over both stores.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

from mcpinput import (
    Admission,
    InputRequest,
    InputRequestDeclaration,
    Limits,
    McpError,
    ProtectionConfig,
    ProtectionFailure,
    RequestContext,
    RequestStateMode,
    Requirement,
    Server,
    ToolError,
    input_required,
)
from mcpinput.errors import StoreUnavailableError
from mcpinput.protection import single_use
from mcpinput.stores import MemoryStore, SqliteStore
from tests.support.asgi import Client, Response, meta
from tests.support.servers import FORM, Clock, Recorder, accept, anybody, ask_form, ring

FRAMEWORK = RequestStateMode.FRAMEWORK_PROTECTED
URL = InputRequestDeclaration.from_elicitation_url(Requirement.CONDITIONAL)
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "tool": ("tools/call", {"name": "refund", "arguments": {"amount": "3.50"}}),
    "prompt": ("prompts/get", {"name": "refund", "arguments": {"amount": "3.50"}}),
    "resource": ("resources/read", {"uri": "shop://refund"}),
    "template": ("resources/read", {"uri": "shop://refunds/7"}),
}
SECRET = "postgres://user:hunter2@db"

Handler = Callable[[RequestContext], Any]


def done(ctx: RequestContext) -> Any:
    return "done"


class Service:
    """A server whose operations all ask in round 0, and then do what a test says; and its client.

    Attributes:
        entered: The context of every retry that reached a handler.
    """

    def __init__(self, store: Any, handler: Handler = done, *, threads: bool = False, **options: Any) -> None:
        self.clock = Clock()
        self.recorder = Recorder()
        self.handler = handler
        self.entered: list[RequestContext] = []
        self.admission = anybody
        settings = {
            name: options.pop(name)
            for name in ("maximum_encoded_bytes", "maximum_request_state_rounds", "bind_principal")
            if name in options
        }
        self.server = Server(
            "shop",
            version="1",
            protection=ProtectionConfig(keyring=ring(), clock=self.clock, single_use=store, **settings),
            admission=lambda facts, identity: self.admission(facts, identity),
            observers=(self.recorder,),
            **options,
        )

        def ask(ctx: RequestContext) -> Any:
            if not ctx.round:
                return input_required({"price": ask_form()}, framework_request_state={"step": 1})
            self.entered.append(ctx)
            return None

        def in_thread(ctx: RequestContext) -> Any:
            return ask(ctx) or self.handler(ctx)

        async def on_loop(ctx: RequestContext) -> Any:
            answer = ask(ctx) or self.handler(ctx)
            return await answer if isinstance(answer, Coroutine) else answer

        def with_arguments(ctx: RequestContext, arguments: dict[str, Any]) -> Any:
            return in_thread(ctx)

        async def with_arguments_on_loop(ctx: RequestContext, arguments: dict[str, Any]) -> Any:
            return await on_loop(ctx)

        plain: Any = in_thread if threads else on_loop
        told: Any = with_arguments if threads else with_arguments_on_loop
        sealed: dict[str, Any] = {"input_requests": [FORM, URL], "request_state": FRAMEWORK}
        schema = {"type": "object", "properties": {"amount": {"type": "string"}}, "required": ["amount"]}
        self.server.tool("refund", input_schema=schema, **sealed)(told)
        self.server.prompt("refund", **sealed)(told)
        self.server.resource("shop://refund", **sealed)(plain)
        self.server.resource("shop://refunds/{number}", **sealed)(told)
        self.client = Client(self.server.asgi())

    async def request(
        self,
        kind: str,
        token: str | None = None,
        *,
        id: int = 2,
        answers: Any = None,
        capabilities: Any = None,
        **changed: Any,
    ) -> Response:
        method, params = KINDS[kind]
        params = {**params, **changed, "_meta": meta(capabilities)}
        if token is not None:
            params["requestState"] = token
            params["inputResponses"] = accept(price=3) if answers is None else answers
        body = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        return await self.client.exchange(json.dumps(body).encode(), self.client.headers(method, params))

    async def ask(self, kind: str) -> str:
        token: str = (await self.request(kind, id=1)).result["requestState"]
        return token

    async def assert_spent(self, kind: str, token: str) -> None:
        """The token is refused, in the words that every bad token gets."""
        before = len(self.entered)
        response = await self.request(kind, token)
        assert (response.status, response.body) == (400, (await self.request(kind, "garbage")).body)
        assert self.recorder.rejections[-2].failure is ProtectionFailure.SPENT
        assert self.recorder.rejections[-2].round == 1
        assert len(self.entered) == before

    async def assert_opens_once(self, kind: str, token: str) -> None:
        before = len(self.entered)
        assert (await self.request(kind, token)).status == 200
        assert len(self.entered) == before + 1
        await self.assert_spent(kind, token)

    def assert_no_key_is_reserved(self) -> None:
        assert set(self.server.protection_keyring_manager.snapshot().sealing_reservations.values()) == {0}


MakeStore = Callable[[], Any]


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[MakeStore, None, None]:
    made: list[SqliteStore] = []
    clock = Clock()

    def memory() -> MemoryStore:
        return MemoryStore(clock=clock)

    def sqlite() -> SqliteStore:
        made.append(SqliteStore(tmp_path / f"ledger-{len(made)}.db", clock=clock))
        return made[-1]

    yield {"memory": memory, "sqlite": sqlite}[request.param]
    for store in made:
        store.close()


def memory_store() -> MemoryStore:
    return MemoryStore(clock=Clock())


# ---- one of many ----


@pytest.mark.parametrize("threads", [False, True], ids=["async def", "def"])
@pytest.mark.parametrize("kind", KINDS)
def test_of_fifty_identical_retries_one_enters(kind: str, threads: bool, make_store: MakeStore) -> None:
    service = Service(make_store(), threads=threads)

    async def scenario() -> None:
        token = await service.ask(kind)
        responses = await asyncio.gather(*(service.request(kind, token) for _ in range(50)))
        [opened] = [response for response in responses if response.status == 200]
        assert opened.result["resultType"] == "complete"
        refused = {response.body for response in responses if response is not opened}
        assert refused == {(await service.request(kind, "garbage")).body}
        assert [response.status for response in responses].count(400) == 49

    asyncio.run(scenario())
    assert len(service.entered) == 1
    assert service.server.counters.snapshot().state_refused[ProtectionFailure.SPENT] == 49


def test_other_ids_and_other_answers_are_no_other_token(make_store: MakeStore) -> None:
    service = Service(make_store())

    async def scenario() -> None:
        token = await service.ask("tool")
        answers = [accept(price=number) for number in range(10)] + [{"price": {"action": "decline"}}, {}]
        responses = await asyncio.gather(
            *(service.request("tool", token, id=10 + n, answers=answer) for n, answer in enumerate(answers))
        )
        assert [response.status for response in responses].count(200) == 1

    asyncio.run(scenario())
    assert len(service.entered) == 1


def test_instances_that_share_a_store_share_what_is_spent(make_store: MakeStore) -> None:
    store = make_store()
    one, other = Service(store), Service(store)

    async def scenario() -> None:
        token = await one.ask("tool")
        both = itertools.islice(itertools.cycle([one, other]), 20)
        responses = await asyncio.gather(*(service.request("tool", token) for service in both))
        assert [response.status for response in responses].count(200) == 1

    asyncio.run(scenario())
    assert len(one.entered + other.entered) == 1


def test_two_event_loops_share_one_server(make_store: MakeStore) -> None:
    service = Service(make_store())

    async def retry(token: str) -> list[int]:
        return [
            response.status for response in await asyncio.gather(*(service.request("tool", token) for _ in range(5)))
        ]

    async def scenario() -> None:
        for _ in range(20):
            service.entered.clear()
            token = await service.ask("tool")
            loops = [asyncio.to_thread(asyncio.run, retry(token)) for _ in range(4)]
            statuses = [status for answers in await asyncio.gather(*loops) for status in answers]
            assert sorted(statuses) == [200] + [400] * 19
            assert len(service.entered) == 1

    asyncio.run(scenario())


# ---- a client that hangs up ----


class Interrupted:
    """Runs a coroutine, and ends it where it waits for the nth time.

    Args:
        coroutine: What to run, in a task of its own.
        at: Which of its waits, from 0.
        how: ``"waiting"``: cancelled while it waits. ``"late"``: cancelled once what it waits for has come, and before
            it knows. ``"closed"``: its coroutine is closed.

    Attributes:
        ended: Whether it waited that often.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], at: int, how: str) -> None:
        self.coroutine = coroutine
        self.at = at
        self.how = how
        self.ended = False

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task is not None
        steps = self.coroutine.__await__()
        waits = 0
        step: Callable[[], Any] = lambda: steps.send(None)  # noqa: E731
        while True:
            try:
                waited = step()
            except StopIteration as stop:
                return stop.value
            if waits == self.at:
                self.ended = True
                if self.how == "closed":
                    self.coroutine.close()
                    return None
                if self.how == "waiting":
                    task.cancel()  # takes effect as soon as this task waits
                elif waited is None:
                    asyncio.get_running_loop().call_soon(task.cancel)
                else:
                    waited.add_done_callback(lambda _: task.cancel())  # before the one that wakes the task
            waits += 1
            try:
                value = yield waited
            except BaseException as error:
                raised = error
                step = lambda: steps.throw(raised)  # noqa: B023, E731
            else:
                step = lambda: steps.send(value)  # noqa: B023, E731


class Slow:
    """A store that lets others run before and after it does something."""

    def __init__(self, store: Any) -> None:
        self.store = store

    async def get(self, kind: str, key: str) -> Any:
        return await self.store.get(kind, key)

    async def insert(self, kind: str, key: str, value: bytes, *, expires_ms: int) -> Any:
        await asyncio.sleep(0)
        version = await self.store.insert(kind, key, value, expires_ms=expires_ms)
        await asyncio.sleep(0)
        return version

    async def delete(self, kind: str, key: str, version: bytes) -> Any:
        await asyncio.sleep(0)
        deleted = await self.store.delete(kind, key, version)
        await asyncio.sleep(0)
        return deleted


async def asks_again(ctx: RequestContext) -> Any:
    for _ in range(3):
        await asyncio.sleep(0)
    return input_required({"price": ask_form()}, framework_request_state={"step": 2})


async def nothing_happened(ctx: RequestContext) -> Any:
    await asyncio.sleep(0)
    ctx.return_state()
    await asyncio.sleep(0)
    raise ToolError("not now")


def quiet_loop() -> list[dict[str, Any]]:
    """What the running loop would have logged from here on."""
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    return problems


async def interrupt_everywhere(
    service: Service, kind: str, how: str, after: Callable[[str, bool], Awaitable[None]]
) -> int:
    """Ends a retry at each of its waits in turn, a new token each time; ``after`` is told whether it had entered."""
    problems = quiet_loop()
    for at in itertools.count():
        token = await service.ask(kind)
        service.entered.clear()
        interrupted = Interrupted(service.request(kind, token), at, how)

        async def run(interrupted: Interrupted = interrupted) -> Any:
            return await interrupted

        task = asyncio.create_task(run())
        await asyncio.wait([task])
        if not interrupted.ended:
            assert task.exception() is None
            assert problems == []
            return at
        assert task.cancelled() or how == "closed"
        await after(token, bool(service.entered))
        service.assert_no_key_is_reserved()
    raise AssertionError("never")


@pytest.mark.parametrize("how", ["waiting", "late", "closed"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_hangs_up_at_any_wait_redeems_once(kind: str, how: str, make_store: MakeStore) -> None:
    store = make_store()
    service = Service(Slow(store), asks_again)

    async def after(token: str, entered: bool) -> None:
        again = await service.request(kind, token)
        assert again.status == (400 if entered else again.status)
        assert again.status in (200, 400)
        await service.assert_spent(kind, token)
        assert len(service.entered) == (1 if entered or again.status == 200 else 0)

    waits = asyncio.run(interrupt_everywhere(service, kind, how, after))
    assert waits >= 2 + 3  # the ledger's, and the handler's
    gc.collect()


def test_a_thousand_hangups_in_a_row_redeem_each_token_once() -> None:
    """Many at once, so that they also meet in the ledger; each token is then retried until one has entered or none."""
    service = Service(Slow(memory_store()), asks_again)
    flows: dict[bytes, int] = {}

    def count(ctx: RequestContext) -> Any:
        flows[ctx.flow_id] = flows.get(ctx.flow_id, 0) + 1
        return asks_again(ctx)

    service.handler = count

    async def hang_up(number: int) -> None:
        kind = list(KINDS)[number % 4]
        token = await service.ask(kind)
        for how in ("waiting", "late", "waiting"):

            async def run(how: str = how) -> Any:
                return await Interrupted(service.request(kind, token), number % 7, how)

            await asyncio.wait([asyncio.create_task(run())])
        assert (await service.request(kind, token)).status in (200, 400)
        await service.assert_spent(kind, token)

    async def scenario() -> None:
        problems = quiet_loop()
        for first in range(0, 1000, 50):
            await asyncio.gather(*(hang_up(number) for number in range(first, first + 50)))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert problems == []

    asyncio.run(scenario())
    gc.collect()
    assert set(flows.values()) == {1}
    assert len(flows) > 500
    service.assert_no_key_is_reserved()


@pytest.mark.parametrize("how", ["waiting", "late", "closed"])
def test_a_hangup_while_a_token_is_given_back_lets_no_two_in_together(how: str, make_store: MakeStore) -> None:
    service = Service(Slow(make_store()))
    inside: list[RequestContext] = []

    async def handler(ctx: RequestContext) -> Any:
        inside.append(ctx)
        assert inside == [ctx]
        try:
            return await nothing_happened(ctx)
        finally:
            inside.remove(ctx)

    service.handler = handler

    async def after(token: str, entered: bool) -> None:
        for response in await asyncio.gather(*(service.request("tool", token) for _ in range(3))):
            assert response.status in (200, 400)
        service.handler = done
        assert (await service.request("tool", token)).status in (200, 400)
        await service.assert_spent("tool", token)
        service.handler = handler

    asyncio.run(interrupt_everywhere(service, "tool", how, after))
    assert inside == []


@pytest.mark.parametrize("fails_at", ["http.response.start", "http.response.body"])
def test_an_answer_that_cannot_be_sent_leaves_its_token_spent(fails_at: str, make_store: MakeStore) -> None:
    service = Service(make_store(), asks_again)
    app = service.client.app
    broken = [False]

    async def breaking(scope: Any, receive: Any, send: Any) -> None:
        async def send_or_fail(message: Any) -> None:
            if broken[0] and message["type"] == fails_at:
                raise ConnectionResetError
            await send(message)

        await app(scope, receive, send_or_fail)

    service.client.app = breaking

    async def scenario() -> None:
        token = await service.ask("tool")
        broken[0] = True
        with pytest.raises(ConnectionResetError):
            await service.request("tool", token)
        broken[0] = False
        await service.assert_spent("tool", token)

    asyncio.run(scenario())
    service.assert_no_key_is_reserved()


# ---- spent before anything of the application runs, and for good ----


def test_a_token_is_spent_before_the_outermost_interceptor(make_store: MakeStore) -> None:
    store = make_store()
    seen: list[bool] = []

    async def interceptor(ctx: RequestContext, call_next: Any) -> Any:
        if ctx.round:
            seen.append(await store.get("spent", f"{ctx.flow_id.hex()}-{ctx.round}") is not None)
            return "answered by the interceptor"
        return await call_next()

    service = Service(store, interceptors=(interceptor,))

    async def scenario() -> None:
        token = await service.ask("tool")
        assert (await service.request("tool", token)).status == 200
        await service.assert_spent("tool", token)

    asyncio.run(scenario())
    assert (seen, service.entered) == ([True], [])


def raising(error: BaseException) -> Handler:
    def handler(ctx: RequestContext) -> Any:
        raise error

    return handler


def inner_cancellation(ctx: RequestContext) -> Any:
    async def handler() -> Any:
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()
        await inner

    return handler()


ENDS: dict[str, Handler] = {
    "completes": done,
    "asks again": lambda ctx: input_required({"price": ask_form()}),
    "ToolError": raising(ToolError("no")),
    "McpError": raising(McpError(-32000, "no")),
    "ValueError": raising(ValueError("no")),
    "SystemExit": raising(SystemExit(1)),
    "a group": raising(BaseExceptionGroup("no", [SystemExit(1)])),
    "a cancelled future": inner_cancellation,
    "state is a float": lambda ctx: input_required({"price": ask_form()}, framework_request_state=0.5),
    "state too large": lambda ctx: input_required({"price": ask_form()}, framework_request_state="x" * 50_000),
    "answer too long": lambda ctx: "x" * 2000,
    "answer of a wrong type": lambda ctx: object(),
    "nothing that can be written": lambda ctx: "\ud800",
}


@pytest.mark.parametrize("handler", ENDS.values(), ids=ENDS)
def test_a_token_stays_spent_however_its_handler_ends(handler: Handler, make_store: MakeStore) -> None:
    service = Service(make_store(), handler, limits=Limits(response_bytes=1500))

    async def scenario() -> None:
        token = await service.ask("tool")
        assert (await service.request("tool", token)).status == 200
        assert len(service.entered) == 1
        await service.assert_spent("tool", token)

    asyncio.run(scenario())
    service.assert_no_key_is_reserved()


def test_a_token_stays_spent_where_rounds_are_over_or_the_flow_expires_meanwhile() -> None:
    service = Service(memory_store(), lambda ctx: input_required({"price": ask_form()}), maximum_request_state_rounds=1)

    async def scenario() -> None:
        token = await service.ask("tool")
        assert (await service.request("tool", token)).error["message"] == "Request state could not be sealed"
        await service.assert_spent("tool", token)

    asyncio.run(scenario())
    assert service.recorder.outcomes[-1].failure is ProtectionFailure.ROUND


def test_a_token_stays_spent_where_the_client_cannot_be_asked() -> None:
    service = Service(memory_store())

    async def scenario() -> None:
        can: Any = {"elicitation": {"form": {}}}
        first = await service.request("tool", id=1, capabilities=can)
        token = first.result["requestState"]
        page = {"mode": "url", "message": "Go", "url": "https://shop.example/7"}
        service.handler = lambda ctx: input_required({"page": InputRequest.from_declaration(URL, page, unmanaged=True)})
        refused = await service.request("tool", token, capabilities=can)
        assert (refused.status, refused.error["code"]) == (400, -32021)
        again = await service.request("tool", token, capabilities=can)
        assert service.recorder.rejections[-1].failure is ProtectionFailure.SPENT
        assert again.status == 400

    asyncio.run(scenario())
    assert len(service.entered) == 1


def test_a_token_stays_spent_where_an_interceptor_raises() -> None:
    async def interceptor(ctx: RequestContext, call_next: Any) -> Any:
        answer = await call_next()
        if ctx.round:
            raise RuntimeError
        return answer

    service = Service(memory_store(), interceptors=(interceptor,))

    async def scenario() -> None:
        token = await service.ask("tool")
        assert (await service.request("tool", token)).error["code"] == -32603
        await service.assert_spent("tool", token)

    asyncio.run(scenario())


REFUSALS: dict[str, dict[str, Any]] = {
    "other arguments": {"arguments": {"amount": "4.00"}},
    "arguments that do not fit": {"arguments": {}},
    "arguments of a wrong type": {"arguments": []},
    "responses that are no object": {"answers": [1]},
    "a malformed answer": {"answers": {"price": {"action": "no"}}},
    "other capabilities": {"capabilities": {"elicitation": {}}},
    "the id of the ask": {"id": 1},
    "another operation": {"name": "nobody"},
}


@pytest.mark.parametrize("changed", REFUSALS.values(), ids=REFUSALS)
def test_what_is_refused_before_the_handler_spends_nothing(changed: dict[str, Any], make_store: MakeStore) -> None:
    service = Service(make_store())

    async def scenario() -> None:
        token = await service.ask("tool")
        response = await service.request("tool", token, **changed)
        assert response.status == 400 or response.result["isError"]
        assert service.entered == []
        await service.assert_opens_once("tool", token)

    asyncio.run(scenario())


def test_another_caller_spends_nothing() -> None:
    service = Service(memory_store())

    async def scenario() -> None:
        token = await service.ask("tool")
        for other in (Admission("everybody", "mallory"), Admission("elsewhere")):
            service.admission = lambda facts, identity, other=other: other  # type: ignore[misc]
            assert (await service.request("tool", token)).status == 400
        service.admission = anybody
        await service.assert_opens_once("tool", token)

    asyncio.run(scenario())


def test_a_missing_required_capability_spends_nothing() -> None:
    service = Service(memory_store())
    needed = InputRequestDeclaration.from_elicitation_form(Requirement.REQUIRED)

    @service.server.tool("needs", input_requests=[needed], request_state=FRAMEWORK)
    async def needs(ctx: RequestContext) -> Any:
        if not ctx.round:
            return input_required(framework_request_state=None)
        service.entered.append(ctx)
        return "done"

    async def scenario() -> None:
        params: Any = {"name": "needs", "arguments": {}}
        token = (await service.request("tool", id=1, **params)).result["requestState"]
        lacking = await service.request("tool", token, capabilities={}, **params)
        assert lacking.error["code"] == -32021
        assert (await service.request("tool", token, **params)).status == 200
        assert (await service.request("tool", token, **params)).status == 400

    asyncio.run(scenario())
    assert len(service.entered) == 1


# ---- giving the token back ----


def returning(then: Handler) -> Handler:
    def handler(ctx: RequestContext) -> Any:
        ctx.return_state()
        return then(ctx)

    return handler


@pytest.mark.parametrize("threads", [False, True], ids=["async def", "def"])
@pytest.mark.parametrize("then", ENDS.values(), ids=ENDS)
def test_a_token_that_is_returned_opens_once_more(then: Handler, threads: bool) -> None:
    service = Service(memory_store(), returning(then), threads=threads, limits=Limits(response_bytes=1500))

    async def scenario() -> None:
        token = await service.ask("tool")
        for _ in range(3):
            assert (await service.request("tool", token)).status == 200
        service.handler = done
        await service.assert_opens_once("tool", token)

    asyncio.run(scenario())
    assert len(service.entered) == 4
    service.assert_no_key_is_reserved()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_operation_returns_its_token(kind: str, make_store: MakeStore) -> None:
    service = Service(make_store(), returning(done))

    async def scenario() -> None:
        token = await service.ask(kind)
        assert (await service.request(kind, token)).status == 200
        service.handler = done
        await service.assert_opens_once(kind, token)

    asyncio.run(scenario())


@pytest.mark.parametrize("raises", [False, True])
def test_an_interceptor_that_answers_instead_may_return_the_token(raises: bool) -> None:
    busy = [True]

    async def interceptor(ctx: RequestContext, call_next: Any) -> Any:
        if ctx.round and busy[0]:
            ctx.return_state()
            if raises:
                raise McpError(-32000, "busy")
            return "busy"
        return await call_next()

    service = Service(memory_store(), interceptors=(interceptor,))

    async def scenario() -> None:
        token = await service.ask("tool")
        for _ in range(2):
            await service.request("tool", token)
        assert service.entered == []
        busy[0] = False
        await service.assert_opens_once("tool", token)

    asyncio.run(scenario())


def test_a_cancelled_handler_that_returned_its_token_gives_it_back(make_store: MakeStore) -> None:
    started = asyncio.Event()

    async def handler(ctx: RequestContext) -> Any:
        ctx.return_state()
        started.set()
        await asyncio.Event().wait()

    service = Service(make_store(), handler)

    async def scenario() -> None:
        token = await service.ask("tool")
        task = asyncio.create_task(service.request("tool", token))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        service.handler = done
        await service.assert_opens_once("tool", token)

    asyncio.run(scenario())


def test_a_token_is_not_given_back_before_its_handler_has_ended(make_store: MakeStore) -> None:
    returned, may_end = asyncio.Event(), asyncio.Event()

    async def handler(ctx: RequestContext) -> Any:
        ctx.return_state()
        returned.set()
        await may_end.wait()
        return "ended"

    service = Service(make_store(), handler)

    async def scenario() -> None:
        token = await service.ask("tool")
        running = asyncio.create_task(service.request("tool", token))
        await returned.wait()
        for _ in range(3):
            await service.assert_spent("tool", token)
        may_end.set()
        await running
        service.handler = done
        await service.assert_opens_once("tool", token)

    asyncio.run(scenario())


def test_a_thread_that_goes_on_after_its_request_was_given_up_keeps_its_token(make_store: MakeStore) -> None:
    entered, may_end = threading.Event(), threading.Event()

    def handler(ctx: RequestContext) -> Any:
        ctx.return_state()
        entered.set()
        assert may_end.wait(120)
        return "ended"

    async def impatient(ctx: RequestContext, call_next: Any) -> Any:
        if not ctx.round:
            return await call_next()
        running = asyncio.create_task(call_next())
        await asyncio.to_thread(entered.wait)
        running.cancel()
        return await running

    service = Service(make_store(), handler, threads=True, interceptors=(impatient,))

    async def scenario() -> None:
        token = await service.ask("tool")
        try:
            assert (await service.request("tool", token)).error["code"] == -32603
            await service.assert_spent("tool", token)
        finally:
            may_end.set()
        await service.assert_spent("tool", token)

    asyncio.run(scenario())


def test_an_interceptor_that_does_not_wait_for_the_handler_keeps_its_token(make_store: MakeStore) -> None:
    entered, may_end = asyncio.Event(), asyncio.Event()
    begun: list[asyncio.Task[Any]] = []

    async def handler(ctx: RequestContext) -> Any:
        ctx.return_state()
        entered.set()
        await may_end.wait()

    async def impatient(ctx: RequestContext, call_next: Any) -> Any:
        if not ctx.round:
            return await call_next()
        begun.append(asyncio.create_task(call_next()))
        await entered.wait()
        return "busy"

    service = Service(make_store(), handler, interceptors=(impatient,))

    async def scenario() -> None:
        token = await service.ask("tool")
        assert (await service.request("tool", token)).status == 200
        await service.assert_spent("tool", token)
        may_end.set()
        await asyncio.gather(*begun)
        await service.assert_spent("tool", token)

    asyncio.run(scenario())


def test_a_late_call_gives_back_nothing() -> None:
    service = Service(memory_store())

    async def scenario() -> None:
        token = await service.ask("tool")
        assert (await service.request("tool", token)).status == 200
        service.entered[-1].return_state()
        await asyncio.sleep(0)
        await service.assert_spent("tool", token)

    asyncio.run(scenario())


def test_returning_state_changes_nothing_without_single_use_or_on_a_first_request() -> None:
    service = Service(None, returning(done))

    async def scenario() -> None:
        token = await service.ask("tool")
        for _ in range(3):
            assert (await service.request("tool", token)).status == 200
        first = Service(memory_store())

        async def interceptor_like(ctx: RequestContext) -> Any:
            ctx.return_state()
            return input_required(framework_request_state=None)

        first.server.tool("returns", request_state=FRAMEWORK)(interceptor_like)
        params: Any = {"name": "returns", "arguments": {}}
        assert "requestState" in (await first.request("tool", id=1, **params)).result

    asyncio.run(scenario())


# ---- stores that fail ----


class Faulty:
    """A memory store with methods that a test replaces."""

    def __init__(self) -> None:
        self.store = memory_store()
        self.on_insert: Any = None
        self.on_delete: Any = None

    async def get(self, kind: str, key: str) -> Any:
        return await self.store.get(kind, key)

    async def insert(self, kind: str, key: str, value: bytes, *, expires_ms: int) -> Any:
        if self.on_insert is not None:
            return await self.on_insert()
        return await self.store.insert(kind, key, value, expires_ms=expires_ms)

    async def delete(self, kind: str, key: str, version: bytes) -> Any:
        if self.on_delete is not None:
            return await self.on_delete()
        return await self.store.delete(kind, key, version)


def failing(error: BaseException) -> Any:
    async def method() -> Any:
        raise error

    return method


def answering(value: Any) -> Any:
    async def method() -> Any:
        return value

    return method


FAULTS: dict[str, Any] = {
    "unavailable": failing(StoreUnavailableError(SECRET)),
    "refused": failing(ConnectionRefusedError(SECRET)),
    "silent": lambda: asyncio.Event().wait(),
    "ValueError": failing(ValueError(SECRET)),
    "SystemExit": failing(SystemExit(SECRET)),
    "cancels itself": failing(asyncio.CancelledError(SECRET)),
    "True": answering(True),
    "False": answering(False),
    "empty": answering(b""),
    "text": answering(SECRET),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_while_the_store_does_not_say_nothing_runs_and_nothing_is_lost(
    kind: str, fault: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(single_use, "TIME_LIMIT", 0.01)
    store = Faulty()
    service = Service(store)

    async def scenario() -> None:
        token = await service.ask(kind)
        store.on_insert = fault
        for number in range(1, 4):
            response = await service.request(kind, token)
            assert response.status == 503
            assert response.error == {
                "code": -32603,
                "message": "Request state cannot be checked for now; try again",
            }
            assert response.header(b"retry-after") == b"1"
            rejection = service.recorder.rejections[-1]
            assert (rejection.status, rejection.code, rejection.reason) == (503, -32603, "unavailable")
            assert (rejection.failure, rejection.key_id) == (ProtectionFailure.UNAVAILABLE, "k1")
            assert (rejection.round, rejection.age_ms) == (1, 0)
            assert service.server.counters.snapshot().state_refused == {ProtectionFailure.UNAVAILABLE: number}
        assert service.entered == []
        assert SECRET not in caplog.text
        store.on_insert = None
        await service.assert_opens_once(kind, token)

    asyncio.run(scenario())


def test_first_requests_need_no_store() -> None:
    store = Faulty()
    store.on_insert = failing(StoreUnavailableError("down"))
    service = Service(store)
    assert asyncio.run(service.ask("tool"))


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_where_the_store_fails_on_giving_back_the_answer_goes_out_and_the_token_stays_spent(
    fault: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(single_use, "TIME_LIMIT", 0.01)
    caplog.set_level(logging.WARNING)
    store = Faulty()
    service = Service(store, returning(raising(ToolError("not now"))))

    async def scenario() -> None:
        token = await service.ask("tool")
        if fault is not FAULTS["True"]:  # which says that it has done what it has not
            store.on_delete = fault
            response = await service.request("tool", token)
            assert response.result["content"] == [{"type": "text", "text": "not now"}]
            assert "a token stays spent" in caplog.text
        else:
            await service.request("tool", token)
            store.on_delete = fault
            await service.request("tool", token)
        await service.assert_spent("tool", token)

    asyncio.run(scenario())
    assert SECRET not in caplog.text


# ---- rounds ----


@pytest.mark.parametrize("kind", KINDS)
def test_each_round_has_a_token_of_its_own_that_opens_once(kind: str, make_store: MakeStore) -> None:
    service = Service(make_store(), lambda ctx: input_required({"price": ask_form()}) if ctx.round < 3 else "done")

    async def scenario() -> None:
        tokens = [await service.ask(kind)]
        for number in range(2):
            tokens.append((await service.request(kind, tokens[-1], id=10 + number)).result["requestState"])
        assert (await service.request(kind, tokens[-1])).result["resultType"] == "complete"
        for round_number, token in enumerate(tokens, 1):
            assert (await service.request(kind, token)).status == 400
            rejection = service.recorder.rejections[-1]
            assert (rejection.failure, rejection.round) == (ProtectionFailure.SPENT, round_number)

    asyncio.run(scenario())
    assert [ctx.round for ctx in service.entered] == [1, 2, 3]


def test_no_flow_branches() -> None:
    """Two tokens of one round and flow, made by a handler that returned its state and yet asked: one opens."""
    service = Service(memory_store(), returning(lambda ctx: input_required({"price": ask_form()})))

    async def scenario() -> None:
        first = await service.ask("tool")
        branches = [(await service.request("tool", first, id=n)).result["requestState"] for n in (5, 6)]
        service.handler = done
        statuses = [(await service.request("tool", branch)).status for branch in branches]
        assert statuses == [200, 400]
        assert service.recorder.rejections[-1].failure is ProtectionFailure.SPENT

    asyncio.run(scenario())


def test_a_spent_token_that_expires_is_expired_and_one_that_was_never_answered_too() -> None:
    service = Service(memory_store())

    async def scenario() -> None:
        answered, lost = await service.ask("tool"), await service.ask("tool")
        await service.request("tool", answered)
        service.clock.now += 900
        for token in (answered, lost):
            assert (await service.request("tool", token)).status == 400
            assert service.recorder.rejections[-1].failure is ProtectionFailure.EXPIRED

    asyncio.run(scenario())
    assert len(service.entered) == 1
