"""The pause of an endpoint that refuses us for good: one call in a while finds out whether that was mended."""

import time
from collections.abc import Callable

# No key, no money: every call fails alike until somebody mends it.
_CERTAIN = frozenset({401, 402})
# No rights, no such model; but also what some gateways say to a single prompt that they do not like.
_LIKELY = frozenset({403, 404})
_ENOUGH = 3


class Pause:
    """Begins when refusals leave no doubt, lets one call through every `seconds`, and ends with the first success."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._next_at = 0.0
        self._in_a_row = 0
        self.reason: str | None = None

    def refused(self, status: int, reason: str) -> None:
        """A call was refused; one that may be about its own prompt begins a pause only with others like it."""
        if status in _LIKELY:
            self._in_a_row += 1
        if status in _CERTAIN or self._in_a_row >= _ENOUGH:
            self.reason = reason
            self._next_at = self._clock() + self._seconds

    def end(self) -> None:
        self.reason, self._in_a_row = None, 0

    def lets_one_through(self) -> bool:
        """Whether to ask: always without a pause, else the first to come after each while."""
        if self.reason is None:
            return True
        if self._clock() < self._next_at:
            return False
        self._next_at = self._clock() + self._seconds
        return True
