"""What an operation may ask of the client, and the requests that it then makes.

Rules

- A declaration is stated at registration; a request is made from one and says nothing that it does not allow.
- A request holds a frozen copy of its params. They are checked when it is made; an error names the member, never its
  value.
- A URL carries nothing but an opaque handle in its path. One that the library's URL-mode helper did not build says
  so with ``unmanaged=True``.

Source: ``schema.ts`` of revision 2026-07-28 (ElicitRequest, CreateMessageRequest, ListRootsRequest,
ClientCapabilities) and its page ``client/elicitation``.
"""

from __future__ import annotations

import enum
import hashlib
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

from mcpinput import protocol
from mcpinput._values import FactoryValue
from mcpinput.errors import JsonError
from mcpinput.json import FrozenObject, canonical_bytes, freeze
from mcpinput.responses import fits_kind

__all__ = [
    "InputRequest",
    "InputRequestDeclaration",
    "InputRequestType",
    "Requirement",
    "declared_input_requests",
    "may_request_input",
]

REQUEST_DIGEST_BYTES: Final = 16


class Requirement(enum.Enum):
    """When a client must have the capability that a declaration needs."""

    REQUIRED = "required"
    """On every call, before the handler runs."""
    CONDITIONAL = "conditional"
    """When the handler asks."""


class InputRequestType(enum.Enum):
    """The kinds of embedded requests. The list is closed."""

    ELICITATION_FORM = 1
    ELICITATION_URL = 2
    SAMPLING = 3
    ROOTS = 4

    @property
    def code(self) -> int:
        """The kind as sealed state writes it: 1 form, 2 URL, 3 sampling, 4 roots."""
        return self.value

    @property
    def json_rpc_method(self) -> str:
        """The embedded request's ``method``."""
        return _METHODS[self]


_METHODS: Final = {
    InputRequestType.ELICITATION_FORM: protocol.ELICITATION_CREATE,
    InputRequestType.ELICITATION_URL: protocol.ELICITATION_CREATE,
    InputRequestType.SAMPLING: protocol.SAMPLING_CREATE_MESSAGE,
    InputRequestType.ROOTS: protocol.ROOTS_LIST,
}


# ---- declarations ----


class InputRequestDeclaration(FactoryValue):
    """One kind of request that an operation may make, and whether clients must support it."""

    __slots__ = ("_context", "_requirement", "_tools", "_type")

    _factories = (
        "InputRequestDeclaration.from_elicitation_form(), from_elicitation_url(), from_sampling() or from_roots()"
    )

    _type: InputRequestType
    _requirement: Requirement
    _tools: bool
    _context: bool

    @classmethod
    def from_elicitation_form(cls, requirement: Requirement) -> InputRequestDeclaration:
        """Forms that the client shows (``elicitation/create``, mode ``form``).

        Raises:
            TypeError: ``requirement`` is no Requirement. The other factories likewise.
        """
        return cls._of(InputRequestType.ELICITATION_FORM, requirement)

    @classmethod
    def from_elicitation_url(cls, requirement: Requirement) -> InputRequestDeclaration:
        """Pages that the client opens (``elicitation/create``, mode ``url``)."""
        return cls._of(InputRequestType.ELICITATION_URL, requirement)

    @classmethod
    def from_sampling(
        cls, requirement: Requirement, *, tools: bool = False, context: bool = False
    ) -> InputRequestDeclaration:
        """Messages from the client's model (``sampling/createMessage``; deprecated by the protocol).

        Args:
            requirement: When clients must support it.
            tools: Requests may have ``tools`` and ``toolChoice``.
            context: Requests may have ``includeContext`` other than ``none``.
        """
        return cls._of(InputRequestType.SAMPLING, requirement, tools=tools, context=context)

    @classmethod
    def from_roots(cls, requirement: Requirement) -> InputRequestDeclaration:
        """The client's roots (``roots/list``; deprecated by the protocol)."""
        return cls._of(InputRequestType.ROOTS, requirement)

    @classmethod
    def _of(
        cls, kind: InputRequestType, requirement: Requirement, *, tools: bool = False, context: bool = False
    ) -> InputRequestDeclaration:
        if not isinstance(requirement, Requirement):
            raise TypeError(f"requirement must be a Requirement, not {type(requirement).__name__}")
        return cls._new(_type=kind, _requirement=requirement, _tools=bool(tools), _context=bool(context))

    @property
    def input_request_type(self) -> InputRequestType:
        """The kind of request."""
        return self._type

    @property
    def json_rpc_method(self) -> str:
        """The embedded request's ``method``."""
        return self._type.json_rpc_method

    @property
    def requirement(self) -> Requirement:
        """When clients must support it."""
        return self._requirement

    @property
    def capabilities(self) -> dict[str, Any]:
        """The client capabilities that it needs, by ``ClientCapabilities`` of schema.ts; a new dict each time."""
        match self._type:
            case InputRequestType.ELICITATION_FORM:
                return {"elicitation": {"form": {}}}
            case InputRequestType.ELICITATION_URL:
                return {"elicitation": {"url": {}}}
            case InputRequestType.ROOTS:
                return {"roots": {}}
            case InputRequestType.SAMPLING:
                sampling: dict[str, Any] = {}
                if self._tools:
                    sampling["tools"] = {}
                if self._context:
                    sampling["context"] = {}
                return {"sampling": sampling}

    @property
    def deprecated(self) -> bool:
        """Whether this revision deprecates the kind: sampling and roots."""
        return self._type in (InputRequestType.SAMPLING, InputRequestType.ROOTS)

    def _key(self) -> tuple[object, ...]:
        return (self._type, self._requirement, self._tools, self._context)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, InputRequestDeclaration) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        extras = f"{', tools' if self._tools else ''}{', context' if self._context else ''}"
        return f"InputRequestDeclaration({self._type.name}, {self._requirement.name}{extras})"


