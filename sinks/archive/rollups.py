"""Sums over minutes and hours, so that charts need not read every evaluation.

They are updated in the transactions that write evaluations. Only new evaluations change a sum, so a record that is read
twice counts once.
"""

from collections.abc import Mapping, Sequence
from math import ceil, exp, log
from typing import Any

from sqlalchemy import Connection, Table

from judges.values.evaluation import CompositeStatus, Reason, Status
from sinks.archive.bulk import Row, add_to_rows
from sinks.archive.published import JudgedDimension, JudgedVerdict, PublishedEvaluation
from sinks.archive.tables import app_minutes, buckets, by_hour, judge_failures, judge_latencies, judge_minutes
from sinks.base import COMPOSITE
from sinks.statistics.estimates import Moments, Sums

GOOD = "good"
"""The series of the share of good answers."""

MINUTE_MS = 60_000
HOUR = 60
"""In minutes."""

_STEP = log(1.25)
# From a microsecond to 11 days, in milliseconds.
_SHORTEST, _LONGEST = 1e-3, 1e9
# The index of each status among the sums of `app_minutes`.
_STATUSES = {status.value: place for place, status in enumerate(CompositeStatus, start=3)}


def latency_step(milliseconds: float) -> int:
    """Return the step of a duration in the histogram; each step is 25 % longer than the previous one."""
    return ceil(log(min(_LONGEST, max(_SHORTEST, milliseconds))) / _STEP)


def step_latency(step: int) -> float:
    """Return the duration in the middle of a step, in milliseconds."""
    return exp((step - 0.5) * _STEP)


def sums_of(row: Mapping[str, Any]) -> Sums:
    """Return the sums of a row of `buckets`, or of several rows added up, for `sinks.statistics.estimates.estimate`."""
    return Sums(
        count=row["n"],
        uncertain_count=row["uncertain_n"],
        records=_moments(row["w"], row["ws"], row["wss"]),
        uncertain=_moments(row["v"], row["vs"], row["vss"]),
        squares=row["squares"],
        cubes=row["cubes"],
        unscored=row["unscored"],
    )


def _moments(weight: float, total: float, squares: float) -> Moments:
    if not weight:
        return Moments()
    mean = min(1.0, max(0.0, total / weight))
    # Rounding must not make the spread negative.
    return Moments(weight=weight, mean=mean, spread=max(0.0, squares - mean * total))


