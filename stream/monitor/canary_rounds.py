"""Canary rounds: which canaries have had no evaluation for two rounds."""

from collections.abc import Iterable

# Each canary comes once a round, and the order changes from round to round: two may lie nearly two rounds apart.
_ROUNDS = 2
# From being due until being evaluated, also where a judge had to be asked again.
_GRACE_SECONDS = 60.0


class CanaryRounds:
    """Hears of every canary that was judged, from when on the canaries are followed here."""

    def __init__(self, canaries: Iterable[str], period: float, *, now: float) -> None:
        """`period` is that of a round, in seconds."""
        self._heard = dict.fromkeys(canaries, now)
        self._longest = _ROUNDS * period + _GRACE_SECONDS

    def hear(self, canary: str, at: float) -> None:
        """A canary was judged at this time."""
        if canary in self._heard:
            self._heard[canary] = max(at, self._heard[canary])

    def missing(self, now: float) -> int:
        """How many canaries have waited for two rounds or longer."""
        return sum(heard_at < now - self._longest for heard_at in self._heard.values())
