"""A server whose tool, prompt, static resource and template all ask the same way, and that records what ran."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mcpinput import (
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
)

FORM = InputRequestDeclaration.from_elicitation_form(Requirement.CONDITIONAL)
KEY = ProtectionKey.from_id_and_bytes("k1", bytes(range(32)))
SCHEMA = {"type": "object", "properties": {"price": {"type": "number"}}}


def ask_form(message: str = "How much?", schema: Any = None) -> InputRequest:
    return InputRequest.from_declaration(
        FORM, {"mode": "form", "message": message, "requestedSchema": SCHEMA if schema is None else schema}
    )


def ring(*keys: ProtectionKey) -> ProtectionKeyring:
    active, *others = keys or (KEY,)
    builder = ProtectionKeyring.with_active_key(active)
    for key in others:
        builder = builder.verification_key(key)
    return builder.build()


class Clock:
    """A wall clock that stands still until it is told to move; seconds."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@dataclass
class Recorder:
    """What observers were told."""

    requests: list[RequestContext] = field(default_factory=list)
    outcomes: list[Any] = field(default_factory=list)
    drops: list[Any] = field(default_factory=list)
    rejections: list[Any] = field(default_factory=list)

    def on_request(self, ctx: RequestContext) -> None:
        self.requests.append(ctx)

    def on_outcome(self, ctx: RequestContext, outcome: Any) -> None:
        self.outcomes.append(outcome)

    def on_dropped(self, ctx: RequestContext, dropped: Any) -> None:
        self.drops.append(dropped)

    def on_rejection(self, facts: Any, rejection: Any) -> None:
        self.rejections.append(rejection)


def price_server(
    *,
    keys: ProtectionKeyring | None = None,
    clock: Clock | None = None,
    name: str = "prices",
    observer: Any = None,
    protection: ProtectionConfig | None = None,
    **options: Any,
) -> tuple[Server, list[RequestContext]]:
    """Every operation asks ``price``, carries ``{"step": 10}``, and completes with what it was answered."""
    entered: list[RequestContext] = []
    if protection is None:
        protection = ProtectionConfig(keyring=keys or ring(), clock=clock or Clock())
    options.setdefault("admission", anybody)
    server = Server(
        name, version="1", protection=protection, observers=() if observer is None else (observer,), **options
    )
    sealed: dict[str, Any] = {"input_requests": [FORM], "request_state": RequestStateMode.FRAMEWORK_PROTECTED}

    def handle(ctx: RequestContext) -> Any:
        entered.append(ctx)
        match ctx.input_responses.elicitation("price", ask_form()):
            case Accepted(content):
                return f"price {content.get('price')!r} state {ctx.framework_request_state!r}"
            case Declined():
                return "declined"
            case Cancelled():
                return "cancelled"
            case Absent():
                return (
                    InputRequiredResult.builder()
                    .add_input_request("price", ask_form())
                    .framework_request_state({"step": 10})
                    .build()
                )

    @server.tool("set_price", **sealed)
    async def set_price(ctx: RequestContext, arguments: dict[str, Any]) -> Any:
        return handle(ctx)

    @server.tool("other", **sealed)
    async def other(ctx: RequestContext) -> Any:
        return handle(ctx)

    @server.prompt("ask_price", **sealed)
    async def ask_price(ctx: RequestContext, arguments: dict[str, Any]) -> Any:
        return handle(ctx)

    @server.resource("price://all", **sealed)
    def all_prices(ctx: RequestContext) -> Any:
        return handle(ctx)

    @server.resource("price://{sku}", **sealed)
    async def one_price(ctx: RequestContext, arguments: dict[str, Any]) -> Any:
        return handle(ctx)

    return server, entered


def anybody(facts: Any, identity: Any) -> Any:
    from mcpinput import Admission

    return Admission(partition="everybody")


def accept(**content: Any) -> dict[str, Any]:
    return {"price": {"action": "accept", "content": content}}
