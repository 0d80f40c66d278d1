"""Reads the labels of reviewers."""

from typing import Any

from sqlalchemy import Connection, Select, exists, select

from judges.values.label import Label
from sinks.archive.reading.times import from_ms
from sinks.archive.tables import labels

_IS_REVIEW = (labels.c.kind == "review", labels.c.retracted.is_(False))


def select_reviews(limit: int) -> Select[Any]:
    """Select the latest labels of reviewers that were not retracted, with the columns that `label_of` reads."""
    columns = (labels.c[name] for name in ("label_id", "interaction_id", "criterion", "who", "at", "probability"))
    query = select(*columns, labels.c.score.label("label")).where(*_IS_REVIEW)
    return query.order_by(labels.c.at.desc(), labels.c.label_id.desc()).limit(limit)


def has_reviews(connection: Connection) -> bool:
    return bool(connection.execute(select(exists().where(*_IS_REVIEW))).scalar())


def label_of(row: Any) -> Label:
    """Return the label of a row that has its score in the column `label`."""
    return Label.model_construct(
        label_id=row.label_id,
        interaction_id=row.interaction_id,
        criterion=row.criterion,
        score=row.label,
        who=row.who,
        labelled_at=from_ms(row.at),
        probability=row.probability,
    )
