"""Contributions: how much of a change of the mean each slice of the traffic accounts for, with its interval.

Slices divide the traffic: each record is in one. A slice has the share p of the weight and the mean m, before (0) and
since (1). The overall mean M = Σ p·m changes by Δ = M₁ − M₀, to which a slice contributes

    C = p₁·(m₁ − M₀) − p₀·(m₀ − M₀) = (p₀ + p₁)/2 · (m₁ − m₀)  +  (p₁ − p₀) · ((m₀ + m₁)/2 − M₀)
                                       change within the slice       change of the mix

The contributions of all slices add up to Δ. A slice that grows counts for the mix only as far as it differs from the
earlier traffic. A new slice, or one that is gone, needs no mean for the other period: if one slice replaces another,
the fall belongs to the new one. The *excess* is the contribution beyond the slice's share of the traffic,
C − p₁·Δ = p₁·(m₁ − M₁) − p₀·(m₀ − M₀): 0 for every slice if all of them fell alike.

**Intervals** are by the delta method. Each record's influence on the estimate is w/W · (a + b·x), with one a and b for
those in the slice and others for the rest. The variance is the sum of their squares (records are independent, and the
sample is treated as one of the process behind it). In each period, one more record of the slice with the largest
possible variance is added, so that a few records with the same score do not seem certain. The quantile is Student's,
with Welch's degrees of freedom, for which the scores of the slice count by their effective number (Kish). The intervals
do not allow for the choice of the onset, after which scores are low: the difference is slightly exaggerated.
"""

from bisect import bisect_right
from dataclasses import dataclass
from math import sqrt

from sinks.statistics.difference import student_quantile
from stream.monitor.explain.sums import Pair, ScoreSums

CONFIDENCE = 0.95
# A score in [0, 1] has at most this variance.
_MOST_SPREAD = 0.25
# A slice with this share of the traffic, and this many times its earlier share, arrived with the change.
_LEAST_ARRIVAL = 0.05
_TIMES_ARRIVED = 5.0
# Quantiles are computed for these only; the next lower one makes an interval wider.
_FREEDOMS = (*range(1, 31), 40, 60, 100, 200, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanChange:
    """A difference, with its interval."""

    value: float
    low: float
    high: float

    @property
    def is_fall(self) -> bool:
        """Whether it is below 0 with confidence."""
        return self.high < 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A part of the traffic, and its contribution to the change."""

    value: str | None
    """The value of the attribute; None for records without a value."""
    shares: tuple[float, float]
    """Of the traffic, before and since."""
    means: tuple[float | None, float | None]
    counts: tuple[int, int]
    change: MeanChange | None
    """Change of its own mean; None if it has no mean in one of the periods."""
    contribution: MeanChange
    mix: float
    """Part of the contribution from the change of its share; the rest is from the change of its mean."""
    excess: MeanChange
    """Contribution beyond its share of the traffic."""

    @property
    def arrived(self) -> bool:
        """Whether it is new, or nearly so."""
        return _came(*self.shares)

    @property
    def left(self) -> bool:
        """Whether it is gone, or nearly so."""
        return _came(*reversed(self.shares))

    @property
    def fell(self) -> bool:
        """Whether its own mean is lower with confidence."""
        return self.change is not None and self.change.is_fall


def _came(was: float, now: float) -> bool:
    return now >= _LEAST_ARRIVAL and now >= _TIMES_ARRIVED * was


def mean_change(pair: Pair, *, confidence: float = CONFIDENCE, scale: float = 1.0) -> MeanChange | None:
    """Return the change of a mean of scores within a range of `scale`; None if one side has no scores."""
    before, since = pair.before, pair.since
    if before.mean is None or since.mean is None:
        return None
    noises = tuple(
        _unbiased(sums.spread(-(sums.mean or 0.0), 1.0), sums.count) / sums.weight**2
        + _MOST_SPREAD * (scale / sums.effective) ** 2
        for sums in (before, since)
    )
    return _change(since.mean - before.mean, noises, (before.effective, since.effective), confidence)


def slice_of(whole: Pair, part: Pair, value: str | None, *, tests: int = 1) -> Slice:
    """Return a slice of a whole that has scores in both periods; `tests` is the number of slices that are tested."""
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
    """A slice within its whole, in the notation of this module's docstring."""

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
        noises = tuple(self._noise(index, *side, excess=excess) for index, side in enumerate(sides))
        sizes = [(own if own.count else everything).effective for everything, own in sides]
        return _change(value, noises, _two(sizes), confidence)

    def _noise(self, index: int, everything: ScoreSums, own: ScoreSums, *, excess: bool) -> float:
        """Return the part of the variance that comes from one period."""
        (a, b), (rest_a, rest_b) = self._influences(index, excess=excess)
        spread = own.spread(a, b) + everything.without(own).spread(rest_a, rest_b)
        heavy = own if own.count else everything
        more = _MOST_SPREAD * (heavy.squares / heavy.weight) ** 2
        return (_unbiased(spread, everything.count) + more) / everything.weight**2

    def _influences(self, index: int, *, excess: bool) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return a and b for the records in the slice, and for the rest."""
        sign, mean, usual, share = (1.0 if index else -1.0), self.means[index], self.means[0], self.shares[index]
        if excess:
            # Of p·(m − M): its sum of scores is p·(m − M₀) + p·M₀.
            a, b = 2.0 * share * mean - self.parts[index] - share * usual, -share
            return (sign * (a - mean), sign * (b + 1.0)), (sign * a, sign * b)
        # The scores before are the reference for the growth of the slice.
        growth = 0.0 if index else self.shares[1] - self.shares[0]
        a, b = growth * usual - sign * self.parts[index], -growth
        return (a - sign * usual, b + sign), (a, b)


def _change(value: float, noises: tuple[float, ...], sizes: tuple[float, float], confidence: float) -> MeanChange:
    """Return the change with its interval by Welch, from the variance and the effective size of each side."""
    variance = sum(noises)
    below = sum(noise * noise / max(1.0, size - 1.0) for noise, size in zip(noises, sizes, strict=True))
    # Squares of very small numbers are 0.
    freedom = variance * variance / below if below > 0.0 else _FREEDOMS[0]
    # Slightly below a whole number is a rounding error.
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
