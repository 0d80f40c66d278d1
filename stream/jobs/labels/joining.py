"""Joins labels to the evaluations of their interactions, by app and criterion."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import ValidationError

from judges.values.evaluation import Evaluation
from judges.values.label import Label
from judges.values.valid_labels import HumanScore, ValidLabels
from sinks.base import UNKNOWN
from sinks.metrics import results
from sinks.statistics.corrected import CorrectionSums, is_possible
from sinks.statistics.label_design import LabelledScore
from sinks.statistics.labelled_answers import label_key, label_names, last_evaluations
from stream.config.model import Config
from stream.errors import RecordError
from stream.kafka.record import check_version, read_record, schema_of
from stream.kafka.topic_scan import TopicScan


class SeriesKey(NamedTuple):
    app: str
    criterion: str
    """Or `composite`."""


@dataclass(slots=True)
class LabelledSeries:
    """The scores of one app by one criterion, and the labels among them."""

    others: list[tuple[float, float]] = field(default_factory=list)
    """Scores without a usable label, each with its probability of being sampled."""
    labelled: list[LabelledScore] = field(default_factory=list)

    @property
    def sums(self) -> CorrectionSums:
        sums = CorrectionSums()
        for record in self.labelled:
            sums += CorrectionSums.of_label(record.score, record.label, record.probability, record.label_probability)
        for score, probability in self.others:
            sums += CorrectionSums.of_score(score, probability)
        return sums


@dataclass(slots=True)
class FeedbackSeries:
    """The feedback of users on one app."""

    scores: list[float] = field(default_factory=list)


@dataclass(slots=True)
class JoinedLabels:
    """Labels and evaluations, joined."""

    series: dict[SeriesKey, LabelledSeries] = field(default_factory=dict)
    feedback: dict[SeriesKey, FeedbackSeries] = field(default_factory=dict)
    not_random: int = 0
    """Labels of answers that were not chosen at random, which correct no mean."""
    unscored: int = 0
    """Labels of answers that the judges gave no score, also because the criterion does not apply."""
    impossible: int = 0
    """Labels with a larger probability than that of being sampled."""
    unmatched: int = 0
    """Labels of interactions without an evaluation."""


def join(evaluations: Iterable[Evaluation], labels: Iterable[Label]) -> JoinedLabels:
    """Join labels to evaluations by the interaction's id, or by its trace id.

    Of several evaluations of one interaction the last one counts. Canaries and backfilled history are left out.
    """
    valid = ValidLabels(labels)
    joiner = _Joiner(valid.scores("review"))
    last = last_evaluations(evaluations)
    for evaluation in last:
        joiner.add(evaluation)
    joiner.add_feedback(valid, last)
    return joiner.finish()


class _Joiner:
    def __init__(self, people: Mapping[tuple[str, str], HumanScore]) -> None:
        self._people = people
        self._joined = JoinedLabels()
        self._used: set[tuple[str, str]] = set()

    def add(self, evaluation: Evaluation) -> None:
        app, probability = evaluation.app or UNKNOWN, evaluation.sampling.probability
        for criterion, score in results(evaluation):
            human = self._find(evaluation, criterion)
            if score is None:
                self._joined.unscored += human is not None
                continue
            series = self._joined.series.setdefault(SeriesKey(app, criterion), LabelledSeries())
            chance = None if human is None else self._chance(human, probability)
            if human is None or chance is None:
                series.others.append((score, probability))
            else:
                record = LabelledScore(
                    score=score, label=human.score, probability=probability, label_probability=chance
                )
                series.labelled.append(record)
        for criterion in evaluation.dimensions:
            key = label_key(self._people, evaluation, criterion)
            if key is not None and key not in self._used:
                self._used.add(key)
                self._joined.unscored += 1

    def add_feedback(self, labels: ValidLabels, evaluations: Iterable[Evaluation]) -> None:
        apps = {name: evaluation.app or UNKNOWN for evaluation in evaluations for name in label_names(evaluation)}
        for label in labels:
            if label.kind != "feedback" or label.score is None:
                continue
            app = apps.get(label.interaction_id)
            if app is None:
                self._joined.unmatched += 1
                continue
            series = self._joined.feedback.setdefault(SeriesKey(app, label.criterion), FeedbackSeries())
            series.scores.append(label.score)

    def finish(self) -> JoinedLabels:
        self._joined.unmatched += len(self._people.keys() - self._used)
        return self._joined

    def _find(self, evaluation: Evaluation, criterion: str) -> HumanScore | None:
        key = label_key(self._people, evaluation, criterion)
        if key is None:
            return None
        self._used.add(key)
        return self._people[key]

    def _chance(self, human: HumanScore, probability: float) -> float | None:
        if human.probability is None:
            self._joined.not_random += 1
            return None
        if not is_possible(human.probability, probability):
            self._joined.impossible += 1
            return None
        return min(human.probability, probability)


def read_labels_topic(config: Config) -> Iterator[Label]:
    """Yield all labels and retractions of the topic; records that are none are skipped."""
    with TopicScan(config.kafka, config.topics.labels) as scan:
        for message in scan.read():
            record = read_record(message)
            try:
                check_version(schema_of(record))
                yield Label.model_validate_json(record.value or b"")
            except (RecordError, ValidationError):
                continue
