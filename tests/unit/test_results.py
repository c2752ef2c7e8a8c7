"""Asks, complete results, and plain values as results."""

from __future__ import annotations

import copy
import dataclasses
import enum
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import mcp.types
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpinput.content import (
    BlobResourceContents,
    ImageContent,
    PromptMessage,
    TextContent,
    TextResourceContents,
)
from mcpinput.json import dump
from mcpinput.requests import InputRequest, InputRequestDeclaration, Requirement
from mcpinput.results import (
    ABSENT,
    CompleteResult,
    InputRequiredResult,
    InputRequiredResultBuilder,
    input_required,
    prompt_result,
    resource_result,
    tool_result,
)

FORM = InputRequestDeclaration.from_elicitation_form(Requirement.CONDITIONAL)


def form(message: str = "Approve?") -> InputRequest:
    return InputRequest.from_declaration(
        FORM, {"message": message, "requestedSchema": {"type": "object", "properties": {}}}
    )


ASK = form()


# ---- asks ----


def test_builder_and_keyword_call_make_equal_asks() -> None:
    built = (
        InputRequiredResult.with_input_request("approval", ASK)
        .framework_request_state({"phase": "waiting"})
        .metadata({"com.example/trace": 1})
        .build()
    )
    called = input_required(
        {"approval": ASK}, framework_request_state={"phase": "waiting"}, metadata={"com.example/trace": 1}
    )
    assert built == called
    assert built.input_requests == {"approval": ASK}
    assert built.framework_request_state == {"phase": "waiting"}
    assert built.has_framework_request_state
    assert built.application_request_state is None
    assert built.metadata == {"com.example/trace": 1}
    assert built != input_required({"approval": ASK})
    assert built != {}


def test_keys_are_exact_and_unique() -> None:
    builder = InputRequiredResult.builder()
    for key in ("", " ", "a", "A", "\u00e9", "e\u0301", "\U0001f600"):
        assert builder.add_input_request(key, form(f"[{key}]")) is builder
    with pytest.raises(ValueError, match="already"):
        builder.add_input_request("", form("another"))
    for key in ("\ud800", "a\udfff"):
        with pytest.raises(ValueError, match="surrogate"):
            builder.add_input_request(key, ASK)
    result = builder.build()
    assert list(result.input_requests) == ["", " ", "a", "A", "\u00e9", "e\u0301", "\U0001f600"]
    assert result.input_requests[""] == form("[]")  # a second use keeps the first


def test_the_last_state_setter_wins() -> None:
    framework = InputRequiredResult.builder().application_request_state("handle").framework_request_state(1).build()
    assert framework.framework_request_state == 1
    assert framework.application_request_state is None
    application = InputRequiredResult.builder().framework_request_state(1).application_request_state("handle").build()
    assert application.application_request_state == "handle"
    assert application.framework_request_state is None
    assert not application.has_framework_request_state
    assert (
        InputRequiredResult.builder()
        .framework_request_state(1)
        .framework_request_state(2)
        .build()
        .framework_request_state
        == 2
    )


def test_null_is_a_state() -> None:
    null = InputRequiredResult.builder().framework_request_state(None).build()
    assert null.framework_request_state is None
    assert null.has_framework_request_state
    assert input_required(framework_request_state=None) == null
    assert null != input_required({"k": ASK})
    assert not input_required({"k": ASK}).has_framework_request_state


@dataclasses.dataclass
class Phase:
    step: int
    seen: list[str]


def test_framework_state_is_copied_and_frozen_when_given() -> None:
    phase = Phase(1, ["a"])
    state: dict[str, Any] = {"items": [1, {"deep": True}], "phase": phase}
    builder = InputRequiredResult.builder().framework_request_state(state)
    state["items"][1]["deep"] = False
    state["x"] = 1
    phase.step = 2
    phase.seen.append("b")
    result = builder.build()
    assert result.framework_request_state == {"items": [1, {"deep": True}], "phase": {"step": 1, "seen": ["a"]}}
    with pytest.raises(TypeError):
        result.framework_request_state["items"].append(2)


