"""Rolling means: the mean score of each series over the last minutes and its interval, in constant memory."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from sinks.metrics import FrequentLabel
from sinks.statistics.estimates import Estimate, Sums, estimate

_BUCKETS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesMean:
    """The estimate for all traffic of one series, from its judged part."""

    app: str
    dimension: str
    mean: float
    count: int
    estimate: Estimate


@dataclass(slots=True)
class _Bucket:
    number: int
    sums: Sums = field(default_factory=Sums)


@dataclass(slots=True)
class _RollingSeries:
    buckets: deque[_Bucket] = field(default_factory=deque)

    def add(self, number: int, score: float | None, probability: float) -> None:
        bucket = next((bucket for bucket in reversed(self.buckets) if bucket.number == number), None)
        if bucket is None:
            bucket = _Bucket(number)
            self.buckets.append(bucket)
        bucket.sums += Sums.of(score, probability)

    def forget(self, before: int) -> None:
        if any(bucket.number < before for bucket in self.buckets):
            self.buckets = deque(bucket for bucket in self.buckets if bucket.number >= before)


class RollingScores:
    """Estimates per app and dimension over a window that moves in steps of a sixtieth of its length.

    Records come in any order; those older than the window are not counted. App names come from the traffic: apps
    without their own label share a series.
    """

    def __init__(self, window_seconds: float, apps: FrequentLabel) -> None:
        """`apps` are those with a label in the metrics, so that both show the same apps."""
        self._step = window_seconds / _BUCKETS
        self._series: dict[tuple[str, str], _RollingSeries] = {}
        self._apps = apps

    def add(self, app: str, dimension: str, *, score: float | None, probability: float, at: float, now: float) -> None:
        """Add the score of a record that was chosen with this probability; None if it could not be scored."""
        # A clock that runs ahead must not keep a judgement in the window for longer.
        number = min(self._number(at), self._number(now))
        if number > self._number(now) - _BUCKETS:
            key = self._apps.label(app), dimension
            self._series.setdefault(key, _RollingSeries()).add(number, score, probability)

    def means(self, now: float) -> Iterator[SeriesMean]:
        """Yield the series with a score within the window; drop those of apps whose metrics were removed."""
        oldest = self._number(now) - _BUCKETS + 1
        for key, series in list(self._series.items()):
            series.forget(oldest)
            if not series.buckets or not self._apps.is_published(key[0]):
                del self._series[key]
                continue
            result = estimate(sum((bucket.sums for bucket in series.buckets), Sums()))
            if result.mean is not None:
                yield SeriesMean(app=key[0], dimension=key[1], mean=result.mean, count=result.count, estimate=result)

    def coverage(self, now: float) -> dict[str, float]:
        """Return the share of judged answers within the window that have a score, by dimension, over all apps."""
        oldest = self._number(now) - _BUCKETS + 1
        sums: dict[str, Sums] = {}
        for (_, dimension), series in self._series.items():
            series.forget(oldest)
            sums[dimension] = sum((bucket.sums for bucket in series.buckets), sums.get(dimension, Sums()))
        shares = {dimension: estimate(scored).coverage for dimension, scored in sums.items()}
        return {dimension: share for dimension, share in shares.items() if share is not None}

    def _number(self, at: float) -> int:
        return int(at // self._step)
