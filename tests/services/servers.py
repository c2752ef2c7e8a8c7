"""The servers of these tests: one question, asked by a tool, a prompt and a resource template alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from mcpinput import (
    ANONYMOUS,
    Absent,
    Accepted,
    Cancelled,
    Declined,
    InputRequest,
    InputRequestDeclaration,
    InputRequiredResult,
    ProtectionConfig,
    ProtectionKey,
    ProtectionKeyring,
    RequestContext,
    RequestStateMode,
    Requirement,
    Server,
    input_required,
)

KINDS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "tool": ("tools/call", {"name": "price", "arguments": {}}),
    "prompt": ("prompts/get", {"name": "price", "arguments": {}}),
    "resource": ("resources/read", {"uri": "shop://prices/7"}),
}
"""Method and params of a request to each kind of operation of :func:`price_server`."""

QUESTION = {
    "mode": "form",
    "message": "Which price?",
    "requestedSchema": {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]},
}


def ring(key: bytes, key_id: str = "k1") -> ProtectionConfig:
    return ProtectionConfig(
        keyring=ProtectionKeyring.with_active_key(ProtectionKey.from_id_and_bytes(key_id, key)).build()
    )


def price_server(seen: list[Any], protection: ProtectionConfig | None = None) -> Server:
    """Asks for a price; what arrives is noted in ``seen`` and told in the result by its repr."""
    server = Server(
        "shop",
        version="1",
        protection=ProtectionConfig.ephemeral() if protection is None else protection,
        admission=ANONYMOUS,
    )
    form = InputRequestDeclaration.from_elicitation_form(Requirement.CONDITIONAL)

    async def price(ctx: RequestContext) -> str | InputRequiredResult:
        match ctx.input_responses.elicitation("price"):
            case Accepted(content):
                seen.append(content["price"])
                return f"accepted {content['price']!r}"
            case Declined():
                return "declined"
            case Cancelled():
                return "cancelled"
            case Absent():
                assert not ctx.has_request_state, "no test leaves the answer out"
        return input_required(
            {"price": InputRequest.from_declaration(form, QUESTION)}, framework_request_state={"scale": Decimal("1.5")}
        )

    sealed = RequestStateMode.FRAMEWORK_PROTECTED
    server.tool("price", input_requests=[form], request_state=sealed)(price)
    server.prompt("price", input_requests=[form], request_state=sealed)(price)

    @server.resource("shop://prices/{number}", input_requests=[form], request_state=sealed)
    async def price_of(ctx: RequestContext, arguments: dict[str, str]) -> str | InputRequiredResult:
        return await price(ctx)

    return server


def greedy_server(requirement: Requirement) -> Server:
    """Needs a form and a URL, in every kind of operation, by declarations of one requirement."""
    server = Server("greedy", version="1", admission=ANONYMOUS)
    form = InputRequestDeclaration.from_elicitation_form(requirement)
    url = InputRequestDeclaration.from_elicitation_url(requirement)

    async def ask(ctx: RequestContext) -> InputRequiredResult:
        page = {"mode": "url", "message": "Go there", "url": "https://shop.example/7"}
        return input_required(
            {
                "price": InputRequest.from_declaration(form, QUESTION),
                "page": InputRequest.from_declaration(url, page, unmanaged=True),
            }
        )

    declared: Sequence[InputRequestDeclaration] = [form, url]
    server.tool("price", input_requests=declared)(ask)
    server.prompt("price", input_requests=declared)(ask)

    @server.resource("shop://prices/{number}", input_requests=declared)
    async def price_of(ctx: RequestContext, arguments: dict[str, str]) -> InputRequiredResult:
        return await ask(ctx)

    return server
