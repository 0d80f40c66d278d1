"""The archive's database: it is created, upgraded in place, and says clearly why it cannot be used."""

import os
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Executable, delete, insert, inspect, select, text

from sinks.archive.database import ArchiveError, ArchiveRefused, ArchiveUnavailable, Database
from sinks.archive.tables import audit_log, metadata, positions
from tests.parts.postgres import PostgresServer


def test_the_migrations_make_the_tables_of_the_program(archive_url: str) -> None:
    with Database(archive_url) as database, database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        changes = [change for change in compare_metadata(context, metadata) if "search" not in str(change)]
        assert changes == []
        assert set(metadata.tables) <= set(inspect(connection).get_table_names())


@pytest.mark.parametrize("read_only", [False, True])
def test_an_archive_of_a_later_version_is_refused(archive_url: str, read_only: bool) -> None:
    with Database(archive_url) as database, database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    words = r"upgraded by a later Streamjury \(schema 9999\); upgrade this program"
    with Database(archive_url, read_only=read_only) as database, pytest.raises(ArchiveError, match=words):
        database.upgrade()


def test_several_processes_may_create_it_at_once(archive_url: str) -> None:
    errors: list[Exception] = []

    def create() -> None:
        try:
            with Database(archive_url) as database:
                database.upgrade()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_new_archive_waits_for_another_process_that_creates_it(tmp_path: Path) -> None:
    """SQLite itself does not wait when it switches a file to WAL."""
    with closing(sqlite3.connect(tmp_path / "archive.db", isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        end = threading.Timer(0.3, other.execute, ["COMMIT"])
        end.start()
        with Database(f"sqlite:///{tmp_path}/archive.db") as database:
            database.upgrade()
        end.join()


def test_a_failed_transaction_leaves_nothing(archive_url: str) -> None:
    row = {"topic": "t", "partition": 0, "next_offset": 1}
    with Database(archive_url) as database:
        with pytest.raises(ArchiveRefused):
            run(database, [insert(positions).values(**row), insert(positions).values(**row)])
        with database.read() as connection:
            assert connection.execute(select(positions)).all() == []


def run(database: Database, statements: list[Executable]) -> None:
    with database.write() as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_refused_value_is_told_from_a_statement_that_may_succeed_later(archive_url: str) -> None:
    with Database(archive_url) as database:
        with pytest.raises(ArchiveRefused):
            run(database, [insert(positions).values(topic="t", partition=0, next_offset=None)])
        with pytest.raises(ArchiveUnavailable):
            run(database, [text("SELECT * FROM no_such_table")])


def test_a_text_in_a_failed_statement_is_in_no_message(archive_url: str) -> None:
    row = {"id": 1, "at": 1, "who": "w", "role": "r", "action": "a", "detail": "my secret"}
    with Database(archive_url) as database, pytest.raises(ArchiveRefused) as caught:
        run(database, [insert(audit_log).values(**row), insert(audit_log).values(**row)])
    assert "my secret" not in f"{caught.value!r}{caught.value.__cause__}"


def test_a_reader_can_write_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/archive.db"
    with Database(url) as database:
        database.upgrade()
    with Database(url, read_only=True) as database, pytest.raises(ArchiveUnavailable, match="readonly"):
        run(database, [delete(positions)])


def test_a_reader_waits_for_an_archivist_to_create_the_tables(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/archive.db"
    with Database(url, read_only=True) as database:
        with pytest.raises(ArchiveUnavailable, match="archivist"):
            database.upgrade()
        with Database(url) as other:
            other.upgrade()
        database.upgrade()


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Database(f"sqlite:///{tmp_path}/archive.db") as database, database.write() as connection:
            connection.execute(delete(positions))
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes.keys() >= {"archive.db", "archive.db-wal"}
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("url", ["mysql://host/name", "nonsense", "", "sqlite:///:memory:", "sqlite://"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(ArchiveError):
        Database(url)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path}/missing/archive.db") as database, pytest.raises(ArchiveError, match="missing"):
        database.upgrade()


def test_a_server_that_is_away_may_come_back(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database().replace("host=/tmp/", "host=/tmp/not-")
    with Database(url) as database, pytest.raises(ArchiveUnavailable):
        database.upgrade()


def test_a_password_is_in_no_name_and_no_error() -> None:
    with Database("postgresql://me@127.0.0.1:9/none", password="open-sesame") as database:
        assert "open-sesame" not in database.name
        with pytest.raises(ArchiveUnavailable) as caught:
            database.upgrade()
    assert "open-sesame" not in str(caught.value)
