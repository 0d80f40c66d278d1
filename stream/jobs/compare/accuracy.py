"""Accuracy of findings against human labels: accuracy, balanced accuracy, F1, and calibration of scores.

Every pair is what people said, then what was found.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from stream.jobs.compare.agreement import Pairs
from stream.jobs.compare.measure import NO_ROWS, Measure, known, unknown

BINS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """The rows with a score above `low` and up to `high`; the first bin has 0 in it too."""

    low: float
    high: float
    count: int
    found: float
    """The mean of the scores that were found."""

    said: float
    """The mean of what people said of the same rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    bins: tuple[Bin, ...] = ()
    """Those that have rows."""

    error: Measure = NO_ROWS
    """The expected calibration error: how far a bin's two means are apart, on average over the rows."""


def accuracy(pairs: Pairs) -> Measure:
    return known(sum(said == found for said, found in pairs) / len(pairs)) if pairs else NO_ROWS


def balanced_accuracy(pairs: Pairs) -> Measure:
    """The mean, over the classes that people gave, of the share of each that was found."""
    if not pairs:
        return NO_ROWS
    said = Counter(said for said, _ in pairs)
    hits = Counter(said for said, found in pairs if said == found)
    return known(fmean(hits[each] / count for each, count in said.items()))


def f1(pairs: Pairs, positive: frozenset[int]) -> Measure:
    """Of one side of a cut: 2·hits / (said + found), where both counts are of what is on that side."""
    if not pairs:
        return NO_ROWS
    said = sum(said in positive for said, _ in pairs)
    found = sum(found in positive for _, found in pairs)
    hits = sum(said in positive and found in positive for said, found in pairs)
    return known(2.0 * hits / (said + found)) if said + found else unknown("neither labelled nor found on any row")


def macro_f1(pairs: Pairs) -> Measure:
    """The mean of the F1 of every class that was said or found; the rare ones weigh as much as the others."""
    classes = sorted({each for pair in pairs for each in pair})
    values = [f1(pairs, frozenset({each})).value for each in classes]
    return known(fmean(value for value in values if value is not None)) if values else NO_ROWS


def calibration(pairs: Sequence[tuple[float, float]]) -> Calibration:
    """Of scores on 0 to 1: what is scored 0.8 should be 0.8 to people, on average."""
    if not pairs:
        return Calibration()
    edges = [step / BINS for step in range(1, BINS)]
    binned: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for pair in pairs:
        binned[bisect_left(edges, pair[1])].append(pair)
    bins = tuple(_bin(index, binned[index]) for index in sorted(binned))
    apart = sum(each.count * abs(each.found - each.said) for each in bins)
    return Calibration(bins=bins, error=known(apart / len(pairs)))


def _bin(index: int, pairs: Sequence[tuple[float, float]]) -> Bin:
    return Bin(
        low=index / BINS,
        high=(index + 1) / BINS,
        count=len(pairs),
        found=fmean(found for _, found in pairs),
        said=fmean(said for said, _ in pairs),
    )
