"""Figures about an archive: the number of its rows, their time span, and its size on disk."""

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, func, select, text

from sinks.archive.database import SQLITE, Database
from sinks.archive.tables import alerts, erasures, evaluations, labels, positions, texts

_COUNTED = (evaluations, texts, alerts, labels, erasures)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveStats:
    """Figures about an archive."""

    rows: dict[str, int]
    """Number of rows by table."""
    oldest: int | None
    """Time of the oldest evaluation, in milliseconds; None without evaluations."""
    newest: int | None
    size: int
    """Bytes on disk."""
    positions: dict[str, dict[int, int]]
    """The next offset of each partition, by topic."""


def read_stats(database: Database) -> ArchiveStats:
    with database.read() as connection:
        oldest, newest = connection.execute(select(func.min(evaluations.c.at), func.max(evaluations.c.at))).one()
        offsets: dict[str, dict[int, int]] = {}
        for row in connection.execute(select(positions).order_by(positions.c.topic, positions.c.partition)):
            offsets.setdefault(row.topic, {})[row.partition] = row.next_offset
        return ArchiveStats(
            rows={table.name: connection.scalar(select(func.count()).select_from(table)) or 0 for table in _COUNTED},
            oldest=oldest,
            newest=newest,
            size=_size_of(database, connection),
            positions=offsets,
        )


def _size_of(database: Database, connection: Connection) -> int:
    if database.kind != SQLITE:
        return connection.scalar(text("SELECT pg_database_size(current_database())")) or 0
    path = database.engine.url.database or ""
    return sum(file.stat().st_size for file in map(Path, (path, f"{path}-wal")) if file.exists())
