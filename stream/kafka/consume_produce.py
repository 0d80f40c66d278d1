"""The transactional consumer: reads one topic in a consumer group and publishes results together with their offsets.

The sampler and the judge workers both run on it. Results and offsets become visible in one Kafka transaction, or not at
all; the group metadata in the transaction fences a process that lost its partitions.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from sinks.base import Message
from stream.config.sections.kafka import KafkaConfig, OptionValue
from stream.errors import PublishAborted, StageError
from stream.kafka.embedded import is_embedded
from stream.kafka.errors import DENIED, retry_call, start_error, takeover_error, unusable_topic
from stream.kafka.offsets import Partition, format_partitions
from stream.kafka.orphan_watch import OrphanWatch
from stream.kafka.producers.transactional import Transactions, log_waiting
from stream.kafka.record import Record, partition_of, read_record
from stream.kafka.stranded import StrandedCheck

log = logging.getLogger(__name__)
T = TypeVar("T")

# A hard-killed process blocks its group this long; a slow network must not look like a death.
SESSION_TIMEOUT_MS = 10_000
_CALL_SECONDS = 10.0
_STARTUP_SECONDS = 30.0
# The client gives no other hint at the cause of a fatal error.
_FENCED_WORD = "fenced"
# Brokers keep the offsets of topics without a subscription for seven days.
_REMIND_SECONDS = 6 * 3600.0

NO_NOTES: Mapping[Partition, str] = MappingProxyType({})


class CommittedOffset(NamedTuple):
    """A committed offset, and the note that the group's coordinator keeps with it."""

    offset: int
    note: str = ""


class Listener(Protocol):
    """A stage's reactions to a rebalance; called from within `poll`."""

    def on_assigned(self, partitions: Collection[Partition]) -> None: ...

    def on_revoked(self, partitions: Collection[Partition]) -> None:
        """Publish finished results: the partitions are still ours, for the last time."""
        ...

    def on_lost(self, partitions: Collection[Partition]) -> None:
        """Drop the partitions' results: another process owns them already, so they must not be published."""
        ...