def test_a_cycle_is_refused_where_it_is_given() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested"):
        InputRequiredResult.builder().framework_request_state(loop)


def test_the_last_metadata_wins_and_reserved_keys_are_found_at_build() -> None:
    builder = InputRequiredResult.with_input_request("k", ASK)
    meta: dict[str, Any] = {"a": {"b": 1}}
    for reserved in (
        "io.modelcontextprotocol/x",
        "dev.mcp/x",
        "org.modelcontextprotocol.api/x",
        "com.mcp.tools/",
        "progressToken",
        "traceparent",
        "tracestate",
        "baggage",
    ):
        builder.metadata({"com.example/ok": 1, reserved: 1})
        with pytest.raises(ValueError, match=reserved):
            builder.build()
        with pytest.raises(ValueError, match=reserved):
            input_required({"k": ASK}, metadata={reserved: 1})
    builder.metadata(meta)
    meta["a"]["b"] = 2
    assert builder.build().metadata == {"a": {"b": 1}}
    for fine in ("com.example.mcp/x", "mcp/x", "modelcontextprotocol/x", "mcp", "progresstoken", ""):
        assert input_required({"k": ASK}, metadata={fine: 1}).metadata == {fine: 1}
    assert input_required({"k": ASK}, metadata={}).metadata == {}
    assert input_required({"k": ASK}).metadata is None


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ([("a", 1)], TypeError),
        (None, TypeError),
        ({1: 1}, TypeError),
        ({"a": object()}, TypeError),
        ({"a": {"b": {1, 2}}}, TypeError),
        ({"a": float("nan")}, ValueError),
        ({"\ud800": 1}, ValueError),
    ],
)
def test_metadata_must_be_json(metadata: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        InputRequiredResult.builder().metadata(metadata)


def test_an_ask_needs_a_request_or_a_state() -> None:
    for make in (InputRequiredResult.builder().build, input_required, lambda: input_required({})):
        with pytest.raises(ValueError, match="needs"):
            make()
    with pytest.raises(ValueError, match="needs"):
        InputRequiredResult.builder().metadata({"a": 1}).build()
    assert input_required(application_request_state="x").input_requests == {}
    assert input_required({"k": ASK}).application_request_state is None


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda b: b.add_input_request(None, ASK), TypeError, "key"),
        (lambda b: b.add_input_request(1, ASK), TypeError, "key"),
        (lambda b: b.add_input_request("k", None), TypeError, "input_request"),
        (lambda b: b.add_input_request("k", {"method": "roots/list"}), TypeError, "input_request"),
        (lambda b: b.application_request_state(None), TypeError, "application_request_state"),
        (lambda b: b.application_request_state(b"x"), TypeError, "application_request_state"),
        (lambda b: b.application_request_state(""), ValueError, "application_request_state"),
        (lambda b: b.application_request_state("a\ud800"), ValueError, "application_request_state"),
        (lambda b: b.framework_request_state(ABSENT), TypeError, "framework_request_state"),
    ],
)
def test_bad_arguments_are_refused_by_name(
    call: Callable[[InputRequiredResultBuilder], object], error: type[Exception], name: str
) -> None:
    builder = InputRequiredResult.with_input_request("first", ASK).framework_request_state(1)
    with pytest.raises(error, match=name):
        call(builder)
    assert builder.build() == input_required({"first": ASK}, framework_request_state=1)  # nothing of it stuck


def test_both_states_in_one_call_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="not both"):
        input_required({"k": ASK}, framework_request_state=None, application_request_state="x")
    with pytest.raises(TypeError, match="input_requests"):
        input_required([("k", ASK)])  # type: ignore[arg-type]


