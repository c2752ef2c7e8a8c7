"""What a server offers: registered tools, prompts, resources and templates, checked when they are registered."""

from __future__ import annotations

import enum
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcpinput.json import dump, parse
from mcpinput.protocol import is_reserved_meta_key
from mcpinput.requests import InputRequestDeclaration, Requirement, declared_input_requests
from mcpinput.server.schemas import CompiledSchema
from mcpinput.server.uris import UriTemplate, is_template

if TYPE_CHECKING:
    from datetime import timedelta

    from mcpinput.protection.state import StateBoundary, Terms
    from mcpinput.requests import InputRequest

__all__ = [
    "Handler",
    "PromptArgument",
    "PromptRegistration",
    "RequestStateMode",
    "ResourceRegistration",
    "ToolRegistration",
]

Handler: TypeAlias = Callable[..., Any]
"""``(ctx)`` or ``(ctx, arguments)``, ``async def`` (runs on the event loop) or ``def`` (runs in a thread)."""


class RequestStateMode(enum.Enum):
    """Who protects the state that an operation's asks carry."""

    NONE = "none"
    """The operation's asks carry no state; a token on such an operation is a bad token."""
    APPLICATION_PROTECTED = "application_protected"
    """The application supplies an opaque string, and protects, expires and validates it itself."""
    FRAMEWORK_PROTECTED = "framework_protected"
    """The application supplies a JSON value; the library seals, binds and validates it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    """What every registration may say.

    Attributes:
        handler: The application's function.
        title: Name for people.
        description: What it does.
        input_requests: What it may ask for.
        request_state: Who protects its state.
        maximum_request_state_lifetime: From a flow's first ask to its expiry, where that is to be shorter than
            ``ProtectionConfig`` has it. FRAMEWORK_PROTECTED only; likewise the next one.
        maximum_request_state_rounds: Asks in one flow, where there are to be fewer.
        metadata: ``_meta`` of its entry in the list.
    """

    handler: Handler
    title: str | None = None
    description: str | None = None
    input_requests: Sequence[InputRequestDeclaration] = ()
    request_state: RequestStateMode = RequestStateMode.NONE
    maximum_request_state_lifetime: timedelta | None = None
    maximum_request_state_rounds: int | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRegistration(_Common):
    """A tool.

    Attributes:
        name: Unique among tools.
        input_schema: JSON Schema 2020-12 of the arguments, type ``object``; None takes any object.
        output_schema: JSON Schema of the structured content, shown to clients.
        annotations: ``ToolAnnotations`` of the specification.
    """

    name: str
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One argument of a prompt; values are strings."""

    name: str
    description: str | None = None
    required: bool = False
    title: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRegistration(_Common):
    """A prompt.

    Attributes:
        name: Unique among prompts.
        arguments: The arguments that it takes.
    """

    name: str
    arguments: Sequence[PromptArgument] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRegistration(_Common):
    """A resource, or a resource template.

    Attributes:
        uri: The URI, or a template with ``{name}`` (one segment) or ``{+name}`` (anything); its handler then gets the
            variables as ``arguments``.
        name: Name in the list; the URI where absent.
        mime_type: MIME type of what it gives.
    """

    uri: str
    name: str | None = None
    mime_type: str | None = None


Registration: TypeAlias = ToolRegistration | PromptRegistration | ResourceRegistration


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """A registration as the dispatcher uses it.

    Attributes:
        kind: ``"tool"``, ``"prompt"`` or ``"resource"``.
        name: Name of the tool or prompt, URI or template of the resource.
        handler: The application's function.
        is_async: Whether it is a coroutine function.
        takes_arguments: Whether it takes ``arguments`` after ``ctx``.
        declarations: What it may ask for.
        required: Capabilities of its REQUIRED declarations.
        mode: Its request-state mode.
        terms: What it allows its flows; None but in FRAMEWORK_PROTECTED mode.
        schema: Compiled input schema of a tool.
        required_arguments: Names of a prompt's required arguments.
        template: Compiled template of a resource template.
        mime_type: MIME type of a resource.
        entry: Its entry in the list, in wire form.
    """

    kind: str
    name: str
    handler: Handler
    is_async: bool
    takes_arguments: bool
    declarations: tuple[InputRequestDeclaration, ...]
    required: tuple[Mapping[str, Any], ...]
    mode: RequestStateMode
    entry: Mapping[str, Any]
    terms: Terms | None = None
    schema: CompiledSchema | None = None
    required_arguments: tuple[str, ...] = ()
    template: UriTemplate | None = None
    mime_type: str | None = None

    def may_emit(self, request: InputRequest) -> bool:
        """Whether a request is of a declared kind, and needs no more than was declared for it."""
        needed = request.declaration.capabilities
        for declaration in self.declarations:
            if declaration.input_request_type is not request.declaration.input_request_type:
                continue
            declared = declaration.capabilities
            if all(part in declared.get(name, {}) for name, parts in needed.items() for part in parts):
                return True
        return False


