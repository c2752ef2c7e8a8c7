"""How two callables are compared: alternating repetitions, medians, one ratio.

Absolute figures move from run to run and from machine to machine; the ratio of two medians of one run moves little.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

Call = Callable[[], object]

_UNITS: Final = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


@dataclass(frozen=True, slots=True)
class Effort:
    """How long one comparison is measured.

    Attributes:
        repetitions: Turns of each side; the median of an odd number is one of them.
        seconds: How long one turn lasts at least.
    """

    repetitions: int
    seconds: float


QUICK: Final = Effort(5, 0.01)
FULL: Final = Effort(11, 0.1)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the report.

    Attributes:
        case: What was done.
        ours: Median of this library, in ``unit``.
        peer: Median of the peer, in ``unit``.
        peer_name: Who the peer is.
        unit: Of ``ours`` and ``peer``.
        ratio: Peer over ours: 2.0 is twice as fast.
        target: The ratio to reach at least, or None where the line is only for comparison.
        met: Whether it was reached, or None without a target.
    """

    case: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    ratio: float
    target: float | None
    met: bool | None

    def as_json(self) -> dict[str, Any]:
        """The line as a JSON object."""
        return asdict(self)


def compare(case: str, ours: Call, peer: Call, peer_name: str, effort: Effort, *, target: float | None = None) -> Line:
    """Measures both sides in turn and sets them beside one another."""
    our_count = _calls_in(ours, effort.seconds)
    peer_count = _calls_in(peer, effort.seconds)
    our_times: list[float] = []
    peer_times: list[float] = []
    for turn in range(effort.repetitions):
        # Who goes first changes, so that neither always runs on the caches that the other has left.
        if turn % 2:
            peer_times.append(_timed(peer, peer_count))
            our_times.append(_timed(ours, our_count))
        else:
            our_times.append(_timed(ours, our_count))
            peer_times.append(_timed(peer, peer_count))
    our_time = statistics.median(our_times)
    peer_time = statistics.median(peer_times)
    unit, size = next((pair for pair in _UNITS if our_time >= pair[1]), _UNITS[-1])
    ratio = peer_time / our_time
    return Line(
        case=case,
        ours=our_time / size,
        peer=peer_time / size,
        peer_name=peer_name,
        unit=unit,
        ratio=ratio,
        target=target,
        met=None if target is None else ratio >= target,
    )


def _calls_in(call: Call, seconds: float) -> int:
    """Calls that fill a turn; finding out warms the call up."""
    count = 1
    while (taken := _timed(call, count) * count) < seconds:
        count = max(count * 2, int(count * seconds / max(taken, 1e-7)) if taken > seconds / 10 else count * 2)
    return count


def _timed(call: Call, count: int) -> float:
    """Seconds of one call, over ``count`` of them."""
    loop = range(count)
    start = time.perf_counter()
    for _ in loop:
        call()
    return (time.perf_counter() - start) / count
