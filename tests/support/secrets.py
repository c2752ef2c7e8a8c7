"""The search for secrets in all that a program tells: values, errors with the locals of their frames, log records."""

from __future__ import annotations

import base64
import logging
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def spellings(secret: bytes) -> Iterable[str]:
    """Ways in which 12 bytes of a secret, wherever they stand in it, could show in a text."""
    for start in range(len(secret) - 11):
        part = secret[start : start + 12]
        for data in (part, part[::-1]):
            yield from (
                repr(data)[2:-1],
                repr(data.decode("latin-1"))[1:-1],
                data.hex(),
                data.hex().upper(),
                data.hex(" "),
                data.hex(":"),
                base64.b64encode(data).decode(),
                base64.urlsafe_b64encode(data).decode(),
                base64.b32encode(data[:10]).decode(),
                str(list(data))[1:-1],
                ",".join(map(str, data)),
                str(int.from_bytes(data, "big")),
                hex(int.from_bytes(data, "big"))[2:],
            )


class Search:
    """Asserts of texts that none shows any of some secrets.

    Args:
        secrets: At least 12 bytes each.
    """

    def __init__(self, *secrets: bytes) -> None:
        self._forbidden = {text for secret in secrets for text in spellings(secret)}

    def __call__(self, text: str) -> None:
        found = sum(secret in text for secret in self._forbidden)
        assert not found, f"{found} spellings of a secret are shown"


def shown(value: Any) -> str:
    """A value by its repr, and what is not in a repr: the bytes under views, and whatever containers hold."""
    if isinstance(value, memoryview):
        return repr(bytes(value))
    if isinstance(value, Mapping):
        return "".join(shown(key) + shown(item) for key, item in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return "".join(map(shown, value)) + str_of(value)
    return str_of(value)


def str_of(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:  # an object that a copy was only half made of
        return f"no repr: {error}"


def told_of(error: BaseException) -> str:
    """All that an error tells: texts, attributes, and every local of every frame of the package's and below."""
    told: list[str] = []
    seen: set[int] = set()
    left: list[BaseException] = [error]
    while left:
        this = left.pop()
        if id(this) in seen:
            continue
        seen.add(id(this))
        told += [str(this), repr(this), shown(this.args), shown(getattr(this, "__dict__", {}))]
        told += traceback.format_exception(this)
        frames = [frame for frame, _ in traceback.walk_tb(this.__traceback__)]
        if this is error:
            del frames[0]  # whoever calls holds what it passed
        told += [shown(dict(frame.f_locals)) for frame in frames]
        left += [one for one in (this.__cause__, this.__context__) if one is not None]
        left += getattr(this, "exceptions", ())
    return "\n".join(told)


def everything_told(action: Callable[[], object]) -> str:
    """What the error tells that an action raises."""
    try:
        action()
    except Exception as error:
        return told_of(error)
    raise AssertionError("nothing was raised")


class Keeper:
    """Holds an argument where no frame has it as a local."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def told_in(records: Iterable[logging.LogRecord]) -> str:
    """All that is in log records, with the locals of the tracebacks that they carry."""
    told: list[str] = []
    for record in records:
        told += [record.getMessage(), shown(record.__dict__)]
        if record.exc_info is not None and record.exc_info[1] is not None:
            told.append(told_of(record.exc_info[1]))
    return "\n".join(told)
