"""Who is let in: the two doors of a request, and what they answer.

``authenticate`` runs before the first byte of the body is read and says who is calling; ``admission`` runs once the
request is understood and says under which partition, principal and tenant it goes on. Sealed state is bound to those.
"""

from __future__ import annotations

import enum
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from mcpinput._ending import ends_from_outside
from mcpinput.json import FrozenArray, FrozenObject

if TYPE_CHECKING:
    from mcpinput.server.headers import Headers

logger = logging.getLogger("mcpinput")

__all__ = [
    "ANONYMOUS",
    "Admission",
    "AdmissionFacts",
    "AdmissionHook",
    "Authenticate",
    "Identity",
    "Refusal",
    "TransportFacts",
    "partition_of",
]


_D = TypeVar("_D")


async def decision_of(hook: Callable[..., Any], kind: type[_D], *facts: object) -> _D | Refusal | None:
    """What a door decides; None, with the cause in the log, where it fails: then nothing may run."""
    try:
        decision = hook(*facts)
        if inspect.isawaitable(decision):
            decision = await decision
    except BaseException as error:  # a hook may raise anything
        if ends_from_outside(error):
            raise
        logger.exception("the hook that decides on %s failed; the request is refused", kind.__name__)
        return None
    if isinstance(decision, (kind, Refusal)):
        return decision
    logger.error("a hook returned %s; %s or Refusal is needed", type(decision).__name__, kind.__name__)
    return None


_HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, section 5.1
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")  # RFC 9110, section 5.5


def _read_only(name: str, values: object) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise TypeError(f"{name} must be a mapping, not {type(values).__name__}")
    try:
        return _frozen(dict(values))  # type: ignore[no-any-return]  # a dict gives a FrozenObject
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply, or contains itself") from None


def _frozen(value: Any) -> Any:
    """Dicts, lists and tuples as those that JSON trees are made of; other objects as they are."""
    if isinstance(value, dict):
        return FrozenObject({key: _frozen(member) for key, member in value.items()})
    if isinstance(value, (list, tuple)):
        return FrozenArray(map(_frozen, value))
    return value


def _check_text(name: str, value: object, *, required: bool = False) -> None:
    if value is None and not required:
        return
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str{'' if required else ' or None'}, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} has a lone surrogate, so it cannot be encoded") from None


@dataclass(frozen=True, slots=True)
class TransportFacts:
    """What the transport knows of a request before its body is read.

    Attributes:
        headers: The request's headers; None on a transport that has none.
        peer: Host and port of the other side, where known.
        scope: The ASGI connection scope; empty on other transports.
    """

    headers: Headers | None
    peer: tuple[str, int] | None = None
    scope: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, repr=False)
class Identity:
    """Who is calling, as ``authenticate`` found out. Never shown by ``repr``.

    Attributes:
        subject: The user or service, as its issuer names it.
        issuer: Who vouches for the subject.
        client: The client application, if known.
        scopes: What the caller was granted.
        claims: Anything more that ``admission`` needs; kept as a read-only copy.
    """

    subject: str
    issuer: str | None = None
    client: str | None = None
    scopes: Iterable[str] = ()
    claims: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_text("subject", self.subject, required=True)
        _check_text("issuer", self.issuer)
        _check_text("client", self.client)
        if isinstance(self.scopes, str):
            raise TypeError("scopes must be a collection of str, not one str")
        object.__setattr__(self, "scopes", tuple(self.scopes))
        object.__setattr__(self, "claims", _read_only("claims", self.claims))

    def __repr__(self) -> str:
        return "<Identity>"


@dataclass(frozen=True, slots=True, repr=False)
class Admission:
    """The application's decision to let a request in. Never shown by ``repr``.

    Attributes:
        partition: The authorization partition; state sealed in one does not open in another. None is a partition of
            its own: the one that all callers share.
        principal: The user on whose behalf the request runs.
        tenant: The customer to whom the data belongs.
        extra: Anything that handlers want to find at ``ctx.admission.extra``; kept as a read-only copy.

    Raises:
        TypeError: A part is neither str nor None.
        ValueError: A part has a lone surrogate, so it cannot be encoded.
    """

    partition: str | None
    principal: str | None = None
    tenant: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_text("partition", self.partition)
        _check_text("principal", self.principal)
        _check_text("tenant", self.tenant)
        object.__setattr__(self, "extra", _read_only("extra", self.extra))

    def __repr__(self) -> str:
        return "<Admission>"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request is not let in.

    Attributes:
        status: 401 (not authenticated) or 403 (not allowed).
        headers: Response headers, such as ``WWW-Authenticate``.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status not in (401, 403):
            raise ValueError("Refusal.status must be 401 or 403")
        for name, value in self.headers.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise TypeError("Refusal.headers must map str to str")
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ValueError("Refusal.headers has a name or value that no HTTP header can carry")


@dataclass(frozen=True, slots=True)
class AdmissionFacts:
    """What ``admission`` may decide by.

    Attributes:
        transport: Headers, peer and scope.
        method: JSON-RPC method.
        target: Name of the tool or prompt, or URI of the resource; None for other methods.
        protocol_version: The request's protocol version.
        meta: The request's ``_meta``, unchangeable.
    """

    transport: TransportFacts
    method: str
    target: str | None = field(repr=False)
    protocol_version: str
    meta: Mapping[str, Any] = field(repr=False)


class AnonymousType(enum.Enum):
    """The type of :data:`ANONYMOUS`."""

    ANONYMOUS = "anonymous"

    def __repr__(self) -> str:
        return "ANONYMOUS"


ANONYMOUS: Final = AnonymousType.ANONYMOUS
"""``admission=ANONYMOUS`` states that all callers are one: the partition is None for everybody."""

Authenticate: TypeAlias = Callable[[TransportFacts], "Identity | Refusal | Awaitable[Identity | Refusal]"]
"""The first door: a function or coroutine function."""
AdmissionHook: TypeAlias = Callable[
    [AdmissionFacts, "Identity | None"], "Admission | Refusal | Awaitable[Admission | Refusal]"
]
"""The second door: a function or coroutine function."""


def partition_of(
    *, issuer: str | None = None, subject: str | None = None, client: str | None = None, tenant: str | None = None
) -> str:
    """One partition name out of its parts, such that different parts never give the same name.

    Raises:
        TypeError: A part is neither str nor None.
        ValueError: All parts are None, or one has a lone surrogate.
    """
    parts = {"issuer": issuer, "subject": subject, "client": client, "tenant": tenant}
    if all(part is None for part in parts.values()):
        raise ValueError("partition_of needs at least one of issuer, subject, client, tenant")
    framed = []
    for name, part in parts.items():
        _check_text(name, part)
        framed.append("-" if part is None else f"{len(part)}:{part}")
    return "|".join(framed)


EVERYBODY: Final = Admission(partition=None)
