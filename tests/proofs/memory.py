"""Every allocation of every call fails once: what comes of it is a MemoryError, and nothing stays behind.

For n = 1, 2, 3... the n-th allocation of a call fails, alone or with all that follow, until there is no n-th. Each time
the outcome is a MemoryError, or the right one where the interpreter could do without; then the call works again.
Allocations are those of Python's allocators (``_testcapi.set_nomemory`` counts them), which the core uses throughout.
"""

from __future__ import annotations

import gc
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.proofs.operations import Call, calls, outcome
from tests.proofs.sentinels import grown, held

try:
    _testcapi: Any = importlib.import_module("_testcapi")
except ImportError:  # a Python without its own test modules
    _testcapi = None

REPEATED: Final = 2
"""So often one failure is made in a row: what leaks shows as at least so many blocks."""

TURNS: Final = 5
"""So often that must happen: the first turns fill what the interpreter keeps."""

OUT_OF_MEMORY: Final = outcome(MemoryError())

LAST: Final = 3
"""So many numbers in a row without effect, and the call has no more allocations."""


def disturbed(function: Callable[[], object], number: int, stop: int) -> object:
    """What comes of a call whose allocations fail from ``number`` on, up to ``stop``; 0 is without end.

    Only the call itself runs without memory: the interpreter needs some to go through handlers of its own.
    """
    _testcapi.set_nomemory(number, stop)
    try:
        return function()
    except BaseException as error:
        _testcapi.remove_mem_hooks()
        return error
    finally:
        _testcapi.remove_mem_hooks()


def undisturbed(function: Callable[[], object]) -> object:
    """What comes of a call."""
    try:
        return function()
    except Exception as error:
        return error


def problems_of(call: Call, *, alone: bool) -> Iterator[str]:
    """What goes wrong with one call."""
    right = outcome(undisturbed(call.function))
    number = without_effect = 0
    while without_effect < LAST:
        for _ in range(TURNS):
            before = held()
            for _ in range(REPEATED):
                found = outcome(disturbed(call.function, number, number + 1 if alone else 0))
                counts.failures += 1
                if found not in (right, OUT_OF_MEMORY):
                    yield f"{call.name}: allocation {number} fails{' alone' if alone else ''} and gives {found!r:.200}"
                    return
            moved = grown(before, held(), REPEATED - 1)
            if not moved:
                break
        else:
            yield f"{call.name}: allocation {number} fails {REPEATED} times, and each time moves {', '.join(moved)}"
        without_effect = 0 if found == OUT_OF_MEMORY else without_effect + 1
        number += 1
    if outcome(undisturbed(call.function)) != right:
        yield f"{call.name}: does not work after its allocations failed"


class counts:
    """What was done so far."""

    failures = 0


def main() -> int:
    """Prints what was done; answers 1 where something went wrong."""
    if _testcapi is None:
        print("memory: this Python has no _testcapi, so NO ALLOCATION FAILURE WAS TRIED")
        return 0
    start = time.monotonic()
    problems: list[str] = []
    every = calls()
    for call in every:
        undisturbed(call.function)
    gc.collect()
    gc.freeze()  # collecting looks at what the calls make, and at nothing else
    gc.disable()
    for alone in (True, False):
        for call in every:
            problems += problems_of(call, alone=alone)
    for problem in problems:
        print(f"memory: {problem}", file=sys.stderr)
    print(
        f"memory: {counts.failures:,} failed allocations in {len(every)} calls, {len(problems)} problems, "
        f"{time.monotonic() - start:.0f} s"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
