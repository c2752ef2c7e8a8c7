"""Counters of one server: what monitoring reads, whole, at whatever moment it likes.

Rules

- Counts only grow, for as long as the process lives. A child of fork begins at zero: its parent goes on counting, and
  whoever adds up processes must not find a request twice.
- Every label comes from a list in the code, or is a :class:`ProtectionFailure`: no client can make more of them.
- One lock guards all counts, so a snapshot shows one moment. The thread that holds it may take it again: a signal
  handler that reads the counters may have interrupted the very line that counts.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, fields
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

    __slots__ = ("_counts", "_lock")

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._counts: dict[str, dict[Any, int]] = {family: {} for family in _FAMILIES}

    def snapshot(self) -> CountersSnapshot:
        """All counts at this moment; the answer does not change any more."""
        with self._lock:
            return CountersSnapshot(**freeze(self._counts))

    def _add(self, family: _Family, label: str, number: int = 1) -> None:
        with self._lock:
            counts = self._counts[family]
            counts[label] = counts.get(label, 0) + number

    def __repr__(self) -> str:
        return f"<Counters {self.snapshot()}>"
