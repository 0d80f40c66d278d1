"""Watches topics: measures the time to the next evaluation, and waits for a dead letter."""

import json
import math
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from typing import Self, cast
from uuid import uuid4

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from stream.config.model import Config
from tests.parts.patience import patience

_CALL_SECONDS = 10.0
_PATIENCE_SECONDS = 60.0


class Tail:
    """Reads committed evaluations as they are published."""

    def __init__(self, config: Config) -> None:
        self._topic = config.topics.evaluations
        self._consumer = _open_consumer(config)

    def __enter__(self) -> Self:
        partitions = self._consumer.list_topics(self._topic, _CALL_SECONDS * patience()).topics[self._topic].partitions
        self._consumer.assign([TopicPartition(self._topic, number, OFFSET_END) for number in partitions])
        return self

    def __exit__(self, *_error: object) -> None:
        self._consumer.close()

    def seconds_to_next(self, disturb: Callable[[], None]) -> float:
        """Return the seconds from a disturbance to the first evaluation that was made after it.

        Infinite if there is none, or if no evaluation came before.
        """
        if not self._await(after=0.0):
            return math.inf
        began, clock = time.time(), time.monotonic()
        disturb()
        return time.monotonic() - clock if self._await(after=began) else math.inf

    def _await(self, *, after: float) -> bool:
        deadline = time.monotonic() + _PATIENCE_SECONDS * patience()
        while time.monotonic() < deadline:
            for message in self._consumer.consume(100, 0.05):
                if message.error() is None and _made_at(message.value() or b"") > after:
                    return True
        return False


def wait_for_letter(config: Config, reason: str, seconds: float) -> None:
    """Wait for a dead letter whose reason starts with `reason`, for at most `seconds`."""
    consumer, deadline = _open_consumer(config), time.monotonic() + seconds
    consumer.subscribe([config.topics.deadletter])
    with closing(consumer):
        while time.monotonic() < deadline:
            for message in consumer.consume(100, 0.2):
                headers = dict(cast("list[tuple[str, bytes | None]] | None", message.headers()) or ())
                if (headers.get("sj-error-type") or b"").startswith(reason.encode()):
                    return


def _open_consumer(config: Config) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": config.kafka.bootstrap,
            "group.id": f"chaos-tail-{uuid4().hex}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )


def _made_at(value: str | bytes) -> float:
    return datetime.fromisoformat(json.loads(value)["evaluated_at"]).timestamp()
