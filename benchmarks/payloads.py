"""What is measured: four JSON texts, the same bytes on every machine.

Rules

- Drawn from a seeded generator, so a ratio of today can be compared with one of last month.
- Each text is an object, so that the parameter digest takes it too.
- One parsed copy of each is kept alive while anything is measured: else the allocator hands emptied arenas back to the
  system, and page faults make the ratios of two equal runs differ by a factor of two.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from mcpinput.json import parse


@dataclass(frozen=True, slots=True)
class Payload:
    """One text with its trees.

    Attributes:
        name: What the table calls it.
        raw: The JSON text.
        exact: What ``mcpinput.json.parse`` makes of it, numbers exact.
        params: What the digest is taken of: of a request its ``params``, else all of it.
        params_floats: What the standard library makes of that, fractions as floats.
    """

    name: str
    raw: bytes
    exact: Any
    params: bytes
    params_floats: Any


def _payload(name: str, raw: bytes) -> Payload:
    floats = json.loads(raw)
    params = floats.get("params", floats)
    return Payload(name, raw, parse(raw), raw if params is floats else _compact(params), params)


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _small() -> bytes:
    """One tools/call request of 405 bytes, as a client sends it."""
    return _compact(
        {
            "jsonrpc": "2.0",
            "id": 17,
            "method": "tools/call",
            "params": {
                "name": "orders.refund",
                "arguments": {"order": "A-10294", "lines": [1, 4], "amount": 129.95, "reason": "arrived in two pieces"},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "example-client", "version": "3.12.0"},
                    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}},
                },
            },
        }
    )


def _rows(draw: random.Random) -> bytes:
    """8,000 records of short members, as a database query gives them; about 980 kB."""
    cities = ("Bergamo", "Lisboa", "Kraków", "Uppsala", "Gent")
    return _compact(
        {
            "rows": [
                {
                    "id": 100_000 + i,
                    "name": f"customer {i}",
                    "active": draw.random() < 0.7,
                    "balance": draw.randrange(1_000_000) / 100,
                    "city": draw.choice(cities),
                    "tags": ["retail", "eu"],
                    "visits": draw.randrange(1_000),
                }
                for i in range(8_000)
            ]
        }
    )


def _numbers(draw: random.Random) -> bytes:
    """60,000 fractions of six decimals; about 890 kB."""
    return b'{"values":[' + b",".join(b"%.6f" % draw.uniform(1e5, 1e7) for _ in range(60_000)) + b"]}"


def _text(draw: random.Random) -> bytes:
    """930 paragraphs of plain ASCII; about 980 kB."""
    words = ("state", "round", "answer", "sealed", "question", "person", "server", "client", "form", "token")
    return _compact({"texts": [" ".join(draw.choices(words, k=165))[:1_048] for _ in range(930)]})


def one_value_repeated(count: int) -> bytes:
    """An object with one array of ``count`` times ``1e-6``: the shortest token that needs rewriting."""
    return b'{"x":[' + b",".join([b"1e-6"] * count) + b"]}"


def adversarial(size: int) -> dict[str, bytes]:
    """Objects of about ``size`` bytes that are made to be dear: tiny values, depth, names, escapes, long numbers."""
    draw = random.Random(8785)
    names = draw.sample(range(10**8, 10**9), size // 12)

    def repeated(unit: bytes) -> bytes:
        return b'{"x":[' + b",".join([unit] * (size // (len(unit) + 1))) + b"]}"

    def members(order: list[int]) -> bytes:
        return b"{" + b",".join(b'"%d":1' % name for name in order) + b"}"

    deep = 250
    return {
        "1e-6": repeated(b"1e-6"),
        "1": repeated(b"1"),
        "10": repeated(b"10"),
        "1.5": repeated(b"1.5"),
        "[]": repeated(b"[]"),
        "{}": repeated(b"{}"),
        "empty strings": repeated(b'""'),
        "one member": repeated(b'{"a":1}'),
        "two members out of order": repeated(b'{"b":1,"a":2}'),
        "arrays 250 deep": repeated(b"[" * deep + b"]" * deep),
        "objects 250 deep": repeated(b'{"a":' * deep + b"1" + b"}" * deep),
        "objects 250 deep, out of order": repeated(b'{"b":1,"a":' * deep + b"1" + b"}" * deep),
        "one object, in order": members(sorted(names)),
        "one object, backwards": members(sorted(names, reverse=True)),
        "one object, at random": members(names),
        # More names than any cache keeps, and alike in what one would look at.
        "names never seen before": b'{"x":[' + b",".join(b'{"a%da":1}' % name for name in names[: size // 17]) + b"]}",
        "long names alike": members([10**60 + name for name in names[: size // 65]]),
        "escaped names": repeated(b'{"\\u0062":1,"\\u0061":2}'),
        "short escapes": b'{"x":"' + b"\\n" * (size // 2) + b'"}',
        "long escapes": b'{"x":"' + b"\\u00e9" * (size // 6) + b'"}',
        "text of two bytes": '{{"x":"{}"}}'.format("é" * (size // 2)).encode(),
        "text of three bytes": '{{"x":"{}"}}'.format("€" * (size // 3)).encode(),
        "text of four bytes": '{{"x":"{}"}}'.format("😀" * (size // 4)).encode(),
        "ints of 1,024 digits": repeated(b"7" * 1024),
        "fractions of 1,022 digits": repeated(b"0." + b"7" * 1022),
        "white space": b'{"x":[1' + b" " * size + b"]}",
    }


def plain_text(size: int) -> bytes:
    """An object of one long string, ``size`` bytes in all."""
    return b'{"x":"' + b"x" * (size - 8) + b'"}'


def nodes_of(tree: Any) -> int:
    """Values in a tree, containers included."""
    count = 0
    left = [tree]
    while left:
        value = left.pop()
        count += 1
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
    return count


def items(count: int) -> list[dict[str, Any]]:
    """Arguments that grow: ``count`` order lines with an exact price each."""
    return [{"id": i, "price": Decimal(1999 + i) / 100} for i in range(count)]


def payloads() -> dict[str, Payload]:
    """The four payloads, by name."""
    draw = random.Random(20260728)
    raw: Final = {"small": _small(), "rows": _rows(draw), "numbers": _numbers(draw), "text": _text(draw)}
    return {name: _payload(name, data) for name, data in raw.items()}
