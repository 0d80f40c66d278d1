"""Deletion: permanently on request, and of rows older than `keep_days`."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, func, insert, select, text

from benchmarks.archive_data import SyntheticAnswer, make_answers, records_of
from sinks.archive.database import Database
from sinks.archive.erasure import allow_again, erase
from sinks.archive.retention import Retention
from sinks.archive.tables import (
    alerts,
    app_minutes,
    audit_log,
    buckets,
    erasures,
    evaluation_tags,
    evaluations,
    judge_minutes,
    labels,
    records,
    scores,
    texts,
)
from sinks.archive.writing import ArchiveBatch, ArchiveWriter, WrittenRows, empty
from stream.archivist.rows import RowReader
from stream.config.model import Config
from tests.sinks.archive.test_writing import alert, label

COUNT = 30


@pytest.fixture
def database(archive_url: str) -> Iterator[Database]:
    with Database(archive_url) as opened:
        yield opened


def write(
    database: Database,
    answers: list[SyntheticAnswer],
    rows: dict[str, Any] | None = None,
    *,
    keep_days: float | None = None,
) -> WrittenRows:
    config = Config()
    reader, batch = RowReader(config), ArchiveBatch(**(rows or {}))
    for record in records_of(answers, config):
        reader.add(record, batch)
    return ArchiveWriter(database, Retention(keep_days)).write(batch)


def count(database: Database, table: Table, **values: object) -> int:
    where = [table.c[name] == value for name, value in values.items()]
    with database.read() as connection:
        return connection.scalar(select(func.count()).select_from(table).where(*where)) or 0


def count_matches(database: Database, word: str) -> int:
    if database.kind == "sqlite":
        search = "SELECT count(*) FROM texts_search WHERE texts_search MATCH :word"
    else:
        search = "SELECT count(*) FROM texts WHERE search @@ to_tsquery('simple', :word)"
    with database.read() as connection:
        return connection.scalar(text(search), {"word": word}) or 0


def alert_with_example(interaction_id: str, **changes: Any) -> dict[str, Any]:
    examples = [{"interaction_id": interaction_id, "score": 0.0}, {"interaction_id": "another", "score": 0.1}]
    return alert(record=json.dumps({"examples": examples}), **changes)


def test_an_erased_interaction_is_gone_and_never_comes_back(database: Database) -> None:
    answers = list(make_answers(COUNT))
    target = answers[7]
    everything = {
        "labels": [label("l1") | {"interaction_id": target.interaction_id}, label("l2")],
        "alerts": [alert_with_example(target.interaction_id)],
    }
    write(database, answers, everything)
    sums = count(database, buckets)

    erased = erase(database, "interaction", target.interaction_id)

    def check() -> None:
        assert count(database, evaluations) == count(database, records) == count(database, texts) == COUNT - 1
        assert count(database, scores) == 6 * (COUNT - 1)
        assert count(database, evaluations, id=target.evaluation_id) == 0
        assert (count_matches(database, "ref7"), count_matches(database, "ref8")) == (0, 1)
        assert count(database, labels) == 1
        with database.read() as connection:
            assert json.loads(connection.scalar(select(alerts.c.record)) or "")["examples"] == [
                {"interaction_id": "another", "score": 0.1}
            ]

    assert tuple(erased) == (1, 1, 1, 1)
    check()
    assert count(database, buckets) == sums
    assert write(database, answers, everything).left_out == 1
    check()
    empty(database)
    write(database, answers, everything)
    check()


def test_all_contents_that_were_logged_under_an_erased_id_are_gone(database: Database) -> None:
    answers = list(make_answers(3))
    write(database, answers)
    with database.write() as connection:
        row = connection.execute(select(evaluations).where(evaluations.c.id == answers[1].evaluation_id)).one()
        name = f"{answers[1].interaction_id}#{'0a' * 16}"
        changed = dict(row._mapping) | {"number": 99, "id": "second", "interaction_id": name, "texts_id": name}
        connection.execute(insert(evaluations), changed)
        other = dict(row._mapping) | {"number": 98, "id": "third", "interaction_id": f"{row.interaction_id}#beside"}
        connection.execute(insert(evaluations), other)
    assert erase(database, "interaction", answers[1].interaction_id).evaluations == 2
    assert count(database, evaluations, id="third") == 1


def test_an_erased_tenant_is_gone_with_its_labels_and_alerts(database: Database) -> None:
    answers = list(make_answers(COUNT))
    tenants = [json.loads(answer.evaluation)["tenant"] for answer in answers]
    theirs = answers[tenants.index("zarya")].interaction_id
    everything = {
        "labels": [label("l1") | {"interaction_id": theirs}, label("l2")],
        "alerts": [alert_with_example(theirs), alert(alert_id="a2", attribute="tenant", value="zarya")],
    }
    write(database, answers, everything)

    erased = erase(database, "tenant", "zarya")

    assert erased.evaluations == erased.texts == tenants.count("zarya") > 1
    for again in (False, True):
        if again:
            empty(database)
            write(database, answers, everything)
        assert count(database, evaluations) == count(database, texts) == COUNT - tenants.count("zarya")
        assert count(database, evaluations, tenant="zarya") == count(database, texts, tenant="zarya") == 0
        assert count(database, labels) == count(database, alerts) == 1
        with database.read() as connection:
            assert theirs not in (connection.scalar(select(alerts.c.record)) or theirs)


def test_the_list_of_erased_names_does_not_contain_them_and_can_be_shortened(database: Database) -> None:
    answers = list(make_answers(COUNT))
    write(database, answers)
    erase(database, "tenant", "zarya")
    erase(database, "tenant", "zarya")
    with database.read() as connection:
        assert "zarya" not in str(connection.execute(select(erasures)).all())
    assert allow_again(database, "tenant", "zarya")
    assert not allow_again(database, "tenant", "zarya")
    assert write(database, answers).evaluations > 0


def test_nothing_of_an_erased_text_is_left_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "archive.db"
    with Database(f"sqlite:///{path}") as database:
        write(database, list(make_answers(COUNT)))
        assert b"ref7" in path.read_bytes() + Path(f"{path}-wal").read_bytes()
        erase(database, "interaction", "answer-00000007")
        assert b"ref7" not in path.read_bytes() + Path(f"{path}-wal").read_bytes()


@pytest.mark.slow
def test_rows_beyond_keep_days_are_deleted_in_batches(database: Database) -> None:
    day = timedelta(days=1)
    # One answer every 12 minutes; the horizon, which moves on every minute, lies between two of them.
    start = datetime.now(UTC) - 10 * day + timedelta(minutes=6)
    answers = list(make_answers(1200, start=start, period=10 * day))
    old_label = label("l1") | {"at": int(start.timestamp() * 1000)}
    rows = {"labels": [old_label], "alerts": [alert(cleared_at=200), alert(alert_id="open")]}
    write(database, answers, rows)
    with database.write() as connection:
        entry = {"at": 0, "who": "ann", "role": "operator", "action": "replay", "detail": ""}
        connection.execute(insert(audit_log), entry)
    retention = Retention(2.5)
    horizon = retention.horizon() or 0
    recent = [answer for answer in answers if answer.judged_at.timestamp() * 1000 >= horizon]

    deleted = [retention.delete_expired(database)]
    while deleted[-1]:
        deleted.append(retention.delete_expired(database))

    assert 290 < len(recent) < 310
    assert len(deleted) > 3
    assert max(deleted[:2]) == 1000
    assert count(database, evaluations) == count(database, records) == count(database, texts) == len(recent)
    assert count(database, scores) == 6 * len(recent)
    assert (count_matches(database, "ref5"), count_matches(database, "ref1199")) == (0, 1)
    with database.read() as connection:
        for table in (buckets, app_minutes, judge_minutes):
            assert (
                connection.scalar(select(func.min(table.c.minute)))
                == horizon // 60_000 + (recent[0].judged_at.timestamp() * 1000 - horizon) // 60_000
            )
        numbers = connection.scalars(select(evaluation_tags.c.number).distinct()).all()
        assert set(numbers) <= set(connection.scalars(select(evaluations.c.number)))
    assert (count(database, labels), count(database, alerts), count(database, audit_log)) == (0, 1, 1)


def test_what_is_too_old_is_not_archived_again(database: Database) -> None:
    answers = list(make_answers(10, start=datetime.now(UTC) - timedelta(days=4), period=timedelta(days=4)))
    written = write(database, answers, keep_days=2.2)  # between two answers, however long the writing takes
    assert (written.evaluations, written.left_out, written.texts) == (5, 5, 5)


def test_without_keep_days_nothing_is_deleted(database: Database) -> None:
    write(database, list(make_answers(3, start=datetime(1999, 1, 1, tzinfo=UTC))))
    assert Retention(None).delete_expired(database) == 0
    assert count(database, evaluations) == 3


def test_the_horizon_is_a_whole_minute() -> None:
    horizon = Retention(1.0).horizon() or 0
    assert horizon % 60_000 == 0
    assert 0 <= time.time() * 1000 - 86_400_000 - horizon < 61_000
