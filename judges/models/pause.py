"""The pause of an endpoint that refuses us for good: one call in a while finds out whether that was mended."""

import time
from collections.abc import Callable


class Pause:
    """Begins with a refusal, lets one call through every `seconds`, and ends with the first that succeeds."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._next_at = 0.0
        self.reason: str | None = None

    def begin(self, reason: str) -> None:
        self.reason = reason
        self._next_at = self._clock() + self._seconds

    def end(self) -> None:
        self.reason = None

    def lets_one_through(self) -> bool:
        """Whether to ask: always without a pause, else the first to come after each while."""
        if self.reason is None:
            return True
        if self._clock() < self._next_at:
            return False
        self._next_at = self._clock() + self._seconds
        return True
