"""An amount per minute: reserved before it is used, and settled when the actual use is known."""

from collections.abc import Callable

_MINUTE = 60.0
# What may go at once after a quiet time, as a share of a minute's worth.
_BURST = 1 / 6
_HAIR = 1e-9


class Bucket:
    """Fills at an even rate up to a burst.

    Within any span of s seconds no more is taken than `burst + rate * s` (and the rest of the one amount that is larger
    than a burst: it waits for a full bucket and leaves a debt that those after it wait off). So does an amount that
    turns out larger than was reserved.
    """

    def __init__(self, per_minute: float, *, clock: Callable[[], float]) -> None:
        self.per_minute = per_minute
        self.burst = max(1.0, per_minute * _BURST)
        self._rate = per_minute / _MINUTE
        self._clock = clock
        self._level = self.burst
        self._at = clock()

    @property
    def level(self) -> float:
        now = self._clock()
        self._level = min(self.burst, self._level + max(0.0, now - self._at) * self._rate)
        self._at = now
        return self._level

    def wait(self, amount: float) -> float:
        """Seconds until so much can be taken; 0 when it can be now."""
        lacking = min(amount, self.burst) - self.level
        return lacking / self._rate if lacking > _HAIR * self.burst else 0.0

    def take(self, amount: float) -> None:
        self._level = self.level - amount

    def settle(self, reserved: float, used: float) -> None:
        """Gives back what was reserved too much, or takes what was reserved too little."""
        self._level = min(self.burst, self.level + reserved - used)
