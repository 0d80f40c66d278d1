"""The topic scan: reads a topic, or a part of it, up to its current end, beside its consumers."""

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Self, TypeVar

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from stream.config.sections.kafka import KafkaConfig
from stream.errors import StageError
from stream.kafka.offsets import Partition

log = logging.getLogger(__name__)
T = TypeVar("T")

_CALL_SECONDS = 10.0
_POLL_SECONDS = 0.1
_POLL_RECORDS = 1000
# A broker that gives no record for so long, though there should be more, is away; it ends our transactions sooner.
_PATIENCE_SECONDS = 30.0


class TopicScan:
    """The committed records of all partitions of a topic. Reading again goes on where it stopped."""

    def __init__(self, kafka: KafkaConfig, topic: str, *, whole: bool = False) -> None:
        """`whole` waits for transactions that are under way: they hide what others committed after they began."""
        self._topic = topic
        self._next: dict[int, int] = {}
        self._consumer = _bystander(kafka, "read_committed")
        self._surveyor = _bystander(kafka, "read_uncommitted") if whole else self._consumer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._consumer.close()
        if self._surveyor is not self._consumer:
            self._surveyor.close()

    def read(self, since_ms: int | None = None) -> Iterator[KafkaMessage]:
        """Every record up to where the partitions end now; of those not yet read, from a time on."""
        try:
            yield from self._read(since_ms)
        except KafkaException as error:
            raise _failed(self._topic, error) from error

    def extent(self, since_ms: int | None = None) -> int:
        """About how many records `read` would give: at most so many."""
        try:
            starts = self._starts(since_ms)
            bounds = [_bounds(self._consumer, at) for at in starts]
        except KafkaException as error:
            raise _failed(self._topic, error) from error
        return sum(high - max(low, at.offset) for at, (low, high) in zip(starts, bounds, strict=True))

    def ranges(self, since_ms: int | None = None, until_ms: int | None = None) -> dict[int, range]:
        """The offsets that each partition holds now, from its first record at or after a time up to that at another.

        Records are where they are on the topic, whatever their times: two ranges that meet leave nothing between them.
        """
        try:
            return self._ranges(since_ms, until_ms)
        except KafkaException as error:
            raise _failed(self._topic, error) from error

    def read_within(self, ranges: Mapping[int, range]) -> Iterator[KafkaMessage]:
        """Every record at these offsets, by partition; whoever reads may take his time between two of them."""
        starts = [TopicPartition(self._topic, number, wanted.start) for number, wanted in ranges.items() if wanted]
        try:
            yield from self._consume(starts, {at.partition: ranges[at.partition].stop for at in starts})
        except KafkaException as error:
            raise _failed(self._topic, error) from error

    def _ranges(self, since_ms: int | None, until_ms: int | None) -> dict[int, range]:
        found = {}
        for number in self._partitions():
            found[number] = range(*_bounds(self._consumer, TopicPartition(self._topic, number)))
        for ms, is_end in ((since_ms, False), (until_ms, True)):
            for at in self._at(found, ms) if ms is not None else ():
                held = found[at.partition]
                offset = held.stop if at.offset == OFFSET_END else min(max(at.offset, held.start), held.stop)
                found[at.partition] = range(held.start, offset) if is_end else range(offset, held.stop)
        return found

    def _read(self, since_ms: int | None) -> Iterator[KafkaMessage]:
        starts = self._starts(since_ms)
        ends = self._ends(starts)
        yield from self._consume([at for at in starts if ends[at.partition] > 0], ends)

    def _consume(self, starts: list[TopicPartition], ends: Mapping[int, int]) -> Iterator[KafkaMessage]:
        unread = {at.partition for at in starts}
        self._consumer.assign(starts)
        heard_at = time.monotonic()
        while unread:
            messages = self._consumer.consume(_POLL_RECORDS, _POLL_SECONDS)
            if not messages and time.monotonic() - heard_at > _PATIENCE_SECONDS:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the broker stopped sending records"))
            before = set(unread)
            for message in messages:
                if self._note(message, ends, unread):
                    yield message
            if messages:
                heard_at = time.monotonic()
            if unread:  # what comes after the end of a range would be sent for nothing
                self._leave(before - unread)
        self._consumer.unassign()

    def _leave(self, partitions: Iterable[int]) -> None:
        if gone := [TopicPartition(self._topic, number) for number in partitions]:
            self._consumer.incremental_unassign(gone)

    def _note(self, message: KafkaMessage, ends: Mapping[int, int], unread: set[int]) -> bool:
        """Keeps account of what was read; False for what is no record, or lies beyond the end."""
        number, offset, error = message.partition() or 0, message.offset() or 0, message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                # Before the end it is a transaction under way that there is no reading beyond.
                if offset >= ends.get(number, 0):
                    unread.discard(number)
            elif not error.retriable():
                raise KafkaException(error)
            return False
        if number not in unread:
            return False
        if offset + 1 >= ends[number]:
            unread.discard(number)
        if offset >= ends[number]:
            return False
        self._next[number] = offset + 1
        return True

    def _partitions(self) -> list[int]:
        for client in {self._consumer, self._surveyor}:
            client.poll(0)  # without partitions it gives no record, and passes on what the client has logged
        known = self._consumer.list_topics(self._topic, _CALL_SECONDS).topics[self._topic]
        if known.error is not None:
            raise KafkaException(known.error)
        return list(known.partitions)

    def _at(self, partitions: Iterable[int], ms: int) -> list[TopicPartition]:
        """Where the first record at or after a time is; the end where there is none."""
        asked = [TopicPartition(self._topic, number, max(0, ms)) for number in partitions]
        return _all_of(lambda: self._consumer.offsets_for_times(asked, _CALL_SECONDS)) if asked else []

    def _starts(self, since_ms: int | None) -> list[TopicPartition]:
        numbers = self._partitions()
        starts = [TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in numbers]
        if since_ms is not None:
            starts = self._at(numbers, since_ms)
        for at in starts:
            at.offset = self._next.get(at.partition, at.offset)
        return [at for at in starts if at.offset != OFFSET_END]

    def _ends(self, starts: Iterable[TopicPartition]) -> dict[int, int]:
        """Where committed records end now or, of the whole, all records."""
        return {at.partition: _bounds(self._surveyor, at)[1] for at in starts}


