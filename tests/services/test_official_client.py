"""The official Python client against a real server: its automatic loop, and numbers on the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import ElicitResult

from mcpinput import Requirement
from mcpinput._demo import demo_server
from tests.services.conftest import served
from tests.services.servers import KINDS, greedy_server, price_server
from tests.services.wire import call

Serve = Callable[[Any], str]


def text_of(result: Any) -> str:
    """The one text of a tool's, a prompt's or a resource's result."""
    if hasattr(result, "contents"):
        return str(result.contents[0].text)
    if hasattr(result, "messages"):
        return str(result.messages[0].content.text)
    return str(result.content[0].text)


async def send(client: Client, kind: str) -> Any:
    _, params = KINDS[kind]
    match kind:
        case "tool":
            return await client.call_tool(params["name"], params["arguments"])
        case "prompt":
            return await client.get_prompt(params["name"], params["arguments"])
        case _:
            return await client.read_resource(params["uri"])


def ask(url: str, kind: str, answer: ElicitResult) -> tuple[Any, list[str]]:
    """The result, and the messages of the forms that the client was asked to show."""
    messages: list[str] = []

    async def elicit(context: object, params: Any) -> ElicitResult:
        messages.append(params.message)
        return answer

    async def run() -> Any:
        async with Client(url, elicitation_callback=elicit) as client:
            return await send(client, kind)

    return asyncio.run(run()), messages


@pytest.mark.parametrize("kind", KINDS)
def test_accepted_number_arrives_exactly(serve: Serve, kind: str) -> None:
    seen: list[Any] = []
    result, messages = ask(serve(price_server(seen)), kind, ElicitResult(action="accept", content={"price": 3.5}))
    assert text_of(result) == "accepted Decimal('3.5')"
    assert messages == ["Which price?"]
    assert [(type(price), price) for price in seen] == [(Decimal, Decimal("3.5"))]


@pytest.mark.parametrize(("action", "text"), [("decline", "declined"), ("cancel", "cancelled")])
@pytest.mark.parametrize("kind", KINDS)
def test_no_is_final(serve: Serve, kind: str, action: Any, text: str) -> None:
    result, messages = ask(serve(price_server([])), kind, ElicitResult(action=action))
    assert text_of(result) == text
    assert messages == ["Which price?"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "spelling", ["3.50", "3.5", "0.1000000000000000055511151231257827021181583404541015625", "1E+3"]
)
def test_spelling_of_a_number_survives(serve: Serve, kind: str, spelling: str) -> None:
    seen: list[Any] = []
    url = serve(price_server(seen))
    method, params = KINDS[kind]
    first = call(url, method, params)
    assert first.result["resultType"] == "input_required"
    answers = b'{"price": {"action": "accept", "content": {"price": ' + spelling.encode() + b"}}}"
    second = call(url, method, params | {"requestState": first.result["requestState"]}, answers=answers)
    assert second.result["resultType"] == "complete"
    assert [str(price) for price in seen] == [spelling]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("requirement", Requirement)
def test_all_that_a_client_lacks_is_one_error(serve: Serve, kind: str, requirement: Requirement) -> None:
    method, params = KINDS[kind]
    url = serve(greedy_server(requirement))
    reply = call(url, method, params, capabilities={})
    assert (reply.status, reply.error["code"]) == (400, -32021)
    assert reply.error["data"] == {"requiredCapabilities": {"elicitation": {"form": {}, "url": {}}}}
    reply = call(url, method, params, capabilities={"elicitation": {}})  # the short way to say: forms
    assert reply.error["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    reply = call(url, method, params, capabilities={"elicitation": {"form": {}, "url": {}}})
    assert reply.result["inputRequests"].keys() == {"price", "page"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("requirement", Requirement)
def test_official_client_without_forms_gets_that_error(serve: Serve, kind: str, requirement: Requirement) -> None:
    url = serve(greedy_server(requirement))

    async def run() -> None:
        async with Client(url) as client:
            with pytest.raises(MCPError) as caught:
                await send(client, kind)
            assert caught.value.error.code == -32021
            assert caught.value.error.data == {"requiredCapabilities": {"elicitation": {"form": {}, "url": {}}}}

    asyncio.run(run())


# ---- the demo's server ----


@pytest.fixture(scope="module")
def catalog() -> Iterator[str]:
    with served(demo_server().asgi()) as url:
        yield url


def drive(url: str, operation: Callable[[Client], Any], *answers: ElicitResult) -> tuple[Any, list[Any]]:
    """The result of an operation, and the params of each form; one answer for each."""
    shown: list[Any] = []

    async def elicit(context: object, params: Any) -> ElicitResult:
        shown.append(params)
        return answers[len(shown) - 1]

    async def run() -> Any:
        async with Client(url, elicitation_callback=elicit) as client:
            return await operation(client)

    result = asyncio.run(run())
    assert len(shown) == len(answers)
    return result, shown


def accept(**content: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=content)


DECLINE = ElicitResult(action="decline")
CANCEL = ElicitResult(action="cancel")


def add_item(client: Client) -> Any:
    return client.call_tool("catalog.add_item")


def test_item_is_asked_for_until_it_is_whole(catalog: str) -> None:
    result, shown = drive(
        catalog,
        add_item,
        accept(price=3.5),
        accept(name="   "),
        accept(name="Blue teapot"),
    )
    assert result.structured_content == {"name": "Blue teapot", "price": 3.5}
    assert [form.message for form in shown] == [
        "Give the name and the price of the new item.",
        "The name is missing. Give the name of the new item.",
        "The name is missing. Give the name of the new item.",
    ]
    assert [list(form.requested_schema["properties"]) for form in shown] == [["name", "price"], ["name"], ["name"]]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"name": "x"}, "The price is missing."),
        ({"name": "x", "price": "3.5"}, "The price must be a number."),
        ({"name": "x", "price": True}, "The price must be a number."),
        ({"name": "x", "price": -0.01}, "The price must not be negative."),
        ({"name": "x" * 101, "price": 1}, "The name has over 100 characters."),
        ({"name": 7, "price": 1}, "The name is missing."),
        ({}, "The name is missing. The price is missing."),
    ],
)
def test_reason_is_told_and_then_no_is_final(catalog: str, content: dict[str, Any], reason: str) -> None:
    result, shown = drive(catalog, add_item, accept(**content), DECLINE)
    assert shown[1].message.startswith(f"{reason} Give ")
    assert text_of(result) == "Nothing was added: the person declined."


