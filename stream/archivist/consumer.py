"""A consumer whose caller stores the positions. A group assigns the partitions; no offsets are committed to it.

After every rebalance, the consumer does not read until the caller sets the positions.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from stream.config.sections.kafka import KafkaConfig, OptionValue
from stream.errors import StageError
from stream.kafka.errors import retry_call, start_error, unusable_topic
from stream.kafka.offsets import Partition, format_partitions
from stream.kafka.producers.transactional import log_waiting
from stream.kafka.record import Record, partition_of, read_record
from stream.kafka.stranded import StrandedCheck

log = logging.getLogger(__name__)

_CHUNK = 500
_POLL_SECONDS = 0.2
_CALL_SECONDS = 10.0
_STARTUP_SECONDS = 30.0
_SESSION_TIMEOUT_MS = 10_000


@dataclass(slots=True)
class CollectedRecords:
    """Records in the order of reading, and the position after them in each partition."""

    records: list[Record] = field(default_factory=list)
    positions: dict[Partition, int] = field(default_factory=dict)
    size: int = 0

    def add(self, record: Record) -> None:
        self.records.append(record)
        self.positions[record.partition] = record.offset + 1
        self.size += len(record.value or b"")


class PositionedConsumer:
    """Reads several topics as one member of a group."""

    def __init__(self, kafka: KafkaConfig, *, topics: Sequence[str], group: str, instance: str | None) -> None:
        """The first topic must exist; the others may be created later."""
        self._topics = topics
        self._bootstrap = kafka.bootstrap
        self._options: dict[str, OptionValue] = {
            **kafka.client_options(),
            "log_level": 4,
            "group.id": group,
            "client.id": group if instance is None else f"{group}-{instance}",
            **({"group.instance.id": instance} if instance else {}),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            # The last records of a partition may be invisible, such as transaction markers.
            "enable.partition.eof": True,
            "session.timeout.ms": _SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": _SESSION_TIMEOUT_MS // 5,
            # Topics created later are found within this time; the default is five minutes.
            "topic.metadata.refresh.interval.ms": 5_000,
            "queued.max.messages.kbytes": 32_768,
            # Wait of a client with a full queue before its next fetch; the default of 1 s starves a fast reader.
            "fetch.queue.backoff.ms": 10,
        }
        self._consumer = Consumer(self._options, logger=log)
        self._stranded = StrandedCheck(kafka.client_options(), topics[0])
        self._warned: set[str] = set()
        self._positions: dict[Partition, int] = {}
        self.owned: frozenset[Partition] = frozenset()
        self.is_placed = False
        """Whether the consumer reads, from positions that the caller has set."""

    def start(self) -> None:
        """Wait for the broker, and join the group."""
        topic = self._topics[0]
        try:
            described = retry_call(
                lambda: self._consumer.list_topics(topic, _CALL_SECONDS), _STARTUP_SECONDS, waiting=log_waiting
            ).topics[topic]
        except KafkaException as error:
            raise start_error(self._bootstrap, error.args[0]) from error
        if described.error is not None:
            raise unusable_topic(topic, described.error)
        self._join_group()

    def _join_group(self) -> None:
        self._consumer.subscribe(
            list(self._topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )

    def _reopen(self) -> None:
        """Replace a consumer that has no partitions."""
        log.warning("reading %s: the client has lost its brokers; opening a new one", self._topics[0])
        self._consumer.close()
        self._consumer = Consumer(self._options, logger=log)
        self._join_group()

    def close(self) -> None:
        self._consumer.close()

    def place(self, positions: Mapping[Partition, int]) -> None:
        """Read each partition from its position, or from the beginning if it has none."""
        places = [TopicPartition(*partition, self._start_of(partition, positions)) for partition in sorted(self.owned)]
        self._consumer.assign(places)
        self._positions = {}
        self.is_placed = True

    def displace(self) -> None:
        """Stop reading until `place` is called again."""
        self._consumer.assign([])
        self._positions = {}
        self.is_placed = False

    def collect(self, *, records: int, size: int, seconds: float) -> CollectedRecords:
        """Read until there are this many records or bytes, no more records arrive, or the time is up.

        Rebalances happen only in this call; records that were read before a rebalance are dropped.
        """
        if not self.owned and self._stranded.is_stranded(self._consumer):
            self._reopen()
        collected, deadline = CollectedRecords(), time.monotonic() + seconds
        while len(collected.records) < records and collected.size < size and time.monotonic() < deadline:
            messages = self._consumer.consume(min(records, _CHUNK), _POLL_SECONDS)
            for message in messages:
                self._sort(message, collected)
            if not messages:
                break
        if not self.is_placed:
            return CollectedRecords()
        self._positions |= collected.positions
        return collected

    def lag(self) -> int:
        """Count the records between our positions and the last known ends of our partitions."""
        return sum(map(self._lag_of, self._positions)) if self.is_placed else 0

    def _lag_of(self, partition: Partition) -> int:
        _low, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
        return max(0, high - self._positions[partition])

    def _sort(self, message: KafkaMessage, collected: CollectedRecords) -> None:
        error = message.error()
        if error is None:
            collected.add(read_record(message))
        elif error.code() == KafkaError._PARTITION_EOF:
            collected.positions[partition_of(message)] = message.offset() or 0
        elif error.fatal() or error.code() == KafkaError._FATAL:
            raise StageError(
                f"Kafka consumer failed ({error.str()}); does another archivist have the same instance name?"
            )
        elif (topic := message.topic() or "Kafka") not in self._warned:
            # A topic may be missing or forbidden; the others are read.
            self._warned.add(topic)
            log.warning("cannot read %s: %s", topic, error.str())

    def _start_of(self, partition: Partition, positions: Mapping[Partition, int]) -> int:
        """Return the offset to start at: the topic may have lost records since, or may have been recreated."""
        position = positions.get(partition)
        if position is None:
            return OFFSET_BEGINNING
        low, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), _CALL_SECONDS)
        if position < low:
            words = "%s: offsets %d to %d were deleted before they were archived; continuing at %d"
            log.warning(words, format_partitions([partition]), position, low - 1, low)
            return low
        if position > high:
            words = "%s ends at %d, before the archived position %d; was it recreated? Reading from the beginning"
            log.warning(words, format_partitions([partition]), high, position)
            return OFFSET_BEGINNING
        return position

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.displace()
        self.owned = frozenset(Partition(place.topic, place.partition) for place in partitions)
        log.info("assigned: %s", format_partitions(self.owned))

    def _on_revoke(self, consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        consumer.unassign()
        self._positions, self.is_placed, self.owned = {}, False, frozenset()
