"""What a type checker sees of a server and its handlers: read by mypy, never run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, assert_type

from mcpinput import (
    Absent,
    Accepted,
    Cancelled,
    Declined,
    InputRequest,
    InputRequestDeclaration,
    InputRequiredResult,
    JsonValue,
    KeyFile,
    MemoryStore,
    ProtectionConfig,
    ProtectionContext,
    ProtectionFailure,
    ProtectionKey,
    ProtectionKeyring,
    ProtectionKeyringSnapshot,
    RecordStore,
    RequestContext,
    RequestStateMode,
    Requirement,
    SealedSize,
    Server,
    SqliteStore,
    input_required,
)
from mcpinput.json import canonical_bytes, canonical_number, dump, parameter_digest, parse


@dataclass(frozen=True)
class Cart:
    """Sealed by a handler below."""

    lines: int
    total: Decimal


form = InputRequestDeclaration.from_elicitation_form(Requirement.CONDITIONAL)
request = InputRequest.from_declaration(form, {"mode": "form", "message": "?", "requestedSchema": {"type": "object"}})
key = ProtectionKey.from_id_and_bytes("k1", bytes(32))
ring = ProtectionKeyring.with_active_key(key).verification_key(key).build()
server = Server("catalog", version="1", protection=ProtectionConfig(keyring=ring))

assert_type(form, InputRequestDeclaration)
assert_type(form.requirement, Requirement)
assert_type(request, InputRequest)
assert_type(ring, ProtectionKeyring)
assert_type(ring.fingerprint.value, str)


class Plain:
    """A protector of plain functions."""

    def seal(self, payload: bytes, context: ProtectionContext) -> str:
        return payload.hex()

    def open(self, token: str, context: ProtectionContext) -> bytes:
        return bytes.fromhex(token)


class Waiting:
    """A protector of coroutines."""

    async def seal(self, payload: bytes, context: ProtectionContext) -> str:
        return payload.hex()

    async def open(self, token: str, context: ProtectionContext) -> bytes:
        return bytes.fromhex(token)


stores: list[RecordStore] = [MemoryStore(), SqliteStore("spent.db")]
configs = [
    ProtectionConfig(key_file=KeyFile("keys.json", activation_delay=timedelta(minutes=5)), single_use=stores[0]),
    ProtectionConfig(protector=Plain(), single_use=stores[1]),
    ProtectionConfig(protector=Waiting()),
]
assert_type(configs[0].sealed_size({"step": 1}, keys=["approval"]), SealedSize)
assert_type(configs[0].sealed_size().encoded_bytes, int | None)
assert_type(server.protection_keyring_manager.snapshot(), ProtectionKeyringSnapshot)
assert_type(server.protection_keyring_manager.snapshot().last_used, Mapping[str, float | None])
assert_type(server.counters.snapshot().state_refused, Mapping[ProtectionFailure, int])


@server.tool(
    "orders.refund",
    input_requests=[form],
    request_state=RequestStateMode.FRAMEWORK_PROTECTED,
    maximum_request_state_lifetime=timedelta(minutes=5),
    maximum_request_state_rounds=3,
)
async def refund(ctx: RequestContext, arguments: dict[str, Any]) -> str | InputRequiredResult:
    """A decorated handler keeps its own type."""
    assert_type(ctx.round, int)
    assert_type(ctx.rounds_left, int)
    assert_type(ctx.expires_at, datetime | None)
    assert_type(ctx.flow_id, bytes)
    assert_type(ctx.idempotency_key("refund"), str)
    assert_type(ctx.can_seal({"step": 2}, keys=["approval"]), bool)
    assert_type(ctx.request_id, int | str)
    assert_type(ctx.has_request_state, bool)
    assert_type(ctx.framework_request_state, JsonValue)
    assert_type(ctx.application_request_state, str | None)
    if ctx.has_request_state:
        assert_type(ctx.state(Cart), Cart)
    answer = ctx.input_responses.elicitation("approval", request)
    assert_type(answer, Absent | Accepted | Declined | Cancelled)
    match answer:
        case Accepted(content):
            assert_type(content["amount"], str | int | Decimal | bool | list[str])
            return "done"
        case Declined() | Cancelled():
            return "not done"
        case Absent():
            pass
    built = InputRequiredResult.builder().add_input_request("approval", request).framework_request_state(None).build()
    assert_type(built, InputRequiredResult)
    return input_required({"approval": request}, framework_request_state={"step": 1})


assert_type(parse(b"1"), JsonValue)
assert_type(dump({"a": Decimal("3.50")}), bytes)
assert_type(canonical_bytes([1]), bytes)
assert_type(canonical_number(100), str)
assert_type(parameter_digest(b"{}"), bytes)
