"""Every exception of the library, with what goes on the wire and what only a log may say.

Rules

- ``str(error)`` is for the programmer and the log. It names the field or the limit and says what to do; it never holds
  a key, a token, a payload, a principal or an argument.
- What a client sees of a refused token is one fixed text, whatever the cause. The cause is a
  :class:`ProtectionFailure`, for observers and logs alone.
"""

from __future__ import annotations

import enum
import functools
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "EnvelopeError",
    "InputConversionError",
    "InputError",
    "JsonError",
    "JsonErrorKind",
    "JsonParseError",
    "JsonTypeError",
    "JsonWriteError",
    "KeyFileError",
    "McpError",
    "ProtectionFailure",
    "ProtectionKeyInUseError",
    "RequestStateProtectionError",
    "StoreUnavailableError",
    "ToolError",
]


class InputError(Exception):
    """Base of every exception that this library defines."""


# ---- JSON ----


class JsonErrorKind(enum.StrEnum):
    """What is wrong with a JSON text, or with a value to be written."""

    SYNTAX = "syntax"
    """Not JSON by the grammar of RFC 8259; a byte order mark and anything after the value included."""
    TRUNCATED = "truncated"
    """The input ends before the value does."""
    ENCODING = "encoding"
    """Not UTF-8 (RFC 3629), or a raw control character in a string."""
    ESCAPE = "escape"
    """Unknown escape, or ``\\u`` without four ASCII hexadecimal digits."""
    SURROGATE = "surrogate"
    """A surrogate that is not half of a pair."""
    DUPLICATE = "duplicate member"
    """Two members of one object have the same name once unescaped."""
    DEPTH = "depth limit"
    NODES = "node limit"
    STRING = "string limit"
    NUMBER_SIZE = "number limit"
    """Too many characters (reading) or significant digits (writing)."""
    EXPONENT = "exponent limit"
    SIZE = "size limit"
    """The whole input or output is too large."""
    KEY = "member name"
    """A mapping to be written has a key that is no ``str``."""
    TYPE = "type"
    """A value to be written is of a type that JSON has no form for."""
    NOT_FINITE = "not finite"
    """NaN or an infinity is to be written."""


class JsonError(InputError, ValueError):
    """A JSON text or value is refused.

    Attributes:
        kind: What is wrong.
        offset: Index of the byte that is wrong, or None where there is no text.
        limit: The limit that was passed, or None where it was no limit.
    """

    def __init__(self, kind: JsonErrorKind, message: str, offset: int | None = None, limit: int | None = None) -> None:
        super().__init__(message)
        self.kind: Final = kind
        self.offset: Final = offset
        self.limit: Final = limit

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, str(self), self.offset, self.limit)


class JsonParseError(JsonError):
    """A text that is read is not acceptable JSON."""


class JsonWriteError(JsonError):
    """A value cannot be written as JSON."""


class JsonTypeError(JsonWriteError, TypeError):
    """A value, or the key of a mapping, has a type that JSON has no form for."""


