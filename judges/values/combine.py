"""Combines several numbers, or several votes on one scale, into one, for the samples of a judge and for judges.

With fractions a result is rounded only once: it stays within the range of its inputs, and no sum overflows.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, repeat
from typing import Literal

Numeric = Literal["mean", "median", "min", "max"]

# Far above any useful weight, and far below where sums of weights lose precision.
MAX_WEIGHT = 1e9

_NUMERIC: Mapping[Numeric, Callable[[Sequence[Fraction]], Fraction]] = {
    "mean": lambda numbers: sum(numbers, Fraction()) / len(numbers),
    "median": statistics.median,
    "min": min,
    "max": max,
}

_MIRRORED: Mapping[Numeric, Numeric] = {"min": "max", "max": "min"}


def combine_numbers(rule: Numeric, numbers: Sequence[float]) -> float:
    if len(numbers) == 1:
        return numbers[0] + 0.0  # no negative zero, as with fractions
    return float(_NUMERIC[rule]([Fraction(number) for number in numbers]))


def mirror(rule: Numeric) -> Numeric:
    """Return the same rule for a scale on which larger is worse."""
    return _MIRRORED.get(rule, rule)


def weighted_mean(numbers: Sequence[float], weights: Sequence[float]) -> float:
    shares = [Fraction(weight) for weight in weights]
    return float(sum(share * Fraction(number) for share, number in zip(shares, numbers, strict=True)) / sum(shares))


def lower_median(ranks: Sequence[int], weights: Sequence[float] | None = None) -> int:
    """Return the rank, counted from the worst, at which at least half of the votes, by weight, say "this, or worse".

    That is the majority if there is one, and the worse side of a tie; a voter that becomes stricter never raises it.
    """
    if len(ranks) == 1:
        return ranks[0]
    votes = sorted(zip(ranks, map(Fraction, repeat(1, len(ranks)) if weights is None else weights), strict=True))
    half = sum(weight for _, weight in votes) / 2
    sums = accumulate(weight for _, weight in votes)
    return next(rank for (rank, _), so_far in zip(votes, sums, strict=True) if so_far >= half)
