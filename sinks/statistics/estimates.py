"""Estimates for all traffic from the judged records, with their intervals.

Records are chosen independently of each other, each with its own probability π (Poisson sampling), and a score is in
[0, 1]. A record chosen with π represents w = 1/π records, including itself.

**Mean**: Hájek's, Σ w·s / Σ w. It needs no count of the traffic, stays in the range of the scores, and is exact when
all scores are equal.

**Variance**: linearised, Σ w·(w − 1)·(s − mean)² / (Σ w)². The factor w·(w − 1) = (1 − π)/π² is the finite-population
correction: a record that was certain to be chosen (π = 1) adds none, and the estimate is for the mean of the traffic
that really came, not of a process behind it. Like every linearised variance it is too small for a few records (by a
quarter for nine, by 7 % for 37); the interval does not depend on it there.

**Interval** (95 %): mean ± 1.96·√variance misses rare bad answers: when few are expected, often none or one was chosen,
and mean and variance are too small together. With five expected it covers 91 % instead of 95 %, and with one 63 %. A
Wilson or logit interval around the mean does not help where risky traffic is fully sampled, because most of the bad
answers in the mean are then certain and do not show how many of the others were missed. So Wilson's interval is
computed around the mean of the uncertain part alone, in which a record weighs w·(w − 1), its part in the variance:

1. That part represents C²/D records, where C = Σ w·(w − 1) and D = Σ w·(w − 1)², and is worth C³/D² independent ones.
   These two keep the variance and give the interval the skewness that the sampling of rare events has. If all π are
   equal, they are the whole traffic and n/(1 − π); records with π = 1 are not in them.
2. Scores between 0 and 1 spread less than passes and fails do, and the size is raised by as much. Both are taken with
   one more record of the largest spread, so that a few records with the same score do not seem certain.
3. The distances from the mean of this part to its limits, and the rest of the variance (the uncertainty about how much
   of the traffic is uncertain), are added as squares (Zou and Donner's method of variance estimates recovery).

**Strata** (rules, lanes) of known size are combined by their shares of the traffic, and their distances likewise.

**Design effect**: the variance over that of a simple random sample of as many records.

**Coverage**: the scored share of the traffic that the chosen records represent. Mean and interval are about
that share only: whether the rest would have scored alike is unknown, and no interval here accounts for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import hypot, sqrt
from statistics import NormalDist
from typing import NamedTuple, Self

_Z = NormalDist().inv_cdf(0.975)
# A score in [0, 1] has at most this variance.
_MOST_SPREAD = 0.25
# The draws of the sampler have 53 bits.
_MIN_PROBABILITY = 2.0**-53


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """A weighted mean and the spread around it, in a form that never subtracts large numbers from each other."""

    weight: float = 0.0
    mean: float = 0.0
    spread: float = 0.0
    """Σ weight·(score − mean)²."""

    def __add__(self, other: Self) -> "Moments":
        weight = self.weight + other.weight
        if weight == 0.0:
            return self
        share, step = other.weight / weight, other.mean - self.mean
        return Moments(
            weight=weight,
            mean=_within_range(self.mean + step * share),
            spread=self.spread + other.spread + step * step * share * self.weight,
        )

    def about(self, center: float) -> float:
        """Σ weight·(score − center)²."""
        return self.spread + self.weight * (self.mean - center) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """The sums that an estimate needs; those of two processes can be added."""

    count: int = 0
    uncertain_count: int = 0
    """Records that were not certain to be chosen."""
    records: Moments = field(default_factory=Moments)
    """Records weighted by w."""
    uncertain: Moments = field(default_factory=Moments)
    """Records weighted by their part in the variance, w·(w − 1)."""
    squares: float = 0.0
    """Σ w²."""
    cubes: float = 0.0
    """Σ w·(w − 1)²."""
    unscored: float = 0.0
    """Σ w over the records that were chosen and could not be scored."""

    @classmethod
    def of(cls, score: float | None, probability: float, *, times: int = 1) -> Self:
        """Return the sums of one record, or of `times` equal ones; None is a missing score."""
        if not _MIN_PROBABILITY <= probability <= 1.0:
            raise ValueError(f"an inclusion probability must be above 0 and at most 1, not {probability}")
        if times < 0:
            raise ValueError(f"a number of records must be at least 0, not {times}")
        weight = 1.0 / probability
        if score is None:
            return cls(unscored=times * weight)
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"a score must be between 0 and 1, not {score}")
        unseen = weight - 1.0
        return cls(
            count=times,
            uncertain_count=times if unseen > 0.0 else 0,
            records=Moments(weight=times * weight, mean=float(score)),
            uncertain=Moments(weight=times * weight * unseen, mean=float(score)),
            squares=times * weight * weight,
            cubes=times * weight * unseen * unseen,
            unscored=0.0,
        )

    def __add__(self, other: Self) -> "Sums":
        return Sums(
            count=self.count + other.count,
            uncertain_count=self.uncertain_count + other.uncertain_count,
            records=self.records + other.records,
            uncertain=self.uncertain + other.uncertain,
            squares=self.squares + other.squares,
            cubes=self.cubes + other.cubes,
            unscored=self.unscored + other.unscored,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An estimate of the mean score of all traffic; a value that needs more records is None."""

    count: int
    """Scored records."""
    coverage: float | None = None
    """The share of the traffic that could be scored, or None if there was none."""
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    variance: float | None = None
    effective_size: float | None = None
    """Kish's effective sample size: the number of equally weighted records with the same information."""
    design_effect: float | None = None
    """None if a simple random sample would have no variance to compare with."""

    @property
    def weighting_effect(self) -> float | None:
        """Kish's design effect: the factor by which unequal weights increase the needed number of records."""
        return None if self.effective_size is None else self.count / self.effective_size


