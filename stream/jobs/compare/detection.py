"""How well scores find the answers that people labelled no: AUROC, and precision, recall and F1 at two cuts.

A row is an alarm if its score is below the cut. The a-priori cut follows from the scale alone; the best cut is the one
with the highest F1 on these very rows, so it is a bound and not a result.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

from sinks.statistics.estimates import wilson
from stream.jobs.compare.measure import Measure, known, unknown

# The 97.5 % quantile of the normal distribution.
_Z = 1.959964

_ONE_CLASS = unknown("all labels are the same")

Labelled = Sequence[tuple[bool, float]]
"""Whether the label is no, and the score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranged:
    """A measure with its 95 % interval."""

    measure: Measure
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CutFigures:
    below: float
    """Scores below this are alarms."""

    alarms: int
    precision: Ranged
    recall: Ranged
    f1: Ranged


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    rows: int
    bad: int
    auroc: Ranged
    """The probability that an answer labelled no has a lower score than one labelled yes; ties count half."""

    a_priori: CutFigures
    best: CutFigures


def detect(labelled: Labelled, a_priori: float) -> Detection | None:
    """Return how well the scores find the rows labelled no; None without rows."""
    if not labelled:
        return None
    scores = sorted({score for _, score in labelled})
    # Above each score, so that every score can be the highest alarm; and one cut without alarms.
    cuts = [scores[0], *((low + high) / 2 for low, high in pairwise(scores)), scores[-1] + 1e-9]
    figures = [_figures(labelled, cut) for cut in cuts]
    return Detection(
        rows=len(labelled),
        bad=sum(is_bad for is_bad, _ in labelled),
        auroc=auroc(labelled),
        a_priori=_figures(labelled, a_priori),
        best=max(figures, key=lambda item: item.f1.measure.value or 0.0),
    )


def auroc(labelled: Labelled) -> Ranged:
    """Return the area under the ROC curve, with Hanley and McNeil's interval."""
    bad = [score for is_bad, score in labelled if is_bad]
    good = sorted(score for is_bad, score in labelled if not is_bad)
    if not bad or not good:
        return Ranged(measure=_ONE_CLASS)
    above = sum(2 * len(good) - bisect_left(good, score) - bisect_right(good, score) for score in bad)
    area = above / (2 * len(bad) * len(good))
    both_bad, both_good = area / (2 - area), 2 * area * area / (1 + area)
    variance = (
        area * (1 - area) + (len(bad) - 1) * (both_bad - area * area) + (len(good) - 1) * (both_good - area * area)
    ) / (len(bad) * len(good))
    reach = _Z * sqrt(max(0.0, variance))
    return Ranged(measure=known(area), low=max(0.0, area - reach), high=min(1.0, area + reach))


def _figures(labelled: Labelled, cut: float) -> CutFigures:
    alarms = sum(score < cut for _, score in labelled)
    bad = sum(is_bad for is_bad, _ in labelled)
    hits = sum(is_bad and score < cut for is_bad, score in labelled)
    return CutFigures(
        below=cut,
        alarms=alarms,
        precision=_share(hits, alarms, "no score is below the cut"),
        recall=_share(hits, bad, "no row is labelled no"),
        f1=_f1(hits, alarms + bad - hits),
    )


def _share(part: int, whole: int, reason: str) -> Ranged:
    if not whole:
        return Ranged(measure=unknown(reason))
    share = part / whole
    low, high = wilson(share, whole, share * (1 - share))
    return Ranged(measure=known(share), low=low, high=high)


def _f1(hits: int, either: int) -> Ranged:
    """Return F1 from the share of hits among the rows that are labelled no or alarms, of which it is a function."""
    share = _share(hits, either, "neither labelled nor found on any row")
    if share.measure.value is None or share.low is None or share.high is None:
        return share
    low, high = (2 * value / (1 + value) for value in (share.low, share.high))
    return Ranged(measure=known(2 * share.measure.value / (1 + share.measure.value)), low=low, high=high)
