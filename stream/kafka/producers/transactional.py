"""The transactional producer: records and their source offsets become visible together or not at all."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from sinks.base import Message
from stream.errors import FencedError, PublishAborted
from stream.kafka.errors import FENCED, retry_call, takeover_error
from stream.kafka.producers.oversize import MAX_MESSAGE_BYTES, fit_to_limits, shrink

log = logging.getLogger(__name__)
DeliveryReport = Callable[[KafkaError | None, KafkaMessage], None]

# An orphaned transaction hides later results from readers this long.
TRANSACTION_TIMEOUT_MS = 20_000
_CALL_SECONDS = 10.0
# A commit is retried for this long; then the broker has aborted the transaction by itself.
_RETRY_SECONDS = TRANSACTION_TIMEOUT_MS / 1000
# librdkafka's send_offsets_to_transaction ignores its timeout and never returns when the group's coordinator
# went away and came back: https://github.com/confluentinc/librdkafka/issues/5456 and 5511.
_HANG_SECONDS = 6.0
# A transaction with oversized records is sent again with replacements; librdkafka may fail the next ones too,
# because a refused record leaves its sequence number unused.
_SIZE_ATTEMPTS = 3
# Records of one batch are refused together; a topic must accept this much, or it rejects the small with the large.
_BATCH_BYTES = 256 * 1024


class Transactions:
    """A transactional producer under a name that one process holds."""

    def __init__(self, client: Mapping[str, Any], name: str, *, topic: str) -> None:
        """Make a producer with the common options `client`; `topic`, the source of the offsets, is for the log."""
        self._name, self._topic = name, topic
        self._options: dict[str, Any] = {
            **client,
            "client.id": name,
            "transactional.id": name,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "batch.size": _BATCH_BYTES,
            # A commit sends waiting records at once; until then they gather into fewer and larger requests.
            "linger.ms": 100,
            # Only failures matter here, and a report for each record takes as long as sending it.
            "delivery.report.only.error": True,
        }
        self._producer = Producer(self._options, logger=log)
        self._compressed = bool(client.keys() & {"compression.type", "compression.codec"})
        self._refused: list[Message] = []
        self._fenced: FencedError | None = None
        self.spent = False
        """Whether its transaction cannot be ended, so that the producer must be renewed."""
        self.in_doubt = False
        """Whether the last commit was not answered, and may have succeeded."""

    def start(self) -> None:
        """Fence a predecessor and abort its open transaction."""
        self._producer.init_transactions(_CALL_SECONDS)

    def renew(self) -> None:
        """Replace a spent producer by a new one, whose start aborts the open transaction."""
        self._producer = Producer(self._options, logger=log)
        self.start()
        self.spent = False

    def close(self) -> None:
        # A fenced producer has no open transaction, and its client fails in every call.
        if not self.spent and self._fenced is None:
            self._producer.purge()
            self._producer.flush(1)

    def publish(
        self, messages: Sequence[Message], offsets: Sequence[TopicPartition], group: Callable[[], object]
    ) -> None:
        """Publish one transaction, with replacements for oversized records; `group` returns the fencing metadata.

        Raises `PublishAborted` or `FencedError`.
        """
        if self._fenced is not None:  # a new producer would take the name back from its new owner
            raise self._fenced
        # Failures since a record was last refused for its size; without such a record, the first failure is the last.
        fruitless = _SIZE_ATTEMPTS
        while not self._try_transaction(messages, offsets, group, last=fruitless == _SIZE_ATTEMPTS):
            fruitless = 0 if self._refused else fruitless + 1
            messages = fit_to_limits(messages, self._refused, compressed=self._compressed)

    def _try_transaction(
        self,
        messages: Sequence[Message],
        offsets: Sequence[TopicPartition],
        group: Callable[[], object],
        *,
        last: bool,
    ) -> bool:
        """Try once; return False to try again: records were refused for their size, or attempts are left."""
        try:
            self._transact(messages, offsets, group)
        except PublishAborted:
            if self.spent or (last and not self._refused):
                raise
            return False
        return True

    def _transact(
        self, messages: Iterable[Message], offsets: Sequence[TopicPartition], group: Callable[[], object]
    ) -> None:
        """The steps of `TransactionalConsumer.publish`."""
        self._refused = []
        begun = time.monotonic()
        committing = self.in_doubt = False
        try:
            self._producer.begin_transaction()  # 1
            for message in messages:  # 2
                self._produce(message)
            self._send_offsets(offsets, group())  # 3
            committing = True
            self._commit()  # 4
        except KafkaException as error:
            self.in_doubt = committing and not error.args[0].txn_requires_abort()
            self._abort(error, time.monotonic() - begun)

    def _produce(self, message: Message) -> None:
        def report(error: KafkaError | None, _message: KafkaMessage) -> None:
            if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                self._refused.append(message)

        produce(self._producer, message, report)

    def _send_offsets(self, offsets: Sequence[TopicPartition], group: object) -> None:
        """Send offsets in a separate thread, which is abandoned with its producer if the call does not return."""
        producer = self._producer
        result: Future[None] = Future()

        def send() -> None:
            try:
                producer.send_offsets_to_transaction(list(offsets), group, _CALL_SECONDS)
                result.set_result(None)
            except BaseException as error:
                result.set_exception(error)

        threading.Thread(target=send, name="send-offsets", daemon=True).start()
        try:
            result.result(_HANG_SECONDS)
        except TimeoutError:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the offsets were not accepted in time")) from None

    def _commit(self) -> None:
        retry_call(lambda: self._producer.commit_transaction(_CALL_SECONDS), _RETRY_SECONDS, waiting=log_waiting)

    def _abort(self, error: KafkaException, seconds: float) -> None:
        """Abort a transaction that is `seconds` old; it can be retried, unless another process took our place."""
        reason = find_cause(self._producer, error.args[0])
        # A broker that aborts a transaction for its age also fences its producer: no other process is involved.
        if reason.code() in FENCED and seconds < TRANSACTION_TIMEOUT_MS / 1000:
            self._fenced = takeover_error(self._name, reason)
            raise self._fenced from error
        log.warning("transaction on %s aborted, it will be retried: %s", self._topic, reason.str())
        self.spent = not (reason.txn_requires_abort() and self._try_abort())
        raise PublishAborted(reason.str()) from error

    def _try_abort(self) -> bool:
        try:
            self._producer.abort_transaction(_CALL_SECONDS)
        except KafkaException as error:
            log.warning("cannot abort a failed transaction: %s", error.args[0].str())
            return False
        return True


def find_cause(producer: Producer, reason: KafkaError) -> KafkaError:
    """Return the cause of a fatal error: only calls on the transaction report it.

    Without the cause, a fenced producer would be renewed, and would fence the new owner of its name.
    """
    if reason.code() == KafkaError._FATAL:
        try:
            producer.commit_transaction(_CALL_SECONDS)
        except KafkaException as error:
            return error.args[0]  # type: ignore[no-any-return]
    return reason


def log_waiting(reason: KafkaError) -> None:
    log.warning("waiting for the broker: %s", reason.str())


def produce(producer: Producer, message: Message, report: DeliveryReport) -> None:
    """Hand a message to the client, waiting while its local queue is full.

    The client refuses a message beyond its `message.max.bytes` at once. Then its replacement is sent, and no record
    is measured twice; raises `RefusedError` if there is none.
    """
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
        except KafkaException as error:
            if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                raise
            message = shrink(message)