def test_item_is_given_up_when_no_round_is_left(catalog: str) -> None:
    result, shown = drive(catalog, add_item, *[accept(name="Blue teapot")] * 10)
    assert result.is_error
    assert text_of(result).startswith("Nothing was added: the last question")
    assert len(shown) == 10


def test_price_keeps_its_scale_across_rounds(catalog: str) -> None:
    params: dict[str, Any] = {"name": "catalog.add_item", "arguments": {}}
    answers = [b'{"price": 3.50}', b'{"name": "Blue teapot"}']
    reply = call(catalog, "tools/call", params)
    for content in answers:
        params["requestState"] = reply.result["requestState"]
        answer = b'{"item": {"action": "accept", "content": ' + content + b"}}"
        reply = call(catalog, "tools/call", params, answers=answer)
    assert str(reply.result["structuredContent"]["price"]) == "3.50"
    assert reply.result["content"][0]["text"] == '{"name":"Blue teapot","price":3.50}'


@pytest.mark.parametrize(
    ("answer", "text"),
    [(accept(), "approved"), (DECLINE, "not approved"), (CANCEL, "not approved")],
)
def test_approval(catalog: str, answer: ElicitResult, text: str) -> None:
    result, shown = drive(catalog, lambda client: client.call_tool("catalog.continue"), answer)
    assert text_of(result) == text
    assert shown[0].message == "Approve catalog access?"
    assert shown[0].requested_schema == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ([accept(budget=12.5)], "Describe item T-1 for customers who can spend 12.5."),
        ([accept(budget=-1), accept(budget=0)], "Describe item T-1 for customers who can spend 0."),
        ([DECLINE], "Describe item T-1."),
        ([CANCEL], "Do not describe item T-1: the person cancelled."),
    ],
)
def test_prompt(catalog: str, answers: list[ElicitResult], text: str) -> None:
    result, _ = drive(catalog, lambda client: client.get_prompt("catalog.describe", {"sku": "T-1"}), *answers)
    assert text_of(result) == text


@pytest.mark.parametrize(
    ("uri", "answers", "content"),
    [
        ("catalog://items/T-1", [accept(price=3.5)], {"sku": "T-1", "price": 3.5}),
        ("catalog://items/T-1", [accept(), accept(price=3)], {"sku": "T-1", "price": 3}),
        ("catalog://items/T-1", [DECLINE], {"sku": "T-1", "price": None}),
        ("catalog://items", [accept(minimum=3.5)], {"from": 3.5, "items": {"Blue teapot": 3.5, "Red kettle": 12}}),
        ("catalog://items", [DECLINE], {"from": 0, "items": {"Blue teapot": 3.5, "Red kettle": 12, "Glass cup": 0.95}}),
    ],
)
def test_resources(catalog: str, uri: str, answers: list[ElicitResult], content: Any) -> None:
    result, _ = drive(catalog, lambda client: client.read_resource(uri), *answers)
    assert json.loads(text_of(result)) == content
    assert result.contents[0].mime_type == "application/json"


@pytest.mark.parametrize("uri", ["catalog://items/T-1", "catalog://items"])
def test_cancelled_reading_is_an_error(catalog: str, uri: str) -> None:

    async def elicit(context: object, params: Any) -> ElicitResult:
        return CANCEL

    async def run() -> None:
        async with Client(catalog, elicitation_callback=elicit) as client:
            with pytest.raises(MCPError, match="the person cancelled"):
                await client.read_resource(uri)

    asyncio.run(run())


def test_demo_is_listed(catalog: str) -> None:

    async def run() -> list[str]:
        async with Client(catalog) as client:
            assert client.server_info is not None
            tools = [tool.name for tool in (await client.list_tools()).tools]
            prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
            resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
            templates = [t.uri_template for t in (await client.list_resource_templates()).resource_templates]
            return [client.server_info.name, *tools, *prompts, *resources, *templates]

    assert asyncio.run(run()) == [
        "catalog",
        "catalog.continue",
        "catalog.add_item",
        "catalog.describe",
        "catalog://items",
        "catalog://items/{sku}",
    ]
