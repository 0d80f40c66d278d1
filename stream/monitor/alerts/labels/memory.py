"""The latest answers and labels of a partition, joined in whichever order they come.

An answer is remembered until about 20,000 others have come, and a label until 20,000 others have. A label that was
joined keeps a copy of its answer, so it counts for longer than the answer is remembered. A label without an answer
waits: its answer may come later, or belongs to another partition.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from judges.values.evaluation import MIN_PROBABILITY, Score
from judges.values.label import Label
from judges.values.valid_labels import ValidLabels
from stream.errors import RecordError
from stream.monitor.alerts.labels.label_record import dump_label, keep_part
from stream.monitor.alerts.labels.ring import CHUNK_ENTRIES, CHUNKS, Entry, Ring, RingChunk
from stream.monitor.alerts.score_record import (
    MAX_ID_CHARS,
    MAX_JUDGES,
    AttributeValue,
    DimensionName,
    Name,
    ScoreRecord,
)
from stream.monitor.detection import first_problem
from stream.monitor.detection.stored import Count, Moment

ANSWERS, LABELS = "answers:", "labels:"
MOST_CHUNKS = 2 * CHUNKS
_CHUNK_KEYS = frozenset(f"{name}{place}" for name in (ANSWERS, LABELS) for place in range(CHUNKS))
# More than a configuration has criteria.
_MOST_SCORES = 64

_Id = Annotated[str, Field(max_length=MAX_ID_CHARS)]


class ScoredAnswer(NamedTuple):
    """An answer with its scores."""

    interaction_id: _Id
    trace_id: _Id | None
    app: Name
    at: Moment
    probability: Annotated[FiniteFloat, Field(ge=MIN_PROBABILITY, le=1.0)]
    """Probability of being sampled."""
    scores: Annotated[dict[DimensionName, Score], Field(max_length=_MOST_SCORES)]
    judges: Annotated[
        dict[DimensionName, Annotated[dict[Name, Score], Field(max_length=MAX_JUDGES)]], Field(max_length=_MOST_SCORES)
    ] = {}  # noqa: RUF012 - never changed
    """Scores of each judge, by criterion. Answers that an earlier version stored have none."""
    family: AttributeValue | None = None
    language: AttributeValue | None = None
    """As the score record has them. Answers that an earlier version stored have neither."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which it may be labelled."""
        return (self.interaction_id,) if self.trace_id is None else (self.interaction_id, self.trace_id)


class JoinedLabel(NamedTuple):
    """A label or retraction, with its answer as soon as that is known."""

    label: Label
    answer: ScoredAnswer | None


class _ChunkVersion(BaseModel):
    count: Count


class _StoredChunk(BaseModel):
    model_config = ConfigDict(frozen=True)

    v: Literal[1]
    included: _ChunkVersion
    first: Annotated[Count, Field(multiple_of=CHUNK_ENTRIES)]


class _StoredAnswers(_StoredChunk):
    entries: Annotated[list[ScoredAnswer], Field(min_length=1, max_length=CHUNK_ENTRIES)]


class _StoredLabels(_StoredChunk):
    entries: Annotated[list[JoinedLabel], Field(min_length=1, max_length=CHUNK_ENTRIES)]


