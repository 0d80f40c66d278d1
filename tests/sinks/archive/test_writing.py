"""Writing: whatever is read twice, killed or written by two at once, every evaluation has one row and counts once."""

import threading
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Table, func, select, text

from benchmarks.archive_data import SyntheticAnswer, make_answers, records_of
from sinks.archive.database import Database
from sinks.archive.retention import Retention
from sinks.archive.tables import (
    alerts,
    app_minutes,
    buckets,
    evaluation_tags,
    evaluations,
    judge_failures,
    judge_latencies,
    judge_minutes,
    labels,
    records,
    scores,
    texts,
)
from sinks.archive.texts import decompress
from sinks.archive.writing import (
    Advance,
    ArchiveBatch,
    ArchiveWriter,
    PositionMoved,
    SourcePartition,
    empty,
    forget_positions,
)
from stream.archivist.rows import RowReader
from stream.config.model import Config

COUNT = 24
ROLLUPS = (buckets, app_minutes, judge_minutes, judge_failures, judge_latencies)
PLACE = SourcePartition("rag.evaluations", 0)


@cache
def answers() -> Sequence[SyntheticAnswer]:
    return list(make_answers(COUNT))


@pytest.fixture
def database(archive_url: str) -> Iterator[Database]:
    with Database(archive_url) as opened:
        yield opened


def batch_of(chosen: Sequence[SyntheticAnswer]) -> ArchiveBatch:
    config = Config()
    reader, batch = RowReader(config), ArchiveBatch()
    for record in records_of(chosen, config):
        reader.add(record, batch)
    return batch


def writer_of(database: Database) -> ArchiveWriter:
    return ArchiveWriter(database, Retention(None))


def rows_of(connection: Connection, table: Table, *order: str) -> list[tuple[Any, ...]]:
    keys = order or [column.name for column in table.primary_key]
    return [tuple(row) for row in connection.execute(select(table).order_by(*(table.c[name] for name in keys)))]


def rollups_in(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    with database.read() as connection:
        return {table.name: rows_of(connection, table) for table in ROLLUPS}


def count(database: Database, table: Table) -> int:
    with database.read() as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0


def assert_alike(one: dict[str, list[tuple[Any, ...]]], other: dict[str, list[tuple[Any, ...]]]) -> None:
    """Sums of floats depend a little on their order."""
    for name, rows in one.items():
        assert [row[:2] for row in rows] == [row[:2] for row in other[name]], name
        for row, same in zip(rows, other[name], strict=True):
            assert row == pytest.approx(same, rel=1e-9), name


def test_every_part_of_an_evaluation_is_stored(database: Database) -> None:
    written = writer_of(database).write(batch_of(answers()))

    assert (written.evaluations, written.texts, written.repeated) == (COUNT, COUNT, 0)
    with database.read() as connection:
        stored = connection.execute(
            select(evaluations, records.c.content, texts.c.content.label("texts"))
            .join(records, records.c.number == evaluations.c.number)
            .join(texts, texts.c.id == evaluations.c.texts_id)
            .order_by(evaluations.c.number)
        ).all()
        assert [row.id for row in stored] == [answer.evaluation_id for answer in answers()]
        assert [decompress(row.content) for row in stored] == [answer.evaluation for answer in answers()]
        assert all(f"ref{place}" in decompress(row.texts).decode() for place, row in enumerate(stored))
        assert connection.scalar(select(func.count()).select_from(scores)) == 6 * COUNT
        assert connection.scalar(
            select(func.count()).select_from(evaluation_tags).where(evaluation_tags.c.name == "regime")
        )


def test_words_of_questions_and_answers_are_found(database: Database) -> None:
    writer_of(database).write(batch_of(answers()))
    if database.kind == "sqlite":
        matches = "SELECT rowid FROM texts_search WHERE texts_search MATCH :q"
        search = f"SELECT interaction_id FROM texts WHERE number IN ({matches})"
    else:
        search = "SELECT interaction_id FROM texts WHERE search @@ websearch_to_tsquery('simple', :q)"
    with database.read() as connection:
        assert connection.scalars(text(search), {"q": "ref17"}).all() == ["answer-00000017"]
        assert connection.scalars(text(search), {"q": "REF17"}).all() == ["answer-00000017"]
        assert connection.scalars(text(search), {"q": "nothing17"}).all() == []


@st.composite
def deliveries(draw: st.DrawFn) -> list[list[int]]:
    """Batches that deliver every answer at least once, in any order, with any repeats within and between them."""
    repeats = draw(st.lists(st.integers(0, COUNT - 1), max_size=30))
    order = draw(st.permutations([*range(COUNT), *repeats]))
    cuts = sorted(draw(st.sets(st.integers(1, len(order) - 1), max_size=6)))
    return [order[start:end] for start, end in zip([0, *cuts], [*cuts, len(order)], strict=True)]


@given(deliveries())
@settings(max_examples=5)
def test_rows_and_sums_are_those_of_one_pass_whatever_is_delivered_again(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]]
) -> None:
    folder = tmp_path_factory.mktemp("archives")
    check_deliveries(f"sqlite:///{folder}/once.db", f"sqlite:///{folder}/often.db", batches)


@given(deliveries())
@settings(max_examples=5)
def test_rows_and_sums_are_those_of_one_pass_on_postgresql(
    postgres_pair: tuple[str, str], batches: list[list[int]]
) -> None:
    check_deliveries(*postgres_pair, batches)


