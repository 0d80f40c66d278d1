"""Accuracy of findings against human labels: accuracy, balanced accuracy, F1, and calibration of scores.

Every pair is the human label, then the finding.
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
    """The rows with a score above `low` and up to `high`; the first bin includes 0."""

    low: float
    high: float
    count: int
    found: float
    """The mean score of the findings."""

    said: float
    """The mean human label of the same rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    bins: tuple[Bin, ...] = ()
    """Bins that have rows."""

    error: Measure = NO_ROWS
    """The expected calibration error: the distance between a bin's two means, averaged over the rows."""


def accuracy(pairs: Pairs) -> Measure:
    return known(sum(label == finding for label, finding in pairs) / len(pairs)) if pairs else NO_ROWS


def balanced_accuracy(pairs: Pairs) -> Measure:
    """Return the mean over the labelled classes of the share of each that was found."""
    if not pairs:
        return NO_ROWS
    labels = Counter(label for label, _ in pairs)
    hits = Counter(label for label, finding in pairs if label == finding)
    return known(fmean(hits[label] / count for label, count in labels.items()))


def f1(pairs: Pairs, positive: frozenset[int]) -> Measure:
    """Return the F1 of the positive classes: 2·hits / (labelled + found)."""
    if not pairs:
        return NO_ROWS
    total = sum((label in positive) + (finding in positive) for label, finding in pairs)
    hits = sum(label in positive and finding in positive for label, finding in pairs)
    return known(2.0 * hits / total) if total else unknown("neither labelled nor found on any row")


def macro_f1(pairs: Pairs) -> Measure:
    """Return the mean F1 of every class that was labelled or found; rare classes weigh as much as others."""
    classes = sorted({name for pair in pairs for name in pair})
    values = [f1(pairs, frozenset({name})).value for name in classes]
    return known(fmean(value for value in values if value is not None)) if values else NO_ROWS


def calibration(pairs: Sequence[tuple[float, float]]) -> Calibration:
    """Compare scores on 0 to 1 with labels: rows scored 0.8 should be labelled 0.8 on average."""
    if not pairs:
        return Calibration()
    edges = [step / BINS for step in range(1, BINS)]
    binned: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for pair in pairs:
        binned[bisect_left(edges, pair[1])].append(pair)
    bins = tuple(_bin(index, binned[index]) for index in sorted(binned))
    distance = sum(part.count * abs(part.found - part.said) for part in bins)
    return Calibration(bins=bins, error=known(distance / len(pairs)))


def _bin(index: int, pairs: Sequence[tuple[float, float]]) -> Bin:
    return Bin(
        low=index / BINS,
        high=(index + 1) / BINS,
        count=len(pairs),
        found=fmean(finding for _, finding in pairs),
        said=fmean(label for label, _ in pairs),
    )
