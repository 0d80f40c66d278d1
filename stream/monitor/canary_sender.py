"""Sends canaries to the work queue on a schedule: each is judged once a period, spread evenly over it."""

import logging
import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as KafkaMessage

from stream.config.model import Config
from stream.config.names import CANARY
from stream.kafka.producers.oversize import MAX_MESSAGE_BYTES
from stream.records.canaries import Canary, read_canaries
from stream.records.decision import Decision, SamplingOutcome
from stream.records.envelope import decision_headers

log = logging.getLogger(__name__)

_DECISION = Decision(outcome=SamplingOutcome.SAMPLED, probability=1.0, rule=CANARY, lane=CANARY)
# A canary that arrives later than this says nothing about the time it was meant for.
_DELIVERY_SECONDS = 60.0
_FLUSH_SECONDS = 1.0


# The schedule


class Due(NamedTuple):
    """A canary that is due, and the number of its round."""

    canary: Canary
    round: int


class Schedule:
    """The i-th of n is due at the fraction i/n of every period; periods are counted from the epoch.

    The work is spread evenly, and every process has the same rounds, also after a restart.
    """

    def __init__(self, canaries: Sequence[Canary], period: float) -> None:
        self._canaries = canaries
        self._round, self._ordered = -1, canaries
        self.period = period
        """In seconds."""

    def due(self, since: float, until: float) -> list[Due]:
        """Return the canaries that are due after `since` and not after `until`, in order."""
        # Whole steps: two adjacent intervals neither overlap nor leave a gap.
        steps = range(self._steps(since) + 1, self._steps(until) + 1)
        rounds = (divmod(step, len(self._canaries)) for step in steps)
        return [Due(self._order(number)[place], number) for number, place in rounds]

    def _order(self, number: int) -> Sequence[Canary]:
        """Return the order of a round, the same in every process; unsteady canaries must not come at regular times."""
        if number != self._round:
            draw = random.Random(number)  # noqa: S311 - nothing secret depends on it
            self._round, self._ordered = number, draw.sample(self._canaries, len(self._canaries))
        return self._ordered

    def _steps(self, at: float) -> int:
        return math.floor(at * len(self._canaries) / self.period)


# Sending


class CanarySender:
    """Sends canaries that are due. Call it often, from one thread: it does not block, and failures are only logged."""

    def __init__(self, config: Config) -> None:
        canaries, self._schedule = config.detection.canaries, None
        if canaries is not None:
            self._schedule = Schedule(read_canaries(canaries.file), canaries.every_minutes * 60.0)
        self._topic, self._salt = config.topics.sampled, config.sampling.salt
        self._options: dict[str, str | int | float | bool] = {
            **config.kafka.client_options(),
            "client.id": f"{config.monitor.group}-canaries",
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": int(_DELIVERY_SECONDS * 1000),
            "message.max.bytes": MAX_MESSAGE_BYTES,
            # Failures are logged once, below; the client would repeat them.
            "log_level": 0,
        }
        self._producer: Producer | None = None
        self._looked_at: float | None = None
        self._failing = False

    def send_due(self, now: float) -> None:
        """Send canaries that became due since the last call; the first call only records the time, in Unix seconds."""
        try:
            if self._producer is not None:
                self._producer.poll(0)
            for canary, number in self._due(now):
                self._send(canary, number, now)
        except Exception as error:
            self._log_failure(error)
            if _is_fatal(error):
                self._producer = None

    def close(self) -> None:
        """Wait a moment for messages in flight, then close."""
        if self._producer is not None:
            undelivered = self._producer.flush(_FLUSH_SECONDS)
            if undelivered:
                log.warning("%d canaries were not delivered to %s before the end", undelivered, self._topic)
            self._producer = None

    def _due(self, now: float) -> list[Due]:
        since, self._looked_at = self._looked_at, now
        if self._schedule is None or since is None:
            return []
        # Catches up on one period at most. Canaries that another process sent meanwhile have the same ids.
        return self._schedule.due(max(since, now - self._schedule.period), now)

    def _send(self, canary: Canary, number: int, now: float) -> None:
        if self._producer is None:
            self._producer = Producer(self._options, logger=log)
        headers = decision_headers(_DECISION, salt=self._salt, sampled_at=datetime.fromtimestamp(now, UTC))
        self._producer.produce(
            self._topic,
            key=canary.interaction_id(number).encode(),
            value=canary.value(number),
            headers=list(headers),
            on_delivery=self._report,
        )

    def _report(self, error: KafkaError | None, _message: KafkaMessage) -> None:
        if error is None:
            self._failing = False
        else:
            self._log_failure(error.str())

    def _log_failure(self, why: object) -> None:
        if not self._failing:
            log.warning("cannot send canaries to %s: %s", self._topic, why)
        self._failing = True


def _is_fatal(error: Exception) -> bool:
    """Return whether the client will accept no more records."""
    return isinstance(error, KafkaException) and (error.args[0].fatal() or error.args[0].code() == KafkaError._FATAL)
