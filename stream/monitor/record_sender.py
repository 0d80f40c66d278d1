"""The record sender: a plain producer for scores, states and dead letters, which waits for an unavailable broker."""

import logging
import time
from functools import partial
from threading import Event

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as KafkaMessage

from sinks.base import Message
from sinks.topics.dead_letters import DeadLetterTopic
from sinks.topics.headers import ERROR_MESSAGE, ERROR_TYPE, SOURCE_OFFSET, SOURCE_PARTITION, SOURCE_TOPIC
from stream.config.model import Config
from stream.errors import RecordError, StageError
from stream.kafka.errors import DENIED, start_error, unusable_topic
from stream.kafka.producers.oversize import MAX_MESSAGE_BYTES, fit_to_limits
from stream.kafka.producers.transactional import produce
from stream.kafka.record import Record, dead_letter

log = logging.getLogger(__name__)

_CALL_SECONDS = 5.0
_TOPIC_SECONDS = 20.0
_LOOK_SECONDS = 0.5
_LOOKS = 3
STAGE = "monitor"


class RecordSender:
    """`send` and `dead_letter` never wait; `flush` waits until everything sent has arrived."""

    def __init__(self, config: Config) -> None:
        self._bootstrap = config.kafka.bootstrap
        self._input_topic, self._letter_topic = config.topics.evaluations, config.topics.deadletter
        self._letters = DeadLetterTopic(self._letter_topic)
        self._failures: list[str] = []
        self._too_large: list[Message] = []
        self._closed = Event()
        self.producer = Producer(
            {
                **config.kafka.client_options(),
                "client.id": f"{config.monitor.group}-alarms",
                "enable.idempotence": True,
                "message.timeout.ms": 0,  # waits for an unavailable broker
                "message.max.bytes": MAX_MESSAGE_BYTES,
                "linger.ms": 20,
                # States are mostly digits, and the monitor reads them with Python, which can unpack gzip by itself.
                "compression.type": "gzip",
                "delivery.report.only.error": True,
            },
            logger=log,
        )

    def check_topics(self, stop: Event) -> None:
        """Raise if access to evaluations or dead letters is denied, or the dead-letter topic does not exist.

        Faust waits for evaluations whose topic does not exist yet, but ignores a topic to which access is denied.
        Return early if `stop` is set.
        """
        self.count_partitions(self._input_topic, stop, may_be_missing=True)
        self.count_partitions(self._letter_topic, stop)

    def count_partitions(
        self,
        topic: str,
        stop: Event,
        *,
        may_be_missing: bool = False,
        remedy: str = "run `streamjury topics create`",
    ) -> int:
        """Return the number of partitions of a topic; raise unless it exists, or `stop` is set.

        A topic that `may_be_missing` has 0 partitions if it does not exist.

        Asking for a topic creates it if the broker creates topics automatically.
        """
        deadline = time.monotonic() + _TOPIC_SECONDS
        while not stop.is_set():
            reason: KafkaError | None = None
            try:
                described = self.producer.list_topics(topic, _CALL_SECONDS).topics[topic]
                if described.error is None and described.partitions:
                    return len(described.partitions)
                reason = described.error
                if may_be_missing and (reason is None or reason.code() not in DENIED):
                    return 0
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise start_error(self._bootstrap, error.args[0]) from error
            if time.monotonic() > deadline or (reason is not None and reason.code() in DENIED):
                raise unusable_topic(topic, reason, remedy)
            stop.wait(_LOOK_SECONDS)
        return 0

    def find_problem(self, topic: str) -> str | None:
        """Return why a topic cannot be used, after a few looks: asking may create it. None if it can be used."""
        for _look in range(_LOOKS):
            try:
                described = self.producer.list_topics(topic, _CALL_SECONDS).topics[topic]
            except KafkaException as error:
                return str(error.args[0].str())
            if described.error is None and described.partitions:
                return None
            if described.error is not None and described.error.code() in DENIED:
                break
            self._closed.wait(_LOOK_SECONDS)
        return described.error.str() if described.error is not None else "it has no partitions"

    def send(self, message: Message) -> None:
        """Send a message without waiting."""
        produce(self.producer, message, partial(self._report, message))

    def dead_letter(self, record: Record, error: RecordError) -> None:
        """Send a refused record to the dead-letter topic, with its bytes and the reason."""
        for message in self._letters.messages(dead_letter(record, error, stage=STAGE)):
            self.send(message)

    def flush(self) -> None:
        """Return when everything sent has arrived; raise if a topic refuses some of it."""
        while (self.producer.flush(_LOOK_SECONDS) or self._send_cut()) and not self._failures:
            if self._closed.is_set():
                raise StageError("not all alerts were published before shutdown; the next monitor will publish them")
        if self._failures:
            failures, self._failures = self._failures, []
            raise StageError(f"cannot publish alerts: {failures[0]}")

    def close(self) -> None:
        """Stop waiting. Records that did not arrive are produced again from what is re-read at the next start."""
        self._closed.set()

    def _send_cut(self) -> bool:
        """Send the first part of messages that a topic refused for their size; return False if there are none."""
        refused, self._too_large = self._too_large, []
        for message in fit_to_limits(refused, refused, compressed=True):
            self.send(message)
        return bool(refused)

    def _report(self, message: Message, error: KafkaError | None, _message: KafkaMessage) -> None:
        if error is None:
            return
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE and message.may_be_cut:
            self._too_large.append(message)
        elif error.code() in DENIED and message.topic == self._letter_topic:
            _log_lost_letter(message, error)
        else:
            self._failures.append(f"{message.topic} rejects a record ({error.str()})")


def _log_lost_letter(message: Message, error: KafkaError) -> None:
    """Log a lost dead letter. It must not end the monitor, which would read the record again at every start."""
    headers = {name: (value or b"").decode(errors="replace") for name, value in message.headers}
    place = f"{headers[SOURCE_TOPIC]}/{headers[SOURCE_PARTITION]}@{headers[SOURCE_OFFSET]}"
    log.error(
        "rejected and skipped the record at %s: %s: %s; it could not be written to %s (%s): grant access with an ACL",
        place,
        headers[ERROR_TYPE],
        headers[ERROR_MESSAGE],
        message.topic,
        error.str(),
    )
