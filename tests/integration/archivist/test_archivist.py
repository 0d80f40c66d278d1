"""The archivist on a broker: everything once, whatever is in the topics and whatever happens to its database."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client import CollectorRegistry
from sqlalchemy import Table, func, select

from benchmarks.archive_data import SyntheticAnswer, make_answers
from sinks.archive.database import Database
from sinks.archive.tables import alerts, evaluations, judge_minutes, labels, positions, texts
from sinks.archive.writing import empty
from sinks.metrics import ArchiveMetrics, Outcome, PipelineMetrics, Stage
from sinks.metrics.names import LAG
from stream.archivist.stage import Archivist
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.service.service import Service
from tests.integration.pipeline import wait_until
from tests.parts import local_http
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience
from tests.parts.postgres import PostgresServer
from tests.stream.archivist.test_rows import ALERT, LABEL

COUNT = 60
JUDGED = 2 * 6  # verdicts of an answer


def recent(count: int, **options: Any) -> list[SyntheticAnswer]:
    start = datetime.now(UTC) - timedelta(hours=2)
    return list(make_answers(count, start=start, period=timedelta(hours=1), **options))


def configuration(bootstrap: str, url: str, **archive: Any) -> Config:
    return Config.model_validate(
        {"kafka": {"bootstrap": bootstrap}, "archive": {"url": url, **archive}, "http": {"port": 0}}
    )


def publish(config: Config, answers: Sequence[SyntheticAnswer], *others: tuple[str, bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": config.kafka.bootstrap, "linger.ms": 5})
    for answer in answers:
        producer.produce(
            config.topics.sampled, answer.interaction, answer.interaction_id, headers=list(answer.interaction_headers)
        )
        producer.produce(
            config.topics.evaluations, answer.evaluation, answer.evaluation_id, headers=list(answer.evaluation_headers)
        )
    for topic, value in others:
        producer.produce(topic, value)
    assert producer.flush(60 * patience()) == 0


class Running:
    """An archivist in a thread."""

    def __init__(self, config: Config) -> None:
        self.metrics = PipelineMetrics(CollectorRegistry())
        self.registry = CollectorRegistry()
        self.archivist = Archivist(config, self.metrics, ArchiveMetrics(self.registry))
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.archivist.run(self.stop)
        except BaseException as error:
            self.error = error

    def count(self, outcome: Outcome) -> int:
        return self.metrics.read_count(Stage.ARCHIVIST, outcome)

    def wait(self, condition: Callable[[], bool], seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds * patience()
        while not condition():
            assert self.error is None, self.error
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.05)


@contextmanager
def running(config: Config) -> Iterator[Running]:
    archivist = Running(config)
    archivist.thread.start()
    try:
        yield archivist
    finally:
        archivist.stop.set()
        archivist.thread.join(30 * patience())
    assert not archivist.thread.is_alive()
    if archivist.error is not None:
        raise archivist.error


OPEN: dict[str, Database] = {}


@pytest.fixture(autouse=True)
def _close_archives() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.popitem()[1].engine.dispose()


def archive_of(url: str) -> Database:
    return OPEN.setdefault(url, Database(url))


def count(url: str, table: Table) -> int:
    with archive_of(url).read() as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0


def verdicts(url: str) -> int:
    with archive_of(url).read() as connection:
        return int(connection.scalar(select(func.sum(judge_minutes.c.n))) or 0)


@pytest.mark.slow
def test_all_topics_are_archived_once_over_a_restart(
    embedded_broker: EmbeddedBroker, archive_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = configuration(embedded_broker.bootstrap, archive_url)
    answers = recent(2 * COUNT)
    publish(
        config,
        [*answers[:COUNT], *answers[:10]],
        ("rag.alerts", json.dumps(ALERT).encode()),
        ("rag.labels", json.dumps(LABEL | {"labelled_at": datetime.now(UTC).isoformat()}).encode()),
        ("rag.evaluations", b"not JSON"),
        ("rag.evaluations", None),
        ("rag.sampled", b"{}"),
        ("rag.alerts", b"\xff"),
    )
    with running(config) as first:
        first.wait(lambda: first.count(Outcome.CONSUMED) == 2 * (COUNT + 10) + 6)
        assert first.count(Outcome.REFUSED) == 4
        assert first.count(Outcome.REPEATED) == 10
        first.wait(lambda: first.archivist.backlog == 0)
        assert first.archivist.problem is None
    assert (count(archive_url, evaluations), count(archive_url, texts)) == (COUNT, COUNT)
    assert (count(archive_url, labels), verdicts(archive_url)) == (1, COUNT * JUDGED)
    # An interaction that cannot be read is a dead letter of the worker: no second warning about it.
    warned = [line.split("/")[0] for line in caplog.messages if line.startswith("cannot archive")]
    assert sorted(warned) == [
        "cannot archive rag.alerts",
        "cannot archive rag.evaluations",
        "cannot archive rag.evaluations",
    ]

    publish(config, answers[COUNT:])
    with running(config) as second:
        second.wait(lambda: count(archive_url, evaluations) == 2 * COUNT and count(archive_url, texts) == 2 * COUNT)
        second.wait(lambda: second.count(Outcome.CONSUMED) == 2 * COUNT)
    assert verdicts(archive_url) == 2 * COUNT * JUDGED


def test_it_is_a_stage_of_a_service_with_health_and_metrics(embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
    config = configuration(embedded_broker.bootstrap, f"sqlite:///{tmp_path}/archive.db")
    publish(config, recent(5))
    with Service(config, [Stage.ARCHIVIST]) as service:
        deadline = time.monotonic() + 20 * patience()
        while service.registry.get_sample_value("streamjury_archive_rows_total", {"kind": "evaluations"}) != 5.0:
            service.check()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert service.registry.get_sample_value("streamjury_archive_available") == 1.0
        wait_until(
            lambda: local_http.get(f"{service.url}/readyz", timeout=30 * patience()).is_success,
            seconds=20,
            what="ready",
        )
        lag = partial(service.registry.get_sample_value, LAG, {"stage": "archivist"})
        wait_until(lambda: lag() == 0.0, seconds=20, what=lambda: f"everything is read, not all but {lag()}")


@pytest.mark.slow
def test_a_rebuild_under_a_running_archivist_reads_everything_again(
    embedded_broker: EmbeddedBroker, archive_url: str
) -> None:
    config = configuration(embedded_broker.bootstrap, archive_url)
    answers = recent(COUNT)
    publish(config, answers)
    with running(config) as archivist:
        archivist.wait(lambda: count(archive_url, evaluations) == COUNT)
        with Database(archive_url) as database:
            empty(database)
        publish(config, recent(1, seed=9))  # it notices when it writes
        archivist.wait(lambda: count(archive_url, evaluations) == COUNT)
        archivist.wait(lambda: count(archive_url, texts) >= COUNT)
    assert verdicts(archive_url) == COUNT * JUDGED


@pytest.mark.parametrize("same_group", [True, False])
@pytest.mark.slow
def test_two_archivists_on_one_archive_count_nothing_twice(
    embedded_broker: EmbeddedBroker, archive_url: str, same_group: bool
) -> None:
    config = configuration(embedded_broker.bootstrap, archive_url)
    other = config if same_group else configuration(embedded_broker.bootstrap, archive_url, group="another")
    answers = recent(4 * COUNT)
    publish(config, answers[:COUNT])
    with running(config) as one, running(other) as two:
        for start in range(COUNT, 4 * COUNT, COUNT):
            publish(config, answers[start : start + COUNT])
            time.sleep(0.2)
        one.wait(lambda: count(archive_url, evaluations) == 4 * COUNT and count(archive_url, texts) == 4 * COUNT)
        two.wait(lambda: two.archivist.problem is None)
    assert verdicts(archive_url) == 4 * COUNT * JUDGED


@pytest.mark.slow
def test_nothing_is_lost_while_the_database_is_away(
    embedded_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with PostgresServer() as server:
        url = server.create_database()
        config = configuration(embedded_broker.bootstrap, url)
        answers = recent(3 * COUNT)
        publish(config, answers[:COUNT])
        with running(config) as archivist:
            archivist.wait(lambda: count(url, evaluations) == COUNT)
            server.stop()
            publish(config, answers[COUNT : 2 * COUNT])
            archivist.wait(lambda: archivist.registry.get_sample_value("streamjury_archive_available") == 0.0)
            assert archivist.archivist.problem is not None
            publish(config, answers[2 * COUNT :])
            server.start()
            archivist.wait(lambda: archivist.archivist.problem is None)
            archivist.wait(lambda: count(url, evaluations) == 3 * COUNT and count(url, texts) == 3 * COUNT)
        assert verdicts(url) == 3 * COUNT * JUDGED
    assert [line for line in caplog.messages if "archive unavailable" in line]
    assert [line for line in caplog.messages if "available again" in line]


@pytest.mark.slow
def test_an_archivist_starts_without_its_database_and_waits(embedded_broker: EmbeddedBroker) -> None:
    with PostgresServer() as server:
        url = server.create_database()
        config = configuration(embedded_broker.bootstrap, url)
        publish(config, recent(COUNT))
        server.stop()
        with running(config) as archivist:
            archivist.wait(lambda: archivist.archivist.problem is not None)
            server.start()
            archivist.wait(lambda: count(url, evaluations) == COUNT)


@pytest.mark.slow
def test_a_value_that_the_database_refuses_holds_nobody_up(
    embedded_broker: EmbeddedBroker, postgres_server: PostgresServer
) -> None:
    url = postgres_server.create_database()
    config = configuration(embedded_broker.bootstrap, url)
    answers = recent(COUNT)
    document = json.loads(answers[7].evaluation)
    document["dimensions"]["with\x00zero"] = document["dimensions"]["clarity"]
    answers[7] = answers[7]._replace(evaluation=json.dumps(document).encode())
    publish(config, answers)
    with running(config) as archivist:
        archivist.wait(lambda: count(url, evaluations) == COUNT - 1 and count(url, texts) == COUNT)
        assert archivist.count(Outcome.REFUSED) == 1
        publish(config, recent(2 * COUNT)[COUNT:])
        archivist.wait(lambda: count(url, evaluations) >= 2 * COUNT - 1)
    assert verdicts(url) == (2 * COUNT - 1) * JUDGED


def test_the_position_of_a_topic_that_was_created_again_is_not_kept(
    embedded_broker: EmbeddedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/archive.db"
    config = configuration(embedded_broker.bootstrap, url)
    with Database(url) as database, database.write() as connection:
        for partition in range(12):
            row = {"topic": "rag.evaluations", "partition": partition, "next_offset": 1_000_000}
            connection.execute(positions.insert(), row)
    publish(config, recent(COUNT))
    with running(config) as archivist:
        archivist.wait(lambda: count(url, evaluations) == COUNT)
    assert [line for line in caplog.messages if "was it recreated?" in line]
    assert count(url, alerts) == 0


def test_records_that_kafka_deleted_leave_a_gap_that_is_logged(
    real_kafka: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/archive.db"
    topics = {name: f"archive.gap.{name}" for name in ("evaluations", "sampled", "alerts", "labels")}
    real_kafka.create_topics(*topics.values())
    config = configuration(real_kafka.bootstrap, url, group="archive-gap")
    config = config.model_copy(update={"topics": config.topics.model_copy(update=topics)})
    answers = recent(30)
    publish(config, answers[:10])
    with running(config) as archivist:
        archivist.wait(lambda: count(url, evaluations) == 10 and count(url, texts) == 10)
    publish(config, answers[10:])
    admin = AdminClient({"bootstrap.servers": real_kafka.bootstrap})
    for deleted in admin.delete_records([TopicPartition(topics["evaluations"], 0, 20)]).values():
        deleted.result(30 * patience())
    with running(config) as archivist:
        archivist.wait(lambda: count(url, evaluations) == 20 and count(url, texts) == 30)
    assert [line for line in caplog.messages if f"{topics['evaluations']} 0: offsets 10 to 19 were deleted" in line]