def test_an_ask_cannot_be_changed_by_its_builder_or_anyone() -> None:
    builder = InputRequiredResult.with_input_request("a", ASK)
    result = builder.build()
    builder.add_input_request("b", ASK).application_request_state("x")
    assert list(result.input_requests) == ["a"]
    assert result.application_request_state is None
    with pytest.raises(TypeError):
        result.input_requests["b"] = ASK  # type: ignore[index]
    with pytest.raises(AttributeError):
        result.metadata = {}  # type: ignore[misc, assignment]
    with pytest.raises(TypeError, match="hash"):
        hash(result)
    assert copy.deepcopy(result) is result
    with pytest.raises(TypeError, match=r"InputRequiredResult\.builder"):
        InputRequiredResult()


def test_repr_shows_names_and_kinds_only() -> None:
    result = input_required(
        {"k": form("secret")}, framework_request_state={"secret": "secret"}, metadata={"secret": "secret"}
    )
    assert repr(result) == "InputRequiredResult({'k': ELICITATION_FORM}, framework_request_state=..., metadata=...)"
    assert "secret" not in repr(input_required(application_request_state="secret"))
    assert "secret" not in repr(CompleteResult.from_tool_text("secret", metadata={"x": "secret"}))
    assert repr(ABSENT) == "ABSENT"


# ---- complete results ----

MODELS: dict[str, Any] = {
    "tool": mcp.types.CallToolResult,
    "prompt": mcp.types.GetPromptResult,
    "resource": mcp.types.ReadResourceResult,
}
META = {"com.example/a": 1}

RESULTS: list[tuple[CompleteResult, str, dict[str, Any]]] = [
    (CompleteResult.from_tool_text("hi"), "tool", {"content": [{"type": "text", "text": "hi"}]}),
    (
        CompleteResult.from_tool_text("no", is_error=True, metadata=META),
        "tool",
        {"content": [{"type": "text", "text": "no"}], "isError": True, "_meta": META},
    ),
    (
        CompleteResult.from_tool_content(
            [ImageContent(b"x", "image/png"), {"type": "text", "text": "t"}], structured=None
        ),
        "tool",
        {
            "content": [{"type": "image", "data": "eA==", "mimeType": "image/png"}, {"type": "text", "text": "t"}],
            "structuredContent": None,
        },
    ),
    (CompleteResult.from_tool_content([]), "tool", {"content": []}),
    (
        CompleteResult.from_structured({"price": Decimal("3.50"), "l": (1, "é")}),
        "tool",
        {
            "content": [{"type": "text", "text": '{"price":3.50,"l":[1,"é"]}'}],
            "structuredContent": {"price": Decimal("3.50"), "l": [1, "é"]},
        },
    ),
    (
        CompleteResult.from_prompt_messages([PromptMessage("user", TextContent("q"))], "A prompt", metadata=META),
        "prompt",
        {
            "description": "A prompt",
            "messages": [{"role": "user", "content": {"type": "text", "text": "q"}}],
            "_meta": META,
        },
    ),
    (CompleteResult.from_prompt_messages([]), "prompt", {"messages": []}),
    (
        CompleteResult.from_resource_contents([TextResourceContents("file:///a", "x", "text/plain")]),
        "resource",
        {
            "contents": [{"uri": "file:///a", "text": "x", "mimeType": "text/plain"}],
            "ttlMs": 0,
            "cacheScope": "private",
        },
    ),
    (
        CompleteResult.from_resource_contents(
            [BlobResourceContents("file:///a", b"x")], ttl_ms=60_000, cache_scope="public", metadata=META
        ),
        "resource",
        {
            "contents": [{"uri": "file:///a", "blob": "eA=="}],
            "ttlMs": 60_000,
            "cacheScope": "public",
            "_meta": META,
        },
    ),
]


