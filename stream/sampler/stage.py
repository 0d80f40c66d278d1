"""The sampler's stage: reads all interactions, decides each by its id, and forwards the chosen ones unchanged."""

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
from stream.errors import PublishAborted, RecordError, RegistryError
from stream.kafka.consume_produce import TransactionalConsumer
from stream.kafka.offsets import Partition
from stream.kafka.record import Record, dead_letter, partition_of
from stream.records.encodings.decoder import make_decoder
from stream.records.encodings.framing import VALUE_SCHEMA_ID
from stream.records.encodings.message import message_reader
from stream.records.envelope import decision_headers
from stream.records.facts import LazyMessage
from stream.sampler.policy import Decision, SamplingPolicy

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_RETRY_SECONDS = 0.5
_LOG_SECONDS = 60.0
# During a transaction the client prefetches up to this much: at full speed the next batch is then ready.
_QUEUE_KIB = 65_536

# Asking for the number of partitions can take seconds when the broker is slow.
_SHARE_SECONDS = 30.0
# The rule label of records that failed before a rule was found.
_NO_RULE = "none"
_TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True, eq=False)
class RuleTally:
    """An outcome of records of one rule and app. Equal tallies are one object, so that counting is fast."""

    outcome: Outcome
    rule: str
    app: str | None = None
    reason: str | None = None


@lru_cache(maxsize=4096)
def tally_of(outcome: Outcome, rule: str, app: str | None = None, reason: str | None = None) -> RuleTally:
    return RuleTally(outcome, rule, app, reason)


@dataclass(slots=True)
class _SampledBatch:
    """Records that were read and not published yet, with the tally of each and the messages to send."""

    records: list[KafkaMessage] = field(default_factory=list)
    tallies: list[RuleTally] = field(default_factory=list)
    outgoing: list[tuple[Partition, Message]] = field(default_factory=list)
    positions: dict[Partition, int] = field(default_factory=dict)

    def without(self, gone: Collection[Partition]) -> "_SampledBatch":
        remaining = [index for index, record in enumerate(self.records) if partition_of(record) not in gone]
        return _SampledBatch(
            records=[self.records[index] for index in remaining],
            tallies=[self.tallies[index] for index in remaining],
            outgoing=[(partition, message) for partition, message in self.outgoing if partition not in gone],
            positions={partition: offset for partition, offset in self.positions.items() if partition not in gone},
        )


