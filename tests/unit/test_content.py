"""Content blocks on the wire, held against the models of the official SDK."""

from __future__ import annotations

import base64
import copy
import dataclasses
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import mcp.types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpinput.content import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    Icon,
    ImageContent,
    PromptMessage,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcpinput.json import dump

NOTES = Annotations(audience=("user",), priority=0.5, last_modified="2026-07-28T12:00:00Z")
META = {"com.example/k": [1, {"a": None}]}

BLOCKS = [
    TextContent("hi"),
    TextContent("", annotations=NOTES, meta=META),
    ImageContent(b"\x00\xff", "image/png"),
    ImageContent(b"\x89PNG", "image/png", annotations=NOTES, meta=META),
    AudioContent(b"RIFF", "audio/wav", annotations=Annotations(), meta={}),
    ResourceLink("file:///a", "a"),
    ResourceLink(
        "file:///a",
        "a",
        title="A",
        description="An a",
        mime_type="text/plain",
        size=0,
        icons=(Icon("https://example.com/i.png", mime_type="image/png", sizes=("48x48", "any"), theme="dark"),),
        annotations=NOTES,
        meta=META,
    ),
    EmbeddedResource(TextResourceContents("file:///a", "text", "text/plain", meta=META)),
    EmbeddedResource(BlobResourceContents("file:///b", b"\x00"), annotations=NOTES, meta=META),
]

MODELS: dict[str, Any] = {
    "text": mcp.types.TextContent,
    "image": mcp.types.ImageContent,
    "audio": mcp.types.AudioContent,
    "resource_link": mcp.types.ResourceLink,
    "resource": mcp.types.EmbeddedResource,
}


def as_sent(wire: dict[str, Any]) -> Any:
    import json

    return json.loads(dump(wire))


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_are_what_the_official_sdk_reads(block: Any) -> None:
    wire = as_sent(block.to_wire())
    model = MODELS[wire["type"]].model_validate(wire)
    assert model.model_dump(mode="json", by_alias=True, exclude_unset=True) == wire


@pytest.mark.parametrize("block", BLOCKS)
def test_messages_are_what_the_official_sdk_reads(block: Any) -> None:
    wire = as_sent(PromptMessage("assistant", block).to_wire())
    assert (
        mcp.types.PromptMessage.model_validate(wire).model_dump(mode="json", by_alias=True, exclude_unset=True) == wire
    )


def test_absent_members_are_left_out() -> None:
    assert TextContent("x").to_wire() == {"type": "text", "text": "x"}
    assert ResourceLink("u:x", "n").to_wire() == {"type": "resource_link", "uri": "u:x", "name": "n"}
    assert TextResourceContents("u:x", "t").to_wire() == {"uri": "u:x", "text": "t"}
    assert Icon("data:x").to_wire() == {"src": "data:x"}
    assert Annotations().to_wire() == {}


@given(st.binary())
def test_binary_data_goes_out_as_padded_base64(data: bytes) -> None:
    assert base64.b64decode(ImageContent(data, "image/png").to_wire()["data"], validate=True) == data
    assert base64.b64decode(AudioContent(data, "audio/wav").to_wire()["data"], validate=True) == data
    assert base64.b64decode(BlobResourceContents("u:x", data).to_wire()["blob"], validate=True) == data


def test_binary_data_is_copied_and_stays_out_of_the_repr() -> None:
    data = bytearray(b"secret picture")
    image = ImageContent(data, "image/png")  # type: ignore[arg-type]
    data[:] = b"x" * len(data)
    assert image.data == b"secret picture"
    assert "secret" not in repr(image)
    assert "secret" not in repr(AudioContent(b"secret", "audio/wav"))
    assert "secret" not in repr(BlobResourceContents("u:x", b"secret"))


def test_meta_is_a_frozen_copy() -> None:
    meta = {"com.example/k": {"deep": [1]}}
    block = TextContent("x", meta=meta)
    meta["com.example/k"]["deep"].append(2)
    assert block.to_wire()["_meta"] == {"com.example/k": {"deep": [1]}}
    assert block.meta is not None
    with pytest.raises(TypeError):
        block.meta["com.example/k"]["deep"].append(2)


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_cannot_be_changed_and_compare_by_value(block: Any) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        block.annotations = None
    assert copy.copy(block) == block
    assert block != TextContent("something else")


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: TextContent(1), "TextContent.text"),  # type: ignore[arg-type]
        (lambda: TextContent("x", annotations={"audience": []}), "TextContent.annotations"),  # type: ignore[arg-type]
        (lambda: TextContent("x", meta=[1]), "TextContent.meta"),  # type: ignore[arg-type]
        (lambda: ImageContent("aGk=", "image/png"), "ImageContent.data"),  # type: ignore[arg-type]
        (lambda: ImageContent(4, "image/png"), "ImageContent.data"),  # type: ignore[arg-type]
        (lambda: AudioContent(b"", None), "AudioContent.mime_type"),  # type: ignore[arg-type]
        (lambda: ResourceLink("u:x", None), "ResourceLink.name"),  # type: ignore[arg-type]
        (lambda: ResourceLink("u:x", "n", size=True), "ResourceLink.size"),
        (lambda: ResourceLink("u:x", "n", icons=["x"]), "ResourceLink.icons"),  # type: ignore[arg-type]
        (lambda: TextResourceContents("u:x", b"x"), "TextResourceContents.text"),  # type: ignore[arg-type]
        (lambda: BlobResourceContents("u:x", "x"), "BlobResourceContents.blob"),  # type: ignore[arg-type]
        (lambda: EmbeddedResource(TextContent("x")), "EmbeddedResource.resource"),  # type: ignore[arg-type]
        (lambda: PromptMessage("user", "x"), "PromptMessage.content"),  # type: ignore[arg-type]
        (lambda: Annotations(audience="user"), "Annotations.audience"),  # type: ignore[arg-type]
        (lambda: Annotations(priority=True), "Annotations.priority"),
        (lambda: Annotations(last_modified=0), "Annotations.last_modified"),  # type: ignore[arg-type]
        (lambda: Icon(None), "Icon.src"),  # type: ignore[arg-type]
        (lambda: Icon("x", sizes="48x48"), "Icon.sizes"),  # type: ignore[arg-type]
    ],
)
def test_wrong_types_are_refused_by_name(make: Callable[[], object], name: str) -> None:
    with pytest.raises(TypeError, match=name):
        make()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: ResourceLink("u:x", "n", size=-1), "ResourceLink.size"),
        (lambda: PromptMessage("system", TextContent("x")), "PromptMessage.role"),  # type: ignore[arg-type]
        (lambda: Annotations(audience=("User",)), "Annotations.audience"),  # type: ignore[arg-type]
        (lambda: Annotations(priority=Decimal("1.01")), "Annotations.priority"),
        (lambda: Annotations(priority=float("nan")), "Annotations.priority"),
        (lambda: Icon("x", theme="grey"), "Icon.theme"),  # type: ignore[arg-type]
    ],
)
def test_wrong_values_are_refused_by_name(make: Callable[[], object], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make()
