"""The exclusive producer: transactions under a name that one process holds; the newest fences the others."""

import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as KafkaMessage

from sinks.base import Message
from stream.config.sections.kafka import KafkaConfig
from stream.errors import FencedError, StageError
from stream.kafka.errors import FENCED, retry_call, start_error
from stream.kafka.producers.oversize import MAX_MESSAGE_BYTES, RefusedError, refusal
from stream.kafka.producers.transactional import TRANSACTION_TIMEOUT_MS, find_cause, produce

_CALL_SECONDS = 10.0
_RETRY_SECONDS = 30.0

# Errors are reported once, in our words, so the client's log lines are dropped.
_UNHEARD = logging.getLogger(f"{__name__}.client")
_UNHEARD.addHandler(logging.NullHandler())
_UNHEARD.propagate = False


class ExclusiveProducer:
    """A transactional producer; making one aborts the open transaction of another with the same name, and fences it."""

    def __init__(
        self,
        kafka: KafkaConfig,
        name: str,
        *,
        work: str,
        done: str,
        seconds: float = _RETRY_SECONDS,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Open the producer; `work` and `done` are for messages, such as "replay of this topic" and "moved".

        Each call waits at most `seconds` for a broker that does not answer; `options` are more client options.
        """
        self._kafka, self._work, self._done, self._seconds = kafka, work, done, seconds
        self._options: dict[str, Any] = {
            **kafka.client_options(),
            "client.id": name,
            "transactional.id": name,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "linger.ms": 100,
            "delivery.report.only.error": True,
            **options,
        }
        self._refused: list[Message] = []
        self._producer = self._open()

    def commit(self, messages: Iterable[Message]) -> None:
        """Publish all messages, or raise and publish none; after a `RefusedError` the producer can be used again."""
        try:
            self._producer.begin_transaction()
            for message in messages:
                self._produce(message)
            self._commit()
        except RefusedError:
            self._abort()
            raise
        except KafkaException as error:
            raise self._failure(find_cause(self._producer, error.args[0])) from error

    def close(self) -> None:
        """End the client and its threads without waiting for an open transaction, which the broker aborts."""
        self._producer.purge()
        # The client's own `close` would wait for the broker, however long it is away.
        del self._producer

    def _open(self) -> Producer:
        producer = Producer(self._options, logger=_UNHEARD)
        try:
            producer.init_transactions(self._seconds)
        except KafkaException as error:
            raise start_error(self._kafka.bootstrap, error.args[0]) from error
        return producer

    def _produce(self, message: Message) -> None:
        def report(error: KafkaError | None, _message: KafkaMessage) -> None:
            if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                self._refused.append(message)

        produce(self._producer, message, report)

    def _commit(self) -> None:
        call = min(_CALL_SECONDS, self._seconds)
        retry_call(lambda: self._producer.commit_transaction(call), self._seconds)

    def _failure(self, reason: KafkaError) -> StageError:
        if reason.code() in FENCED:
            return FencedError(f"another {self._work} took over; records already {self._done} stay {self._done}")
        self._abort()
        if self._refused:
            largest = max(self._refused, key=lambda message: len(message.value or b""))
            self._refused = []
            # A refused record leaves its sequence number unused, which may fail the next records too.
            self._producer = self._open()
            return refusal(largest)
        return StageError(
            f"a transaction failed ({reason.str()}); records already {self._done} stay {self._done}; run the command "
            "again"
        )

    def _abort(self) -> None:
        """Abort the transaction if possible; otherwise the broker aborts it after its timeout."""
        try:
            self._producer.abort_transaction(min(_CALL_SECONDS, self._seconds))
        except KafkaException:
            self._producer.purge()