# ---- requests ----


class InputRequest(FactoryValue):
    """One embedded request to the client: method and params."""

    __slots__ = ("_declaration", "_digest", "_params", "_unmanaged")

    _factories = "InputRequest.from_declaration()"

    _declaration: InputRequestDeclaration
    _params: FrozenObject
    _digest: bytes
    _unmanaged: bool

    @classmethod
    def from_declaration(
        cls, declaration: InputRequestDeclaration, params: Mapping[str, Any], *, unmanaged: bool = False
    ) -> InputRequest:
        """A request of a declared kind.

        Args:
            declaration: What the operation declared.
            params: The embedded request's params as JSON, by schema.ts: ElicitRequestFormParams (``mode`` may be
                left out), ElicitRequestURLParams, CreateMessageRequestParams, or the params of ListRootsRequest.
            unmanaged: Says that the application itself serves the page behind a URL, binds it to the person who began
                and keeps it single-purpose. Only for URLs.

        Raises:
            TypeError: A member has the wrong type, or one that JSON has no form for.
            ValueError: A member is missing, or not what the protocol or the declaration allows. The fields of a form
                are not judged: that each is an object is all that is looked at.
        """
        if not isinstance(declaration, InputRequestDeclaration):
            raise TypeError(f"declaration must be an InputRequestDeclaration, not {type(declaration).__name__}")
        is_url = declaration.input_request_type is InputRequestType.ELICITATION_URL
        if unmanaged and not is_url:
            raise ValueError("unmanaged=True is for URL-mode elicitation only")
        request = cls._made(declaration, params, unmanaged=bool(unmanaged))
        if is_url and not unmanaged:
            raise ValueError(
                "params.url was not built by the library's URL-mode helper, which guards the page behind it: "
                "use that, or say unmanaged=True and guard the page yourself"
            )
        return request

    @classmethod
    def _made(
        cls,
        declaration: InputRequestDeclaration,
        params: Mapping[str, Any],
        *,
        unmanaged: bool = False,
    ) -> InputRequest:
        """A checked request; for helpers that own the URL."""
        if not isinstance(params, Mapping):
            raise TypeError(f"params must be a mapping, not {type(params).__name__}")
        frozen = cast("FrozenObject", freeze(dict(params)))
        canonical = _canonical(declaration, frozen)  # this is the check that all of it is JSON, too
        _CHECKS[declaration.input_request_type](declaration, frozen)
        return cls._new(
            _declaration=declaration,
            _params=frozen,
            _digest=hashlib.sha256(canonical).digest()[:REQUEST_DIGEST_BYTES],
            _unmanaged=unmanaged,
        )

    @property
    def declaration(self) -> InputRequestDeclaration:
        """The declaration that it was made from."""
        return self._declaration

    @property
    def json_rpc_method(self) -> str:
        """Its ``method``."""
        return self._declaration.json_rpc_method

    @property
    def params(self) -> FrozenObject:
        """Its ``params``; frozen."""
        return self._params

    @property
    def unmanaged(self) -> bool:
        """Whether it has a URL that the application looks after by itself."""
        return self._unmanaged

    @property
    def digest(self) -> bytes:
        """What state and records remember of it: 16 bytes, of SHA-256 over canonical form v1 of method and params."""
        return self._digest

    def matches_input_response(self, value: object) -> bool:
        """Whether a JSON value is a well-formed answer to this kind of request, by the protocol's union.

        The form is not enforced: fields, ranges and whatever else the schema says stay to be validated.
        """
        return fits_kind(value, self._declaration.input_request_type)

    def to_wire(self) -> FrozenObject:
        """The JSON object that goes into ``inputRequests``; frozen."""
        return FrozenObject(method=self.json_rpc_method, params=self._params)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InputRequest):
            return NotImplemented
        # The digest tells true from 1, which Python does not.
        return (
            self._declaration == other._declaration
            and self._digest == other._digest
            and self._unmanaged == other._unmanaged
            and self._params == other._params
        )

    def __hash__(self) -> int:
        return hash((self._declaration, self._digest))

    def __repr__(self) -> str:
        kind = self._declaration.input_request_type.name
        return f"InputRequest({kind}, {{{', '.join(f'{name!r}: ...' for name in self._params)}}})"


