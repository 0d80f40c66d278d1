"""The first labels of an app's answers, and the intervals of its corrected means that are valid at every look.

Evidence that counts at every look must never be taken back. So each answer has its first label here, in the order in
which labels come: later labels, and retractions, change nothing. Weights need the smallest probability of the design,
which comes from the configuration: if there was a smaller one, there is no interval.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sinks.statistics.corrected import JudgedSums, MeanInterval, can_correct
from sinks.statistics.corrected_anytime import FixedGaps, fixed_interval
from stream.monitor.alerts.labels.judged_days import day_of
from stream.monitor.alerts.labels.memory import JoinedLabel, can_count

_MISS = 0.05
# An earlier interval stays valid, and a new one takes some milliseconds.
_GROWN = 1.02
# Rounded products of the same probabilities may be a little smaller.
_ROUNDING = 1.0 - 1e-9


class LabelDesign(NamedTuple):
    """The smallest probabilities of a configuration."""

    sampled: float
    """With which an answer is sampled."""
    labelled: float
    """With which an answer is sampled and labelled."""


class _FirstLabel(NamedTuple):
    day: int
    score: float
    label: float
    probability: float
    """Probability of being sampled."""
    label_probability: float
    """Probability of being sampled and labelled."""

    def follows(self, design: LabelDesign) -> bool:
        least = design.labelled * _ROUNDING, design.sampled * _ROUNDING
        return self.label_probability >= least[0] and self.probability >= least[1]


class _Shown(NamedTuple):
    """An interval with the window and the number of judged answers that it was computed from."""

    since: int
    judged: int
    interval: MeanInterval | None


@dataclass(slots=True)
class FirstLabels:
    """The first label of each answer, by criterion."""

    _labels: Mapping[str, list[_FirstLabel]]
    _shown: dict[str, _Shown] = field(default_factory=dict)

    def interval(
        self, criterion: str, judged: JudgedSums, *, since: int, days: Collection[int], design: LabelDesign
    ) -> MeanInterval | None:
        """Return the 95 % interval of a corrected mean; None if a label does not follow the design.

        `judged` is the sum over the judged answers from the day `since` on, and `days` the days that it has.
        """
        shown = self._shown.get(criterion)
        if shown is None or shown.since != since or judged.records > shown.judged * _GROWN:
            recent = [label for label in self._labels.get(criterion, ()) if label.day >= since and label.day in days]
            shown = self._shown[criterion] = _Shown(since, judged.records, _interval(recent, judged, design))
        return shown.interval


def _interval(labels: Iterable[_FirstLabel], judged: JudgedSums, design: LabelDesign) -> MeanInterval | None:
    gaps = FixedGaps()
    for label in labels:
        if not label.follows(design):
            return None
        gaps = gaps.plus(label.score, label.label, min(1.0, design.labelled / label.label_probability))
    return fixed_interval(gaps, judged.tally(design.sampled), _MISS)


def find_first_labels(joined: Iterable[JoinedLabel]) -> FirstLabels:
    """Return the first label of each answer; `joined` has the labels in the order in which they came."""
    found: dict[str, list[_FirstLabel]] = defaultdict(list)
    known: set[tuple[str, str]] = set()
    for label, answer in joined:
        if answer is None or not can_count(label) or (answer.interaction_id, label.criterion) in known:
            continue
        known.add((answer.interaction_id, label.criterion))
        score, chance = answer.scores.get(label.criterion), label.probability
        if score is not None and label.score is not None and can_correct(chance, answer.probability):
            first = _FirstLabel(day_of(answer.at), score, label.score, answer.probability, chance)
            found[label.criterion].append(first)
    return FirstLabels(found)
