"""Reads one answer from the archive: its published record, texts, labels and neighbours."""

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, or_, select, tuple_

from sinks.archive.tables import evaluations, labels, records, texts
from sinks.base import HIDDEN_LANES


class Neighbours(NamedTuple):
    """The ids of the answers of the same app before and after this one in time."""

    previous: str | None
    next: str | None


class ArchivedLabel(NamedTuple):
    label_id: str
    criterion: str
    option: str | None
    score: float | None
    who: str
    at: int
    kind: str
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedAnswer:
    id: str
    record: dict[str, Any]
    """As published."""
    texts: dict[str, Any] | None
    trace_id: str | None
    labels: Sequence[ArchivedLabel]
    """Labels that were not retracted, the latest first."""
    neighbours: Neighbours


def find_answer(connection: Connection, evaluation_id: str) -> ArchivedAnswer | None:
    """Return an answer by the id of its evaluation, or None."""
    query = (
        select(evaluations, records.c.content)
        .join(records, records.c.number == evaluations.c.number)
        .where(evaluations.c.id == evaluation_id)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    return ArchivedAnswer(
        id=row.id,
        record=_unpack(row.content),
        texts=_find_texts(connection, row),
        trace_id=row.trace_id,
        labels=_find_labels(connection, row),
        neighbours=Neighbours(_find_neighbour(connection, row, -1), _find_neighbour(connection, row, +1)),
    )


def _find_texts(connection: Connection, row: Row[Any]) -> dict[str, Any] | None:
    query = select(texts.c.content).order_by(texts.c.number.desc()).limit(1)
    if row.texts_id is not None:
        query = query.where(texts.c.id == row.texts_id)
    else:
        query = query.where(texts.c.interaction_id == row.interaction_id)
    content = connection.execute(query).scalar()
    return None if content is None else _unpack(content)


def _find_labels(connection: Connection, row: Row[Any]) -> list[ArchivedLabel]:
    is_about_answer = or_(
        labels.c.evaluation_id == row.id,
        (labels.c.evaluation_id.is_(None)) & (labels.c.interaction_id == row.interaction_id),
    )
    query = (
        select(*(labels.c[name] for name in ArchivedLabel._fields))
        .where(is_about_answer, labels.c.retracted.is_(False))
        .order_by(labels.c.at.desc(), labels.c.label_id)
    )
    return [ArchivedLabel(*label) for label in connection.execute(query)]


def _find_neighbour(connection: Connection, row: Row[Any], direction: int) -> str | None:
    place = tuple_(evaluations.c.at, evaluations.c.number)
    here = tuple_(row.at, row.number)
    query: Select[Any] = select(evaluations.c.id).where(evaluations.c.app == row.app).limit(1)
    if row.lane in HIDDEN_LANES:
        query = query.where(evaluations.c.lane == row.lane)
    else:
        query = query.where(evaluations.c.lane.not_in(HIDDEN_LANES))
    if direction < 0:
        query = query.where(place < here).order_by(evaluations.c.at.desc(), evaluations.c.number.desc())
    else:
        query = query.where(place > here).order_by(evaluations.c.at, evaluations.c.number)
    neighbour: str | None = connection.execute(query).scalar()
    return neighbour


def _unpack(content: bytes) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(zlib.decompress(content))
    return value