def _canonical(declaration: InputRequestDeclaration, params: Mapping[str, Any]) -> bytes:
    try:
        return canonical_bytes({"method": declaration.json_rpc_method, "params": dict(params)}, floats="repr")
    except JsonError as error:
        refused = type(error)(error.kind, f"params: {error}", error.offset, error.limit)
    raise refused


# ---- what the params of each kind must be ----


def _text(params: FrozenObject, name: str) -> str:
    if name not in params:
        raise ValueError(f"params.{name} is missing")
    value = params[name]
    if not isinstance(value, str):
        raise TypeError(f"params.{name} must be a str, not {type(value).__name__}")
    return value


def _typed(value: object, kind: type, member: str, what: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{member} must be {what}, not {type(value).__name__}")


def _check_form(declaration: InputRequestDeclaration, params: FrozenObject) -> None:
    if params.get("mode", "form") != "form":
        raise ValueError('params.mode must be "form", or left out, as the declaration is of a form')
    _text(params, "message")
    if "requestedSchema" not in params:
        raise ValueError("params.requestedSchema is missing")
    schema = params["requestedSchema"]
    _typed(schema, dict, "params.requestedSchema", "an object")
    if schema.get("type") != "object":
        raise ValueError('params.requestedSchema.type must be "object"')
    if "properties" not in schema:
        raise ValueError("params.requestedSchema.properties is missing (it may be empty)")
    _typed(schema["properties"], dict, "params.requestedSchema.properties", "an object")
    for name, field in schema["properties"].items():
        _typed(field, dict, f"params.requestedSchema.properties[{name!r}]", "an object")


_URL_MEMBERS: Final = frozenset({"mode", "message", "url", "_meta"})


def _check_url(declaration: InputRequestDeclaration, params: FrozenObject) -> None:
    if params.get("mode") != "url":
        raise ValueError('params.mode must be "url", as the declaration is of a URL')
    _text(params, "message")
    url = _text(params, "url")
    for name in params:
        if name not in _URL_MEMBERS:
            raise ValueError(f"params[{name!r}] is no member of a URL request: those are mode, message and url")
    problem = _url_problem(url)
    if problem:
        raise ValueError(f"params.url {problem}")


# RFC 3986, section 2, less what no part of these URLs may hold.
_URI_CHARACTERS: Final = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9.])?")