class LabelMemory:
    """Takes answers and labels in any order; repeated ones change nothing."""

    def __init__(self) -> None:
        self._answers: Ring[ScoredAnswer] = Ring()
        self._labels: Ring[JoinedLabel] = Ring()
        self._answer_numbers: dict[str, int] = {}
        """By the names under which an answer may be labelled."""
        self._label_numbers: dict[str, int] = {}
        """By the ids of labels."""
        self._numbers_by_name: dict[str, dict[int, None]] = {}
        self._numbers_by_app: dict[str, dict[int, None]] = {}
        self._retractions: dict[str, Label] = {}
        """By their own ids."""
        self._retracted: Counter[str] = Counter()
        """Ids of retracted labels."""
        self.changed: dict[str, None] = {}
        """Apps whose labels have changed, until the reader clears it."""

    def add_answer(self, record: ScoreRecord) -> list[JoinedLabel]:
        """Remember an answer. Of several evaluations of one interaction, the last one counts.

        Return its first label by each criterion, if that was waiting for it.
        """
        scores = dict(list(record.scores.items())[:_MOST_SCORES])
        judges = {name: dict(record.judges[name]) for name in list(record.judges)[:_MOST_SCORES]}
        identity = record.interaction_id, record.trace_id, record.app
        answer = ScoredAnswer(*identity, record.at, record.probability, scores, judges, record.family, record.language)
        number = self._answer_numbers.get(answer.interaction_id)
        known = None if number is None else self._answers[number]
        if number is not None and known is not None and known.interaction_id == answer.interaction_id:
            if known.at > answer.at:
                return []
            # It may have another trace now.
            self._forget_names(number, known)
            self._answers.replace(number, answer)
        else:
            number, forgotten = self._answers.append(answer)
            for other, forgotten_answer in forgotten:
                self._forget_names(other, forgotten_answer)
        self._index_answer(number, answer)
        return list(self._join_waiting(answer))

    def add_label(self, label: Label) -> list[JoinedLabel]:
        """Remember a label or a retraction, unless it is remembered already.

        Return it if it is the first one of a known answer by its criterion.
        """
        if label.label_id in self._label_numbers:
            return []
        place = self._answer_numbers.get(label.interaction_id)
        joined = JoinedLabel(keep_part(label), None if place is None else self._answers[place])
        number, forgotten = self._labels.append(joined)
        for other, forgotten_label in forgotten:
            self._forget_label(other, forgotten_label)
        self._index_label(number, joined)
        return [joined] if self._is_first(number, joined) else []

    def labels_of(self, app: str) -> Iterator[JoinedLabel]:
        """Yield the joined labels of an app in the order in which they came, which a restart does not change."""
        for number in sorted(self._numbers_by_app.get(app, ())):
            yield self._labels[number]

    @property
    def retractions(self) -> list[Label]:
        return list(self._retractions.values())

    def anchor_scores(self, canary: str) -> dict[str, float]:
        """Return the scores that people gave a canary, by criterion."""
        valid = ValidLabels(self.retractions)
        for number in self._numbers_by_name.get(canary, ()):
            valid.add(self._labels[number].label)
        return {criterion: human.score for (_, criterion), human in valid.scores("anchor").items()}

    def _is_first(self, number: int, joined: JoinedLabel) -> bool:
        """Return whether a label that was just joined is the first one that counts of its answer, by its criterion."""
        label, answer = joined
        if answer is None or not can_count(label) or label.label_id in self._retracted:
            return False
        others = (other for name in answer.names for other in self._numbers_by_name.get(name, ()) if other != number)
        return not any(
            other.label.criterion == label.criterion and can_count(other.label) and other.answer is not None
            for other in map(self._labels.__getitem__, others)
        )

    def _join_waiting(self, answer: ScoredAnswer) -> Iterator[JoinedLabel]:
        for name in answer.names:
            for number in self._numbers_by_name.get(name, ()):
                joined = self._labels[number]
                if joined.answer is None or joined.answer.at <= answer.at:
                    is_new = joined.answer is None
                    self._leave_app(number, joined)
                    joined = joined._replace(answer=answer)
                    self._labels.replace(number, joined)
                    self._index_label(number, joined)
                    if is_new and self._is_first(number, joined):
                        yield joined

    # The indexes

    def _index_answer(self, number: int, answer: ScoredAnswer) -> None:
        for name in answer.names:
            self._answer_numbers[name] = number

    def _index_label(self, number: int, joined: JoinedLabel) -> None:
        label = joined.label
        self._label_numbers[label.label_id] = number
        self._numbers_by_name.setdefault(label.interaction_id, {})[number] = None
        if label.retracts is not None:
            if label.label_id not in self._retractions:
                self._retracted[label.retracts] += 1
            self._retractions[label.label_id] = label
            self._mark_retracted(label.retracts)
        if joined.answer is not None:
            self._numbers_by_app.setdefault(joined.answer.app, {})[number] = None
            self.changed[joined.answer.app] = None

    def _mark_retracted(self, label_id: str) -> None:
        number = self._label_numbers.get(label_id)
        answer = None if number is None else self._labels[number].answer
        if answer is not None:
            self.changed[answer.app] = None

    def _forget_names(self, number: int, answer: ScoredAnswer) -> None:
        for name in answer.names:
            # Another answer of the same trace may have come since.
            if self._answer_numbers.get(name) == number:
                del self._answer_numbers[name]

    def _forget_label(self, number: int, joined: JoinedLabel) -> None:
        label = joined.label
        if self._label_numbers.get(label.label_id) != number:  # a forged repetition, which is in no index
            return
        del self._label_numbers[label.label_id]
        if (retraction := self._retractions.pop(label.label_id, None)) is not None:
            self._restore_retracted(retraction.retracts or "")
        numbers = self._numbers_by_name[label.interaction_id]
        del numbers[number]
        if not numbers:
            del self._numbers_by_name[label.interaction_id]
        self._leave_app(number, joined)

    def _restore_retracted(self, label_id: str) -> None:
        """Count one retraction less; a Counter would keep the name."""
        self._retracted[label_id] -= 1
        if not self._retracted[label_id]:
            del self._retracted[label_id]

    def _leave_app(self, number: int, joined: JoinedLabel) -> None:
        if joined.answer is None:
            return
        numbers = self._numbers_by_app[joined.answer.app]
        del numbers[number]
        self.changed[joined.answer.app] = None
        if not numbers:
            del self._numbers_by_app[joined.answer.app]

    # The stored state

    def take_changes(self) -> Iterator[tuple[str, bytes]]:
        """Yield the chunks to store since the last call, by key."""
        for chunk in self._answers.take_changes():
            yield f"{ANSWERS}{chunk.place}", _dump(chunk.first, chunk.version, list(chunk.entries))
        for labels in self._labels.take_changes():
            entries = [(dump_label(joined.label), joined.answer) for joined in labels.entries]
            yield f"{LABELS}{labels.place}", _dump(labels.first, labels.version, entries)

    def restore(self, stored: Mapping[str, bytes]) -> dict[str, RecordError]:
        """Resume from stored chunks, and return the keys of those that cannot be read, with the reason."""
        answers: list[RingChunk[ScoredAnswer]] = []
        labels: list[RingChunk[JoinedLabel]] = []
        refused: dict[str, RecordError] = {}
        for key, value in stored.items():
            try:
                if key.startswith(ANSWERS):
                    read = _StoredAnswers.model_validate_json(value)
                    answers.append(_at_place(key, RingChunk(read.first, read.included.count, read.entries)))
                else:
                    found = _StoredLabels.model_validate_json(value)
                    labels.append(_at_place(key, RingChunk(found.first, found.included.count, found.entries)))
            except ValidationError as error:
                refused[key] = RecordError("bad_state", first_problem(error))
            except ValueError as error:
                refused[key] = RecordError("bad_state", str(error))
        self._answers.restore(answers)
        self._labels.restore(labels)
        for number, answer in self._answers:
            self._index_answer(number, answer)
        for number, joined in self._labels:
            # Only a forged chunk repeats a label.
            if joined.label.label_id not in self._label_numbers:
                self._index_label(number, joined)
        return refused


def can_count(label: Label) -> bool:
    """Return whether a label can say how well judges agree with people on all traffic."""
    is_label = label.kind == "review" and label.retracts is None
    return is_label and label.score is not None and label.probability is not None


def is_chunk_key(key: str) -> bool:
    """Return whether a chunk can be stored under this key."""
    return key in _CHUNK_KEYS


def _at_place(key: str, chunk: RingChunk[Entry]) -> RingChunk[Entry]:
    if key.partition(":")[2] != str(chunk.place):
        raise ValueError("the chunk belongs to another key")
    return chunk


def _dump(first: int, version: int, entries: object) -> bytes:
    data = {"v": 1, "included": {"count": version}, "first": first, "entries": entries}
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
