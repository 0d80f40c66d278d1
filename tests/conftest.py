"""Set up all tests: Hypothesis profiles, shared fixtures, and no skips where every part is required."""

import gc
import logging
import os
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from xdist.remote import Producer

from stream.config.judge_kinds.encoder import default_encoder
from stream.config.sections import judges as judges_section
from stream.logs import TALKATIVE, WIRE
from tests.parts import certificates, postgres, scheduling
from tests.parts.required import unavailable

REQUIRE_ALL = os.environ.get("STREAMJURY_REQUIRE_ALL") == "1"
_LONGEST_ID = 80

# Every run tries the same examples, so a failure comes from the change under test.
# HYPOTHESIS_PROFILE=explore tries new examples; a failure prints the line that reproduces it.
settings.register_profile("same", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=500)
_profile = os.environ.get("HYPOTHESIS_PROFILE", "same")
settings.load_profile(_profile)
if _profile == "same":
    # It would also try constants of all loaded modules, and which are loaded depends on the tests before.
    providers._get_local_constants = lambda: providers._local_constants


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the tests, a million objects, out of every garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten the ids of tests of long texts: every process sends all ids to the first one."""
    if isinstance(val, str | bytes) and len(val) > _LONGEST_ID:
        return f"{val[:_LONGEST_ID]!r}..."
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest chains of tests first: at the end they would leave the other processes idle.

    These are the tests of a group, which run one after the other, the largest group first, and then integration tests.
    """
    groups = Counter(map(_group_of, items))
    del groups[""]
    items.sort(key=lambda item: (-groups[_group_of(item)], not scheduling.is_long(item.nodeid)))


def _group_of(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else ""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> scheduling.FileScheduling:
    return scheduling.FileScheduling(config, log)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that passed with skipped tests. Workers of xdist report their skips to the controller."""
    if REQUIRE_ALL and _skipped_tests(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the skips that failed the run."""
    skipped = _skipped_tests(terminalreporter.config) if REQUIRE_ALL else []
    if skipped:
        terminalreporter.section("skipped, and STREAMJURY_REQUIRE_ALL=1 allows none", red=True)
        for name in skipped:
            terminalreporter.line(name)


def _skipped_tests(config: pytest.Config) -> list[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return []
    return sorted(report.nodeid for report in reporter.stats.get("skipped", []))


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Restore logging after each test: a command called in a test configures the logging of the whole process."""
    loggers = [logging.getLogger(name) for name in ("", *TALKATIVE, *WIRE)]
    before = [(logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        if logger.level != level:  # setLevel empties a cache of all loggers
            logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture(scope="session", autouse=True)
def _local_judge_alone() -> Iterator[None]:
    """Judge by the local judge alone unless a test asks for `default_panel`: the shipped model takes ten times longer.

    Only configurations without judges are affected. Commands in other processes have the panel of the program.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judges_section, "default_encoder", tuple)
        yield


@pytest.fixture
def default_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The panel of a configuration without judges, as the program has it."""
    monkeypatch.setattr(judges_section, "default_encoder", default_encoder)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> certificates.Authority:
    """A shared certificate authority; each test signs certificates under its own names."""
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
