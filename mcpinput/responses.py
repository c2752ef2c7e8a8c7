"""What clients answer: the protocol's union, and answers in four states.

Rules

- The union is checked, never the form: that a value is a well-formed answer says nothing about its fields.
- ``action`` is exact. ``content`` counts only on an accept to a form; null content is absent content. On a decline, a
  cancel and a URL accept it is ignored, whatever it holds.
- "Not answered" (:class:`Absent`) and "declined" (:class:`Declined`) are different states.
- An answer counts for what was asked. Where that is known (verified state, a task), a key that was not asked, or was
  asked in another kind or (with ``request=``) other words, is :class:`Absent`.
- Trees that are handed out are frozen. Members that the protocol does not name are kept. A repr shows names only.

Source: ``schema.ts`` of revision 2026-07-28 (ElicitResult, CreateMessageResult, ListRootsResult).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, overload

from mcpinput._values import FactoryValue
from mcpinput.binding import convert
from mcpinput.json import FrozenObject, dump, freeze, parse

if TYPE_CHECKING:
    from typing import Self

    from mcpinput.requests import InputRequest, InputRequestType

__all__ = [
    "Absent",
    "Accepted",
    "Cancelled",
    "ContentValue",
    "Declined",
    "ElicitationAnswer",
    "InputResponses",
    "InputResponsesBuilder",
    "Rooted",
    "RootsAnswer",
    "Sampled",
    "SamplingAnswer",
    "fits_kind",
    "fits_union",
]

ContentValue: TypeAlias = "str | int | Decimal | bool | list[str]"
"""What a field of accepted content may hold, by the protocol."""

_T = TypeVar("_T")

# Codes of InputRequestType, which stands a floor above: requests.py imports this file.
_FORM: Final = 1
_URL: Final = 2
_SAMPLING: Final = 3
_ROOTS: Final = 4
_ELICITATION: Final = (_FORM, _URL)


# ---- the union ----


def fits_kind(value: object, kind: InputRequestType) -> bool:
    """Whether a JSON value is a well-formed answer to a request of a kind.

    Args:
        value: A tree as ``mcpinput.json.parse`` makes it; a float is no number there.
        kind: What was asked.
    """
    return _fits_code(value, kind.code)


def fits_union(value: object) -> bool:
    """Whether a JSON value is a well-formed answer to a request of some kind, where it is not known which was asked."""
    return any(_fits_code(value, code) for code in (_FORM, _SAMPLING, _ROOTS))


def _fits_code(value: object, code: int) -> bool:
    if not isinstance(value, dict):
        return False
    if code == _SAMPLING:
        return _is_sampling(value)
    if code == _ROOTS:
        return _is_roots(value)
    return _is_elicitation(value, judge_content=code == _FORM)


def _is_elicitation(value: dict[str, Any], judge_content: bool) -> bool:
    action = value.get("action")
    if action != "accept" or not judge_content:
        return action in ("accept", "decline", "cancel")
    content = value.get("content")
    return content is None or (isinstance(content, dict) and all(map(_is_content_value, content.values())))


def _is_content_value(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, (str, int)) or (isinstance(value, Decimal) and value.is_finite())  # a bool is an int


def _is_sampling(value: dict[str, Any]) -> bool:
    content = value.get("content")
    return (
        value.get("role") in ("user", "assistant")
        and isinstance(value.get("model"), str)
        and (isinstance(content, dict) or (isinstance(content, list) and all(isinstance(c, dict) for c in content)))
    )


def _is_roots(value: dict[str, Any]) -> bool:
    roots = value.get("roots")
    return isinstance(roots, list) and all(isinstance(root, dict) and _is_file_uri(root.get("uri")) for root in roots)


def _is_file_uri(uri: object) -> bool:
    return isinstance(uri, str) and uri.startswith("file:")


# ---- answers ----


@dataclass(frozen=True, slots=True)
class Absent:
    """No answer to this question: ask (again)."""


@dataclass(frozen=True, slots=True, repr=False)
class Accepted:
    """The person agreed.

    Attributes:
        content: What they filled in, not yet checked against the form; empty where there was none, and for a URL.
            Values are strings, ints, Decimals, booleans, or lists of strings. Frozen.
    """

    content: Mapping[str, ContentValue]

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", freeze(dict(self.content)))

    def __repr__(self) -> str:
        # The values are a person's own words.
        return f"Accepted({{{', '.join(f'{name!r}: ...' for name in self.content)}}})"


@dataclass(frozen=True, slots=True)
class Declined:
    """The person said no. An answer like any other: do not ask again."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The person dismissed the question without a choice."""


