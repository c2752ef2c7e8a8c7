"""Files of keys for tests, and the search for their keys where none may show."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

IDS = ("k0", "k1", "k2", "k3")


def bytes_of(key_id: str) -> bytes:
    """The key of an id: 32 bytes without a pattern."""
    return hashlib.sha256(f"key of the id {key_id}".encode()).digest()


def text_of(key_id: str) -> str:
    """Those bytes as files spell them."""
    return base64.urlsafe_b64encode(bytes_of(key_id)).decode().rstrip("=")


def entry(key_id: str, **members: Any) -> dict[str, Any]:
    """A key of a file."""
    return {"id": key_id, "key": text_of(key_id), **members}


def document(active: str, *keys: str | dict[str, Any], **members: Any) -> dict[str, Any]:
    """A file of keys, of ids or whole entries."""
    entries = [entry(key) if isinstance(key, str) else key for key in keys]
    return {"version": 1, "active": active, **members, "keys": entries}


def put(path: Path, content: dict[str, Any] | bytes, mode: int = 0o600) -> Path:
    """Writes a file as it should be done: beside its place, then renamed into it."""
    beside = path.with_name(f"{path.name}.part")
    beside.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    os.chmod(beside, mode)
    os.rename(beside, path)
    return path


def _spellings(key_id: str) -> list[str]:
    text, data = text_of(key_id), bytes_of(key_id)
    found = [text[at : at + 10] for at in range(len(text) - 9)]
    for at in range(len(data) - 7):
        part = data[at : at + 8]
        found += [part.hex(), repr(part)[2:-1], str(list(part))[1:-1], base64.b64encode(part).decode()[:10]]
    return found


_FORBIDDEN = [text for key_id in IDS for text in _spellings(key_id)]


def assert_shows_no_key(text: str) -> None:
    """No part of a key of :data:`IDS`, however spelled, is in a text."""
    assert not [part for part in _FORBIDDEN if part in text]


def everything_told(error: BaseException) -> str:
    """An exception and all that is chained to it, with the locals of every frame inside the package."""
    told = []
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None:
            continue
        told.append(f"{type(one).__name__}: {one} {one.args!r}")
        pending += [one.__cause__, one.__context__]
        for frame, _ in traceback.walk_tb(one.__traceback__):
            if "/mcpinput/" in frame.f_code.co_filename:
                told += [f"{name}={value!r}" for name, value in frame.f_locals.items()]
    return "\n".join(told)


def raised(action: Callable[[], object]) -> BaseException:
    """What an action raises."""
    try:
        action()
    except BaseException as error:  # also what ends a process
        return error
    raise AssertionError("nothing was raised")
