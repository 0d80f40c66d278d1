"""The immediate producer: sends single records at once, outside any transaction, and waits for their delivery."""

import logging
import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as KafkaMessage

from sinks.base import Message
from stream.config.sections.kafka import KafkaConfig
from stream.errors import StageError
from stream.kafka.producers.oversize import MAX_MESSAGE_BYTES
from stream.kafka.producers.transactional import produce

log = logging.getLogger(__name__)


class ImmediateProducer:
    """A plain producer that never gives up on a record."""

    def __init__(self, kafka: KafkaConfig, *, client: str, delivered: Callable[[], None] = lambda: None) -> None:
        self._delivered = delivered
        self._in_flight = 0
        self._refusal: str | None = None
        self._lock = threading.Lock()
        self._producer = Producer(
            {
                **kafka.client_options(),
                "client.id": client,
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.max.bytes": MAX_MESSAGE_BYTES,
                "log_level": 4,
                # No timeout: the caller decides how long to wait, and no timer drops the record.
                "message.timeout.ms": 0,
            },
            logger=log,
        )

    def send(self, message: Message) -> None:
        """Hand a record to the client; safe from any thread."""
        with self._lock:
            self._in_flight += 1
        try:
            produce(self._producer, message, self._report)
        except BaseException as error:
            # It is not in flight: waiting for its delivery would never end.
            with self._lock:
                self._in_flight -= 1
                if _is_permanent(error):
                    self._refusal = f"{message.topic}: {error}"
            raise
        self._producer.poll(0)

    def wait_for_delivery(self, seconds: float = 0.0) -> bool:
        """Wait up to `seconds` until all records are delivered, and return whether they are.

        Raises `StageError` if the broker rejected one. It polls instead of flushing: calls on a client take turns, and
        a flush that waits for a broker would block `send` in the judging thread.
        """
        deadline = time.monotonic() + seconds
        while True:
            self._producer.poll(0)
            with self._lock:
                delivered, refusal = not self._in_flight, self._refusal
            if refusal is not None:
                raise StageError(f"the broker rejected a record that must not be lost: {refusal}")
            if delivered or time.monotonic() >= deadline:
                return delivered
            time.sleep(0.01)

    def _report(self, error: KafkaError | None, message: KafkaMessage) -> None:
        with self._lock:
            self._in_flight -= 1
        if error is None:
            self._delivered()
            return
        log.error("the broker rejected a record for %s: %s", message.topic(), error.str())
        # A record that is too large stays too large; a missing topic or access right can be fixed.
        if error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
            with self._lock:
                self._refusal = f"{message.topic()}: {error.str()}"


def _is_permanent(error: BaseException) -> bool:
    """Return whether the client will accept no further records at all."""
    return isinstance(error, KafkaException) and (error.args[0].fatal() or error.args[0].code() == KafkaError._FATAL)
