"""The exchange: reads one topic in a consumer group and publishes results together with the offsets they come from.

The sampler and the judge workers both run on it. What they publish and how far they have read become visible in one
Kafka transaction, or not at all; a process that lost its partitions is fenced by the group metadata that goes with it.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from sinks.base import Message
from stream.config import KafkaConfig
from stream.embedded import is_embedded
from stream.errors import FencedError, PublishAborted, StageError, no_broker
from stream.offsets import Partition, numbered
from stream.records import Record, partition_of, read_record
from stream.sizes import MAX_MESSAGE_BYTES, within_limits

log = logging.getLogger(__name__)
T = TypeVar("T")
DeliveryReport = Callable[[KafkaError | None, KafkaMessage], None]

# A hard-killed process blocks its group this long; a slow network must not look like a death.
SESSION_TIMEOUT_MS = 10_000
# An orphaned transaction hides later results from readers this long.
TRANSACTION_TIMEOUT_MS = 20_000
_CALL_SECONDS = 10.0
_STARTUP_SECONDS = 30.0
# A commit is asked for again for this long; then the broker has ended the transaction by itself.
_RETRY_SECONDS = TRANSACTION_TIMEOUT_MS / 1000
# librdkafka's send_offsets_to_transaction takes no notice of its timeout and never returns when the group's coordinator
# went away and came back: https://github.com/confluentinc/librdkafka/issues/5456 and 5511.
_HANG_SECONDS = 6.0
# A transaction with records that are too large is sent again with less of them; librdkafka may fail the next ones too,
# for the sequence number that a refused record left unused.
_SIZE_ATTEMPTS = 3
# Brokers keep such offsets for seven days.
_REMIND_SECONDS = 6 * 3600.0
# Records of one batch are refused together; a topic must take this much, or it refuses the small with the large.
_BATCH_BYTES = 256 * 1024


NO_NOTES: Mapping[Partition, str] = MappingProxyType({})


class Mark(NamedTuple):
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


class Exchange:
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
        self._topic, self._beside = topic, tuple(beside)
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
        self._producer_options: dict[str, Any] = {
            **common,
            "client.id": f"{group}-{name}",
            "transactional.id": f"{group}-{name}",
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "batch.size": _BATCH_BYTES,
            # A commit sends at once what still waits; until then records gather into fewer and larger requests.
            "linger.ms": 100,
            # Only failures are looked at; a report for each record takes as long as sending it.
            "delivery.report.only.error": True,
        }
        self._producer = Producer(self._producer_options, logger=log)
        self._compressed = bool(kafka.options.keys() & {"compression.type", "compression.codec"})
        self._spent = False
        self._in_doubt: Mapping[Partition, Mark] = {}
        self._mirror_offsets = False
        self._refused: list[Message] = []
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
            cluster = self._retrying(lambda: self._consumer.list_topics(timeout=_CALL_SECONDS), _STARTUP_SECONDS)
            self._retrying(lambda: self._producer.init_transactions(_CALL_SECONDS), _STARTUP_SECONDS)
            self._retrying(self._check_topics, _STARTUP_SECONDS)
        except KafkaException as error:
            raise no_broker(self._bootstrap, error.args[0].str()) from error
        # The embedded broker ignores offsets in transactions; without a second commit a restart would begin anew.
        self._mirror_offsets = is_embedded(cluster.cluster_id)
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

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
            self._publish(messages, {part: Mark(at, notes.get(part, "")) for part, at in wanted.items()})
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

    def marks(self, partitions: Collection[Partition]) -> tuple[int, dict[Partition, Mark]] | None:
        """How many partitions the topic has, and what was committed of these, with negative offsets where nothing was.

        None while the broker does not say.
        """
        try:
            metadata = self._consumer.list_topics(self._topic, _CALL_SECONDS).topics[self._topic]
            if metadata.error is not None:
                raise KafkaException(metadata.error)
            return len(metadata.partitions), self._committed(partitions)
        except KafkaException as error:
            log.info("what was committed of %s is not known yet: %s", self._topic, error.args[0].str())
            return None

    def _committed(self, partitions: Collection[Partition]) -> dict[Partition, Mark]:
        if not partitions:
            return {}
        known = self._consumer.committed([TopicPartition(*each) for each in partitions], _CALL_SECONDS)
        for at in known:
            if at.error is not None:
                raise KafkaException(at.error)
        return {Partition(at.topic, at.partition): Mark(at.offset, at.metadata or "") for at in known}

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
        if not self._spent:
            self._producer.purge()
            self._producer.flush(1)

    def _publish(self, messages: Sequence[Message], marks: Mapping[Partition, Mark]) -> None:
        if self._spent:
            self._renew()
        # Failures since a record was last refused for its size; with none refused, the first failure is the last.
        fruitless = _SIZE_ATTEMPTS
        while not self._sent(messages, marks, last=fruitless == _SIZE_ATTEMPTS):
            fruitless = 0 if self._refused else fruitless + 1
            messages = within_limits(messages, self._refused, compressed=self._compressed)
        if self._mirror_offsets:
            self._commit_plainly(marks)

    def _sent(self, messages: Sequence[Message], marks: Mapping[Partition, Mark], *, last: bool) -> bool:
        """False when it is worth another attempt: records were refused for their size, or this is not the last one."""
        try:
            self._transact(messages, marks)
        except PublishAborted:
            if self._spent or (last and not self._refused):
                raise
            return False
        return True

    def _transact(self, messages: Iterable[Message], marks: Mapping[Partition, Mark]) -> None:
        self._refused = []
        begun = time.monotonic()
        committing = False
        try:
            self._producer.begin_transaction()  # 1
            for message in messages:  # 2
                self._produce(message)
            self._send_offsets(marks)  # 3
            committing = True
            self._retrying(lambda: self._producer.commit_transaction(_CALL_SECONDS))  # 4
        except KafkaException as error:
            if committing and not error.args[0].txn_requires_abort():
                self._in_doubt = marks
            self._abort(error, time.monotonic() - begun)

    def _send_offsets(self, marks: Mapping[Partition, Mark]) -> None:
        """In a thread of its own, which is left behind with its producer when the call does not come back."""
        producer, metadata = self._producer, self._group_metadata()
        done: Future[None] = Future()

        def send() -> None:
            try:
                producer.send_offsets_to_transaction(_positions(marks), metadata, _CALL_SECONDS)
                done.set_result(None)
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=send, name="send-offsets", daemon=True).start()
        try:
            done.result(_HANG_SECONDS)
        except TimeoutError:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the offsets were not taken in time")) from None

    def _group_metadata(self) -> object:
        try:
            return self._consumer.consumer_group_metadata()
        except RuntimeError as error:
            # While the consumer closes it may have none; what is not published then is the next owner's.
            left = KafkaError(KafkaError._STATE, str(error), fatal=False, retriable=False, txn_requires_abort=True)
            raise KafkaException(left) from error

    def _commit_plainly(self, marks: Mapping[Partition, Mark]) -> None:
        try:
            self._consumer.commit(offsets=_positions(marks), asynchronous=False)
        except KafkaException as error:
            # As a real broker does inside the transaction when the group went on without us.
            log.info("offsets of %s are not committed yet: %s", self._topic, error.args[0].str())
            raise PublishAborted(error.args[0].str()) from error

    def _produce(self, message: Message) -> None:
        def delivered(error: KafkaError | None, _message: KafkaMessage) -> None:
            if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                self._refused.append(message)

        produce(self._producer, message, delivered)

    def _abort(self, error: KafkaException, seconds: float) -> None:
        """Gives up a transaction that is `seconds` old; it can be built anew, unless another took our place."""
        reason: KafkaError = error.args[0]
        # A broker that ends a transaction for its age also fences its producer: that is no other process.
        if reason.code() in _FENCED and seconds < TRANSACTION_TIMEOUT_MS / 1000:
            raise FencedError(f"the broker refuses this producer for good: {reason.str()}") from error
        log.warning("a transaction on %s was given up and will be sent again: %s", self._topic, reason.str())
        self._spent = not (reason.txn_requires_abort() and self._aborted())
        raise PublishAborted(reason.str()) from error

    def _aborted(self) -> bool:
        try:
            self._producer.abort_transaction(_CALL_SECONDS)
        except KafkaException as error:
            log.warning("a failed transaction could not be aborted: %s", error.args[0].str())
            return False
        return True

    def _renew(self) -> None:
        """Takes a new producer for one whose transaction has no end; its start ends what the old one left open."""
        try:
            self._producer = Producer(self._producer_options, logger=log)
            self._producer.init_transactions(_CALL_SECONDS)
            self._resolve_doubt()
        except KafkaException as error:
            log.warning("waiting for the broker: %s", error.args[0].str())
            raise PublishAborted(error.args[0].str()) from error
        self._spent = False

    def _resolve_doubt(self) -> None:
        """A commit that was asked for and not answered may have gone through; the group's offsets tell.

        Then what the stage holds is partly published already: it lets go of all of it, and reads on from there.
        """
        held = {partition: mark for partition, mark in self._in_doubt.items() if partition in self._assignment}
        known = self._committed(held)
        if any(known[partition].offset > mark.offset or known[partition] == mark for partition, mark in held.items()):
            log.warning("%s: a commit in doubt went through; reading on from there", self._topic)
            self._listener.on_lost(held.keys())
            try:
                for partition, mark in known.items():
                    self._consumer.seek(TopicPartition(*partition, mark.offset))
            finally:
                self._listener.on_assigned(held.keys())
            self._spent, self._in_doubt = False, {}
            raise PublishAborted("published before")
        self._in_doubt = {}

    def _retrying(self, call: Callable[[], T], seconds: float = _RETRY_SECONDS) -> T:
        """Repeats a call while the client says that repeating it is safe and may help."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return call()
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                transient = reason.retriable() or reason.code() in _BROKER_AWAY
                if not transient or reason.txn_requires_abort() or time.monotonic() > deadline:
                    raise
                log.warning("waiting for the broker: %s", reason.str())
                time.sleep(0.2)

    def _usable(self, message: KafkaMessage) -> bool:
        error = message.error()
        if error is None:
            return True
        # A consumer whose place another took is told once, by this code, and then hears nothing more.
        if error.fatal() or error.code() == KafkaError._FATAL:
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
        wanted = self._count(self._topic) if self._beside else 0
        for topic in self._beside:
            found = self._count(topic)
            if not found:
                raise StageError(f"the topic {topic} does not exist; `streamjury topics create` makes it")
            if found != wanted:
                raise StageError(f"{topic} has {found} partitions and {self._topic} {wanted}; give both as many")

    def _count(self, topic: str) -> int:
        """Partitions of a topic; 0 when there is none."""
        metadata = self._consumer.list_topics(topic, _CALL_SECONDS).topics[topic]
        if metadata.error is not None:
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
        log.warning("lost to another process: %s", numbered(gone))

    def _ours(self, partitions: list[TopicPartition]) -> frozenset[Partition]:
        return _partitions(self._with_those_beside(partitions)) & self._assignment

    def _let_go(self, consumer: Consumer, gone: frozenset[Partition]) -> None:
        consumer.incremental_unassign([TopicPartition(*partition) for partition in gone])
        self._assignment -= gone
        self._gone |= gone
        self._in_doubt = {p: at for p, at in self._in_doubt.items() if p not in gone}


_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_BROKER_AWAY = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT})


def produce(producer: Producer, message: Message, report: DeliveryReport) -> None:
    """Hands a message to the client, waiting while its local queue is full."""
    while True:
        try:
            producer.produce(
                message.topic,
                key=message.key,
                value=message.value,
                headers=list(message.headers),
                partition=message.partition,
                on_delivery=report,
            )
            return
        except BufferError:
            producer.poll(0.1)


def _partitions(partitions: Iterable[TopicPartition]) -> frozenset[Partition]:
    return frozenset(Partition(p.topic, p.partition) for p in partitions)


def _positions(marks: Mapping[Partition, Mark]) -> list[TopicPartition]:
    return [TopicPartition(*partition, *mark) for partition, mark in marks.items()]
