"""The clock of a partition: the time of its records while there are records to read, and our own time otherwise.

A backlog is read much faster than it was written. By our own time, all its traces would be open at once. By the times
of the records, there are as many as there were then.
"""

import time
from collections.abc import Callable

# A longer pause is not counted: the process itself was held up, and records may be waiting.
_LONGEST_TICK = 1.0


class PartitionClock:
    """Seconds that only move forward."""

    def __init__(self, patience: float, *, wall: Callable[[], float] = time.time) -> None:
        """Count our own time once no record came for `patience` seconds."""
        self._patience, self._wall = patience, wall
        self._silent = 0.0
        self.now = 0.0

    def observe(self, written_at: float | None) -> None:
        """Take the time of a record; one from the future counts as written now."""
        self._silent = 0.0
        if written_at is not None and written_at <= self.now:
            return
        wall = self._wall()
        self.now = max(self.now, wall if written_at is None else min(written_at, wall))

    def wait(self, seconds: float) -> None:
        """Count time in which no record came although we asked for records."""
        seconds = min(seconds, _LONGEST_TICK)
        self._silent += seconds
        if self._silent > self._patience:
            self.now += min(seconds, self._silent - self._patience)