class InputConversionError(InputError, ValueError):
    """A JSON value does not convert to the type that was asked for.

    Attributes:
        path: Where: ``$`` is the value itself, ``$.content.price`` a member of a member, ``$.roots[0]`` an item.
            Names that only the type knows appear; the key of an open mapping is written ``[...]``.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path: Final = path

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, str(self).removeprefix(f"{self.path}: "))


# ---- protection ----


class ProtectionFailure(enum.StrEnum):
    """Why state did not open, or could not be sealed. Never on the wire."""

    MALFORMED = "malformed"
    UNKNOWN_KEY = "unknown key"
    NOT_AUTHENTIC = "not authentic"
    """The tag does not verify: tampered with, or sealed under other key bytes."""
    AUDIENCE = "audience"
    ENDPOINT_PATH = "endpoint path"
    PROTOCOL_VERSION = "protocol version"
    METHOD = "method"
    PARTITION = "authorization partition"
    TENANT = "tenant"
    PRINCIPAL = "principal"
    PARAMETERS = "parameters"
    REQUEST_ID = "request id"
    """The retry carries the id of the request that emitted the state."""
    EXPIRED = "expired"
    ISSUED_IN_FUTURE = "issued in the future"
    LIFETIME = "lifetime"
    """Issued for longer than this instance allows, or for no time at all."""
    ROUND = "round"
    """The round is out of range: on opening, or because another ask would pass the maximum."""
    ASK_KIND = "ask kind"
    """Sealed by a handler of the other kind (returned asks, replayed asks)."""
    SPENT = "spent"
    """Tokens are single-use here, and this one was used."""
    TOO_LARGE = "too large"
    NOT_JSON = "not json"
    """The state to be sealed has no canonical form: a float, a foreign type, a lone surrogate, over a limit."""
    PROTECTOR_FAILED = "protector failed"
    UNAVAILABLE = "unavailable"
    """What protects state cannot be reached for now; the state may be perfectly good."""


class RequestStateProtectionError(InputError):
    """State does not open, or cannot be sealed.

    Attributes:
        reason: The cause, for logs and observers.
        key_id: Id of the key that the token names, where it is known.
        age_ms: Milliseconds since the flow began, where it is known.
        round: Round of the token, where it is known.
        detail: Of what type it was that a custom protector raised or returned.
    """

    def __init__(
        self,
        reason: ProtectionFailure,
        *,
        key_id: str | None = None,
        age_ms: int | None = None,
        round: int | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(f"request state: {reason}")
        self.reason: Final = reason
        self.key_id: Final = key_id
        self.age_ms: Final = age_ms
        self.round: Final = round
        self.detail: Final = detail

    def __reduce__(self) -> tuple[Any, ...]:
        make = functools.partial(
            type(self), key_id=self.key_id, age_ms=self.age_ms, round=self.round, detail=self.detail
        )
        return make, (self.reason,)


class EnvelopeError(InputError, ValueError):
    """Bytes or text that are no token, or no payload, of this version."""


class ProtectionKeyInUseError(InputError):
    """A key cannot be removed yet: seals under it are still on their way to clients."""


class KeyFileError(InputError, ValueError):
    """A file of keys cannot be used, or not be changed as asked. The message names file and member, never a key."""


# ---- record stores ----


class StoreUnavailableError(InputError):
    """A record store cannot be used: for now, or (raised by its constructor) as it is set up.

    What it was asked to do may be done or not.
    """


# ---- raised by handlers ----

_RESERVED_CODES: Final = (-32002, -32042)
_LARGEST_CODE: Final = 2**53 - 1


class McpError(InputError):
    """A JSON-RPC error that a handler answers with (HTTP 200, as the request itself was acceptable).

    Args:
        code: JSON-RPC error code. -32002, -32042 and -32020 to -32099 belong to the specification.
        message: Text for the client.
        data: JSON value with more detail.

    Raises:
        TypeError: ``code`` is no int or ``message`` no str.
        ValueError: ``code`` is reserved by the specification (basic/index, "Error Codes"), or beyond 2^53 - 1 either
            way; or ``message`` has a lone surrogate.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        if not isinstance(code, int) or isinstance(code, bool):
            raise TypeError(f"code must be an int, not {type(code).__name__}")
        if not isinstance(message, str):
            raise TypeError(f"message must be a str, not {type(message).__name__}")
        if abs(code) > _LARGEST_CODE:
            raise ValueError("error code is beyond what every JSON reader takes as an integer (2^53 - 1)")
        try:
            message.encode()
        except UnicodeEncodeError:
            raise ValueError("message has a lone surrogate, so it cannot be sent") from None
        if code in _RESERVED_CODES or -32099 <= code <= -32020:
            raise ValueError(f"error code {code} is reserved by the specification; use one outside -32768 to -32000")
        super().__init__(message)
        self.code: Final = code
        self.message: Final = message
        self.data: Final = data

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message, self.data)


class ToolError(InputError):
    """A tool failed in a way that the model should see: a result with ``isError: true``.

    Args:
        content: Text, or content blocks (``mcpinput.content`` or plain JSON objects).
    """

    def __init__(self, content: str | Sequence[Mapping[str, Any]]) -> None:
        super().__init__(content if isinstance(content, str) else "the tool failed")
        self.content: Final = content

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.content,)
