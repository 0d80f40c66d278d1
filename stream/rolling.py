"""Rolling means: the design-weighted mean score of each series over the last minutes, in constant memory."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

_BUCKETS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesMean:
    """The mean of one series: Hájek's estimate over all traffic, and how many judgements carry it."""

    app: str
    dimension: str
    mean: float
    count: int
    effective: float
    """Kish's effective sample size: how many equally weighted judgements would be as good."""


@dataclass(slots=True)
class _Bucket:
    number: int
    weighted: float = 0.0
    weight: float = 0.0
    squared: float = 0.0
    count: int = 0


@dataclass(slots=True)
class _Series:
    buckets: deque[_Bucket] = field(default_factory=deque)

    def add(self, number: int, score: float, weight: float) -> None:
        bucket = next((bucket for bucket in reversed(self.buckets) if bucket.number == number), None)
        if bucket is None:
            bucket = _Bucket(number)
            self.buckets.append(bucket)
        bucket.weighted += weight * score
        bucket.weight += weight
        bucket.squared += weight * weight
        bucket.count += 1

    def forget(self, before: int) -> None:
        if any(bucket.number < before for bucket in self.buckets):
            self.buckets = deque(bucket for bucket in self.buckets if bucket.number >= before)


class RollingScores:
    """Means per app and dimension over a window that moves in steps of a sixtieth of its length.

    Records come in any order; one older than the window is not counted.
    """

    def __init__(self, window_seconds: float) -> None:
        self._step = window_seconds / _BUCKETS
        self._series: dict[tuple[str, str], _Series] = {}

    def add(self, app: str, dimension: str, *, score: float, weight: float, at: float, now: float) -> None:
        # A clock that runs ahead must not keep a judgement in the window for longer.
        number = min(self._number(at), self._number(now))
        if number > self._number(now) - _BUCKETS:
            self._series.setdefault((app, dimension), _Series()).add(number, score, weight)

    def means(self, now: float) -> Iterator[SeriesMean]:
        """The series that have a judgement within the window."""
        oldest = self._number(now) - _BUCKETS + 1
        for key, series in list(self._series.items()):
            series.forget(oldest)
            if not series.buckets:
                del self._series[key]
                continue
            weight = sum(bucket.weight for bucket in series.buckets)
            yield SeriesMean(
                app=key[0],
                dimension=key[1],
                mean=sum(bucket.weighted for bucket in series.buckets) / weight,
                count=sum(bucket.count for bucket in series.buckets),
                effective=weight**2 / sum(bucket.squared for bucket in series.buckets),
            )

    def _number(self, at: float) -> int:
        return int(at // self._step)
