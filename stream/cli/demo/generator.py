"""The demo's traffic generator: writes simulated interactions to a topic at a steady rate."""

import time
from collections import Counter
from datetime import UTC, datetime
from itertools import count as count_up
from threading import Event

from stream.cli.demo import Traffic, TrafficRecord
from stream.config.sections.kafka import KafkaConfig
from stream.errors import StageError
from stream.kafka.producers.counting import CountingProducer

_FLUSH_SECONDS = 10.0


# A generator that cannot keep its rate stops this long after its time.
_GRACE_SECONDS = 1.0


class TrafficGenerator:
    """Writes simulated traffic to a topic at a steady rate."""

    def __init__(self, kafka: KafkaConfig, topic: str, traffic: Traffic, rate: float) -> None:
        if not 0 < rate < float("inf"):
            raise ValueError(f"rate: {rate} is not a positive number")
        self._topic = topic
        self._traffic = traffic
        self._rate = rate
        self._producer = CountingProducer(kafka, topic, client="streamjury-traffic")

    @property
    def delivered(self) -> int:
        """Number of records that the broker has confirmed; may be read from any thread."""
        return self._producer.delivered

    def run(self, stop: Event, seconds: float | None = None, count: int | None = None) -> Counter[str]:
        """Write until `stop` is set, or for this many seconds or records; return the number of records by regime.

        The n-th record is due n / rate seconds after the first, however long the others took. Its content depends on
        that time and not on the real one: the same seed gives the same records on a busy machine. Raises `StageError`
        if a record was not delivered.
        """
        sent: Counter[str] = Counter()
        started = time.monotonic()
        for number in count_up():
            due = number / self._rate
            late = seconds is not None and time.monotonic() > started + seconds + _GRACE_SECONDS
            if late or number == count or (seconds is not None and due >= seconds):
                break
            if not self._producer.wait(started + due, stop):
                break
            record = self._traffic.record(due, datetime.now(UTC))
            if not self._send(record, stop):
                break
            sent[record.regime] += 1
            self._refuse_losses()
        self._producer.finish(_FLUSH_SECONDS)
        self._refuse_losses()
        return sent

    def _send(self, record: TrafficRecord, stop: Event) -> bool:
        while not self._producer.offer(record.value, key=record.key, headers=record.headers, label="traffic"):
            if stop.is_set():
                return False
        return True

    def _refuse_losses(self) -> None:
        producer = self._producer
        if producer.failed:
            raise StageError(
                f"{producer.failed} of {producer.failed + producer.delivered} records were not delivered to "
                f"{self._topic}; {producer.failures[0]}"
            )
