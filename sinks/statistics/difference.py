"""The mean difference of two scores of the same rows, with its interval, and the distribution of a list of numbers.

The interval is Student's for paired differences: mean ± t·s/√n, where s is their standard deviation and t the 97.5 %
quantile for n − 1 degrees of freedom. It assumes independent rows. If only few of many rows differ, it is
too narrow: with fewer than about five rows that differ, read those rows instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, floor, lgamma, log, sqrt
from statistics import NormalDist, fmean

_CONFIDENCE = 0.95
# The smallest divisor of a continued fraction, and the change at which it has converged.
_TINY = 1e-300
_ENOUGH = 1e-15


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The second minus the first: above 0 if the second is higher."""

    rows: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    """The reason if there is no mean, or no interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A summary of numbers: their sum, mean, median and 95th percentile."""

    count: int
    total: float | None = None
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None


def paired_difference(pairs: Sequence[tuple[float, float]]) -> Difference:
    differences = [second - first for first, second in pairs]
    count = len(differences)
    if not count:
        return Difference(rows=0, reason="no rows to compare")
    mean = fmean(differences)
    if count == 1:
        return Difference(rows=1, mean=mean, reason="one row has no interval")
    if min(differences) == max(differences):
        return Difference(rows=count, mean=mean, reason="the same difference on every row")
    deviation = sqrt(sum((difference - mean) ** 2 for difference in differences) / (count - 1))
    reach = student_quantile(count - 1) * deviation / sqrt(count)
    return Difference(rows=count, mean=mean, low=mean - reach, high=mean + reach)


def spread_of(numbers: Sequence[float]) -> Spread:
    if not numbers:
        return Spread(count=0)
    rising = sorted(numbers)
    return Spread(
        count=len(rising),
        total=sum(rising),
        mean=fmean(rising),
        p50=_percentile(rising, 0.50),
        p95=_percentile(rising, 0.95),
    )


def _percentile(rising: Sequence[float], share: float) -> float:
    """Interpolate linearly between the two nearest numbers."""
    place = share * (len(rising) - 1)
    below = floor(place)
    above = min(below + 1, len(rising) - 1)
    return rising[below] + (rising[above] - rising[below]) * (place - below)


@lru_cache(maxsize=256)
def student_quantile(freedom: int, confidence: float = _CONFIDENCE) -> float:
    """Return the t such that Student's t is between −t and t with this probability."""
    low, high = 0.0, NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    while _within(high, freedom) < confidence:
        low, high = high, 2.0 * high
    while True:
        middle = (low + high) / 2.0
        # No number is left between the two.
        if middle in (low, high):
            return middle
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)


def _within(t: float, freedom: int) -> float:
    """Return the probability that Student's t is between −t and t."""
    rest = freedom / (freedom + t * t)
    return 1.0 - _beta_share(rest, freedom / 2.0, 0.5, t * t / (freedom + t * t))


def _beta_share(x: float, a: float, b: float, rest: float) -> float:
    """Return the regularised incomplete beta function at x; `rest` is 1 − x, passed to avoid rounding."""
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _beta_share(rest, b, a, x)
    if x == 0.0:
        return 0.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(rest))
    return front / (a * _beta_fraction(x, a, b))


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Return its continued fraction 1 + c₁/(1 + c₂/(1 + …)), from the front (the modified method of Lentz)."""
    value, upper, lower, step = 1.0, 1.0, 0.0, 0
    while True:
        step += 1
        term = _beta_term(step, x, a, b)
        lower = 1.0 / (1.0 + term * lower or _TINY)
        upper = 1.0 + term / upper or _TINY
        value *= upper * lower
        if abs(upper * lower - 1.0) <= _ENOUGH or step >= 10_000:
            return value


def _beta_term(step: int, x: float, a: float, b: float) -> float:
    half = step // 2
    if step % 2:
        return -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
    return half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