@pytest.mark.parametrize(("result", "kind", "members"), RESULTS)
def test_complete_results_in_wire_form(result: CompleteResult, kind: str, members: dict[str, Any]) -> None:
    assert result.kind == kind
    assert result.members == members
    assert result.metadata == members.get("_meta")
    assert "resultType" not in result.members
    MODELS[kind].model_validate({**json.loads(dump(result.members)), "resultType": "complete"})
    with pytest.raises(TypeError):
        result.members["isError"] = True
    with pytest.raises(TypeError):
        next(v for v in result.members.values() if isinstance(v, list)).append(1)
    with pytest.raises(AttributeError):
        result._kind = "tool"
    assert [other for other, _, _ in RESULTS if other == result] == [result]


def test_a_structured_result_is_a_copy() -> None:
    value: dict[str, Any] = {"a": [1]}
    result = CompleteResult.from_structured(value)
    value["a"].append(2)
    assert result.members["structuredContent"] == {"a": [1]}


UNTYPED: Any = CompleteResult


@pytest.mark.parametrize(
    ("make", "error", "name"),
    [
        (lambda: UNTYPED.from_tool_text(b"x"), TypeError, "text"),
        (lambda: UNTYPED.from_tool_text("x", is_error=1), TypeError, "is_error"),
        (lambda: UNTYPED.from_tool_text("x", metadata={"dev.mcp/x": 1}), ValueError, "dev.mcp/x"),
        (lambda: UNTYPED.from_tool_text("x", metadata=[]), TypeError, "metadata"),
        (lambda: UNTYPED.from_tool_content("x"), TypeError, "content"),
        (lambda: UNTYPED.from_tool_content(["x"]), TypeError, "content"),
        (lambda: UNTYPED.from_tool_content([{"type": "html"}]), ValueError, "type"),
        (lambda: UNTYPED.from_tool_content({"type": "text", "text": "x"}), TypeError, "content"),
        (lambda: UNTYPED.from_structured(object()), TypeError, "object"),
        (lambda: UNTYPED.from_structured({"a": float("inf")}), ValueError, "infinit"),
        (lambda: UNTYPED.from_prompt_messages(["x"]), TypeError, "messages"),
        (lambda: UNTYPED.from_prompt_messages([], description=1), TypeError, "description"),
        (lambda: UNTYPED.from_resource_contents(["x"]), TypeError, "contents"),
        (lambda: UNTYPED.from_resource_contents([], ttl_ms=-1), ValueError, "ttl_ms"),
        (lambda: UNTYPED.from_resource_contents([], ttl_ms=1.5), TypeError, "ttl_ms"),
        (lambda: UNTYPED.from_resource_contents([], ttl_ms=True), TypeError, "ttl_ms"),
        (lambda: UNTYPED.from_resource_contents([], cache_scope="shared"), ValueError, "cache_scope"),
        (lambda: UNTYPED("tool", {}), TypeError, "from_tool_text"),
    ],
)
def test_bad_results_are_refused_by_name(make: Callable[[], object], error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=name):
        make()


# ---- plain values ----


class Total(msgspec.Struct, rename="camel"):
    net_price: Decimal
    note: str | msgspec.UnsetType = msgspec.UNSET


class Colour(enum.Enum):
    RED = "red"


TEXT = TextContent("t")

STRUCTURED: list[tuple[object, object]] = [
    ({}, {}),
    ({"a": None}, {"a": None}),
    ({"a": (1, 2)}, {"a": [1, 2]}),
    ([], []),
    ([1, "x"], [1, "x"]),
    (5, 5),
    (True, True),
    (Decimal("3.50"), Decimal("3.50")),
    (0.1, 0.1),
    (Colour.RED, "red"),
    (Phase(1, ["a"]), {"step": 1, "seen": ["a"]}),
    (Total(Decimal("1.0")), {"netPrice": Decimal("1.0")}),
    ([Total(Decimal("1.0"))], [{"netPrice": Decimal("1.0")}]),
    ({"type": "text", "text": "x"}, {"type": "text", "text": "x"}),
]


