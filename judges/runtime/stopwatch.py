"""Time that counts against a deadline, without the time in which a call waits for its turn at an endpoint.

A deadline is for judges that do not answer. Calls that we hold back ourselves, because the endpoint is busy or asked us
to wait, would otherwise time out before they are sent.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Stopwatch:
    """Stops while at least one of its calls waits for its turn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting = 0
        self._started_at = clock()
        self._stopped_at = 0.0

    @property
    def seconds(self) -> float:
        """Elapsed time without the waiting."""
        return (self._stopped_at if self._waiting else self._clock()) - self._started_at

    @contextmanager
    def stopped(self) -> Iterator[None]:
        if not self._waiting:
            self._stopped_at = self._clock()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._started_at += self._clock() - self._stopped_at


_current: ContextVar[Stopwatch | None] = ContextVar("stopwatch", default=None)


@contextmanager
def timed_by(stopwatch: Stopwatch) -> Iterator[None]:
    """Use the stopwatch for the block and for tasks that start in it."""
    token = _current.set(stopwatch)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def waiting_for_a_turn() -> Iterator[None]:
    """Stop the current stopwatch while a call waits to be sent."""
    stopwatch = _current.get()
    if stopwatch is None:
        yield
        return
    with stopwatch.stopped():
        yield