def committed_offsets(kafka: KafkaConfig, group: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """How far a group has come, without joining it; 0 where it never committed. Waits for commits under way."""
    asked = [TopicPartition(*partition) for partition in partitions]
    # For this isolation the broker gives no offset that a transaction under way may yet change.
    consumer = _bystander(kafka, "read_committed", group=group)
    try:
        found = _all_of(lambda: consumer.committed(asked, _CALL_SECONDS)) if asked else []
    except KafkaException as error:
        raise _failed(f"the offsets of {group}", error) from error
    finally:
        consumer.close()
    return {Partition(at.topic, at.partition): max(0, at.offset) for at in found}


def _bounds(consumer: Consumer, at: TopicPartition) -> tuple[int, int]:
    """The first offset of a partition, and the one after the last."""
    return _patiently(lambda: consumer.get_watermark_offsets(at, _CALL_SECONDS))


def _all_of(ask: Callable[[], list[TopicPartition]]) -> list[TopicPartition]:
    """What is known of partitions, when it is known of all of them."""

    def answered() -> list[TopicPartition]:
        found = ask()
        problems = [at.error for at in found if at.error is not None]
        if problems:
            raise KafkaException(problems[0])
        return found

    return _patiently(answered)


def _patiently(ask: Callable[[], T]) -> T:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except KafkaException as error:
            unsettled = error.args[0].retriable() or error.args[0].code() in _UNSETTLED
            if not unsettled or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)


_UNSETTLED = frozenset(
    {
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        # Of a partition that is new, moves to another broker, or has no leader while its broker starts again.
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)


def _bystander(kafka: KafkaConfig, isolation: str, *, group: str | None = None) -> Consumer:
    """A consumer that never joins a group and commits nothing."""
    return Consumer(
        {
            **kafka.client_options(),
            # The client wants a group; without one to ask about, it gets one that nobody ever joins.
            "group.id": group or f"streamjury-scan-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            # The last records of a partition may be ones that nobody sees, such as those that end transactions.
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 10,
            "queued.max.messages.kbytes": 16_384,
            # The broker says that there is no more only after it waited for more.
            "fetch.wait.max.ms": 20,
            "log_level": 3,
        },
        logger=log,
    )


def _failed(what: str, error: KafkaException) -> StageError:
    return StageError(f"reading {what}: {error.args[0].str()}")
