"""The labels that count: every record once, without retracted labels, and the last one of a person."""

from collections.abc import Iterable, Iterator
from statistics import fmean
from typing import NamedTuple

from judges.values.label import Label, LabelKind


class HumanScore(NamedTuple):
    """The score that people gave an answer by one criterion: the mean of their scores."""

    score: float
    probability: float | None
    """Probability of being sampled and labelled; None if the answer was not chosen at random."""
    people: int


class ValidLabels:
    """Takes labels and retractions in any order, each any number of times."""

    def __init__(self, labels: Iterable[Label] = ()) -> None:
        self._labels: dict[str, Label] = {}
        self._retracted: set[str] = set()
        for label in labels:
            self.add(label)

    def add(self, label: Label) -> None:
        if label.retracts is None:
            self._labels.setdefault(label.label_id, label)
        else:
            self._retracted.add(label.retracts)

    def __iter__(self) -> Iterator[Label]:
        """Yield the labels that count: of several by one person on the same answer, the last one."""
        last: dict[tuple[str, str, str, str], Label] = {}
        for label in self._labels.values():
            if label.label_id in self._retracted:
                continue
            # Users react several times, and every reaction counts.
            own = label.label_id if label.kind == "feedback" else ""
            key = (label.kind + own, label.interaction_id, label.criterion, label.who)
            if key not in last or _order(last[key]) < _order(label):
                last[key] = label
        return iter(last.values())

    def scores(self, kind: LabelKind) -> dict[tuple[str, str], HumanScore]:
        """Return the scores of one kind by interaction and criterion; labels without a score are left out."""
        grouped: dict[tuple[str, str], list[Label]] = {}
        for label in self:
            if label.kind == kind and label.score is not None:
                grouped.setdefault((label.interaction_id, label.criterion), []).append(label)
        return {key: _combine(labels) for key, labels in grouped.items()}


def _order(label: Label) -> tuple[float, str]:
    return label.labelled_at.timestamp(), label.label_id


def _combine(labels: list[Label]) -> HumanScore:
    # All who labelled an answer got it from the same queue, unless someone opened it without one.
    chances = [label.probability for label in labels if label.probability is not None]
    return HumanScore(
        score=fmean(label.score for label in labels if label.score is not None),
        probability=max(chances) if chances else None,
        people=len({label.who for label in labels}),
    )
