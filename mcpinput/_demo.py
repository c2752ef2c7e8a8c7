"""The demo's server: a small catalog that asks in every way that a server can ask.

Two tools, a prompt, a resource and a resource template. Each asks with a form, keeps its state sealed in the token, and
ends on decline and on cancel without asking again. ``mcpinput serve mcpinput._demo:server`` serves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from mcpinput.errors import McpError, ToolError
from mcpinput.json import dump
from mcpinput.protection import ProtectionConfig
from mcpinput.requests import InputRequest, InputRequestDeclaration, Requirement
from mcpinput.responses import Accepted, Cancelled, Declined
from mcpinput.results import InputRequiredResult, input_required
from mcpinput.server.registry import PromptArgument, RequestStateMode
from mcpinput.server.server import Server

if TYPE_CHECKING:
    from mcpinput.json import JsonValue
    from mcpinput.server.context import RequestContext

__all__ = ["demo_server", "server"]

# A client without forms may call what is CONDITIONAL until it asks; what is REQUIRED it cannot call at all.
FORM: Final = InputRequestDeclaration.from_elicitation_form(Requirement.CONDITIONAL)
REQUIRED_FORM: Final = InputRequestDeclaration.from_elicitation_form(Requirement.REQUIRED)

NO_ROUNDS_LEFT: Final = 1
CANCELLED: Final = 2
"""Error codes of this server; the specification keeps -32768 to -32000 for itself and for JSON-RPC."""

NAME: Final = {"type": "string", "title": "Name", "minLength": 1, "maxLength": 100}
ITEMS: Final = {"Blue teapot": Decimal("3.50"), "Red kettle": Decimal("12.00"), "Glass cup": Decimal("0.95")}


def demo_server(protection: ProtectionConfig | None = None, **options: Any) -> Server:
    """A new server with the demo's operations.

    Args:
        protection: How state is sealed; an ephemeral key of this process by default.
        options: What else :class:`mcpinput.Server` takes, such as ``admission``.
    """
    catalog = Server(
        "catalog",
        version="1.0.0",
        protection=ProtectionConfig.ephemeral() if protection is None else protection,
        **options,
    )
    sealed = RequestStateMode.FRAMEWORK_PROTECTED
    catalog.tool("catalog.continue", input_requests=[FORM], request_state=sealed)(continue_catalog)
    catalog.tool("catalog.add_item", input_requests=[FORM], request_state=sealed)(add_item)
    catalog.prompt(
        "catalog.describe",
        arguments=[PromptArgument("sku", "The item's number", required=True)],
        input_requests=[REQUIRED_FORM],
        request_state=sealed,
    )(describe)
    for uri, handler in (("catalog://items", read_items), ("catalog://items/{sku}", read_item)):
        catalog.resource(uri, mime_type="application/json", input_requests=[FORM], request_state=sealed)(handler)
    return catalog


# ---- a tool that asks for leave ----


async def continue_catalog(ctx: RequestContext, arguments: dict[str, JsonValue]) -> str | InputRequiredResult:
    """Goes on with the catalog, once a person has approved it."""
    if ctx.has_request_state:
        match ctx.input_responses.elicitation("approval"):
            case Accepted():
                return "approved"
            case Declined() | Cancelled():
                return "not approved"
    return (
        InputRequiredResult.builder()  # first request, or the answer was missing
        .add_input_request(
            "approval",
            InputRequest.from_declaration(
                FORM,
                {
                    "mode": "form",
                    "message": "Approve catalog access?",
                    "requestedSchema": {"type": "object", "properties": {}},
                },
            ),
        )
        .framework_request_state({"phase": "waiting-for-approval"})
        .build()
    )


# ---- a tool that asks until it has what it needs ----


class Draft(msgspec.Struct, frozen=True):
    """What is known of a new item so far, and why the rest is not.

    Prices are carried as text: sealed numbers are canonical, so 3.50 would come back as 3.5.
    """

    known: dict[str, str] = {}
    problems: dict[str, str] = {}


async def add_item(ctx: RequestContext) -> str | dict[str, Any] | InputRequiredResult:
    """Adds an item to the catalog. Asks for its name and price."""
    draft = ctx.state(Draft) if ctx.has_request_state else Draft()
    match ctx.input_responses.elicitation("item", _item_form(draft)):
        case Accepted(content):
            draft = _filled(draft, content)
            if not draft.problems:
                return {"name": draft.known["name"], "price": Decimal(draft.known["price"])}
        case Declined():
            return "Nothing was added: the person declined."
        case Cancelled():
            return "Nothing was added: the person cancelled."
    if ctx.rounds_left == 0:
        raise ToolError("Nothing was added: the last question was not answered either. Call the tool anew.")
    return input_required({"item": _item_form(draft)}, framework_request_state=draft)


def _item_form(draft: Draft) -> InputRequest:
    """The question for what is still missing. One draft gives one form, so an answer to older words does not count."""
    fields = {"name": NAME, "price": _number_field("price")}
    fields = {name: field for name, field in fields.items() if name not in draft.known}
    message = f"Give the {' and the '.join(fields)} of the new item."
    return _form(FORM, " ".join([*draft.problems.values(), message]), fields)


def _filled(draft: Draft, content: Mapping[str, Any]) -> Draft:
    known = dict(draft.known)
    problems = {}
    if "name" not in known:
        name = content.get("name")
        if not isinstance(name, str) or not name.strip():
            problems["name"] = "The name is missing."
        elif len(name) > 100:
            problems["name"] = "The name has over 100 characters."
        else:
            known["name"] = name.strip()
    if "price" not in known:
        problem = _number_problem(content, "price")
        if problem is None:
            known["price"] = str(content["price"])
        else:
            problems["price"] = problem
    return Draft(known, problems)


# ---- a prompt and two resources that ask for one number ----


async def describe(ctx: RequestContext, arguments: dict[str, str]) -> str | InputRequiredResult:
    """Describes an item for customers with a budget."""
    sku = arguments["sku"]
    answer = _number(ctx, REQUIRED_FORM, "budget", f"What can the customers spend who read of {sku}?")
    match answer:
        case InputRequiredResult():
            return answer
        case Declined():
            return f"Describe item {sku}."
        case Cancelled():
            return f"Do not describe item {sku}: the person cancelled."
        case budget:
            return f"Describe item {sku} for customers who can spend {budget}."


async def read_items(ctx: RequestContext) -> str | InputRequiredResult:
    """The items of the catalog, from a price on."""
    answer = _number(ctx, FORM, "minimum", "From which price on should items be listed?")
    match answer:
        case InputRequiredResult():
            return answer
        case Declined():
            minimum: int | Decimal = 0
        case Cancelled():
            raise McpError(CANCELLED, "Nothing was read: the person cancelled")
        case number:
            minimum = number
    return _json({"from": minimum, "items": {name: price for name, price in ITEMS.items() if price >= minimum}})


async def read_item(ctx: RequestContext, arguments: dict[str, str]) -> str | InputRequiredResult:
    """An item with the price that a person gives it."""
    sku = arguments["sku"]
    answer = _number(ctx, FORM, "price", f"What is the price of {sku}?")
    match answer:
        case InputRequiredResult():
            return answer
        case Declined():
            return _json({"sku": sku, "price": None})
        case Cancelled():
            raise McpError(CANCELLED, "Nothing was read: the person cancelled")
        case price:
            return _json({"sku": sku, "price": price})


def _number(
    ctx: RequestContext, declaration: InputRequestDeclaration, field: str, question: str
) -> int | Decimal | Declined | Cancelled | InputRequiredResult:
    """The number that the person gave, or that they gave none, or the ask for it.

    The state is what was wrong with the answer before, or null.
    """
    problem = ctx.framework_request_state
    answer = ctx.input_responses.elicitation(field, _number_form(declaration, field, question, problem))
    match answer:
        case Declined() | Cancelled():
            return answer
        case Accepted(content):
            problem = _number_problem(content, field)
            if problem is None:
                return cast("int | Decimal", content[field])  # as was just checked
    if ctx.rounds_left == 0:
        raise McpError(NO_ROUNDS_LEFT, "The last question was not answered either; send the request anew")
    return input_required({field: _number_form(declaration, field, question, problem)}, framework_request_state=problem)


def _number_form(declaration: InputRequestDeclaration, field: str, question: str, problem: object) -> InputRequest:
    return _form(declaration, question if problem is None else f"{problem} {question}", {field: _number_field(field)})


# ---- forms ----


def _form(declaration: InputRequestDeclaration, message: str, fields: Mapping[str, Mapping[str, Any]]) -> InputRequest:
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return InputRequest.from_declaration(declaration, {"mode": "form", "message": message, "requestedSchema": schema})


def _number_field(field: str) -> dict[str, Any]:
    return {"type": "number", "title": field.capitalize(), "minimum": 0}


def _number_problem(content: Mapping[str, Any], field: str) -> str | None:
    """What is wrong with a field that must hold a number of at least 0; None where nothing is."""
    value = content.get(field)
    if value is None:
        return f"The {field} is missing."
    if not isinstance(value, (int, Decimal)) or isinstance(value, bool):
        return f"The {field} must be a number."
    if value < 0:
        return f"The {field} must not be negative."
    return None


def _json(value: object) -> str:
    return dump(value).decode()


server: Final = demo_server()
"""The demo's server with a key of its own, for ``mcpinput serve``."""
