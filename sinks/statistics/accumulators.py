"""Figures gathered one by one in constant memory: scores, values on any scale, and durations."""

from collections import Counter
from dataclasses import dataclass
from math import ceil, exp, log, sqrt

from sinks.statistics.estimates import Estimate, Sums, estimate

# Distinct scores that are counted before they are added up: levels never come to so many, free numbers may.
_MAX_DISTINCT = 1_024
# An estimate is about the records that a sample was drawn from, and a file that is judged whole would leave nothing
# uncertain. But it is itself a sample, of the questions that may yet be asked: each row counts as if it were one of a
# million like it, and the interval says what another file of as many rows might have given. The mean is the same.
_SHARE = 2.0**-20
_MIN_PROBABILITY = 2.0**-53

# Durations are told apart to 1 % of them, from a microsecond to 11 days, in milliseconds.
_STEP = log(1.02)
_SHORTEST, _LONGEST = 1e-3, 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreStatistics:
    """Of normalised scores: 0 is the worst, 1 the best."""

    estimate: Estimate
    """The mean, weighted by what each row stands for, its 95 % interval, and the coverage."""
    deviation: float | None = None
    """The standard deviation of the scores, by the same weights."""
    least: float | None = None
    most: float | None = None

    @property
    def mean(self) -> float | None:
        return self.estimate.mean


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueStatistics:
    """Of values on a scale of their own."""

    count: int
    mean: float
    deviation: float
    least: float
    most: float


class Scores:
    """Gathers scores between 0 and 1, and what has none."""

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
        """`unjudged` rows have neither score nor probability; each stands for as much as the others on average."""
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
        found = [*(self._ends or ()), *(score for score, _probability in self._counted if score is not None)]
        self._ends = (min(found), max(found)) if found else None
        self._counted.clear()


def _of(score: float | None, probability: float, times: int) -> Sums:
    return Sums.of(score, max(_MIN_PROBABILITY, probability * _SHARE), times=times)


class Values:
    """Gathers values on any scale, each with a weight."""

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
        """None where there was nothing."""
        if not self._count:
            return None
        return ValueStatistics(
            count=self._count,
            # Rounding must not carry it beyond the values.
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
    """Gathers durations in buckets that grow with them."""

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
        """The nearest rank; the middle of its bucket."""
        rank, seen = max(1, ceil(share * count)), 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= rank:
                return exp((bucket - 0.5) * _STEP)
        raise AssertionError("the buckets hold all that was counted")


class Sketch:
    """A histogram of scores so fine that medians can be read from it, and coarse ones drawn."""

    BINS = 1_000

    def __init__(self) -> None:
        self._bins = [0] * self.BINS
        self._sums = [0.0] * self.BINS

    def add(self, score: float) -> None:
        # What is 0.3 on paper may come out a hair below it.
        place = min(self.BINS - 1, int(round(score * self.BINS, 6)))
        self._bins[place] += 1
        self._sums[place] += score

    def median(self) -> float | None:
        """To a thousandth: the mean of the bin in which the lower median is."""
        total, seen = sum(self._bins), 0
        for at, count in enumerate(self._bins):
            seen += count
            if total and 2 * seen >= total:
                return self._sums[at] / count
        return None

    def coarse(self, bins: int) -> tuple[int, ...]:
        """Counts in so many bins of equal width; each holds its lower end, the last one also its upper."""
        width = self.BINS // bins
        return tuple(sum(self._bins[at * width : (at + 1) * width]) for at in range(bins))
