"""The sampler's stage: reads the firehose, decides each record by its id, and forwards the chosen ones untouched."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka import Message as KafkaMessage

from sinks.base import Headers, Message
from sinks.metrics import Outcome, PipelineMetrics, SamplingMetrics, Stage
from sinks.topics.dead_letters import DeadLetterTopic
from sinks.topics.headers import PREFIX
from stream.config.model import Config
from stream.errors import PublishAborted, RecordError
from stream.kafka.consume_produce import TransactionalConsumer
from stream.kafka.offsets import Partition
from stream.kafka.record import Record, dead_letter, partition_of, readable
from stream.records.envelope import decision_headers
from stream.records.facts import LazyMessage
from stream.sampler.policy import Decision, SamplingPolicy

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_RETRY_SECONDS = 0.5
# While a transaction is under way the client reads on up to this: at full speed it has the next batch ready by then.
_QUEUE_KIB = 65_536

# Asking how many partitions there are can take seconds when the broker is slow.
_SHARE_SECONDS = 30.0
# What records are counted under that could not be used before a rule was found for them.
_NO_RULE = "none"
_TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True, eq=False)
class RuleTally:
    """What becomes of records of one rule and app; there is one object for each, so that they are counted quickly."""

    outcome: Outcome
    rule: str
    app: str | None = None
    reason: str | None = None


@lru_cache(maxsize=4096)
def fate(outcome: Outcome, rule: str, app: str | None = None, reason: str | None = None) -> RuleTally:
    return RuleTally(outcome, rule, app, reason)


@dataclass(slots=True)
class _SampledBatch:
    """What was read and is not published yet: the records, what becomes of each, and what is to be sent."""

    records: list[KafkaMessage] = field(default_factory=list)
    fates: list[RuleTally] = field(default_factory=list)
    sent: list[tuple[Partition, Message]] = field(default_factory=list)
    positions: dict[Partition, int] = field(default_factory=dict)

    def without(self, gone: Collection[Partition]) -> "_SampledBatch":
        kept = [at for at, record in enumerate(self.records) if partition_of(record) not in gone]
        return _SampledBatch(
            records=[self.records[at] for at in kept],
            fates=[self.fates[at] for at in kept],
            sent=[(partition, message) for partition, message in self.sent if partition not in gone],
            positions={partition: at for partition, at in self.positions.items() if partition not in gone},
        )


class Sampler:
    """Consume a batch, decide every record, publish the batch in one transaction with its offsets."""

    stage = Stage.SAMPLER

    def __init__(self, config: Config, metrics: PipelineMetrics, sampling: SamplingMetrics) -> None:
        self._config = config
        self._metrics = metrics
        self._sampling = sampling
        self._policy = SamplingPolicy(config.sampling, config.input)
        self._dead_letters = DeadLetterTopic(config.topics.deadletter)
        self._batch = _SampledBatch()
        self._held_up = False
        self._unsure: set[Partition] = set()
        self._seen: frozenset[Partition] = frozenset()
        self._ask_again = 0.0
        self._too_large: dict[tuple[Partition, int], RuleTally] = {}
        self._alike: dict[int, _Shared] = {}
        self._exchange = TransactionalConsumer(
            config.kafka,
            topic=config.topics.interactions,
            group=config.sampler.group,
            instance=config.sampler.instance,
            listener=self,
            queue_kib=_QUEUE_KIB,
        )

    @property
    def pulse(self) -> TransactionalConsumer:
        return self._exchange

    def run(self, stop: threading.Event) -> None:
        """Samples until told to stop; what was read and not published is read again by the next owner."""
        self._exchange.start()
        try:
            while not stop.is_set():
                self.step()
        finally:
            self._exchange.close()
            self._policy.close()

    def step(self) -> None:
        """One batch; while one could not be published nothing is read, and polling keeps the place in the group."""
        if self._held_up and not self._batch.positions:
            self._hold(False)  # what could not be published was another's in the end, or was published after all
        self._open_or_shut()
        messages = self._exchange.fetch(1 if self._held_up else self._config.sampler.batch, _POLL_SECONDS)
        self._take_share()
        if messages:
            self._take(messages)
        if self._batch.positions:
            self._publish()
        self._metrics.lag(self.stage, self._exchange.lag())

    def on_assigned(self, partitions: Collection[Partition]) -> None:
        # The client keeps a pause from an earlier assignment.
        self._unsure |= set(partitions)

    def on_revoked(self, partitions: Collection[Partition]) -> None:
        self._batch = self._batch.without(partitions)

    def on_lost(self, partitions: Collection[Partition]) -> None:
        self._batch = self._batch.without(partitions)

    def _take_share(self) -> None:
        """Targets and caps are for all samplers together: each has the part of them that it has of the partitions."""
        held = self._exchange.assignment
        if not self._policy.adapts or not held or held == self._seen or time.monotonic() < self._ask_again:
            return
        try:
            count = self._exchange.partition_count()
        except KafkaException as error:
            log.warning("cannot get partition metadata yet: %s", error.args[0].str())
            count = 0
        if count < len(held):
            self._ask_again = time.monotonic() + _SHARE_SECONDS
            return
        self._policy.share = len(held) / count
        self._seen = held

    def _take(self, messages: Sequence[KafkaMessage]) -> None:
        """Decides every record. Where the key alone decides, nothing else of a record left out is looked at."""
        batch, fixed = self._batch, self._policy.fixed
        batch.records += messages
        self._policy.start_batch()
        self._alike.clear()
        if fixed is None:
            batch.fates += [self._decide(message) for message in messages]
        else:
            chooses, left_out = fixed.chooses, self._shared(fixed.left_out).fate
            batch.fates += [
                (self._decide(message, fixed.chosen) if chooses(key) else left_out)
                if (key := message.key())
                else self._decide(message)
                for message in messages
            ]
        batch.positions |= self._exchange.positions()

    def _decide(self, message: KafkaMessage, known: Decision | None = None) -> RuleTally:
        incoming, decision = LazyMessage(message), known
        try:
            decision = known or self._policy.decide(incoming)
            shared = self._shared(decision)
            if shared.fate.outcome is Outcome.SAMPLED:
                self._forward(incoming, shared)
        except RecordError as error:
            letter = dead_letter(incoming.record, error, stage=self.stage)
            self._send(incoming.record, *self._dead_letters.messages(letter))
            if decision is None:
                return fate(Outcome.DEADLETTER, _NO_RULE, None, error.kind)
            return fate(Outcome.DEADLETTER, decision.rule, decision.app, error.kind)
        return shared.fate

    def _forward(self, incoming: LazyMessage, shared: "_Shared") -> None:
        record = incoming.record
        value = readable(record)
        # Decision headers of an earlier pass (a replay) would contradict this one.
        kept = tuple([each for each in record.headers if not each[0].startswith(PREFIX)]) if record.headers else ()
        message = Message(
            topic=self._config.topics.sampled,
            key=self._policy.record_id(incoming),
            value=value,
            headers=kept + shared.headers,
            instead=partial(self._refused, record, shared.fate),
        )
        self._send(record, message)

    def _shared(self, decision: Decision) -> "_Shared":
        """What the records of a batch have in common that were decided alike."""
        found = self._alike.get(id(decision))
        if found is None:
            found = self._alike[id(decision)] = _Shared(
                decision,
                fate(Outcome(decision.outcome.value), decision.rule, decision.app),
                decision_headers(decision, salt=self._config.sampling.salt, sampled_at=datetime.now(UTC)),
            )
        return found

    def _send(self, record: Record, *messages: Message) -> None:
        for message in messages:
            self._batch.sent.append((record.partition, message))

    def _refused(self, record: Record, expected: RuleTally) -> Message:
        """Called while a batch is published, for a record that is too large for the topic that it was chosen for."""
        self._too_large[record.partition, record.offset] = expected
        error = RecordError(_TOO_LARGE, f"{self._config.topics.sampled} does not accept records of this size")
        (message,) = self._dead_letters.messages(dead_letter(record, error, stage=self.stage))
        return message

    def _publish(self) -> None:
        batch = self._batch
        self._too_large.clear()  # what was refused at an attempt before this one says nothing about this one
        try:
            self._exchange.publish([message for _, message in batch.sent], batch.positions)
        except PublishAborted:
            # The broker pushes back: nothing more is read until it takes what we have.
            self._hold(True)
            time.sleep(_RETRY_SECONDS)
            return
        self._batch = _SampledBatch()
        self._count(batch)
        if self._held_up:
            self._hold(False)

    def _hold(self, held_up: bool) -> None:
        self._held_up = held_up
        self._unsure |= self._exchange.assignment

    def _open_or_shut(self) -> None:
        """Pauses partitions while a batch is held up and resumes them after, those that came meanwhile too."""
        ours = self._unsure & self._exchange.assignment
        if ours:
            (self._exchange.pause if self._held_up else self._exchange.resume)(ours)
            self._unsure.clear()

    def _count(self, batch: _SampledBatch) -> None:
        self._metrics.count(self.stage, Outcome.CONSUMED, len(batch.records))
        fates = Counter(batch.fates)
        for expected in self._too_large.values():
            fates[expected] -= 1
            fates[fate(Outcome.DEADLETTER, expected.rule, expected.app, _TOO_LARGE)] += 1
        for each, number in (+fates).items():
            self._metrics.count(self.stage, each.outcome, number, reason=each.reason)
            self._sampling.count(each.rule, each.app, each.outcome, number)


class _Shared(NamedTuple):
    """By the identity of a decision, which is kept here so that no other gets it."""

    decision: Decision
    fate: RuleTally
    headers: Headers
