"""Why a token opens or does not: everything that it is bound to, compared offline with what is known of a request.

Rules

- It judges in the order in which a server does, so the failure that it names is the one in the server's log. What is
  not known of the request counts as the same.
- It goes on after the first failure: with the key at hand, all that differs is told.
- An explanation holds no key, token, state, principal or argument, and no digest of one: whether two things are the
  same, times, numbers and kinds alone.
"""

from __future__ import annotations

import enum
import hmac
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mcpinput._core.envelope import binding, decode_payload, request_id_hash
from mcpinput._core.parse import parse_state
from mcpinput.errors import EnvelopeError, JsonError, ProtectionFailure, RequestStateProtectionError
from mcpinput.json import Limits
from mcpinput.protection.context import ABSENT_BINDING, BINDING_BYTES
from mcpinput.protection.protector import open_token
from mcpinput.protection.sizes import MAXIMUM_STATE
from mcpinput.protection.state import CLOCK_SKEW_MS

if TYPE_CHECKING:
    from mcpinput._core.envelope import Payload
    from mcpinput.protection.keyring import ProtectionKeyring

__all__ = ["Binding", "Contents", "Explanation", "Known", "Verdict", "explain"]

_FLAG_STATE: Final = 1
_FLAG_REPLAYED: Final = 2


class Verdict(enum.StrEnum):
    """How one part of a request compares with what a token was made for."""

    SAME = "same"
    DIFFERS = "differs"
    NOT_GIVEN = "not given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a request, and of the server that it reaches. None: not known.

    Attributes:
        audience, path, protocol_version, method, partition, tenant, principal: As in
            :class:`mcpinput.protection.context.Bindings`.
        parameter_digest: Digest of the request's stable parameters, 32 bytes.
        request_id: JSON-RPC id of the retry.
        replayed: Whether the operation's asks are replayed rather than returned.
        maximum_lifetime_ms: The server's, or the operation's own where that is lower; likewise the next one.
        maximum_rounds: Asks that one flow may emit.
        maximum_encoded_bytes: Length of a token.
        maximum_decoded_bytes: Bytes of framework metadata and state.
    """

    audience: str | None = None
    path: str | None = None
    protocol_version: str | None = None
    method: str | None = None
    partition: str | None = None
    tenant: str | None = None
    principal: str | None = None
    parameter_digest: bytes | None = None
    request_id: int | str | None = None
    replayed: bool | None = None
    maximum_lifetime_ms: int = 900_000
    maximum_rounds: int = 10
    maximum_encoded_bytes: int = 65_536
    maximum_decoded_bytes: int = 49_152


@dataclass(frozen=True, slots=True)
class Binding:
    """One thing that state is bound to.

    Attributes:
        failure: What the server would call it if it alone differed; its text is the name of the thing.
        verdict: How it compares.
        absent: Whether the token has none, which equals only a request that has none.
    """

    failure: ProtectionFailure
    verdict: Verdict
    absent: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """What an authentic token carries, as far as it may be shown.

    Attributes:
        bindings: Audience, path, version, method, partition, tenant and principal, in this order.
        parameters: How the request's parameters compare.
        request_id: How the request's id compares with that of the request that emitted the state. It must differ.
        round: Asks emitted so far.
        issued_ms: When the flow began, in milliseconds since 1970.
        expires_ms: When the flow expires.
        age_ms: Milliseconds since the flow began.
        replayed: Whether it was sealed by a handler whose asks are replayed.
        state_bytes: Length of the handler's state as canonical JSON; None where it gave none.
        asked: Kinds of what was asked: 1 form, 2 url, 3 sampling, 4 roots.
    """

    bindings: tuple[Binding, ...]
    parameters: Verdict
    request_id: Verdict
    round: int
    issued_ms: int
    expires_ms: int
    age_ms: int
    replayed: bool
    state_bytes: int | None
    asked: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What would become of a token.

    Attributes:
        failure: The first thing for which it would be refused; None where it would open, as far as is known.
        key_id: The key that the token names, where it names one.
        contents: What it carries; None where it cannot be decrypted.
    """

    failure: ProtectionFailure | None
    key_id: str | None = None
    contents: Contents | None = None


