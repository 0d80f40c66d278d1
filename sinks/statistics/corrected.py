"""The judges' mean, corrected by the labels of people (prediction-powered inference, PPI++, arXiv 2311.01453).

Every judged record has a score f and a weight u = 1/π, where π is the probability with which it was sampled. Some
records also have a label y and a weight v = 1/(π·ρ), where ρ is the probability with which a sampled record was chosen
for labelling. Both choices are independent from record to record (two-phase Poisson sampling).

**Mean**: λ·Σ u·f / Σ u + Σ v·(y − λ·f) / Σ v. The first sum is over all judged records, the second over the labelled
ones. Whatever λ is, the judges' bias cancels: the labelled records estimate it, and the mean is that of the labels.
With λ = 0 the labels are alone; a λ near the slope of y on f makes the interval as narrow as a linear correction can.

**Variance**: the mean is linearised. A record has the influence ψ = λ·u·(f − f̄) / Σ u, and a labelled one also
v·(y − λ·f − d̄) / Σ v, where f̄ and d̄ are the two weighted means. A labelled record has both parts, so what they have in
common is accounted for: this is the efficient influence function of the two-phase design. The variance is Σ (ψ − ψ̄)²
over the labelled records and over the others, each around their own mean.

**λ** is the slope of y on f in which a labelled record counts v·(v − u), its part in the variance, times the ratio of
the variances of f in the labelled and in all records. If π and ρ are constant, it is cov(y, f) / var(f), and mean and
interval equal those of ppi-python, whose λ is ours times N/(n + N) for n labelled and N other records.

**Interval**: mean ± z·√variance. It is for the mean behind the traffic, and so a little too wide for the traffic that
came. If fewer than five labels differ from their scores, the variance does not show how many differences were missed,
and 3/n is added on both sides (the rule of three; n is Kish's effective number of labels).

All of it follows from sums, and those of two processes can be added.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple, Self, TypeGuard

from judges.values.evaluation import MIN_PROBABILITY
from sinks.statistics.anytime import WeightedTally
from sinks.statistics.estimates import Sums

# Fewer labels than this do not correct: the normal approximation of the interval needs them.
MIN_LABELS = 30
# Nor do labels of which a few outweigh the others, so that Kish's effective number is below a third of that.
_EFFECTIVE_DIVISOR = 3
MIN_EFFECTIVE_LABELS = MIN_LABELS // _EFFECTIVE_DIVISOR
# With fewer labels that differ from their scores, the interval is widened.
_FEW_DIFFERENCES = 5
_RULE_OF_THREE = 3.0
# Scores and labels are counted from here, so that sums of products lose few digits.
_CENTER = 0.5

# The numbers of a record: u, u·f, v, v·f, v·y, with f and y counted from the center.
_U, _UF, _V, _VF, _VY = range(5)
_SIZE = 5
_PAIRS = tuple(combinations_with_replacement(range(_SIZE), 2))
_PLACES = {pair: place for place, pair in enumerate(_PAIRS)} | {
    (second, first): place for place, (first, second) in enumerate(_PAIRS)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Products:
    """The sums of the numbers of records, and of their products."""

    count: int = 0
    sums: tuple[float, ...] = (0.0,) * _SIZE
    products: tuple[float, ...] = (0.0,) * len(_PAIRS)

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Self:
        return cls(
            count=1, sums=tuple(numbers), products=tuple(numbers[first] * numbers[second] for first, second in _PAIRS)
        )

    def __add__(self, other: "_Products") -> "_Products":
        if not self.count or not other.count:
            return self if self.count else other
        return _Products(
            count=self.count + other.count,
            sums=tuple(one + two for one, two in zip(self.sums, other.sums, strict=True)),
            products=tuple(one + two for one, two in zip(self.products, other.products, strict=True)),
        )

    def product(self, first: int, second: int) -> float:
        return self.products[_PLACES[first, second]]

    def variation(self, factors: Sequence[float]) -> float:
        """Return Σ (x − x̄)² of x = Σ factor · number."""
        if not self.count:
            return 0.0
        squares = sum(
            factors[first] * factors[second] * self.product(first, second)
            for first in range(_SIZE)
            for second in range(_SIZE)
        )
        total = sum(factor * value for factor, value in zip(factors, self.sums, strict=True))
        return max(0.0, squares - total * total / self.count)


class JudgedSums(NamedTuple):
    """Sums over judged records, labelled or not, to which records are only ever added."""

    records: int = 0
    u: float = 0.0
    uf: float = 0.0
    uu: float = 0.0
    u_uf: float = 0.0
    uf_uf: float = 0.0

    def plus(self, score: float, probability: float) -> "JudgedSums":
        """Add a record that was sampled with this probability."""
        _check(score, probability)
        u = 1.0 / probability
        uf = u * (score - _CENTER)
        return JudgedSums(
            self.records + 1, self.u + u, self.uf + uf, self.uu + u * u, self.u_uf + u * uf, self.uf_uf + uf * uf
        )

    @classmethod
    def of(cls, sums: Sums) -> "JudgedSums":
        """Return these sums from those of an estimate: w² is w·(w − 1) + w."""
        records, uncertain = sums.records, sums.uncertain
        uf = records.weight * (records.mean - _CENTER)
        return cls(
            sums.count,
            records.weight,
            uf,
            uncertain.weight + records.weight,
            uncertain.weight * (uncertain.mean - _CENTER) + uf,
            uncertain.about(_CENTER) + records.about(_CENTER),
        )

    def merge(self, other: "JudgedSums") -> "JudgedSums":
        records, *sums = (one + two for one, two in zip(self, other, strict=True))
        return JudgedSums(int(records), *sums)

    def minus(self, other: "JudgedSums") -> "JudgedSums":
        """Return the sums of the records that are not among the others; without any, only rounding errors are left."""
        records, *sums = (one - two for one, two in zip(self, other, strict=True))
        return JudgedSums(int(records), *sums) if records > 0 else JudgedSums()

    def tally(self, lowest: float) -> WeightedTally:
        """Return the sums for an interval at every look; `lowest` is the smallest probability of being sampled."""
        square = lowest * lowest
        return WeightedTally(
            count=self.records,
            weight=lowest * self.u,
            total=lowest * (self.uf + _CENTER * self.u),
            squares=square * self.uu,
            cross=square * (self.u_uf + _CENTER * self.uu),
            power=square * (self.uf_uf + 2.0 * _CENTER * self.u_uf + _CENTER * _CENTER * self.uu),
        )

    def products(self) -> _Products:
        products = [0.0] * len(_PAIRS)
        for pair, value in (((_U, _U), self.uu), ((_U, _UF), self.u_uf), ((_UF, _UF), self.uf_uf)):
            products[_PLACES[pair]] = value
        return _Products(count=self.records, sums=(self.u, self.uf, 0.0, 0.0, 0.0), products=tuple(products))


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionSums:
    """The sums that a corrected estimate needs."""

    unlabelled: _Products = field(default_factory=_Products)
    labelled: _Products = field(default_factory=_Products)
    differing: int = 0
    """Labels that differ from their scores."""

    @classmethod
    def of_score(cls, score: float, probability: float) -> Self:
        """Return the sums of a judged record without a label; `probability` is that of being sampled."""
        _check(score, probability)
        weight = 1.0 / probability
        return cls(unlabelled=_Products.of((weight, weight * (score - _CENTER), 0.0, 0.0, 0.0)))

    @classmethod
    def of_label(cls, score: float, label: float, probability: float, label_probability: float) -> Self:
        """Return the sums of a labelled record; `label_probability` is that of being sampled and then labelled."""
        _check(score, probability)
        _check(label, label_probability)
        if not is_possible(label_probability, probability):
            raise ValueError(
                f"the probability of a label ({label_probability}) includes that of being sampled ({probability}) and "
                "cannot be larger"
            )
        u, v = 1.0 / probability, 1.0 / min(label_probability, probability)
        f, y = score - _CENTER, label - _CENTER
        return cls(labelled=_Products.of((u, u * f, v, v * f, v * y)), differing=int(score != label))

    def among(self, judged: JudgedSums) -> "CorrectionSums":
        """Return the sums with the other judged records; the labelled records must be among `judged`."""
        labelled = JudgedSums(
            self.labelled.count,
            *self.labelled.sums[:_V],
            *(self.labelled.product(*pair) for pair in ((_U, _U), (_U, _UF), (_UF, _UF))),
        )
        unlabelled = judged.minus(labelled).products()
        return CorrectionSums(unlabelled=unlabelled, labelled=self.labelled, differing=self.differing)

    def __add__(self, other: Self) -> "CorrectionSums":
        return CorrectionSums(
            unlabelled=self.unlabelled + other.unlabelled,
            labelled=self.labelled + other.labelled,
            differing=self.differing + other.differing,
        )

    @property
    def judged(self) -> _Products:
        return self.unlabelled + self.labelled


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanInterval:
    """A mean with its interval."""

    mean: float
    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedEstimate:
    """The corrected mean, and the means that it stands between."""

    judged: int
    """Judged records, labelled or not."""
    labels: int
    effective_labels: float
    """Kish's number of equally weighted labels with the same information."""
    judge_mean: float | None
    """The judges' mean without correction; None if no record was judged."""
    corrected: MeanInterval | None = None
    """None if there are fewer labels than `MIN_LABELS`, or if a few of them outweigh the others."""
    labels_alone: MeanInterval | None = None
    """The estimate from labels without the judges' scores."""
    tuning: float | None = None
    """λ."""
    anytime: MeanInterval | None = None
    """An interval that is valid at every look, if one was computed."""

    @property
    def bias(self) -> float | None:
        """How much higher the judges' mean is than the corrected one."""
        if self.judge_mean is None or self.corrected is None:
            return None
        return self.judge_mean - self.corrected.mean


