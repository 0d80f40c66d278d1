"""Handlers in threads: a handler may block or compute while the event loop goes on."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Generic, TypeVar

_Result = TypeVar("_Result")


class Threads(Generic[_Result]):
    """Runs calls in threads, at most a fixed number at once; further calls wait.

    The threads are daemons: unlike in `concurrent.futures`, one that hangs does not keep the process from ending.
    A call whose caller has given up keeps its place until its thread ends.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._free = asyncio.Semaphore(limit)

    async def call(self, work: Callable[[], _Result], on_start: Callable[[], None]) -> _Result:
        """Return the result of `work`. Calls `on_start` when a thread is free; if that raises, `work` is not run."""
        await self._free.acquire()
        try:
            on_start()
        except BaseException:
            self._free.release()
            raise
        loop = asyncio.get_running_loop()
        outcome: Future[_Result] = Future()
        # From now on it cannot be cancelled: the thread always sets a result.
        outcome.set_running_or_notify_cancel()

        def run() -> None:
            try:
                outcome.set_result(work())
            except BaseException as error:  # raised again in the caller
                outcome.set_exception(error)
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._free.release)

        try:
            threading.Thread(target=run, name=self._name, daemon=True).start()
        except RuntimeError:  # the system has no more threads
            self._free.release()
            raise
        return await asyncio.wrap_future(outcome)
