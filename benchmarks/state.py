"""Request state: open, verify and seal again for each round, against the official Python SDK's boundary.

Both sides start from a retry that carries a token and end with the token of the next ask. Ours also computes the digest
of the whole ``params`` from the request's bytes; the SDK digests the parsed ``arguments``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any, Final

from benchmarks import peers
from benchmarks.measure import Call as Measured
from benchmarks.measure import Effort, Line, compare
from benchmarks.payloads import items
from mcpinput import ProtectionConfig, protocol
from mcpinput.json import dump, parameter_digest
from mcpinput.protection.context import Bindings
from mcpinput.protection.state import AskedRequest, Call, StateBoundary

TARGETS: Final = {1: 3.0, 100: 4.0, 2_000: 8.0}
"""Ratio to reach at least, by number of items in the arguments."""

ASKED: Final = {"approval": AskedRequest(1, bytes(16))}
STATE: Final = {"phase": "waiting-for-approval", "step": 2}
TOOL: Final = "orders.import"
AUDIENCE: Final = "catalog"
PRINCIPAL: Final = "user 4711"


def _run(step: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine that never waits, without the cost of a loop."""
    try:
        step.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("a step of the benchmark waited")


def _ours(count: int) -> Measured:
    boundary = StateBoundary(ProtectionConfig.ephemeral())
    raw = dump({"name": TOOL, "arguments": {"items": items(count)}})
    bindings = Bindings(
        audience=AUDIENCE,
        path="/mcp",
        protocol_version=protocol.PROTOCOL_VERSION,
        method=protocol.TOOLS_CALL,
        partition="customers",
        tenant="north",
        principal=PRINCIPAL,
    )

    digest = partial(parameter_digest, raw)
    first = _run(boundary.seal(Call(bindings, 1, digest), None, ASKED, has_state=True, state=STATE))
    first.release()

    terms = boundary.default_terms

    def one_round() -> None:  # as the dispatcher does it
        retry = Call(bindings, 2, digest)
        opened = boundary.open_now(first.token, retry, terms)
        boundary.seal_now(retry, opened, ASKED, True, STATE, None, terms).release()

    return one_round


def _sdk(count: int) -> Measured:
    module = peers.installed("mcp.server.request_state")
    contexts = peers.installed("mcp.server.context")
    assert module is not None
    assert contexts is not None
    security = module.RequestStateSecurity.ephemeral()
    security.bind_principal = lambda _: PRINCIPAL
    boundary = module.RequestStateBoundary(security, default_audience=AUDIENCE)
    arguments = {"items": [{"id": item["id"], "price": float(item["price"])} for item in items(count)]}
    state = json.dumps(STATE)
    ask = {"resultType": "input_required", "inputRequests": {"approval": {}}, "requestState": state}

    async def handler(_: Any) -> dict[str, Any]:
        return ask

    def context(params: dict[str, Any]) -> Any:
        return contexts.ServerRequestContext(
            session=None,
            lifespan_context={},
            protocol_version=protocol.PROTOCOL_VERSION,
            method=protocol.TOOLS_CALL,
            params=params,
        )

    params = {"name": TOOL, "arguments": arguments}
    token = asyncio.run(boundary(context(params), handler))["requestState"]
    if token == state:
        raise RuntimeError("the peer did not seal")
    retry = context({**params, "requestState": token})

    return lambda: _run(boundary(retry, handler))


def lines(effort: Effort) -> Iterator[Line]:
    """Every line on request state; none where the official SDK is not installed."""
    if peers.installed("mcp.server.request_state") is None:
        return
    for count, target in TARGETS.items():
        yield compare(
            f"state round, {count:,} item{'s' if count > 1 else ''}",
            _ours(count),
            _sdk(count),
            "mcp",
            effort,
            target=target,
        )
