"""Databases for the tests of the archive and the page: SQLite, and a real PostgreSQL."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.parts.postgres import PostgresServer, why_unavailable
from tests.parts.required import unavailable

MakeUrl = Callable[[], str]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server, shared: create databases of your own."""
    if reason := why_unavailable():
        unavailable(reason)
    with PostgresServer() as server:
        yield server


@pytest.fixture(
    scope="session",
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.xdist_group("postgres"))],
)
def make_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MakeUrl:
    """Makes the URL of an empty database, of each kind."""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.create_database
    folder: Path = tmp_path_factory.mktemp("archives")
    names = iter(range(1_000_000))
    return lambda: f"sqlite:///{folder}/{next(names)}.db"
