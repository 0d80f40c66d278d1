"""Reads the figures of judges over a time range, from sums by minute or hour."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from judges.values.evaluation import Status
from sinks.archive.published import PublishedEvaluation, read_evaluation
from sinks.archive.reading.sums import rows_within
from sinks.archive.reading.times import MINUTE_MS, Slots, TimeRange
from sinks.archive.rollups import step_latency
from sinks.archive.tables import evaluations, judge_failures, judge_latencies, judge_minutes, records
from sinks.archive.texts import decompress
from sinks.metrics.names import FAILURE_REASONS

# Failures within these minutes show that a judge is down now.
_RECENT_MINUTES = 15
# Histograms have many rows: longer ranges are read from the sums of whole hours.
_LONGEST_BY_MINUTE = 180
_CANARY_LANE, _CANARY_TAG = "canary", "canary"
# Each record must be decompressed: this many take about 20 ms.
_MOST_CANARIES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeFailures:
    """The recent failures of a judge."""

    judge: str
    verdicts: int
    failures: int
    main_reason: str | None


class CriterionFigures(NamedTuple):
    criterion: str
    n: int
    mean: float | None


class CanaryFigures(NamedTuple):
    ok: int
    changed: int


@dataclass(slots=True, kw_only=True)
class JudgeFigures:
    """The figures of one judge."""

    judge: str
    n: int = 0
    scored: int = 0
    compared: int = 0
    agreed: float = 0.0
    cost_usd: float = 0.0
    failures: dict[str, int] = field(default_factory=dict)
    """Failures by reason: the judge was unreachable, took too long, or returned no valid output."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Other verdicts without a score, by reason, for example if there was nothing to judge."""
    latencies: dict[int, int] = field(default_factory=dict)
    """Verdicts by step of the histogram."""
    criteria: list[CriterionFigures] = field(default_factory=list)
    canaries: CanaryFigures | None = None

    def latency_ms(self, share: float) -> float | None:
        """Return the latency that this share of the verdicts does not exceed, to within 25 %."""
        total, cumulative = sum(self.latencies.values()), 0
        for step, number in sorted(self.latencies.items()):
            cumulative += number
            if cumulative >= share * total:
                return step_latency(step)
        return None


def read_judges(connection: Connection, period: TimeRange) -> list[JudgeFigures]:
    """Return the figures of all judges with verdicts in the range, by name."""
    slots = Slots.divide(period, 2, longest_by_minute=_LONGEST_BY_MINUTE)
    judges: dict[str, JudgeFigures] = {}
    _add_verdicts(connection, slots, judges)
    _add_failures(connection, slots, judges)
    _add_latencies(connection, slots, judges)
    for judge, figures in _read_canaries(connection, period).items():
        if judge in judges:
            judges[judge].canaries = figures
    return [judges[name] for name in sorted(judges)]


def read_recent_failures(connection: Connection, end: int) -> list[JudgeFailures]:
    """Return the failures of all judges in the last minutes before a time, given in milliseconds."""
    period = TimeRange(start=max(0, end - _RECENT_MINUTES * MINUTE_MS), end=max(end, 1))
    slots = Slots.divide(period, 2)
    judges: dict[str, JudgeFigures] = {}
    _add_verdicts(connection, slots, judges)
    _add_failures(connection, slots, judges)
    return [
        JudgeFailures(
            judge=figures.judge,
            verdicts=figures.n,
            failures=sum(figures.failures.values()),
            main_reason=max(figures.failures, key=lambda reason: figures.failures[reason], default=None),
        )
        for figures in judges.values()
    ]


def _add_verdicts(connection: Connection, slots: Slots, judges: dict[str, JudgeFigures]) -> None:
    table, condition = rows_within(judge_minutes, slots)
    names = ("n", "scored", "scores", "score", "compared", "agreed", "cost_usd")
    query = (
        select(table.c.judge, table.c.criterion, *(func.sum(table.c[name]).label(name) for name in names))
        .where(condition)
        .group_by(table.c.judge, table.c.criterion)
        .order_by(table.c.judge, table.c.criterion)
    )
    for row in connection.execute(query):
        figures = judges.setdefault(row.judge, JudgeFigures(judge=row.judge))
        figures.n += int(row.n)
        figures.scored += int(row.scored)
        figures.compared += int(row.compared)
        figures.agreed += row.agreed
        figures.cost_usd += row.cost_usd
        mean = row.score / int(row.scores) if row.scores else None
        figures.criteria.append(CriterionFigures(row.criterion, int(row.n), mean))


def _add_failures(connection: Connection, slots: Slots, judges: Mapping[str, JudgeFigures]) -> None:
    table, condition = rows_within(judge_failures, slots)
    query = (
        select(table.c.judge, table.c.reason, func.sum(table.c.n).label("n"))
        .where(condition)
        .group_by(table.c.judge, table.c.reason)
        .order_by(table.c.judge, table.c.reason)
    )
    for row in connection.execute(query):
        figures = judges[row.judge]
        reasons = figures.failures if row.reason in FAILURE_REASONS else figures.left_out
        reasons[row.reason] = int(row.n)


def _add_latencies(connection: Connection, slots: Slots, judges: Mapping[str, JudgeFigures]) -> None:
    table, condition = rows_within(judge_latencies, slots)
    query = (
        select(table.c.judge, table.c.step, func.sum(table.c.n).label("n"))
        .where(condition)
        .group_by(table.c.judge, table.c.step)
    )
    for row in connection.execute(query):
        judges[row.judge].latencies[row.step] = int(row.n)


# Canaries


class _CanaryKey(NamedTuple):
    """Key of a group of verdicts that should all be the same."""

    judge: str
    canary: str
    criterion: str
    fingerprint: str


def _read_canaries(connection: Connection, period: TimeRange) -> dict[str, CanaryFigures]:
    """Count, by judge, the verdicts on the latest canaries that are the judge's usual verdict, and the others."""
    query = (
        select(records.c.content)
        .join(evaluations, evaluations.c.number == records.c.number)
        .where(
            evaluations.c.lane == _CANARY_LANE,
            evaluations.c.at >= period.start,
            evaluations.c.at < period.end,
        )
        .order_by(evaluations.c.at.desc())
        .limit(_MOST_CANARIES)
    )
    verdicts: defaultdict[_CanaryKey, Counter[str]] = defaultdict(Counter)
    for (content,) in connection.execute(query):
        for key, verdict in _canary_verdicts(read_evaluation(decompress(content))):
            verdicts[key][verdict] += 1
    return _count_usual(verdicts)


def _canary_verdicts(evaluation: PublishedEvaluation) -> Iterator[tuple[_CanaryKey, str]]:
    canary = evaluation.tags.get(_CANARY_TAG)
    if not isinstance(canary, str):
        return
    for criterion, dimension in evaluation.dimensions.items():
        for verdict in dimension.judges:
            if verdict.status == Status.SCORED:
                key = _CanaryKey(verdict.judge, canary, criterion, evaluation.evaluator.fingerprint)
                yield key, verdict.option or str(verdict.score)


def _count_usual(verdicts: Mapping[_CanaryKey, Counter[str]]) -> dict[str, CanaryFigures]:
    figures: dict[str, CanaryFigures] = {}
    for key, counts in verdicts.items():
        [(_usual, times)] = counts.most_common(1)
        ok, changed = figures.get(key.judge, (0, 0))
        figures[key.judge] = CanaryFigures(ok + times, changed + counts.total() - times)
    return figures