class TransactionalConsumer:
    """One consumer and one transactional producer that act as one."""

    def __init__(
        self,
        kafka: KafkaConfig,
        *,
        topic: str,
        also: Sequence[str] = (),
        companions: Sequence[str] = (),
        group: str,
        instance: str | None,
        listener: Listener,
        queue_kib: int = 16_384,
    ) -> None:
        """Read `topic`, and the topics `also`.

        The owner of a partition of `topic` also owns the partitions with its number of the `companions`.

        `instance` is a name that survives a restart; without one, a restarted process is a new member of its group.

        `queue_kib` limits the records that the client prefetches.
        """
        self.name = name = instance or f"{socket.gethostname()}-{os.getpid()}"
        self._topic, self._companions, self._group = topic, tuple(companions), group
        self._subscribed = [topic, *also]
        self._partition_counts: dict[str, int] = {}
        self._bootstrap = kafka.bootstrap
        self._listener = listener
        common = {**kafka.client_options(), "log_level": 4}
        membership: dict[str, OptionValue] = {
            "group.id": group,
            "client.id": f"{group}-{name}",
            # A member with a name keeps its partitions over a restart, without a rebalance for the others. One
            # without a name must not stay in the group after its death: the group would wait for it.
            **({"group.instance.id": instance} if instance else {}),
            "enable.auto.commit": False,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": SESSION_TIMEOUT_MS // 5,
        }
        self._orphan_watch = OrphanWatch(kafka.client_options(), membership, self._subscribed)
        self._options: dict[str, OptionValue] = {
            **common,
            **membership,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            # Topics created later are found within this time; the default is five minutes.
            "topic.metadata.refresh.interval.ms": 5_000,
            "queued.max.messages.kbytes": queue_kib,
            # A client with a full queue fetches again after this; the default of a second starves a fast reader.
            "fetch.queue.backoff.ms": 10,
        }
        self._consumer = Consumer(self._options, logger=log)
        self._stranded = StrandedCheck(kafka.client_options(), topic)
        self._transactions = Transactions(common, f"{group}-{name}", topic=topic)
        self._in_doubt: Mapping[Partition, CommittedOffset] = {}
        self._mirror_offsets = False
        self._assignment: frozenset[Partition] = frozenset()
        self._gone: frozenset[Partition] = frozenset()
        self.moved_at = time.monotonic()
        self.problem: str | None = None
        self._reminded_at = time.monotonic()
        self.backlog = 0
        """Records that could be processed now, as the stage last reported."""
        self.done = 0
        """Committed transactions."""

    @property
    def assigned(self) -> bool:
        return bool(self._assignment)

    def start(self) -> None:
        """Wait for the broker, fence a predecessor of this instance, and join the group."""
        try:
            cluster = self._retry_at_start(lambda: self._consumer.list_topics(timeout=_CALL_SECONDS))
            self._retry_at_start(self._transactions.start)
            self._retry_at_start(self._check_topics)
        except KafkaException as error:
            raise start_error(self._bootstrap, error.args[0]) from error
        # The embedded broker ignores offsets in transactions; without a second commit a restart would begin again.
        self._mirror_offsets = is_embedded(cluster.cluster_id)
        self._join_group()
        if not self._mirror_offsets:  # the embedded broker cannot describe a group
            self._orphan_watch.start()

    def _join_group(self) -> None:
        self._consumer.subscribe(
            self._subscribed, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _retry_at_start(self, call: Callable[[], T]) -> T:
        return retry_call(call, _STARTUP_SECONDS, waiting=log_waiting)

    def poll(self, limit: int, seconds: float) -> list[Record]:
        """Return up to `limit` records within `seconds`; assignments change only inside this call."""
        return [read_record(message) for message in self.fetch(limit, seconds)]

    def fetch(self, limit: int, seconds: float) -> list[KafkaMessage]:
        """Poll for records in the client's own form, for a stage that reads only few of them."""
        self._gone = frozenset()
        if not self._assignment and self._stranded.is_stranded(self._consumer):
            self._reopen()
        messages = self._consumer.consume(limit, seconds)
        self.moved_at = time.monotonic()
        usable = [message for message in messages if message.error() is None or self._is_usable(message)]
        if not self._gone:
            return usable
        # A partition can be revoked during the call, after some of its records were read: they are its next owner's.
        return [message for message in usable if partition_of(message) in self._assignment]

    def _reopen(self) -> None:
        """Replace a consumer that has no partitions."""
        log.warning("reading %s: the client has lost its brokers; opening a new one", self._topic)
        self._consumer.close()
        self._consumer = Consumer(self._options, logger=log)
        self._join_group()

    def positions(self) -> dict[Partition, int]:
        """Return the position of each of our partitions: where the next owner would resume."""
        positions = self._consumer.position([TopicPartition(*partition) for partition in self._assignment])
        return {Partition(place.topic, place.partition): place.offset for place in positions if place.offset >= 0}

    def publish(
        self,
        messages: Sequence[Message],
        offsets: Mapping[Partition, int],
        notes: Mapping[Partition, str] = NO_NOTES,
    ) -> None:
        """Publish messages and offsets together, and notes with the offsets.

        1. begin a transaction,
        2. produce every message,
        3. send the offsets with the group's metadata, which fences us if we are no longer in the group,
        4. commit.

        Raises `PublishAborted` if nothing was published and all may be sent again, `FencedError` if another
        process has taken our place.
        """
        try:
            wanted = {**self._idle_offsets(), **offsets}
            marks = {part: CommittedOffset(offset, notes.get(part, "")) for part, offset in wanted.items()}
            self._publish(messages, marks)
        except PublishAborted as aborted:
            self.problem = f"cannot publish: {aborted}"
            raise
        self.problem = None
        self.done += 1

    def _idle_offsets(self) -> dict[Partition, int]:
        """Return our offsets on the companions from time to time: the broker forgets those of unsubscribed topics."""
        if not self._companions or time.monotonic() - self._reminded_at < _REMIND_SECONDS:
            return {}
        self._reminded_at = time.monotonic()
        idle = [partition for partition in self._assignment if partition.topic in self._companions]
        try:
            marks = self._read_committed(idle)
        except KafkaException as error:
            raise PublishAborted(error.args[0].str()) from error
        return {partition: mark.offset for partition, mark in marks.items() if mark.offset >= 0}

    def beginning(self, partition: Partition) -> int | None:
        """Return the first offset of a partition, or None while the broker does not answer."""
        try:
            low, _high = self._consumer.get_watermark_offsets(TopicPartition(*partition), _CALL_SECONDS)
        except KafkaException:
            return None
        return low if low >= 0 else None

    def end(self, partition: Partition) -> int | None:
        """Return the offset after the last committed record of a partition; None while the broker does not answer."""
        try:
            return self._consumer.get_watermark_offsets(TopicPartition(*partition), _CALL_SECONDS)[1]
        except KafkaException:
            return None

    def marks(self, partitions: Collection[Partition]) -> tuple[int, dict[Partition, CommittedOffset]] | None:
        """Return the topic's partition count and the committed offsets of these partitions, negative without a commit.

        Returns None while the broker does not answer.
        """
        try:
            metadata = self._consumer.list_topics(self._topic, _CALL_SECONDS).topics[self._topic]
            if metadata.error is not None:
                raise KafkaException(metadata.error)
            return len(metadata.partitions), self._read_committed(partitions)
        except KafkaException as error:
            log.info("cannot read the committed offsets of %s yet: %s", self._topic, error.args[0].str())
            return None

    def _read_committed(self, partitions: Collection[Partition]) -> dict[Partition, CommittedOffset]:
        if not partitions:
            return {}
        places = self._consumer.committed([TopicPartition(*partition) for partition in partitions], _CALL_SECONDS)
        for place in places:
            if place.error is not None:
                raise KafkaException(place.error)
        return {
            Partition(place.topic, place.partition): CommittedOffset(place.offset, place.metadata or "")
            for place in places
        }

    def partition_count(self) -> int:
        """Return the number of all partitions of the topic, including those of others."""
        return self._count(self._topic)

    def count_partitions(self, topic: str) -> int:
        """Return the number of partitions of another topic; raises StageError if it does not exist."""
        try:
            count = self._retry_at_start(lambda: self._count(topic))
        except KafkaException as error:
            raise start_error(self._bootstrap, error.args[0]) from error
        if not count:
            raise unusable_topic(topic, None)
        return count

    @property
    def assignment(self) -> frozenset[Partition]:
        return self._assignment

    def pause(self, partitions: Iterable[Partition]) -> None:
        self._consumer.pause([TopicPartition(*partition) for partition in partitions])

    def resume(self, partitions: Iterable[Partition]) -> None:
        self._consumer.resume([TopicPartition(*partition) for partition in partitions])

    def lag(self, topics: Collection[str] | None = None) -> int:
        """Count the records between our positions and the last known ends of our partitions."""
        partitions = [partition for partition in self._assignment if topics is None or partition.topic in topics]
        return sum(map(self._partition_lag, partitions))

    def close(self) -> None:
        """Leave the group. The next owner reads unpublished records again."""
        self._orphan_watch.close()
        self._consumer.close()
        self._transactions.close()

    def _publish(self, messages: Sequence[Message], marks: Mapping[Partition, CommittedOffset]) -> None:
        if self._transactions.spent or self._in_doubt:
            self._recover()
        try:
            self._transactions.publish(messages, _positions(marks), self._group_metadata)
        except PublishAborted:
            if self._transactions.in_doubt:
                self._in_doubt = marks
            raise
        if self._mirror_offsets:
            self._commit_without_transaction(marks)

    def _group_metadata(self) -> object:
        try:
            return self._consumer.consumer_group_metadata()
        except RuntimeError as error:
            # A closing consumer may have none; the next owner publishes the rest.
            closing = KafkaError(KafkaError._STATE, str(error), fatal=False, retriable=False, txn_requires_abort=True)
            raise KafkaException(closing) from error

    def _commit_without_transaction(self, marks: Mapping[Partition, CommittedOffset]) -> None:
        try:
            self._consumer.commit(offsets=_positions(marks), asynchronous=False)
        except KafkaException as error:
            # A real broker aborts the transaction in the same case, when we are no longer in the group.
            log.info("offsets of %s not committed yet: %s", self._topic, error.args[0].str())
            raise PublishAborted(error.args[0].str()) from error

    def _recover(self) -> None:
        """Recover from an unfinished transaction."""
        try:
            if self._transactions.spent:
                self._transactions.renew()
            self._resolve_doubt()
        except KafkaException as error:
            log_waiting(error.args[0])
            raise PublishAborted(error.args[0].str()) from error

    def _resolve_doubt(self) -> None:
        """Find out from the group's offsets whether an unanswered commit succeeded.

        If so, the stage's results are partly published already: it drops all of them, and resumes after them.
        """
        doubtful = {partition: mark for partition, mark in self._in_doubt.items() if partition in self._assignment}
        committed = self._read_committed(doubtful)
        if any(
            committed[partition].offset > mark.offset or committed[partition] == mark
            for partition, mark in doubtful.items()
        ):
            log.warning("%s: an unconfirmed commit succeeded; resuming after it", self._topic)
            self._listener.on_lost(doubtful.keys())
            try:
                for partition, mark in committed.items():
                    self._consumer.seek(TopicPartition(*partition, mark.offset))
            finally:
                self._listener.on_assigned(doubtful.keys())
            self._in_doubt = {}
            raise PublishAborted("already published")
        self._in_doubt = {}

    def _is_usable(self, message: KafkaMessage) -> bool:
        error = message.error()
        if error is None:
            return True
        # A fenced consumer gets this error once, and then nothing more.
        if error.fatal() or error.code() == KafkaError._FATAL:
            if _FENCED_WORD in error.str():
                raise takeover_error(f"{self._group}-{self.name}", error)
            raise StageError(f"reading {self._topic}: {error.str()}")
        log.warning("reading %s: %s", self._topic, error.str())
        return False

    def _partition_lag(self, partition: Partition) -> int:
        place = TopicPartition(*partition)
        _low, high = self._consumer.get_watermark_offsets(place, cached=True)
        position = self._consumer.position([place])[0].offset
        return max(0, high - position) if high >= 0 and position >= 0 else 0

    def _check_topics(self) -> None:
        """Check that companions exist with enough partitions now, and not only when a record must move there."""
        expected = self._count(self._topic)
        for topic in self._companions:
            count = self._count(topic)
            if not count:
                raise unusable_topic(topic, None)
            if count != expected:
                raise StageError(
                    f"{topic} has {count} partitions and {self._topic} has {expected}; give both the same number"
                )

    def _count(self, topic: str) -> int:
        """Count the partitions of a topic, 0 if it does not exist; raises `StageError` if access is denied."""
        metadata = self._consumer.list_topics(topic, _CALL_SECONDS).topics[topic]
        if metadata.error is not None:
            if metadata.error.code() in DENIED:
                raise unusable_topic(topic, metadata.error)
            return 0
        self._partition_counts[topic] = len(metadata.partitions)
        return self._partition_counts[topic]

    def _with_companions(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        own = [TopicPartition(place.topic, place.partition) for place in partitions]
        whole = max(1, self._partition_counts.get(self._topic, 1))
        return own + [
            TopicPartition(topic, number)
            for place in own
            for topic in self._companions
            for number in range(place.partition, self._partition_counts[topic], whole)
        ]

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._companions and any(place.partition >= self._partition_counts[self._topic] for place in partitions):
            self._check_topics()  # the topic has grown
        assigned = self._with_companions(partitions)
        consumer.incremental_assign(assigned)
        new = _partitions(assigned)
        self._assignment |= new
        # The unpublished results belonged to partitions that may be gone; the next transaction will show.
        self.problem = None
        log.info("assigned: %s", format_partitions(new))
        self._listener.on_assigned(new)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = self._ours(partitions)
        self._listener.on_revoked(gone)
        self._release(consumer, gone)
        log.info("revoked: %s", format_partitions(gone))

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = self._ours(partitions)
        self._listener.on_lost(gone)
        self._release(consumer, gone)
        log.warning("left the group, so another process may own these partitions: %s", format_partitions(gone))

    def _ours(self, partitions: list[TopicPartition]) -> frozenset[Partition]:
        return _partitions(self._with_companions(partitions)) & self._assignment

    def _release(self, consumer: Consumer, gone: frozenset[Partition]) -> None:
        consumer.incremental_unassign([TopicPartition(*partition) for partition in gone])
        self._assignment -= gone
        self._gone |= gone
        self._in_doubt = {partition: mark for partition, mark in self._in_doubt.items() if partition not in gone}


def _partitions(partitions: Iterable[TopicPartition]) -> frozenset[Partition]:
    return frozenset(Partition(p.topic, p.partition) for p in partitions)


def _positions(marks: Mapping[Partition, CommittedOffset]) -> list[TopicPartition]:
    return [TopicPartition(*partition, *mark) for partition, mark in marks.items()]
