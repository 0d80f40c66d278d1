"""Contributions: how much of a change of the mean each slice of the traffic accounts for, with its interval.

Slices divide the traffic: each record is in one. A slice has the share p of the weight and the mean m, before (0) and
since (1). The mean M = Σ p·m of all changes by Δ = M₁ − M₀, to which a slice contributes

    C = p₁·(m₁ − M₀) − p₀·(m₀ − M₀) = (p₀ + p₁)/2 · (m₁ − m₀)  +  (p₁ − p₀) · ((m₀ + m₁)/2 − M₀)
                                       change within the slice       change of the mix

The contributions of all slices add up to Δ. A slice that grows counts for the mix only as far as it is unlike what the
traffic was before, and one that is new or gone needs no mean where it has none: where one slice takes the place of
another, the fall is that of the new one. The *excess* is what a slice contributes beyond its share of the traffic,
C − p₁·Δ = p₁·(m₁ − M₁) − p₀·(m₀ − M₀): 0 for every slice if all of them fell alike.

**Intervals** are by the delta method. Each record's influence on the estimate is w/W · (a + b·x), with one a and b for
those in the slice and others for the rest, and the variance is the sum of their squares (records are independent, and
the sample is taken for one of the process behind it). To that comes, in each period, one more record of the slice as
spread as can be, so that a few records with one and the same score do not seem certain. The quantile is Student's, with
Welch's degrees of freedom, for which the scores of the slice count by their effective number (Kish). That the onset was
chosen because the scores after it are low is not allowed for: before and since lie a little too far apart.
"""

from bisect import bisect_right
from dataclasses import dataclass
from math import sqrt

from sinks.statistics.difference import student_quantile
from stream.monitor.explain.sums import Pair, ScoreSums

