"""The counting producer: writes records to a topic and counts the broker's confirmations."""

import logging
import time
from collections.abc import Sequence
from threading import Event

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as KafkaMessage

from stream.config.sections.kafka import KafkaConfig
from stream.kafka.producers.oversize import MAX_MESSAGE_BYTES

log = logging.getLogger(__name__)

# A broker that is away for longer is a failure to report to the user.
DELIVERY_SECONDS = 30.0


# Room for two of the largest records.
_QUEUE_KBYTES = 262_144


_FULL_QUEUE_SECONDS = 0.1


# How often a waiting caller checks whether to stop.
_LOOK_SECONDS = 0.1


_FAILURES_KEPT = 5


class CountingProducer:
    """A producer for one topic that counts delivery reports. One thread drives it; any thread may read the counts."""

    def __init__(self, kafka: KafkaConfig, topic: str, *, client: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                **kafka.client_options(),
                "client.id": client,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": int(DELIVERY_SECONDS * 1000),
                "message.max.bytes": MAX_MESSAGE_BYTES,
                "queue.buffering.max.kbytes": _QUEUE_KBYTES,
                # Failures are counted and reported; the client's own log lines would break the progress bar.
                "log_level": 0,
            },
            logger=log,
        )
        self.delivered = 0
        self.failed = 0
        self.broker_away = False
        self.failures: list[str] = []

    def offer(
        self, value: bytes, *, key: bytes | None, headers: Sequence[tuple[str, bytes]] = (), label: str = "a record"
    ) -> bool:
        """Queue a record; return False after a short wait if the queue is full. `label` names it in a failure."""

        def report(error: KafkaError | None, _message: KafkaMessage) -> None:
            self._report(error, label)

        try:
            self._producer.produce(self._topic, value=value, key=key, headers=list(headers), on_delivery=report)
        except BufferError:
            self._producer.poll(_FULL_QUEUE_SECONDS)
            return False
        except KafkaException as error:
            self._report(error.args[0], label)
        self._producer.poll(0)
        return True

    def wait(self, until: float, stop: Event) -> bool:
        """Process delivery reports until a time of the monotonic clock; return False if `stop` is set earlier."""
        while not stop.is_set():
            seconds = until - time.monotonic()
            if seconds <= 0:
                return True
            self._producer.poll(min(seconds, _LOOK_SECONDS))
        return False

    def finish(self, seconds: float) -> None:
        """Wait for records in flight; those without a confirmation by then count as failed."""
        if self._producer.flush(seconds):
            self._producer.purge()
            self._producer.flush(1)

    def _report(self, error: KafkaError | None, label: str) -> None:
        if error is None:
            self.delivered += 1
            return
        self.failed += 1
        if error.code() == KafkaError._MSG_TIMED_OUT:
            self.broker_away = True
        if len(self.failures) < _FAILURES_KEPT:
            self.failures.append(f"{label}: {error.str()}")
