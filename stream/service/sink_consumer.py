"""Feeds a sink from the evaluations topic, in a thread of its own: every evaluation at least once.

1. read a batch of evaluations as a member of the sink's consumer group,
2. write it, and repeat that until the sink has taken or refused every evaluation,
3. commit the offsets.

A process that ends before the commit leaves the batch to the next member of the group, which writes it again. So the
sink must recognise an evaluation that it already has. The topic is the queue: while the sink is unavailable, the lag
of the group grows, and memory holds one batch.
"""

import logging
import threading
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from judges.values.evaluation import MIN_PROBABILITY, Evaluation
from sinks.base import Sink, SinkRefused, SinkUnavailable
from sinks.metrics.sinks import Delivery, SinkMetrics
from sinks.queued import FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS, LossLog
from stream.config.sections.kafka import KafkaConfig
from stream.errors import RecordError
from stream.kafka.consume_produce import SESSION_TIMEOUT_MS
from stream.kafka.record import read_record, schema_of, whole_value
from stream.kafka.stranded import StrandedCheck
from stream.monitor.reading import read_evaluation

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_CALL_SECONDS = 10.0


class SinkConsumer:
    """One member of a sink's consumer group."""

    def __init__(
        self, sink: Sink, metrics: SinkMetrics, kafka: KafkaConfig, *, topic: str, group: str, batch: int
    ) -> None:
        self.name = sink.name
        self._sink = sink
        self._metrics = metrics
        self._topic = topic
        self._batch = batch
        self._options = {
            **kafka.client_options(),
            "log_level": 4,
            "group.id": group,
            "client.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            # Partitions that stay are read on where they are, so no record of a batch is skipped by a rebalance.
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": SESSION_TIMEOUT_MS // 5,
            "topic.metadata.refresh.interval.ms": 5_000,
            "queued.max.messages.kbytes": 8_192,
        }
        self._stranded = StrandedCheck(kafka.client_options(), topic)
        self._read_ahead: list[KafkaMessage] = []
        """Messages that arrived while the sink was unavailable."""
        self._lag = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._losses = LossLog(self.name)
        self._is_away = False
        self._warned: set[int] = set()
        metrics.add(self.name, lambda: self._lag)

    def open(self) -> None:
        """Start the thread, which connects, however long that takes."""
        self._thread = threading.Thread(target=self._run, name=f"sink-{self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Have the thread end after its current attempt, without waiting for it."""
        self._stop.set()

    def close(self, seconds: float) -> None:
        """Wait this long for the thread. Evaluations that are not written by then are written after the next start."""
        self.stop()
        if self._thread is not None:
            self._thread.join(seconds)
        self._losses.log_rest()

    # In the thread

    def _run(self) -> None:
        consumer = self._open_consumer()
        try:
            if self._open_sink(consumer):
                while not self._stop.is_set():
                    if not consumer.assignment() and self._stranded.is_stranded(consumer):
                        consumer = self._reopen(consumer)
                    self._step(consumer)
        except Exception:
            log.exception("sink %s stopped; its evaluations wait on %s for a restart", self.name, self._topic)
        finally:
            self._sink.close(_CALL_SECONDS)
            consumer.close()

    def _open_consumer(self) -> Consumer:
        consumer = Consumer(self._options, logger=log)
        consumer.subscribe([self._topic])
        return consumer

    def _reopen(self, consumer: Consumer) -> Consumer:
        """Replace a consumer that has no partitions."""
        log.warning("sink %s: the client has lost its brokers; opening a new one", self.name)
        consumer.close()
        return self._open_consumer()

    def _open_sink(self, consumer: Consumer) -> bool:
        delay = FIRST_DELAY_SECONDS
        while not self._stop.is_set():
            try:
                self._sink.open()
            except Exception as error:
                self._note_outage(error)
                self._wait(consumer, delay)
                delay = min(2 * delay, LONGEST_DELAY_SECONDS)
            else:
                return True
        return False

    def _step(self, consumer: Consumer) -> None:
        """Write one batch, if there is one."""
        messages, self._read_ahead = self._read_ahead, []
        if not messages:
            messages = self._usable(consumer.consume(self._batch, _POLL_SECONDS))
        self._lag = _lag_of(consumer)
        evaluations = [evaluation for message in messages if (evaluation := self._read(message)) is not None]
        if messages and (not evaluations or self._write(consumer, evaluations)):
            self._commit(consumer, messages)

    def _write(self, consumer: Consumer, evaluations: Sequence[Evaluation]) -> bool:
        """Write until the sink has taken or refused all; return False if the process stops before that."""
        delay = FIRST_DELAY_SECONDS
        while True:
            try:
                self._sink.write(evaluations)
            except SinkUnavailable as error:
                self._note_outage(error)
                self._wait(consumer, max(delay, error.retry_after or 0.0))
                if self._stop.is_set():
                    return False
                delay = min(2 * delay, LONGEST_DELAY_SECONDS)
            except SinkRefused as error:
                self._finish(len(evaluations), error.number, error)
                return True
            except Exception as error:  # a defect: a retry would fail for ever
                self._finish(len(evaluations), len(evaluations), error)
                return True
            else:
                self._finish(len(evaluations))
                return True

    def _wait(self, consumer: Consumer, seconds: float) -> None:
        """Wait without reading on, but stay a member of the group, which needs polls."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self._stop.is_set():
            consumer.pause(consumer.assignment())
            # Partitions that a rebalance has just brought are not paused yet.
            self._read_ahead += self._usable(consumer.consume(1, min(left, _POLL_SECONDS)))
        consumer.resume(consumer.assignment())

    def _commit(self, consumer: Consumer, messages: Sequence[KafkaMessage]) -> None:
        """Commit the offsets of partitions that are still ours; the others' next owner writes them again."""
        owned = {(place.topic, place.partition) for place in consumer.assignment()}
        ends = {(message.topic(), message.partition()): (message.offset() or 0) + 1 for message in messages}
        offsets = [TopicPartition(*place, end) for place, end in ends.items() if place in owned]
        if not offsets:
            return
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            # The next commit covers these offsets too; after a crash the sink gets the evaluations once more.
            log.info("offsets of sink %s not committed yet: %s", self.name, error.args[0].str())

    def _usable(self, messages: Sequence[KafkaMessage]) -> list[KafkaMessage]:
        for message in messages:
            if (error := message.error()) is not None:
                self._warn(error)
        return [message for message in messages if message.error() is None]

    def _warn(self, error: KafkaError) -> None:
        if error.fatal():
            raise KafkaException(error)
        if error.code() not in self._warned:
            self._warned.add(error.code())
            log.warning("sink %s cannot read %s: %s", self.name, self._topic, error.str())

    def _read(self, message: KafkaMessage) -> Evaluation | None:
        """Read an evaluation; the monitor reports a record that is none, and it is skipped here."""
        record = read_record(message)
        try:
            # The probability is the monitor's concern: it enters no mean here.
            return read_evaluation(whole_value(record), schema_of(record), least_probability=MIN_PROBABILITY)
        except RecordError as error:
            self._metrics.count(self.name, Delivery.FAILED, 1)
            self._losses.note(1, f"not an evaluation: {error}", None)
            return None

    # Logging and counting

    def _finish(self, number: int, failed: int = 0, error: Exception | None = None) -> None:
        if self._is_away:
            log.info("sink %s is available again", self.name)
        self._is_away = False
        self._metrics.count(self.name, Delivery.WRITTEN, number - failed)
        if error is not None:
            self._metrics.count(self.name, Delivery.FAILED, failed)
            is_refusal = isinstance(error, SinkRefused)
            self._losses.note(failed, str(error) if is_refusal else "it failed", None if is_refusal else error)

    def _note_outage(self, error: Exception) -> None:
        if not self._is_away:
            log.warning("sink %s is unavailable, retrying; its evaluations wait on Kafka: %s", self.name, error)
        self._is_away = True


def _lag_of(consumer: Consumer) -> int:
    """Count the records between our positions and the last known ends of our partitions."""
    lag = 0
    for place in consumer.position(consumer.assignment()):
        _low, high = consumer.get_watermark_offsets(place, cached=True)
        if place.offset >= 0 and high >= 0:
            lag += max(0, high - place.offset)
    return lag
