"""Agreement of two sides that judged the same rows: shares, Cohen's kappa plain and weighted, Spearman's correlation.

Classes are numbers from 0, and for the weighted kappas also places on an ordered scale: confusing neighbours weighs
less than confusing the ends. A measure can be unknown, with a reason: there is no agreement beyond chance if both
always chose the same class, and no correlation with a constant.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from math import sqrt
from typing import Literal

from sinks.statistics.kappa import kappa
from stream.jobs.compare.measure import NO_ROWS, Measure, known, unknown

Pairs = Sequence[tuple[int, int]]
Weights = Literal["plain", "linear", "quadratic"]

_DISTANCES: Mapping[Weights, Callable[[int, int], int]] = {
    "plain": lambda one, other: int(one != other),
    "linear": lambda one, other: abs(one - other),
    "quadratic": lambda one, other: (one - other) ** 2,
}


def share_equal(pairs: Pairs) -> Measure:
    """Return the share of rows on which both chose the same class."""
    return known(sum(one == other for one, other in pairs) / len(pairs)) if pairs else NO_ROWS


def cohen_kappa(pairs: Pairs, weights: Weights = "plain") -> Measure:
    """Return Cohen's kappa: 1 is full agreement, 0 the agreement of chance, below 0 less than that."""
    if not pairs:
        return NO_ROWS
    value = kappa(Counter(pairs), _DISTANCES[weights])
    return unknown("both chose the same class on every row") if value is None else known(value)


def spearman(pairs: Sequence[tuple[float, float]]) -> Measure:
    """Return the correlation of the ranks; equal numbers share the mean of their ranks."""
    if len(pairs) < 2:
        return unknown("fewer than two rows to rank") if pairs else NO_ROWS
    one, other = (_centred_ranks([pair[side] for pair in pairs]) for side in (0, 1))
    if not any(one) or not any(other):
        return unknown("one side is the same on every row")
    shared = sum(x * y for x, y in zip(one, other, strict=True))
    spread = sqrt(sum(x * x for x in one) * sum(y * y for y in other))
    return known(min(1.0, max(-1.0, shared / spread)))


def _centred_ranks(numbers: Sequence[float]) -> list[int]:
    """Return twice the distance of each rank from the mean rank: an integer even if ranks are shared."""
    ranks = [0] * len(numbers)
    before = 0
    for _number, group in groupby(sorted(range(len(numbers)), key=numbers.__getitem__), key=numbers.__getitem__):
        places = list(group)
        for place in places:
            ranks[place] = 2 * before + len(places) - len(numbers)
        before += len(places)
    return ranks
