"""Steps of request state around the cipher, in plain Python: slow, one check after another.

Rules

- Nothing here is shared with the compiled core but the names of failures.
- Both steps answer a result or the reason of a refusal; only the first reason counts.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mcpinput.errors import ProtectionFailure as Failure
from mcpinput.json import Limits
from tests.property import twin_canonical, twin_json

ABSENT: Final = hashlib.sha256(b"\0").digest()[:16]
SKEW: Final = 60_000
BOUND: Final = (
    *(Failure.AUDIENCE, Failure.ENDPOINT_PATH, Failure.PROTOCOL_VERSION, Failure.METHOD, Failure.PARTITION),
    *(Failure.TENANT, Failure.PRINCIPAL),
)
"""Bindings of a payload, in their order."""


class Parts(NamedTuple):
    """A payload, taken apart."""

    flags: int
    round: int
    issued_ms: int
    expires_ms: int
    flow_id: bytes
    bindings: bytes
    parameter_digest: bytes
    request_id_hash: bytes
    asked: dict[str, tuple[int, bytes]]
    state: bytes


@dataclass(frozen=True)
class Situation:
    """What a request is, and what is allowed, when it is opened or sealed. ``parameters`` is None where their
    canonical form is over its limit."""

    digests: bytes
    request_id: int | str
    parameters: bytes | None
    bind_principal: bool
    now_ms: int
    lifetime_ms: int
    rounds: int
    replayed: bool
    maximum_size: int
    maximum_state: int

    @property
    def bound(self) -> bytes:
        """What a payload's bindings have to be."""
        return self.digests if self.bind_principal else self.digests[:96] + ABSENT

    @property
    def id_hash(self) -> bytes:
        """What the hash of the request's id is."""
        tag, text = (b"s", self.request_id) if isinstance(self.request_id, str) else (b"i", f"{self.request_id:d}")
        return hashlib.sha256(tag + text.encode()).digest()[:16]


def encode(parts: Parts) -> bytes:
    """The payload of parts that are right."""
    head = struct.pack(">BBHqq", 1, parts.flags, parts.round, parts.issued_ms, parts.expires_ms)
    asked = b""
    for key, (kind, digest) in parts.asked.items():
        name = key.encode()
        asked += struct.pack(">BI", 1, len(name)) + name + bytes((kind,)) + digest
    fixed = parts.flow_id + parts.bindings + parts.parameter_digest + parts.request_id_hash
    return head + fixed + struct.pack(">H", len(parts.asked)) + asked + parts.state


def decode(data: bytes) -> Parts | None:
    """Parts of a payload; None where it is none."""
    if len(data) < 198:
        return None
    version, flags, round_, issued, expires = struct.unpack(">BBHqq", data[:20])
    if version != 1 or flags > 3:
        return None
    (count,) = struct.unpack(">H", data[196:198])
    rest = data[198:]
    asked: dict[str, tuple[int, bytes]] = {}
    for _ in range(count):
        size = int.from_bytes(rest[1:5], "big")
        if rest[:1] != b"\1" or len(rest) < 5 + size + 17:
            return None
        kind = rest[5 + size]
        try:
            key = rest[5 : 5 + size].decode()
        except UnicodeDecodeError:
            return None
        if key in asked or not 1 <= kind <= 4:
            return None
        asked[key] = (kind, rest[6 + size : 22 + size])
        rest = rest[22 + size :]
    if bool(flags & 1) != bool(rest):
        return None
    fixed = (data[20:36], data[36:148], data[148:180], data[180:196])
    return Parts(flags, round_, issued, expires, *fixed, asked, rest)


def _failure(parts: Parts, situation: Situation) -> Failure | None:
    for index, failure in enumerate(BOUND):
        place = slice(16 * index, 16 * index + 16)
        if parts.bindings[place] != situation.bound[place]:
            return failure
    now, issued, expires = situation.now_ms, parts.issued_ms, parts.expires_ms
    for holds, failure in (
        (parts.parameter_digest == situation.parameters, Failure.PARAMETERS),
        (parts.request_id_hash != situation.id_hash, Failure.REQUEST_ID),
        (1 <= parts.round <= situation.rounds, Failure.ROUND),
        (0 < expires - issued <= situation.lifetime_ms, Failure.LIFETIME),
        (issued <= now + SKEW, Failure.ISSUED_IN_FUTURE),
        (now < expires, Failure.EXPIRED),
        (bool(parts.flags & 2) == situation.replayed, Failure.ASK_KIND),
    ):
        if not holds:
            return failure
    return None


def open_payload(data: bytes, situation: Situation) -> tuple[Parts, Any] | Failure:
    """Parts and state, or the first thing that does not hold."""
    if len(data) > situation.maximum_size:
        return Failure.TOO_LARGE
    parts = decode(data)
    if parts is None:
        return Failure.MALFORMED
    failure = _failure(parts, situation)
    if failure is not None:
        return failure
    if not parts.flags & 1:
        return parts, None
    if len(parts.state) > situation.maximum_state:
        return Failure.MALFORMED
    try:
        return parts, twin_json.parse(parts.state, limits=Limits(body_bytes=situation.maximum_state), state=True)
    except twin_json.Refused:
        return Failure.MALFORMED


def next_payload(
    situation: Situation,
    previous: Parts | None,
    flow_id: bytes,
    asked: Mapping[str, tuple[int, bytes]],
    has_state: bool,
    state: Any,
) -> bytes | Failure:
    """The payload of the next ask, for a plain state and parameters that have a digest."""
    assert situation.parameters is not None
    round_, issued, expires = 1, situation.now_ms, situation.now_ms + situation.lifetime_ms
    if previous is not None:
        round_, issued, expires = previous.round + 1, previous.issued_ms, previous.expires_ms
        flow_id = previous.flow_id
    if round_ > situation.rounds:
        return Failure.ROUND
    if situation.now_ms >= expires:
        return Failure.EXPIRED
    written = twin_canonical.canonical(state) if has_state else b""
    if len(written) > situation.maximum_state:
        return Failure.TOO_LARGE
    flags = has_state | situation.replayed << 1
    bound = (situation.bound, situation.parameters, situation.id_hash)
    payload = encode(Parts(flags, round_, issued, expires, flow_id, *bound, dict(asked), written))
    return Failure.TOO_LARGE if len(payload) > situation.maximum_size else payload