class Registry:
    """All operations of one server, by kind and name, in the order of their registration.

    The tables are replaced whole, so that whoever reads one meanwhile, in any thread, goes on with the one that it has.
    """

    __slots__ = ("_lock", "prompts", "resources", "templates", "tools")

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self.tools: Mapping[str, Operation] = {}
        self.prompts: Mapping[str, Operation] = {}
        self.resources: Mapping[str, Operation] = {}
        self.templates: Mapping[str, Operation] = {}

    def add(self, operation: Operation) -> None:
        """Adds an operation that :func:`operation_of` has made.

        Raises:
            ValueError: The name is taken.
        """
        if operation.kind == "resource":
            table = "resources" if operation.template is None else "templates"
        else:
            table = f"{operation.kind}s"
        with self._lock:
            present = getattr(self, table)
            if operation.name in present:
                raise ValueError(f"{operation.kind} {operation.name!r} is registered already")
            setattr(self, table, {**present, operation.name: operation})

    def resource(self, uri: str) -> tuple[Operation, dict[str, str]] | None:
        """The resource that a URI addresses, with its variables: an exact URI first, then templates in their order."""
        operation = self.resources.get(uri)
        if operation is not None:
            return operation, {}
        for operation in self.templates.values():
            assert operation.template is not None
            variables = operation.template.match(uri)
            if variables is not None:
                return operation, variables
        return None

    def __iter__(self) -> Iterator[Operation]:
        for table in (self.tools, self.prompts, self.resources, self.templates):
            yield from table.values()


def operation_of(registration: Registration, boundary: StateBoundary | None) -> Operation:
    """Checks a registration.

    Args:
        registration: What the application says.
        boundary: What seals and opens the server's state; None without protection.

    Raises:
        TypeError: A part has the wrong type, or the handler takes other parameters than ``(ctx)`` or
            ``(ctx, arguments)``.
        ValueError: A name, schema or template cannot be used; ``metadata`` has a key that the specification reserves;
            the mode is FRAMEWORK_PROTECTED and there is no protection; or the lifetime or rounds are above what the
            protection allows, or are given in another mode.
    """
    match registration:
        case ToolRegistration():
            operation = _tool(registration)
        case PromptRegistration():
            operation = _prompt(registration)
        case ResourceRegistration():
            operation = _resource(registration)
        case _:
            raise TypeError(f"a registration is needed, not {type(registration).__name__}")
    return replace(operation, terms=_terms(f"{operation.kind} {operation.name!r}", registration, boundary))


def _terms(label: str, registration: _Common, boundary: StateBoundary | None) -> Terms | None:
    lifetime, rounds = registration.maximum_request_state_lifetime, registration.maximum_request_state_rounds
    if registration.request_state is not RequestStateMode.FRAMEWORK_PROTECTED:
        if lifetime is not None or rounds is not None:
            raise ValueError(
                f"{label}: maximum_request_state_lifetime and maximum_request_state_rounds need "
                "request_state=RequestStateMode.FRAMEWORK_PROTECTED: in the other modes nobody counts"
            )
        return None
    if boundary is None:
        raise ValueError(
            f"{label}: request_state=FRAMEWORK_PROTECTED needs Server(protection=...); "
            "ProtectionConfig.ephemeral() suits one process"
        )
    try:
        return boundary.terms(lifetime=lifetime, rounds=rounds)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{label}: {error}") from None


def _tool(registration: ToolRegistration) -> Operation:
    name = _name("tool", registration.name)
    schema = None
    wire_schema: Any = {"type": "object"}
    if registration.input_schema is not None:
        schema = CompiledSchema(registration.input_schema, f"tool {name!r}: input_schema")
        if schema.schema.get("type") != "object":
            raise ValueError(f'tool {name!r}: input_schema must have "type": "object"')
        wire_schema = schema.schema
    entry = _entry(registration, {"name": name})
    entry["inputSchema"] = wire_schema
    if registration.output_schema is not None:
        entry["outputSchema"] = CompiledSchema(registration.output_schema, f"tool {name!r}: output_schema").schema
    if registration.annotations is not None:
        entry["annotations"] = dict(registration.annotations)
    return _operation(registration, "tool", name, entry, schema=schema)


