"""What state is bound to, and how a custom protector is told."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, final

from mcpinput._core import envelope
from mcpinput.protection.key import PROFILE

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ABSENT_BINDING", "BINDING_BYTES", "Bindings", "ProtectionContext"]

BINDING_BYTES: Final = 16
ABSENT_BINDING: Final = envelope.binding(None)


class _Digests:
    """Room for what is computed of bindings, beside the fields that they are compared by."""

    __slots__ = ("_digests",)

    _digests: bytes


@dataclass(frozen=True, slots=True)
class Bindings(_Digests):
    """What one request's state is bound to, beside its parameters and its id.

    Attributes:
        audience: Name that the instances of one service share.
        path: Endpoint path as configured, or ``stdio:``.
        protocol_version: MCP revision.
        method: JSON-RPC method.
        partition: Authorization partition. None, here and below, equals only None.
        tenant: Tenant as admitted.
        principal: Principal as admitted.
    """

    audience: str
    path: str
    protocol_version: str
    method: str
    partition: str | None = field(default=None, repr=False)
    tenant: str | None = field(default=None, repr=False)
    principal: str | None = field(default=None, repr=False)

    def digests(self) -> bytes:
        """The bindings of a payload: 16 bytes for each attribute, in their order. Computed when first needed.

        Raises:
            EnvelopeError: A text holds a lone surrogate.
        """
        try:
            return self._digests
        except AttributeError:
            texts = (
                self.audience,
                self.path,
                self.protocol_version,
                self.method,
                self.partition,
                self.tenant,
                self.principal,
            )
            digests = b"".join(map(envelope.binding, texts))
            object.__setattr__(self, "_digests", digests)
            return digests


@final
class ProtectionContext:
    """What a custom protector is told about the state that it seals or opens. Read-only.

    A protector must authenticate :attr:`associated_data` exactly. Reading it computes the digest of the request's
    parameters, so that a forged token then costs a digest of the body.
    """

    __slots__ = ("_associated_data", "_bindings", "_parameter_digest")

    def __init__(self, bindings: Bindings, parameter_digest: Callable[[], bytes]) -> None:
        self._bindings = bindings
        self._parameter_digest = parameter_digest
        self._associated_data: bytes | None = None

    @property
    def purpose(self) -> Literal["state"]:
        """What is protected: request state."""
        return "state"

    @property
    def audience(self) -> str:
        """Name that the instances of one service share."""
        return self._bindings.audience

    @property
    def path(self) -> str:
        """Endpoint path as configured, or ``stdio:``."""
        return self._bindings.path

    @property
    def protocol_version(self) -> str:
        """MCP revision."""
        return self._bindings.protocol_version

    @property
    def method(self) -> str:
        """JSON-RPC method."""
        return self._bindings.method

    @property
    def partition(self) -> str | None:
        """Authorization partition."""
        return self._bindings.partition

    @property
    def tenant(self) -> str | None:
        """Tenant as admitted."""
        return self._bindings.tenant

    @property
    def principal(self) -> str | None:
        """Principal as admitted; None also where state is not bound to it."""
        return self._bindings.principal

    @property
    def associated_data(self) -> bytes:
        """Bytes to authenticate: profile, purpose and every binding as fields, then the 32-byte parameter digest."""
        if self._associated_data is None:
            bound = self._bindings
            fields = (
                PROFILE,
                self.purpose,
                bound.audience,
                bound.path,
                bound.protocol_version,
                bound.method,
                bound.partition,
                bound.tenant,
                bound.principal,
            )
            self._associated_data = b"".join(map(envelope.field, fields)) + self._parameter_digest()
        return self._associated_data

    @property
    def associated_data_digest(self) -> bytes:
        """SHA-256 of :attr:`associated_data`, 32 bytes: for services that write it to audit logs."""
        return hashlib.sha256(self.associated_data).digest()

    def __repr__(self) -> str:
        return f"<ProtectionContext purpose={self.purpose!r} method={self.method!r}>"
