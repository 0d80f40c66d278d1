"""The transactional consumer: reads one topic in a consumer group and publishes results together with their offsets.

The sampler and the judge workers both run on it. What they publish and how far they have read become visible in one
Kafka transaction, or not at all; a process that lost its partitions is fenced by the group metadata that goes with it.
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
from stream.config.sections.kafka import KafkaConfig
from stream.errors import PublishAborted, StageError
from stream.kafka.embedded import is_embedded
from stream.kafka.errors import DENIED, failed_start, repeated, taken_over, unusable_topic
from stream.kafka.offsets import Partition, numbered
from stream.kafka.producers.transactional import Transactions, tell_of_waiting
from stream.kafka.record import Record, partition_of, read_record

log = logging.getLogger(__name__)
T = TypeVar("T")

# A hard-killed process blocks its group this long; a slow network must not look like a death.
SESSION_TIMEOUT_MS = 10_000
_CALL_SECONDS = 10.0
_STARTUP_SECONDS = 30.0
# Of a fatal error, the client gives no other hint at its cause.
_FENCED_WORD = "fenced"
# Brokers keep such offsets for seven days.
_REMIND_SECONDS = 6 * 3600.0

NO_NOTES: Mapping[Partition, str] = MappingProxyType({})


class CommittedOffset(NamedTuple):
    """How far a partition was read, and a note that the group's coordinator keeps with that."""

    offset: int
    note: str = ""


class Listener(Protocol):
    """What a stage does when partitions come and go; called from within `poll`."""

    def on_assigned(self, partitions: Collection[Partition]) -> None: ...

    def on_revoked(self, partitions: Collection[Partition]) -> None:
        """The partitions are still ours: the last chance to publish what is finished."""
        ...

    def on_lost(self, partitions: Collection[Partition]) -> None:
        """The partitions are another's already: nothing of theirs may be published."""
        ...


