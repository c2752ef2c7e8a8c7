"""Request headers: reading them, and the checks that Streamable HTTP asks for.

Sources: ``basic/transports/streamable-http`` (Security, Request Metadata, Value Encoding); RFC 9110, 5 and 12.5.

Rules

- A header that must stand once and stands twice is wrong, whatever its values: two readers could take different ones.
- Names are compared without case, values exactly, after optional white space around them.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_OWS: Final = b" \t"
_FIELD_VALUE: Final = re.compile(rb"[\t\x20-\x7e]*")
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::(?P<port>[0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"https?://(?P<host>[^/?#@\s]+)")
_SENTINEL_START: Final = b"=?base64?"
_SENTINEL_END: Final = b"?="


class Headers:
    """The headers of one request, as ASGI gives them: pairs of bytes, names in lower case."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._pairs: Sequence[tuple[bytes, bytes]] = tuple(pairs)

    def all(self, name: bytes) -> list[bytes]:
        """Every value under a lower-case name, without the white space around it."""
        return [value.strip(_OWS) for key, value in self._pairs if key == name]

    def one(self, name: bytes) -> bytes | None:
        """The value of a header that stands exactly once, else None."""
        found = None
        for key, value in self._pairs:
            if key == name:
                if found is not None:
                    return None
                found = value
        return None if found is None else found.strip(_OWS)

    def get(self, name: str) -> str | None:
        """All values under a name, joined by a comma; None where there is none."""
        values = self.all(name.lower().encode("latin-1", "replace"))
        return b", ".join(values).decode("latin-1") if values else None

    def __contains__(self, name: str) -> bool:
        wanted = name.lower().encode("latin-1", "replace")
        return any(key == wanted for key, _ in self._pairs)

    def __repr__(self) -> str:
        return f"<Headers: {len(self._pairs)}>"  # values may be credentials


# ---- Host and Origin ----


class HostPolicy:
    """Which ``Host`` and ``Origin`` a server answers to: the protection against DNS rebinding.

    Args:
        allowed_hosts: Names (any port) or ``name:port``; ``"*"`` allows every host. None allows loopback names.
        allowed_origins: Exact origins such as ``https://app.example``. None allows ``http`` and ``https`` with the
            request's own Host, port included, where that host is allowed by name.

    Raises:
        TypeError: An entry is no str.
        ValueError: An entry is no host, or no origin.
    """

    __slots__ = ("_any_host", "_hosts", "_loopback", "_origins")

    def __init__(self, allowed_hosts: Iterable[str] | None, allowed_origins: Iterable[str] | None) -> None:
        hosts = [] if allowed_hosts is None else _texts("allowed_hosts", allowed_hosts)
        self._loopback: Final = allowed_hosts is None
        self._any_host: Final = "*" in hosts
        self._hosts: Final = frozenset(host.lower() for host in hosts)
        for host in self._hosts - {"*"}:
            if not _HOST.fullmatch(host):
                raise ValueError(f"allowed_hosts: {host!r} is no host name, address or name:port")
        self._origins: Final = (
            None if allowed_origins is None else frozenset(map(str.lower, _texts("allowed_origins", allowed_origins)))
        )
        for origin in self._origins or ():
            if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#@\s]+", origin):
                raise ValueError(f"allowed_origins: {origin!r} is no origin (scheme://host or scheme://host:port)")

    def with_hosts(self, allowed_hosts: Iterable[str]) -> HostPolicy:
        """The policy with other hosts and the same origins.

        Raises:
            TypeError, ValueError: As the constructor.
        """
        return HostPolicy(allowed_hosts, self._origins)

    def host_allowed(self, host: bytes | None) -> bool:
        """Whether the value of ``Host`` is one of the server's names. None (missing, or twice) is not."""
        return host is not None and (self._any_host or self._named(host.decode("latin-1").lower()))

    def origin_allowed(self, origin: bytes, host: bytes) -> bool:
        """Whether a page of this origin may call; ``host`` has passed :meth:`host_allowed`."""
        text = origin.decode("latin-1").lower()
        if self._origins is not None:
            return text in self._origins
        own = host.decode("latin-1").lower()
        match = _ORIGIN.fullmatch(text)
        return match is not None and match["host"] == own and self._named(own)

    def _named(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        if self._loopback:
            return is_loopback(match["name"])
        return match["name"] in self._hosts or host in self._hosts


def is_loopback(name: str) -> bool:
    """Whether a host name or address (IPv6 with or without brackets) means this machine alone."""
    if name == "localhost":
        return True
    try:
        if name.startswith("["):
            return name.endswith("]") and ipaddress.IPv6Address(name[1:-1]).is_loopback
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _texts(name: str, values: Iterable[str]) -> list[str]:
    if isinstance(values, str):
        raise TypeError(f"{name} must be a collection of str, not one str")
    texts = list(values)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{name} must hold str, not {type(text).__name__}")
    return texts


# ---- content negotiation ----


def is_json(content_types: list[bytes]) -> bool:
    """Whether the one ``Content-Type`` is ``application/json``, whatever its parameters say (the body is UTF-8)."""
    if len(content_types) != 1:
        return False
    media_type = content_types[0].partition(b";")[0]
    return media_type.rstrip(_OWS).lower() == b"application/json"


def accepts_both(accept: list[bytes]) -> bool:
    """Whether ``Accept`` takes ``application/json`` as well as ``text/event-stream``."""
    if accept == [b"application/json, text/event-stream"]:
        return True
    ranges: dict[bytes, float] = {}
    for item in b",".join(accept).split(b","):
        media, *parameters = (part.strip(_OWS) for part in item.split(b";"))
        quality = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition(b"=")
            if name.strip(_OWS).lower() == b"q":
                quality = _quality(value.strip(_OWS))
        ranges[media.lower()] = quality
    return all(
        next((ranges[form] for form in forms if form in ranges), 0.0) > 0.0
        for forms in (
            (b"application/json", b"application/*", b"*/*"),
            (b"text/event-stream", b"text/*", b"*/*"),
        )
    )


def _quality(value: bytes) -> float:
    if re.fullmatch(rb"0(\.[0-9]{0,3})?|1(\.0{0,3})?", value):
        return float(value)
    return 0.0


# ---- MCP headers ----


def mirrors(value: bytes | None, expected: str) -> bool:
    """Whether a header that takes no encoding (``MCP-Protocol-Version``, ``Mcp-Method``) repeats the body's value."""
    if value is None or not _FIELD_VALUE.fullmatch(value):
        return False
    return value == expected.encode("utf-8", "replace")


def mirrors_encoded(value: bytes | None, expected: str) -> bool:
    """Whether a header that may be Base64-encoded (``Mcp-Name``) repeats the body's value, once decoded."""
    if value is None or not _FIELD_VALUE.fullmatch(value):
        return False
    if value.startswith(_SENTINEL_START) and value.endswith(_SENTINEL_END) and len(value) >= 11:
        encoded = value[len(_SENTINEL_START) : -len(_SENTINEL_END)]
        try:
            value = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            return False
        # Decoders take several texts for one value; only the one that encoding gives is right.
        if base64.b64encode(value) != encoded:
            return False
    return value == expected.encode("utf-8", "replace")
