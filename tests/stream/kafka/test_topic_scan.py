"""The scan: every committed record of a topic up to its end, once."""

import threading
import time
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import ClusterMetadata

import stream.kafka.topic_scan as scan_module
from stream.config.sections.kafka import KafkaConfig
from stream.kafka.embedded import EmbeddedBroker
from stream.kafka.offsets import Partition
from stream.kafka.record import read_record
from stream.kafka.topic_scan import TopicScan, read_committed_offsets
from tests.parts.patience import patience

NUMBERS = range(500)


class Topic:
    """A new topic of four partitions."""

    def __init__(self, bootstrap: str) -> None:
        self.name = f"scan-{uuid.uuid4().hex[:8]}"
        self.kafka = KafkaConfig(bootstrap=bootstrap)
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._producer.list_topics(self.name, timeout=10 * patience())  # creates the topic

    def write(self, *numbers: int) -> None:
        for number in numbers:
            self._producer.produce(self.name, value=str(number), partition=number % 3)
        assert self._producer.flush(10 * patience()) == 0

    def scan(self, *, whole: bool = False) -> TopicScan:
        return TopicScan(self.kafka, self.name, whole=whole)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as embedded:
        yield embedded


@pytest.fixture
def topic(broker: EmbeddedBroker) -> Topic:
    return Topic(broker.bootstrap)


def numbers(scan: TopicScan) -> list[int]:
    return sorted(int(message.value() or b"") for message in scan.read())


@pytest.mark.parametrize("whole", [False, True])
def test_every_record_of_every_partition_is_read_once(topic: Topic, whole: bool) -> None:
    """One of the partitions is empty."""
    topic.write(*NUMBERS)
    with topic.scan(whole=whole) as scan:
        assert scan.extent() == len(NUMBERS)
        assert numbers(scan) == list(NUMBERS)


def test_a_record_has_the_time_when_it_was_written(topic: Topic) -> None:
    before = time.time()
    topic.write(1)
    with topic.scan() as scan:
        [record] = map(read_record, scan.read())
    assert record.written_at is not None
    assert before - 0.001 <= record.written_at <= time.time()


def test_an_empty_topic_has_an_end(topic: Topic) -> None:
    with topic.scan() as scan:
        assert scan.extent() == 0
        assert numbers(scan) == []


def test_reading_again_gives_what_is_new(topic: Topic) -> None:
    topic.write(1, 2, 3)
    with topic.scan() as scan:
        assert numbers(scan) == [1, 2, 3]
        assert numbers(scan) == []
        topic.write(4, 5)
        assert numbers(scan) == [4, 5]


def test_a_scan_ends_where_the_topic_ended_when_it_started(topic: Topic) -> None:
    topic.write(*NUMBERS)
    with topic.scan() as scan:
        reading = scan.read()
        read = [int(next(reading).value() or b"")]
        topic.write(*(number + len(NUMBERS) for number in NUMBERS))
        read += [int(message.value() or b"") for message in reading]
        assert sorted(read) == list(NUMBERS)
        assert numbers(scan) == [number + len(NUMBERS) for number in NUMBERS]


def read_places(scan: TopicScan, ranges: dict[int, range]) -> list[tuple[int | None, int | None]]:
    return sorted((message.partition(), message.offset()) for message in scan.read_within(ranges))


def test_only_the_given_ranges_of_some_partitions_are_read(topic: Topic) -> None:
    topic.write(*NUMBERS)
    with topic.scan() as scan:
        ranges = {0: range(10, 15), 2: range(100, 101)}
        assert read_places(scan, ranges) == [(0, offset) for offset in range(10, 15)] + [(2, 100)]
        assert read_places(scan, {1: range(5, 5)}) == []
        assert read_places(scan, ranges) == [(0, offset) for offset in range(10, 15)] + [(2, 100)], (
            "a second read of the same ranges"
        )


def test_ranges_are_the_current_offsets_of_the_partitions(topic: Topic) -> None:
    with topic.scan() as scan:
        assert set(scan.ranges().values()) == {range(0)}
        topic.write(*NUMBERS)
        ranges = scan.ranges()
        topic.write(*NUMBERS)
        assert [len(ranges[number]) for number in range(4)] == [167, 167, 166, 0]
        assert len(read_places(scan, ranges)) == len(NUMBERS)


def test_a_slow_reader_does_not_use_up_the_patience_with_the_broker(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time that the reader spends between two records does not count as silence of the broker."""
    pauses: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(pauses), sleep=time.sleep)
    monkeypatch.setattr(scan_module, "time", clock)
    topic.write(0, 3, 6)
    # After some polls without a record, which would end the scan if the pauses counted.
    late = threading.Timer(0.5, topic.write, [1])
    with topic.scan() as scan:
        read = []
        for message in scan.read_within({0: range(3), 1: range(1)}):
            pauses.append(2 * scan_module._PATIENCE_SECONDS)
            read.append((message.partition(), message.offset()))
            if len(read) == 3:
                late.start()
    late.join()
    assert read == [(0, 0), (0, 1), (0, 2), (1, 0)]


class AwayAtFirst:
    """A consumer whose first question of each kind fails with this error."""

    def __init__(self, consumer: Consumer, error: int) -> None:
        self._consumer, self._error, self._asked = consumer, error, set[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def list_topics(self, *arguments: Any) -> ClusterMetadata:
        self._fail_at_first("metadata")
        return self._consumer.list_topics(*arguments)

    def get_watermark_offsets(self, *arguments: Any) -> tuple[int, int]:
        self._fail_at_first("watermark offsets")
        return self._consumer.get_watermark_offsets(*arguments)

    def _fail_at_first(self, what: str) -> None:
        if what not in self._asked:
            self._asked.add(what)
            raise KafkaException(KafkaError(self._error, f"Failed to get {what}"))


@pytest.mark.parametrize("error", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN])
def test_a_broker_that_is_away_for_a_moment_is_asked_again(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    topic.write(*NUMBERS)
    with topic.scan() as scan:
        away: Any = AwayAtFirst(scan._consumer, error)
        monkeypatch.setattr(scan, "_consumer", away)
        monkeypatch.setattr(scan, "_surveyor", away)
        assert numbers(scan) == list(NUMBERS)


def test_committed_offsets_of_a_group_are_read_without_joining_it(topic: Topic) -> None:
    topic.write(*NUMBERS)
    group = f"group-{uuid.uuid4().hex}"
    consumer = Consumer({"bootstrap.servers": topic.kafka.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic.name, 1, 17)], asynchronous=False)
    consumer.close()
    start = time.monotonic()
    partitions = [Partition(topic.name, number) for number in range(2)]
    assert read_committed_offsets(topic.kafka, group, partitions) == {partitions[0]: 0, partitions[1]: 17}
    assert read_committed_offsets(topic.kafka, group, []) == {}
    assert time.monotonic() - start < 10 * patience()
