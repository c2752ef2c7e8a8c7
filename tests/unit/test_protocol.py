"""Names of revision 2026-07-28."""

from __future__ import annotations

import pytest

from mcpinput import protocol


@pytest.mark.parametrize(
    "key",
    [
        "progressToken",
        "traceparent",
        "tracestate",
        "baggage",
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/anything",
        "com.mcp/x",
        "com.mcp.tools/x",
        "dev.modelcontextprotocol.more.labels/x",
        "io.mcp/",
    ],
)
def test_keys_that_the_specification_keeps(key: str) -> None:
    assert protocol.is_reserved_meta_key(key)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "x",
        "mcp",
        "com.example/x",
        "mcp/x",  # the second label decides, and there is none
        "modelcontextprotocol/x",
        "com.example.mcp/x",  # third label
        "com.mcpx/x",
        "com.MCP/x",
        "ProgressToken",
        "com.example/progressToken",
        "io.modelcontextprotocol",  # no prefix without a slash
    ],
)
def test_keys_that_applications_may_use(key: str) -> None:
    assert not protocol.is_reserved_meta_key(key)


def test_what_the_digest_leaves_out_is_reserved() -> None:
    assert all(protocol.is_reserved_meta_key(key) for key in protocol.TRANSIENT_META)
