"""Intervals for the mean of scores from a few sums, valid at every look.

For a candidate mean θ, y = w·(θ − x) is between −(1 − θ) and θ and on average 0 if θ is the mean. With n scores,
A = Σ y and B = Σ y², two kinds of capital then grow at no time beyond 1/miss with a probability of more than `miss`:

- exp(λ·A − ψ(λ)·B) with ψ(λ) = (−log(1 − cλ) − cλ)/c², c = 1 − θ and λ < 1/c (Fan's inequality): the best where
  scores spread less than passes and fails do;
- exp(λ·A − n·φ(λ)) with φ(λ) = λθ + log(1 − θ + θ·exp(−λ)) (Hoeffding's): the best for passes and fails.

So does their mean over some stakes λ. The candidates at which it has not grown beyond that are an interval that holds
at all times together: a confidence sequence. A and B need five sums, whatever θ is. The lower bound uses 1 − x.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, expm1, log, log1p
from typing import NamedTuple, Self

# Suitable for a dozen scores and for 100,000.
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
        """Kish's number of equally weighted scores that would be as informative."""
        return self.weight * self.weight / self.squares if self.squares else 0.0

    @property
    def mirrored(self) -> "WeightedTally":
        """The tally of 1 − x instead of x."""
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
    """A mean with its interval; no mean if there is no score."""

    mean: float | None
    low: float
    high: float
    effective_size: float
    scores: int

    @property
    def is_informative(self) -> bool:
        """Whether it rules out any mean, to three digits; that of a few scores does not."""
        return self.low >= 0.0005 or self.high < 0.9995


def interval(tally: WeightedTally, miss: float) -> Interval:
    """Return an interval that is ever wrong with a probability of at most `miss`."""
    low, high = lower_bound(tally, miss / 2.0), upper_bound(tally, miss / 2.0)
    mean = tally.mean
    if mean is not None:
        low, high = min(low, mean), max(high, mean)
    return Interval(mean=mean, low=low, high=high, effective_size=tally.effective_size, scores=tally.count)


def lower_bound(tally: WeightedTally, miss: float) -> float:
    return 1.0 - upper_bound(tally.mirrored, miss)


def upper_bound(tally: WeightedTally, miss: float) -> float:
    """Return the highest mean that the scores do not refute."""
    enough = -log(miss) if miss > 0.0 else float("inf")
    # From the top, so that all candidates above a refuted one are refuted too.
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
    logs += [stake * excess - spread * penalty(stake, reach) for stake in _STAKES if stake * reach < 1.0]
    most = max(logs)
    return most + log(sum(exp(capital - most) for capital in logs) / (_KINDS * len(_STAKES)))


def _cost(stake: float, candidate: float) -> float:
    """φ."""
    return stake * candidate + log1p(candidate * expm1(-stake))


def penalty(stake: float, reach: float) -> float:
    """Return ψ, for values that are at least −`reach`."""
    part = stake * reach
    # For small values the difference below would lose all its digits.
    if part < 1e-3:
        return stake * stake * (0.5 + part / 3.0 + part * part / 4.0 + part * part * part)
    return (-log1p(-part) - part) / (reach * reach)
