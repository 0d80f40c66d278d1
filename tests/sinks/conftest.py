"""Databases for the tests of the page and its queries: SQLite, and a real PostgreSQL."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.parts.postgres import PostgresServer

MakeUrl = Callable[[], str]


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def make_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MakeUrl:
    """Makes the URL of an empty database, of each kind; unlike `archive_url` also for fixtures of a whole module."""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        return server.create_database
    folder: Path = tmp_path_factory.mktemp("archives")
    names = iter(range(1_000_000))
    return lambda: f"sqlite:///{folder}/{next(names)}.db"
