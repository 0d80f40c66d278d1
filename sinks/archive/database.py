"""Opens the database of a URL, creates it or upgrades it in place, and runs transactions.

SQLite: readers never wait for the writer (WAL). A commit does not wait for the disk (`synchronous=NORMAL`): after a
power failure the last transactions may be lost, together with their positions, and are read from Kafka again.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from alembic.config import Config as AlembicConfig
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, NoSuchModuleError

from sinks.text import explain_extra

SQLITE, POSTGRESQL = "sqlite", "postgresql"

_MIGRATIONS = Path(__file__).with_name("migrations")
# An arbitrary number: processes take a lock on it while one of them upgrades the tables.
_UPGRADE_LOCK = 7_305_114_096
# On SQLite, a writer waits this long for another writer, such as a deletion.
_BUSY_SECONDS = 30.0
_BUSY_POLL_SECONDS = 0.05
_SQLITE_CACHE_KIB = 65_536
_CONNECT_SECONDS = 10
# A lost connection to the server is noticed within this time.
_SILENCE_MS = 30_000
# A stage that waited any longer for a lock would count as stuck.
_LOCK_MS = 20_000
# Execution option for connections to SQLite: the statement that begins a transaction.
_BEGIN = "streamjury_begin"
# A transaction that reads first and writes later would fail if another one wrote in between.
_WRITES = {_BEGIN: "BEGIN IMMEDIATE"}
# Classes of PostgreSQL errors: invalid data, violated constraints, exceeded limits (such as an index entry's size).
_REFUSED_STATES = frozenset({"22", "23", "54"})


class ArchiveError(Exception):
    """The archive cannot be used, and a retry would not help."""


class ArchiveUnavailable(Exception):  # noqa: N818 - a state that passes, not an error
    """The database does not answer or is locked by another process; a retry may succeed."""


class ArchiveRefused(Exception):  # noqa: N818 - about one record, which must not block the others
    """The database refuses a value; a retry would fail again."""


class Database:
    """The archive's database. One thread writes; any number may read."""

    def __init__(self, url: str, *, password: str | None = None, read_only: bool = False) -> None:
        """Check the URL; the first transaction opens the database."""
        self._url = _parse(url, password)
        self.kind = self._url.get_backend_name()
        self._read_only = read_only
        self.engine = self._make_engine()
        self._is_current = False
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The URL without its password, for log lines."""
        return self._url.set(drivername=self.kind).render_as_string(hide_password=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.engine.dispose()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Run a transaction that writes."""
        self.upgrade()
        with _translate_errors(self.name), self.engine.connect() as plain:
            connection = plain.execution_options(**_WRITES)
            with connection.begin():
                yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Run a transaction that only reads."""
        self.upgrade()
        with _translate_errors(self.name), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def outside_transactions(self) -> Iterator[Connection]:
        """Run statements that a database refuses inside a transaction, such as VACUUM."""
        with _translate_errors(self.name), self.engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT", **{_BEGIN: None})

    def upgrade(self) -> None:
        """Create the tables, or upgrade tables of an earlier version; done once per process."""
        with self._lock:
            if self._is_current:
                return
            with _translate_errors(self.name), self.engine.connect() as connection:
                if self._read_only:
                    _check_version(connection)
                else:
                    _upgrade(connection.execution_options(**_WRITES))
            self._is_current = True

    def _make_engine(self) -> Engine:
        if self.kind == SQLITE:
            return self._make_sqlite_engine()
        arguments = {
            "connect_timeout": _CONNECT_SECONDS,
            "tcp_user_timeout": _SILENCE_MS,
            "application_name": "streamjury",
            # Our SQL must not depend on the server's time zone. Our queries take milliseconds; compiling one, or
            # starting processes for it, takes longer.
            "options": f"-c timezone=UTC -c lock_timeout={_LOCK_MS} -c jit=off -c max_parallel_workers_per_gather=0",
        }
        try:
            return create_engine(self._url, pool_pre_ping=True, connect_args=arguments, hide_parameters=True)
        except ModuleNotFoundError as error:
            raise ArchiveError(f"PostgreSQL needs a driver; {explain_extra('postgres')}") from error

    def _make_sqlite_engine(self) -> Engine:
        path = self._url.database
        if not path or path == ":memory:":
            raise ArchiveError("archive.url: name a file; in memory, every thread would have a separate archive")
        read_only = self._read_only
        arguments = {"timeout": _BUSY_SECONDS, "check_same_thread": False}
        engine = create_engine(self._url, connect_args=arguments, hide_parameters=True)

        @event.listens_for(engine, "do_connect")
        def create_file(*_arguments: Any) -> None:
            if not read_only:
                _create_private(Path(path))

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _record: Any) -> None:
            # The driver would begin transactions itself, but not before every kind of statement.
            connection.isolation_level = None
            if not read_only:
                _switch_to_wal(connection)
            for setting in _sqlite_settings(read_only=read_only):
                connection.execute(f"PRAGMA {setting}")

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            if statement := connection.get_execution_options().get(_BEGIN, "BEGIN"):
                connection.exec_driver_sql(statement)

        return engine


def _parse(url: str, password: str | None) -> URL:
    """Parse a URL; error messages never contain its password."""
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError):
        backend = ""
    if backend == POSTGRESQL:
        parsed = parsed.set(drivername="postgresql+psycopg")
        return parsed if password is None else parsed.set(password=password)
    if backend == SQLITE:
        return parsed.set(drivername="sqlite")
    raise ArchiveError("archive.url must begin with sqlite:/// or postgresql://")


def _create_private(path: Path) -> None:
    """Create the file readable by its owner only; SQLite gives its other files the same permissions."""
    if not path.parent.is_dir():
        raise ArchiveError(f"the folder of the archive does not exist: {path.parent}")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError as error:
        raise ArchiveError(f"cannot write the archive {path}: {error.strerror}") from error


def _sqlite_settings(*, read_only: bool) -> tuple[str, ...]:
    shared = (f"cache_size=-{_SQLITE_CACHE_KIB}", "temp_store=MEMORY")
    return (*shared, "query_only=ON") if read_only else (*shared, "synchronous=NORMAL", "secure_delete=ON")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Switch the file to WAL; SQLite refuses this at once while another process uses the file, so wait here."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            # The low byte: there are several kinds of busy, such as during a recovery after a crash.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_BUSY_POLL_SECONDS)
        else:
            return


# Versions of the tables


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(_MIGRATIONS))


def _upgrade(connection: Connection) -> None:
    scripts = _scripts()
    with connection.begin():
        if connection.dialect.name == POSTGRESQL:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK})
        _check_known(connection, scripts)
        environment = EnvironmentContext(
            AlembicConfig(),
            scripts,
            fn=lambda revision, _context: scripts._upgrade_revs("head", revision),
        )
        with environment:
            # All steps run in our transaction: a failed upgrade leaves the tables as they were.
            environment.configure(connection=connection, transactional_ddl=True)
            environment.run_migrations()


def _check_known(connection: Connection, scripts: ScriptDirectory) -> str | None:
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is not None and revision not in {script.revision for script in scripts.walk_revisions()}:
        raise ArchiveError(f"the archive was upgraded by a later Streamjury (schema {revision}); upgrade this program")
    return revision


def _check_version(connection: Connection) -> None:
    scripts = _scripts()
    with connection.begin():
        revision = _check_known(connection, scripts)
    if revision != scripts.get_current_head():
        raise ArchiveUnavailable(
            "the archive is empty or of an earlier version; an archivist will create or upgrade it"
        )


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    """Raise errors of the driver as ArchiveRefused (a bad value) or ArchiveUnavailable (may pass)."""
    try:
        yield
    except (OverflowError, UnicodeError) as error:
        raise ArchiveRefused(str(error)) from error
    except DBAPIError as error:
        # Only the first line: the rest is the statement with its values, which may contain user text.
        problem = str(error.orig).strip().partition("\n")[0]
        if isinstance(error, DataError | IntegrityError) or _state_of(error)[:2] in _REFUSED_STATES:
            raise ArchiveRefused(problem) from error
        raise ArchiveUnavailable(f"{name}: {problem}") from error


def _state_of(error: DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""
