"""The flow: a handler asks, the client retries with answers, the handler completes. In every kind of operation."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import gc
import json
from decimal import Decimal
from typing import Any

import pytest

from mcpinput import (
    Absent,
    CompleteResult,
    InputRequest,
    InputRequestDeclaration,
    InputRequiredResult,
    McpError,
    ProtectionConfig,
    RequestContext,
    RequestStateMode,
    Requirement,
    Server,
    TextResourceContents,
    ToolError,
    input_required,
)
from tests.support.asgi import ALL_CAPABILITIES, Client, meta
from tests.support.servers import FORM, Clock, Recorder, accept, anybody, ask_form, price_server, ring

FRAMEWORK = RequestStateMode.FRAMEWORK_PROTECTED
APPLICATION = RequestStateMode.APPLICATION_PROTECTED
NONE = RequestStateMode.NONE


def operations(client: Client) -> dict[str, Any]:
    """How each kind of operation is called, and where its text is."""
    return {
        "tool": (lambda **more: client.call_tool("set_price", {}, **more), lambda r: r["content"][0]["text"]),
        "prompt": (
            lambda **more: client.get_prompt("ask_price", {}, **more),
            lambda r: r["messages"][0]["content"]["text"],
        ),
        "resource": (lambda **more: client.read_resource("price://all", **more), lambda r: r["contents"][0]["text"]),
        "template": (
            lambda **more: client.read_resource("price://tea%20pot", **more),
            lambda r: r["contents"][0]["text"],
        ),
    }


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "template"])
def test_every_kind_of_operation_asks_and_completes(kind: str) -> None:
    server, entered = price_server()
    call, text = operations(Client(server.asgi()))[kind]
    asked = call(id=1).result
    assert asked["resultType"] == "input_required"
    assert asked["inputRequests"] == {
        "price": {
            "method": "elicitation/create",
            "params": {
                "mode": "form",
                "message": "How much?",
                "requestedSchema": {"type": "object", "properties": {"price": {"type": "number"}}},
            },
        }
    }
    done = call(id=2, state=asked["requestState"], answers=accept(price=3.5)).result
    assert done["resultType"] == "complete"
    assert text(done) == "price Decimal('3.5') state {'step': 10}"
    assert [ctx.round for ctx in entered] == [0, 1]


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "template"])
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_decline_and_cancel_reach_the_handler_whatever_content_is_left(kind: str, action: str) -> None:
    server, _ = price_server()
    call, text = operations(Client(server.asgi()))[kind]
    for content in ({}, {"content": {"price": 3}}, {"content": {"price": "x"}}, {"content": None}):
        state = call(id=1).result["requestState"]
        done = call(id=2, state=state, answers={"price": {"action": action, **content}}).result
        assert text(done) == ("declined" if action == "decline" else "cancelled")


def test_exact_decimals_reach_the_handler() -> None:
    server, _ = price_server()
    client = Client(server.asgi())
    state = client.call_tool("set_price", {}).result["requestState"]
    params = (
        b'{"name":"set_price","arguments":{},"requestState":"%b","inputResponses":{"price":{"action":"accept",'
        b'"content":{"price":3.50}}},"_meta":%b}'
    ) % (state.encode(), json.dumps(meta()).encode())
    done = client.request("tools/call", {"name": "set_price"}, id=2, raw_params=params).result
    assert done["content"][0]["text"] == "price Decimal('3.50') state {'step': 10}"


def test_an_ask_has_nothing_of_a_complete_result() -> None:
    server, _ = price_server()
    for call, _ in operations(Client(server.asgi())).values():
        asked = call(id=1).result
        assert set(asked) == {"resultType", "inputRequests", "requestState", "_meta"}
        assert asked["_meta"] == {"io.modelcontextprotocol/serverInfo": {"name": "prices", "version": "1"}}


def test_a_retried_resource_is_not_to_be_cached() -> None:
    server, _ = price_server()

    @server.resource("price://cached", input_requests=[FORM])
    def cached(ctx: RequestContext) -> CompleteResult:
        return CompleteResult.from_resource_contents(
            [TextResourceContents("price://cached", "x")], ttl_ms=60_000, cache_scope="public"
        )

    client = Client(server.asgi())
    plain = client.read_resource("price://cached").result
    assert (plain["ttlMs"], plain["cacheScope"]) == (60_000, "public")
    retried = client.read_resource("price://cached", answers={"k": {"action": "accept"}}).result
    assert (retried["ttlMs"], retried["cacheScope"]) == (0, "private")


def test_only_what_was_not_answered_is_asked_again_and_the_last_state_holds() -> None:
    server = Server("s", version="1", protection=ProtectionConfig.ephemeral())

    @server.tool("two", input_requests=[FORM], request_state=FRAMEWORK)
    async def two(ctx: RequestContext) -> Any:
        state = ctx.framework_request_state
        known: dict[str, Any] = state.copy() if isinstance(state, dict) else {}
        for key in ("a", "b"):
            value = ctx.input_responses.find(key)
            if value is not None:
                known[key] = value["content"]["v"]  # type: ignore[index]
        missing = [key for key in ("a", "b") if key not in known]
        if missing:
            return input_required({key: ask_form() for key in missing}, framework_request_state=known)
        return known

    client = Client(server.asgi())
    first = client.call_tool("two", id=1).result
    assert list(first["inputRequests"]) == ["a", "b"]
    again = client.call_tool("two", id=2, state=first["requestState"], answers={}).result
    assert list(again["inputRequests"]) == ["a", "b"]
    second = client.call_tool(
        "two", id=3, state=again["requestState"], answers={"a": {"action": "accept", "content": {"v": 1.50}}}
    ).result
    assert list(second["inputRequests"]) == ["b"]
    unknown = client.call_tool("two", id=4, state=second["requestState"], answers={"zzz": {"action": "accept"}}).result
    assert list(unknown["inputRequests"]) == ["b"]
    done = client.call_tool(
        "two", id=5, state=unknown["requestState"], answers={"b": {"action": "accept", "content": {"v": "x"}}, "q": 7}
    ).result
    assert done["structuredContent"] == {"a": Decimal("1.5"), "b": "x"}


def test_state_comes_back_canonical_and_typed() -> None:
    import msgspec

    class Step(msgspec.Struct):
        count: int
        price: Decimal

    server = Server("s", version="1", protection=ProtectionConfig.ephemeral())
    seen: list[Any] = []

    @server.tool("t", request_state=FRAMEWORK)
    async def t(ctx: RequestContext) -> Any:
        if not ctx.has_request_state:
            assert ctx.framework_request_state is None
            assert ctx.expires_at is None
            with pytest.raises(LookupError):
                ctx.state(Step)
            return (
                InputRequiredResult.builder()
                .framework_request_state({"price": Decimal("1.50"), "count": 10, "big": 10**30})
                .build()
            )
        seen.append((ctx.framework_request_state, ctx.state(Step), ctx.flow_id, ctx.expires_at))
        return "ok"

    client = Client(server.asgi())
    asked = client.call_tool("t", id=1).result
    assert "inputRequests" not in asked
    client.call_tool("t", id=2, state=asked["requestState"]).result  # noqa: B018 - raises where there is an error
    state, step, flow_id, expires_at = seen[0]
    assert state == {"price": Decimal("1.5"), "count": 10, "big": 10**30}
    assert isinstance(state["count"], int)
    assert str(state["price"]) == "1.5"
    assert list(state) == ["big", "count", "price"]
    assert (step.count, step.price) == (10, Decimal("1.5"))
    assert len(flow_id) == 16
    assert expires_at.tzinfo is not None
    with pytest.raises(TypeError, match="copy"):
        state["count"] = 11


def test_typed_state_is_no_way_to_change_the_verified_one() -> None:
    server = Server("s", version="1", protection=ProtectionConfig.ephemeral())
    seen: list[Any] = []

    @server.tool("t", request_state=FRAMEWORK)
    async def t(ctx: RequestContext) -> Any:
        if not ctx.has_request_state:
            return input_required(framework_request_state={"list": [1], "object": {"a": 1}})
        for change in (
            lambda: ctx.state(dict)["list"].append(9),
            lambda: ctx.state(dict)["object"].update(a=9),
            lambda: ctx.state(dict[str, Any])["list"].append(9),
        ):
            with contextlib.suppress(TypeError):
                change()
        ctx.state(dict[str, list[int] | dict[str, int]])["list"].append(9)  # type: ignore[union-attr]
        seen.append((ctx.framework_request_state, ctx.state()))
        return "ok"

    client = Client(server.asgi())
    state = client.call_tool("t", id=1).result["requestState"]
    client.call_tool("t", id=2, state=state)
    assert seen == [({"list": [1], "object": {"a": 1}},) * 2]


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, "x", [1, {"a": None}]])
def test_any_json_value_is_state_and_null_is_told_from_none(value: Any) -> None:
    server = Server("s", version="1", protection=ProtectionConfig.ephemeral())
    seen: list[Any] = []

    @server.tool("t", request_state=FRAMEWORK)
    async def t(ctx: RequestContext) -> Any:
        if ctx.has_request_state:
            seen.append(ctx.framework_request_state)
            return "ok"
        return input_required(framework_request_state=value)

    client = Client(server.asgi())
    state = client.call_tool("t", id=1).result["requestState"]
    client.call_tool("t", id=2, state=state)
    assert seen == [value]
    assert type(seen[0]) is type(value) or isinstance(seen[0], type(value))


def test_in_framework_mode_every_ask_carries_a_token_even_without_state() -> None:
    server = Server("s", version="1", protection=ProtectionConfig.ephemeral())

    @server.tool("t", input_requests=[FORM], request_state=FRAMEWORK)
    async def t(ctx: RequestContext) -> Any:
        assert not ctx.has_request_state
        return f"round {ctx.round}" if ctx.round else input_required({"k": ask_form()})

    client = Client(server.asgi())
    state = client.call_tool("t", id=1).result["requestState"]
    assert client.call_tool("t", id=2, state=state).result["content"][0]["text"] == "round 1"


def test_answers_without_the_token_are_not_shown_in_framework_mode() -> None:
    recorder = Recorder()
    server, entered = price_server(observer=recorder)
    asked = Client(server.asgi()).call_tool("set_price", {}, answers={**accept(price=1), "odd": 7}).result
    assert asked["resultType"] == "input_required"
    assert dict(entered[0].input_responses) == {}
    assert (recorder.drops[0].keys, recorder.drops[0].reason) == (("price", "odd"), "no state")


@pytest.mark.parametrize(
    "question",
    [
        ask_form("Delete ALL prices?"),
        ask_form("How much?", {"type": "object", "properties": {"price": {"type": "integer"}}}),
        ask_form("How much?", {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}),
    ],
)
def test_an_answer_to_another_wording_or_schema_is_absent(question: InputRequest) -> None:
    """A redeployed server asks something else under the same key: the old answer must not count."""
    clock = Clock()
    old, _ = price_server(clock=clock)
    protection = ProtectionConfig(keyring=ring(), clock=clock)
    new = Server("prices", version="2", protection=protection, admission=anybody)

    @new.tool("set_price", input_requests=[FORM], request_state=FRAMEWORK)
    async def set_price(ctx: RequestContext) -> Any:
        answer = ctx.input_responses.elicitation("price", question)
        return input_required({"price": question}) if isinstance(answer, Absent) else "deleted"

    state = Client(old.asgi()).call_tool("set_price", {}, id=1).result["requestState"]
    client = Client(new.asgi())
    again = client.call_tool("set_price", {}, id=2, state=state, answers=accept(price=1)).result
    assert again["inputRequests"]["price"]["params"] == question.params
    done = client.call_tool("set_price", {}, id=3, state=again["requestState"], answers=accept(price=1)).result
    assert done["content"][0]["text"] == "deleted"


# ---- input responses ----


@pytest.mark.parametrize("responses", [[], "x", 7, None, True, 1.5])
def test_input_responses_must_be_an_object(responses: Any) -> None:
    server, entered = price_server()
    client = Client(server.asgi())
    state = client.call_tool("set_price", {}).result["requestState"]
    entered.clear()
    params = {"name": "set_price", "arguments": {}, "requestState": state, "inputResponses": responses}
    response = client.request("tools/call", {**params, "_meta": meta()}, id=2)
    assert (response.status, response.error["code"]) == (400, -32602)
    assert "inputResponses" in response.error["message"]
    assert entered == []


@pytest.mark.parametrize(
    "value",
    [
        7,
        [],
        None,
        {},
        "accept",
        True,
        {"roots": [7]},
        {"roots": []},
        {"action": "reject"},
        {"action": "ACCEPT"},
        {"action": "accept "},
        {"action": ""},
        {"action": 1},
        {"action": None},
        {"content": {"price": 1}},
        {"action": "accept", "content": {"price": None}},
        {"action": "accept", "content": {"price": {"v": 1}}},
        {"action": "accept", "content": {"price": [1]}},
        {"action": "accept", "content": {"price": ["a", 1]}},
        {"action": "accept", "content": []},
        {"action": "accept", "content": "x"},
        {"error": {"code": -32603, "message": "x"}},
        {"code": -1, "message": "x"},
        {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"},
    ],
)
def test_a_malformed_answer_to_what_was_asked_is_refused_by_key(value: Any) -> None:
    server, entered = price_server()
    client = Client(server.asgi())
    state = client.call_tool("set_price", {}).result["requestState"]
    entered.clear()
    response = client.call_tool("set_price", {}, id=2, state=state, answers={"price": value})
    assert (response.status, response.error["code"]) == (400, -32602)
    assert "'price'" in response.error["message"]
    assert entered == []
    # Nothing is lost: the same token takes the right answer.
    assert (
        client.call_tool("set_price", {}, id=3, state=state, answers=accept(price=1)).result["resultType"] == "complete"
    )


@pytest.mark.parametrize(
    "value",
    [
        {"action": "accept"},
        {"action": "accept", "content": None},
        {"action": "accept", "content": {}},
        {"action": "accept", "content": {"price": 19, "note": "x", "ok": True, "tags": ["a", "b"], "none": []}},
        {"action": "accept", "resultType": "complete", "content": {"price": 1}, "_meta": {}, "extra": {"deep": [1]}},
        {"action": "decline"},
        {"action": "cancel"},
    ],
)
def test_a_well_formed_answer_is_taken_with_whatever_more_it_has(value: Any) -> None:
    server, entered = price_server()
    client = Client(server.asgi())
    state = client.call_tool("set_price", {}).result["requestState"]
    assert (
        client.call_tool("set_price", {}, id=2, state=state, answers={"price": value}).result["resultType"]
        == "complete"
    )
    assert entered[-1].input_responses.find("price") == value


def test_malformed_values_under_keys_that_nobody_asked_are_dropped_and_observed() -> None:
    recorder = Recorder()
    server, entered = price_server(observer=recorder)
    client = Client(server.asgi())
    state = client.call_tool("set_price", {}).result["requestState"]
    answers = {**accept(price=1), "odd": 7, "fine": {"action": "accept"}}
    assert client.call_tool("set_price", {}, id=2, state=state, answers=answers).result["resultType"] == "complete"
    assert set(entered[-1].input_responses) == {"price", "fine"}
    assert type(entered[-1].input_responses.elicitation("fine")).__name__ == "Absent"
    assert (recorder.drops[-1].keys, recorder.drops[-1].reason) == (("odd",), "malformed")


def test_where_no_state_is_opened_every_answer_must_fit_the_union() -> None:
    server = Server("s", version="1")

    @server.tool("t", input_requests=[FORM])
    async def t(ctx: RequestContext) -> Any:
        return sorted(ctx.input_responses) or "none"

    client = Client(server.asgi())
    bad = client.call_tool("t", answers={"a": {"action": "accept"}, "b": {"a": 1}})
    assert (bad.status, bad.error["code"]) == (400, -32602)
    assert "'b'" in bad.error["message"]
    good = {
        "a": {"action": "accept"},
        "b": {"role": "user", "content": {"type": "text", "text": "x"}, "model": "m"},
        "c": {"roots": [{"uri": "file:///x"}]},
    }
    assert client.call_tool("t", answers=good).result["structuredContent"] == ["a", "b", "c"]
    not_file = client.call_tool("t", answers={"c": {"roots": [{"uri": "http://x"}]}})
    assert (not_file.status, not_file.error["code"]) == (400, -32602)


def test_all_kinds_in_one_round_answered_in_any_order() -> None:
    declarations = [
        FORM,
        InputRequestDeclaration.from_elicitation_url(Requirement.CONDITIONAL),
        InputRequestDeclaration.from_sampling(Requirement.CONDITIONAL),
        InputRequestDeclaration.from_roots(Requirement.CONDITIONAL),
    ]
    _, url, sampling, roots = declarations
    server = Server("s", version="1", protection=ProtectionConfig.ephemeral(), admission=anybody)
    seen: list[Any] = []
    requests = {
        "form": ask_form(),
        "url": InputRequest.from_declaration(
            url, {"mode": "url", "message": "Visit", "url": "https://example.com/x"}, unmanaged=True
        ),
        "llm": InputRequest.from_declaration(
            sampling,
            {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5},
        ),
        "dirs": InputRequest.from_declaration(roots, {}),
    }

    with pytest.warns(DeprecationWarning, match="deprecated in revision") as warned:

        @server.tool("t", input_requests=declarations, request_state=FRAMEWORK)
        async def t(ctx: RequestContext) -> Any:
            if ctx.round == 0:
                return input_required(requests)
            answers = ctx.input_responses
            seen.append(
                [
                    answers.elicitation("form"),
                    answers.elicitation("url"),
                    answers.sampling("llm"),
                    answers.roots("dirs"),
                ]
            )
            return "done"

    assert len(warned) == 2
    client = Client(server.asgi())
    asked = client.call_tool("t", id=1).result
    assert {key: request["method"] for key, request in asked["inputRequests"].items()} == {
        "form": "elicitation/create",
        "url": "elicitation/create",
        "llm": "sampling/createMessage",
        "dirs": "roots/list",
    }
    assert set(asked["inputRequests"]["url"]["params"]) == {"mode", "message", "url"}
    answers = {
        "dirs": {"roots": []},
        "llm": {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"},
        "url": {"action": "accept", "content": {"x": 1}},
        "form": {"action": "accept", "content": {"price": 1}},
    }
    assert client.call_tool("t", id=2, state=asked["requestState"], answers=answers).result["resultType"] == "complete"
    names = [type(answer).__name__ for answer in seen[0]]
    assert names == ["Accepted", "Accepted", "Sampled", "Rooted"]
    assert dict(seen[0][0].content) == {"price": 1}
    assert dict(seen[0][1].content) == {}


# ---- capabilities ----


@pytest.mark.parametrize("requirement", [Requirement.REQUIRED, Requirement.CONDITIONAL])
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "template"])
def test_everything_that_the_client_cannot_do_is_in_one_error(requirement: Requirement, kind: str) -> None:
    form = InputRequestDeclaration.from_elicitation_form(requirement)
    url = InputRequestDeclaration.from_elicitation_url(requirement)
    server = Server("s", version="1", protection=ProtectionConfig.ephemeral(), admission=anybody)
    entered: list[Any] = []
    asked = {
        "f": InputRequest.from_declaration(
            form, {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}
        ),
        "u": InputRequest.from_declaration(
            url, {"mode": "url", "message": "secret message", "url": "https://example.com/secret"}, unmanaged=True
        ),
    }
    options: dict[str, Any] = {"input_requests": [form, url], "request_state": FRAMEWORK}

    def handle(ctx: RequestContext) -> Any:
        entered.append(ctx)
        return input_required(asked, framework_request_state="secret state")

    server.tool("set_price", **options)(handle)
    server.prompt("ask_price", **options)(handle)
    server.resource("price://all", **options)(handle)
    server.resource("price://{sku}", **options)(handle)
    call, _ = operations(Client(server.asgi()))[kind]
    for capabilities, missing in (
        ({}, {"elicitation": {"form": {}, "url": {}}}),
        ({"sampling": {}}, {"elicitation": {"form": {}, "url": {}}}),
        ({"elicitation": {}}, {"elicitation": {"url": {}}}),
        ({"elicitation": {"url": {}}}, {"elicitation": {"form": {}}}),
    ):
        entered.clear()
        response = call(capabilities=capabilities, id="x")
        assert response.status == 400
        assert response.json["id"] == "x"
        assert response.error["code"] == -32021
        assert response.error["data"] == {"requiredCapabilities": missing}
        assert b"secret" not in response.body
        assert len(entered) == (requirement is Requirement.CONDITIONAL)
    assert call(capabilities={"elicitation": {"form": {}, "url": {}}}).result["resultType"] == "input_required"


def test_missing_capabilities_come_before_state_is_looked_at() -> None:
    form = InputRequestDeclaration.from_elicitation_form(Requirement.REQUIRED)
    server = Server("s", version="1", protection=ProtectionConfig.ephemeral())

    @server.tool("t", input_requests=[form], request_state=FRAMEWORK)
    async def t(ctx: RequestContext) -> Any:
        return "never"

    response = Client(server.asgi()).call_tool("t", state="garbage", answers={"a": 7}, capabilities={})
    assert response.error["code"] == -32021


def test_sampling_with_tools_needs_that_part() -> None:
    plain = InputRequestDeclaration.from_sampling(Requirement.REQUIRED, tools=True)
    server = Server("s", version="1")

    with pytest.warns(DeprecationWarning, match="sampling/createMessage"):

        @server.tool("t", input_requests=[plain])
        async def t(ctx: RequestContext) -> Any:
            return "ok"

    client = Client(server.asgi())
    response = client.call_tool("t", capabilities={"sampling": {}})
    assert response.error["data"] == {"requiredCapabilities": {"sampling": {"tools": {}}}}
    assert client.call_tool("t", capabilities={"sampling": {"tools": {}}}).result["resultType"] == "complete"


@pytest.mark.parametrize(
    "elicitation", [None, True, [], "form", 1, {"form": True}, {"url": []}, {"form": None}, {"form": {}, "url": "x"}]
)
def test_a_malformed_capability_is_invalid_params(elicitation: Any) -> None:
    server, entered = price_server()
    response = Client(server.asgi()).call_tool("set_price", {}, capabilities={"elicitation": elicitation})
    assert (response.status, response.error["code"]) == (400, -32602)
    assert "elicitation" in response.error["message"]
    assert entered == []


@pytest.mark.parametrize("elicitation", [{}, {"form": {}}, {"Form": {}}, {"x": {}}, {"form": {"deep": 1}, "url": {}}])
def test_what_means_form(elicitation: Any) -> None:
    server, _ = price_server()
    response = Client(server.asgi()).call_tool("set_price", {}, capabilities={"elicitation": elicitation})
    assert response.result["resultType"] == "input_required"


# ---- state modes ----


def test_application_state_passes_through_untouched() -> None:
    server = Server("s", version="1")
    seen: list[Any] = []

    @server.tool("t", request_state=APPLICATION)
    async def t(ctx: RequestContext) -> Any:
        if ctx.has_request_state:
            seen.append((ctx.application_request_state, ctx.framework_request_state))
            return "ok"
        return input_required(application_request_state="handle é  ")

    client = Client(server.asgi())
    state = client.call_tool("t").result["requestState"]
    assert state == "handle é  "
    client.call_tool("t", state=state, id=2)
    client.call_tool("t", state="whatever comes", id=2)
    assert seen == [("handle é  ", None), ("whatever comes", None)]


@pytest.mark.parametrize("state", ["", "x" * 65_537, "é" * 32_769])
def test_bad_application_state_is_the_frozen_answer(state: str) -> None:
    server = Server("s", version="1")
    entered: list[Any] = []

    @server.tool("t", request_state=APPLICATION)
    async def t(ctx: RequestContext) -> Any:
        entered.append(ctx)
        return "ok"

    client = Client(server.asgi())
    response = client.call_tool("t", state=state)
    assert (response.status, response.error["data"]) == (400, {"reason": "invalid_request_state"})
    assert entered == []
    assert client.call_tool("t", state="é" * 32_768).result["resultType"] == "complete"


def test_a_token_where_none_is_used_is_the_frozen_answer() -> None:
    server = Server("s", version="1")

    @server.tool("t")
    async def t(ctx: RequestContext) -> Any:
        return "ok"

    response = Client(server.asgi()).call_tool("t", state="anything")
    assert (response.status, response.error["data"]) == (400, {"reason": "invalid_request_state"})


@pytest.mark.parametrize(
    ("mode", "state"),
    [
        (NONE, {"application_request_state": "x"}),
        (NONE, {"framework_request_state": 1}),
        (APPLICATION, {"framework_request_state": 1}),
        (APPLICATION, {"application_request_state": "x" * 65_537}),
        (FRAMEWORK, {"application_request_state": "x"}),
        (FRAMEWORK, {"framework_request_state": "x" * 50_000}),
        (FRAMEWORK, {"framework_request_state": 0.1}),
        (FRAMEWORK, {"framework_request_state": {"a": float("nan")}}),
        (FRAMEWORK, {"framework_request_state": {"a": 10**5000}}),
        (FRAMEWORK, {"framework_request_state": {"a": object()}}),
        (FRAMEWORK, {"framework_request_state": "\ud800"}),
    ],
)
def test_state_that_does_not_fit_is_an_internal_error_without_detail(
    mode: RequestStateMode, state: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s", version="1", protection=ProtectionConfig.ephemeral())

    @server.tool("t", request_state=mode)
    async def t(ctx: RequestContext) -> Any:
        return input_required(**state)

    response = Client(server.asgi()).call_tool("t")
    assert (response.status, response.error["code"]) == (200, -32603)
    assert response.error["message"] in ("Internal error", "Request state could not be sealed")
    assert "data" not in response.error
    assert caplog.records


def test_framework_mode_without_protection_is_refused_at_registration() -> None:
    server = Server("s", version="1")
    with pytest.raises(ValueError, match="ephemeral"):
        server.tool("t", request_state=FRAMEWORK)(lambda ctx: "x")


def test_an_undeclared_ask_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", version="1")

    @server.tool("t")
    async def t(ctx: RequestContext) -> Any:
        return input_required({"secret key": ask_form("secret message")})

    response = Client(server.asgi()).call_tool("t")
    assert (response.status, response.error) == (200, {"code": -32603, "message": "Internal error"})
    assert "did not declare" in caplog.text


# ---- what handlers answer ----


def test_errors_of_handlers() -> None:
    server = Server("s", version="1")

    @server.tool("tool_error")
    def tool_error(ctx: RequestContext) -> Any:
        raise ToolError("no such item")

    @server.tool("mcp_error")
    async def mcp_error(ctx: RequestContext) -> Any:
        raise McpError(7, "busy", {"after": Decimal("1.50")})

    @server.tool("bad_data")
    async def bad_data(ctx: RequestContext) -> Any:
        raise McpError(7, "busy", {"after": float("inf")})

    class Lazy(enum.Enum):
        A = 1

        @property
        def value(self) -> Any:
            raise SystemExit("secret")

    @server.tool("lazy_data")
    async def lazy_data(ctx: RequestContext) -> Any:
        raise McpError(7, "busy", {"after": Lazy.A})

    @server.tool("long")
    async def long(ctx: RequestContext) -> Any:
        raise McpError(7, "x" * 5_000_000)

    @server.tool("crash")
    async def crash(ctx: RequestContext) -> Any:
        raise RuntimeError("password=hunter2")

    @server.prompt("prompt_error")
    async def prompt_error(ctx: RequestContext) -> Any:
        raise ToolError("a prompt has no isError")

    client = Client(server.asgi())
    assert client.call_tool("tool_error").result["isError"] is True
    assert client.call_tool("tool_error").result["content"] == [{"type": "text", "text": "no such item"}]
    response = client.call_tool("mcp_error")
    assert (response.status, response.error) == (
        200,
        {"code": 7, "message": "busy", "data": {"after": Decimal("1.50")}},
    )
    assert client.call_tool("bad_data").error == {"code": 7, "message": "busy"}
    assert client.call_tool("lazy_data").error == {"code": 7, "message": "busy"}
    for crashed in (client.call_tool("crash"), client.call_tool("long"), client.get_prompt("prompt_error")):
        assert (crashed.status, crashed.error) == (200, {"code": -32603, "message": "Internal error"})


def test_a_builder_that_was_not_ended_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", version="1")
    server.tool("builder", input_requests=[FORM])(lambda ctx: InputRequiredResult.with_input_request("k", ask_form()))
    server.tool("request", input_requests=[FORM])(lambda ctx: ask_form())
    client = Client(server.asgi())
    assert client.call_tool("builder").error["code"] == client.call_tool("request").error["code"] == -32603
    assert ".build()" in caplog.text
    assert "input_required({key: request})" in caplog.text


@pytest.mark.parametrize(
    "value", [float("nan"), {"a": [float("inf")]}, {"a": {1: 2}}, object(), "\ud800", {"a": 10**5000}, b"bytes"]
)
def test_what_cannot_be_written_is_an_internal_error(value: Any) -> None:
    server = Server("s", version="1")
    server.tool("t")(lambda ctx: value)
    response = Client(server.asgi()).call_tool("t")
    assert (response.status, response.error) == (200, {"code": -32603, "message": "Internal error"})


def test_a_result_that_is_too_deep_or_contains_itself_is_an_internal_error() -> None:
    server = Server("s", version="1")
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    loop: dict[str, Any] = {}
    loop["self"] = loop
    server.tool("deep")(lambda ctx: {"deep": deep})
    server.tool("loop")(lambda ctx: loop)
    client = Client(server.asgi())
    for name in ("deep", "loop"):
        assert client.call_tool(name).error == {"code": -32603, "message": "Internal error"}
    while deep:  # taken apart step by step: freeing it at once would recurse
        deep = deep[0]


def test_handlers_may_be_plain_functions_and_see_only_their_own_arguments() -> None:
    server = Server("s", version="1")
    arguments_seen: list[Any] = []

    @server.tool("t", input_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    def t(ctx: RequestContext, arguments: dict[str, Any]) -> Any:
        arguments["more"] = 1
        arguments_seen.append(arguments)
        return {"n": arguments["n"]}

    client = Client(server.asgi())
    assert client.call_tool("t", {"n": 5}).result["structuredContent"] == {"n": 5}
    assert client.call_tool("t", {"n": 5}).result["structuredContent"] == {"n": 5}
    wrong = client.call_tool("t", {"n": "five"}).result
    assert wrong["isError"] is True
    assert "$.n" in wrong["content"][0]["text"]
    assert len(arguments_seen) == 2


def test_two_clients_with_the_same_id_at_once_do_not_meet() -> None:
    server, _ = price_server()
    client = Client(server.asgi())

    async def one(price: int) -> str:
        headers = client.headers("tools/call", {"name": "set_price"})

        async def call(request_id: int, **params: Any) -> Any:
            body = {
                "jsonrpc": "2.0",
                "id": request_id,
                "method": "tools/call",
                "params": {"name": "set_price", "arguments": {}, "_meta": meta(), **params},
            }
            return (await client.exchange(json.dumps(body).encode(), headers)).result

        asked = await call(1)
        await asyncio.sleep(0)
        done = await call(2, requestState=asked["requestState"], inputResponses=accept(price=price))
        text: str = done["content"][0]["text"]
        return text

    async def both() -> list[str]:
        return list(await asyncio.gather(*(one(price) for price in range(20))))

    assert asyncio.run(both()) == [f"price {price} state {{'step': 10}}" for price in range(20)]


def test_asks_that_nobody_answers_leave_nothing_behind() -> None:
    server, entered = price_server()
    client = Client(server.asgi())
    headers = client.headers("tools/call", {"name": "set_price"})
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "set_price", "arguments": {}, "_meta": meta()},
        }
    ).encode()

    async def run(times: int) -> None:
        for _ in range(times):
            await client.exchange(body, headers)
            await asyncio.sleep(0)  # the loop throws cancelled timers away between two steps
            entered.clear()

    async def measure() -> tuple[int, int]:
        await run(200)
        gc.collect()
        before = len(gc.get_objects())
        await run(3000)
        gc.collect()
        return before, len(gc.get_objects())

    before, after = asyncio.run(measure())
    assert after - before < 600  # up to some hundred cancelled timers wait for the loop; an ask keeps nothing
    assert server.protection_keyring_manager.snapshot().sealing_reservations.get("k1", 0) == 0


@pytest.mark.parametrize(
    "method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"]
)
def test_answers_are_ignored_where_nothing_can_be_asked(method: str) -> None:
    server, _ = price_server()
    client = Client(server.asgi())
    plain = client.request(method).result
    assert plain["resultType"] == "complete"
    params = {"inputResponses": {"a": 7}, "requestState": 7, "_meta": meta()}
    assert client.request(method, params).result == plain


def test_capabilities_that_are_not_asked_for_are_not_needed() -> None:
    server, _ = price_server()
    client = Client(server.asgi())
    for method in ("tools/list", "server/discover"):
        assert client.request(method, capabilities={}).result["resultType"] == "complete"
    assert ALL_CAPABILITIES["elicitation"]


def test_the_flow_id_is_one_from_the_first_request_to_the_last_and_new_in_each_flow() -> None:
    server, entered = price_server()

    async def reads_it_first(ctx: RequestContext, call_next: Any) -> Any:
        assert len(ctx.flow_id) == 16
        return await call_next()

    server_that_reads, entered_there = price_server(interceptors=[reads_it_first])
    flows = set()
    for client, contexts in ((Client(server.asgi()), entered), (Client(server_that_reads.asgi()), entered_there)):
        for _ in range(2):
            contexts.clear()
            state = client.call_tool("set_price", {}, id=1).result["requestState"]
            state = client.call_tool("set_price", {}, id=2, state=state).result["requestState"]
            client.call_tool("set_price", {}, id=3, state=state, answers=accept(price=1))
            assert len(contexts) == 3
            assert len({ctx.flow_id for ctx in contexts}) == 1
            flows.add(contexts[0].flow_id)
    assert len(flows) == 4


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), BaseExceptionGroup("g", [SystemExit()])])
@pytest.mark.parametrize("in_thread", [False, True])
def test_a_handler_that_means_to_end_the_process_ends_its_request(error: BaseException, in_thread: bool) -> None:
    server = Server("s", version="1")

    def crash(ctx: RequestContext) -> Any:
        raise error

    async def crash_on_the_loop(ctx: RequestContext) -> Any:
        raise error

    server.tool("crash")(crash if in_thread else crash_on_the_loop)
    response = Client(server.asgi()).call_tool("crash")
    assert (response.status, response.error) == (200, {"code": -32603, "message": "Internal error"})


def test_a_handler_in_a_thread_that_runs_out_of_items_still_answers() -> None:
    """A future cannot carry StopIteration; the request would never end."""
    server = Server("s", version="1")

    @server.tool("next")
    def find(ctx: RequestContext, arguments: dict[str, Any]) -> Any:
        return next(item for item in [1, 2] if item == arguments.get("wanted"))

    client = Client(server.asgi())
    assert client.call_tool("next", {"wanted": 3}).error == {"code": -32603, "message": "Internal error"}
    assert client.call_tool("next", {"wanted": 2}).result["structuredContent"] == 2


def test_a_fault_of_the_library_itself_is_answered_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    server, _ = price_server(observer=recorder)

    def fails(*parts: Any) -> Any:
        raise AssertionError("a fault")

    monkeypatch.setattr("mcpinput.server.dispatcher.input_responses_of", fails)
    response = Client(server.asgi()).call_tool("set_price", {}, id="x")
    assert (response.status, response.json) == (
        500,
        {"jsonrpc": "2.0", "id": "x", "error": {"code": -32603, "message": "Internal error"}},
    )
    assert recorder.rejections[-1].reason == "internal error"


def test_a_cancelled_request_answers_nothing_and_gives_its_key_back() -> None:
    server, _ = price_server()
    stopped = asyncio.Event()

    @server.tool("waits", input_requests=[FORM], request_state=FRAMEWORK)
    async def waits(ctx: RequestContext) -> Any:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    client = Client(server.asgi())

    async def scenario() -> None:
        body = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "waits", "_meta": meta()}}
        ).encode()
        task = asyncio.create_task(client.exchange(body, client.headers("tools/call", {"name": "waits"})))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stopped.is_set()

    asyncio.run(scenario())
    assert set(server.protection_keyring_manager.snapshot().sealing_reservations.values()) == {0}
