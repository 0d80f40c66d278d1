"""Intervals for the mean of scores from a few sums, valid at every look.

For a candidate mean θ, y = w·(θ − x) is between −(1 − θ) and θ and on average 0 if θ is the mean. With n scores,
A = Σ y and B = Σ y², two kinds of capital then grow at no time beyond 1/miss with a probability of more than `miss`:

- exp(λ·A − ψ(λ)·B) with ψ(λ) = (−log(1 − cλ) − cλ)/c², c = 1 − θ and λ < 1/c (Fan's inequality): the best where
  scores spread less than passes and fails do;
- exp(λ·A − n·φ(λ)) with φ(λ) = λθ + log(1 − θ + θ·exp(−λ)) (Hoeffding's): the best for passes and fails.

So does their mean over some stakes λ. The means at which it has not are an interval that holds at all times together: a
confidence sequence. A and B need five sums, whatever θ is. From below it is the same with 1 − x.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, expm1, log, log1p
from typing import NamedTuple, Self

# Good for the mean of a dozen scores and for that of 100,000.
_STAKES = (0.03, 0.075, 0.19, 0.47, 1.2, 2.9)
_KINDS = 2
_STEPS = 32
_HALVINGS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedTally:
    """Sums over scores x with weights w."""

    count: int = 0
    weight: float = 0.0
    """Σ w."""
    total: float = 0.0
    """Σ w·x."""
    squares: float = 0.0
    """Σ w²."""
    cross: float = 0.0
    """Σ w²·x."""
    power: float = 0.0
    """Σ w²·x²."""

    def plus(self, score: float, weight: float = 1.0) -> "WeightedTally":
        square = weight * weight
        return WeightedTally(
            count=self.count + 1,
            weight=self.weight + weight,
            total=self.total + weight * score,
            squares=self.squares + square,
            cross=self.cross + square * score,
            power=self.power + square * score * score,
        )

    @property
    def mean(self) -> float | None:
        return min(1.0, max(0.0, self.total / self.weight)) if self.weight else None

    @property
    def effective_size(self) -> float:
        """Kish's: how many scores of equal weight tell as much."""
        return self.weight * self.weight / self.squares if self.squares else 0.0

    @property
    def mirrored(self) -> "WeightedTally":
        """Of 1 − x instead of x."""
        return WeightedTally(
            count=self.count,
            weight=self.weight,
            total=self.weight - self.total,
            squares=self.squares,
            cross=self.squares - self.cross,
            power=self.squares - 2.0 * self.cross + self.power,
        )

    def as_list(self) -> list[float]:
        if not self.count:
            return []
        return [self.count, self.weight, self.total, self.squares, self.cross, self.power]

    @classmethod
    def from_list(cls, numbers: Sequence[float]) -> Self:
        if not numbers:
            return cls()
        count, weight, total, squares, cross, power = (float(number) for number in numbers)
        return cls(count=int(count), weight=weight, total=total, squares=squares, cross=cross, power=power)


class Interval(NamedTuple):
    """A mean and what it may be; no mean if there is no score."""

    mean: float | None
    low: float
    high: float
    effective_size: float
    scores: int


def interval(tally: WeightedTally, miss: float) -> Interval:
    """Wrong at any time with a probability of at most `miss`."""
    low, high = lower_bound(tally, miss / 2.0), upper_bound(tally, miss / 2.0)
    mean = tally.mean
    if mean is not None:
        low, high = min(low, mean), max(high, mean)
    return Interval(mean=mean, low=low, high=high, effective_size=tally.effective_size, scores=tally.count)


def lower_bound(tally: WeightedTally, miss: float) -> float:
    return 1.0 - upper_bound(tally.mirrored, miss)


def upper_bound(tally: WeightedTally, miss: float) -> float:
    """The highest mean against which the scores do not speak enough."""
    enough = -log(miss) if miss > 0.0 else float("inf")
    # From the top, so that a candidate above one that is refuted is refuted too.
    refuted = 1.0
    if not tally.count or _log_capital(tally, refuted) < enough:
        return 1.0
    for step in range(_STEPS - 1, -1, -1):
        candidate = step / _STEPS
        if _log_capital(tally, candidate) < enough:
            return _between(tally, candidate, refuted, enough)
        refuted = candidate
    return 0.0


def _between(tally: WeightedTally, possible: float, refuted: float, enough: float) -> float:
    for _halving in range(_HALVINGS):
        middle = (possible + refuted) / 2.0
        if _log_capital(tally, middle) < enough:
            possible = middle
        else:
            refuted = middle
    return refuted


def _log_capital(tally: WeightedTally, candidate: float) -> float:
    reach = 1.0 - candidate
    excess = candidate * tally.weight - tally.total
    spread = max(0.0, candidate * candidate * tally.squares - 2.0 * candidate * tally.cross + tally.power)
    logs = [stake * excess - tally.count * _cost(stake, candidate) for stake in _STAKES]
    logs += [stake * excess - spread * _penalty(stake, reach) for stake in _STAKES if stake * reach < 1.0]
    most = max(logs)
    return most + log(sum(exp(one - most) for one in logs) / (_KINDS * len(_STAKES)))


def _cost(stake: float, candidate: float) -> float:
    """φ."""
    return stake * candidate + log1p(candidate * expm1(-stake))


def _penalty(stake: float, reach: float) -> float:
    """ψ."""
    part = stake * reach
    # The difference below has no digits left where this has many.
    if part < 1e-3:
        return stake * stake * (0.5 + part / 3.0 + part * part / 4.0 + part * part * part)
    return (-log1p(-part) - part) / (reach * reach)
