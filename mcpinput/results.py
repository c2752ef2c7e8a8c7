"""What a handler returns: an ask, or a complete result.

Rules

- An ask (:class:`InputRequiredResult`) has input requests, or request state, or both. It carries no content, no
  ``isError`` and no cache hints.
- Framework state is any JSON value, null included; :data:`ABSENT` is none at all. It is copied and frozen when given.
  Whether it can be sealed (floats, size, rounds, expiry) is found out after the handler returned.
- A complete result (:class:`CompleteResult`) belongs to one kind of operation: tool, prompt or resource.
- ``metadata`` becomes ``_meta``. Keys that the specification reserves are refused.
- A repr shows names and kinds, never content, state or metadata.

Source: ``schema.ts`` of revision 2026-07-28 (InputRequiredResult, CallToolResult, GetPromptResult,
ReadResourceResult) and its page ``server/tools``, "Structured Content".
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import msgspec

from mcpinput import protocol
from mcpinput._values import FactoryValue
from mcpinput.content import (
    BlobResourceContents,
    ContentBlock,
    PromptMessage,
    ResourceContents,
    TextContent,
    TextResourceContents,
)
from mcpinput.json import FrozenObject, dump, freeze
from mcpinput.requests import InputRequest

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "ABSENT",
    "AbsentType",
    "CompleteResult",
    "InputRequiredResult",
    "InputRequiredResultBuilder",
    "input_required",
    "prompt_result",
    "resource_result",
    "tool_result",
]


class AbsentType(enum.Enum):
    """Type of :data:`ABSENT`."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = AbsentType.ABSENT
"""No value, where None would be JSON null."""


def _metadata(metadata: object) -> FrozenObject:
    """A frozen copy of metadata that can be written; which keys it has is another check."""
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping, not {type(metadata).__name__}")
    frozen = cast("FrozenObject", freeze(dict(metadata)))
    dump(frozen)
    return frozen


def _refuse_reserved(metadata: FrozenObject) -> None:
    for key in metadata:
        if protocol.is_reserved_meta_key(key):
            raise ValueError(f"metadata key {key!r} is reserved by the specification; use a prefix of your own")


def _is_well_formed(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# ---- asks ----


class InputRequiredResult(FactoryValue):
    """An ask: what the client must do, and what it must bring back, before the operation can complete."""

    __slots__ = ("_application_state", "_framework_state", "_metadata", "_requests")

    _factories = "InputRequiredResult.builder(), InputRequiredResult.with_input_request() or input_required()"

    _requests: Mapping[str, InputRequest]
    _framework_state: Any
    _application_state: str | None
    _metadata: FrozenObject | None

    @classmethod
    def builder(cls) -> InputRequiredResultBuilder:
        """An empty builder."""
        return InputRequiredResultBuilder()

    @classmethod
    def with_input_request(cls, key: str, request: InputRequest) -> InputRequiredResultBuilder:
        """A builder with its first request; see :meth:`InputRequiredResultBuilder.add_input_request`."""
        return InputRequiredResultBuilder().add_input_request(key, request)

    @property
    def input_requests(self) -> Mapping[str, InputRequest]:
        """The requests by key, in the order in which they were added; read-only."""
        return self._requests

    @property
    def framework_request_state(self) -> Any:
        """The state that the framework seals, frozen; None where there is none, or where it is JSON null."""
        return None if self._framework_state is ABSENT else self._framework_state

    @property
    def has_framework_request_state(self) -> bool:
        """Whether there is state for the framework to seal; tells null from none."""
        return self._framework_state is not ABSENT

    @property
    def application_request_state(self) -> str | None:
        """The state that the application protects by itself; None where there is none."""
        return self._application_state

    @property
    def metadata(self) -> FrozenObject | None:
        """The result's ``_meta``, frozen; None where none was given."""
        return self._metadata

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InputRequiredResult):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # JSON trees have no hash

    def __repr__(self) -> str:
        kinds = (f"{key!r}: {r.declaration.input_request_type.name}" for key, r in self._requests.items())
        parts = [f"{{{', '.join(kinds)}}}"]
        if self.has_framework_request_state:
            parts.append("framework_request_state=...")
        if self._application_state is not None:
            parts.append("application_request_state=...")
        if self._metadata is not None:
            parts.append("metadata=...")
        return f"InputRequiredResult({', '.join(parts)})"


