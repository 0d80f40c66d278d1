"""Writes batches of records from Kafka, each in one transaction with the positions after it.

1. Advance the positions, each from the value that this process last read or wrote. If a position has moved, another
   archivist or a rebuild was faster: the transaction is rolled back, and the caller reads the positions again.
2. Drop rows that are older than the archive keeps, or were erased on request.
3. Insert the evaluations that are not archived yet, with their scores, tags and records; then the texts.
4. Add the new evaluations, and only these, to the sums of their minutes.
5. Update alerts to their latest announcement, and add or retract labels.

A record may therefore be read many times, by several processes: its rows exist once and count once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, delete, select, text, update
from sqlalchemy.dialects import postgresql, sqlite

from sinks.archive.bulk import find_existing, insert_rows, take_numbers
from sinks.archive.database import POSTGRESQL, Database
from sinks.archive.erasure import find_erased, remove_erased_examples
from sinks.archive.published import PublishedEvaluation
from sinks.archive.retention import Retention
from sinks.archive.rollups import Rollups
from sinks.archive.tables import (
    alerts,
    evaluation_tags,
    evaluations,
    labels,
    metadata,
    positions,
    records,
    scores,
    texts,
)
from sinks.archive.texts import searchable_texts

# Not rebuilt from Kafka: actions of people on the page, and erasures, which must stay in force.
_NOT_FROM_KAFKA = frozenset({"audit_log", "erasures"})


# Only the server can compute the search vector.
_INSERT_TEXTS = """
INSERT INTO texts (number, id, interaction_id, at, tenant, content, search)
SELECT number, id, interaction_id, at, tenant, content, to_tsvector('simple', words)
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::bytea[], %s::text[])
AS new(number, id, interaction_id, at, tenant, content, words)
"""


class PositionMoved(Exception):  # noqa: N818 - a signal to read the positions again
    """Another process has written further, or the archive is being rebuilt."""


class SourcePartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Advance(NamedTuple):
    """A change of a position."""

    since: int | None
    """The position as last read or written; None if the archive had none."""
    until: int


class EvaluationRow(NamedTuple):
    """A row of `evaluations`, without its number."""

    id: str
    interaction_id: str
    texts_id: str | None
    at: int
    app: str
    tenant: str | None
    model: str | None
    lane: str
    rule: str
    probability: float
    composite: float | None
    status: str
    coverage: float
    safety: str
    worst_criterion: str | None
    spread: float | None
    cost_usd: float | None
    latency_ms: float
    fingerprint: str
    trace_id: str | None
    tags: str
    question: str | None
    answer: str | None


class ArchivedEvaluation(NamedTuple):
    """An evaluation with all its rows."""

    row: EvaluationRow
    logged_id: str
    """The id under which the interaction was logged."""
    tags: Sequence[tuple[str, str]]
    record: bytes
    published: PublishedEvaluation
    is_live: bool
    good_score: float


class ArchivedTexts(NamedTuple):
    """The texts of an interaction: a row of `texts`, without its number."""

    id: str
    interaction_id: str
    at: int
    tenant: str | None
    content: bytes


@dataclass(slots=True)
class ArchiveBatch:
    """Rows from records of Kafka, in the order of reading, and the positions after them."""

    evaluations: list[ArchivedEvaluation] = field(default_factory=list)
    texts: list[ArchivedTexts] = field(default_factory=list)
    alerts: list[dict[str, Any]] = field(default_factory=list)
    """Rows of `alerts`."""
    labels: list[dict[str, Any]] = field(default_factory=list)
    """Rows of `labels`."""
    retractions: list[str] = field(default_factory=list)
    """Ids of retracted labels."""
    positions: dict[SourcePartition, Advance] = field(default_factory=dict)


class WrittenRows(NamedTuple):
    """Numbers of new rows, and of evaluations that added no row."""

    evaluations: int = 0
    repeated: int = 0
    """Evaluations that were already archived."""
    left_out: int = 0
    """Evaluations that were erased, or are older than the archive keeps."""
    texts: int = 0
    alerts: int = 0
    labels: int = 0


class ArchiveWriter:
    """Writes to one database."""

    def __init__(self, database: Database, retention: Retention) -> None:
        self._database = database
        self._retention = retention

    def read_positions(self) -> dict[SourcePartition, int]:
        with self._database.read() as connection:
            rows = connection.execute(select(positions.c.topic, positions.c.partition, positions.c.next_offset))
            return {SourcePartition(topic, partition): offset for topic, partition, offset in rows}

    def write(self, batch: ArchiveBatch) -> WrittenRows:
        """Write a batch in the steps listed above; raise `PositionMoved` if it must be read again."""
        with self._database.write() as connection:
            _advance(connection, batch.positions)
            return self._write(connection, batch)

    def _write(self, connection: Connection, batch: ArchiveBatch) -> WrittenRows:
        remaining = self._filter_batch(connection, batch)
        new = _insert_evaluations(connection, remaining.evaluations)
        new_texts = _insert_texts(connection, remaining.texts)
        rollups = Rollups()
        for item in new:
            row = item.row
            rollups.add(item.published, app=row.app, time_ms=row.at, is_live=item.is_live, good_score=item.good_score)
        rollups.write(connection)
        _upsert_alerts(connection, remaining.alerts)
        _insert_labels(connection, remaining.labels)
        _retract(connection, batch.retractions)
        return WrittenRows(
            evaluations=len(new),
            repeated=len(remaining.evaluations) - len(new),
            left_out=len(batch.evaluations) - len(remaining.evaluations),
            texts=new_texts,
            alerts=len(remaining.alerts),
            labels=len(remaining.labels) + len(batch.retractions),
        )

    def _filter_batch(self, connection: Connection, batch: ArchiveBatch) -> ArchiveBatch:
        horizon = self._retention.horizon() or 0
        interaction_ids = {name for item in batch.evaluations for name in (item.row.interaction_id, item.logged_id)}
        interaction_ids.update(item.interaction_id for item in batch.texts)
        interaction_ids.update(label["interaction_id"] for label in batch.labels)
        erased_ids = find_erased(connection, "interaction", interaction_ids)
        tenants = {item.row.tenant or "" for item in batch.evaluations} | {item.tenant or "" for item in batch.texts}
        tenants.update(row["value"] or "" for row in batch.alerts if row["attribute"] == "tenant")
        erased_tenants = find_erased(connection, "tenant", tenants)
        return ArchiveBatch(
            evaluations=[
                item
                for item in batch.evaluations
                if item.row.at >= horizon
                and item.row.interaction_id not in erased_ids
                and item.logged_id not in erased_ids
                and item.row.tenant not in erased_tenants
            ],
            texts=[
                item
                for item in batch.texts
                if item.at >= horizon and item.interaction_id not in erased_ids and item.tenant not in erased_tenants
            ],
            alerts=[
                remove_erased_examples(connection, row)
                for row in batch.alerts
                if (row["cleared_at"] is None or row["cleared_at"] >= horizon)
                and not (row["attribute"] == "tenant" and row["value"] in erased_tenants)
            ],
            labels=[row for row in batch.labels if row["at"] >= horizon and row["interaction_id"] not in erased_ids],
        )


def empty(database: Database) -> None:
    """Delete all rows that came from Kafka, and the positions, so that the archivists read all topics again."""
    with database.write() as connection:
        for table in metadata.tables.values():
            if table.name not in _NOT_FROM_KAFKA:
                connection.execute(delete(table))
        if connection.dialect.name != POSTGRESQL:
            connection.execute(text("INSERT INTO texts_search(texts_search) VALUES ('delete-all')"))


def forget_positions(database: Database) -> None:
    """Make the archivists read all topics again; existing rows stay as they are."""
    with database.write() as connection:
        connection.execute(delete(positions))


def _advance(connection: Connection, advances: Mapping[SourcePartition, Advance]) -> None:
    for place, advance in sorted(advances.items()):
        if advance.since is None:
            insert = _insert(connection, positions).values((*place, advance.until)).on_conflict_do_nothing()
            statement = insert.returning(positions.c.partition)
        else:
            here = and_(
                positions.c.topic == place.topic,
                positions.c.partition == place.partition,
                positions.c.next_offset == advance.since,
            )
            change = update(positions).where(here).values(next_offset=advance.until)
            statement = change.returning(positions.c.partition)
        if connection.execute(statement).first() is None:
            raise PositionMoved(f"{place.topic}/{place.partition} is no longer at {advance.since}")


def _insert_evaluations(connection: Connection, items: Sequence[ArchivedEvaluation]) -> Sequence[ArchivedEvaluation]:
    """Insert the evaluations that are not archived yet, and return them; of several with one id, the first."""
    by_id: dict[str, ArchivedEvaluation] = {}
    for item in items:
        by_id.setdefault(item.row.id, item)
    existing = find_existing(connection, evaluations.c.id, list(by_id))
    new = [item for name, item in by_id.items() if name not in existing]
    numbered = list(zip(take_numbers(connection, evaluations, len(new)), new, strict=True)) if new else []
    insert_rows(connection, evaluations, [(number, *item.row) for number, item in numbered])
    insert_rows(connection, records, [(number, item.record) for number, item in numbered])
    insert_rows(
        connection,
        scores,
        [
            (number, name, item.row.at, item.row.app, part.status, part.score, part.option, part.spread)
            for number, item in numbered
            for name, part in item.published.dimensions.items()
        ],
    )
    insert_rows(
        connection,
        evaluation_tags,
        [(name, value, number) for number, item in numbered for name, value in item.tags],
    )
    return new


def _insert_texts(connection: Connection, items: Sequence[ArchivedTexts]) -> int:
    by_id: dict[str, ArchivedTexts] = {}
    for item in items:
        by_id.setdefault(item.id, item)
    existing = find_existing(connection, texts.c.id, list(by_id))
    new = [item for name, item in by_id.items() if name not in existing]
    if not new:
        return 0
    numbers = take_numbers(connection, texts, len(new))
    rows = [(number, *item) for number, item in zip(numbers, new, strict=True)]
    words = [searchable_texts(item.content) for item in new]
    if connection.dialect.name == POSTGRESQL:
        columns = [list(column) for column in zip(*rows, strict=True)]
        connection.exec_driver_sql(_INSERT_TEXTS, (*columns, [f"{question}\n{answer}" for question, answer in words]))
    else:
        insert_rows(connection, texts, rows)
        search_rows = [(number, *pair) for number, pair in zip(numbers, words, strict=True)]
        connection.exec_driver_sql("INSERT INTO texts_search(rowid, question, answer) VALUES (?, ?, ?)", search_rows)
    return len(new)


def _upsert_alerts(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store the latest announcement of each alert; ignore older ones that are read again."""
    if not rows:
        return
    insert = _insert(connection, alerts)
    others = {column.name: insert.excluded[column.name] for column in alerts.columns if not column.primary_key}
    newer = insert.on_conflict_do_update(
        index_elements=[alerts.c.alert_id], set_=others, where=alerts.c.at <= insert.excluded.at
    )
    for row in rows:
        connection.execute(newer, row)


def _insert_labels(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        connection.execute(_insert(connection, labels).on_conflict_do_nothing(), list(rows))


def _retract(connection: Connection, names: Sequence[str]) -> None:
    if names:
        connection.execute(update(labels).where(labels.c.label_id.in_(names)).values(retracted=True))


def _insert(connection: Connection, table: Any) -> Any:
    return postgresql.insert(table) if connection.dialect.name == POSTGRESQL else sqlite.insert(table)
