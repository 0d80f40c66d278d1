"""Measures how well each judge agrees with people, over a time range, as `streamjury labels judges` does."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import CompoundSelect, Connection, Row, select, union

from sinks.archive.published import read_evaluation
from sinks.archive.reading.labels import label_of, select_reviews
from sinks.archive.reading.times import TimeRange
from sinks.archive.tables import evaluations, records
from sinks.archive.texts import decompress
from sinks.base import HIDDEN_LANES
from sinks.statistics.judge_quality import JudgeQuality
from sinks.statistics.labelled_answers import label_names
from sinks.statistics.measured_judges import Attribute, JudgedSeries, measure_judges

MOST_ANSWERS = 5_000
"""The latest labelled answers of a range. Each record must be decompressed: this many take 0.5 to 0.8 s."""
MOST_LABELS = 20_000
"""The latest labels of the archive, whatever answers they are about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredJudges:
    """The agreement of all judges with people."""

    qualities: Mapping[JudgedSeries, JudgeQuality]
    is_cut: bool
    """Whether there are more labels or labelled answers than were compared."""


def read_judge_quality(
    connection: Connection, period: TimeRange, *, app: str | None = None, by: Attribute | None = None
) -> MeasuredJudges:
    """Measure every judge on the labelled answers of a range, of all apps or of one."""
    rows = connection.execute(select_reviews(MOST_LABELS + 1)).all()
    answers = _read_answers(connection, period, app)
    # In the order of arrival: of several evaluations of one interaction, the last one counts.
    published = [read_evaluation(decompress(row.content)) for row in reversed(answers[:MOST_ANSWERS])]
    names = {name for answer in published for name in label_names(answer)}
    labels = (label_of(row) for row in rows[:MOST_LABELS] if row.interaction_id in names)
    return MeasuredJudges(
        qualities=measure_judges(published, labels, by),
        is_cut=len(rows) > MOST_LABELS or len(answers) > MOST_ANSWERS,
    )


def _read_answers(connection: Connection, period: TimeRange, app: str | None) -> list[Row[Any]]:
    """Return the records of the labelled answers, the latest first, and one more than are measured."""
    answer = evaluations.c
    query = (
        select(records.c.content)
        .join_from(evaluations, records, records.c.number == answer.number)
        .where(answer.interaction_id.in_(_select_labelled()))
        .where(answer.at >= period.start, answer.at < period.end, answer.lane.not_in(HIDDEN_LANES))
        .order_by(answer.at.desc(), answer.number.desc())
        .limit(MOST_ANSWERS + 1)
    )
    if app is not None:
        # An expression has no index: SQLite would read all answers of the app in the range, not the labelled ones.
        query = query.where(answer.app.concat("") == app)
    return list(connection.execute(query))


def _select_labelled() -> CompoundSelect[Any]:
    """Select the ids of the labelled interactions; labels name them by their own ids or by those of their traces."""
    names = select_reviews(MOST_LABELS).subquery()
    traced = evaluations.alias()
    by_trace = select(traced.c.interaction_id).where(traced.c.trace_id.in_(select(names.c.interaction_id)))
    return union(select(names.c.interaction_id), by_trace)
