"""How likely a judged answer is chosen for labelling, and how many labels an interval needs.

The interval of a corrected mean is narrowest for a number of labels if a judged answer is chosen with a probability in
proportion to its weight 1/π times the expected error of its score (Neyman's allocation). The signals of an evaluation
are only a guess at that error, so no answer has less than a part of the largest probability, the floor: if the guess is
useless, the estimate stays correct, and its interval cannot become much wider.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import NormalDist

from sinks.statistics.corrected import MIN_LABELS, CorrectionSums, correct

# A score this far from a threshold is certainly on its side of it.
_CLEAR_DISTANCE = 0.25
# The expected error without any signal, relative to the largest: judges who agree and are certain are wrong, too.
_LEAST_ERROR = 0.5
# A score in [0, 1] has at most this variance.
_MOST_SPREAD = 0.25


def expected_error(
    *, disagreement: float | None = None, certainty: float | None = None, distance: float | None = None
) -> float:
    """Return a guess at the error of a score relative to the largest one, from its largest signal.

    `disagreement` is the spread of the judges' scores, `certainty` the probability of the answer that a model gave, and
    `distance` how far the score is from a threshold. None is a missing signal.
    """
    signal = 0.0
    if disagreement is not None:
        signal = max(signal, disagreement)
    if certainty is not None:
        signal = max(signal, 2.0 * (1.0 - certainty))
    if distance is not None:
        signal = max(signal, 1.0 - distance / _CLEAR_DISTANCE)
    return _LEAST_ERROR + (1.0 - _LEAST_ERROR) * min(1.0, signal)


def label_probability(error: float, probability: float, *, rate: float, floor: float, lowest: float) -> float:
    """Return the probability of choosing a judged answer: `rate` for the largest error and weight, less for others.

    `probability` is that of being sampled, and `lowest` the smallest that the sampler uses, which has the largest
    weight. `floor` is the least share of the rate.
    """
    if not 0.0 < rate <= 1.0 or not 0.0 < floor <= 1.0:
        raise ValueError(f"rate and floor must be above 0 and at most 1, not {rate} and {floor}")
    if not 0.0 < lowest <= 1.0 or not 0.0 < probability <= 1.0:
        raise ValueError(f"probabilities must be above 0 and at most 1, not {lowest} and {probability}")
    return rate * max(floor, min(1.0, error) * min(1.0, lowest / probability))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelQueue:
    """The design of a queue."""

    rate: float
    floor: float = 1.0
    """1 is a random queue."""
    lowest: float = 1.0
    threshold: float | None = None

    def probability(self, score: float | None, spread: float | None, sampled: float) -> float:
        """Return the probability of queueing a judged answer that was sampled with the probability `sampled`."""
        near = None if score is None or self.threshold is None else abs(score - self.threshold)
        error = expected_error(disagreement=spread, distance=near)
        return label_probability(error, sampled, rate=self.rate, floor=self.floor, lowest=self.lowest)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledScore:
    """A labelled record."""

    score: float
    label: float
    probability: float
    """Probability of being sampled."""
    label_probability: float
    """Probability of being sampled and labelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPlan:
    """The number of labels for an interval of a given width."""

    width: float
    labels: int | None
    """Number of labels in all; None if the judged records are too few for this width, however many are labelled."""
    random_labels: int | None
    """The same with a random queue."""
    labels_alone: int
    """The same with a random queue and without the judges' scores."""
    known: int
    """Labels that the plan is based on; 0 if it assumes the worst."""

    @property
    def saved(self) -> float | None:
        """The share of labels that the queue saves against a random one; None if it is not known."""
        if not self.labels or not self.random_labels or not self.known:
            return None
        return 1.0 - self.labels / self.random_labels


def plan_labels(
    width: float, scores: Sequence[tuple[float, float]], labelled: Sequence[LabelledScore], *, confidence: float = 0.95
) -> LabelPlan:
    """Plan labels for an interval of this width.

    `scores` are the scores of judged records without a label, each with its probability of being sampled. A number of
    labels n makes the variance fixed + part/n: the fixed part is that of the judges' mean.
    """
    if not 0.0 < width < 1.0:
        raise ValueError(f"a width must be above 0 and below 1, not {width}")
    target = (width / (2.0 * NormalDist().inv_cdf((1.0 + confidence) / 2.0))) ** 2
    if len(labelled) < MIN_LABELS:
        worst = max(MIN_LABELS, ceil(_MOST_SPREAD / target))
        return LabelPlan(width=width, labels=worst, random_labels=worst, labels_alone=worst, known=0)
    sums = CorrectionSums()
    for record in labelled:
        sums += CorrectionSums.of_label(record.score, record.label, record.probability, record.label_probability)
    for score, probability in scores:
        sums += CorrectionSums.of_score(score, probability)
    tuning = correct(sums, confidence=confidence).tuning or 0.0
    judged = [(record.score, record.probability) for record in labelled] + list(scores)
    fixed = tuning**2 * _variance_of_mean([(score, 1.0 / probability) for score, probability in judged])
    room = target - fixed
    queued, random = _label_variances(labelled, tuning, len(judged))
    _, alone = _label_variances(labelled, 0.0, len(judged))
    return LabelPlan(
        width=width,
        labels=_count(queued, room, len(judged)),
        random_labels=_count(random, room, len(judged)),
        labels_alone=max(MIN_LABELS, ceil(alone / target)),
        known=len(labelled),
    )


def _count(variance: float, room: float, most: int) -> int | None:
    if room <= 0.0 or variance > room * most:
        return None
    return max(MIN_LABELS, ceil(variance / room))


def _variance_of_mean(weighted: Sequence[tuple[float, float]]) -> float:
    total = sum(weight for _value, weight in weighted)
    mean = sum(value * weight for value, weight in weighted) / total
    return sum((weight * (value - mean)) ** 2 for value, weight in weighted) / total**2


def _label_variances(labelled: Sequence[LabelledScore], tuning: float, judged: int) -> tuple[float, float]:
    """Return the variance that one label leaves, as they were chosen and as a random queue would choose them."""
    rests = [record.label - tuning * record.score for record in labelled]
    v = [1.0 / record.label_probability for record in labelled]
    u = [1.0 / record.probability for record in labelled]
    total = sum(v)
    mean = sum(weight * rest for weight, rest in zip(v, rests, strict=True)) / total
    squares = [(rest - mean) ** 2 for rest in rests]
    queued = sum(weight * weight * square for weight, square in zip(v, squares, strict=True))
    # A record that was chosen with ρ stands for 1/ρ judged ones, each of which a random queue chooses with n/judged.
    random = sum(one * two * square for one, two, square in zip(u, v, squares, strict=True)) * judged / len(labelled)
    return queued * len(labelled) / total**2, random * len(labelled) / total**2
