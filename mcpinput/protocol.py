"""Revision 2026-07-28 of the Model Context Protocol by name: versions, methods, ``_meta`` keys, codes, limits.

Source: the specification's pages ``basic/index``, ``basic/transports/streamable-http`` and its ``schema.ts``.
"""

from __future__ import annotations

from typing import Final

PROTOCOL_VERSION: Final = "2026-07-28"
SUPPORTED_VERSIONS: Final = (PROTOCOL_VERSION,)
JSONRPC_VERSION: Final = "2.0"

# Methods
DISCOVER: Final = "server/discover"
TOOLS_LIST: Final = "tools/list"
TOOLS_CALL: Final = "tools/call"
PROMPTS_LIST: Final = "prompts/list"
PROMPTS_GET: Final = "prompts/get"
RESOURCES_LIST: Final = "resources/list"
RESOURCES_TEMPLATES_LIST: Final = "resources/templates/list"
RESOURCES_READ: Final = "resources/read"
ELICITATION_CREATE: Final = "elicitation/create"
SAMPLING_CREATE_MESSAGE: Final = "sampling/createMessage"
ROOTS_LIST: Final = "roots/list"
INITIALIZE: Final = "initialize"

NAME_MEMBER: Final = {TOOLS_CALL: "name", PROMPTS_GET: "name", RESOURCES_READ: "uri"}
"""The member of ``params`` that ``Mcp-Name`` repeats, by method."""

# _meta keys
META_PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
META_CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
META_PROGRESS_TOKEN: Final = "progressToken"  # noqa: S105 - the name of a member, not a secret

TRANSIENT_META: Final = ("progressToken", "traceparent", "tracestate", "baggage")
"""Members of ``_meta`` that change from request to request and stay out of the parameter digest."""

RETRY_PARAMS: Final = ("inputResponses", "requestState")
"""Members of ``params`` that only a retry carries."""

# Result types
COMPLETE: Final = "complete"
INPUT_REQUIRED: Final = "input_required"

# JSON-RPC and MCP error codes
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022

# Fixed texts
INVALID_STATE_MESSAGE: Final = "Invalid or expired requestState"
INVALID_STATE_DATA: Final = {"reason": "invalid_request_state"}
INTERNAL_ERROR_MESSAGE: Final = "Internal error"


def is_reserved_meta_key(key: str) -> bool:
    """Whether the specification keeps a ``_meta`` key for itself (basic/index, "_meta")."""
    if key in TRANSIENT_META:
        return True
    prefix, slash, _ = key.partition("/")
    if not slash:
        return False
    labels = prefix.split(".")
    return len(labels) > 1 and labels[1] in ("modelcontextprotocol", "mcp")
