"""What results are made of: content blocks, resource contents, prompt messages.

Each class is one shape of ``schema.ts`` (revision 2026-07-28, "Content"), with ``to_wire()`` for its JSON.

Rules

- Members that are None are left out on the wire.
- Binary data is given as bytes; base64 (RFC 4648, section 4) is written here and nowhere else.
- ``meta`` is the block's own ``_meta``. It is copied and frozen when the block is made.
- The repr leaves out binary data.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

from mcpinput.json import freeze

__all__ = [
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "ContentBlock",
    "EmbeddedResource",
    "Icon",
    "ImageContent",
    "PromptMessage",
    "ResourceContents",
    "ResourceLink",
    "Role",
    "TextContent",
    "TextResourceContents",
]

Role: TypeAlias = Literal["user", "assistant"]

_ROLES: Final = get_args(Role)


def _text(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if not isinstance(value, str):
            raise TypeError(f"{type(owner).__name__}.{name} must be a str, not {type(value).__name__}")


def _optional_text(owner: object, *names: str) -> None:
    _text(owner, *(name for name in names if getattr(owner, name) is not None))


def _binary(owner: object, name: str) -> None:
    value = getattr(owner, name)
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"{type(owner).__name__}.{name} must be bytes (not base64), not {type(value).__name__}")
    object.__setattr__(owner, name, bytes(value))


def _extras(owner: Any) -> None:
    """Checks ``annotations`` and ``meta``, and freezes the latter."""
    annotations = getattr(owner, "annotations", None)
    if annotations is not None and not isinstance(annotations, Annotations):
        raise TypeError(f"{type(owner).__name__}.annotations must be Annotations, not {type(annotations).__name__}")
    if owner.meta is not None:
        if not isinstance(owner.meta, Mapping):
            raise TypeError(f"{type(owner).__name__}.meta must be a mapping, not {type(owner.meta).__name__}")
        object.__setattr__(owner, "meta", freeze(dict(owner.meta)))


def _tuple(owner: object, name: str, kind: type, what: str) -> None:
    value = getattr(owner, name)
    if value is None:
        return
    if isinstance(value, str) or not all(isinstance(item, kind) for item in value):
        raise TypeError(f"{type(owner).__name__}.{name} must hold {what}")
    object.__setattr__(owner, name, tuple(value))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _wire(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """Hints for the client on whom content is for and how much it matters.

    Attributes:
        audience: Roles that it is meant for.
        priority: From 0, optional, to 1, required.
        last_modified: Moment of the last change, as an ISO 8601 text.

    Raises:
        TypeError: A member has the wrong type.
        ValueError: An unknown role, or a priority outside 0 to 1.
    """

    audience: tuple[Role, ...] | None = None
    priority: int | Decimal | float | None = None
    last_modified: str | None = None

    def __post_init__(self) -> None:
        _tuple(self, "audience", str, "roles")
        if not set(self.audience or ()).issubset(_ROLES):
            raise ValueError('Annotations.audience may hold "user" and "assistant"')
        if self.priority is not None:
            if isinstance(self.priority, bool) or not isinstance(self.priority, (int, Decimal, float)):
                raise TypeError(f"Annotations.priority must be a number, not {type(self.priority).__name__}")
            if not 0 <= self.priority <= 1:
                raise ValueError("Annotations.priority must be from 0 to 1")
        _optional_text(self, "last_modified")

    def to_wire(self) -> dict[str, Any]:
        """The JSON object by ``Annotations`` of schema.ts."""
        return _wire(
            {
                "audience": None if self.audience is None else list(self.audience),
                "priority": self.priority,
                "lastModified": self.last_modified,
            }
        )


@dataclass(frozen=True, slots=True)
class Icon:
    """A picture for a user interface.

    Attributes:
        src: Its URI, ``https:`` or ``data:``.
        mime_type: Its type, where the source does not say.
        sizes: Sizes that it suits, such as ``48x48`` or ``any``.
        theme: ``light`` or ``dark``, the background that it is made for.

    Raises:
        TypeError: A member has the wrong type.
        ValueError: ``theme`` is another word.
    """

    src: str
    _: KW_ONLY
    mime_type: str | None = None
    sizes: tuple[str, ...] | None = None
    theme: Literal["light", "dark"] | None = None

    def __post_init__(self) -> None:
        _text(self, "src")
        _optional_text(self, "mime_type", "theme")
        _tuple(self, "sizes", str, "texts")
        if self.theme not in (None, "light", "dark"):
            raise ValueError('Icon.theme must be "light" or "dark"')

    def to_wire(self) -> dict[str, Any]:
        """The JSON object by ``Icon`` of schema.ts."""
        sizes = None if self.sizes is None else list(self.sizes)
        return _wire({"src": self.src, "mimeType": self.mime_type, "sizes": sizes, "theme": self.theme})


# ---- content blocks ----


@dataclass(frozen=True, slots=True)
class TextContent:
    """Text for or from a model.

    Raises:
        TypeError: A member has the wrong type. The other classes of this module likewise.
    """

    text: str
    _: KW_ONLY
    annotations: Annotations | None = None
    meta: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _text(self, "text")
        _extras(self)

    def to_wire(self) -> dict[str, Any]:
        """The JSON object by ``TextContent`` of schema.ts."""
        return _block("text", self, text=self.text)


@dataclass(frozen=True, slots=True)
class _Media:
    """What an image and sound have in common."""

    _TYPE: ClassVar[str]

    data: bytes = field(repr=False)
    mime_type: str
    _: KW_ONLY
    annotations: Annotations | None = None
    meta: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _binary(self, "data")
        _text(self, "mime_type")
        _extras(self)

    def to_wire(self) -> dict[str, Any]:
        """The JSON object by ``ImageContent`` or ``AudioContent`` of schema.ts."""
        return _block(self._TYPE, self, data=_base64(self.data), mimeType=self.mime_type)


@dataclass(frozen=True, slots=True)
class ImageContent(_Media):
    """An image.

    Attributes:
        data: The image file's bytes.
        mime_type: Its type, such as ``image/png``.
    """

    _TYPE: ClassVar[str] = "image"


@dataclass(frozen=True, slots=True)
class AudioContent(_Media):
    """Sound.

    Attributes:
        data: The audio file's bytes.
        mime_type: Its type, such as ``audio/wav``.
    """

    _TYPE: ClassVar[str] = "audio"


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """A resource that the client can read by itself; it need not be listed.

    Attributes:
        uri: Its URI.
        name: Its name for programs; shown where ``title`` is absent.
        title: Its name for people.
        description: What it is, for the model.
        mime_type: Its type, if known.
        size: Bytes of its raw contents, before base64, if known.
        icons: Pictures to show with it.

    Raises:
        ValueError: ``size`` is negative.
    """

    uri: str
    name: str
    _: KW_ONLY
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: tuple[Icon, ...] | None = None
    annotations: Annotations | None = None
    meta: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _text(self, "uri", "name")
        _optional_text(self, "title", "description", "mime_type")
        if self.size is not None:
            if not isinstance(self.size, int) or isinstance(self.size, bool):
                raise TypeError(f"ResourceLink.size must be an int, not {type(self.size).__name__}")
            if self.size < 0:
                raise ValueError("ResourceLink.size must not be negative")
        _tuple(self, "icons", Icon, "Icon values")
        _extras(self)

    def to_wire(self) -> dict[str, Any]:
        """The JSON object by ``ResourceLink`` of schema.ts."""
        return _block(
            "resource_link",
            self,
            uri=self.uri,
            name=self.name,
            title=self.title,
            description=self.description,
            mimeType=self.mime_type,
            size=self.size,
            icons=None if self.icons is None else [icon.to_wire() for icon in self.icons],
        )


# ---- contents of resources ----


@dataclass(frozen=True, slots=True)
class TextResourceContents:
    """Contents of a resource that is text.

    Attributes:
        uri: URI of the resource, or of the part of it.
        text: The contents.
        mime_type: Their type, if known.
    """

    uri: str
    text: str
    mime_type: str | None = None
    _: KW_ONLY
    meta: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _text(self, "uri", "text")
        _optional_text(self, "mime_type")
        _extras(self)

    def to_wire(self) -> dict[str, Any]:
        """The JSON object by ``TextResourceContents`` of schema.ts."""
        return _wire({"uri": self.uri, "mimeType": self.mime_type, "text": self.text, "_meta": self.meta})


@dataclass(frozen=True, slots=True)
class BlobResourceContents:
    """Contents of a resource that is not text.

    Attributes:
        uri: URI of the resource, or of the part of it.
        blob: The contents.
        mime_type: Their type, if known.
    """

    uri: str
    blob: bytes = field(repr=False)
    mime_type: str | None = None
    _: KW_ONLY
    meta: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _text(self, "uri")
        _binary(self, "blob")
        _optional_text(self, "mime_type")
        _extras(self)

    def to_wire(self) -> dict[str, Any]:
        """The JSON object by ``BlobResourceContents`` of schema.ts."""
        return _wire({"uri": self.uri, "mimeType": self.mime_type, "blob": _base64(self.blob), "_meta": self.meta})


ResourceContents: TypeAlias = TextResourceContents | BlobResourceContents


@dataclass(frozen=True, slots=True)
class EmbeddedResource:
    """Contents of a resource, inside a tool result or a prompt."""

    resource: ResourceContents
    _: KW_ONLY
    annotations: Annotations | None = None
    meta: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.resource, ResourceContents):
            raise TypeError(
                "EmbeddedResource.resource must be TextResourceContents or BlobResourceContents, "
                f"not {type(self.resource).__name__}"
            )
        _extras(self)

    def to_wire(self) -> dict[str, Any]:
        """The JSON object by ``EmbeddedResource`` of schema.ts."""
        return _block("resource", self, resource=self.resource.to_wire())


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


def _block(kind: str, block: ContentBlock | _Media, **members: Any) -> dict[str, Any]:
    annotations = None if block.annotations is None else block.annotations.to_wire()
    return _wire({"type": kind, **members, "annotations": annotations, "_meta": block.meta})


# ---- prompts ----


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt.

    Attributes:
        role: Who says it.
        content: What is said.

    Raises:
        ValueError: ``role`` is another word.
    """

    role: Role
    content: ContentBlock

    def __post_init__(self) -> None:
        if self.role not in _ROLES:
            raise ValueError('PromptMessage.role must be "user" or "assistant"')
        if not isinstance(self.content, ContentBlock):
            raise TypeError(f"PromptMessage.content must be a content block, not {type(self.content).__name__}")

    def to_wire(self) -> dict[str, Any]:
        """The JSON object by ``PromptMessage`` of schema.ts."""
        return {"role": self.role, "content": self.content.to_wire()}
