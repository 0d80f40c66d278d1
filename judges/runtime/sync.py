"""Asynchronous work for callers that wait: one loop in a thread of its own, for as long as the process lives.

Connections belong to the loop that opened them, so that a new loop for every call would open them again; and a caller
that has a loop running, such as a notebook, could start no second one in its thread.
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
    """Does the work and returns its result; an interruption of the caller ends the work too."""
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
    """The loop of this process; a fork has no thread that would run its parent's."""
    with _starting:
        if process not in _loops:
            _loops[process] = asyncio.new_event_loop()
            threading.Thread(target=_loops[process].run_forever, name=_THREAD, daemon=True).start()
        return _loops[process]


def is_cancelled() -> bool:
    """Whether the task that runs was told to end: a cancellation that nobody asked for escaped from a client."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
