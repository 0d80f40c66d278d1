"""The delay before a retry, if the endpoint does not ask for a longer one."""

from collections.abc import Callable


class Backoff:
    """Full jitter: a random delay between 0 and a bound that doubles, so that callers do not retry in step."""

    def __init__(self, first: float, longest: float, *, random: Callable[[], float]) -> None:
        self._first = first
        self._longest = longest
        self._random = random

    def bound(self, failed: int) -> float:
        # Beyond 2**64 the longest delay applies anyway, and a float would overflow.
        return min(self._longest, self._first * 2.0 ** min(failed, 64))

    def seconds(self, failed: int) -> float:
        """Return a delay after this many earlier failures."""
        return self.bound(failed) * self._random()
