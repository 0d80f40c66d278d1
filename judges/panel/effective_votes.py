"""The effective number of votes: how many independent judges a panel is worth, after Kish.

Judges with correlated errors repeat the same vote. The truth is unknown, but it is the same for all judges of a case,
so it cancels in the difference of two judges: with errors of equal variance, the variance of that difference is
2 sigma^2 (1 - rho). The pair that differs most is assumed to err independently, which gives every other pair its
correlation and the panel n^2 / sum(rho) votes.

Limits: an error that all judges share cannot be seen without labels, so the number is an upper bound (except for the
noise of a finite window, which makes one pair look more independent than the others and lowers the number a little). A
judge much noisier than the rest makes the rest look alike. And if the whole panel is asked only in doubt (a cascade,
early stopping), the number is that of the doubtful cases.
"""

from collections import deque
from collections.abc import Hashable, Sequence
from itertools import combinations

# Scores are counted in integer grains, so that a case that leaves the window subtracts exactly what it had added.
_GRAINS = 1 << 20

# Criteria can be created on the fly, and each has a window: the oldest windows are dropped.
_MAX_SERIES = 256


class PairWindow:
    """The latest cases that all judges scored, as running sums over each pair of judges."""

    def __init__(self, judges: int, *, cases: int = 500, minimum: int = 30) -> None:
        if judges < 1 or not 1 <= minimum <= cases:
            raise ValueError(f"a window needs judges and 1 <= minimum <= cases, not {judges}, {minimum} and {cases}")
        self._judges = judges
        self._cases = cases
        self._minimum = minimum
        self._pairs = tuple(combinations(range(judges), 2))
        self._sums = [0] * len(self._pairs)
        self._squares = [0] * len(self._pairs)
        self._window: deque[tuple[int, ...]] = deque()

    def __len__(self) -> int:
        return len(self._window)

    def add(self, scores: Sequence[float]) -> None:
        """Add one case: a score of each judge, always in the same order."""
        if len(scores) != self._judges:
            raise ValueError(f"needs one score from each of the {self._judges} judges, not {len(scores)}")
        grains = tuple(round(score * _GRAINS) for score in scores)
        self._window.append(grains)
        self._count(grains, 1)
        if len(self._window) > self._cases:
            self._count(self._window.popleft(), -1)

    def _count(self, grains: tuple[int, ...], sign: int) -> None:
        for pair, (one, other) in enumerate(self._pairs):
            difference = grains[one] - grains[other]
            self._sums[pair] += sign * difference
            self._squares[pair] += sign * difference * difference

    @property
    def votes(self) -> float | None:
        """Effective votes, between 1 and the number of judges; None until there are enough cases."""
        if len(self._window) < self._minimum:
            return None
        count = len(self._window)
        # The variances of the differences, all multiplied by the same number, which cancels below.
        variances = [count * square - total**2 for total, square in zip(self._sums, self._squares, strict=True)]
        largest = max(variances, default=0)
        if largest == 0:
            return 1.0
        correlations = self._judges + 2 * sum(1 - variance / largest for variance in variances)
        return self._judges**2 / correlations


class EffectiveVotes:
    """Windows by series; a series is the scores of the same judges on the same criterion."""

    def __init__(self) -> None:
        self._windows: dict[Hashable, PairWindow] = {}

    def add(self, series: Hashable, scores: Sequence[float]) -> None:
        if series not in self._windows:
            if len(self._windows) >= _MAX_SERIES:
                del self._windows[next(iter(self._windows))]
            self._windows[series] = PairWindow(len(scores))
        self._windows[series].add(scores)

    def votes(self, series: Hashable) -> float | None:
        window = self._windows.get(series)
        return None if window is None else window.votes