class TransactionalConsumer:
    """One consumer and one transactional producer that act as one."""

    def __init__(
        self,
        kafka: KafkaConfig,
        *,
        topic: str,
        beside: Sequence[str] = (),
        group: str,
        instance: str | None,
        listener: Listener,
        queue_kib: int = 16_384,
    ) -> None:
        """Whoever has a partition of `topic` has those of the same number of the topics `beside` it, too.

        `instance` is a name that a restarted process has again; without one it is a new member of its group.

        `queue_kib` bounds the records that the client holds beyond those in work.
        """
        self.name = name = instance or f"{socket.gethostname()}-{os.getpid()}"
        self._topic, self._beside, self._group = topic, tuple(beside), group
        self._partition_counts: dict[str, int] = {}
        self._bootstrap = kafka.bootstrap
        self._listener = listener
        common = {**kafka.client_options(), "log_level": 4}
        self._consumer = Consumer(
            {
                **common,
                "group.id": group,
                "client.id": f"{group}-{name}",
                # A member with a name keeps its partitions over a restart, with no rebalance for the others. One
                # without a name must not stay behind as a ghost that the group waits for.
                **({"group.instance.id": instance} if instance else {}),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": SESSION_TIMEOUT_MS // 5,
                # Topics that are made after us are found within this time; the default is five minutes.
                "topic.metadata.refresh.interval.ms": 5_000,
                "queued.max.messages.kbytes": queue_kib,
                # A client whose queue was full asks again after this; the default of a second starves a fast reader.
                "fetch.queue.backoff.ms": 10,
            },
            logger=log,
        )
        self._transactions = Transactions(common, f"{group}-{name}", topic=topic)
        self._in_doubt: Mapping[Partition, CommittedOffset] = {}
        self._mirror_offsets = False
        self._assignment: frozenset[Partition] = frozenset()
        self._gone: frozenset[Partition] = frozenset()
        self.moved_at = time.monotonic()
        self.problem: str | None = None
        self._reminded_at = time.monotonic()
        self.backlog = 0
        """Records that could be worked on now, as the stage last saw it."""
        self.done = 0
        """Transactions that went through."""

    @property
    def assigned(self) -> bool:
        return bool(self._assignment)

    def start(self) -> None:
        """Waits for the broker, takes this instance's place from a predecessor, and joins the group."""
        try:
            cluster = self._starting(lambda: self._consumer.list_topics(timeout=_CALL_SECONDS))
            self._starting(self._transactions.start)
            self._starting(self._check_topics)
        except KafkaException as error:
            raise failed_start(self._bootstrap, error.args[0]) from error
        # The embedded broker ignores offsets in transactions; without a second commit a restart would start over.
        self._mirror_offsets = is_embedded(cluster.cluster_id)
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _starting(self, call: Callable[[], T]) -> T:
        return repeated(call, _STARTUP_SECONDS, waiting=tell_of_waiting)

    def poll(self, limit: int, seconds: float) -> list[Record]:
        """Up to `limit` records, within `seconds`; assignments change only inside this call."""
        return [read_record(message) for message in self.fetch(limit, seconds)]

    def fetch(self, limit: int, seconds: float) -> list[KafkaMessage]:
        """Like `poll`, in the client's own form, for a stage that looks into few of them."""
        self._gone = frozenset()
        messages = self._consumer.consume(limit, seconds)
        self.moved_at = time.monotonic()
        usable = [message for message in messages if message.error() is None or self._usable(message)]
        if not self._gone:
            return usable
        # A partition can go in the middle of the call, after some of its records were taken: they are its next owner's.
        return [message for message in usable if partition_of(message) in self._assignment]

    def positions(self) -> dict[Partition, int]:
        """How far each of our partitions was read: where the next owner would go on."""
        found = self._consumer.position([TopicPartition(*partition) for partition in self._assignment])
        return {Partition(at.topic, at.partition): at.offset for at in found if at.offset >= 0}

    def publish(
        self,
        messages: Sequence[Message],
        offsets: Mapping[Partition, int],
        notes: Mapping[Partition, str] = NO_NOTES,
    ) -> None:
        """Publishes messages and offsets together, and notes with the offsets.

        1. begin a transaction,
        2. produce every message,
        3. send the offsets with the group's metadata, which fences us if the group went on without us,
        4. commit.

        Raises `PublishAborted` when nothing was published and all may be sent again, `FencedError` when another
        process has our place.
        """
        try:
            wanted = {**self._idle_offsets(), **offsets}
            self._publish(messages, {part: CommittedOffset(at, notes.get(part, "")) for part, at in wanted.items()})
        except PublishAborted as aborted:
            self.problem = f"cannot publish: {aborted}"
            raise
        self.problem = None
        self.done += 1

    def _idle_offsets(self) -> dict[Partition, int]:
        """Now and then, how far we are beside our topic: the broker forgets offsets of topics nobody subscribed to."""
        if not self._beside or time.monotonic() - self._reminded_at < _REMIND_SECONDS:
            return {}
        self._reminded_at = time.monotonic()
        idle = [partition for partition in self._assignment if partition.topic in self._beside]
        try:
            known = self._committed(idle)
        except KafkaException as error:
            raise PublishAborted(error.args[0].str()) from error
        return {partition: mark.offset for partition, mark in known.items() if mark.offset >= 0}

    def beginning(self, partition: Partition) -> int | None:
        """The first offset that a partition holds, or will; None while the broker does not say."""
        try:
            low, _high = self._consumer.get_watermark_offsets(TopicPartition(*partition), _CALL_SECONDS)
        except KafkaException:
            return None
        return low if low >= 0 else None

    def marks(self, partitions: Collection[Partition]) -> tuple[int, dict[Partition, CommittedOffset]] | None:
        """How many partitions the topic has, and what was committed of these, with negative offsets where nothing was.

        None while the broker does not say.
        """
        try:
            metadata = self._consumer.list_topics(self._topic, _CALL_SECONDS).topics[self._topic]
            if metadata.error is not None:
                raise KafkaException(metadata.error)
            return len(metadata.partitions), self._committed(partitions)
        except KafkaException as error:
            log.info("cannot read the committed offsets of %s yet: %s", self._topic, error.args[0].str())
            return None

    def _committed(self, partitions: Collection[Partition]) -> dict[Partition, CommittedOffset]:
        if not partitions:
            return {}
        known = self._consumer.committed([TopicPartition(*each) for each in partitions], _CALL_SECONDS)
        for at in known:
            if at.error is not None:
                raise KafkaException(at.error)
        return {Partition(at.topic, at.partition): CommittedOffset(at.offset, at.metadata or "") for at in known}

    def partition_count(self) -> int:
        """All partitions of the topic, ours and those of others."""
        return self._count(self._topic)

    @property
    def assignment(self) -> frozenset[Partition]:
        return self._assignment

    def pause(self, partitions: Iterable[Partition]) -> None:
        self._consumer.pause([TopicPartition(*partition) for partition in partitions])

    def resume(self, partitions: Iterable[Partition]) -> None:
        self._consumer.resume([TopicPartition(*partition) for partition in partitions])

    def lag(self, topics: Collection[str] | None = None) -> int:
        """Records between our positions and the ends of our partitions, as last heard from the broker."""
        asked = [each for each in self._assignment if topics is None or each.topic in topics]
        return sum(map(self._partition_lag, asked))

    def close(self) -> None:
        """Leaves the group. What was not published is read again by the next owner."""
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
            self._commit_plainly(marks)

    def _group_metadata(self) -> object:
        try:
            return self._consumer.consumer_group_metadata()
        except RuntimeError as error:
            # While the consumer closes it may have none; what is not published then is the next owner's.
            left = KafkaError(KafkaError._STATE, str(error), fatal=False, retriable=False, txn_requires_abort=True)
            raise KafkaException(left) from error

    def _commit_plainly(self, marks: Mapping[Partition, CommittedOffset]) -> None:
        try:
            self._consumer.commit(offsets=_positions(marks), asynchronous=False)
        except KafkaException as error:
            # As a real broker does inside the transaction when the group went on without us.
            log.info("offsets of %s not committed yet: %s", self._topic, error.args[0].str())
            raise PublishAborted(error.args[0].str()) from error

    def _recover(self) -> None:
        """Goes on after a transaction that did not come to its end."""
        try:
            if self._transactions.spent:
                self._transactions.renew()
            self._resolve_doubt()
        except KafkaException as error:
            tell_of_waiting(error.args[0])
            raise PublishAborted(error.args[0].str()) from error

    def _resolve_doubt(self) -> None:
        """A commit that was asked for and not answered may have gone through; the group's offsets tell.

        Then what the stage holds is partly published already: it lets go of all of it, and reads on from there.
        """
        held = {partition: mark for partition, mark in self._in_doubt.items() if partition in self._assignment}
        known = self._committed(held)
        if any(known[partition].offset > mark.offset or known[partition] == mark for partition, mark in held.items()):
            log.warning("%s: an unconfirmed commit succeeded; resuming after it", self._topic)
            self._listener.on_lost(held.keys())
            try:
                for partition, mark in known.items():
                    self._consumer.seek(TopicPartition(*partition, mark.offset))
            finally:
                self._listener.on_assigned(held.keys())
            self._in_doubt = {}
            raise PublishAborted("already published")
        self._in_doubt = {}

    def _usable(self, message: KafkaMessage) -> bool:
        error = message.error()
        if error is None:
            return True
        # A consumer whose place another took is told once, by this code, and then hears nothing more.
        if error.fatal() or error.code() == KafkaError._FATAL:
            if _FENCED_WORD in error.str():
                raise taken_over(f"{self._group}-{self.name}", error)
            raise StageError(f"reading {self._topic}: {error.str()}")
        log.warning("reading %s: %s", self._topic, error.str())
        return False

    def _partition_lag(self, partition: Partition) -> int:
        at = TopicPartition(*partition)
        _low, high = self._consumer.get_watermark_offsets(at, cached=True)
        position = self._consumer.position([at])[0].offset
        return max(0, high - position) if high >= 0 and position >= 0 else 0

    def _check_topics(self) -> None:
        """What is put beside must find its place there when it is needed, which may be in the worst of moments."""
        wanted = self._count(self._topic)
        for topic in self._beside:
            found = self._count(topic)
            if not found:
                raise unusable_topic(topic, None)
            if found != wanted:
                raise StageError(
                    f"{topic} has {found} partitions and {self._topic} has {wanted}; give both the same number"
                )

    def _count(self, topic: str) -> int:
        """Partitions of a topic; 0 when there is none. Raises `StageError` for a topic that is closed to us."""
        metadata = self._consumer.list_topics(topic, _CALL_SECONDS).topics[topic]
        if metadata.error is not None:
            if metadata.error.code() in DENIED:
                raise unusable_topic(topic, metadata.error)
            return 0
        self._partition_counts[topic] = len(metadata.partitions)
        return self._partition_counts[topic]

    def _with_those_beside(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        own = [TopicPartition(at.topic, at.partition) for at in partitions]
        whole = max(1, self._partition_counts.get(self._topic, 1))
        return own + [
            TopicPartition(topic, number)
            for at in own
            for topic in self._beside
            for number in range(at.partition, self._partition_counts[topic], whole)
        ]

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._beside and any(at.partition >= self._partition_counts[self._topic] for at in partitions):
            self._check_topics()  # the topic has grown
        assigned = self._with_those_beside(partitions)
        consumer.incremental_assign(assigned)
        new = _partitions(assigned)
        self._assignment |= new
        # What could not be published belonged to partitions that may be gone; the next transaction tells.
        self.problem = None
        log.info("assigned: %s", numbered(new))
        self._listener.on_assigned(new)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = self._ours(partitions)
        self._listener.on_revoked(gone)
        self._let_go(consumer, gone)
        log.info("revoked: %s", numbered(gone))

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = self._ours(partitions)
        self._listener.on_lost(gone)
        self._let_go(consumer, gone)
        log.warning("partitions taken over by another process: %s", numbered(gone))

    def _ours(self, partitions: list[TopicPartition]) -> frozenset[Partition]:
        return _partitions(self._with_those_beside(partitions)) & self._assignment

    def _let_go(self, consumer: Consumer, gone: frozenset[Partition]) -> None:
        consumer.incremental_unassign([TopicPartition(*partition) for partition in gone])
        self._assignment -= gone
        self._gone |= gone
        self._in_doubt = {p: at for p, at in self._in_doubt.items() if p not in gone}


def _partitions(partitions: Iterable[TopicPartition]) -> frozenset[Partition]:
    return frozenset(Partition(p.topic, p.partition) for p in partitions)


def _positions(marks: Mapping[Partition, CommittedOffset]) -> list[TopicPartition]:
    return [TopicPartition(*partition, *mark) for partition, mark in marks.items()]
