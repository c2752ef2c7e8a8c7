"""Authenticate, admission, observers and interceptors: what they see, and what happens when they misbehave."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Any

import pytest

from mcpinput import (
    ANONYMOUS,
    Admission,
    AdmissionFacts,
    Identity,
    Observer,
    ProtectionConfig,
    Refusal,
    RequestContext,
    RequestStateMode,
    Server,
    ToolError,
    TransportFacts,
    input_required,
    partition_of,
)
from mcpinput.server.headers import Headers
from tests.support.asgi import Client
from tests.support.servers import FORM, Recorder, ask_form, price_server, ring


def hello(server: Server) -> list[RequestContext]:
    entered: list[RequestContext] = []

    @server.tool("greet")
    async def greet(ctx: RequestContext) -> str:
        entered.append(ctx)
        return "hello"

    return entered


# ---- the two doors ----


def test_identity_goes_from_the_first_door_to_the_second_and_on_to_the_handler() -> None:
    seen: list[Any] = []

    async def authenticate(facts: Any) -> Identity | Refusal:
        seen.append((facts.headers.get("Authorization"), facts.peer, facts.scope["path"]))
        if facts.headers.get("authorization") != "Bearer good":
            return Refusal(401, {"WWW-Authenticate": 'Bearer realm="x"'})
        return Identity("alice", issuer="https://issuer.example", scopes=["read"])

    async def admission(facts: Any, identity: Identity | None) -> Admission | Refusal:
        assert identity is not None
        seen.append((facts.method, facts.target, facts.protocol_version, identity.subject))
        if facts.target == "forbidden":
            return Refusal(403)
        return Admission("p", principal=identity.subject, tenant="t", extra={"scopes": identity.scopes})

    server = Server("s", version="1", authenticate=authenticate, admission=admission)
    entered = hello(server)
    client = Client(server.asgi())
    refused = client.call_tool("greet")
    assert (refused.status, refused.body) == (401, b"")
    assert refused.header(b"www-authenticate") == b'Bearer realm="x"'
    good = {b"authorization": b"Bearer good"}
    assert client.call_tool("greet", headers=good).status == 200
    assert seen[-2:] == [
        ("Bearer good", ("127.0.0.1", 12345), "/mcp"),
        ("tools/call", "greet", "2026-07-28", "alice"),
    ]
    assert entered[0].admission.principal == "alice"
    assert entered[0].admission.extra == {"scopes": ["read"]}
    forbidden = client.call_tool("forbidden", headers=good)
    assert (forbidden.status, forbidden.body) == (403, b"")
    assert client.request("tools/list", headers=good).status == 200
    assert seen[-1] == ("tools/list", None, "2026-07-28", "alice")


def test_authenticate_runs_before_the_body_is_read() -> None:
    server = Server("s", version="1", authenticate=lambda facts: Refusal(401), admission=ANONYMOUS)
    app = server.asgi()
    client = Client(app)

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body was read")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = list(client.headers("tools/call", {"name": "greet"}).items())
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers, "client": None}
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 401


MISBEHAVING = [
    None,
    True,
    Exception("secret"),
    SystemExit(1),
    asyncio.CancelledError(),
    BaseExceptionGroup("g", [SystemExit()]),
]


@pytest.mark.parametrize("answer", [*MISBEHAVING, "alice", Admission("p")])
def test_an_authenticate_hook_that_misbehaves_lets_nobody_in(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    def authenticate(facts: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    recorder = Recorder()
    server = Server("s", version="1", authenticate=authenticate, admission=ANONYMOUS, observers=[recorder])
    entered = hello(server)
    response = Client(server.asgi()).call_tool("greet")
    assert (response.status, response.error) == (500, {"code": -32603, "message": "Internal error"})
    assert entered == []
    assert recorder.rejections[-1].reason == "authenticate hook"


@pytest.mark.parametrize("answer", [*MISBEHAVING, "p", Identity("alice"), Refusal])
def test_an_admission_hook_that_misbehaves_lets_nobody_in(answer: Any) -> None:
    async def admission(facts: Any, identity: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    recorder = Recorder()
    server = Server("s", version="1", admission=admission, observers=[recorder])
    entered = hello(server)
    response = Client(server.asgi()).call_tool("greet", id="q")
    assert (response.status, response.error) == (500, {"code": -32603, "message": "Internal error"})
    assert response.json["id"] == "q"
    assert entered == []
    assert recorder.rejections[-1].reason == "admission hook"


def test_text_that_cannot_be_encoded_is_not_admitted() -> None:
    server = Server("s", version="1", admission=lambda facts, identity: Admission("\ud800"))
    entered = hello(server)
    assert Client(server.asgi()).call_tool("greet").status == 500
    assert entered == []


def endless() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    return loop


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Admission(7), TypeError),  # type: ignore[arg-type]
        (lambda: Admission("p", principal=b"x"), TypeError),  # type: ignore[arg-type]
        (lambda: Admission("p", tenant="\udfff"), ValueError),
        (lambda: Identity(None), TypeError),  # type: ignore[arg-type]
        (lambda: Refusal(200), ValueError),
        (lambda: Refusal(401, {"a": "b\r\nc"}), ValueError),
        (lambda: Refusal(401, {"a b": "c"}), ValueError),
        (lambda: Refusal(401, {"": "c"}), ValueError),
        (lambda: Admission("p", extra=[1]), TypeError),  # type: ignore[arg-type]
        (lambda: Identity("s", scopes="read write"), TypeError),
        (lambda: Admission("p", extra=endless()), ValueError),
        (lambda: Refusal(401, {"a": 1}), TypeError),  # type: ignore[dict-item]
        (lambda: partition_of(), ValueError),
        (lambda: partition_of(subject=1), TypeError),  # type: ignore[arg-type]
    ],
)
def test_values_of_the_doors_that_cannot_be(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def test_partition_of_tells_its_parts_apart() -> None:
    texts = [None, "", "a", "b", "1:a", "a|1:b", "-", "0:", "|"]
    names = {
        partition_of(issuer=issuer, subject=subject, client=client, tenant=tenant)
        for issuer in texts
        for subject in texts
        for client in texts
        for tenant in texts
        if (issuer, subject, client, tenant) != (None,) * 4
    }
    assert len(names) == len(texts) ** 4 - 1


def test_identities_are_not_shown() -> None:
    secret = "alice@example.com"
    headers = Headers([(b"authorization", secret.encode())])
    transport = TransportFacts(headers, scope={"headers": [(b"authorization", secret.encode())]})
    values = [
        Identity(secret, claims={"email": secret}),
        Admission(secret, principal=secret, tenant=secret, extra={"email": secret}),
        transport,
        AdmissionFacts(transport, "tools/call", secret, "2026-07-28", {"email": secret}),
    ]
    for value in values:
        assert secret not in repr(value) + str(value) + f"{value}"


def test_what_an_admission_carries_is_a_copy_that_nobody_changes() -> None:
    extra = {"roles": ["a"], "session": object(), "more": OrderedDict(a=([1],))}
    admission = Admission("p", extra=extra)
    extra["roles"] = "b"
    assert admission.extra["roles"] == ["a"]
    assert admission.extra["session"] is extra["session"]
    with pytest.raises(TypeError):
        admission.extra["roles"].append("admin")
    with pytest.raises(TypeError):
        admission.extra["more"]["a"][0].append(2)
    server = Server("s", version="1")
    entered = hello(server)
    client = Client(server.asgi())
    client.call_tool("greet")
    with pytest.raises(TypeError):
        entered[0].admission.extra["who"] = 1  # type: ignore[index]
    client.call_tool("greet")
    assert entered[1].admission.extra == {}


def test_what_an_admission_carries_can_be_answered_and_kept_as_state() -> None:
    extra = {"roles": ["a"], "limits": {"price": 7}}
    server = Server(
        "s", version="1", protection=ProtectionConfig.ephemeral(), admission=lambda f, i: Admission("p", extra=extra)
    )

    @server.tool("t", request_state=RequestStateMode.FRAMEWORK_PROTECTED)
    async def t(ctx: RequestContext) -> Any:
        if ctx.has_request_state:
            return {"kept": ctx.framework_request_state, "now": ctx.admission.extra}
        return input_required(framework_request_state=ctx.admission.extra)

    client = Client(server.asgi())
    state = client.call_tool("t").result["requestState"]
    assert client.call_tool("t", id=2, state=state).result["structuredContent"] == {"kept": extra, "now": extra}


def test_admission_is_needed_where_something_depends_on_who_is_calling() -> None:
    durable = ProtectionConfig(keyring=ring())
    for options in ({"protection": durable}, {"authenticate": lambda facts: Refusal(401)}):
        with pytest.raises(ValueError, match="ANONYMOUS"):
            Server("s", version="1", **options).asgi()  # type: ignore[arg-type]
        Server("s", version="1", admission=ANONYMOUS, **options).asgi()  # type: ignore[arg-type]
    Server("s", version="1").asgi()
    Server("s", version="1", protection=ProtectionConfig.ephemeral()).asgi()


def test_a_url_ask_needs_admission_also_when_it_is_registered_late() -> None:
    from mcpinput import InputRequestDeclaration, Requirement

    url = InputRequestDeclaration.from_elicitation_url(Requirement.CONDITIONAL)
    early = Server("s", version="1")
    early.tool("visit", input_requests=[url])(lambda ctx: "x")
    with pytest.raises(ValueError, match="URL"):
        early.asgi()
    late = Server("s", version="1")
    late.asgi()
    with pytest.raises(ValueError, match="URL"):
        late.tool("visit", input_requests=[url])(lambda ctx: "x")
    assert Client(late.asgi()).call_tool("visit").error["message"] == "Unknown tool: visit"


@pytest.mark.parametrize("authenticated", [False, True])
def test_credentials_that_nobody_looks_at_are_warned_of_once(
    authenticated: bool, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"authenticate": lambda facts: Identity("alice")} if authenticated else {}
    server = Server("s", version="1", admission=ANONYMOUS, **options)
    hello(server)
    client = Client(server.asgi())
    for name in (b"authorization", b"cookie", b"authorization"):
        client.call_tool("greet", headers={name: b"s3cret"})
    warnings = [record for record in caplog.records if "ANONYMOUS" in record.getMessage()]
    assert len(warnings) == 1
    assert "s3cret" not in caplog.text


# ---- observers and interceptors ----


def test_observer_interceptor_and_handler_see_one_context() -> None:
    seen: list[Any] = []

    class Watching(Observer):
        def on_request(self, ctx: RequestContext) -> None:
            seen.append(("request", ctx))

        def on_outcome(self, ctx: RequestContext, outcome: Any) -> None:
            seen.append((outcome.kind, ctx))

    async def interceptor(ctx: RequestContext, call_next: Any) -> Any:
        seen.append(("before", ctx))
        result = await call_next()
        seen.append(("after", ctx))
        return result

    server, entered = price_server(observer=Watching(), interceptors=[interceptor])
    client = Client(server.asgi())
    asked = client.call_tool("set_price", {}).result
    answers = {"price": {"action": "decline"}}
    client.call_tool("set_price", {}, id=2, state=asked["requestState"], answers=answers)
    first, second = entered
    around = ["request", "before", "after"]
    steps = [*around, "input_required", *around, "complete"]
    assert [step for step, _ in seen] == steps
    assert [ctx for _, ctx in seen] == [first] * 4 + [second] * 4
    assert second.input_responses.find("price") == {"action": "decline"}


def test_interceptors_nest_and_may_answer_in_the_handlers_place() -> None:
    order: list[str] = []

    def interceptor(name: str, *, answers: Any = None) -> Any:
        async def intercept(ctx: RequestContext, call_next: Any) -> Any:
            order.append(name)
            return answers if answers is not None else await call_next()

        return intercept

    server = Server("s", version="1", interceptors=[interceptor("outer"), interceptor("inner", answers="cached")])
    entered = hello(server)
    response = Client(server.asgi()).call_tool("greet")
    assert response.result["content"][0]["text"] == "cached"
    assert (order, entered) == (["outer", "inner"], [])


def test_what_an_interceptor_answers_is_checked_and_sealed_like_a_handlers() -> None:
    async def asks(ctx: RequestContext, call_next: Any) -> Any:
        return await call_next() if ctx.round else input_required({"k": ask_form()})

    server = Server("s", version="1", protection=ProtectionConfig.ephemeral(), interceptors=[asks])

    @server.tool("t", input_requests=[FORM], request_state=RequestStateMode.FRAMEWORK_PROTECTED)
    async def t(ctx: RequestContext) -> str:
        return "done"

    server.tool("undeclared")(lambda ctx: "x")
    client = Client(server.asgi())
    assert client.call_tool("t", capabilities={}).error["code"] == -32021
    state = client.call_tool("t").result["requestState"]
    assert client.call_tool("t", state=state, id=2).result["content"][0]["text"] == "done"
    assert client.call_tool("undeclared").error["code"] == -32603


@pytest.mark.parametrize("answer", [object(), float("nan"), RuntimeError("x"), ToolError("told")])
def test_an_interceptor_that_fails(answer: Any) -> None:
    async def interceptor(ctx: RequestContext, call_next: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    server = Server("s", version="1", interceptors=[interceptor])
    hello(server)
    response = Client(server.asgi()).call_tool("greet")
    if isinstance(answer, ToolError):
        assert response.result["isError"] is True
    else:
        assert response.error == {"code": -32603, "message": "Internal error"}


def test_an_observer_that_nobody_would_await_is_refused() -> None:
    class Waiting:
        async def on_request(self, ctx: RequestContext) -> None: ...

    with pytest.raises(TypeError, match=r"Waiting\.on_request"):
        Server("s", version="1", observers=[Waiting()])


def test_an_observer_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        def on_request(self, *event: Any) -> None:
            raise asyncio.CancelledError("observer")

        on_outcome = on_dropped = on_rejection = on_request

    recorder = Recorder()
    server, _ = price_server()
    plain = Client(server.asgi()).call_tool("set_price", {}).status
    server = Server("s", version="1", observers=[Failing(), recorder])
    hello(server)
    client = Client(server.asgi())
    assert client.call_tool("greet").status == plain == 200
    assert client.call_tool("nobody").status == 400
    assert len(recorder.requests) == len(recorder.outcomes) == len(recorder.rejections) == 1
    asking, _ = price_server(observer=Failing())
    assert Client(asking.asgi()).call_tool("set_price", {}).result["resultType"] == "input_required"
    assert set(asking.protection_keyring_manager.snapshot().sealing_reservations.values()) == {0}


def test_no_token_state_or_person_is_in_a_log_or_event(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    recorder = Recorder()
    server, entered = price_server(
        observer=recorder, admission=lambda facts, identity: Admission("p4rtition", "pr1ncipal", "t3nant")
    )
    client = Client(server.asgi())
    token = client.call_tool("set_price", {"card": "4111"}).result["requestState"]
    client.call_tool("set_price", {"card": "5555"}, id=2, state=token)
    client.call_tool("set_price", {"card": "4111"}, id=2, state=token[:-2] + "AA")
    shown = caplog.text + repr(recorder) + repr(server) + repr(entered)
    for secret in (token, token[:20], "p4rtition", "pr1ncipal", "t3nant", "4111", "5555", "'step'"):
        assert secret not in shown


def test_log_records_of_refused_tokens_are_limited_and_events_are_not(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    server, _ = price_server(observer=recorder)
    client = Client(server.asgi())
    for _ in range(60):
        client.call_tool("set_price", {}, state="x" * 200)
    records = [record for record in caplog.records if "request state refused" in record.getMessage()]
    assert 10 <= len(records) <= 30  # ten a second, over the two or three seconds that this may take at worst
    assert len(recorder.rejections) == 60


def test_the_context_cannot_be_changed() -> None:
    server, entered = price_server()
    Client(server.asgi()).call_tool("set_price", {})
    ctx = entered[0]
    for name in ("method", "round", "admission", "new"):
        with pytest.raises(AttributeError):
            setattr(ctx, name, 1)
    with pytest.raises(AttributeError):
        del ctx.method
    with pytest.raises(TypeError):
        ctx.meta["x"] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        ctx.client_capabilities["elicitation"]["form"]["x"] = 1
    assert ctx.meta is ctx.meta
    assert ctx.client_info is None
    assert ctx.expires_at is None
    assert (ctx.round, ctx.rounds_left) == (0, 10)


# ---- the key manager ----


def test_keys_are_rotated_live_without_refusing_anybody() -> None:
    from mcpinput import ProtectionKey
    from tests.support.servers import Clock

    clock = Clock()
    new_key = ProtectionKey.from_id_and_bytes("k2", bytes(range(1, 33)))
    (a, _), (b, _) = price_server(clock=clock), price_server(clock=clock)
    clients = [Client(server.asgi()) for server in (a, b)]

    def flow(first: Client, second: Client) -> str:
        state = first.call_tool("set_price", {}).result["requestState"]
        done = second.call_tool("set_price", {}, id=2, state=state, answers={"price": {"action": "decline"}})
        kind: str = done.result["resultType"]
        return kind

    def all_flows() -> set[str]:
        return {flow(first, second) for first in clients for second in clients}

    old = clients[0].call_tool("set_price", {}).result["requestState"]
    for step in ("stage_verification_key", "activate_staged_key"):
        for server in (a, b):
            manager = server.protection_keyring_manager
            getattr(manager, step)(new_key if step.startswith("stage") else "k2")
            assert all_flows() == {"complete"}
        prints = {server.protection_keyring_manager.snapshot().fingerprint for server in (a, b)}
        assert len(prints) == 1
    retry = {"state": old, "answers": {"price": {"action": "decline"}}}
    assert clients[1].call_tool("set_price", {}, id=3, **retry).result["resultType"] == "complete"
    for server in (a, b):
        server.protection_keyring_manager.remove_verification_key("k1")
        assert all_flows() == {"complete"}
    assert clients[1].call_tool("set_price", {}, id=3, **retry).status == 400


def test_a_key_stays_reserved_until_the_ask_has_been_sent() -> None:
    from mcpinput import ProtectionKey, ProtectionKeyInUseError

    server, _ = price_server()
    manager = server.protection_keyring_manager
    manager.rotate_active_key(ProtectionKey.from_id_and_bytes("k2", bytes(range(1, 33))))
    app = server.asgi()
    client = Client(app)
    held: list[int] = []

    async def receive() -> dict[str, Any]:
        body = (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"set_price","_meta":{'
            b'"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
            b'"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}'
        )
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        held.append(manager.snapshot().sealing_reservations.get("k2", 0))
        manager.activate_staged_key("k1")
        with pytest.raises(ProtectionKeyInUseError):
            manager.remove_verification_key("k2")
        manager.activate_staged_key("k2")
        if message["type"] == "http.response.body":
            raise ConnectionError("the client is gone")

    headers = list(client.headers("tools/call", {"name": "set_price"}).items())
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers, "client": None}
    with pytest.raises(ConnectionError):
        asyncio.run(app(scope, receive, send))
    assert held == [1, 1]
    assert manager.snapshot().sealing_reservations.get("k2", 0) == 0
    manager.remove_verification_key("k1")


def test_a_server_without_a_ring_says_so() -> None:
    with pytest.raises(LookupError, match="no keyring"):
        Server("s", version="1").protection_keyring_manager  # noqa: B018 - the property raises
