"""Reads the figures of all apps over a time range, from sums by minute or hour."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, select

from sinks.archive.reading.sums import rows_within, sum_columns
from sinks.archive.reading.times import Slots
from sinks.archive.rollups import sums_of
from sinks.archive.tables import app_minutes, buckets
from sinks.base import COMPOSITE
from sinks.statistics.estimates import Sums


@dataclass(slots=True, kw_only=True)
class AppFigures:
    """The figures of one app."""

    app: str
    evaluations: int
    cost_usd: float
    by_slot: dict[int, Sums] = field(default_factory=dict)
    """Sums of the composite, by the number of the slot since 1970."""
    series: dict[str, Sums] = field(default_factory=dict)
    """Sums over the whole range, by series."""

    @property
    def composite(self) -> Sums:
        return sum(self.by_slot.values(), Sums())


def list_apps(connection: Connection, slots: Slots, most: int) -> list[AppFigures]:
    """Return the apps with evaluations in the range, without their series; the app with the most comes first."""
    table, condition = rows_within(app_minutes, slots)
    evaluations = func.sum(table.c.n)
    query = (
        select(table.c.app, evaluations, func.sum(table.c.cost_usd))
        .where(condition)
        .group_by(table.c.app)
        # Apps that have only canaries and backfills have a cost, but no live evaluations.
        .having(evaluations > 0)
        .order_by(evaluations.desc(), table.c.app)
        .limit(most)
    )
    return [AppFigures(app=app, evaluations=int(n), cost_usd=cost) for app, n, cost in connection.execute(query)]


def count_apps(connection: Connection, slots: Slots) -> int:
    """Return the number of apps with evaluations in the range."""
    table, condition = rows_within(app_minutes, slots)
    query = select(func.count(table.c.app.distinct())).where(condition, table.c.n > 0)
    return connection.execute(query).scalar() or 0


def add_series(connection: Connection, apps: Sequence[AppFigures], slots: Slots, series: Sequence[str]) -> None:
    """Add the composite by slot, and these series over the whole range."""
    by_name = {figures.app: figures for figures in apps}
    for row in _read_sums(connection, by_name, slots, [COMPOSITE], by_slot=True):
        by_name[row["app"]].by_slot[int(row["slot"])] = sums_of(row)
    for row in _read_sums(connection, by_name, slots, series, by_slot=False):
        by_name[row["app"]].series[row["series"]] = sums_of(row)


def read_series(connection: Connection, app: str, series: str, slots: Slots) -> dict[int, Sums]:
    """Return the sums of one series of one app, by the number of the slot since 1970."""
    rows = _read_sums(connection, {app: None}, slots, [series], by_slot=True)
    return {int(row["slot"]): sums_of(row) for row in rows}


def read_sums(
    connection: Connection, apps: Sequence[str], slots: Slots, series: Sequence[str]
) -> Mapping[tuple[str, str], Sums]:
    """Return the sums over the whole range by app and series; those without answers are empty."""
    rows = _read_sums(connection, dict.fromkeys(apps), slots, series, by_slot=False) if apps else []
    return defaultdict(Sums, {(row["app"], row["series"]): sums_of(row) for row in rows})


def _read_sums(
    connection: Connection, apps: Mapping[str, object], slots: Slots, series: Sequence[str], *, by_slot: bool
) -> list[dict[str, Any]]:
    table, condition = rows_within(buckets, slots)
    # Both databases round the quotient of whole numbers down.
    slot = (table.c.minute // slots.step).label("slot")
    keys = [table.c.app, table.c.series, *([slot] if by_slot else [])]
    query = (
        select(*keys, *sum_columns(table))
        # By app and series, so that the primary key is used, which ends with the minute.
        .where(table.c.app.in_(apps), table.c.series.in_(series), condition)
        .group_by(*keys)
    )
    return [row._asdict() for row in connection.execute(query)]