class Sampler:
    """Reads a batch, decides every record, and publishes the batch in one transaction with its offsets."""

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
        self._decoder = make_decoder(config)
        self._wrap = message_reader(self._decoder)
        # The value of a decoded record is forwarded as JSON, which has no schema.
        self._dropped_headers = (PREFIX,) if self._decoder is None else (PREFIX, VALUE_SCHEMA_ID)
        self._undecoded = _Undecoded()
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
        """Sample until `stop` is set; the partitions' next owner reads unpublished records again."""
        self.check_registry()
        self._exchange.start()
        try:
            while not stop.is_set():
                self.step()
        finally:
            self._exchange.close()
            self._policy.close()

    def step(self) -> None:
        """Process one batch. After a failed publish, read no further records, but poll to stay in the group."""
        if self._held_up and not self._batch.positions and not self._undecoded.messages:
            self._hold(False)  # the unpublished batch moved to another owner, or was published after all
        self._pause_or_resume()
        messages = self._exchange.fetch(1 if self._held_up else self._config.sampler.batch, _POLL_SECONDS)
        self._take_share()
        if self._decoder is not None:
            self._take_encoded(messages)
        elif messages:
            self._take(messages)
        if self._batch.positions:
            self._publish()
        self._metrics.lag(self.stage, self._exchange.lag())

    def on_assigned(self, partitions: Collection[Partition]) -> None:
        # The client keeps a pause from an earlier assignment.
        self._unsure |= set(partitions)

    def on_revoked(self, partitions: Collection[Partition]) -> None:
        self._batch = self._batch.without(partitions)
        self._undecoded.drop(partitions)

    def on_lost(self, partitions: Collection[Partition]) -> None:
        self.on_revoked(partitions)

    @property
    def registry_problem(self) -> str | None:
        """Why the Schema Registry cannot be used, while records wait for it."""
        return self._undecoded.problem

    def check_registry(self) -> None:
        """Warn if the Schema Registry does not answer; records wait for it, so this does not end the sampler."""
        if self._decoder is None:
            return
        try:
            self._decoder.check()
        except RegistryError as error:
            self._undecoded.report(error)

    def _take_share(self) -> None:
        """Update this sampler's share of targets and caps: its share of the partitions."""
        assigned = self._exchange.assignment
        if not self._policy.adapts or not assigned or assigned == self._seen or time.monotonic() < self._ask_again:
            return
        try:
            count = self._exchange.partition_count()
        except KafkaException as error:
            log.warning("cannot get partition metadata yet: %s", error.args[0].str())
            count = 0
        if count < len(assigned):
            self._ask_again = time.monotonic() + _SHARE_SECONDS
            return
        self._policy.share = len(assigned) / count
        self._seen = assigned

    def _take(self, messages: Sequence[KafkaMessage]) -> None:
        """Decide every record. If the key alone decides, no other part of a record that is left out is read."""
        batch, fixed = self._batch, self._policy.fixed
        batch.records += messages
        self._policy.start_batch()
        self._alike.clear()
        if fixed is None:
            batch.tallies += [self._decide(message) for message in messages]
        else:
            chooses, left_out = fixed.chooses, self._shared(fixed.left_out).tally
            batch.tallies += [
                (self._decide(message, fixed.chosen) if chooses(key) else left_out)
                if (key := message.key())
                else self._decide(message)
                for message in messages
            ]
        batch.positions |= self._exchange.positions()

    def _take_encoded(self, messages: Sequence[KafkaMessage]) -> None:
        """Decide records until one needs a schema that cannot be fetched now; that one and all later ones wait."""
        batch, waiting = self._batch, self._undecoded
        waiting.messages += messages
        self._policy.start_batch()
        self._alike.clear()
        decided = 0
        try:
            for message in waiting.messages:
                batch.tallies.append(self._decide(message, waiting.decision or self._decide_by_key(message)))
                waiting.decision = None
                decided += 1
            waiting.clear_problem()
        except RegistryError as error:
            waiting.report(error)
            self._hold(True)
            time.sleep(_RETRY_SECONDS)
        batch.records += waiting.messages[:decided]
        waiting.messages = waiting.messages[decided:]
        if decided:
            batch.positions |= self._exchange.positions() | waiting.positions()

    def _decide_by_key(self, message: KafkaMessage) -> Decision | None:
        """Return the decision if the key alone decides, else None."""
        fixed, key = self._policy.fixed, message.key()
        if fixed is None or not key:
            return None
        return fixed.chosen if fixed.chooses(key) else fixed.left_out

    def _decide(self, message: KafkaMessage, decision: Decision | None = None) -> RuleTally:
        incoming = self._wrap(message)
        try:
            decision = decision or self._policy.decide(incoming)
            shared = self._shared(decision)
            if shared.tally.outcome is Outcome.SAMPLED:
                self._forward(incoming, shared)
        except RegistryError:
            self._undecoded.decision = decision  # deciding it again would count it twice
            raise
        except RecordError as error:
            letter = dead_letter(incoming.record, error, stage=self.stage)
            self._send(incoming.record, *self._dead_letters.messages(letter))
            if decision is None:
                return tally_of(Outcome.DEADLETTER, _NO_RULE, None, error.kind)
            return tally_of(Outcome.DEADLETTER, decision.rule, decision.app, error.kind)
        return shared.tally

    def _forward(self, incoming: LazyMessage, shared: "_Shared") -> None:
        record = incoming.record
        value = incoming.json_value()
        # Decision headers of an earlier pass (a replay) would contradict this one.
        dropped = self._dropped_headers
        others = tuple([pair for pair in record.headers if not pair[0].startswith(dropped)]) if record.headers else ()
        message = Message(
            topic=self._config.topics.sampled,
            key=self._policy.record_id(incoming),
            value=value,
            headers=others + shared.headers,
            instead=partial(self._replace_oversized, record, shared.tally),
        )
        self._send(record, message)

    def _shared(self, decision: Decision) -> "_Shared":
        """Return what all records of a batch with the same decision have in common."""
        shared = self._alike.get(id(decision))
        if shared is None:
            shared = self._alike[id(decision)] = _Shared(
                decision,
                tally_of(Outcome(decision.outcome.value), decision.rule, decision.app),
                decision_headers(decision, salt=self._config.sampling.salt, sampled_at=datetime.now(UTC)),
            )
        return shared

    def _send(self, record: Record, *messages: Message) -> None:
        for message in messages:
            self._batch.outgoing.append((record.partition, message))

    def _replace_oversized(self, record: Record, expected: RuleTally) -> Message:
        """Return a dead letter for a record that is too large for its topic; called while a batch is published."""
        self._too_large[record.partition, record.offset] = expected
        error = RecordError(_TOO_LARGE, f"{self._config.topics.sampled} does not accept records of this size")
        (message,) = self._dead_letters.messages(dead_letter(record, error, stage=self.stage))
        return message

    def _publish(self) -> None:
        batch = self._batch
        self._too_large.clear()  # refusals of an earlier attempt do not count for this one
        try:
            self._exchange.publish([message for _, message in batch.outgoing], batch.positions)
        except PublishAborted:
            # The broker pushes back: read no more until it accepts this batch.
            self._hold(True)
            time.sleep(_RETRY_SECONDS)
            return
        self._batch = _SampledBatch()
        self._count(batch)
        if self._held_up and not self._undecoded.messages:
            self._hold(False)

    def _hold(self, held_up: bool) -> None:
        self._held_up = held_up
        self._unsure |= self._exchange.assignment

    def _pause_or_resume(self) -> None:
        """Pause partitions while a batch is held up and resume them afterwards, including newly assigned ones."""
        ours = self._unsure & self._exchange.assignment
        if ours:
            (self._exchange.pause if self._held_up else self._exchange.resume)(ours)
            self._unsure.clear()

    def _count(self, batch: _SampledBatch) -> None:
        tallies = Counter(batch.tallies)
        for expected in self._too_large.values():
            tallies[expected] -= 1
            tallies[tally_of(Outcome.DEADLETTER, expected.rule, expected.app, _TOO_LARGE)] += 1
        for tally, number in (+tallies).items():
            self._metrics.count(self.stage, tally.outcome, number, reason=tally.reason)
            self._sampling.count(tally.rule, tally.app, tally.outcome, number)
        self._metrics.count(self.stage, Outcome.CONSUMED, len(batch.records))


