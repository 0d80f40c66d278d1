"""How well a judge agrees with people: sensitivity, specificity, weighted kappa and bias, each with a 95 % interval.

An answer is bad if its score is below the middle of the scale. Sensitivity is the share of the answers that people
call bad and the judge, too; specificity the share of the others that the judge does not call bad. Their intervals are
Wilson's. Kappa weighs a confusion by the distance of the two scores (linear weights); its interval is that of the
jackknife. Bias is the mean of score − label, with Student's interval.

Answers count once each, without weights: this is about the labelled answers, and if uncertain ones were labelled more
often than others, the judge does better on all traffic.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

from sinks.statistics.difference import Difference, paired_difference
from sinks.statistics.estimates import wilson
from sinks.statistics.kappa import kappa

_BAD_BELOW = 0.5
_Z = NormalDist().inv_cdf(0.975)
# Steps of the scale for kappa: scores of two, three, four and five levels fall on them.
_STEPS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class RangedShare:
    """A figure with its interval; all are None if it is not known."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


class JudgeCriterion(NamedTuple):
    """A judge, and the criterion by which it is compared with people."""

    judge: str
    criterion: str


class JudgeSlice(NamedTuple):
    """A judge and a criterion, on the answers that have one value of an attribute, such as a language."""

    judge: str
    criterion: str
    attribute: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeQuality:
    """The agreement of a judge with people."""

    labels: int
    sensitivity: RangedShare
    specificity: RangedShare
    kappa: RangedShare
    bias: Difference
    """Above 0 if the judge is milder than people."""

    @property
    def figures(self) -> Mapping[str, RangedShare]:
        """All figures by their names."""
        return {
            "sensitivity": self.sensitivity,
            "specificity": self.specificity,
            "kappa": self.kappa,
            "bias": RangedShare(value=self.bias.mean, low=self.bias.low, high=self.bias.high),
        }


def judge_quality(pairs: Sequence[tuple[float, float]]) -> JudgeQuality:
    """Return the quality of a judge from pairs of its score and the label."""
    is_bad = [(score < _BAD_BELOW, label < _BAD_BELOW) for score, label in pairs]
    return JudgeQuality(
        labels=len(pairs),
        sensitivity=_share([judge for judge, person in is_bad if person]),
        specificity=_share([not judge for judge, person in is_bad if not person]),
        kappa=_weighted_kappa(Counter((round(score * _STEPS), round(label * _STEPS)) for score, label in pairs)),
        bias=paired_difference([(label, score) for score, label in pairs]),
    )


def _share(hits: Sequence[bool]) -> RangedShare:
    if not hits:
        return RangedShare()
    share = sum(hits) / len(hits)
    low, high = wilson(share, len(hits), share * (1.0 - share))
    return RangedShare(value=share, low=low, high=high)


def _weighted_kappa(joint: Mapping[tuple[int, int], int]) -> RangedShare:
    value, count = _linear_kappa(joint), sum(joint.values())
    if value is None:
        return RangedShare()
    # Without one of the labels of each cell; equal labels give equal results.
    others = {cell: _linear_kappa({**joint, cell: joint[cell] - 1}) for cell in joint}
    known = [(other, joint[cell]) for cell, other in others.items() if other is not None]
    if count < 3 or sum(times for _, times in known) < count:
        return RangedShare(value=value)
    mean = sum(other * times for other, times in known) / count
    variance = (count - 1) / count * sum(times * (other - mean) ** 2 for other, times in known)
    reach = _Z * sqrt(variance)
    return RangedShare(value=value, low=max(-1.0, value - reach), high=min(1.0, value + reach))


def _linear_kappa(joint: Mapping[tuple[int, int], int]) -> float | None:
    return kappa(joint, lambda one, other: abs(one - other))
