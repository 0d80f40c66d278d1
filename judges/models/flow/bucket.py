"""An amount per minute: reserved before use, and settled when the actual use is known."""

from collections.abc import Callable

_MINUTE = 60.0
# Maximum burst after a quiet time, as a share of the amount per minute.
_BURST = 1 / 6
_HAIR = 1e-9


class Bucket:
    """Fills at an even rate up to a burst.

    Within any s seconds, at most `burst + rate * s` is taken. A single amount that is larger than a burst waits for a
    full bucket and leaves a debt, and later ones wait until the debt is paid. So does an amount that turns out larger
    than its reservation.
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
        """Return the seconds until this amount can be taken; 0 if it is available now."""
        lacking = min(amount, self.burst) - self.level
        return lacking / self._rate if lacking > _HAIR * self.burst else 0.0

    def take(self, amount: float) -> None:
        self._level = self.level - amount

    def settle(self, reserved: float, used: float) -> None:
        """Correct a reservation by the actual use."""
        self._level = min(self.burst, self.level + reserved - used)
