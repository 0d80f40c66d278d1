"""`streamjury topics create` waits for brokers that are only just starting. The rest is tested on real brokers."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import NewTopic

from stream.cli.commands.topics import create_topics
from stream.kafka.topics import TopicPlan

PLANS = [TopicPlan(name=name, role=name, partitions=1, replication=1) for name in ("a", "b")]
# As Kafka 4 words them.
NONE_READY = "Unable to replicate the partition 1 time(s): All brokers are currently fenced."
TOO_FEW = "The target replication factor of 3 cannot be reached because only 1 broker(s) are registered."


class Controller:
    """Refuses the first requests, and creates topics from then on."""

    def __init__(self, reasons: Sequence[str]) -> None:
        self._reasons, self.requests, self._created = list(reasons), 0, set[str]()

    def create_topics(self, topics: list[NewTopic], **_options: Any) -> dict[str, Future[None]]:
        self.requests += 1
        reason = self._reasons.pop(0) if self._reasons else None
        futures = {topic.topic: Future[None]() for topic in topics}
        for name, future in futures.items():
            if reason is None or name == "a":
                self._created.add(name)
                future.set_result(None)
            else:
                future.set_exception(KafkaException(KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, reason)))
        return futures

    def list_topics(self, **_options: Any) -> Any:
        return type("Metadata", (), {"topics": dict.fromkeys(self._created)})


@pytest.mark.parametrize("dry_run", [False, True])
def test_topics_are_created_once_a_broker_is_ready(dry_run: bool) -> None:
    controller: Any = Controller([NONE_READY, NONE_READY])
    assert create_topics(controller, PLANS, dry_run=dry_run) == {}
    assert controller.requests == 3


def test_the_wait_for_a_broker_ends() -> None:
    controller: Any = Controller([NONE_READY] * 1_000)
    refused = create_topics(controller, PLANS, dry_run=False, broker_seconds=0.3)
    assert refused["b"].str() == NONE_READY
    assert refused.keys() == {"b"}


def test_more_replicas_than_brokers_are_refused_at_once() -> None:
    controller: Any = Controller([TOO_FEW])
    assert create_topics(controller, PLANS, dry_run=False).keys() == {"b"}
    assert controller.requests == 1
