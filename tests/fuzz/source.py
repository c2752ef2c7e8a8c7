"""Bytes of the fuzzing engine as decisions: limits, texts, and trees of every type that the writer may meet.

Rules

- Decisions are taken front to back. Once the bytes are used up every further one is 0, which ends whatever is built.
- A text is the rest of the bytes as they are, so that the engine changes the text itself.
- The classes here override what a careless writer would call: those methods fail, and so does the target then.
"""

from __future__ import annotations

import enum
import struct
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import msgspec

TextLimits: TypeAlias = tuple[int, int, int, int]
"""Depth, nodes, bytes of a string, bytes of the text."""

WIDEST: TextLimits = (256, 1_000_000, 8 << 20, 64 << 20)
NESTING = 300  # beyond what any limit allows, and within what the interpreter takes of the decoder


class Source:
    """Decisions out of bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        """The next bytes, fewer at the end."""
        part = self._data[self._at : self._at + size]
        self._at += size
        return part

    def byte(self) -> int:
        """The next byte."""
        return self.number(1)

    def number(self, size: int) -> int:
        """A number of so many bytes, without sign."""
        return int.from_bytes(self.take(size), "big")

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._data))


def text_limits(source: Source) -> TextLimits:
    """Widest or narrow limits: the first byte is even or odd (``0`` and ``1`` in the texts of the corpus)."""
    if source.byte() % 2 == 0:
        return WIDEST
    return 1 + source.byte() % 16, 1 + source.byte(), 1 + source.byte(), 1 + source.number(2)


# ---- types with a mind of their own ----


def _never(self: object, *arguments: object, **keywords: object) -> Any:
    raise AssertionError("the writer called a method that a subclass overrides")


class OwnText(str):
    """Equal to itself alone, so that one dict can hold it beside the same text."""

    __slots__ = ()
    __len__ = __iter__ = __str__ = __getitem__ = encode = _never
    __hash__ = object.__hash__
    __eq__ = object.__eq__
    __ne__ = object.__ne__


class OwnInt(int):
    """An int that tells nothing of itself."""

    __str__ = __repr__ = __abs__ = __index__ = __int__ = __neg__ = __lt__ = __ge__ = _never


class OwnFloat(float):
    """A float that tells nothing of itself."""

    __str__ = __repr__ = __float__ = _never


class OwnDecimal(Decimal):
    """A Decimal that tells nothing of itself."""

    __slots__ = ()
    __str__ = __format__ = as_tuple = adjusted = is_finite = _never


class OwnDict(dict[Any, Any]):
    """A dict that tells nothing of its members."""

    __len__ = __iter__ = __getitem__ = items = keys = values = get = _never


class OwnOrdered(OrderedDict[Any, Any]):
    """An ordered one."""

    __len__ = __getitem__ = items = keys = values = _never


class OwnList(list[Any]):
    """A list that tells nothing of its items."""

    __len__ = __iter__ = __getitem__ = _never


class OwnTuple(tuple[Any, ...]):
    """A tuple that tells nothing of its items."""

    __slots__ = ()
    __len__ = __iter__ = __getitem__ = _never


class Word(enum.StrEnum):
    PLAIN = "word"
    WIDE = "w\u00f6rd \U0001f600"


class Count(enum.IntEnum):
    FEW = 3
    MANY = 10**30


class Thing(enum.Enum):
    TEXT = "thing"
    NUMBER = Decimal("1.50")
    NOTHING = None
    NESTED = Count.FEW
    ROW = (1, Word.PLAIN)
    FOREIGN = b"bytes"


@dataclass
class Point:
    x: Any
    y: Any


class Pair(NamedTuple):
    first: Any
    second: Any


class Item(msgspec.Struct):
    name: Any
    size: Any = msgspec.UNSET


class Tagged(msgspec.Struct, tag_field="kind", tag="tagged", rename="camel"):
    long_name: Any


class Row(msgspec.Struct, array_like=True, tag="row"):
    first: Any
    second: Any


class Interruption(Exception):
    """What code of the application raised while a value was written."""


class Restless(enum.Enum):
    """A member whose value is what a piece of code gives that runs while it is written."""

    ONE = 1

    @property
    def value(self) -> Any:
        return CODE[0]()


CODE: list[Callable[[], Any]] = []


# ---- trees ----

SPECIAL_NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**511, 10**512, -(10**512), 10**1024 - 1, 10**1024),
    *(1 - 10**1024, -(10**1024), 10**5000, True, False),
    *(0.0, -0.0, 0.1, 1e16, 1e-5, 5e-324, -1.7976931348623157e308, float("inf"), float("-inf"), float("nan")),
    *map(Decimal, ("0", "-0", "0.0", "-0.000", "1E+2", "1.50", "0.000001", "0.0000001", "1E+10000", "1E-10000")),
    *map(Decimal, ("12E+10000", "0E+10001", "0E-10001", "1E+999999")),
    *map(Decimal, ("NaN", "-NaN123", "sNaN", "Infinity", "-Infinity")),
)
ODDITIES: tuple[Any, ...] = (
    *(*Word, *Count, *Thing),
    *(object, Point, Item, b"bytes", bytearray(b"1"), 1j, frozenset(), msgspec.UNSET),
)
ALPHABETS = (
    "abcdefghijklmno\x7f",
    'a"\\/\b\f\n\r\t\x00\x1f b:,',
    "a\x80\xe9\xff~",
    "a\u0100\u07ff\u0800\ud7ff\ue000\ufb33\uffff",
    "a\u00e9\uffff\U00010000\U0001f600\U0010ffff",
    "a\xff\ud800\udbff\udc00\udfff\U00010000",
)
NAMES = ("_meta", "inputResponses", "requestState", "progressToken", "traceparent", "tracestate", "baggage", "params")


def text(source: Source) -> str:
    """A str, of every storage kind that there is."""
    dice = source.byte()
    if dice < 16:
        return NAMES[dice % len(NAMES)]
    alphabet = ALPHABETS[dice % len(ALPHABETS)]
    size = source.byte() % 24
    drawn = "".join(alphabet[byte % len(alphabet)] for byte in source.take(size))
    return drawn * (1 + source.byte()) if dice >= 240 else drawn


def number(source: Source) -> Any:
    """An int, a Decimal or a float."""
    dice = source.byte()
    if dice < 64:
        return SPECIAL_NUMBERS[dice % len(SPECIAL_NUMBERS)]
    if dice < 128:
        value = int.from_bytes(source.take(1 + dice % 16), "big", signed=True)
        return value * 10 ** (source.number(2) % 1030) if dice % 2 else value
    if dice < 160:
        return struct.unpack(">d", source.take(8).ljust(8, b"\0"))[0]
    digits = tuple(byte % 10 for byte in source.take(dice % 32)) or (0,)
    if dice >= 240:
        digits = (digits * 1030)[: source.number(2) % 1030 or 1]
    exponent = source.number(2) - 0x8000
    return Decimal((dice % 2, digits, exponent % 64 - 32 if dice % 4 < 2 else exponent))


def own_number(source: Source) -> Any:
    """A number of a subclass; a bool is one already."""
    found = number(source)
    for kind, own in ((bool, bool), (int, OwnInt), (float, OwnFloat)):
        if isinstance(found, kind):
            return own(found)
    return OwnDecimal(found)


class Trees:
    """Values that JSON has a form for, and some that it has none for.

    ``restless`` says that code will run which changes the containers while they are written.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.restless = False
        self.containers: list[Any] = []
        self.actions = 32

    def name(self) -> Any:
        """A member name, mostly."""
        dice = self.source.byte()
        if dice >= 252:
            return (1, None, b"name", (1, 2))[dice % 4]
        if dice >= 240:
            return OwnText(text(self.source))
        if dice >= 236:
            return Word.WIDE
        return text(self.source)

    def members(self, kind: type[dict[Any, Any]], depth: int) -> Any:
        made = kind()
        self.containers.append(made)
        for _ in range(self.source.byte() % 8):
            name = self.name()
            kind.__setitem__(made, name, self.value(depth))
        if isinstance(made, OrderedDict) and dict.__len__(made):
            made.move_to_end(next(OrderedDict.__iter__(made)), last=self.source.byte() % 2 == 0)
        return made

    def items(self, kind: type[list[Any]], depth: int) -> Any:
        made = kind()
        self.containers.append(made)
        for _ in range(self.source.byte() % 8):
            list.append(made, self.value(depth))
        return made

    def leaf(self, dice: int) -> Any:
        source = self.source
        match dice % 8:
            case 0:
                return None
            case 1:
                return number(source)
            case 2 | 3:
                return text(source)
            case 4:
                return source.byte() % 2 == 0
            case 5:
                return OwnText(text(source))
            case 6:
                return own_number(source)
        return ODDITIES[source.byte() % len(ODDITIES)]

    def value(self, depth: int = 0) -> Any:
        """The next value."""
        source = self.source
        dice = source.byte()
        if dice < 0x60 or depth >= NESTING:
            return self.leaf(dice)
        depth += 1
        match dice % 16:
            case 0 | 1 | 2:
                return self.members(dict, depth)
            case 3 | 4:
                return self.items(list, depth)
            case 5:
                return tuple(self.items(list, depth))
            case 6:
                return self.members((OrderedDict, OwnDict, OwnOrdered)[source.byte() % 3], depth)
            case 7:
                return self.items(OwnList, depth)
            case 8:
                return OwnTuple(self.items(list, depth))
            case 9:
                return Point(self.value(depth), self.value(depth))
            case 10:
                return (Item, Row, Pair)[source.byte() % 3](self.value(depth), self.value(depth))
            case 11:
                return Tagged(self.value(depth))
            case 12:
                return self.again()
            case 13:
                return self.nested(depth)
            case 14:
                return self.restless_value()
        return Item(self.value(depth))

    def again(self) -> Any:
        """A container that is part of the tree already: shared, or holding itself."""
        if not self.containers:
            return None
        return self.containers[self.source.byte() % len(self.containers)]

    def nested(self, depth: int) -> Any:
        """A value in many containers."""
        levels = min(self.source.number(2) % NESTING, NESTING - depth)
        kind = self.source.byte() % 4
        made = self.leaf(self.source.byte())
        for _ in range(levels):
            made = [made] if kind == 0 else (made,) if kind == 1 else {"a": made} if kind == 2 else OwnList([made])
        return made

    def restless_value(self) -> Any:
        self.restless = True
        CODE[:] = [self.act]
        return Restless.ONE

    def act(self) -> Any:
        """Changes a container of the tree that is being written, and gives a value."""
        source = self.source
        dice = source.byte()
        self.actions -= 1
        if self.actions < 0 or not self.containers:
            return dice
        found = self.containers[source.byte() % len(self.containers)]
        if dice >= 250:
            raise Interruption
        if isinstance(found, dict):
            kind = OrderedDict if isinstance(found, OrderedDict) else dict
            if dice % 3 == 0:
                kind.clear(found)
            elif dice % 3 == 1:
                kind.update(found, {text(source): Restless.ONE, "more": [dice]})
            else:
                kind.pop(found, text(source), None)
        elif dice % 4 == 0:
            list.clear(found)
        elif dice % 4 == 1:
            list.extend(found, [Restless.ONE, {"more": dice}])
        elif dice % 4 == 2:
            list.insert(found, 0, text(source))
        else:
            list.sort(found, key=id)
        return (dice, "text", found, None, Restless.ONE, [Restless.ONE], object)[dice % 7]