class InputRequiredResultBuilder:
    """Builds an ask step by step; every step returns the builder.

    The last of the two state setters wins, whichever it is, and the last ``metadata``.
    """

    __slots__ = ("_application_state", "_framework_state", "_metadata", "_requests")

    def __init__(self) -> None:
        self._requests: dict[str, InputRequest] = {}
        self._framework_state: Any = ABSENT
        self._application_state: str | None = None
        self._metadata: FrozenObject | None = None

    def add_input_request(self, key: str, input_request: InputRequest) -> Self:
        """Adds one request.

        Args:
            key: The name under which the answer comes back, exactly; it may be empty or blank.
            input_request: The request.

        Raises:
            TypeError: ``key`` is no str, or ``input_request`` no InputRequest.
            ValueError: The key is there already (its request stays), or has a lone surrogate.
        """
        if not isinstance(key, str):
            raise TypeError(f"key must be a str, not {type(key).__name__}")
        if not isinstance(input_request, InputRequest):
            raise TypeError(f"input_request must be an InputRequest, not {type(input_request).__name__}")
        if not _is_well_formed(key):
            raise ValueError("key must have no lone surrogate")
        if key in self._requests:
            raise ValueError(f"there is already an input request under key {key!r}")
        self._requests[key] = input_request
        return self

    def framework_request_state(self, framework_request_state: object) -> Self:
        """Gives JSON state for the framework to seal, in place of any state given before.

        It is sealed after the handler returned, and may then turn out not to fit: floats, size, the last round, or
        expiry are a sanitized internal error, with nothing rolled back. ``ctx.rounds_left`` and
        ``ctx.expires_at`` tell part of that beforehand.

        Args:
            framework_request_state: A JSON value; None is null. A later change of it has no effect.

        Raises:
            TypeError: It is :data:`ABSENT`.
            ValueError: It is nested too deeply, or in itself.
        """
        if framework_request_state is ABSENT:
            raise TypeError("framework_request_state must be a JSON value, not ABSENT")
        self._framework_state = freeze(framework_request_state)
        self._application_state = None
        return self

    def application_request_state(self, application_request_state: str) -> Self:
        """Gives opaque state that the application protects by itself, in place of any state given before.

        Args:
            application_request_state: Text for the client to return: an unguessable handle of a stored record, say.

        Raises:
            TypeError: It is no str.
            ValueError: It is empty, or has a lone surrogate.
        """
        if not isinstance(application_request_state, str):
            raise TypeError(f"application_request_state must be a str, not {type(application_request_state).__name__}")
        if not application_request_state:
            raise ValueError("application_request_state must not be empty")
        if not _is_well_formed(application_request_state):
            raise ValueError("application_request_state must have no lone surrogate")
        self._application_state = application_request_state
        self._framework_state = ABSENT
        return self

    def metadata(self, metadata: Mapping[str, Any]) -> Self:
        """Gives the result's ``_meta``, in place of any given before.

        Raises:
            TypeError: It is no mapping, or holds what JSON has no form for.
            ValueError: It cannot be written as JSON.
        """
        self._metadata = _metadata(metadata)
        return self

    def build(self) -> InputRequiredResult:
        """The ask.

        Raises:
            ValueError: There is neither a request nor state, or a metadata key is reserved by the specification.
        """
        if not self._requests and self._framework_state is ABSENT and self._application_state is None:
            raise ValueError("an ask needs an input request or request state")
        if self._metadata is not None:
            _refuse_reserved(self._metadata)
        return InputRequiredResult._new(
            _requests=MappingProxyType(dict(self._requests)),
            _framework_state=self._framework_state,
            _application_state=self._application_state,
            _metadata=self._metadata,
        )


def input_required(
    input_requests: Mapping[str, InputRequest] | None = None,
    *,
    framework_request_state: object = ABSENT,
    application_request_state: str | AbsentType = ABSENT,
    metadata: Mapping[str, Any] | None = None,
) -> InputRequiredResult:
    """An ask in one call; the arguments are those of the builder.

    Raises:
        TypeError: Both states are given, or as the builder.
        ValueError: As the builder.
    """
    if framework_request_state is not ABSENT and application_request_state is not ABSENT:
        raise TypeError("give framework_request_state or application_request_state, not both")
    if input_requests is not None and not isinstance(input_requests, Mapping):
        raise TypeError(f"input_requests must be a mapping, not {type(input_requests).__name__}")
    builder = InputRequiredResult.builder()
    for key, request in (input_requests or {}).items():
        builder.add_input_request(key, request)
    if framework_request_state is not ABSENT:
        builder.framework_request_state(framework_request_state)
    if application_request_state is not ABSENT:
        builder.application_request_state(application_request_state)
    if metadata is not None:
        builder.metadata(metadata)
    return builder.build()


# ---- complete results ----

ResultKind: TypeAlias = Literal["tool", "prompt", "resource"]

_BLOCK_TYPES: Final = frozenset({"text", "image", "audio", "resource_link", "resource"})