class Estimator:
    """Collects records one by one; the results of several processes can be merged."""

    def __init__(self, sums: Sums | None = None) -> None:
        self.sums = sums or Sums()

    def add(self, score: float | None, probability: float) -> None:
        self.sums += Sums.of(score, probability)

    def merge(self, other: "Estimator | Sums") -> None:
        self.sums += other.sums if isinstance(other, Estimator) else other

    def result(self) -> Estimate:
        return estimate(self.sums)


def estimate(sums: Sums) -> Estimate:
    """Compute an estimate. A single record that was not certain to be chosen has no variance and no interval."""
    coverage = _coverage(sums)
    if not sums.count:
        return Estimate(count=0, coverage=coverage)
    mean, effective_size = sums.records.mean, _effective_size(sums)
    if _is_lone(sums):
        return Estimate(count=1, coverage=coverage, mean=mean, effective_size=effective_size)
    variance, reach = _variance(sums), _reach(sums)
    return Estimate(
        count=sums.count,
        coverage=coverage,
        mean=mean,
        low=_within_range(mean - reach.below),
        high=_within_range(mean + reach.above),
        variance=variance,
        effective_size=effective_size,
        design_effect=_design_effect(variance, _population_variance(sums), sums.count, sums.records.weight),
    )


def combine(strata: Mapping[str, tuple[Sums, float]]) -> Estimate:
    """Combine strata, each with its known number of records, into an estimate for all traffic.

    A stratum without scores is left out of the mean and lowers the coverage. A stratum with a single uncertain record
    counts with the largest possible spread: one rare rule must neither remove the interval of all others nor seem
    certain.
    """
    if any(not 0.0 <= traffic < float("inf") for _sums, traffic in strata.values()):
        raise ValueError("the traffic of a stratum must be a number of records")
    total = sum(traffic for _sums, traffic in strata.values())
    scored = [(sums, traffic) for sums, traffic in strata.values() if sums.count and traffic]
    coverage = sum(traffic * (_coverage(sums) or 0.0) for sums, traffic in strata.values()) / total if total else None
    covered = sum(traffic for _sums, traffic in scored)
    count = sum(sums.count for sums, _traffic in scored)
    if not scored:
        return Estimate(count=0, coverage=coverage)
    parts = [(sums, traffic / covered) for sums, traffic in scored]
    mean = _within_range(sum(share * sums.records.mean for sums, share in parts))
    effective_size = 1.0 / sum(share**2 / _effective_size(sums) for sums, share in parts)
    if len(parts) == 1 and _is_lone(parts[0][0]):
        return Estimate(count=1, coverage=coverage, mean=mean, effective_size=effective_size)
    variance = sum(share**2 * _variance(sums) for sums, share in parts)
    spread = sum(share * (_population_variance(sums) + (sums.records.mean - mean) ** 2) for sums, share in parts)
    reaches = [(_reach(sums), share) for sums, share in parts]
    return Estimate(
        count=count,
        coverage=coverage,
        mean=mean,
        low=_within_range(mean - hypot(*(share * reach.below for reach, share in reaches))),
        high=_within_range(mean + hypot(*(share * reach.above for reach, share in reaches))),
        variance=variance,
        effective_size=effective_size,
        design_effect=_design_effect(variance, spread, count, covered),
    )