@pytest.mark.parametrize(("value", "structured"), STRUCTURED)
def test_json_from_a_tool_is_structured_content(value: object, structured: object) -> None:
    members = tool_result(value).members
    assert members["structuredContent"] == structured
    assert type(members["structuredContent"]) is not bool or structured is True
    assert members["content"] == [{"type": "text", "text": dump(structured).decode()}]
    assert dump(members["structuredContent"]) == dump(value)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("hi", [{"type": "text", "text": "hi"}]),
        ("", [{"type": "text", "text": ""}]),
        (None, []),
        (TEXT, [{"type": "text", "text": "t"}]),
        ([TEXT, TEXT], [{"type": "text", "text": "t"}] * 2),
        ((TEXT,), [{"type": "text", "text": "t"}]),
    ],
)
def test_text_and_blocks_from_a_tool_are_content(value: object, content: object) -> None:
    assert tool_result(value).members == {"content": content}


def test_plain_values_of_prompts() -> None:
    message = PromptMessage("assistant", TEXT)
    assert prompt_result("hi") == CompleteResult.from_prompt_messages([PromptMessage("user", TextContent("hi"))])
    assert prompt_result(message) == prompt_result([message]) == CompleteResult.from_prompt_messages((message,))
    assert prompt_result(()).members == {"messages": []}


def test_plain_values_of_resources() -> None:
    text = TextResourceContents("u:x", "hi", "text/plain")
    assert resource_result("hi", "u:x", "text/plain") == CompleteResult.from_resource_contents([text])
    assert resource_result(text, "u:other") == resource_result([text], "u:other", "text/html")
    assert resource_result(b"hi", "u:x").members["contents"] == [{"uri": "u:x", "blob": "aGk="}]
    assert resource_result(bytearray(b"hi"), "u:x") == resource_result(memoryview(b"hi"), "u:x")


def test_results_pass_through_to_their_own_kind_only() -> None:
    results: dict[str, CompleteResult] = {
        "tool": CompleteResult.from_tool_text("x"),
        "prompt": CompleteResult.from_prompt_messages([]),
        "resource": CompleteResult.from_resource_contents([]),
    }
    functions: dict[str, Callable[[object], CompleteResult]] = {
        "tool": tool_result,
        "prompt": prompt_result,
        "resource": lambda value: resource_result(value, "u:x"),
    }
    for kind, result in results.items():
        for function_kind, function in functions.items():
            if kind == function_kind:
                assert function(result) is result
            else:
                with pytest.raises(TypeError, match=kind):
                    function(result)


@pytest.mark.parametrize(
    ("function", "value", "name"),
    [
        (tool_result, b"x", "bytes"),
        (tool_result, object(), "object"),
        (tool_result, {1, 2}, "set"),
        (tool_result, Phase, "type"),
        (tool_result, [TEXT, "x"], "str"),
        (tool_result, PromptMessage("user", TEXT), "PromptMessage"),
        (tool_result, TextResourceContents("u:x", "x"), "TextResourceContents"),
        (tool_result, InputRequiredResult.builder(), "InputRequiredResultBuilder"),
        (tool_result, {"a": object()}, "object"),
        (prompt_result, None, "NoneType"),
        (prompt_result, {"messages": []}, "dict"),
        (prompt_result, ["x"], "str"),
        (prompt_result, TEXT, "TextContent"),
        (lambda value: resource_result(value, "u:x"), None, "NoneType"),
        (lambda value: resource_result(value, "u:x"), {"a": 1}, "dict"),
        (lambda value: resource_result(value, "u:x"), [b"x"], "bytes"),
    ],
)
def test_other_values_are_refused_by_type(function: Callable[[object], object], value: object, name: str) -> None:
    with pytest.raises(TypeError, match=rf"\b{name}\b"):
        function(value)


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.decimals(-(10**6), 10**6, places=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(TREES)
def test_any_tree_is_a_state_and_a_structured_result(tree: object) -> None:
    assert input_required(framework_request_state=tree).framework_request_state == tree
    members = CompleteResult.from_structured(tree).members
    assert members["structuredContent"] == tree
    assert members["content"][0]["text"].encode() == dump(tree)
