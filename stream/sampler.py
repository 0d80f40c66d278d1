"""The sampler: reads the firehose, decides by the record's id alone, and forwards the chosen ones untouched."""

import threading
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sinks.base import Message
from sinks.deadletter import DeadLetterTopic
from sinks.metrics import Outcome, PipelineMetrics, Stage
from stream.config import Config
from stream.envelope import decision_headers
from stream.errors import PublishAborted, RecordError
from stream.exchange import Exchange, instance_name
from stream.offsets import Partition
from stream.reading import InteractionReader
from stream.records import Record, dead_letter, readable
from stream.sampling import SamplingPolicy

_POLL_SECONDS = 0.1
_RETRY_SECONDS = 0.5


@dataclass(slots=True)
class _Parcel:
    """What was decided for one partition and is not published yet."""

    next_offset: int = 0
    consumed: int = 0
    messages: list[Message] = field(default_factory=list)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)


class Sampler:
    """Consume a batch, decide every record, publish the batch in one transaction with its offsets."""

    stage = Stage.SAMPLER

    def __init__(self, config: Config, metrics: PipelineMetrics) -> None:
        self._config = config
        self._metrics = metrics
        self._reader = InteractionReader(config.input)
        self._policy = SamplingPolicy(config.sampling)
        self._dead_letters = DeadLetterTopic(config.topics.deadletter)
        self._parcels: dict[Partition, _Parcel] = {}
        self._exchange = Exchange(
            config.kafka,
            topic=config.topics.interactions,
            group=config.sampler.group,
            instance=instance_name(config.sampler.instance),
            listener=self,
        )

    @property
    def pulse(self) -> Exchange:
        return self._exchange

    def run(self, stop: threading.Event) -> None:
        """Samples until told to stop; what was read and not published is read again by the next owner."""
        self._exchange.start()
        try:
            while not stop.is_set():
                self.step()
        finally:
            self._exchange.close()

    def step(self) -> None:
        # With an unpublished batch at hand, poll only to keep the membership and learn of lost partitions.
        limit = 1 if self._parcels else self._config.sampler.batch
        for record in self._exchange.poll(limit, _POLL_SECONDS):
            self._take(record)
        if self._parcels:
            self._publish()
        self._metrics.lag(self.stage, self._exchange.lag())

    def on_assigned(self, partitions: Collection[Partition]) -> None:
        """Nothing is kept per partition between batches."""

    def on_revoked(self, partitions: Collection[Partition]) -> None:
        self._forget(partitions)

    def on_lost(self, partitions: Collection[Partition]) -> None:
        self._forget(partitions)

    def _take(self, record: Record) -> None:
        parcel = self._parcels.setdefault(record.partition, _Parcel())
        parcel.consumed += 1
        parcel.next_offset = record.offset + 1
        try:
            outcome = self._decide(record, parcel)
        except RecordError as error:
            outcome = Outcome.DEADLETTER
            parcel.reasons.append(error.kind)
            parcel.messages.extend(self._dead_letters.write(dead_letter(record, error, stage=self.stage)))
        parcel.outcomes[outcome] += 1

    def _decide(self, record: Record, parcel: _Parcel) -> Outcome:
        interaction = self._reader.read(readable(record)).interaction
        decision = self._policy.decide(interaction)
        if decision.filtered:
            return Outcome.FILTERED
        if not decision.chosen:
            return Outcome.SAMPLED_OUT
        envelope = decision_headers(decision, salt=self._config.sampling.salt, sampled_at=datetime.now(UTC))
        # Decision headers of an earlier pass (a replay) would contradict this one.
        kept = tuple(header for header in record.headers if not header[0].startswith("sj-"))
        parcel.messages.append(
            Message(
                topic=self._config.topics.sampled,
                key=interaction.id.encode(),
                value=record.value,
                headers=kept + envelope,
                instead=lambda: self._refused(record),
            )
        )
        return Outcome.SAMPLED

    def _refused(self, record: Record) -> Message:
        error = RecordError("too_large", f"{self._config.topics.sampled} takes no record of this size")
        (message,) = self._dead_letters.write(dead_letter(record, error, stage=self.stage))
        return message

    def _publish(self) -> None:
        messages = [message for parcel in self._parcels.values() for message in parcel.messages]
        offsets = {partition: parcel.next_offset for partition, parcel in self._parcels.items()}
        try:
            self._exchange.publish(messages, offsets)
        except PublishAborted:
            # Every further attempt reads a record more: not too many of them.
            time.sleep(_RETRY_SECONDS)
            return
        for parcel in self._parcels.values():
            self._count(parcel)
        self._parcels.clear()

    def _count(self, parcel: _Parcel) -> None:
        self._metrics.count(self.stage, Outcome.CONSUMED, parcel.consumed)
        for outcome, number in parcel.outcomes.items():
            self._metrics.count(self.stage, outcome, number)
        for reason in parcel.reasons:
            self._metrics.dead_letter(self.stage, reason)

    def _forget(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self._parcels.pop(partition, None)