class _Undecoded:
    """Records that wait for the Schema Registry, in the order in which they were read."""

    def __init__(self) -> None:
        self.messages: list[KafkaMessage] = []
        self.decision: Decision | None = None
        """The decision about the first of them, if it was made before its schema was needed."""
        self.problem: str | None = None
        self._log_again = 0.0

    def positions(self) -> dict[Partition, int]:
        """Return the first waiting offset of each partition."""
        return {partition_of(message): message.offset() or 0 for message in reversed(self.messages)}

    def drop(self, partitions: Collection[Partition]) -> None:
        """Forget the records of partitions that another sampler reads now."""
        if self.messages and partition_of(self.messages[0]) in partitions:
            self.decision = None
        self.messages = [message for message in self.messages if partition_of(message) not in partitions]

    def report(self, error: RegistryError) -> None:
        """Log the problem now and then once a minute."""
        self.problem = str(error)
        if time.monotonic() >= self._log_again:
            self._log_again = time.monotonic() + _LOG_SECONDS
            log.warning("%s; records wait until it answers", error)

    def clear_problem(self) -> None:
        if self.problem is not None and self.messages:
            self.problem, self._log_again = None, 0.0
            log.info("the Schema Registry answers again")


class _Shared(NamedTuple):
    """Stored by the id of a decision, which is kept here so that no other object gets the same id."""

    decision: Decision
    tally: RuleTally
    headers: Headers
