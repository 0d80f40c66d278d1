"""The judging pool: an event loop in its own thread, so that reading and committing never wait for a judge."""

import asyncio
import logging
import queue
import threading
from collections.abc import Collection, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from stream.kafka.offsets import Partition, Ticket

log = logging.getLogger(__name__)
R = TypeVar("R")

_CLOSE_SECONDS = 5.0


class JudgePool(Generic[R]):
    """Runs coroutines and hands their results back in the order they finish. Used from one thread."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="judges", daemon=True)
        self._running: dict[Ticket, Future[R]] = {}
        self._finished: queue.SimpleQueue[tuple[Ticket, Future[R]]] = queue.SimpleQueue()
        self._thread.start()

    @property
    def free(self) -> int:
        return self._size - len(self._running)

    @property
    def in_flight(self) -> int:
        return len(self._running)

    def submit(self, ticket: Ticket, work: Coroutine[Any, Any, R]) -> None:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._running[ticket] = future
        future.add_done_callback(lambda finished: self._finished.put((ticket, finished)))

    def collect(self, seconds: float = 0.0) -> list[tuple[Ticket, R]]:
        """Return finished work, waiting up to `seconds` for the first; cancelled work has no result."""
        results = []
        wait = seconds
        while (item := self._next(wait)) is not None:
            ticket, future = item
            wait = 0.0
            # A cancelled ticket may already be in work again under a new assignment; tickets differ by generation.
            self._running.pop(ticket, None)
            if not future.cancelled():
                results.append((ticket, future.result()))
        return results

    def cancel(self, partitions: Collection[Partition]) -> None:
        """Cancel the work on some partitions; its slots are free at once."""
        for ticket in [ticket for ticket in self._running if ticket.partition in partitions]:
            self._running.pop(ticket).cancel()

    def close(self, last: Coroutine[Any, Any, None] | None = None) -> None:
        """Cancel all work, run `last` (which closes connections), and end the thread.

        What does not end in time is left to the end of the process: all results were collected before.
        """
        self._running.clear()
        winding_up = asyncio.run_coroutine_threadsafe(_wind_up(last), self._loop)
        try:
            winding_up.result(2 * _CLOSE_SECONDS)
        except TimeoutError:
            winding_up.cancel()
            log.warning("the judges did not close within %g s", 2 * _CLOSE_SECONDS)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CLOSE_SECONDS)
            if not self._thread.is_alive():
                self._loop.close()

    def _next(self, seconds: float) -> tuple[Ticket, Future[R]] | None:
        try:
            return self._finished.get(timeout=seconds) if seconds else self._finished.get_nowait()
        except queue.Empty:
            return None


async def _wind_up(last: Coroutine[Any, Any, None] | None) -> None:
    """Let cancelled work release its resources before `last`; if the loop ended first, it would stay half done."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_CLOSE_SECONDS)
    if last is not None:
        await last
