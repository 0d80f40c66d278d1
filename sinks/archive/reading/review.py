"""Finds answers to label: a sample of the archive, in the same order for every reviewer.

The ids of evaluations are hashes, so their first digits are random: the sample is the answers for which they are below
the probability of their queue. The choice is the same in every process, and does not change between requests.
"""

import json
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, exists, or_, select

from sinks.archive.tables import evaluations, labels, scores, texts
from sinks.base import HIDDEN_LANES
from sinks.statistics.label_design import LabelQueue

# Number of leading hexadecimal digits of an id that decide.
_DIGITS = 8
# Queues are counted up to this number: a longer one takes more than a day.
MOST_COUNTED = 1000
# Rows that are read at once to find the next answer.
_FEW = 20
_NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewFilter:
    """The queue of one reviewer."""

    who: str
    criterion: str
    queue: LabelQueue
    """How likely each answer is queued."""
    labelled: Collection[str] = ()
    """Evaluations that the reviewer has just labelled; the archive may not have the labels yet."""
    retracted: Collection[str] = ()
    """Labels that were just retracted; the archive may not have the retractions yet."""


class ReviewCandidate(NamedTuple):
    evaluation_id: str
    interaction_id: str
    probability: float
    """Probability with which the interaction was sampled."""
    chance: float
    """Probability with which it was queued after it was sampled."""
    texts: dict[str, Any]


class LabelledEvaluation(NamedTuple):
    """The fields that a label copies from its evaluation."""

    interaction_id: str
    probability: float
    lane: str


class StoredVerdict(NamedTuple):
    """The judges' verdict by one criterion, from which its chance to be queued follows."""

    score: float | None
    spread: float | None


class StoredLabel(NamedTuple):
    label_id: str
    interaction_id: str
    evaluation_id: str | None
    criterion: str
    who: str
    retracted: bool


def is_in_sample(evaluation_id: str, rate: float) -> bool:
    """Return whether an answer belongs to the random sample of this rate."""
    return rate >= 1.0 or evaluation_id < _id_limit(rate)


def find_next_candidate(connection: Connection, queue: ReviewFilter) -> ReviewCandidate | None:
    """Return the first answer of the queue that the reviewer has not labelled, or None."""
    row, chance = next(_queued_rows(connection, queue, _FEW), (None, 0.0))
    if row is None:
        return None
    matches = select(texts.c.content).where(_match_texts(row.texts_id, row.interaction_id))
    content: bytes = connection.execute(matches.order_by(texts.c.number.desc()).limit(1)).scalar_one()
    return ReviewCandidate(
        evaluation_id=row.id,
        interaction_id=row.interaction_id,
        probability=row.probability,
        chance=chance,
        texts=json.loads(zlib.decompress(content)),
    )


def count_remaining(connection: Connection, queue: ReviewFilter) -> int:
    """Return the length of the queue, at most `MOST_COUNTED`."""
    return sum(1 for _row in islice(_queued_rows(connection, queue, MOST_COUNTED), MOST_COUNTED))


def _queued_rows(connection: Connection, queue: ReviewFilter, batch: int) -> Iterator[tuple[Row[Any], float]]:
    """Yield the rows of the queue in the order of their ids, each with its chance to be queued, read in batches."""
    columns = evaluations.c
    query = _select_queue(
        queue,
        columns.id,
        columns.interaction_id,
        columns.texts_id,
        columns.probability,
        scores.c.score,
        scores.c.spread,
    )
    query, last = query.order_by(columns.id).limit(batch), ""
    while True:
        rows = connection.execute(query.where(columns.id > last)).all()
        for row in rows:
            chance = queue.queue.probability(row.score, row.spread, row.probability)
            if is_in_sample(row.id, chance):
                yield row, chance
        if len(rows) < batch:
            return
        last = rows[-1].id


def find_evaluation(connection: Connection, evaluation_id: str) -> LabelledEvaluation | None:
    columns = (evaluations.c[name] for name in LabelledEvaluation._fields)
    row = connection.execute(select(*columns).where(evaluations.c.id == evaluation_id)).one_or_none()
    return None if row is None else LabelledEvaluation(*row)


def find_verdict(connection: Connection, evaluation_id: str, criterion: str) -> StoredVerdict | None:
    query = (
        select(scores.c.score, scores.c.spread)
        .join(evaluations, evaluations.c.number == scores.c.number)
        .where(evaluations.c.id == evaluation_id, scores.c.criterion == criterion)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else StoredVerdict(*row)


def find_label(connection: Connection, label_id: str) -> StoredLabel | None:
    columns = (labels.c[name] for name in StoredLabel._fields)
    row = connection.execute(select(*columns).where(labels.c.label_id == label_id)).one_or_none()
    return None if row is None else StoredLabel(*row)


def _id_limit(rate: float) -> str:
    return format(int(rate * 16**_DIGITS), f"0{_DIGITS}x")


def _select_queue(queue: ReviewFilter, *columns: ColumnElement[Any]) -> Select[Any]:
    number, own_id = evaluations.c.number, evaluations.c.id
    is_judged = and_(
        scores.c.number == number, scores.c.criterion == queue.criterion, scores.c.status != _NOT_APPLICABLE
    )
    is_labelled = exists().where(
        labels.c.evaluation_id == own_id,
        labels.c.criterion == queue.criterion,
        labels.c.who == queue.who,
        labels.c.retracted.is_(False),
        labels.c.label_id.not_in(queue.retracted),
    )
    has_texts = exists().where(
        or_(
            texts.c.id == evaluations.c.texts_id,
            and_(evaluations.c.texts_id.is_(None), texts.c.interaction_id == evaluations.c.interaction_id),
        )
    )
    query = (
        select(*columns)
        .join(scores, is_judged)
        .where(evaluations.c.lane.not_in(HIDDEN_LANES), ~is_labelled, has_texts, own_id.not_in(queue.labelled))
    )
    # No answer is queued with a larger probability than the rate.
    rate = queue.queue.rate
    return query if rate >= 1.0 else query.where(own_id < _id_limit(rate))


def _match_texts(texts_id: str | None, interaction_id: str) -> ColumnElement[bool]:
    return texts.c.interaction_id == interaction_id if texts_id is None else texts.c.id == texts_id
