"""Figures collected one by one in constant memory: scores, values on any scale, and durations."""

from collections import Counter
from dataclasses import dataclass
from math import ceil, exp, log, sqrt

from sinks.statistics.estimates import Estimate, Sums, estimate

# Distinct scores that are counted before they are summed: levels never reach this many, free numbers may.
_MAX_DISTINCT = 1_024
# An estimate is about the records that a sample was drawn from, and a file that is judged whole would leave no
# uncertainty. But the file is itself a sample of all possible questions: each row counts as one of a million like it,
# and the interval covers the results of another file of the same size. The mean is the same.
_SHARE = 2.0**-20
_MIN_PROBABILITY = 2.0**-53

# Durations have a resolution of 1 %, from a microsecond to 11 days, in milliseconds.
_STEP = log(1.02)
_SHORTEST, _LONGEST = 1e-3, 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreStatistics:
    """Statistics of normalised scores: 0 is the worst, 1 the best."""

    estimate: Estimate
    """The mean weighted by inverse probability, its 95 % interval, and the coverage."""
    deviation: float | None = None
    """The standard deviation of the scores, with the same weights."""
    least: float | None = None
    most: float | None = None

    @property
    def mean(self) -> float | None:
        return self.estimate.mean


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueStatistics:
    """Statistics of values on any scale."""

    count: int
    mean: float
    deviation: float
    least: float
    most: float


class Scores:
    """Collects scores between 0 and 1, and counts missing ones."""

    def __init__(self) -> None:
        self._sums = Sums()
        self._unscored = 0
        self._counted: Counter[tuple[float | None, float]] = Counter()
        self._ends: tuple[float, float] | None = None

    def add(self, score: float | None, probability: float) -> None:
        self._counted[score, probability] += 1
        if len(self._counted) >= _MAX_DISTINCT:
            self._add_up()

    def result(self, *, unjudged: int = 0) -> ScoreStatistics:
        """Return the statistics; `unjudged` rows have no score and no probability, and get the mean weight."""
        self._add_up()
        sums, judged = self._sums, self._sums.count + self._unscored
        weight = (sums.records.weight + sums.unscored) / judged if judged else 1.0
        sums += Sums(unscored=unjudged * weight)
        return ScoreStatistics(
            estimate=estimate(sums),
            deviation=sqrt(sums.records.spread / sums.records.weight) if sums.count else None,
            least=None if self._ends is None else self._ends[0],
            most=None if self._ends is None else self._ends[1],
        )

    def _add_up(self) -> None:
        for (score, probability), times in self._counted.items():
            self._sums += _of(score, probability, times)
            self._unscored += times if score is None else 0
        scores = [*(self._ends or ()), *(score for score, _probability in self._counted if score is not None)]
        self._ends = (min(scores), max(scores)) if scores else None
        self._counted.clear()


def _of(score: float | None, probability: float, times: int) -> Sums:
    return Sums.of(score, max(_MIN_PROBABILITY, probability * _SHARE), times=times)


class Values:
    """Collects values on any scale, each with a weight."""

    def __init__(self) -> None:
        self._count = 0
        self._weight = 0.0
        self._mean = 0.0
        self._spread = 0.0
        self._least = float("inf")
        self._most = float("-inf")

    def add(self, value: float, weight: float = 1.0) -> None:
        self._count += 1
        self._weight += weight
        # The share is 1 for the first value, which is then the mean to the last digit, without any spread.
        step, share = value - self._mean, weight / self._weight
        self._mean += step * share
        self._spread += weight * step * step * (1.0 - share)
        self._least = min(self._least, value)
        self._most = max(self._most, value)

    def result(self) -> ValueStatistics | None:
        """Return the statistics, or None without values."""
        if not self._count:
            return None
        return ValueStatistics(
            count=self._count,
            # Rounding must not move it outside the values.
            mean=min(self._most, max(self._least, self._mean)),
            deviation=sqrt(max(0.0, self._spread) / self._weight),
            least=self._least,
            most=self._most,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationStatistics:
    """In milliseconds; the percentiles are right to 1 %."""

    count: int
    mean: float
    half: float
    """Half of them took no longer."""
    most: float
    """95 % of them took no longer."""
    longest: float


class Durations:
    """Collects durations in buckets of growing width."""

    def __init__(self) -> None:
        self._values = Values()
        self._buckets: Counter[int] = Counter()

    def add(self, milliseconds: float) -> None:
        self._values.add(milliseconds)
        self._buckets[ceil(log(min(_LONGEST, max(_SHORTEST, milliseconds))) / _STEP)] += 1

    def result(self) -> DurationStatistics | None:
        values = self._values.result()
        if values is None:
            return None
        half, most = (min(values.most, self._quantile(share, values.count)) for share in (0.5, 0.95))
        return DurationStatistics(count=values.count, mean=values.mean, half=half, most=most, longest=values.most)

    def _quantile(self, share: float, count: int) -> float:
        """Return the middle of the bucket with the nearest rank."""
        rank, counted = max(1, ceil(share * count)), 0
        for bucket in sorted(self._buckets):
            counted += self._buckets[bucket]
            if counted >= rank:
                return exp((bucket - 0.5) * _STEP)
        raise AssertionError("the buckets hold all that was counted")


class Sketch:
    """A histogram of scores that is fine enough for medians and for coarser histograms."""

    BINS = 1_000

    def __init__(self) -> None:
        self._bins = [0] * self.BINS
        self._sums = [0.0] * self.BINS

    def add(self, score: float) -> None:
        # A score of 0.3 may be computed a little below it.
        place = min(self.BINS - 1, int(round(score * self.BINS, 6)))
        self._bins[place] += 1
        self._sums[place] += score

    def median(self) -> float | None:
        """Return the median to a thousandth: the mean of the bin with the lower median."""
        total, counted = sum(self._bins), 0
        for place, count in enumerate(self._bins):
            counted += count
            if total and 2 * counted >= total:
                return self._sums[place] / count
        return None

    def coarse(self, bins: int) -> tuple[int, ...]:
        """Return counts in `bins` bins of equal width; each includes its lower end, the last also its upper."""
        width = self.BINS // bins
        return tuple(sum(self._bins[place * width : (place + 1) * width]) for place in range(bins))
