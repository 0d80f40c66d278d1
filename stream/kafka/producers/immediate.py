"""The immediate producer: sends single records at once, outside any transaction, and waits until all have arrived."""

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
        self._under_way = 0
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
                # Without end: whoever waits for arrival decides how long, not a timer that drops the record.
                "message.timeout.ms": 0,
            },
            logger=log,
        )

    def send(self, message: Message) -> None:
        """Hands a record to the client; safe from any thread."""
        with self._lock:
            self._under_way += 1
        try:
            produce(self._producer, message, self._report)
        except BaseException as error:
            # It is not under way: waiting for its arrival would never end.
            with self._lock:
                self._under_way -= 1
                if _for_good(error):
                    self._refusal = f"{message.topic}: {error}"
            raise
        self._producer.poll(0)

    def arrived(self, seconds: float = 0.0) -> bool:
        """Whether the broker has everything, waiting up to `seconds`; raises `StageError` when it refused something.

        It polls instead of flushing: calls on a client take turns, and a flush that waits for a broker would hold up
        `send` in the thread that judges.
        """
        deadline = time.monotonic() + seconds
        while True:
            self._producer.poll(0)
            with self._lock:
                arrived, refusal = not self._under_way, self._refusal
            if refusal is not None:
                raise StageError(f"the broker rejected a record that must not be lost: {refusal}")
            if arrived or time.monotonic() >= deadline:
                return arrived
            time.sleep(0.01)

    def _report(self, error: KafkaError | None, message: KafkaMessage) -> None:
        with self._lock:
            self._under_way -= 1
        if error is None:
            self._delivered()
            return
        log.error("the broker rejected a record for %s: %s", message.topic(), error.str())
        # One that is too large will not become smaller; a topic that is missing or closed to us can be mended.
        if error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
            with self._lock:
                self._refusal = f"{message.topic()}: {error.str()}"


def _for_good(error: BaseException) -> bool:
    """Whether the client will take no record any more, whatever is in it."""
    return isinstance(error, KafkaException) and (error.args[0].fatal() or error.args[0].code() == KafkaError._FATAL)
