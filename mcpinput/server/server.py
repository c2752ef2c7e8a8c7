"""``Server``: what an application registers its operations with, and serves."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mcpinput.json import Limits
from mcpinput.protection.config import ProtectionConfig
from mcpinput.protection.state import StateBoundary
from mcpinput.requests import InputRequestType
from mcpinput.server.admission import ANONYMOUS
from mcpinput.server.asgi import AsgiApp
from mcpinput.server.dispatcher import Dispatcher
from mcpinput.server.headers import HostPolicy
from mcpinput.server.observers import Interceptor, Observers
from mcpinput.server.registry import (
    PromptArgument,
    PromptRegistration,
    Registration,
    Registry,
    RequestStateMode,
    ResourceRegistration,
    ToolRegistration,
    checked_text,
    operation_of,
)
from mcpinput.server.workers import warn_of_ephemeral_key

if TYPE_CHECKING:
    from datetime import timedelta

    from mcpinput.protection.manager import ProtectionKeyringManager
    from mcpinput.requests import InputRequestDeclaration
    from mcpinput.server.admission import AdmissionHook, AnonymousType, Authenticate
    from mcpinput.server.counters import Counters
    from mcpinput.server.registry import Operation

_Handler = TypeVar("_Handler", bound=Callable[..., Any])


class Server:
    """An MCP server of revision 2026-07-28.

    Args:
        name: Name of the service, shown to clients. Replicas of one service must share it (or
            ``ProtectionConfig(audience=...)``): state is bound to it.
        version: Version of the service, shown to clients.
        path: The endpoint's path. Normalised once: no trailing slash. Mounted under ``/api``, a server of path ``/mcp``
            is at ``/api/mcp``: what stands before the mount is no part of this path, nor of what state is bound to.
        title: Name for people.
        instructions: Hints for the model.
        protection: How FRAMEWORK_PROTECTED state is sealed; needed where an operation uses that mode.
        authenticate: First door, before the body is read: ``authenticate(facts) -> Identity | Refusal``.
        admission: Second door: ``admission(facts, identity) -> Admission | Refusal``, or ``ANONYMOUS`` where all
            callers are one. May be left out only where nothing depends on who is calling: no ``authenticate``, no URL
            asks, and protection that is ephemeral or absent.
        observers: Told of every request; see :class:`mcpinput.server.observers.Observer`.
        interceptors: Wrap every handler, the first one outermost.
        limits: Bounds on what is read and written.
        allowed_hosts: Values of ``Host`` that are served: names (any port), ``name:port``, or ``"*"``. Default:
            loopback names, which protects local servers from DNS rebinding.
        allowed_origins: Exact values of ``Origin`` that may call. Default: the request's own Host.

    Raises:
        TypeError: A part has the wrong type.
        ValueError: A part cannot be used; says why.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str,
        path: str = "/mcp",
        title: str | None = None,
        instructions: str | None = None,
        protection: ProtectionConfig | None = None,
        authenticate: Authenticate | None = None,
        admission: AdmissionHook | AnonymousType | None = None,
        observers: Iterable[object] = (),
        interceptors: Iterable[Interceptor] = (),
        limits: Limits | None = None,
        allowed_hosts: Iterable[str] | None = None,
        allowed_origins: Iterable[str] | None = None,
    ) -> None:
        for argument, text in (("name", name), ("version", version)):
            if not checked_text(argument, text):
                raise ValueError(f"{argument} must not be empty")
        for argument, optional in (("title", title), ("instructions", instructions)):
            if optional is not None:
                checked_text(argument, optional)
        interceptors = tuple(interceptors)
        for interceptor in interceptors:
            if not callable(interceptor):
                raise TypeError(f"interceptors must hold callables, not {type(interceptor).__name__}")
        if protection is not None and not isinstance(protection, ProtectionConfig):
            kind = type(protection).__name__
            del protection  # it may be the bytes of a key
            raise TypeError(
                f"protection must be a ProtectionConfig, not {kind}; ProtectionConfig(key_file=...) makes one"
            )
        self.name: Final = name
        self.version: Final = version
        self.path: Final = normalised_path(path)
        self._protection: Final = protection
        self._authenticate: Final = authenticate
        self._admission: Final = admission
        self._observers: Final = Observers(observers)
        self._boundary: Final = (
            None
            if protection is None
            else StateBoundary(
                protection,
                on_keyring_change=self._observers.keyring_change,
                on_key_file_problem=self._observers.key_file_problem,
            )
        )
        if limits is not None and not isinstance(limits, Limits):
            raise TypeError(f"limits must be a Limits, not {type(limits).__name__}")
        self._limits: Final = Limits() if limits is None else limits
        self._hosts: Final = HostPolicy(allowed_hosts, allowed_origins)
        self._registry: Final = Registry()
        self._served = False
        server_info = {"name": name, "version": version}
        if title is not None:
            server_info["title"] = title
        for hook_name, hook in (("authenticate", authenticate), ("admission", admission)):
            if hook is not None and hook is not ANONYMOUS and not callable(hook):
                raise TypeError(f"{hook_name} must be callable, not {type(hook).__name__}")
        self._dispatcher: Final = Dispatcher(
            registry=self._registry,
            endpoint_path=self.path,
            audience=name if protection is None or protection.audience is None else protection.audience,
            server_info=server_info,
            instructions=instructions,
            boundary=self._boundary,
            admission=ANONYMOUS if admission is None else admission,
            observers=self._observers,
            interceptors=interceptors,
            limits=self._limits,
        )

    def __repr__(self) -> str:
        return f"<Server {self.name} {self.version} at {self.path}>"

    # ---- registration ----

    def add(self, registration: Registration) -> None:
        """Registers a tool, prompt, resource or resource template.

        Raises:
            TypeError: A part has the wrong type, or the handler takes other parameters than ``(ctx)`` or
                ``(ctx, arguments)``.
            ValueError: A name is taken, a schema or template is not valid, or the mode is FRAMEWORK_PROTECTED and the
                server has no protection.
        """
        self._add(registration)

    def _add(self, registration: Registration) -> None:
        operation = operation_of(registration, self._boundary)
        if self._served:
            self._check_admission(operation)
        for declaration in operation.declarations:
            if declaration.deprecated:
                # Before it is added: where warnings are errors, nothing is registered.
                warnings.warn(
                    f"{operation.kind} {operation.name!r}: {declaration.json_rpc_method} is deprecated in revision "
                    "2026-07-28; ask by elicitation where you can",
                    DeprecationWarning,
                    stacklevel=3,  # whoever called add(), or used a decorator
                )
        self._registry.add(operation)

    def tool(
        self,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        annotations: Mapping[str, Any] | None = None,
        input_requests: Sequence[InputRequestDeclaration] = (),
        request_state: RequestStateMode = RequestStateMode.NONE,
        maximum_request_state_lifetime: timedelta | None = None,
        maximum_request_state_rounds: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Callable[[_Handler], _Handler]:
        """Registers the decorated function as a tool. Arguments as in :class:`ToolRegistration`.

        The name is the function's where left out, the description its docstring.
        """

        _refuse_bare(name, "tool")

        def register(handler: _Handler) -> _Handler:
            self._add(
                ToolRegistration(
                    name=_name_of(handler, name),
                    handler=handler,
                    title=title,
                    description=_description_of(handler, description),
                    input_schema=input_schema,
                    output_schema=output_schema,
                    annotations=annotations,
                    input_requests=input_requests,
                    request_state=request_state,
                    maximum_request_state_lifetime=maximum_request_state_lifetime,
                    maximum_request_state_rounds=maximum_request_state_rounds,
                    metadata=metadata,
                )
            )
            return handler

        return register

    def prompt(
        self,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        arguments: Sequence[PromptArgument] = (),
        input_requests: Sequence[InputRequestDeclaration] = (),
        request_state: RequestStateMode = RequestStateMode.NONE,
        maximum_request_state_lifetime: timedelta | None = None,
        maximum_request_state_rounds: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Callable[[_Handler], _Handler]:
        """Registers the decorated function as a prompt. Arguments as in :class:`PromptRegistration`."""

        _refuse_bare(name, "prompt")

        def register(handler: _Handler) -> _Handler:
            self._add(
                PromptRegistration(
                    name=_name_of(handler, name),
                    handler=handler,
                    title=title,
                    description=_description_of(handler, description),
                    arguments=arguments,
                    input_requests=input_requests,
                    request_state=request_state,
                    maximum_request_state_lifetime=maximum_request_state_lifetime,
                    maximum_request_state_rounds=maximum_request_state_rounds,
                    metadata=metadata,
                )
            )
            return handler

        return register

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        input_requests: Sequence[InputRequestDeclaration] = (),
        request_state: RequestStateMode = RequestStateMode.NONE,
        maximum_request_state_lifetime: timedelta | None = None,
        maximum_request_state_rounds: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Callable[[_Handler], _Handler]:
        """Registers the decorated function as a resource, or as a template where the URI has variables.

        Arguments as in :class:`ResourceRegistration`.
        """

        _refuse_bare(uri, "resource")

        def register(handler: _Handler) -> _Handler:
            self._add(
                ResourceRegistration(
                    uri=uri,
                    handler=handler,
                    name=name,
                    title=title,
                    description=_description_of(handler, description),
                    mime_type=mime_type,
                    input_requests=input_requests,
                    request_state=request_state,
                    maximum_request_state_lifetime=maximum_request_state_lifetime,
                    maximum_request_state_rounds=maximum_request_state_rounds,
                    metadata=metadata,
                )
            )
            return handler

        return register

    # ---- serving ----

    @property
    def protection_keyring_manager(self) -> ProtectionKeyringManager:
        """Live control of the server's keyring.

        Raises:
            LookupError: The server has no protection, or a custom protector.
        """
        manager = None if self._boundary is None else self._boundary.keyring_manager
        if manager is None:
            raise LookupError(
                "this server has no keyring: it needs Server(protection=ProtectionConfig(keyring=...)) or key_file=, "
                "without a protector of its own"
            )
        return manager

    @property
    def counters(self) -> Counters:
        """What has been refused, answered and dropped so far, in this process: for telemetry."""
        return self._observers.counters

    def asgi(self, *, allowed_hosts: Iterable[str] | None = None) -> AsgiApp:
        """The server as an ASGI 3 application.

        Args:
            allowed_hosts: Hosts to serve in place of the server's own, for whoever deploys it and knows its names. None
                keeps the server's own.

        Raises:
            TypeError: ``allowed_hosts`` holds something else than str.
            ValueError: ``admission`` is missing where something depends on who is calling, or an entry of
                ``allowed_hosts`` is no host.
        """
        hosts = self._hosts if allowed_hosts is None else self._hosts.with_hosts(allowed_hosts)
        self._check_admission(*self._registry)
        if not self._served and self._protection is not None and self._protection.is_ephemeral:
            warn_of_ephemeral_key(self.name)
        self._served = True
        return AsgiApp(
            dispatcher=self._dispatcher,
            start=_nothing if self._boundary is None else self._boundary.start,
            endpoint_path=self.path,
            hosts=hosts,
            authenticate=self._authenticate,
            observers=self._observers,
            body_bytes=self._limits.body_bytes,
            warn_credentials=self._admission is None or self._admission is ANONYMOUS,
        )

    def _check_admission(self, *operations: Operation) -> None:
        if self._admission is not None:
            return
        cause = None
        if self._authenticate is not None:
            cause = "it has authenticate="
        elif self._protection is not None and not self._protection.is_ephemeral:
            cause = "its protection is not ephemeral"
        elif any(map(_asks_for_url, operations)):
            cause = "an operation asks the person to visit a URL"
        if cause is not None:
            raise ValueError(
                f"Server {self.name!r} needs admission=, because {cause}; "
                "admission=ANONYMOUS states that all callers are one"
            )


def _nothing() -> None:
    """What there is to start without protection."""


def _refuse_bare(name: object, decorator: str) -> None:
    if callable(name):
        raise TypeError(f"write @server.{decorator}(...) with parentheses: without them nothing is registered")


def _asks_for_url(operation: Operation) -> bool:
    return any(d.input_request_type is InputRequestType.ELICITATION_URL for d in operation.declarations)


def normalised_path(path: str) -> str:
    """The endpoint's path: leading slash, no trailing slash, no empty or dot segments.

    Raises:
        TypeError: No str.
        ValueError: It has empty or dot segments, or characters that do not stand in a path.
    """
    if not isinstance(path, str):
        raise TypeError(f"path must be a str, not {type(path).__name__}")
    segments = path.removeprefix("/").removesuffix("/").split("/")
    if segments == [""]:
        raise ValueError("path must have a segment, such as /mcp")
    for segment in segments:
        if segment in ("", ".", ".."):
            raise ValueError(f"path {path!r} has an empty or dot segment")
        if not segment.isascii() or not segment.isprintable() or set(segment) & set(' ?#%\\"<>'):
            raise ValueError(f"path {path!r} has a character that cannot stand in it")
    return "/" + "/".join(segments)


def _name_of(handler: Callable[..., Any], name: str | None) -> str:
    if name is not None:
        return name
    found = getattr(handler, "__name__", None)
    if not isinstance(found, str):
        raise TypeError("give the operation a name: its handler has none")
    return found


def _description_of(handler: Callable[..., Any], description: str | None) -> str | None:
    if description is not None:
        return description
    return inspect.getdoc(handler) if getattr(handler, "__doc__", None) and hasattr(handler, "__name__") else None
