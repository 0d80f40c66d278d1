"""The topic scan: reads a topic, or a part of it, up to its current end, independently of its consumers."""

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Self, TypeVar

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from stream.config.sections.kafka import KafkaConfig
from stream.errors import StageError
from stream.kafka.errors import AWAY
from stream.kafka.offsets import Partition

log = logging.getLogger(__name__)
T = TypeVar("T")

_CALL_SECONDS = 10.0
_POLL_SECONDS = 0.1
_POLL_RECORDS = 1000
# If no record arrives for this long before the end, the broker is away; it aborts our transactions sooner than that.
_PATIENCE_SECONDS = 30.0


class TopicScan:
    """Reads the committed records of all partitions of a topic. A second read resumes where the first stopped."""

    def __init__(
        self, kafka: KafkaConfig, topic: str, *, whole: bool = False, patience: float = _PATIENCE_SECONDS
    ) -> None:
        """Open the scan; `whole` waits for open transactions, which hide records that others committed after them.

        If the broker does not answer for `patience` seconds, reading fails.
        """
        self._kafka, self._topic, self._whole, self._patience = kafka, topic, whole, patience
        self._next: dict[int, int] = {}
        self._consumer, self._surveyor = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _open(self) -> tuple[Consumer, Consumer]:
        consumer = open_bystander(self._kafka, "read_committed")
        return consumer, open_bystander(self._kafka, "read_uncommitted") if self._whole else consumer

    def close(self) -> None:
        self._consumer.close()
        if self._surveyor is not self._consumer:
            self._surveyor.close()

    def read(self, since_ms: int | None = None) -> Iterator[KafkaMessage]:
        """Yield every record up to the current ends; partitions not read yet start at a time, if given."""
        try:
            yield from self._read(since_ms)
        except KafkaException as error:
            # The old ones may never find the broker again: see stream/kafka/stranded.py.
            self.close()
            self._consumer, self._surveyor = self._open()
            raise _scan_error(self._topic, error) from error

    def read_from(self, offsets: Mapping[int, int]) -> Iterator[KafkaMessage]:
        """Yield every record of these partitions, from an offset of each up to its current end."""
        starts = [TopicPartition(self._topic, number, offset) for number, offset in offsets.items()]
        try:
            ends = self._ends(starts)
            yield from self._consume([start for start in starts if ends[start.partition] > start.offset], ends)
        except KafkaException as error:
            raise _scan_error(self._topic, error) from error

    def extent(self, since_ms: int | None = None) -> int:
        """Return an upper estimate of the records that `read` would yield."""
        try:
            starts = self._starts(since_ms)
            bounds = [self._bounds(self._consumer, start) for start in starts]
        except KafkaException as error:
            raise _scan_error(self._topic, error) from error
        return sum(high - max(low, start.offset) for start, (low, high) in zip(starts, bounds, strict=True))

    def ranges(self, since_ms: int | None = None, until_ms: int | None = None) -> dict[int, range]:
        """Return the offsets that each partition holds now, from its first record at or after a time up to another.

        Ranges follow the order on the topic, not record times: two adjacent ranges leave no record between them.
        """
        try:
            return self._ranges(since_ms, until_ms)
        except KafkaException as error:
            raise _scan_error(self._topic, error) from error

    def read_within(self, ranges: Mapping[int, range]) -> Iterator[KafkaMessage]:
        """Yield every record at these offsets, by partition; the reader may pause between two records."""
        starts = [TopicPartition(self._topic, number, offsets.start) for number, offsets in ranges.items() if offsets]
        try:
            yield from self._consume(starts, {start.partition: ranges[start.partition].stop for start in starts})
        except KafkaException as error:
            raise _scan_error(self._topic, error) from error

    def _ranges(self, since_ms: int | None, until_ms: int | None) -> dict[int, range]:
        ranges = {}
        for number in self._partitions():
            ranges[number] = range(*self._bounds(self._consumer, TopicPartition(self._topic, number)))
        for ms, is_end in ((since_ms, False), (until_ms, True)):
            for place in self._offsets_at(ranges, ms) if ms is not None else ():
                offsets = ranges[place.partition]
                offset = (
                    offsets.stop if place.offset == OFFSET_END else min(max(place.offset, offsets.start), offsets.stop)
                )
                ranges[place.partition] = range(offsets.start, offset) if is_end else range(offset, offsets.stop)
        return ranges

    def _read(self, since_ms: int | None) -> Iterator[KafkaMessage]:
        starts = self._starts(since_ms)
        ends = self._ends(starts)
        yield from self._consume([start for start in starts if ends[start.partition] > 0], ends)

    def _consume(self, starts: list[TopicPartition], ends: Mapping[int, int]) -> Iterator[KafkaMessage]:
        unread = {start.partition for start in starts}
        self._consumer.assign(starts)
        heard_at = time.monotonic()
        while unread:
            messages = self._consumer.consume(_POLL_RECORDS, _POLL_SECONDS)
            if not messages and time.monotonic() - heard_at > self._patience:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the broker stopped sending records"))
            before = set(unread)
            for message in messages:
                if self._track(message, ends, unread):
                    yield message
            if messages:
                heard_at = time.monotonic()
            if unread:  # records beyond the end of a range would be sent in vain
                self._unassign(before - unread)
        self._consumer.unassign()

    def _unassign(self, partitions: Iterable[int]) -> None:
        if gone := [TopicPartition(self._topic, number) for number in partitions]:
            self._consumer.incremental_unassign(gone)

    def _track(self, message: KafkaMessage, ends: Mapping[int, int], unread: set[int]) -> bool:
        """Track the position; return False for an event that is not a record, or a record beyond the end."""
        number, offset, error = message.partition() or 0, message.offset() or 0, message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                # Before the end, it means that an open transaction hides the rest.
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
            client.poll(0)  # without partitions it returns no record, but passes on the client's log lines
        metadata = _retry_unsettled(
            lambda: self._consumer.list_topics(self._topic, self._call_seconds).topics[self._topic], self._patience
        )
        if metadata.error is not None:
            raise KafkaException(metadata.error)
        return list(metadata.partitions)

    def _offsets_at(self, partitions: Iterable[int], ms: int) -> list[TopicPartition]:
        """Return the offset of the first record at or after a time, or the end."""
        times = [TopicPartition(self._topic, number, max(0, ms)) for number in partitions]
        if not times:
            return []
        return _ask_for_all(lambda: self._consumer.offsets_for_times(times, self._call_seconds), self._patience)

    def _starts(self, since_ms: int | None) -> list[TopicPartition]:
        numbers = self._partitions()
        starts = [TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in numbers]
        if since_ms is not None:
            starts = self._offsets_at(numbers, since_ms)
        for start in starts:
            start.offset = self._next.get(start.partition, start.offset)
        return [start for start in starts if start.offset != OFFSET_END]

    def _ends(self, starts: Iterable[TopicPartition]) -> dict[int, int]:
        """Return the current end of committed records or, with `whole`, of all records."""
        return {start.partition: self._bounds(self._surveyor, start)[1] for start in starts}

    def _bounds(self, consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
        """Return the first offset of a partition, and the one after the last."""

        def ask_once() -> tuple[int, int]:
            try:
                return consumer.get_watermark_offsets(place, self._call_seconds)
            except KafkaException as error:
                if error.args[0].code() == KafkaError._UNKNOWN_PARTITION:
                    # By itself, the client may trust its picture of a new topic for half a minute.
                    consumer.list_topics(self._topic, timeout=self._call_seconds)
                raise

        return _retry_unsettled(ask_once, self._patience)

    @property
    def _call_seconds(self) -> float:
        return min(_CALL_SECONDS, self._patience)


def read_committed_offsets(kafka: KafkaConfig, group: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Read the offsets of a group without joining it; 0 without a commit. Waits for pending commits."""
    places = [TopicPartition(*partition) for partition in partitions]
    # With this isolation the broker returns no offset that an open transaction may still change.
    consumer = open_bystander(kafka, "read_committed", group=group)
    try:
        committed = _ask_for_all(lambda: consumer.committed(places, _CALL_SECONDS)) if places else []
    except KafkaException as error:
        raise _scan_error(f"the offsets of {group}", error) from error
    finally:
        consumer.close()
    return {Partition(place.topic, place.partition): max(0, place.offset) for place in committed}


def _ask_for_all(ask: Callable[[], list[TopicPartition]], patience: float = _PATIENCE_SECONDS) -> list[TopicPartition]:
    """Ask for several partitions until there is an answer for all of them."""

    def ask_once() -> list[TopicPartition]:
        places = ask()
        problems = [place.error for place in places if place.error is not None]
        if problems:
            raise KafkaException(problems[0])
        return places

    return _retry_unsettled(ask_once, patience)


def _retry_unsettled(ask: Callable[[], T], patience: float) -> T:
    deadline = time.monotonic() + patience
    while True:
        try:
            return ask()
        except KafkaException as error:
            unsettled = error.args[0].retriable() or error.args[0].code() in _UNSETTLED
            if not unsettled or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)


_UNSETTLED = AWAY | frozenset(
    {
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        # For a partition that is new, moves to another broker, or has no leader while its broker restarts.
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)


def open_bystander(kafka: KafkaConfig, isolation: str, *, group: str | None = None) -> Consumer:
    """Open a consumer that never joins a group or commits."""
    return Consumer(
        {
            **kafka.client_options(),
            # The client requires a group; by default it gets one that no consumer ever joins.
            "group.id": group or f"streamjury-scan-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            # The last records of a partition may be invisible, such as transaction markers.
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 10,
            "queued.max.messages.kbytes": 16_384,
            # The broker reports the end only after waiting for more records.
            "fetch.wait.max.ms": 20,
            "log_level": 3,
        },
        logger=log,
    )


def _scan_error(what: str, error: KafkaException) -> StageError:
    return StageError(f"reading {what}: {error.args[0].str()}")