CONFIDENCE = 0.95
# A score in [0, 1] has at most this variance.
_MOST_SPREAD = 0.25
# A slice with so much of the traffic, and so many times what it had, has come with the change.
_LEAST_ARRIVAL = 0.05
_TIMES_ARRIVED = 5.0
# Quantiles are worked out for these alone; the next lower one makes an interval wider.
_FREEDOMS = (*range(1, 31), 40, 60, 100, 200, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanChange:
    """A difference, with its interval."""

    value: float
    low: float
    high: float

    @property
    def is_fall(self) -> bool:
        """Whether it is surely below 0."""
        return self.high < 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A part of the traffic, and what it has to do with the change."""

    value: str | None
    """What the records of the slice have in common; None: that they have no value."""
    shares: tuple[float, float]
    """Of the traffic, before and since."""
    means: tuple[float | None, float | None]
    counts: tuple[int, int]
    change: MeanChange | None
    """Of its own mean; None where it has none in one of the periods."""
    contribution: MeanChange
    mix: float
    """What of the contribution is from the change of its share; the rest is from the change of its mean."""
    excess: MeanChange
    """What it contributes beyond its share of the traffic."""

    @property
    def arrived(self) -> bool:
        """Whether it is as good as new."""
        return _came(*self.shares)

    @property
    def left(self) -> bool:
        """Whether it is as good as gone."""
        return _came(*reversed(self.shares))

    @property
    def fell(self) -> bool:
        """Whether its own mean is surely lower."""
        return self.change is not None and self.change.is_fall


def _came(was: float, now: float) -> bool:
    return now >= _LEAST_ARRIVAL and now >= _TIMES_ARRIVED * was


def mean_change(pair: Pair, *, confidence: float = CONFIDENCE, scale: float = 1.0) -> MeanChange | None:
    """Of the mean of some scores, which lie within a range of `scale`; None if there are none on one side."""
    before, since = pair.before, pair.since
    if before.mean is None or since.mean is None:
        return None
    noises = tuple(
        _unbiased(each.spread(-(each.mean or 0.0), 1.0), each.count) / each.weight**2
        + _MOST_SPREAD * (scale / each.effective) ** 2
        for each in (before, since)
    )
    return _change(since.mean - before.mean, noises, (before.effective, since.effective), confidence)


def slice_of(whole: Pair, part: Pair, value: str | None, *, tests: int = 1) -> Slice:
    """A slice of a whole that has scores in both periods; its excess is one of so many that are looked at."""
    place = _SliceShare.of(whole, part)
    excess_confidence = 1.0 - (1.0 - CONFIDENCE) / max(1, tests)
    return Slice(
        value=value,
        shares=place.shares,
        means=(part.before.mean, part.since.mean),
        counts=(part.before.count, part.since.count),
        change=mean_change(part),
        contribution=place.change(place.contribution, excess=False, confidence=CONFIDENCE),
        mix=place.mix,
        excess=place.change(place.excess, excess=True, confidence=excess_confidence),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SliceShare:
    """A slice within its whole, in the letters of this module's description."""

    whole: Pair
    part: Pair
    shares: tuple[float, float]
    means: tuple[float, float]
    """Of the whole."""
    parts: tuple[float, float]
    """p·(m − M₀)."""

    @classmethod
    def of(cls, whole: Pair, part: Pair) -> "_SliceShare":
        means = (_mean(whole.before), _mean(whole.since))
        usual = means[0]
        sides = ((whole.before, part.before), (whole.since, part.since))
        shares = tuple(own.weight / everything.weight for everything, own in sides)
        parts = tuple((own.weighted - usual * own.weight) / everything.weight for everything, own in sides)
        return cls(whole=whole, part=part, shares=_two(shares), means=means, parts=_two(parts))

    @property
    def contribution(self) -> float:
        return self.parts[1] - self.parts[0]

    @property
    def mix(self) -> float:
        before, since = self.part.before.mean, self.part.since.mean
        if before is None or since is None:
            return self.contribution
        return self.contribution - sum(self.shares) / 2.0 * (since - before)

    @property
    def excess(self) -> float:
        return self.contribution - self.shares[1] * (self.means[1] - self.means[0])

    def change(self, value: float, *, excess: bool, confidence: float) -> MeanChange:
        sides = ((self.whole.before, self.part.before), (self.whole.since, self.part.since))
        noises = tuple(self._noise(at, *side, excess=excess) for at, side in enumerate(sides))
        sizes = [(own if own.count else everything).effective for everything, own in sides]
        return _change(value, noises, _two(sizes), confidence)

    def _noise(self, at: int, everything: ScoreSums, own: ScoreSums, *, excess: bool) -> float:
        """What the scores of one period add to the variance."""
        (a, b), (rest_a, rest_b) = self._influences(at, excess=excess)
        spread = own.spread(a, b) + everything.without(own).spread(rest_a, rest_b)
        heavy = own if own.count else everything
        more = _MOST_SPREAD * (heavy.squares / heavy.weight) ** 2
        return (_unbiased(spread, everything.count) + more) / everything.weight**2

    def _influences(self, at: int, *, excess: bool) -> tuple[tuple[float, float], tuple[float, float]]:
        """a and b of the records in the slice, and of the rest."""
        sign, mean, usual, share = (1.0 if at else -1.0), self.means[at], self.means[0], self.shares[at]
        if excess:
            # Of p·(m − M): its sum of scores is p·(m − M₀) + p·M₀.
            a, b = 2.0 * share * mean - self.parts[at] - share * usual, -share
            return (sign * (a - mean), sign * (b + 1.0)), (sign * a, sign * b)
        # Scores before tell what the growth of the slice is measured by.
        growth = 0.0 if at else self.shares[1] - self.shares[0]
        a, b = growth * usual - sign * self.parts[at], -growth
        return (a - sign * usual, b + sign), (a, b)


def _change(value: float, noises: tuple[float, ...], sizes: tuple[float, float], confidence: float) -> MeanChange:
    """By Welch: each side's part in the variance, and how many scores that is known from."""
    variance = sum(noises)
    below = sum(noise * noise / max(1.0, size - 1.0) for noise, size in zip(noises, sizes, strict=True))
    # Squares of what is very little are 0.
    freedom = variance * variance / below if below > 0.0 else _FREEDOMS[0]
    # A hair below a whole number is rounding.
    usable = _FREEDOMS[max(0, bisect_right(_FREEDOMS, freedom * (1.0 + 1e-9)) - 1)]
    reach = student_quantile(usable, confidence) * sqrt(variance)
    return MeanChange(value=value, low=value - reach, high=value + reach)


def _unbiased(spread: float, count: int) -> float:
    return spread * count / (count - 1) if count > 1 else spread


def _mean(sums: ScoreSums) -> float:
    if sums.mean is None:
        raise ValueError("cannot explain a period without scores")
    return sums.mean


def _two(values: "tuple[float, ...] | list[float]") -> tuple[float, float]:
    before, since = values
    return before, since
