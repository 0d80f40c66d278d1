"""Canary rounds: which canaries have had no evaluation for two rounds."""

from collections.abc import Iterable

# Each canary is sent once a round in a new order, so two evaluations of one may be nearly two rounds apart.
_ROUNDS = 2
# Allows for the time from sending to evaluation, including a retry of a judge.
_GRACE_SECONDS = 60.0


class CanaryRounds:
    """Keeps the time of the latest evaluation of every canary, from the moment when this monitor follows them."""

    def __init__(self, canaries: Iterable[str], period: float, *, now: float) -> None:
        """`period` is the length of a round, in seconds."""
        self._evaluated_at = dict.fromkeys(canaries, now)
        self._longest = _ROUNDS * period + _GRACE_SECONDS

    def record_evaluation(self, canary: str, evaluated_at: float) -> None:
        if canary in self._evaluated_at:
            self._evaluated_at[canary] = max(evaluated_at, self._evaluated_at[canary])

    def missing(self, now: float) -> int:
        """Count the canaries without an evaluation for two rounds or longer."""
        return sum(evaluated_at < now - self._longest for evaluated_at in self._evaluated_at.values())
