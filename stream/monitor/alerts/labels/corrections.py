"""The corrected means of an app: its judged answers of the latest days, and the labels among them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from judges.values.label import Label
from judges.values.valid_labels import HumanScore, ValidLabels
from sinks.statistics.corrected import CorrectedEstimate, CorrectionSums, can_correct, correct
from stream.monitor.alerts.labels.agreement import JudgePairs
from stream.monitor.alerts.labels.first_labels import FirstLabels, LabelDesign, find_first_labels
from stream.monitor.alerts.labels.judged_days import JudgedDays, day_of
from stream.monitor.alerts.labels.memory import JoinedLabel, ScoredAnswer

LabelledDays = Mapping[str, Mapping[int, CorrectionSums]]
"""Sums over labelled answers, by criterion and by the day of the answer."""


class Reactions(NamedTuple):
    """The feedback of users in one series, which is never mixed with the labels of reviewers."""

    number: int
    mean: float


class AppLabels(NamedTuple):
    """The labels of an app, ready for its estimates."""

    labelled: LabelledDays
    feedback: Mapping[str, list[tuple[int, float]]]
    """Scores by series, each with the day of its answer."""
    judges: JudgePairs
    first: FirstLabels

    def estimates(
        self, judged: JudgedDays, *, now: float, window: int, design: LabelDesign | None = None
    ) -> dict[str, CorrectedEstimate]:
        """Return the estimate of every criterion with a label in the latest `window` days.

        With the design of the labels, a corrected mean also has its interval that is valid at every look.
        """
        since = day_of(now) - window + 1
        estimates = {}
        for criterion, days in sorted(self.labelled.items()):
            # Answers of days that are no longer in the sums must not be subtracted from them.
            sums = sum((days[day] for day in sorted(days) if day >= since and day in judged.days), CorrectionSums())
            if sums.labelled.count:
                total = judged.total(criterion, since)
                estimate = correct(sums.among(total))
                if design is not None and estimate.corrected is not None:
                    anytime = self.first.interval(criterion, total, since=since, days=judged.days, design=design)
                    estimate = replace(estimate, anytime=anytime)
                estimates[criterion] = estimate
        return estimates

    def reactions(self, *, now: float, window: int) -> dict[str, Reactions]:
        since = day_of(now) - window + 1
        recent = {
            series: [score for day, score in scores if day >= since] for series, scores in sorted(self.feedback.items())
        }
        return {
            series: Reactions(len(scores), sum(scores) / len(scores)) for series, scores in recent.items() if scores
        }


def collect_labels(joined: Iterable[JoinedLabel], retractions: Iterable[Label]) -> AppLabels:
    """Collect the labels of an app that count, with the rules of `streamjury labels report`.

    `joined` has the labels in the order in which they came.
    """
    joined = list(joined)
    answers: dict[str, ScoredAnswer] = {}
    valid = ValidLabels(retractions)
    for label, answer in joined:
        valid.add(label)
        if answer is not None:
            answers[label.interaction_id] = answer
    labelled: dict[str, dict[int, CorrectionSums]] = defaultdict(dict)
    judges = JudgePairs()
    for answer, criterion, human in _first_per_answer(answers, valid.scores("review")):
        judges.add(answer, criterion, human.score)
        day, sums = day_of(answer.at), _sums(answer, criterion, human)
        if sums is not None:
            labelled[criterion][day] = labelled[criterion].get(day, CorrectionSums()) + sums
    feedback: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for label in valid:
        if label.kind == "feedback" and label.score is not None and label.interaction_id in answers:
            feedback[label.criterion].append((day_of(answers[label.interaction_id].at), label.score))
    return AppLabels(labelled, feedback, judges, find_first_labels(joined))


def _first_per_answer(
    answers: Mapping[str, ScoredAnswer], scores: Mapping[tuple[str, str], HumanScore]
) -> Iterator[tuple[ScoredAnswer, str, HumanScore]]:
    """Yield each labelled answer once per criterion: labels by its own id come before those by its trace."""
    for (name, criterion), human in scores.items():
        answer = answers.get(name)
        if answer is None:
            continue
        if name == answer.interaction_id or (answer.interaction_id, criterion) not in scores:
            yield answer, criterion, human


def _sums(answer: ScoredAnswer, criterion: str, human: HumanScore) -> CorrectionSums | None:
    """Return the sums of a labelled answer; None if its label corrects no mean."""
    score, chance = answer.scores.get(criterion), human.probability
    if score is None or not can_correct(chance, answer.probability):
        return None
    return CorrectionSums.of_label(score, human.score, answer.probability, chance)
