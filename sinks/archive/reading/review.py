"""Finds answers to label: a random sample of the archive, in the same order for every reviewer.

The ids of evaluations are hashes, so their first digits are random: the sample is the answers for which they are below
the rate. The choice does not depend on verdicts, times or apps, and does not change between requests.
"""

import json
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, or_, select

from sinks.archive.reading.answers import HIDDEN_LANES
from sinks.archive.tables import evaluations, labels, scores, texts

# Number of leading hexadecimal digits of an id that decide.
_DIGITS = 8
# Queues are counted up to this number: a longer one takes more than a day.
MOST_COUNTED = 1000
_NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewFilter:
    """The queue of one reviewer."""

    who: str
    criterion: str
    rate: float
    """Share of the answers that are queued, 0 to 1."""
    labelled: Collection[str] = ()
    """Evaluations that the reviewer has just labelled; the archive may not have the labels yet."""
    retracted: Collection[str] = ()
    """Labels that were just retracted; the archive may not have the retractions yet."""


class ReviewCandidate(NamedTuple):
    evaluation_id: str
    interaction_id: str
    probability: float
    """Probability with which the interaction was sampled."""
    texts: dict[str, Any]


class LabelledEvaluation(NamedTuple):
    """The fields that a label copies from its evaluation."""

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
    """Return whether an answer belongs to the random sample of this rate."""
    return rate >= 1.0 or evaluation_id < _id_limit(rate)


def find_next_candidate(connection: Connection, queue: ReviewFilter) -> ReviewCandidate | None:
    """Return the first answer of the queue that the reviewer has not labelled, or None."""
    columns = evaluations.c
    query = _select_queue(queue, columns.id, columns.interaction_id, columns.texts_id, columns.probability)
    row = connection.execute(query.order_by(columns.id).limit(1)).one_or_none()
    if row is None:
        return None
    matches = select(texts.c.content).where(_match_texts(row.texts_id, row.interaction_id))
    content: bytes = connection.execute(matches.order_by(texts.c.number.desc()).limit(1)).scalar_one()
    return ReviewCandidate(
        evaluation_id=row.id,
        interaction_id=row.interaction_id,
        probability=row.probability,
        texts=json.loads(zlib.decompress(content)),
    )


def count_remaining(connection: Connection, queue: ReviewFilter) -> int:
    """Return the length of the queue, at most `MOST_COUNTED`."""
    queued = _select_queue(queue, evaluations.c.id).limit(MOST_COUNTED).subquery()
    return connection.execute(select(func.count()).select_from(queued)).scalar() or 0


def find_evaluation(connection: Connection, evaluation_id: str) -> LabelledEvaluation | None:
    columns = (evaluations.c[name] for name in LabelledEvaluation._fields)
    row = connection.execute(select(*columns).where(evaluations.c.id == evaluation_id)).one_or_none()
    return None if row is None else LabelledEvaluation(*row)


def find_label(connection: Connection, label_id: str) -> StoredLabel | None:
    columns = (labels.c[name] for name in StoredLabel._fields)
    row = connection.execute(select(*columns).where(labels.c.label_id == label_id)).one_or_none()
    return None if row is None else StoredLabel(*row)


def _id_limit(rate: float) -> str:
    return format(int(rate * 16**_DIGITS), f"0{_DIGITS}x")


def _select_queue(queue: ReviewFilter, *columns: ColumnElement[Any]) -> Select[Any]:
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
    return query if queue.rate >= 1.0 else query.where(own_id < _id_limit(queue.rate))


def _match_texts(texts_id: str | None, interaction_id: str) -> ColumnElement[bool]:
    return texts.c.interaction_id == interaction_id if texts_id is None else texts.c.id == texts_id
