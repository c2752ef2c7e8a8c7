"""A server to start from: one tool that asks for what it needs, until it has all of it, and two that do not ask.

    python examples/catalog.py --port 8000

Options are those of ``mcpinput serve``. Items are kept in memory, and state is sealed with a key of this process: both
are gone when it ends.
"""

import sys
from collections.abc import Mapping
from decimal import Decimal

import msgspec

from mcpinput import (
    Absent,
    Accepted,
    Cancelled,
    ContentValue,
    Declined,
    InputRequest,
    InputRequestDeclaration,
    InputRequiredResult,
    JsonValue,
    McpError,
    ProtectionConfig,
    RequestContext,
    RequestStateMode,
    Requirement,
    Server,
    ToolError,
    input_required,
)
from mcpinput.cli import main

NO_SUCH_ITEM = 1
KINDS = ["kitchen", "garden", "office"]

form = InputRequestDeclaration.from_elicitation_form(Requirement.CONDITIONAL)
server = Server("catalog", version="1.0.0", protection=ProtectionConfig.ephemeral())


class Item(msgspec.Struct, frozen=True):
    """One item of the catalog."""

    name: str
    price: Decimal
    kind: str


class Draft(msgspec.Struct, frozen=True):
    """What is known of a new item so far, and what was wrong with the answer before: the sealed state of the flow.

    The price is text: numbers in sealed state are canonical, so 3.50 would come back as 3.5.
    """

    name: str | None = None
    price: str | None = None
    kind: str | None = None
    problems: list[str] = []


items: dict[str, Item] = {}


@server.tool("catalog.add", input_requests=[form], request_state=RequestStateMode.FRAMEWORK_PROTECTED)
async def add(ctx: RequestContext) -> Item | str | InputRequiredResult:
    """Adds an item to the catalog, or replaces it. Asks the person for its name, price and kind."""
    draft = ctx.state(Draft) if ctx.has_request_state else Draft()
    answer = ctx.input_responses.elicitation("item", question(draft))
    match answer:
        case Accepted(content):
            draft = filled(draft, content)
            if draft.name is not None and draft.price is not None and draft.kind is not None:
                items[draft.name] = Item(draft.name, Decimal(draft.price), draft.kind)
                return items[draft.name]
        case Declined() | Cancelled():  # an answer too: do not ask again
            return "Nothing was added."
        case Absent():  # the first request, or one without an answer to this question
            pass
    if ctx.rounds_left == 0:
        raise ToolError("Nothing was added: the last question was not answered in full. Call the tool anew.")
    return input_required({"item": question(draft)}, framework_request_state=draft)


def question(draft: Draft) -> InputRequest:
    """The form for what is still missing. One draft gives one form, so an answer to another form does not count."""
    fields: dict[str, JsonValue] = {}
    if draft.name is None:
        fields["name"] = {"type": "string", "title": "Name", "minLength": 1, "maxLength": 100}
    if draft.price is None:
        fields["price"] = {"type": "number", "title": "Price", "minimum": 0}
    if draft.kind is None:
        fields["kind"] = {"type": "string", "title": "Kind", "enum": KINDS}
    return InputRequest.from_declaration(
        form,
        {
            "mode": "form",
            "message": " ".join([*draft.problems, "Please describe the new item."]),
            "requestedSchema": {"type": "object", "properties": fields, "required": list(fields)},
        },
    )


def filled(draft: Draft, content: Mapping[str, ContentValue]) -> Draft:
    """The draft with what was answered. A client does not have to hold to the form, so every field is checked."""
    name, price, kind, problems = draft.name, draft.price, draft.kind, []
    if name is None:
        match content.get("name"):
            case str(text) if text.strip() and len(text) <= 100:
                name = text.strip()
            case _:
                problems.append("The name must have 1 to 100 characters.")
    if price is None:
        match content.get("price"):
            case (int() | Decimal()) as number if not isinstance(number, bool) and number >= 0:
                price = str(number)
            case _:
                problems.append("The price must be a number of at least 0.")
    if kind is None:
        match content.get("kind"):
            case str(text) if text in KINDS:
                kind = text
            case _:
                problems.append(f"The kind must be one of {', '.join(KINDS)}.")
    return Draft(name, price, kind, problems)


@server.tool("catalog.total")
async def total(ctx: RequestContext) -> dict[str, JsonValue]:
    """What all items together cost, to the cent."""
    return {"items": len(items), "total": sum((item.price for item in items.values()), Decimal("0.00"))}


@server.resource("catalog://items/{name}", mime_type="text/plain")
async def read_item(ctx: RequestContext, arguments: dict[str, str]) -> str:
    """One item, as a person would say it."""
    item = items.get(arguments["name"])
    if item is None:
        raise McpError(NO_SUCH_ITEM, "There is no such item")
    return f"{item.name} ({item.kind}), {item.price}"


if __name__ == "__main__":
    raise SystemExit(main(["serve", "__main__:server", *sys.argv[1:]]))