class _IntervalReach(NamedTuple):
    """The distances of an interval's ends from its mean."""

    below: float
    above: float


def _within_range(value: float) -> float:
    return min(1.0, max(0.0, value))


def _is_lone(sums: Sums) -> bool:
    return sums.count == 1 and sums.uncertain_count == 1


def _coverage(sums: Sums) -> float | None:
    chosen = sums.records.weight + sums.unscored
    return sums.records.weight / chosen if chosen else None


def _effective_size(sums: Sums) -> float:
    size = sums.records.weight / sums.squares * sums.records.weight
    # Rounding must not make it larger than the count.
    return min(float(sums.count), max(1.0, size))


def _population_variance(sums: Sums) -> float:
    return sums.records.spread / sums.records.weight


def _design_effect(variance: float, spread: float, count: int, traffic: float) -> float | None:
    simple = (1.0 - count / traffic) * spread / count
    return variance / simple if simple > 0.0 else None


def _variance(sums: Sums) -> float:
    weight = sums.records.weight
    if _is_lone(sums):
        return _MOST_SPREAD * sums.uncertain.weight / weight / weight
    return sums.uncertain.about(sums.records.mean) / weight / weight


def _reach(sums: Sums) -> _IntervalReach:
    """Compute the interval by the numbered steps in the module's docstring."""
    mean, part = sums.records.mean, sums.uncertain
    if part.weight == 0.0:
        return _IntervalReach(0.0, 0.0)
    if _is_lone(sums):
        return _IntervalReach(mean, 1.0 - mean)
    # 1.
    records = part.weight / sums.cubes * part.weight
    size = part.weight / sums.cubes * records
    # 2.
    passes = size / _relative_spread(part, min(sums.uncertain_count, size))
    low, high = wilson(part.mean, passes, part.mean * (1.0 - part.mean))
    # 3.
    share = records / sums.records.weight
    rest = _Z * sqrt(part.weight) * (part.mean - mean) / sums.records.weight
    return _IntervalReach(hypot(share * (part.mean - low), rest), hypot(share * (high - part.mean), rest))


def _relative_spread(part: Moments, size: float) -> float:
    """Return the spread relative to that of passes and fails with the same mean."""
    most = part.mean * (1.0 - part.mean)
    spread = min(most, part.spread / part.weight)
    return (size * spread + _MOST_SPREAD) / (size * most + _MOST_SPREAD)


def wilson(mean: float, size: float, variance: float) -> tuple[float, float]:
    """Return Wilson's 95 % score interval; for a share, the variance is mean · (1 − mean)."""
    extra = _Z * _Z / size
    center = (mean + extra / 2.0) / (1.0 + extra)
    half = sqrt(extra * variance + extra * extra / 4.0) / (1.0 + extra)
    return min(mean, max(0.0, center - half)), max(mean, min(1.0, center + half))
