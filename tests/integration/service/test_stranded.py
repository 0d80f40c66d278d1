"""A restarted broker that lists no brokers: consumers whose client does not find it again are replaced.

Without that, about every fourth consumer stays silent after such an outage.
"""

import logging
import time
from collections.abc import Sequence

import pytest
from prometheus_client import CollectorRegistry

from judges.values.evaluation import Evaluation
from sinks.base import Sink
from sinks.metrics.sinks import SinkMetrics
from stream.archivist.consumer import PositionedConsumer
from stream.config.sections.kafka import KafkaConfig
from stream.kafka import stranded
from stream.kafka.consume_produce import TransactionalConsumer
from stream.service.sink_consumer import SinkConsumer
from tests.integration.pipeline import produce_all, wait_until
from tests.integration.service.test_orphans import Bystander
from tests.parts.kafka import KafkaBroker
from tests.parts.kafka_proxy import KafkaProxy

TOPIC = "stranded.in"
OF_EACH_KIND = 4
MOST_OUTAGES = 5
REPLACED = "the client has lost its brokers"


class Stage:
    """Reads as the sampler and the workers do."""

    def __init__(self, kafka: KafkaConfig, name: str) -> None:
        self._consumer = TransactionalConsumer(kafka, topic=TOPIC, group=name, instance=name, listener=Bystander())
        self._consumer.start()
        self.close = self._consumer.close
        self._offsets: set[int] = set()

    def count(self) -> int:
        """Count the records so far. It commits no offsets, so a new client reads all of them again."""
        self._offsets |= {record.offset for record in self._consumer.poll(10, 0.01)}
        return len(self._offsets)


class Archivist:
    """Reads as the archivist does, from the beginning after every rebalance."""

    def __init__(self, kafka: KafkaConfig, name: str) -> None:
        self._consumer = PositionedConsumer(kafka, topics=[TOPIC], group=name, instance=name)
        self._consumer.start()
        self.close = self._consumer.close
        self._offsets: set[int] = set()

    def count(self) -> int:
        if self._consumer.owned and not self._consumer.is_placed:
            self._consumer.place({})
        collected = self._consumer.collect(records=10, size=10_000, seconds=0.01)
        self._offsets |= {record.offset for record in collected.records}
        return len(self._offsets)


class Nowhere(Sink):
    """Never gets anything: the records of this test are no evaluations, and are counted as such."""

    def __init__(self, name: str) -> None:
        self.name = name

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        raise AssertionError(evaluations)


class SinkReader:
    """Reads as the sinks do, in its own thread."""

    def __init__(self, kafka: KafkaConfig, name: str) -> None:
        self._registry, self._name = CollectorRegistry(), name
        metrics = SinkMetrics(self._registry)
        self._consumer = SinkConsumer(Nowhere(name), metrics, kafka, topic=TOPIC, group=name, batch=10)
        self._consumer.open()

    def count(self) -> int:
        """Count the records; one whose offset was not committed may come again."""
        labels = {"sink": self._name, "outcome": "failed"}
        return int(self._registry.get_sample_value("streamjury_sink_evaluations_total", labels) or 0)

    def close(self) -> None:
        self._consumer.close(20)


@pytest.mark.slow
def test_consumers_survive_a_broker_that_lists_no_brokers(
    real_kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stranded, "_LOOK_SECONDS", 2.0)
    caplog.set_level(logging.WARNING)
    real_kafka.create_topics(TOPIC)
    sent = 0
    with KafkaProxy(real_kafka.bootstrap) as proxy:
        kafka = KafkaConfig(bootstrap=proxy.bootstrap)
        readers = [kind(kafka, f"{kind.__name__}-{number}") for kind in KINDS for number in range(OF_EACH_KIND)]

        def all_have_read() -> bool:
            return min([reader.count() for reader in readers]) >= sent

        def poll_all(seconds: float) -> None:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                all_have_read()

        def send_one() -> None:
            nonlocal sent
            produce_all(real_kafka.bootstrap, TOPIC, [{"value": b"no evaluation"}])
            sent += 1
            wait_until(all_have_read, seconds=90, what=lambda: f"all of {sent}: {[r.count() for r in readers]}")

        send_one()
        for _outage in range(MOST_OUTAGES):
            proxy.go_away()
            poll_all(1)
            proxy.hides_brokers = True
            proxy.come_back()
            poll_all(3)
            proxy.hides_brokers = False
            send_one()
            if REPLACED in caplog.text:
                break
        for reader in readers:
            reader.close()
    assert proxy.answers_without_brokers
    assert REPLACED in caplog.text, "the test has not tested anything"


KINDS = (Stage, Archivist, SinkReader)
