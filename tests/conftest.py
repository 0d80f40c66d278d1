"""Of every test: how Hypothesis searches, what is shared, and that nothing is skipped where everything is required."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from stream.logs import TALKATIVE, WIRE
from tests.parts import certificates, postgres
from tests.parts.required import unavailable

REQUIRE_ALL = os.environ.get("STREAMJURY_REQUIRE_ALL") == "1"

# Every run of the tests tries the same examples, so that a change is blamed for what it did and for nothing else.
# HYPOTHESIS_PROFILE=explore looks somewhere new; a failure prints the line that repeats it.
settings.register_profile("desk", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=200)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if REQUIRE_ALL else "desk"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the long ones, which mostly wait: at the end of a run one of them would keep the others idle."""
    items.sort(key=lambda item: "integration" not in item.path.parts)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a run that passed by leaving something out. Workers of xdist report their skips to the one that decides."""
    if REQUIRE_ALL and _skipped(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says which skips failed the run."""
    skipped = _skipped(terminalreporter.config) if REQUIRE_ALL else []
    if skipped:
        terminalreporter.section("skipped, and STREAMJURY_REQUIRE_ALL=1 allows none", red=True)
        for name in skipped:
            terminalreporter.line(name)


def _skipped(config: pytest.Config) -> list[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return []
    return sorted(report.nodeid for report in reporter.stats.get("skipped", []))


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """A command that is called inside a test sets logging up for its process, and that is the tests' own."""
    loggers = [logging.getLogger(name) for name in ("", *TALKATIVE, *WIRE)]
    before = [(logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> certificates.Authority:
    """A certificate authority, shared: sign under names of your own."""
    if reason := certificates.why_unavailable():
        unavailable(reason)
    return certificates.Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.PostgresServer]:
    """A running PostgreSQL server, shared: use a database of your own, and leave it running."""
    if reason := postgres.why_unavailable():
        unavailable(reason)
    with postgres.PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def archive_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind, one after the other."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/archive.db"
    server: postgres.PostgresServer = request.getfixturevalue("postgres_server")
    return server.create_database()