@pytest.fixture(scope="module")
def postgres_pair(postgres_server: Any) -> tuple[str, str]:
    return postgres_server.create_database(), postgres_server.create_database()


def check_deliveries(once: str, often: str, batches: list[list[int]]) -> None:
    with Database(once) as expected, Database(often) as actual:
        for database in (expected, actual):
            empty(database)
        writer_of(expected).write(batch_of(answers()))
        written = [writer_of(actual).write(batch_of([answers()[place] for place in places])) for places in batches]

        assert sum(result.evaluations for result in written) == COUNT
        assert sum(result.repeated + result.evaluations for result in written) == sum(map(len, batches))
        for table in (evaluations, records, scores, evaluation_tags, texts):
            assert count(actual, table) == count(expected, table)
        assert_alike(rollups_in(actual), rollups_in(expected))


def test_a_position_moves_only_from_where_it_was(database: Database) -> None:
    writer, batch = writer_of(database), batch_of(answers())
    batch.positions = {PLACE: Advance(None, COUNT)}
    writer.write(batch)
    assert writer.read_positions() == {PLACE: COUNT}
    for stale in (None, COUNT - 1, COUNT + 1):
        late = batch_of(list(make_answers(3, seed=8)))
        late.positions = {PLACE: Advance(stale, 50)}
        with pytest.raises(PositionMoved):
            writer.write(late)
    assert writer.read_positions() == {PLACE: COUNT}
    assert count(database, evaluations) == COUNT


def test_two_archivists_on_the_same_records_count_them_once(archive_url: str) -> None:
    """Neither knows of the other: each starts at the beginning, and takes up the other's position when it moved."""
    chunks = [answers()[start : start + 4] for start in range(0, COUNT, 4)]
    moved, written = [], []

    def archive() -> None:
        with Database(archive_url) as own:
            writer = writer_of(own)
            while (place := writer.read_positions().get(PLACE)) != len(chunks):
                batch = batch_of(chunks[place or 0])
                batch.positions = {PLACE: Advance(place, (place or 0) + 1)}
                try:
                    written.append(writer.write(batch).evaluations)
                except PositionMoved:
                    moved.append(place)

    with Database(archive_url) as database:
        database.upgrade()
        threads = [threading.Thread(target=archive) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(written) == count(database, evaluations) == COUNT
        with database.read() as connection:
            assert connection.scalar(select(func.sum(judge_minutes.c.n))) == COUNT * 6 * 2


def test_a_rebuild_leaves_an_empty_archive_with_the_same_sums_afterwards(database: Database) -> None:
    writer, batch = writer_of(database), batch_of(answers())
    batch.positions = {PLACE: Advance(None, COUNT)}
    writer.write(batch)
    before = rollups_in(database)

    empty(database)

    assert writer.read_positions() == {}
    assert all(count(database, table) == 0 for table in (evaluations, records, scores, texts, *ROLLUPS))
    # One that was running does not know, and must not go on where it was.
    batch.positions = {PLACE: Advance(COUNT, 50)}
    with pytest.raises(PositionMoved):
        writer.write(batch)
    batch.positions = {PLACE: Advance(None, COUNT)}
    writer.write(batch)
    assert_alike(rollups_in(database), before)


def test_forgotten_positions_leave_the_rows(database: Database) -> None:
    writer, batch = writer_of(database), batch_of(answers())
    batch.positions = {PLACE: Advance(None, COUNT)}
    writer.write(batch)
    forget_positions(database)
    assert writer.read_positions() == {}
    assert writer.write(batch).repeated == COUNT


def alert(**changes: Any) -> dict[str, Any]:
    row = {
        "alert_id": "a1",
        "series_key": "bot/composite",
        "app": "bot",
        "dimension": "composite",
        "attribute": None,
        "value": None,
        "subject": "quality",
        "kind": "raised",
        "raised_at": 100,
        "onset_at": 50,
        "cleared_at": None,
        "at": 100,
        "record": '{"examples": []}',
    }
    return row | changes


def test_an_alert_is_as_it_was_last_announced_in_whatever_order_it_is_read(database: Database) -> None:
    writer = writer_of(database)
    raised, cleared = alert(), alert(kind="cleared", at=200, cleared_at=200)
    for rows in ([raised], [cleared], [raised], [raised, cleared]):
        writer.write(ArchiveBatch(alerts=rows))
    with database.read() as connection:
        (stored,) = connection.execute(select(alerts.c.kind, alerts.c.raised_at, alerts.c.cleared_at)).all()
    assert tuple(stored) == ("cleared", 100, 200)


def label(name: str) -> dict[str, Any]:
    about = {"interaction_id": "i1", "evaluation_id": "e1", "criterion": "clarity", "option": "high", "score": 1.0}
    rest = {"who": "ann", "at": 100, "probability": 0.5, "kind": "review", "comment": None, "retracted": False}
    return {"label_id": name, **about, **rest}


def test_a_retracted_label_stays_retracted_when_it_is_read_again(database: Database) -> None:
    writer = writer_of(database)
    writer.write(ArchiveBatch(labels=[label("l1"), label("l2")]))
    writer.write(ArchiveBatch(retractions=["l1"]))
    writer.write(ArchiveBatch(labels=[label("l1")]))
    with database.read() as connection:
        rows = connection.execute(select(labels.c.label_id, labels.c.retracted))
        assert {row.label_id: row.retracted for row in rows} == {"l1": True, "l2": False}
