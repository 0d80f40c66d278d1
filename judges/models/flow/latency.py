"""Detects an endpoint that is becoming slower, without being misled by answers of different length.

The rule: a window has at least 20 answers and at least as many as are in flight. A window is slow if its median is more
than twice the baseline and more than 0.1 s above it; latency is rising with the second consecutive slow window. The
baseline follows the lowest recent median: each window sets it to its own median if that is lower, and otherwise raises
it by a tenth at most.

Why this suits language models: one long answer does not move a median. A mix that drifts towards longer answers counts
only if the median doubles within about seven windows. And a level that stays slow becomes the baseline after a few
windows, so that a model that was replaced by a slower one is not throttled forever. The rise counts, not the level.
"""

from statistics import median

_WINDOW = 20
_TOLERANCE = 2.0
_SLACK_SECONDS = 0.1
_DRIFT = 1.1
_IN_A_ROW = 2


class Latency:
    def __init__(self) -> None:
        self.baseline: float | None = None
        self._window: list[float] = []
        self._slow = 0

    def is_slow(self, seconds: float) -> bool:
        """Return whether this latency is unusually long; without a baseline, always true."""
        return self.baseline is None or seconds > _TOLERANCE * self.baseline + _SLACK_SECONDS

    def rises_with(self, seconds: float, in_flight: int) -> bool:
        """Add the latency of another answer; return whether it completes a window that shows a rise."""
        self._window.append(seconds)
        if len(self._window) < max(_WINDOW, in_flight):
            return False
        middle = median(self._window)
        self._window.clear()
        slow = self.baseline is not None and self.is_slow(middle)
        self._slow = self._slow + 1 if slow else 0
        self.baseline = middle if self.baseline is None else min(middle, self.baseline * _DRIFT)
        return self._slow >= _IN_A_ROW
