"""Figures of a tagger: area under the ROC curve, precision, recall and F1."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Figures(NamedTuple):
    auroc: float
    f1: float
    precision: float
    recall: float
    best_f1: float
    """At the best threshold of these very rows: an upper bound, not a result."""

    best_threshold: float
    rows: int


def measure(labels: Sequence[bool], probabilities: Sequence[float], threshold: float) -> Figures:
    truth, scores = np.array(labels, bool), np.array(probabilities, float)
    precision, recall, f1 = _at(truth, scores, threshold)
    candidates = [(_at(truth, scores, float(cut))[2], float(cut)) for cut in np.unique(scores)]
    best = max(candidates) if candidates else (0.0, 0.5)
    return Figures(auroc(truth.tolist(), scores.tolist()), f1, precision, recall, *best, len(truth))


def _at(truth: npt.NDArray[np.bool_], scores: npt.NDArray[np.float64], threshold: float) -> tuple[float, float, float]:
    flagged = scores >= threshold
    right = float((flagged & truth).sum())
    precision = right / max(1.0, float(flagged.sum()))
    recall = right / max(1.0, float(truth.sum()))
    return precision, recall, 2 * precision * recall / max(1e-9, precision + recall)


def auroc(labels: Sequence[bool], scores: Sequence[float]) -> float:
    """Return the probability that an unsupported answer has a higher score than a supported one; ties count half."""
    truth, values = np.array(labels, bool), np.array(scores, float)
    positive, negative = values[truth], np.sort(values[~truth])
    if not len(positive) or not len(negative):
        return float("nan")
    below = np.searchsorted(negative, positive, "left")
    up_to = np.searchsorted(negative, positive, "right")
    return float((below + up_to).mean() / 2 / len(negative))