_BINDINGS: Final = (
    (ProtectionFailure.AUDIENCE, "audience"),
    (ProtectionFailure.ENDPOINT_PATH, "path"),
    (ProtectionFailure.PROTOCOL_VERSION, "protocol_version"),
    (ProtectionFailure.METHOD, "method"),
    (ProtectionFailure.PARTITION, "partition"),
    (ProtectionFailure.TENANT, "tenant"),
    (ProtectionFailure.PRINCIPAL, "principal"),
)


def explain(
    token: str, keyring: ProtectionKeyring, known: Known, now_ms: int, *, revoked: Collection[str] = ()
) -> Explanation:
    """Compares a token with what is known of a request.

    Args:
        token: As the client sent it.
        keyring: Every key that there is, also those that no server opens with any more.
        known: The request and its server.
        now_ms: Wall clock, in milliseconds since 1970.
        revoked: Ids of the keys in ``keyring`` that servers refuse. The token is explained all the same.
    """
    if not token:
        return Explanation(ProtectionFailure.MALFORMED)
    if len(token) > known.maximum_encoded_bytes:
        return Explanation(ProtectionFailure.TOO_LARGE)
    try:
        key_id, opened = open_token(keyring, token)
    except RequestStateProtectionError as refused:
        return Explanation(refused.reason, refused.key_id)
    first = ProtectionFailure.UNKNOWN_KEY if key_id in revoked else None
    if first is None and len(opened) > known.maximum_decoded_bytes:
        first = ProtectionFailure.TOO_LARGE
    try:
        payload = decode_payload(opened)
    except EnvelopeError:
        return Explanation(first or ProtectionFailure.MALFORMED, key_id)
    contents = _contents(payload, known, now_ms)
    return Explanation(first or _judge(payload, contents, known, now_ms), key_id, contents)


def _contents(payload: Payload, known: Known, now_ms: int) -> Contents:
    bindings = []
    for place, (failure, name) in enumerate(_BINDINGS):
        bound = payload.bindings[place * BINDING_BYTES : (place + 1) * BINDING_BYTES]
        text: str | None = getattr(known, name)
        verdict = _verdict(bound, None if text is None else binding(text))
        bindings.append(Binding(failure, verdict, bound == ABSENT_BINDING))
    return Contents(
        bindings=tuple(bindings),
        parameters=_verdict(payload.parameter_digest, known.parameter_digest),
        request_id=_verdict(
            payload.request_id_hash, None if known.request_id is None else request_id_hash(known.request_id)
        ),
        round=payload.round,
        issued_ms=payload.issued_ms,
        expires_ms=payload.expires_ms,
        age_ms=now_ms - payload.issued_ms,
        replayed=bool(payload.flags & _FLAG_REPLAYED),
        state_bytes=len(payload.state) if payload.flags & _FLAG_STATE else None,
        asked=tuple(kind for _, kind, _ in payload.asked),
    )


def _verdict(sealed: bytes, known: bytes | None) -> Verdict:
    if known is None:
        return Verdict.NOT_GIVEN
    return Verdict.SAME if hmac.compare_digest(sealed, known) else Verdict.DIFFERS


def _judge(payload: Payload, contents: Contents, known: Known, now_ms: int) -> ProtectionFailure | None:
    """What a server would refuse it for first; a test compares every case with the server's own judgement."""
    for each in contents.bindings:
        if each.verdict is Verdict.DIFFERS:
            return each.failure
    if contents.parameters is Verdict.DIFFERS:
        return ProtectionFailure.PARAMETERS
    if contents.request_id is Verdict.SAME:
        return ProtectionFailure.REQUEST_ID
    if not 1 <= contents.round <= known.maximum_rounds:
        return ProtectionFailure.ROUND
    if not 0 < contents.expires_ms - contents.issued_ms <= known.maximum_lifetime_ms:
        return ProtectionFailure.LIFETIME
    if contents.issued_ms > now_ms + CLOCK_SKEW_MS:
        return ProtectionFailure.ISSUED_IN_FUTURE
    if now_ms >= contents.expires_ms:
        return ProtectionFailure.EXPIRED
    if known.replayed is not None and contents.replayed != known.replayed:
        return ProtectionFailure.ASK_KIND
    if contents.state_bytes is not None:
        most = min(known.maximum_decoded_bytes, MAXIMUM_STATE)
        try:
            parse_state(payload.state, limits=Limits(body_bytes=most, canonical_bytes=most))
        except JsonError:
            return ProtectionFailure.MALFORMED
    return None
