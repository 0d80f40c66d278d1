"""The scan: reads a topic from some time on up to where it ends now, beside its consumers."""

import time
import uuid
from collections.abc import Iterator
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from stream.config import KafkaConfig
from stream.errors import StageError

_CALL_SECONDS = 10.0
_POLL_SECONDS = 0.1
_POLL_RECORDS = 1000
# A broker that gives no record for so long, though there should be more, is away.
_PATIENCE_SECONDS = 30.0


class TopicScan:
    """The committed records of all partitions of a topic. Reading again goes on where it stopped."""

    def __init__(self, kafka: KafkaConfig, topic: str) -> None:
        self._topic = topic
        self._next: dict[int, int] = {}
        self._consumer = Consumer(
            {
                **kafka.client_options(),
                # The client wants a group; nobody ever joins this one.
                "group.id": f"streamjury-scan-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                # The last records of a partition may be ones that nobody sees, such as those that end transactions.
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.queue.backoff.ms": 10,
                "log_level": 3,
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._consumer.close()

    def read(self, since_ms: int | None = None) -> Iterator[KafkaMessage]:
        """Every record up to where the partitions end now; of those not yet read, from a time on."""
        try:
            yield from self._read(since_ms)
        except KafkaException as error:
            raise StageError(f"reading {self._topic}: {error.args[0].str()}") from error

    def _read(self, since_ms: int | None) -> Iterator[KafkaMessage]:
        starts = self._starts(since_ms)
        ends = {at.partition: self._consumer.get_watermark_offsets(at, _CALL_SECONDS)[1] for at in starts}
        unread = {number for number, end in ends.items() if end > 0}
        self._consumer.assign([at for at in starts if at.partition in unread])
        heard_at = time.monotonic()
        while unread:
            messages = self._consumer.consume(_POLL_RECORDS, _POLL_SECONDS)
            if messages:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > _PATIENCE_SECONDS:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the broker sends nothing more"))
            for message in messages:
                if self._note(message, ends, unread):
                    yield message
        self._consumer.unassign()

    def _note(self, message: KafkaMessage, ends: dict[int, int], unread: set[int]) -> bool:
        """Keeps account of what was read; False for what is no record, or lies beyond the end."""
        number, offset, error = message.partition() or 0, message.offset() or 0, message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                unread.discard(number)
            elif not error.retriable():
                raise KafkaException(error)
            return False
        if number not in unread:
            return False
        self._next[number] = offset + 1
        if offset + 1 >= ends[number]:
            unread.discard(number)
        return True

    def _starts(self, since_ms: int | None) -> list[TopicPartition]:
        known = self._consumer.list_topics(self._topic, _CALL_SECONDS).topics[self._topic]
        if known.error is not None:
            raise KafkaException(known.error)
        starts = [TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in known.partitions]
        if since_ms is not None:
            asked = [TopicPartition(self._topic, number, since_ms) for number in known.partitions]
            starts = self._consumer.offsets_for_times(asked, _CALL_SECONDS)
        for at in starts:
            at.offset = self._next.get(at.partition, at.offset)
        return [at for at in starts if at.offset != OFFSET_END]
