"""Deletes rows that are older than `archive.keep_days`, a few at a time, so that writers do not wait for long."""

import time

from sqlalchemy import Connection, Table, delete, select

from sinks.archive.database import Database
from sinks.archive.removal import remove_evaluations, remove_texts
from sinks.archive.rollups import HOUR, MINUTE_MS
from sinks.archive.tables import (
    alerts,
    app_minutes,
    buckets,
    by_hour,
    evaluations,
    judge_failures,
    judge_latencies,
    judge_minutes,
    labels,
    texts,
)

_DAY_MS = 86_400_000
_BATCH = 500
_ROLLUPS = (buckets, app_minutes, judge_minutes, judge_failures, judge_latencies)


class Retention:
    """Decides how long rows are kept, and deletes expired ones."""

    def __init__(self, keep_days: float | None) -> None:
        """Keep everything if `keep_days` is None."""
        self._keep_ms = None if keep_days is None else int(keep_days * _DAY_MS)

    def horizon(self) -> int | None:
        """Return the time, in milliseconds, before which rows are deleted; None if all rows are kept.

        It is a whole minute, so that a minute's sums are deleted together with its evaluations.
        """
        return None if self._keep_ms is None else (int(time.time() * 1000) - self._keep_ms) // MINUTE_MS * MINUTE_MS

    def delete_expired(self, database: Database) -> int:
        """Delete a batch of expired rows in one transaction; return their number, 0 when no expired rows remain."""
        horizon = self.horizon()
        if horizon is None:
            return 0
        with database.write() as connection:
            return _delete_batch(connection, horizon)


def _delete_batch(connection: Connection, horizon: int) -> int:
    numbers = _find_expired(connection, evaluations, horizon)
    remove_evaluations(connection, numbers)
    texts_numbers = _find_expired(connection, texts, horizon)
    remove_texts(connection, texts_numbers)
    deleted = len(numbers) + len(texts_numbers)
    if deleted:
        return deleted
    for table in _ROLLUPS:
        deleted += connection.execute(delete(table).where(table.c.minute < horizon // MINUTE_MS)).rowcount
        hours = by_hour[table]
        deleted += connection.execute(delete(hours).where(hours.c.minute <= horizon // MINUTE_MS - HOUR)).rowcount
    deleted += connection.execute(delete(labels).where(labels.c.at < horizon)).rowcount
    # An open alert never expires.
    deleted += connection.execute(delete(alerts).where(alerts.c.cleared_at < horizon)).rowcount
    return deleted


def _find_expired(connection: Connection, table: Table, horizon: int) -> list[int]:
    chosen = select(table.c.number).where(table.c.at < horizon).order_by(table.c.number).limit(_BATCH)
    return list(connection.scalars(chosen))
