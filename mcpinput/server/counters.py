"""Counters of one server: what monitoring reads, whole, at whatever moment it likes.

Rules

- Counts only grow, for as long as the process lives. A child of fork begins at zero: its parent goes on counting, and
  whoever adds up processes must not find a request twice.
- Every label comes from a list in the code, or is a :class:`ProtectionFailure`: no client can make more of them.
- Nothing here waits. A count is an iterator of which one item is taken each time, and what is left tells how many were:
  taking is one step in C, into which no thread, signal handler or fork can fall. So a count is never lost, and a
  snapshot that is taken in the middle of a request may have one of its counts and not yet the next.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import repeat
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

from mcpinput.json import freeze

if TYPE_CHECKING:
    from mcpinput.errors import ProtectionFailure

__all__ = ["Counters", "CountersSnapshot"]

_Family: TypeAlias = Literal["requests_refused", "state_refused", "seals_failed", "outcomes", "responses_dropped"]


@dataclass(frozen=True, slots=True)
class CountersSnapshot:
    """What one server has counted in this process up to one moment. What has not happened yet has no entry.

    Attributes:
        requests_refused: Requests that were refused before their handler ran, by ``Rejection.reason``.
        state_refused: Those of them whose token did not open, by cause.
        seals_failed: Asks that did not go out, because their state could not be sealed, by cause.
        outcomes: Requests whose handler ran, by ``Outcome.kind``.
        responses_dropped: Input responses that a handler was not shown, by ``Dropped.reason``.
    """

    requests_refused: Mapping[str, int]
    state_refused: Mapping[ProtectionFailure, int]
    seals_failed: Mapping[ProtectionFailure, int]
    outcomes: Mapping[str, int]
    responses_dropped: Mapping[str, int]


_MOST: Final = sys.maxsize
_FAMILIES: Final = tuple(field.name for field in fields(CountersSnapshot))


class OfThisProcess:
    """Base of objects whose lock and contents are those of one process: a child of fork begins with new ones."""

    __slots__ = ("__weakref__",)

    def __init__(self) -> None:
        self._begin()
        _alive.add(self)

    def _begin(self) -> None:
        raise NotImplementedError


_alive: Final[weakref.WeakSet[OfThisProcess]] = weakref.WeakSet()


def _begin_anew() -> None:
    # Only the thread that forked lives on in the child: a lock that another one held would stay held.
    for each in _alive:
        each._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@final
class Counters(OfThisProcess):
    """Counts of one server. Every method may be called from any thread."""

    __slots__ = ("_left",)

    def _begin(self) -> None:
        self._left: dict[str, dict[Any, Iterator[None]]] = {family: {} for family in _FAMILIES}

    def snapshot(self) -> CountersSnapshot:
        """All counts at this moment; the answer does not change any more."""
        counts = {
            family: freeze({label: _MOST - length_hint(left) for label, left in left_of.copy().items()})
            for family, left_of in self._left.items()
        }
        return CountersSnapshot(**counts)

    def _add(self, family: _Family, label: str) -> None:
        # PERF: a lock would cost 250 ns for each request, this 50.
        try:
            next(self._left[family][label])
        except KeyError:
            next(self._left[family].setdefault(label, repeat(None, _MOST)))

    def __repr__(self) -> str:
        return f"<Counters {self.snapshot()}>"
