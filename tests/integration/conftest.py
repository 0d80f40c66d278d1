"""Real parts for the tests of this folder, started once, on demand."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.kafka.topics import plan_topics
from tests.integration.pipeline import close_readers
from tests.parts import kafka, llama
from tests.parts.limits import patient_limits
from tests.parts.required import unavailable

_MOST_THREADS = 24
_GROUPS = {"real_kafka": "kafka", "own_kafka": "own-kafka", "llama_server": "llama"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of one part in one xdist worker, so that the part runs once."""
    # Before all other plugins: xdist's own hook reads the marks.
    for item in items:
        wanted = [group for fixture, group in _GROUPS.items() if fixture in getattr(item, "fixturenames", ())]
        if wanted == ["kafka"] and item.path.stem.endswith("_kill"):
            wanted = ["kafka-kills"]  # these take long: a second worker runs them with a second broker
        if wanted:
            item.add_marker(pytest.mark.xdist_group(wanted[0]))


@pytest.fixture(autouse=True)
def _readers_of_this_test() -> Iterator[None]:
    """Close the consumers that a test read topics with, and the clients that wait for the garbage collector.

    A service that has ended is a cycle of objects. The threads of its clients would slow down the tests after it.
    """
    yield
    close_readers()
    if sum(1 for _ in Path("/proc/self/task").iterdir()) > _MOST_THREADS:
        gc.collect()


@pytest.fixture(autouse=True)
def _patient_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands and stages in this process wait longer for a broker on a busy machine."""
    for limit in patient_limits():
        monkeypatch.setattr(*limit)


@pytest.fixture(scope="session")
def real_kafka() -> Iterator[kafka.KafkaBroker]:
    """A running, shared Kafka broker: use unique topic and group names, and leave it running."""
    if reason := kafka.why_unavailable():
        unavailable(reason)
    with kafka.KafkaBroker() as broker:
        yield broker


@pytest.fixture
def own_kafka() -> Iterator[kafka.KafkaBroker]:
    """A Kafka broker that the test may stop and kill. The shared one has too many topics to restart quickly."""
    if reason := kafka.why_unavailable():
        unavailable(reason)
    with kafka.KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def llama_server() -> Iterator[llama.LlamaServer]:
    """A running, shared llama.cpp server."""
    if reason := llama.why_unavailable():
        unavailable(reason)
    with llama.LlamaServer() as server:
        yield server


@pytest.fixture
def embedded_broker() -> Iterator[EmbeddedBroker]:
    """A separate embedded broker with the topics of the default configuration."""
    with EmbeddedBroker() as broker:
        broker.make_topics(plan.name for plan in plan_topics(Config()))
        yield broker
