"""JSON: parse, digest and dump against the fastest peers that are installed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any, Final

from benchmarks import peers
from benchmarks.measure import Effort, Line, bounded, compare, weighed, worst
from benchmarks.payloads import adversarial, nodes_of, one_value_repeated, payloads, plain_text
from mcpinput.json import Limits, dump, parameter_digest, parse

# Ratio to reach at least, by payload. The peer of a target is always the first of the peer list: msgspec, or orjson.
PARSE: Final = {"small": 1.0, "rows": 1.2, "text": 2.0}
PARSE_DECIMALS: Final = {"numbers": 1.2}
DIGEST_TREE: Final = {"small": 0.9, "rows": 1.0, "numbers": 1.4, "text": 0.9}
DIGEST_RAW: Final = {"small": 1.9, "rows": 4.0, "numbers": 2.8, "text": 1.35}
DUMP: Final = {"small": 1.1, "rows": 1.3, "numbers": 2.0, "text": 2.0}
DIGEST_TINY_TOKENS: Final = 1 / 15
DIGEST_ANYTHING: Final = 1 / 12

# What is allowed at most.
BYTES_A_TOKEN: Final = 16
SECONDS_A_VALUE: Final = 300e-9
SECONDS_A_BYTE: Final = 1e-9

# Nearly all of their time is that of the decimal module, which takes more for the digits than is allowed in all.
LONG_FRACTIONS: Final = "fractions of 1,022 digits"
ADVERSARIAL_BYTES: Final = 1_000_000
TARGET_PEERS: Final = ("msgspec", "orjson")

Of = Callable[[Any], object]


def _against(
    case: str, ours: Of, mine: Any, of_peers: list[peers.Peer], theirs: Any, effort: Effort, target: float
) -> Iterator[Line]:
    for name, call in of_peers:
        yield compare(
            case,
            partial(ours, mine),
            partial(call, theirs),
            name,
            effort,
            target=target if name in TARGET_PEERS and name == of_peers[0][0] else None,
        )


def lines(effort: Effort) -> Iterator[Line]:
    """Every JSON line of the report."""
    kept = payloads()  # alive until the last line: see benchmarks.payloads
    limits = Limits(body_bytes=16 * 1024 * 1024)
    for name, target in PARSE.items():
        raw = kept[name].raw
        yield from _against(f"parse {name}", parse, raw, peers.parsers_to_floats(), raw, effort, target)
    for name, target in PARSE_DECIMALS.items():
        raw = kept[name].raw
        yield from _against(f"parse {name} to Decimal", parse, raw, peers.parsers_to_decimals(), raw, effort, target)
    for name, target in DIGEST_TREE.items():
        payload = kept[name]
        yield from _against(
            f"digest {name}, peer from its tree",
            parameter_digest,
            payload.params,
            peers.digests_of_tree(),
            payload.params_floats,
            effort,
            target,
        )
    for name, target in DIGEST_RAW.items():
        raw = kept[name].params
        yield from _against(
            f"digest {name}, both from bytes", parameter_digest, raw, peers.digests_of_raw(), raw, effort, target
        )
    for name, target in DUMP.items():
        tree = kept[name].exact
        yield from _against(f"dump {name}", dump, tree, peers.writers_of_decimals(), tree, effort, target)
    # The node limit counts the object and the array too.
    tiny = one_value_repeated(limits.nodes - 2)
    yield compare(
        "digest 1,000,000 tiny numbers",
        lambda: parameter_digest(tiny, limits=limits),
        lambda: hashlib.sha256(tiny).digest(),
        "sha256 of the same bytes",
        effort,
        target=DIGEST_TINY_TOKENS,
    )
    yield weighed(
        "digest 1,000,000 tiny numbers, memory a token",
        lambda: parameter_digest(tiny, limits=limits),
        limits.nodes,
        BYTES_A_TOKEN,
        "what is allowed",
    )
    hard = adversarial(ADVERSARIAL_BYTES)
    long_fractions = parse(hard[LONG_FRACTIONS])
    assert isinstance(long_fractions, dict)
    digits = [str(number) for number in long_fractions["x"]]
    yield compare(
        f"parse {LONG_FRACTIONS}",
        partial(parse, hard[LONG_FRACTIONS]),
        lambda: [Decimal(text) for text in digits],
        "Decimal of each alone",
        effort,
    )
    yield worst(
        "parse, worst", (_parse_bound(name, text, effort) for name, text in hard.items() if name != LONG_FRACTIONS)
    )
    yield worst("digest, worst", (_digest_bound(name, text, effort) for name, text in hard.items()))


def _parse_bound(name: str, text: bytes, effort: Effort) -> Line:
    tree = parse(text)  # alive until the line is there: see benchmarks.payloads
    allowed = nodes_of(tree) * SECONDS_A_VALUE + len(text) * SECONDS_A_BYTE
    return bounded(name, partial(parse, text), allowed, "300 ns a value, 1 ns a byte", effort)


def _digest_bound(name: str, text: bytes, effort: Effort) -> Line:
    return compare(
        name,
        partial(parameter_digest, text),
        partial(parameter_digest, plain_text(len(text))),
        "plain text of that size",
        effort,
        target=DIGEST_ANYTHING,
    )
