"""A million calls that succeed, and that fail at every place, leave nothing behind.

Every prefix of a set of texts, and every corruption of one byte of them, goes through every reader; every writer writes
trees that go wrong at every place, and runs into its limits at every place. Afterwards the references to sentinels and
the blocks of Python's allocator are exactly as they were, and resident memory is within a mebibyte of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from mcpinput._core import canonical, digest, dump, envelope, parse, state
from mcpinput.errors import InputError
from mcpinput.json import Limits
from tests.proofs import operations
from tests.proofs.sentinels import grown, held, resident

TURNS: Final = 3
"""So often everything is done: a million parses and more. In full it is ten times as much."""

RESIDENT: Final = 1 << 20
"""Bytes by which resident memory may differ in the end: its pages come and go with what the allocators keep."""

HELD: Final = 8
"""Blocks and references that may come and go with the interpreter's own doings; one call in a million leaks more."""


def sources() -> list[bytes]:
    """Texts of every kind of token, short enough to be spoilt at every byte."""
    texts = operations.texts()
    return [
        operations.REQUEST,
        *(
            texts[name]
            for name in ("ints", "decimals", "string of both", "string of escapes", "members in UTF-16 order")
        ),
        b"[" + b"7" * 40 + b",1." + b"0" * 40 + b",12345678901234567890123456789012345678901234567890]",
        b'[{"b":1,"a":2},{"b":3,"a":4},{"b":[{"d":1}],"a":{}}]',
        b"[" + b"1," * 70 + b'"end"]',
    ]


def spoilt(source: bytes) -> Iterator[bytes]:
    """Every prefix, and every corruption of one byte."""
    for end in range(len(source)):
        yield source[:end]
    for at in range(len(source)):
        for byte in range(256):
            yield source[:at] + bytes((byte,)) + source[at + 1 :]


class Run:
    """Counts calls while it makes them."""

    def __init__(self) -> None:
        self.calls = 0
        self.parses = 0
        self.refused = 0

    def make(self, function: Callable[..., object], *arguments: Any, **keywords: Any) -> None:
        """One call; an error of the library is as good as a value."""
        self.calls += 1
        try:
            function(*arguments, **keywords)
        except (InputError, ValueError):
            self.refused += 1

    def read(self) -> None:
        """Texts through every reader."""
        for source in sources():
            for text in spoilt(source):
                self.make(parse.parse, text)
                self.make(parse.parse_state, text)
                self.make(digest.canonical_raw, text)
                self.make(digest.parameter_digest, text)
                self.parses += 2
            for limit in range(1, len(source)):
                self.make(parse.parse, source, limits=Limits(nodes=limit))
                self.make(parse.parse, source, limits=Limits(string_bytes=limit))
                self.make(digest.canonical_raw, source, limits=Limits(nodes=limit))
                self.make(digest.canonical_raw, source, limits=Limits(canonical_bytes=limit))
                self.parses += 2

    def write(self) -> None:
        """Trees through every writer, with something that cannot be written at every place, and every limit."""
        for value in (*operations.values().values(), *operations.values_by_code().values()):
            size = len(dump.dump(value))
            self.make(canonical.canonical_bytes, value)
            for limit in range(1, size, max(1, size // 200)):
                for limits in (Limits(nodes=limit), Limits(response_bytes=limit, canonical_bytes=limit)):
                    self.make(dump.dump, value, limits=limits)
                    self.make(canonical.canonical_bytes, value, limits=limits)
        for wrong in operations.wrong_values().values():
            for tree in spoilt_trees(wrong):
                self.make(dump.dump, tree)
                self.make(canonical.canonical_bytes, tree)
                self.make(digest.parameter_digest, {"v": tree})

    def wrap(self) -> None:
        """Tokens and payloads, cut at every place."""
        token = envelope.encode_token(envelope.encode_header("key-1", bytes(24)), bytes(60))
        payload = envelope.encode_payload(*operations.PARTS, operations.ASKED, operations.STATE)
        for end in range(len(token) + 1):
            self.make(envelope.decode_token, token[:end])
        for end in range(len(payload) + 1):
            self.make(envelope.decode_payload, payload[:end])

    def protect(self) -> None:
        """Payloads of an ask, spoilt at every byte, opened and gone on from; and every way of sealing one, again and
        again."""
        terms = operations.TERMS
        payload = operations.sealed_by(1)()
        retry = state.Call(*operations.call("retry"))
        for data in (payload, *spoilt(payload)):
            self.make(state.open_payload, data, "key-1", retry, True, 2_000, terms, operations.WIDE, 1 << 20)
        calls = list(operations.state_calls())
        for _ in range(300):
            for call in calls:
                self.make(call.function)

    def whole(self) -> None:
        """Everything once."""
        self.read()
        self.write()
        self.wrap()
        self.protect()


def spoilt_trees(wrong: object) -> Iterator[Any]:
    """A tree with something wrong in each of its places."""
    tree: Any = parse.parse(operations.REQUEST)
    for name in tree:
        yield {**tree, name: wrong}
        members = tree[name]
        if isinstance(members, dict):
            for inner in members:
                yield {**tree, name: {**members, inner: [wrong]}}


def main(full: bool) -> int:
    """Prints what was done; answers 1 where something stayed behind."""
    start = time.monotonic()
    Run().whole()  # the interpreter and the core keep then what they keep
    run = Run()
    for _ in range(2):  # the first time makes the list that is alive the second time
        before, at_first = held(), resident()
    for _ in range(10 * TURNS if full else TURNS):
        run.whole()
    moved = grown(before, held(), HELD)
    more = resident() - at_first
    if more > RESIDENT:
        moved.append(f"resident memory by {more:,} bytes")
    for what in moved:
        print(f"flat: after {run.calls:,} calls there moved {what}", file=sys.stderr)
    print(
        f"flat: {run.calls:,} calls, {run.parses:,} of them parses, {run.refused:,} refused; resident memory moved by "
        f"{more / 1024:+,.0f} KiB; {time.monotonic() - start:.0f} s"
    )
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main("--full" in sys.argv[1:]))