def correct(sums: CorrectionSums, *, confidence: float = 0.95, min_labels: int = MIN_LABELS) -> CorrectedEstimate:
    """Compute the corrected estimate; it has no corrected mean if there are fewer than `min_labels` labels.

    The same holds if their effective number is below a third of that: one label that claims a tiny probability would
    be the mean, with an interval of no width.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence must be above 0 and below 1, not {confidence}")
    labels, judged = sums.labelled.count, sums.judged
    weight = judged.sums[_U]
    effective = sums.labelled.sums[_V] ** 2 / sums.labelled.product(_V, _V) if labels else 0.0
    judge_mean = _within_range(_CENTER + judged.sums[_UF] / weight) if judged.count else None
    estimate = CorrectedEstimate(judged=judged.count, labels=labels, effective_labels=effective, judge_mean=judge_mean)
    if labels < max(2, min_labels) or effective < min_labels // _EFFECTIVE_DIVISOR:
        return estimate
    tuning = _tune(sums)
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    margin = _RULE_OF_THREE / effective if sums.differing < _FEW_DIFFERENCES else 0.0
    return CorrectedEstimate(
        judged=judged.count,
        labels=labels,
        effective_labels=effective,
        judge_mean=judge_mean,
        corrected=_interval(sums, tuning, z, margin),
        labels_alone=_interval(sums, 0.0, z, 0.0),
        tuning=tuning,
    )


def is_possible(label_probability: float, probability: float) -> bool:
    """Return whether a record that is sampled with a probability can be sampled and labelled with the other one."""
    # Rounded products of the same probabilities may be a little larger.
    return label_probability <= probability * (1.0 + 1e-9)


def can_correct(label_probability: float | None, probability: float) -> TypeGuard[float]:
    """Return whether a label can correct a mean: its answer was chosen at random, with a probability that can be."""
    return (
        label_probability is not None
        and label_probability >= MIN_PROBABILITY
        and is_possible(label_probability, probability)
    )


def _check(value: float, probability: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"a score must be between 0 and 1, not {value}")
    if not 0.0 < probability <= 1.0:
        raise ValueError(f"a probability must be above 0 and at most 1, not {probability}")


def _within_range(value: float) -> float:
    return min(1.0, max(0.0, value))


def _interval(sums: CorrectionSums, tuning: float, z: float, margin: float) -> MeanInterval:
    labelled, judged = sums.labelled, sums.judged
    u, v = judged.sums[_U], labelled.sums[_V]
    scores = judged.sums[_UF] / u
    gap = (labelled.sums[_VY] - tuning * labelled.sums[_VF]) / v
    mean = _CENTER + tuning * scores + gap
    # The influence of a record, as factors of its numbers.
    score_factors = (-tuning * scores / u, tuning / u, 0.0, 0.0, 0.0)
    label_factors = (-tuning * scores / u, tuning / u, -gap / v, -tuning / v, 1.0 / v)
    variance = sums.unlabelled.variation(score_factors) + labelled.variation(label_factors)
    reach = z * sqrt(variance) + margin
    return MeanInterval(mean=_within_range(mean), low=_within_range(mean - reach), high=_within_range(mean + reach))


def _tune(sums: CorrectionSums) -> float:
    """Return λ, between 0 and the upper limit of ppi-python."""
    labelled, judged, others = sums.labelled, sums.judged, sums.unlabelled.count
    slope = _slope(labelled)
    # A record counts u² among all records and u·v among the labelled ones, which is the same on average.
    spread = _score_variance(judged, (_U, _U), (_U, _UF), (_UF, _UF))
    if slope is None or not others or spread <= 0.0:
        return 0.0
    ratio = _score_variance(labelled, (_U, _V), (_U, _VF), (_UF, _VF)) / spread
    # As ppi-python does it: the covariance is divided by n, the variance by one less than its records.
    tuning = slope * ratio * (judged.count - 1) / judged.count
    return min(1.0 + labelled.count / others, max(0.0, tuning))


def _score_variance(
    records: _Products, weights: tuple[int, int], first: tuple[int, int], second: tuple[int, int]
) -> float:
    """Return the variance of the scores from the places of Σ w, Σ w·f and Σ w·f²."""
    weight = records.product(*weights)
    mean = records.product(*first) / weight
    return max(0.0, records.product(*second) / weight - mean * mean)


def _slope(labelled: _Products) -> float | None:
    """Return the slope of y on f, in which a record counts v·(v − u); None if all scores are equal."""
    # If every label was certain, v is u for all of them, and a record counts v².
    uncertain = labelled.product(_V, _V) - labelled.product(_U, _V) > 1e-9 * labelled.product(_V, _V)

    def moment(first: int, second: int, sampled: int) -> float:
        return labelled.product(first, second) - (labelled.product(sampled, second) if uncertain else 0.0)

    weight = moment(_V, _V, _U)
    f, y = moment(_V, _VF, _U) / weight, moment(_V, _VY, _U) / weight
    variance = moment(_VF, _VF, _UF) / weight - f * f
    return None if variance <= 1e-15 else (moment(_VF, _VY, _UF) / weight - f * y) / variance
