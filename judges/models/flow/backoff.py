"""The delay before a call is retried, as far as the endpoint asks for none."""

from collections.abc import Callable


class Backoff:
    """Full jitter: anything from nothing to a bound that doubles, so that callers do not come back in step."""

    def __init__(self, first: float, longest: float, *, random: Callable[[], float]) -> None:
        self._first = first
        self._longest = longest
        self._random = random

    def bound(self, failed: int) -> float:
        # Beyond 2**64 only the longest can be meant, and a float would overflow.
        return min(self._longest, self._first * 2.0 ** min(failed, 64))

    def seconds(self, failed: int) -> float:
        """The wait after that many failures before this one."""
        return self.bound(failed) * self._random()