class CompleteResult(FactoryValue):
    """A finished result of a tool, a prompt or a resource."""

    __slots__ = ("_kind", "_members")

    _factories = (
        "CompleteResult.from_tool_text(), from_tool_content(), from_structured(), from_prompt_messages() "
        "or from_resource_contents()"
    )

    _kind: ResultKind
    _members: FrozenObject

    @classmethod
    def from_tool_text(
        cls, text: str, is_error: bool = False, *, metadata: Mapping[str, Any] | None = None
    ) -> CompleteResult:
        """A tool's result of one text.

        Args:
            text: The text.
            is_error: Whether the tool failed, in a way that the model should see.
            metadata: The result's ``_meta``. The other factories likewise.

        Raises:
            TypeError: An argument has the wrong type. The other factories likewise.
            ValueError: A metadata key is reserved by the specification. The other factories likewise.
        """
        return cls.from_tool_content([TextContent(text)], is_error=is_error, metadata=metadata)

    @classmethod
    def from_tool_content(
        cls,
        content: Iterable[ContentBlock | Mapping[str, Any]],
        *,
        structured: object = ABSENT,
        is_error: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> CompleteResult:
        """A tool's result of content blocks.

        Args:
            content: Blocks of :mod:`mcpinput.content`, or plain JSON objects of the same shapes.
            structured: A JSON value for ``structuredContent``.
            is_error: Whether the tool failed.
            metadata: The result's ``_meta``.
        """
        if isinstance(content, (str, Mapping)):
            raise TypeError(f"content must be a sequence of content blocks, not {type(content).__name__}")
        members: dict[str, Any] = {"content": [_block(block) for block in content]}
        if structured is not ABSENT:
            members["structuredContent"] = structured
        if not isinstance(is_error, bool):
            raise TypeError(f"is_error must be a bool, not {type(is_error).__name__}")
        if is_error:
            members["isError"] = True
        return cls._complete("tool", members, metadata)

    @classmethod
    def from_structured(cls, value: object, *, metadata: Mapping[str, Any] | None = None) -> CompleteResult:
        """A tool's structured result, with its JSON as text for clients that read only text.

        Args:
            value: A JSON value, a dataclass or a msgspec Struct.
            metadata: The result's ``_meta``.

        Raises:
            JsonWriteError: The value cannot be written. A ValueError, and a TypeError where a type is the cause.
        """
        frozen = freeze(value)
        return cls.from_tool_content([TextContent(dump(frozen).decode())], structured=frozen, metadata=metadata)

    @classmethod
    def from_prompt_messages(
        cls,
        messages: Iterable[PromptMessage],
        description: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> CompleteResult:
        """A prompt's result.

        Args:
            messages: Its messages.
            description: What the prompt is for.
            metadata: The result's ``_meta``.
        """
        members: dict[str, Any] = {}
        if description is not None:
            if not isinstance(description, str):
                raise TypeError(f"description must be a str, not {type(description).__name__}")
            members["description"] = description
        wire = []
        for message in messages:
            if not isinstance(message, PromptMessage):
                raise TypeError(f"messages must be PromptMessage values, not {type(message).__name__}")
            wire.append(message.to_wire())
        members["messages"] = wire
        return cls._complete("prompt", members, metadata)

    @classmethod
    def from_resource_contents(
        cls,
        contents: Iterable[ResourceContents],
        *,
        ttl_ms: int = 0,
        cache_scope: Literal["private", "public"] = "private",
        metadata: Mapping[str, Any] | None = None,
    ) -> CompleteResult:
        """A resource's result.

        Args:
            contents: The contents: of the resource, or of its parts.
            ttl_ms: Milliseconds for which a client may take it as fresh.
            cache_scope: ``public`` lets caches serve it to everybody.
            metadata: The result's ``_meta``.

        Raises:
            ValueError: ``ttl_ms`` is negative, or ``cache_scope`` another word.
        """
        wire = []
        for part in contents:
            if not isinstance(part, ResourceContents):
                raise TypeError(
                    f"contents must be TextResourceContents or BlobResourceContents, not {type(part).__name__}"
                )
            wire.append(part.to_wire())
        if not isinstance(ttl_ms, int) or isinstance(ttl_ms, bool):
            raise TypeError(f"ttl_ms must be an int, not {type(ttl_ms).__name__}")
        if ttl_ms < 0:
            raise ValueError("ttl_ms must not be negative")
        if cache_scope not in ("private", "public"):
            raise ValueError('cache_scope must be "private" or "public"')
        return cls._complete("resource", {"contents": wire, "ttlMs": ttl_ms, "cacheScope": cache_scope}, metadata)

    @classmethod
    def _complete(cls, kind: ResultKind, members: dict[str, Any], metadata: Mapping[str, Any] | None) -> CompleteResult:
        if metadata is not None:
            frozen = _metadata(metadata)
            _refuse_reserved(frozen)
            members["_meta"] = frozen
        return cls._new(_kind=kind, _members=freeze(members))

    @property
    def kind(self) -> ResultKind:
        """What it is the result of."""
        return self._kind

    @property
    def members(self) -> FrozenObject:
        """The result's members as JSON by schema.ts, without ``resultType``; frozen."""
        return self._members

    @property
    def metadata(self) -> FrozenObject | None:
        """The result's ``_meta``, frozen; None where none was given."""
        return cast("FrozenObject | None", self._members.get("_meta"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CompleteResult):
            return NotImplemented
        return self._kind == other._kind and self._members == other._members

    __hash__ = None  # type: ignore[assignment]  # JSON trees have no hash

    def __repr__(self) -> str:
        return f"CompleteResult({self._kind}, {{{', '.join(f'{name!r}: ...' for name in self._members)}}})"


def _block(block: object) -> Mapping[str, Any]:
    if isinstance(block, ContentBlock):
        return block.to_wire()
    if isinstance(block, Mapping):
        if block.get("type") not in _BLOCK_TYPES:
            raise ValueError(f"a content block's type must be one of {', '.join(sorted(_BLOCK_TYPES))}")
        return dict(block)
    raise TypeError(f"content must be content blocks, not {type(block).__name__}")


# ---- plain values that a handler returns ----


def tool_result(value: object) -> CompleteResult:
    """The result that a tool's handler means by a value.

    Args:
        value: A CompleteResult as it is; None for no content; a str for one text; a content block or a list of them for
            content; any other JSON value, a dataclass or a msgspec Struct for structured content.

    Raises:
        TypeError: A value of another type.
        JsonWriteError: Structured content that cannot be written.
    """
    if isinstance(value, CompleteResult):
        return _of_kind(value, "tool")
    if isinstance(value, str):
        return CompleteResult.from_tool_text(value)
    if value is None:
        return CompleteResult.from_tool_content([])
    if isinstance(value, ContentBlock):
        return CompleteResult.from_tool_content([value])
    if isinstance(value, (list, tuple)) and any(isinstance(item, ContentBlock) for item in value):
        return CompleteResult.from_tool_content(value)
    if _is_structured(value):
        return CompleteResult.from_structured(value)
    raise _not_returnable("a tool may return a str, JSON, a dataclass, a Struct or content blocks", value)


def _is_structured(value: object) -> bool:
    if hasattr(value, "to_wire"):  # parts of other results, returned by mistake
        return False
    return isinstance(value, (dict, list, tuple, int, Decimal, float, enum.Enum, msgspec.Struct)) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    )


def prompt_result(value: object) -> CompleteResult:
    """The result that a prompt's handler means by a value.

    Args:
        value: A CompleteResult as it is, a str for one message of the user, a PromptMessage, or a list of them.

    Raises:
        TypeError: A value of another type.
    """
    if isinstance(value, CompleteResult):
        return _of_kind(value, "prompt")
    if isinstance(value, str):
        return CompleteResult.from_prompt_messages([PromptMessage("user", TextContent(value))])
    if isinstance(value, PromptMessage):
        return CompleteResult.from_prompt_messages([value])
    if isinstance(value, (list, tuple)):
        return CompleteResult.from_prompt_messages(value)
    raise _not_returnable("a prompt may return a str or PromptMessage values", value)


def resource_result(value: object, uri: str, mime_type: str | None = None) -> CompleteResult:
    """The result that a resource's handler means by a value.

    Args:
        value: A CompleteResult as it is, a str for text, bytes for anything else, resource contents, or a list of them.
        uri: URI that was read, for plain text and bytes.
        mime_type: Type of plain text and bytes, if known.

    Raises:
        TypeError: A value of another type.
    """
    if isinstance(value, CompleteResult):
        return _of_kind(value, "resource")
    if isinstance(value, str):
        return CompleteResult.from_resource_contents([TextResourceContents(uri, value, mime_type)])
    if isinstance(value, (bytes, bytearray, memoryview)):
        return CompleteResult.from_resource_contents([BlobResourceContents(uri, bytes(value), mime_type)])
    if isinstance(value, ResourceContents):
        return CompleteResult.from_resource_contents([value])
    if isinstance(value, (list, tuple)):
        return CompleteResult.from_resource_contents(cast("Sequence[ResourceContents]", value))
    raise _not_returnable("a resource may return a str, bytes or resource contents", value)


def _not_returnable(instead: str, value: object) -> TypeError:
    hint = ""
    if isinstance(value, InputRequiredResultBuilder):
        hint = "; end the builder with .build()"
    elif isinstance(value, InputRequest):
        hint = "; to ask it, return input_required({key: request})"
    return TypeError(f"{instead}, a CompleteResult or an InputRequiredResult, not {type(value).__name__}{hint}")


def _of_kind(result: CompleteResult, kind: ResultKind) -> CompleteResult:
    if result.kind != kind:
        raise TypeError(f"a {kind} may not return the result of a {result.kind}")
    return result