@dataclass(frozen=True, slots=True, repr=False)
class Sampled:
    """What a model wrote.

    Attributes:
        role: Whose part the message is.
        content: A content block, or an array of them: JSON by ``SamplingMessageContentBlock`` of schema.ts. Frozen.
        model: Name of the model.
        stop_reason: Why it stopped, if the client said so.
    """

    role: Literal["user", "assistant"]
    content: Mapping[str, Any] | list[Mapping[str, Any]]
    model: str
    stop_reason: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", freeze(self.content))

    def __repr__(self) -> str:
        return f"Sampled(role={self.role!r}, content=..., model={self.model!r}, stop_reason={self.stop_reason!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Rooted:
    """The folders and files that the client lets the server work on.

    Attributes:
        roots: JSON objects with a ``uri`` (``file:``) and perhaps a ``name``. Frozen.
    """

    roots: list[Mapping[str, Any]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "roots", freeze(list(self.roots)))

    def __repr__(self) -> str:
        return f"Rooted(<{len(self.roots)} roots>)"


ElicitationAnswer: TypeAlias = Absent | Accepted | Declined | Cancelled
SamplingAnswer: TypeAlias = Absent | Sampled
RootsAnswer: TypeAlias = Absent | Rooted


# ---- all responses of one request ----


class InputResponses(FactoryValue, Mapping[str, "FrozenObject"]):
    """The keyed answers of a retry: an unchangeable mapping from key to response object.

    Made with :meth:`empty`, :meth:`from_responses` or :meth:`builder` (for tests; the server makes its own).
    """

    __slots__ = ("_asked", "_responses")

    _factories = "InputResponses.empty(), InputResponses.from_responses() or InputResponses.builder()"

    _responses: FrozenObject
    _asked: dict[str, tuple[int, bytes]] | None

    @classmethod
    def empty(cls) -> InputResponses:
        """No responses."""
        return cls._for_asked({}, None)

    @classmethod
    def from_responses(cls, responses: Mapping[str, object]) -> InputResponses:
        """Responses as a client would send them.

        Args:
            responses: From key to response object. The trees are taken through JSON text, so that 0.5 arrives as the
                exact ``Decimal("0.5")``, as it would from a client.

        Raises:
            TypeError: No mapping, a key that is no str, or a value that JSON has no form for.
            ValueError: A value that is no well-formed answer of any kind.
        """
        if not isinstance(responses, Mapping):
            raise TypeError(f"responses must be a mapping, not {type(responses).__name__}")
        builder = cls.builder()
        for key, value in responses.items():
            builder.add(key, value)
        return builder.build()

    @classmethod
    def builder(cls) -> InputResponsesBuilder:
        """A builder that takes one response after the other."""
        return InputResponsesBuilder()

    @classmethod
    def _for_asked(cls, responses: Mapping[str, Any], asked: Mapping[str, tuple[int, bytes]] | None) -> InputResponses:
        """Responses as parsed, with what verified state says was asked: code of the kind, and request digest, by key.

        None where nothing is known of what was asked; every well-formed answer then counts.
        """
        return cls._new(_responses=freeze(dict(responses)), _asked=None if asked is None else dict(asked))

    # -- the mapping --

    def __getitem__(self, key: str) -> FrozenObject:
        response: FrozenObject = self._responses[key]
        return response

    def __iter__(self) -> Iterator[str]:
        return iter(self._responses)

    def __len__(self) -> int:
        return len(self._responses)

    def __repr__(self) -> str:
        return f"InputResponses({{{', '.join(f'{key!r}: ...' for key in self._responses)}}})"

    def as_map(self) -> Mapping[str, FrozenObject]:
        """All responses by key, asked or not. Read-only, with frozen trees."""
        return self._responses

    @overload
    def find(self, key: str, type: None = None) -> FrozenObject | None: ...
    @overload
    def find(self, key: str, type: type[_T]) -> _T | None: ...
    @overload
    def find(self, key: str, type: Any) -> Any: ...
    def find(self, key: str, type: Any = None) -> Any:
        """The whole response object under a key, whatever was asked; None where there is none (null is no response).

        Args:
            key: The key, exactly.
            type: A type to convert the object to: msgspec Struct, dataclass, TypedDict and so on. Conversion says
                nothing about action or key; fields of the answer stay to be validated.

        Raises:
            InputConversionError: The object does not fit the type; a ValueError, with the path and never the value.
            TypeError: The type is none that JSON converts to.
        """
        response = self._responses.get(key)
        if response is None or type is None:
            return response
        return convert(response, type)

    # -- answers --

    def elicitation(self, key: str, request: InputRequest | None = None) -> ElicitationAnswer:
        """The answer to a form or a URL.

        Args:
            key: The key under which it was asked.
            request: The request as it would be asked now. Where another one was asked under the key (another wording
                or schema, from before a deploy), its answer does not count. Ignored where it is not known what was
                asked: without verified state and outside tasks.

        Returns:
            ``Absent``, ``Accepted``, ``Declined`` or ``Cancelled``. Authorize again before any side effect.

        Raises:
            ValueError: ``request`` is no elicitation.
        """
        response, code = self._answer(key, request, *_ELICITATION)
        if response is None:
            return Absent()
        if response["action"] == "decline":
            return Declined()
        if response["action"] == "cancel":
            return Cancelled()
        return Accepted({} if code == _URL else response.get("content") or {})

    def sampling(self, key: str, request: InputRequest | None = None) -> SamplingAnswer:
        """What the client's model wrote; arguments as in :meth:`elicitation`.

        Raises:
            ValueError: ``request`` is no sampling request.
        """
        response, _ = self._answer(key, request, _SAMPLING)
        if response is None:
            return Absent()
        stop_reason = response.get("stopReason")
        return Sampled(
            response["role"],
            response["content"],
            response["model"],
            stop_reason if isinstance(stop_reason, str) else None,
        )

    def roots(self, key: str, request: InputRequest | None = None) -> RootsAnswer:
        """The client's roots; arguments as in :meth:`elicitation`.

        Raises:
            ValueError: ``request`` is no roots request.
        """
        response, _ = self._answer(key, request, _ROOTS)
        return Absent() if response is None else Rooted(response["roots"])

    def _answer(self, key: str, request: InputRequest | None, *codes: int) -> tuple[FrozenObject | None, int]:
        """The response under a key that answers a request of one of the kinds, and the kind."""
        if request is not None and request.declaration.input_request_type.code not in codes:
            raise ValueError(f"request is of the wrong kind: {request.declaration.input_request_type.name}")
        response = self._responses.get(key)
        code = codes[0]
        if self._asked is not None:
            code, digest = self._asked.get(key, (0, b""))
            if code not in codes or (request is not None and request.digest != digest):
                return None, code
        return (response if _fits_code(response, code) else None), code


class InputResponsesBuilder:
    """Collects responses; see :meth:`InputResponses.builder`."""

    __slots__ = ("_responses",)

    def __init__(self) -> None:
        self._responses: dict[str, Any] = {}

    def add(self, key: str, value: object) -> Self:
        """Adds one response.

        Raises:
            TypeError: ``key`` is no str, or the value is of a type that JSON has no form for.
            ValueError: The key is there already (the first response stays), the value cannot be JSON, or is no
                well-formed answer of any kind.
        """
        if not isinstance(key, str):
            raise TypeError(f"key must be a str, not {type(key).__name__}")
        if key in self._responses:
            raise ValueError(f"there is already a response under key {key!r}")
        response = parse(dump({key: value}))[key]  # type: ignore[index, call-overload]  # an object, as written
        if not fits_union(response):
            raise ValueError(f"the response under key {key!r} is no elicitation, sampling or roots answer")
        self._responses[key] = response
        return self

    def build(self) -> InputResponses:
        """The responses so far."""
        return InputResponses._for_asked(self._responses, None)
