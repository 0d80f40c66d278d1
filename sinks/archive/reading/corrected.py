"""Reads means that are corrected by the labels of people, over a time range."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, case, select

from judges.values.valid_labels import ValidLabels
from sinks.archive.reading.labels import label_of
from sinks.archive.reading.overview import read_sums
from sinks.archive.reading.times import MINUTE_MS, Slots
from sinks.archive.tables import evaluations, labels, scores
from sinks.base import COMPOSITE, HIDDEN_LANES
from sinks.statistics.corrected import CorrectedEstimate, CorrectionSums, JudgedSums, can_correct, correct

# The latest labels; a range with more of them is corrected by these.
_MOST_LABELS = 20_000


def read_corrected(
    connection: Connection, apps: Sequence[str], slots: Slots
) -> Mapping[str, Mapping[str, CorrectedEstimate]]:
    """Return the estimates of all series with labels, by app and series. Labels by trace id are not found here."""
    labelled = _sum_labels(_read_labels(connection, apps, slots))
    series = sorted({name for by_series in labelled.values() for name in by_series})
    judged = read_sums(connection, list(labelled), slots, series)
    return {
        app: {name: correct(sums.among(JudgedSums.of(judged[app, name]))) for name, sums in by_series.items()}
        for app, by_series in labelled.items()
    }


def _read_labels(connection: Connection, apps: Sequence[str], slots: Slots) -> Sequence[Any]:
    """Return the labels of each answer in the range, with the answer's score; the last evaluation comes last."""
    start, end = slots.first * MINUTE_MS, slots.end * MINUTE_MS
    answer, column = evaluations.c, labels.c
    verdict = and_(scores.c.number == answer.number, scores.c.criterion == column.criterion)
    query = (
        select(
            *(column[name] for name in ("label_id", "interaction_id", "criterion", "who", "at", "probability")),
            column.score.label("label"),
            answer.app,
            answer.probability.label("sampled"),
            case((column.criterion == COMPOSITE, answer.composite), else_=scores.c.score).label("score"),
        )
        .join_from(labels, evaluations, answer.interaction_id == column.interaction_id)
        .outerjoin(scores, verdict)
        .where(column.kind == "review", ~column.retracted, column.score.is_not(None), column.at >= start)
        .where(answer.at >= start, answer.at < end, answer.app.in_(apps), answer.lane.not_in(HIDDEN_LANES))
        .order_by(column.at.desc(), answer.number.desc())
        .limit(_MOST_LABELS)
    )
    return connection.execute(query).all()[::-1]


def _sum_labels(rows: Sequence[Any]) -> dict[str, dict[str, CorrectionSums]]:
    valid = ValidLabels(label_of(row) for row in rows)
    answers = {(row.interaction_id, row.criterion): row for row in rows}
    labelled: dict[str, dict[str, CorrectionSums]] = defaultdict(dict)
    for key, human in valid.scores("review").items():
        row, chance = answers[key], human.probability
        if row.score is not None and can_correct(chance, row.sampled):
            sums = CorrectionSums.of_label(row.score, human.score, row.sampled, chance)
            labelled[row.app][row.criterion] = labelled[row.app].get(row.criterion, CorrectionSums()) + sums
    return labelled
