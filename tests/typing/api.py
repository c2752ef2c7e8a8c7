"""What type checkers see of the value classes. Checked by ``mypy --strict``, never run."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal, assert_never, assert_type

import msgspec

from mcpinput.binding import convert
from mcpinput.content import ContentBlock, EmbeddedResource, PromptMessage, TextContent, TextResourceContents
from mcpinput.json import FrozenObject
from mcpinput.requests import (
    InputRequest,
    InputRequestDeclaration,
    InputRequestType,
    Requirement,
    declared_input_requests,
    may_request_input,
)
from mcpinput.responses import (
    Absent,
    Accepted,
    Cancelled,
    ContentValue,
    Declined,
    InputResponses,
    Rooted,
    Sampled,
    fits_kind,
)
from mcpinput.results import (
    CompleteResult,
    InputRequiredResult,
    InputRequiredResultBuilder,
    input_required,
    tool_result,
)


class Reply(msgspec.Struct):
    action: str


# Declarations and requests

declaration = InputRequestDeclaration.from_sampling(Requirement.CONDITIONAL, tools=True)
assert_type(declaration, InputRequestDeclaration)
assert_type(declaration.input_request_type, InputRequestType)
assert_type(declaration.input_request_type.code, int)
assert_type(declaration.capabilities, dict[str, Any])
assert_type(declaration.requirement, Requirement)

request = InputRequest.from_declaration(declaration, {"messages": [], "maxTokens": 1})
assert_type(request, InputRequest)
assert_type(request.params, FrozenObject)
assert_type(request.digest, bytes)
assert_type(request.to_wire(), FrozenObject)
assert_type(request.matches_input_response({}), bool)
assert_type(fits_kind({}, InputRequestType.ROOTS), bool)


@may_request_input(InputRequestType.ELICITATION_FORM, Requirement.REQUIRED)
async def handler(name: str, count: int = 1) -> CompleteResult:
    """The decorator keeps the signature."""
    return tool_result(name * count)


async def call_handler() -> None:
    assert_type(await handler("x", count=2), CompleteResult)
    await handler(1)  # type: ignore[arg-type]


assert_type(declared_input_requests(handler), tuple[InputRequestDeclaration, ...])

# Responses

responses = InputResponses.builder().add("k", {"action": "accept"}).build()
assert_type(responses, InputResponses)
assert_type(responses.find("k"), FrozenObject | None)
assert_type(responses.find("k", Reply), Reply | None)
assert_type(responses.find("k", dict[str, Any]), dict[str, Any] | None)
assert_type(responses.as_map(), Mapping[str, FrozenObject])
assert_type(responses["k"], FrozenObject)
as_mapping: Mapping[str, object] = responses


def four_states(answers: InputResponses) -> str:
    """A match over an answer is exhaustive with its four states, and needs all of them."""
    answer = answers.elicitation("k", request)
    match answer:
        case Absent():
            return "ask again"
        case Accepted(content):
            assert_type(content, Mapping[str, ContentValue])
            return str(content)
        case Declined() | Cancelled():
            return "no"
        case _:
            assert_never(answer)


def other_answers(answers: InputResponses) -> None:
    """Sampling and roots."""
    match answers.sampling("k"):
        case Sampled(role, _, model, stop_reason):
            assert_type(role, Literal["user", "assistant"])
            assert_type(model, str)
            assert_type(stop_reason, str | None)
        case Absent():
            pass
    match answers.roots("k"):
        case Rooted(roots):
            assert_type(roots, list[Mapping[str, Any]])
        case Absent():
            pass


assert_type(convert({}, Reply), Reply)
assert_type(convert(1, Decimal), Decimal)

# Results

builder = InputRequiredResult.with_input_request("k", request)
assert_type(builder, InputRequiredResultBuilder)
ask = builder.framework_request_state({"n": 1}).metadata({}).build()
assert_type(ask, InputRequiredResult)
assert_type(ask.input_requests, Mapping[str, InputRequest])
assert_type(ask.application_request_state, str | None)
assert_type(ask.metadata, FrozenObject | None)
assert_type(input_required({"k": request}, framework_request_state=None), InputRequiredResult)
input_required({"k": request}, application_request_state=None)  # type: ignore[arg-type]
input_required({"k": {}})  # type: ignore[dict-item]

block: ContentBlock = EmbeddedResource(TextResourceContents("file:///a", "x"))
result = CompleteResult.from_tool_content([block, TextContent("x"), {"type": "text", "text": "x"}])
assert_type(result.kind, Literal["tool", "prompt", "resource"])
assert_type(result.members, FrozenObject)
PromptMessage("system", TextContent("x"))  # type: ignore[arg-type]
CompleteResult.from_resource_contents([], cache_scope="shared")  # type: ignore[arg-type]

# Immutable

request.params = FrozenObject()  # type: ignore[misc]
ask.input_requests["x"] = request  # type: ignore[index]
Accepted({}).content = {}  # type: ignore[misc]
