"""What must stay as it was, however often the core has run: references, blocks, resident memory."""

from __future__ import annotations

import gc
import resource
import sys
from decimal import Decimal
from typing import Any, Final, cast

from mcpinput import errors
from mcpinput.json import parse

SENTINELS: Final[dict[str, Any]] = {
    "None": None,
    "True": True,
    "False": False,
    "Decimal": Decimal,
    "0": 0,
    "1": 1,
    "7": 7,
    "256": 256,
    "the empty str": "",
    "a str of one character": chr(0xE9),
    "the empty bytes": b"",
    "the empty tuple": (),
    "int": int,
    "str": str,
    "dict": dict,
    "list": list,
    "JsonErrorKind.SYNTAX": errors.JsonErrorKind.SYNTAX,
    "JsonErrorKind.SIZE": errors.JsonErrorKind.SIZE,
    "JsonErrorKind": errors.JsonErrorKind,
    "JsonParseError": errors.JsonParseError,
    "JsonWriteError": errors.JsonWriteError,
    "JsonTypeError": errors.JsonTypeError,
    "EnvelopeError": errors.EnvelopeError,
    "MemoryError": MemoryError,
    # The strs that the core keeps for member names.
    **{f"the name {name}": name for name in cast("dict[str, Any]", parse(b'{"a":0,"b":0,"c":0,"_meta":0,"name":0}'))},
}
"""Objects that the core takes references to. Some of them are immortal from CPython 3.12 on, and stand still."""

_VALUES: Final = list(SENTINELS.values())


def held() -> list[int]:
    """Reference counts of the sentinels, and how many blocks Python's allocator has given out."""
    gc.collect()  # with garbage goes what the interpreter keeps of freed objects
    return [*map(sys.getrefcount, _VALUES), sys.getallocatedblocks()]


def grown(before: list[int], after: list[int], allowed: int) -> list[str]:
    """What moved by more than is allowed: references either way, blocks upwards."""
    moved = [now - then for then, now in zip(before, after, strict=True)]
    names = [f"{name} by {by:+}" for name, by in zip(SENTINELS, moved, strict=False) if abs(by) > allowed]
    return names + ([f"blocks by {moved[-1]:+}"] if moved[-1] > allowed else [])


def resident() -> int:
    """Bytes of memory that this process has resident; the most that it ever had, where the system tells no more."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
