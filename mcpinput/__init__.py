"""Ask the person on the other side of an MCP server, with sealed state and exact decimals.

The public names stand here; JSON of its own is in :mod:`mcpinput.json`.
"""

from mcpinput.content import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcpinput.errors import (
    InputConversionError,
    InputError,
    JsonError,
    JsonErrorKind,
    JsonParseError,
    JsonTypeError,
    JsonWriteError,
    McpError,
    ProtectionFailure,
    ProtectionKeyInUseError,
    RequestStateProtectionError,
    ToolError,
)
from mcpinput.json import JsonValue, Limits
from mcpinput.protection import (
    ProtectionConfig,
    ProtectionContext,
    ProtectionKey,
    ProtectionKeyring,
    ProtectionKeyringFingerprint,
    ProtectionKeyringManager,
    ProtectionKeyringSnapshot,
    RequestStateProtector,
)
from mcpinput.requests import (
    InputRequest,
    InputRequestDeclaration,
    InputRequestType,
    Requirement,
    may_request_input,
)
from mcpinput.responses import Absent, Accepted, Cancelled, Declined, InputResponses, Rooted, Sampled
from mcpinput.results import ABSENT, CompleteResult, InputRequiredResult, input_required
from mcpinput.server.admission import (
    ANONYMOUS,
    Admission,
    AdmissionFacts,
    Identity,
    Refusal,
    TransportFacts,
    partition_of,
)
from mcpinput.server.context import RequestContext
from mcpinput.server.observers import Dropped, Interceptor, Observer, Outcome, Rejection
from mcpinput.server.registry import (
    PromptArgument,
    PromptRegistration,
    RequestStateMode,
    ResourceRegistration,
    ToolRegistration,
)
from mcpinput.server.server import Server

__version__ = "0.1.0"

__all__ = [
    "ABSENT",
    "ANONYMOUS",
    "Absent",
    "Accepted",
    "Admission",
    "AdmissionFacts",
    "AudioContent",
    "BlobResourceContents",
    "Cancelled",
    "CompleteResult",
    "Declined",
    "Dropped",
    "EmbeddedResource",
    "Identity",
    "ImageContent",
    "InputConversionError",
    "InputError",
    "InputRequest",
    "InputRequestDeclaration",
    "InputRequestType",
    "InputRequiredResult",
    "InputResponses",
    "Interceptor",
    "JsonError",
    "JsonErrorKind",
    "JsonParseError",
    "JsonTypeError",
    "JsonValue",
    "JsonWriteError",
    "Limits",
    "McpError",
    "Observer",
    "Outcome",
    "PromptArgument",
    "PromptMessage",
    "PromptRegistration",
    "ProtectionConfig",
    "ProtectionContext",
    "ProtectionFailure",
    "ProtectionKey",
    "ProtectionKeyInUseError",
    "ProtectionKeyring",
    "ProtectionKeyringFingerprint",
    "ProtectionKeyringManager",
    "ProtectionKeyringSnapshot",
    "Refusal",
    "Rejection",
    "RequestContext",
    "RequestStateMode",
    "RequestStateProtectionError",
    "RequestStateProtector",
    "Requirement",
    "ResourceLink",
    "ResourceRegistration",
    "Rooted",
    "Sampled",
    "Server",
    "TextContent",
    "TextResourceContents",
    "ToolError",
    "ToolRegistration",
    "TransportFacts",
    "input_required",
    "may_request_input",
    "partition_of",
]
