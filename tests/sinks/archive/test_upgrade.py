"""An archive of the first version with rows in every table, upgraded to the newest: the page shows all of them."""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from alembic.config import Config as AlembicConfig
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, insert, select, text
from sqlalchemy.engine import Row

from sinks.archive import migrations
from sinks.archive.database import Database
from tests.parts.archive import FINGERPRINT, START_MS, Judged, fill
from tests.sinks.page.serving import open_page
from tests.sinks.page.visiting import Browser

FIRST = "0001"
DAY = 24 * 3_600_000
# By minutes for the last day, by hours for the last week.
WEEK = {"from": "2026-02-23T00:00:00Z"}
JUDGED = (
    Judged(id="old", at=START_MS - 3 * DAY, composite=0.9, question="Where is my parcel?", tags={"region": "eu"}),
    # In another minute of the same hour, and so one row of the sums over hours.
    Judged(id="same-hour", at=START_MS - 3 * DAY + 120_000, composite=0.5),
    Judged(id="new", at=START_MS, composite=0.4, scores={"clarity": 0.25}),
)


def rows_of_the_first_version() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Rows as the first version wrote them, written out: they must not change with today's tables."""
    minutes = [(judged, judged.at // 60_000) for judged in JUDGED]
    return {
        "evaluations": [evaluation_row(number, judged) for number, judged in enumerate(JUDGED, start=1)],
        "records": [
            {"number": number, "content": pack(judged.document())} for number, judged in enumerate(JUDGED, start=1)
        ],
        "scores": [
            {"number": 3, "criterion": "clarity", "at": START_MS, "app": "shop", "status": "scored", "score": 0.25}
        ],
        "evaluation_tags": [{"name": "region", "value": "eu", "number": 1}],
        "texts": [text_row(number, judged) for number, judged in enumerate(JUDGED, start=1)],
        "buckets": [
            bucket_row(series, judged, minute) for judged, minute in minutes for series in ("composite", "good")
        ],
        "app_minutes": [app_row(minute) for _judged, minute in minutes],
        "judge_minutes": [judge_row(minute) for _judged, minute in minutes],
        "judge_failures": [
            {"judge": "local", "criterion": "clarity", "reason": "timeout", "minute": minute, "n": 1}
            for _judged, minute in minutes
        ],
        "judge_latencies": [{"judge": "local", "step": 20, "minute": minute, "n": 1} for _judged, minute in minutes],
        "alerts": [
            {
                "alert_id": "dropped",
                "series_key": "shop/composite",
                "app": "shop",
                "dimension": "composite",
                "subject": "quality",
                "kind": "raised",
                "raised_at": START_MS,
                "onset_at": START_MS - 1,
                "at": START_MS,
                "record": json.dumps({"summary": "It has dropped.", "estimate": 0.5, "target": 0.8}),
            }
        ],
        "labels": [
            {
                "label_id": "label",
                "interaction_id": "i-new",
                "evaluation_id": "new",
                "criterion": "clarity",
                "option": "fail",
                "score": 0.0,
                "who": "rita",
                "at": START_MS,
                "probability": 0.5,
                "kind": "label",
                "retracted": False,
            }
        ],
        "audit_log": [{"id": 1, "at": START_MS, "who": "rita", "role": "reviewer", "action": "label", "detail": "{}"}],
        "positions": [{"topic": "rag.evaluations", "partition": 0, "next_offset": 7}],
        "erasures": [{"kind": "tenant", "digest": "abc", "at": START_MS}],
    }


def evaluation_row(number: int, judged: Judged) -> Mapping[str, Any]:
    return {
        "number": number,
        "id": judged.id,
        "interaction_id": f"i-{judged.id}",
        "texts_id": f"t-{judged.id}",
        "at": judged.at,
        "app": "shop",
        "lane": "main",
        "rule": "all",
        "probability": 1.0,
        "composite": judged.composite,
        "status": "ok",
        "coverage": 1.0,
        "safety": "safe",
        "latency_ms": 1.0,
        "fingerprint": FINGERPRINT,
        "tags": json.dumps(dict(judged.tags)),
        "question": judged.question,
        "answer": judged.answer,
    }


def text_row(number: int, judged: Judged) -> Mapping[str, Any]:
    content = {"question": judged.question, "history": [], "contexts": [], "answer": judged.answer, "reference": None}
    return {
        "number": number,
        "id": f"t-{judged.id}",
        "interaction_id": f"i-{judged.id}",
        "at": judged.at,
        "content": pack(content),
    }


def pack(document: object) -> bytes:
    return zlib.compress(json.dumps(document).encode())


def bucket_row(series: str, judged: Judged, minute: int) -> Mapping[str, Any]:
    assert judged.composite is not None
    score = judged.composite if series == "composite" else float(judged.composite >= 0.7)
    certain = dict.fromkeys(("uncertain_n", "v", "vs", "vss", "cubes", "unscored"), 0)
    sums = {"n": 1, "w": 1.0, "ws": score, "wss": score * score, "squares": 1.0}
    return {"app": "shop", "series": series, "minute": minute, **sums, **certain}


def app_row(minute: int) -> Mapping[str, Any]:
    others = dict.fromkeys(("questionable", "unsafe", "safety_unknown", "incomplete", "failed"), 0)
    return {"app": "shop", "minute": minute, "n": 1, "cost_usd": 0.5, "coverage": 1.0, "ok": 1, **others}


def judge_row(minute: int) -> Mapping[str, Any]:
    counts = {"n": 2, "scored": 1, "scores": 1, "score": 0.25, "compared": 0, "agreed": 0.0, "timed": 1}
    return {"judge": "local", "criterion": "clarity", "minute": minute, **counts, "latency_ms": 80.0, "cost_usd": 0.5}


INDEX_TEXTS = {
    "sqlite": "INSERT INTO texts_search(rowid, question, answer) VALUES (:number, :question, :answer)",
    "postgresql": (
        "UPDATE texts SET search = to_tsvector('simple', :question || ' ' || :answer) WHERE number = :number"
    ),
}


def create_first_version(database: Database) -> None:
    """Run the migrations up to the first version."""
    [folder] = migrations.__path__
    scripts = ScriptDirectory(folder)
    environment = EnvironmentContext(
        AlembicConfig(), scripts, fn=lambda revision, _context: scripts._upgrade_revs(FIRST, revision)
    )
    with database.engine.connect() as connection, connection.begin(), environment:
        environment.configure(connection=connection, transactional_ddl=True)
        environment.run_migrations()


def fill_first_version(database: Database) -> None:
    with database.engine.connect() as connection, connection.begin():
        tables = tables_of(connection)
        for name, rows in rows_of_the_first_version().items():
            for row in rows:
                connection.execute(insert(tables.tables[name]), row)
        for number, judged in enumerate(JUDGED, start=1):
            words = {"number": number, "question": judged.question, "answer": judged.answer}
            connection.execute(text(INDEX_TEXTS[database.kind]), words)
        if database.kind == "postgresql":
            for name in ("evaluations", "texts"):  # rows with a number do not move the sequence that gives the next one
                connection.execute(text(f"SELECT setval(pg_get_serial_sequence('{name}', 'number'), {len(JUDGED)})"))


def tables_of(connection: Connection) -> MetaData:
    tables = MetaData()
    tables.reflect(connection, only=list(rows_of_the_first_version()))
    return tables


def read_rows(database: Database) -> dict[str, list[Row[Any]]]:
    """Return all rows of the tables of the first version, with the columns that it filled."""
    with database.engine.connect() as connection, connection.begin():
        tables = tables_of(connection).tables
        queries = {
            name: select(*(tables[name].c[column] for column in rows[0]))
            for name, rows in rows_of_the_first_version().items()
        }
        return {name: sorted(connection.execute(query), key=repr) for name, query in queries.items()}


@pytest.fixture
def old_archive(archive_url: str) -> str:
    with Database(archive_url) as database:
        create_first_version(database)
        fill_first_version(database)
    return archive_url


@pytest.fixture
def page(old_archive: str) -> Iterator[Browser]:
    with Database(old_archive) as database, open_page(database) as browser:
        yield browser


def test_an_upgrade_keeps_every_row_of_every_table(old_archive: str) -> None:
    with Database(old_archive) as database:
        before = read_rows(database)
        database.upgrade()
        assert read_rows(database) == before
        assert all(before.values())


def test_the_page_finds_the_answers_of_before_the_upgrade(page: Browser) -> None:
    def find(**filters: str) -> list[str]:
        return [answer["id"] for answer in page.get_json("/api/answers", **WEEK, **filters)["answers"]]

    assert find() == ["new", "same-hour", "old"]
    assert find(sort="newest") == ["new", "same-hour", "old"]
    assert find(q="parcel") == ["old"]
    assert find(tag="region:eu") == ["old"]
    assert find(criterion="clarity", max="0.3") == ["new"]
    whole = page.get_json("/api/answers/new")
    assert whole["texts"]["answer"] == "It is this."
    assert whole["evaluation"]["evaluation_id"] == "new"
    assert [label["who"] for label in whole["labels"]] == ["rita"]


def test_figures_of_before_the_upgrade_are_the_same_by_minutes_and_by_hours(page: Browser) -> None:
    [day] = page.get_json("/api/overview")["apps"]
    assert (day["composite"]["n"], day["composite"]["mean"], day["cost_usd"]) == (1, 0.4, 0.5)
    [week] = page.get_json("/api/overview", **WEEK)["apps"]
    assert (week["composite"]["n"], week["composite"]["mean"], week["cost_usd"]) == (3, 0.6, 1.5)
    assert week["good"]["mean"] == pytest.approx(1 / 3, abs=1e-3)
    [judge] = page.get_json("/api/judges", **WEEK)["judges"]
    assert (judge["n"], judge["scored"], judge["failures"], judge["cost_usd"]) == (6, 3, {"timeout": 3}, 1.5)


def test_alerts_and_the_audit_log_of_before_the_upgrade_are_shown(page: Browser) -> None:
    [alert] = page.get_json("/api/alerts")["open"]
    assert alert["summary"] == "It has dropped."
    assert page.get_json(f"/api/alerts/{alert['id']}")["worst"]
    [entry] = page.get_json("/api/audit-log")["entries"]
    assert entry["who"] == "rita"


def test_an_upgraded_archive_takes_new_evaluations_and_counts_known_ones_once(old_archive: str) -> None:
    with Database(old_archive) as database:
        fill(database, [*JUDGED, Judged(id="later", composite=0.8)])
        with open_page(database) as browser:
            [app] = browser.get_json("/api/overview", **WEEK)["apps"]
            assert app["composite"]["n"] == 4
            assert len(browser.get_json("/api/answers", **WEEK)["answers"]) == 4
