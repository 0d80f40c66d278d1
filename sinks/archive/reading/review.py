"""Finds answers to label: a random sample of the archive, in an order that is the same for everybody.

The ids of evaluations are hashes, so their first digits are random numbers: the answers whose number is below the rate
are the sample. No verdict, time or app has a part in it, and an answer stays in the sample however often one looks.
"""

import json
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, or_, select

from sinks.archive.reading.answers import HIDDEN_LANES
from sinks.archive.tables import evaluations, labels, scores, texts

# Number of hexadecimal digits at the beginning of an id that decide.
_DIGITS = 8
# A queue is counted up to this number: a longer one is not finished today.
MOST_COUNTED = 1000
_NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewFilter:
    """The queue of one reviewer."""

    who: str
    criterion: str
    rate: float
    """Share of the answers that are in the queue, 0 to 1."""
    labelled: Collection[str] = ()
    """Evaluations that the reviewer has just labelled, before the archive has it."""
    retracted: Collection[str] = ()
    """Labels that were just retracted, before the archive has it."""


class ReviewCandidate(NamedTuple):
    evaluation_id: str
    interaction_id: str
    probability: float
    """With which the interaction was sampled."""
    texts: dict[str, Any]


class LabelledEvaluation(NamedTuple):
    """What a label takes over from the evaluation."""

    interaction_id: str
    probability: float
    lane: str


class StoredLabel(NamedTuple):
    label_id: str
    interaction_id: str
    evaluation_id: str | None
    criterion: str
    who: str
    retracted: bool


def is_in_sample(evaluation_id: str, rate: float) -> bool:
    """Whether an answer belongs to the random sample of this rate."""
    return rate >= 1.0 or evaluation_id < _bound(rate)


def next_candidate(connection: Connection, queue: ReviewFilter) -> ReviewCandidate | None:
    """Return the first answer of the queue that the reviewer has not labelled, or None."""
    columns = evaluations.c
    query = _queue(queue, columns.id, columns.interaction_id, columns.texts_id, columns.probability)
    row = connection.execute(query.order_by(columns.id).limit(1)).one_or_none()
    if row is None:
        return None
    latest = select(texts.c.content).where(_belong_to(row.texts_id, row.interaction_id)).order_by(texts.c.number.desc())
    content: bytes = connection.execute(latest.limit(1)).scalar_one()
    return ReviewCandidate(
        evaluation_id=row.id,
        interaction_id=row.interaction_id,
        probability=row.probability,
        texts=json.loads(zlib.decompress(content)),
    )


def count_left(connection: Connection, queue: ReviewFilter) -> int:
    """Return the length of the queue, at most `MOST_COUNTED`."""
    listed = _queue(queue, evaluations.c.id).limit(MOST_COUNTED).subquery()
    return connection.execute(select(func.count()).select_from(listed)).scalar() or 0


def find_evaluation(connection: Connection, evaluation_id: str) -> LabelledEvaluation | None:
    columns = (evaluations.c[name] for name in LabelledEvaluation._fields)
    row = connection.execute(select(*columns).where(evaluations.c.id == evaluation_id)).one_or_none()
    return None if row is None else LabelledEvaluation(*row)


def find_label(connection: Connection, label_id: str) -> StoredLabel | None:
    columns = (labels.c[name] for name in StoredLabel._fields)
    row = connection.execute(select(*columns).where(labels.c.label_id == label_id)).one_or_none()
    return None if row is None else StoredLabel(*row)


def _bound(rate: float) -> str:
    return format(int(rate * 16**_DIGITS), f"0{_DIGITS}x")


def _queue(queue: ReviewFilter, *columns: ColumnElement[Any]) -> Select[Any]:
    number, own_id = evaluations.c.number, evaluations.c.id
    is_judged = exists().where(
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
    query = select(*columns).where(
        evaluations.c.lane.not_in(HIDDEN_LANES), is_judged, ~is_labelled, has_texts, own_id.not_in(queue.labelled)
    )
    return query if queue.rate >= 1.0 else query.where(own_id < _bound(queue.rate))


def _belong_to(texts_id: str | None, interaction_id: str) -> ColumnElement[bool]:
    return texts.c.interaction_id == interaction_id if texts_id is None else texts.c.id == texts_id
