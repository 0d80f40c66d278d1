"""Runs asynchronous work for synchronous callers, in one event loop in a separate thread.

The loop lives as long as the process: connections belong to the loop that opened them, so a new loop for every call
would reopen them. And a caller with a running loop, such as a notebook, cannot start a second one in its thread.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

R = TypeVar("R")

_THREAD = "judges"
_loops: dict[int, asyncio.AbstractEventLoop] = {}
_starting = threading.Lock()


def wait_for(work: Coroutine[Any, Any, R]) -> R:
    """Run the work and return its result; an interruption of the caller cancels the work."""
    loop = _loop(os.getpid())
    if threading.current_thread().name == _THREAD:
        work.close()
        raise RuntimeError("this call would deadlock; inside a coroutine, await the asynchronous method")
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the loop of this process; a fork does not have the thread that runs its parent's loop."""
    with _starting:
        if process not in _loops:
            _loops[process] = asyncio.new_event_loop()
            threading.Thread(target=_loops[process].run_forever, name=_THREAD, daemon=True).start()
        return _loops[process]


def is_cancelled() -> bool:
    """Whether the current task was cancelled; if not, a CancelledError escaped from a client."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
