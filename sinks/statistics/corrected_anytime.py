"""The corrected mean with an interval that holds at every look together: a confidence sequence.

A label y of a record with the score f was made with the probability p of being sampled and labelled, and weighs
w = p₀/p, where p₀ is the smallest such probability. Let θ be the mean of the labels and m that of the scores over all
traffic, and λ between 0 and 1 a number that was chosen before the label was seen. Then

    d = w·(y − λ·(f − m) − θ)

is 0 on average, and at least −c with c = θ + 1 − m. So capital that is multiplied by 1 + s·d at every label, with a
stake s below 1/c, is a fair game: it ever exceeds 1/miss with a probability of at most `miss`, and so does the mean
over some stakes. The candidates θ at which it has not are the interval. No approximation is in this: it holds for any
number of labels, and for labels that depend on the earlier ones.

1. The capital would need every label at every candidate. For x ≥ −r, log(1 + x) is at least x − x²/2 + x³/3 − κ·x⁴,
   where κ makes both equal at −r (the third-order relative of Fan's inequality). The sums of d to d⁴ at any θ and m
   follow from 34 sums over labels.
2. m is not known, but an interval for it is, from all judged records (`anytime.interval`). It gets a tenth of `miss`.
3. For each stake the capital is the smaller of those at the two ends of that interval. Its logarithm is concave in m,
   because κ is at least 1/4, so it is not larger than that at the true m. The largest c of the interval is used.
4. λ follows the slope of y on f in the earlier labels, starting at 1 with the weight of a few labels. This needs the
   labels in the order in which they came. `FixedGaps` has labels in any order: the capital is the mean over three λ
   that are chosen beforehand, each of which is a fair game in whichever order the labels come.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from math import comb, exp, log, log1p
from statistics import fmean
from typing import NamedTuple, Self

from sinks.statistics.anytime import WeightedTally, interval
from sinks.statistics.corrected import MeanInterval

_STAKES = (0.03, 0.075, 0.15, 0.3, 0.5, 0.75)
_SCORE_SHARE = 0.1
# Stakes that could lose more than this share of the capital are left out.
_MOST_REACH = 0.97
_STEPS = 32
_HALVINGS = 24
# The start of λ: a slope of 1, as if from ten labels of scores with this variance.
_FIRST_LABELS = 10.0
_FIRST_VARIANCE = 0.05
_FIXED_TUNINGS = (0.0, 0.5, 1.0)


class _Term(NamedTuple):
    """A term of dᵏ = wᵏ·(a + λ·m − θ)ᵏ."""

    order: int
    """k."""
    rest: int
    """Power of a."""
    tuning: int
    """Power of λ, and of m."""
    factor: int
    """How often the term occurs."""


_ORDER = 4
_TERMS = tuple(
    _Term(order, rest, tuning, comb(order, rest) * comb(order - rest, tuning))
    for order in range(1, _ORDER + 1)
    for rest in range(order + 1)
    for tuning in range(order - rest + 1)
)
_WEIGHT, _TUNING, _REST = (
    next(place for place, term in enumerate(_TERMS) if term[:3] == powers)
    for powers in ((1, 0, 0), (1, 0, 1), (1, 1, 0))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlopeTally:
    """Sums over earlier labels, from which λ is chosen."""

    weight: float = 0.0
    scores: float = 0.0
    labels: float = 0.0
    score_squares: float = 0.0
    products: float = 0.0

    def plus(self, score: float, label: float, weight: float) -> "SlopeTally":
        return SlopeTally(
            weight=self.weight + weight,
            scores=self.scores + weight * score,
            labels=self.labels + weight * label,
            score_squares=self.score_squares + weight * score * score,
            products=self.products + weight * score * label,
        )

    @property
    def tuning(self) -> float:
        """The slope of the labels on the scores, between 0 and 1."""
        start = _FIRST_LABELS * _FIRST_VARIANCE
        if not self.weight:
            return 1.0
        common = self.products - self.scores * self.labels / self.weight
        spread = max(0.0, self.score_squares - self.scores * self.scores / self.weight)
        return min(1.0, max(0.0, (common + start) / (spread + start)))


_SLOPE_NAMES = tuple(part.name for part in fields(SlopeTally))


@dataclass(frozen=True, slots=True, kw_only=True)
class GapTally:
    """Sums over labels with a = y − λ·f: Σ wᵏ·aⁱ·λʲ for i + j ≤ k ≤ 4."""

    count: int = 0
    sums: tuple[float, ...] = (0.0,) * len(_TERMS)

    def plus(self, score: float, label: float, tuning: float, weight: float) -> "GapTally":
        rests, tunings, weights = (_powers(value) for value in (label - tuning * score, tuning, weight))
        return GapTally(
            count=self.count + 1,
            sums=tuple(
                total + weights[term.order] * rests[term.rest] * tunings[term.tuning]
                for total, term in zip(self.sums, _TERMS, strict=True)
            ),
        )

    @property
    def weight(self) -> float:
        return self.sums[_WEIGHT]

    def moments(self, mean: float, score_mean: float) -> tuple[float, ...]:
        """Return Σ d, Σ d², Σ d³ and Σ d⁴."""
        means, score_means = _powers(-mean), _powers(score_mean)
        moments = [0.0] * _ORDER
        for total, term in zip(self.sums, _TERMS, strict=True):
            rest = term.order - term.rest - term.tuning
            moments[term.order - 1] += total * term.factor * means[rest] * score_means[term.tuning]
        return tuple(moments)


def _powers(value: float) -> tuple[float, ...]:
    square = value * value
    return (1.0, value, square, square * value, square * square)


@dataclass(frozen=True, slots=True)
class FixedGaps:
    """Labels in any order, each once, with every fixed λ."""

    tallies: tuple[GapTally, ...] = (GapTally(),) * len(_FIXED_TUNINGS)

    def plus(self, score: float, label: float, weight: float) -> "FixedGaps":
        """Add a label; the weight is the smallest probability of a label, divided by that of this one."""
        pairs = zip(self.tallies, _FIXED_TUNINGS, strict=True)
        return FixedGaps(tuple(tally.plus(score, label, tuning, weight) for tally, tuning in pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedSequence:
    """A series of judged records and labels, in any order; every label once, and its record among the judged."""

    lowest_probability: float
    """The smallest probability with which a record is sampled."""
    lowest_label_probability: float
    """The smallest probability with which a record is sampled and labelled."""
    scores: WeightedTally = field(default_factory=WeightedTally)
    gaps: GapTally = field(default_factory=GapTally)
    slope: SlopeTally = field(default_factory=SlopeTally)

    def plus_score(self, score: float, probability: float) -> "CorrectedSequence":
        """Add a judged record, labelled or not."""
        weight = _weight(self.lowest_probability, probability)
        return CorrectedSequence(
            lowest_probability=self.lowest_probability,
            lowest_label_probability=self.lowest_label_probability,
            scores=self.scores.plus(score, weight),
            gaps=self.gaps,
            slope=self.slope,
        )

    def plus_label(self, score: float, label: float, probability: float) -> "CorrectedSequence":
        """Add a label, with the probability of being sampled and labelled."""
        weight = _weight(self.lowest_label_probability, probability)
        return CorrectedSequence(
            lowest_probability=self.lowest_probability,
            lowest_label_probability=self.lowest_label_probability,
            scores=self.scores,
            gaps=self.gaps.plus(score, label, self.slope.tuning, weight),
            slope=self.slope.plus(score, label, weight),
        )

    def as_list(self) -> list[float]:
        """Return the state as numbers, for a stored state."""
        slope = [float(getattr(self.slope, name)) for name in _SLOPE_NAMES]
        lowest = (self.lowest_probability, self.lowest_label_probability)
        return [*lowest, self.gaps.count, *self.gaps.sums, *slope, *self.scores.as_list()]

    @classmethod
    def from_list(cls, numbers: Sequence[float]) -> Self:
        lowest, lowest_label, count, *rest = (float(number) for number in numbers)
        slope, scores = rest[len(_TERMS) :][: len(_SLOPE_NAMES)], rest[len(_TERMS) + len(_SLOPE_NAMES) :]
        return cls(
            lowest_probability=lowest,
            lowest_label_probability=lowest_label,
            gaps=GapTally(count=int(count), sums=tuple(rest[: len(_TERMS)])),
            slope=SlopeTally(**dict(zip(_SLOPE_NAMES, slope, strict=True))),
            scores=WeightedTally.from_list(scores),
        )


def corrected_interval(series: CorrectedSequence, miss: float) -> MeanInterval:
    """Return an interval that is ever wrong with a probability of at most `miss`."""
    return _interval((series.gaps,), series.scores, miss)


def fixed_interval(gaps: FixedGaps, scores: WeightedTally, miss: float) -> MeanInterval:
    """Return such an interval from labels in any order; `scores` has all judged records."""
    return _interval(gaps.tallies, scores, miss)


def _interval(gaps: Sequence[GapTally], tally: WeightedTally, miss: float) -> MeanInterval:
    if not 0.0 < miss < 1.0:
        raise ValueError(f"the probability of a wrong interval must be above 0 and below 1, not {miss}")
    scores = interval(tally, miss * _SCORE_SHARE)
    ends, part = (scores.low, scores.high), miss * (1.0 - _SCORE_SHARE) / 2.0
    high = _bound(gaps, ends, part, is_upper=True)
    low = 1.0 - _bound(gaps, ends, part, is_upper=False)
    score_mean = 0.5 if scores.mean is None else scores.mean
    mean = fmean(_mean(tallied, score_mean) for tallied in gaps)
    # Bounds that cross refute the assumptions; they are shown around the mean.
    return MeanInterval(mean=mean, low=min(low, mean), high=max(high, mean))


def _weight(lowest: float, probability: float) -> float:
    # Rounded products of the same probabilities may be a little smaller.
    if not lowest * (1.0 - 1e-9) <= probability <= 1.0:
        raise ValueError(f"a probability must be at least {lowest}, the smallest of its design, and at most 1")
    return min(1.0, lowest / probability)


def _mean(gaps: GapTally, score_mean: float) -> float:
    if not gaps.weight:
        return score_mean
    mean = (gaps.sums[_REST] + score_mean * gaps.sums[_TUNING]) / gaps.weight
    return min(1.0, max(0.0, mean))


def _bound(gaps: Sequence[GapTally], score_means: tuple[float, float], miss: float, *, is_upper: bool) -> float:
    """Return the highest mean that the labels do not refute; for a lower bound, the highest 1 − mean."""
    enough, refuted = -log(miss), 1.0

    def is_refuted(candidate: float) -> bool:
        mean = candidate if is_upper else 1.0 - candidate
        return log_mean_capital(gaps, mean, score_means, is_upper=is_upper) >= enough

    if not is_refuted(refuted):
        return 1.0
    # From the top, so that all candidates above a refuted one are refuted, too.
    for step in range(_STEPS - 1, -1, -1):
        if not is_refuted(step / _STEPS):
            return _between(is_refuted, step / _STEPS, refuted)
        refuted = step / _STEPS
    return 0.0


def _between(is_refuted: Callable[[float], bool], possible: float, refuted: float) -> float:
    for _halving in range(_HALVINGS):
        middle = (possible + refuted) / 2.0
        if is_refuted(middle):
            refuted = middle
        else:
            possible = middle
    return refuted


def log_mean_capital(
    gaps: Sequence[GapTally], mean: float, score_means: tuple[float, float], *, is_upper: bool
) -> float:
    """Return the logarithm of the mean capital over several λ, each with its own sums."""
    return _log_mean([log_capital(tally, mean, score_means, is_upper=is_upper) for tally in gaps], len(gaps))


def log_capital(gaps: GapTally, mean: float, score_means: tuple[float, float], *, is_upper: bool) -> float:
    """Return the logarithm of the mean capital that bets against this mean: that it is lower, or that it is higher."""
    # With λ up to 1, d is between −(mean + 1 − m) and 1 − mean + m.
    reach = 1.0 - mean + score_means[1] if is_upper else mean + 1.0 - score_means[0]
    sign = -1.0 if is_upper else 1.0
    moments = [gaps.moments(mean, score_mean) for score_mean in score_means]
    logs = [
        min(_log_capital(sign * stake, stake * reach, powers) for powers in moments)
        for stake in _STAKES
        if stake * reach < _MOST_REACH
    ]
    return _log_mean(logs, len(_STAKES))


def _log_mean(logs: Sequence[float], number: int) -> float:
    """Return the logarithm of the mean of `number` values; those without a logarithm here are 0."""
    most = max(logs)
    return most + log(sum(exp(value - most) for value in logs) / number)


def _log_capital(stake: float, reach: float, moments: Sequence[float]) -> float:
    first, second, third, fourth = (moment * stake**power for power, moment in enumerate(moments, start=1))
    return first - second / 2.0 + third / 3.0 - _penalty(reach) * fourth


def _penalty(reach: float) -> float:
    """Return κ for x ≥ −reach."""
    # For small values the difference below would lose all its digits.
    if reach < 0.01:
        return 0.25 + reach * (0.2 + reach)
    return -(log1p(-reach) + reach + reach**2 / 2.0 + reach**3 / 3.0) / reach**4