def _prompt(registration: PromptRegistration) -> Operation:
    name = _name("prompt", registration.name)
    entry = _entry(registration, {"name": name})
    arguments: list[dict[str, Any]] = []
    for argument in registration.arguments:
        if not isinstance(argument, PromptArgument):
            raise TypeError(f"prompt {name!r}: arguments must be PromptArgument, not {type(argument).__name__}")
        wire: dict[str, Any] = {"name": _name(f"prompt {name!r}: argument", argument.name)}
        if any(wire["name"] == other["name"] for other in arguments):
            raise ValueError(f"prompt {name!r}: argument {argument.name!r} stands twice")
        if argument.title is not None:
            wire["title"] = argument.title
        if argument.description is not None:
            wire["description"] = argument.description
        if argument.required:
            wire["required"] = True
        arguments.append(wire)
    if arguments:
        entry["arguments"] = arguments
    required = tuple(argument.name for argument in registration.arguments if argument.required)
    return _operation(registration, "prompt", name, entry, required_arguments=required)


def _resource(registration: ResourceRegistration) -> Operation:
    uri = _name("resource", registration.uri)
    template = UriTemplate(uri) if is_template(uri) else None
    if ":" not in uri.partition("{")[0]:
        raise ValueError(f"resource {uri!r}: the URI needs a scheme, such as demo://")
    name = uri if registration.name is None else _name(f"resource {uri!r}", registration.name)
    entry = _entry(registration, {"name": name})
    entry["uri" if template is None else "uriTemplate"] = uri
    if registration.mime_type is not None:
        entry["mimeType"] = checked_text(f"resource {uri!r}: mime_type", registration.mime_type)
    return _operation(registration, "resource", uri, entry, template=template, mime_type=registration.mime_type)


def _entry(registration: _Common, entry: dict[str, Any]) -> dict[str, Any]:
    for member, text in (("title", registration.title), ("description", registration.description)):
        if text is not None:
            entry[member] = checked_text(f"{entry['name']!r}: {member}", text)
    if registration.metadata is not None:
        if not isinstance(registration.metadata, Mapping):
            raise TypeError(
                f"{entry['name']!r}: metadata must be a mapping, not {type(registration.metadata).__name__}"
            )
        for key in registration.metadata:
            if isinstance(key, str) and is_reserved_meta_key(key):
                raise ValueError(f"{entry['name']!r}: metadata key {key!r} is reserved by the specification")
        entry["_meta"] = dict(registration.metadata)
    return entry


def _operation(registration: _Common, kind: str, name: str, entry: dict[str, Any], **more: Any) -> Operation:
    label = f"{kind} {name!r}"
    handler = registration.handler
    if not callable(handler):
        raise TypeError(f"{label}: the handler must be callable, not {type(handler).__name__}")
    if not isinstance(registration.request_state, RequestStateMode):
        raise TypeError(f"{label}: request_state must be a RequestStateMode")
    if isinstance(registration.input_requests, InputRequestDeclaration):
        raise TypeError(f"{label}: input_requests must be a list of InputRequestDeclaration, not a single one")
    declarations = (*registration.input_requests, *declared_input_requests(handler))
    for declaration in declarations:
        if not isinstance(declaration, InputRequestDeclaration):
            raise TypeError(
                f"{label}: input_requests must hold InputRequestDeclaration, not {type(declaration).__name__}"
            )
    return Operation(
        kind=kind,
        name=name,
        handler=handler,
        is_async=_is_async(handler),
        takes_arguments=_takes_arguments(label, handler),
        declarations=declarations,
        required=tuple(d.capabilities for d in declarations if d.requirement is Requirement.REQUIRED),
        mode=registration.request_state,
        # Written and read again: what cannot go on the wire is refused here, and later changes have no effect.
        entry=parse(dump(entry)),  # type: ignore[arg-type]  # an object gives an object
        **more,
    )


def _is_async(handler: Handler) -> bool:
    while isinstance(handler, functools.partial):
        handler = handler.func
    call = getattr(handler, "__call__", None)  # noqa: B004 - an object whose call is a coroutine function
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def _takes_arguments(label: str, handler: Handler) -> bool:
    """Whether a handler takes ``arguments``. The name counts: other parameters may get a meaning of their own."""
    signature = inspect.signature(handler)
    match list(signature.parameters.values()):
        case [ctx] if ctx.kind in _POSITIONAL and ctx.name != "arguments":
            return False
        case [ctx, arguments] if ctx.kind in _POSITIONAL and arguments.kind in _POSITIONAL:
            if arguments.name == "arguments":
                return True
    raise TypeError(
        f"{label}: the handler must take (ctx) or (ctx, arguments), the second by this name, not {signature}"
    )


_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _name(what: str, name: object) -> str:
    text = checked_text(f"{what}: the name", name)
    if not text:
        raise ValueError(f"{what}: the name must not be empty")
    return text


def checked_text(what: str, text: object) -> str:
    """A str that can be sent.

    Raises:
        TypeError: No str.
        ValueError: It has a lone surrogate.
    """
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} has a lone surrogate") from None
    return text
