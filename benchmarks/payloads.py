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


def items(count: int) -> list[dict[str, Any]]:
    """Arguments that grow: ``count`` order lines with an exact price each."""
    return [{"id": i, "price": Decimal(1999 + i) / 100} for i in range(count)]


def payloads() -> dict[str, Payload]:
    """The four payloads, by name."""
    draw = random.Random(20260728)
    raw: Final = {"small": _small(), "rows": _rows(draw), "numbers": _numbers(draw), "text": _text(draw)}
    return {name: _payload(name, data) for name, data in raw.items()}
