"""How two callables are compared: alternating repetitions, medians, one ratio.

Absolute figures move from run to run and from machine to machine; the ratio of two medians of one run moves little.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
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

    @property
    def by_far_missed(self) -> bool:
        """Whether not even half of the target was reached: it takes a very busy machine to do that by itself."""
        return self.target is not None and self.ratio < self.target / 2

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
    return _line(case, statistics.median(our_times), statistics.median(peer_times), peer_name, _UNITS, target)


def bounded(case: str, ours: Call, allowed: float, bound: str, effort: Effort) -> Line:
    """Sets a call beside the seconds that it may take; ``bound`` says how many. Its target is 1.

    No peer runs in turn with it, on the same caches, so its best time counts: whatever disturbs can only add to that.
    """
    count = _calls_in(ours, effort.seconds)
    taken = min(_timed(ours, count) for _ in range(4 * effort.repetitions))
    return _line(case, taken, allowed, bound, _UNITS, 1.0)


def weighed(case: str, ours: Call, count: int, allowed: float, bound: str) -> Line:
    """Sets the memory that a call takes on top, in bytes for each of ``count``, beside what may be. Its target is 1.

    What counts is the most that is taken at once, of Python's allocators, which is all that the core uses.
    """
    ours()
    tracemalloc.start()
    try:
        ours()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return _line(case, peak / count, allowed, bound, (("B", 1.0),), 1.0)


def worst(case: str, lines: Iterable[Line]) -> Line:
    """Of lines with one target the one that is farthest from it, as a line that names it."""
    line = min(lines, key=lambda line: line.ratio)
    return replace(line, case=f"{case}: {line.case}")


def _line(
    case: str, ours: float, peer: float, peer_name: str, units: tuple[tuple[str, float], ...], target: float | None
) -> Line:
    unit, size = next((pair for pair in units if ours >= pair[1]), units[-1])
    ratio = peer / ours
    return Line(
        case=case,
        ours=ours / size,
        peer=peer / size,
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
    """Seconds of this process for one call, over ``count`` of them: what else the machine does is no one's time."""
    loop = range(count)
    start = time.process_time()
    for _ in loop:
        call()
    return (time.process_time() - start) / count
