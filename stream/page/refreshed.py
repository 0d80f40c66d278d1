"""A value that a thread keeps fresh while it is used, so that requests do not wait for Kafka."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from sinks.page.backend import BackendError
from stream.errors import StreamjuryError

log = logging.getLogger(__name__)
T = TypeVar("T")

# A value older than this is not shown.
_STALE_SECONDS = 60.0
# The thread ends when the value was not used for this long.
_IDLE_SECONDS = 60.0
_WAIT_SECONDS = 15.0
_JOIN_SECONDS = 2.0


class RefreshedValue(Generic[T]):
    """Calls `refresh` every few seconds in a separate thread, from the first request until the value is unused."""

    def __init__(self, refresh: Callable[[], T], *, seconds: float, name: str) -> None:
        self._refresh, self._seconds, self._name = refresh, seconds, name
        self._condition = threading.Condition()
        self._value: T | None = None
        self._begun_at = float("-inf")
        """Start time of the refresh that produced the value."""
        self._problem: str | None = None
        self._failed_at = float("-inf")
        """Start time of the refresh that had the problem."""
        self._asked_at = float("-inf")
        self._due_at = float("-inf")
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def latest(self) -> T | None:
        """Return the value, or None if there is none yet; never blocks."""
        with self._condition:
            self._ask()
            return self._value if self._is_newer(time.monotonic() - _STALE_SECONDS) else None

    def wait(self, *, is_new: bool = False) -> T:
        """Return the value; wait if there is none yet, or with `is_new` for a refresh that starts now.

        Raises BackendError with the reason if there is no value.
        """
        with self._condition:
            now = time.monotonic()
            since = now if is_new else now - _STALE_SECONDS
            self._due_at = now if is_new else self._due_at
            self._problem = None
            self._ask()
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._is_newer(since) or self._has_failed(since), _WAIT_SECONDS)
            if self._value is None or not self._is_newer(since):
                problem = self._problem if self._has_failed(since) else None
                raise BackendError(problem or f"still reading {self._name}; try again in a moment")
            return self._value

    def close(self) -> bool:
        """Stop the thread; return False if it still waits for the broker, which must not delay the process exit."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(_JOIN_SECONDS)
        return thread is None or not thread.is_alive()

    def _is_newer(self, since: float) -> bool:
        return self._value is not None and self._begun_at >= since

    def _has_failed(self, since: float) -> bool:
        return self._problem is not None and self._failed_at >= since

    def _ask(self) -> None:
        self._asked_at = time.monotonic()
        if self._thread is None and not self._is_closed:
            self._thread = threading.Thread(target=self._run, name=f"page-{self._name.replace(' ', '-')}", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while self._is_wanted():
            with self._condition:
                begun_at = time.monotonic()
                self._due_at = float("inf")
            value, problem = None, None
            try:
                value = self._refresh()
            except StreamjuryError as error:
                problem = str(error)
            except Exception:
                # Requests must get a reply, and the thread must keep running.
                log.exception("cannot read %s for the page", self._name)
                problem = f"cannot read {self._name}; see the log for the reason"
            with self._condition:
                if problem is None:
                    self._value, self._begun_at = value, begun_at
                self._problem, self._failed_at = problem, begun_at
                self._condition.notify_all()
                # Sooner if somebody asked for a new value while this one was being read.
                self._due_at = min(self._due_at, time.monotonic() + self._seconds)
                self._condition.wait_for(lambda: self._is_closed or time.monotonic() >= self._due_at, self._seconds)

    def _is_wanted(self) -> bool:
        with self._condition:
            if not self._is_closed and time.monotonic() - self._asked_at < _IDLE_SECONDS:
                return True
            self._thread = None
            return False
