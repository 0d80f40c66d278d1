"""Classifies the broker's errors: another client took our place, or the call may be retried."""

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

T = TypeVar("T")

FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
"""Another producer of the same name has begun; this one is refused for good."""

_AWAY = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT})
_PAUSE_SECONDS = 0.2


def repeated(
    call: Callable[[], T], seconds: float, *, waiting: Callable[[KafkaError], None] = lambda _reason: None
) -> T:
    """Repeats a call for so long, while the client says that repeating it is safe and may help; then raises.

    `waiting` is told why, before each pause.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            transient = reason.retriable() or reason.code() in _AWAY
            if not transient or reason.txn_requires_abort() or time.monotonic() > deadline:
                raise
            waiting(reason)
            time.sleep(_PAUSE_SECONDS)
