"""A large archive in little time: some evaluations written as the archivist does, and copies of them in later hours.

The copies are made by the database. Their ids and times differ, everything else is the same; whole hours are copied, so
that the sums over minutes and hours are exact copies, too.
"""

import os
from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import Connection, Table, func, select

from benchmarks.archive_data import make_answers
from sinks.archive.database import POSTGRESQL, Database
from sinks.archive.retention import Retention
from sinks.archive.tables import (
    by_hour,
    evaluation_tags,
    evaluations,
    records,
    scores,
    texts,
)
from sinks.archive.texts import searchable_texts
from sinks.archive.writing import ArchiveBatch, ArchiveWriter
from stream.archivist.rows import RowReader
from stream.config.model import Config
from stream.kafka.offsets import Partition
from stream.kafka.record import Record

_HOUR = timedelta(hours=1)
_BATCH = 1_000
_COPIED_AT_ONCE = 10


def fill_with_copies(database: Database, *, original: int, hours: int, copies: int, start: datetime) -> None:
    """Write this many evaluations over some hours from `start` on, and copy them into the hours after."""
    _write(database, original, hours, start)
    with database.read() as connection:
        last = {table: connection.scalar(select(func.max(table.c.number))) for table in (evaluations, texts)}
    for first in range(1, copies + 1, _COPIED_AT_ONCE):
        with database.write() as connection:
            for copy in range(first, min(first + _COPIED_AT_ONCE, copies + 1)):
                _copy(connection, copy, hours, last)
    if database.kind == POSTGRESQL:
        with database.outside_transactions() as connection:
            connection.exec_driver_sql("VACUUM ANALYZE")  # as a server does by itself
            connection.exec_driver_sql("CHECKPOINT")
    # Otherwise the disk is still busy with some gigabytes when the measurement begins.
    os.sync()


def _write(database: Database, count: int, hours: int, start: datetime) -> None:
    config = Config()
    reader, writer = RowReader(config), ArchiveWriter(database, Retention(None))
    batch = ArchiveBatch()
    for answer in make_answers(count, start=start, period=hours * _HOUR):
        when = answer.judged_at.timestamp()
        topics = (
            (config.topics.evaluations, answer.evaluation, answer.evaluation_headers),
            (config.topics.sampled, answer.interaction, answer.interaction_headers),
        )
        for topic, value, headers in topics:
            record = Record(Partition(topic, 0), 0, None, value, headers, written_at=when)
            reader.add(record, batch)
        if len(batch.evaluations) >= _BATCH:
            writer.write(batch)
            batch = ArchiveBatch()
    writer.write(batch)


def _copy(connection: Connection, copy: int, hours: int, last: Mapping[Table, int | None]) -> None:
    milliseconds, minutes = copy * hours * 3_600_000, copy * hours * 60
    numbers, text_numbers = last[evaluations] or 0, last[texts] or 0
    shift = {"at": f"at + {milliseconds}", "minute": f"minute + {minutes}"}
    ids = {name: f"{name} || ':{copy}'" for name in ("id", "interaction_id", "texts_id")}
    for table in (evaluations, records, scores, evaluation_tags):
        number = {"number": f"number + {copy * numbers}"}
        _insert(connection, table, {**shift, **ids, **number}, f"number <= {numbers}")
    number = {"number": f"number + {copy * text_numbers}"}
    if connection.dialect.name == POSTGRESQL:
        number["search"] = "search"
    _insert(connection, texts, {**shift, **ids, **number}, f"number <= {text_numbers}")
    if connection.dialect.name != POSTGRESQL:
        _index_words(connection, copy * text_numbers, text_numbers)
    for table in (*by_hour, *by_hour.values()):
        first = f"(SELECT min(minute) FROM {table.name})"
        _insert(connection, table, shift, f"minute < {first} + {hours * 60}")


def _insert(connection: Connection, table: Table, changed: Mapping[str, str], condition: str) -> None:
    names = [column.name for column in table.columns]
    names += ["search"] if "search" in changed else []
    values = ", ".join(changed.get(name, name) for name in names)
    query = f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {values} FROM {table.name} WHERE {condition}"
    connection.exec_driver_sql(query)


def _index_words(connection: Connection, shift: int, last: int) -> None:
    rows = connection.exec_driver_sql(f"SELECT number, content FROM texts WHERE number <= {last}").all()
    words = [(number + shift, *searchable_texts(content)) for number, content in rows]
    connection.exec_driver_sql("INSERT INTO texts_search(rowid, question, answer) VALUES (?, ?, ?)", words)