class Rollups:
    """The changes that one transaction makes to all sums."""

    def __init__(self) -> None:
        self._changes: dict[Table, dict[Row, list[float]]] = {
            table: {} for table in (buckets, app_minutes, judge_minutes, judge_failures, judge_latencies)
        }

    def add(self, evaluation: PublishedEvaluation, *, app: str, time_ms: int, is_live: bool, good_score: float) -> None:
        """Add a new evaluation; `time_ms` is its time in milliseconds."""
        minute = time_ms // MINUTE_MS
        self._add_app(evaluation, app, minute, is_live=is_live)
        if is_live:
            self._add_scores(evaluation, app, minute, good_score)
        for criterion, dimension in evaluation.dimensions.items():
            self._add_verdicts(criterion, dimension, minute)

    def changes(self, table: Table) -> Mapping[Row, Sequence[float]]:
        """Return the additions to the rows of a table, by their keys."""
        return self._changes[table]

    def write(self, connection: Connection) -> None:
        for table, sums in self._changes.items():
            add_to_rows(connection, table, sums)
            add_to_rows(connection, by_hour[table], _add_up_hours(sums))

    def _add_app(self, evaluation: PublishedEvaluation, app: str, minute: int, *, is_live: bool) -> None:
        sums = self._changes[app_minutes].setdefault((app, minute), [0] * 9)
        sums[1] += evaluation.cost_usd or 0.0
        if is_live:
            sums[0] += 1
            sums[2] += evaluation.composite.coverage
            # A status that a later version introduced counts in `n` only.
            if (place := _STATUSES.get(evaluation.composite.status)) is not None:
                sums[place] += 1

    def _add_scores(self, evaluation: PublishedEvaluation, app: str, minute: int, good_score: float) -> None:
        weight = 1.0 / evaluation.sampling.probability
        composite = evaluation.composite.score
        self._add_score(app, COMPOSITE, minute, composite, weight)
        self._add_score(app, GOOD, minute, None if composite is None else float(composite >= good_score), weight)
        for criterion, dimension in evaluation.dimensions.items():
            score = dimension.score if dimension.status == Status.SCORED else None
            if score is not None or dimension.status == Status.INSUFFICIENT:
                self._add_score(app, criterion, minute, score, weight)

    def _add_score(self, app: str, series: str, minute: int, score: float | None, weight: float) -> None:
        sums = self._changes[buckets].setdefault((app, series, minute), [0] * 11)
        if score is None:
            sums[10] += weight
            return
        unseen = weight - 1.0
        part = weight * unseen
        sums[0] += 1
        sums[1] += unseen > 0.0
        sums[2] += weight
        sums[3] += weight * score
        sums[4] += weight * score * score
        sums[5] += part
        sums[6] += part * score
        sums[7] += part * score * score
        sums[8] += weight * weight
        sums[9] += part * unseen

    def _add_verdicts(self, criterion: str, dimension: JudgedDimension, minute: int) -> None:
        scored = [verdict for verdict in dimension.judges if verdict.status == Status.SCORED]
        for verdict in dimension.judges:
            sums = self._changes[judge_minutes].setdefault((verdict.judge, criterion, minute), [0] * 9)
            sums[0] += 1
            sums[8] += verdict.cost_usd or 0.0
            if verdict.status == Status.SCORED:
                _add_scored(sums, verdict, scored)
            elif verdict.reason is not None:
                _increase(self._changes[judge_failures], (verdict.judge, criterion, verdict.reason, minute))
            if _was_worked_on(verdict):
                sums[6] += 1
                sums[7] += verdict.latency_ms
                step = latency_step(verdict.latency_ms)
                _increase(self._changes[judge_latencies], (verdict.judge, step, minute))


def _add_up_hours(sums: Mapping[Row, Sequence[float]]) -> dict[Row, Sequence[float]]:
    """Add up sums of minutes to sums of hours; the minute is the last part of every key."""
    hours: dict[Row, Sequence[float]] = {}
    for (*names, minute), values in sums.items():
        key = (*names, minute // HOUR * HOUR)
        hours[key] = [one + other for one, other in zip(hours[key], values, strict=True)] if key in hours else values
    return hours


def _add_scored(sums: list[float], verdict: JudgedVerdict, scored: Sequence[JudgedVerdict]) -> None:
    sums[1] += 1
    if verdict.score is not None:
        sums[2] += 1
        sums[3] += verdict.score
    if len(scored) > 1:
        others = [other for other in scored if other is not verdict]
        sums[4] += 1
        sums[5] += sum(_agreement(verdict, other) for other in others) / len(others)


def _agreement(one: JudgedVerdict, other: JudgedVerdict) -> float:
    """Return 1 for the same choice and 0 for another; on a numeric range, how close the scores are."""
    if one.option is not None or one.score is None or other.score is None:
        return float(one.option == other.option)
    return 1.0 - abs(one.score - other.score)


def _increase(sums: dict[Row, list[float]], key: Row) -> None:
    sums.setdefault(key, [0])[0] += 1


def _was_worked_on(verdict: JudgedVerdict) -> bool:
    """Return whether the latency is that of a working judge, as in `sinks.metrics.verdicts`."""
    samples = verdict.samples
    was_unreachable = verdict.reason == Reason.UNAVAILABLE and not samples.valid + samples.invalid
    return samples.requested > 0 and verdict.latency_ms > 0 and not was_unreachable and not verdict.cached
