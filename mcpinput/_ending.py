"""What ends a request from outside, and what its own code raised.

Application code (handlers, hooks, protectors, observers) may raise anything, SystemExit and CancelledError included.
Only what somebody outside meant for the request, or for the process, goes through; the rest is that code's failure.
"""

from __future__ import annotations

import asyncio

__all__ = ["ends_from_outside"]


def ends_from_outside(error: BaseException) -> bool:
    """Whether an exception that application code let through was meant for the request, or the process, itself.

    Ctrl-C, a coroutine that is being closed, and a cancellation that somebody asked of the running task are. A
    CancelledError that nobody asked for (of an inner future that was cancelled, say) is not.
    """
    if isinstance(error, asyncio.CancelledError):
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no loop runs in this thread, so there is nothing to cancel
            return False
        return task is not None and task.cancelling() > 0
    return isinstance(error, (KeyboardInterrupt, GeneratorExit))