def _url_problem(url: str) -> str | None:
    """What is wrong with a URL to be opened, or None. It never quotes the URL: the handle in it is a secret."""
    if not _URI_CHARACTERS.fullmatch(url):
        return "must be an RFC 3986 URI: no control characters, white space, backslash, or unescaped non-ASCII"
    if "?" in url:
        return "must have no query"
    if "#" in url:
        return "must have no fragment"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "has a malformed host or port"
    if "@" in parts.netloc:
        return "must have no userinfo"
    if "[" in parts.path or "]" in parts.path:
        return "must have no bracket behind its host"
    if parts.scheme not in ("https", "http") or not url[len(parts.scheme) :].startswith("://"):
        return "must begin with https://"
    bracketed = parts.netloc.startswith("[")
    authority = f"[{host}]" if bracketed else f"{host or ''}"
    if port is not None:
        authority += f":{parts.netloc.rpartition(':')[2]}"
    if parts.netloc.lower() != authority or not host or not _is_host(host, bracketed):
        return "has a malformed host or port"
    if parts.scheme == "http" and not _is_loopback(host):
        return "must begin with https:// (http:// is for loopback hosts, in development)"
    return None


def _is_host(host: str, bracketed: bool) -> bool:
    if not bracketed or "%" in host:
        return _HOST_NAME.fullmatch(host) is not None
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    """127.0.0.0/8, ::1 or localhost; other spellings of an address (``127.1``) are none."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback and getattr(address, "ipv4_mapped", None) is None


def _check_sampling(declaration: InputRequestDeclaration, params: FrozenObject) -> None:
    if "messages" not in params:
        raise ValueError("params.messages is missing")
    _typed(params["messages"], list, "params.messages", "an array")
    for index, message in enumerate(params["messages"]):
        _typed(message, dict, f"params.messages[{index}]", "an object")
    if "maxTokens" not in params:
        raise ValueError("params.maxTokens is missing")
    limit = params["maxTokens"]
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise TypeError(f"params.maxTokens must be an int, not {type(limit).__name__}")
    for name in ("tools", "toolChoice"):
        if name in params and not declaration._tools:
            raise ValueError(f"params.{name} needs a declaration from from_sampling(..., tools=True)")
    context = params.get("includeContext", "none")
    if context not in ("none", "thisServer", "allServers"):
        raise ValueError('params.includeContext must be "none", "thisServer" or "allServers"')
    if context != "none" and not declaration._context:
        raise ValueError("params.includeContext needs a declaration from from_sampling(..., context=True)")


def _check_roots(declaration: InputRequestDeclaration, params: FrozenObject) -> None:
    """Nothing to check: there may be a ``_meta``, and JSON it is already."""


_CHECKS: Final[dict[InputRequestType, Callable[[InputRequestDeclaration, FrozenObject], None]]] = {
    InputRequestType.ELICITATION_FORM: _check_form,
    InputRequestType.ELICITATION_URL: _check_url,
    InputRequestType.SAMPLING: _check_sampling,
    InputRequestType.ROOTS: _check_roots,
}


# ---- declarations on a handler ----

_F = TypeVar("_F", bound=Callable[..., Any])

_ATTRIBUTE: Final = "__mcpinput_input_requests__"


def may_request_input(
    type: InputRequestType, requirement: Requirement, *, tools: bool = False, context: bool = False
) -> Callable[[_F], _F]:
    """Declares above a handler what it may ask for. Several stack; they count from top to bottom.

    Args:
        type: The kind of request.
        requirement: When clients must support it.
        tools: As in :meth:`InputRequestDeclaration.from_sampling`, for sampling only.
        context: The same.

    Raises:
        TypeError: ``type`` is no InputRequestType, or ``requirement`` no Requirement.
        ValueError: ``tools`` or ``context`` for another kind than sampling.
    """
    if not isinstance(type, InputRequestType):
        raise TypeError("type must be an InputRequestType")
    if (tools or context) and type is not InputRequestType.SAMPLING:
        raise ValueError("tools and context are for InputRequestType.SAMPLING only")
    declaration = InputRequestDeclaration._of(type, requirement, tools=tools, context=context)

    def declare(function: _F) -> _F:
        setattr(function, _ATTRIBUTE, (declaration, *declared_input_requests(function)))
        return function

    return declare


def declared_input_requests(function: Callable[..., Any]) -> tuple[InputRequestDeclaration, ...]:
    """The declarations that :func:`may_request_input` left on a function, from top to bottom."""
    return cast("tuple[InputRequestDeclaration, ...]", getattr(function, _ATTRIBUTE, ()))
