"""Classifies the broker's errors: another client took our place, access is denied, or the call may be retried."""

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from stream.errors import FencedError, StageError, no_broker

T = TypeVar("T")

FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
"""Another producer with the same name has started; this one is rejected for good."""

DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""The broker knows us, but its ACLs deny access."""

AWAY = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT})
"""The broker does not answer; it may be back soon."""

_PAUSE_SECONDS = 0.2


def retry_call(
    call: Callable[[], T], seconds: float, *, waiting: Callable[[KafkaError], None] = lambda _reason: None
) -> T:
    """Retry a call for this many seconds, while the client reports that a retry is safe and may help; then raise.

    `waiting` receives the reason before each pause.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            transient = reason.retriable() or reason.code() in AWAY
            if not transient or reason.txn_requires_abort() or time.monotonic() > deadline:
                raise
            waiting(reason)
            time.sleep(_PAUSE_SECONDS)


def unusable_topic(
    topic: str, reason: KafkaError | None, remedy: str = "create it with `streamjury topics create`"
) -> StageError:
    """Return the error for a topic that the broker does not describe: access is denied, or it does not exist."""
    if reason is not None and reason.code() in DENIED:
        return StageError(f"access to topic {topic} denied ({reason.str()}); grant it with an ACL")
    return StageError(f"topic {topic} does not exist; {remedy}")


def start_error(bootstrap: str, reason: KafkaError) -> StageError:
    """Return the error for a client that cannot start: access is denied, or no broker answers."""
    if reason.code() in DENIED:
        return StageError(f"Kafka at {bootstrap} denied access ({reason.str()}); grant it with an ACL")
    return no_broker(bootstrap, reason.str())


def takeover_error(name: str, reason: KafkaError) -> FencedError:
    """Return the error for a client whose name another process took over."""
    remedy = "give every process its own sampler.instance, worker.instance or input.otlp.instance, or none"
    return FencedError(f"another process took over the instance name {name} ({reason.str()}); {remedy}")
