"""The audit: reads the topics into an account, from the last to the first.

The order makes the result right even while the pipeline runs:
1. read the committed offsets of the sampler and the workers,
2. read where records end: dead letters and evaluations,
3. read where they wait in between: retry and overflow topics, then the work queue,
4. read where they begin.
Every record before a committed offset in 1 had a visible result then, so the result is found in 2 and 3. Every record
after it waits, and is found further on only if it moved meanwhile.
"""

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import NamedTuple

import msgspec
from confluent_kafka import Message as KafkaMessage
from pydantic import ValidationError

from judges.shortfall import unscored_reason
from judges.values.evaluation import Evaluation
from sinks.topics.headers import ERROR_TYPE
from stream.config.model import Config
from stream.config.names import CANARY
from stream.config.rate_scale import DEFAULT_MIN_RATE
from stream.config.sections.budgets import MIN_KEEP
from stream.config.sections.sampling import SamplingConfig, SamplingRule
from stream.errors import RecordError
from stream.jobs.audit.account import MISSING, AuditAccount, Balance, Fate, FateKind
from stream.kafka.offsets import Partition, Place
from stream.kafka.record import Record, read_record
from stream.kafka.topic_scan import TopicScan, read_committed_offsets
from stream.records.decision import SamplingOutcome
from stream.records.encodings.decoder import REGISTRY_SECONDS, make_decoder
from stream.records.encodings.message import message_reader
from stream.records.envelope import is_backfilled, is_canary, logged_id_in, read_sampling
from stream.records.facts import LazyRecord
from stream.records.headers import is_mark, marked_letter, source_of
from stream.sampler.policy import DecisionExplanation, SamplingPolicy
from stream.worker.budget.savings import Thinning

Progress = Callable[[int, int], None]
"""Called from time to time with the number of records read, and about how many there are."""

# Clocks of producers differ: search for the results of a record from this long before it.
_SKEW_MS = 5 * 60_000
_PROGRESS_RECORDS = 500
_LEFT_OUT = {SamplingOutcome.FILTERED: Fate(FateKind.FILTERED), SamplingOutcome.SAMPLED_OUT: Fate(FateKind.SAMPLED_OUT)}


def audit(
    config: Config, partitions: Mapping[str, int], *, since_ms: int | None = None, progress: Progress | None = None
) -> Balance:
    """Return the balance of the topics, for interactions from a time on.

    `partitions` has the partition count of each topic of the cluster; a topic that is not in it is empty.
    """
    return _Audit(config, partitions, since_ms, progress or _ignore_progress).run()


class Recalled:
    """Derives the sampler's decision about a record from the record and the configuration."""

    def __init__(self, config: Config) -> None:
        # Only the sampler writes the steps of adaptive rates.
        sampling = config.sampling.model_copy(update={"step_log": None, "replay_steps": None})
        self._config = sampling
        self._policy = SamplingPolicy(sampling, config.input)
        self._plans: dict[str, SamplingRule | SamplingConfig] = {rule.name: rule for rule in sampling.rules}

    def record_id(self, facts: LazyRecord) -> bytes | None:
        """Return the id by which a record is drawn, or None if it cannot be read."""
        try:
            return self._policy.record_id(facts)
        except RecordError:
            return None

    def body_id(self, value: bytes | None) -> bytes | None:
        """Return the id in a record's body, or None if it cannot be read."""
        return self.record_id(LazyRecord(None, value, 0))

    def fate(self, facts: LazyRecord) -> Fate:
        """Return the fate of a record that left no trace."""
        fixed = self._policy.fixed
        if fixed is not None and facts.key:
            return MISSING if fixed.chooses(facts.key) else _LEFT_OUT[fixed.left_out.outcome]
        try:
            return self._fate_of(self._policy.explain(facts))
        except RecordError:
            return MISSING  # it should have been a dead letter

    def _fate_of(self, explanation: DecisionExplanation) -> Fate:
        """Derive the fate from a decision. An adaptive rate decides for certain only if the draw is outside its bounds.

        Between the bounds the record counts as left out; a record that a cap may have shed counts as shed.
        """
        plan = next((self._plans[tried.rule] for tried in explanation.tried if tried.matched), self._config)
        if plan.rate == 0.0:
            return _LEFT_OUT[SamplingOutcome.FILTERED]
        low, high = _bounds(plan)
        safety = self._config.safety
        taken_over = safety is not None and any(explanation.triggers.values())
        least = safety.rate if safety is not None and taken_over else 0.0
        if explanation.draw >= max(high, least):
            return _LEFT_OUT[SamplingOutcome.SAMPLED_OUT]
        if explanation.draw >= max(low, least):
            return Fate(FateKind.SAMPLED_OUT, estimated=True)
        # The cap of a rule does not apply to records that a trigger takes over.
        if plan.max_per_minute is not None and high > least:
            return Fate(FateKind.SHED, estimated=True)
        return MISSING


class _Step(NamedTuple):
    """A topic, its start time, and the function for its records."""

    topic: str
    since_ms: int | None
    take: Callable[[KafkaMessage], None]


class _Audit:
    def __init__(self, config: Config, partitions: Mapping[str, int], since_ms: int | None, progress: Progress) -> None:
        self._config, self._partitions, self._progress = config, partitions, progress
        self._since_ms = since_ms
        self._recalled = Recalled(config)
        self._wrap = message_reader(make_decoder(config, patience=REGISTRY_SECONDS))
        self._thinning = Thinning(config.sampling.salt)
        self._account = AuditAccount(repeat_ms=int(config.worker.repeat_seconds * 1000))
        self._done = self._total = 0
        self._reached: dict[Partition, int] = {}

    def run(self) -> Balance:
        topics, aside = self._config.topics, self._aside()
        self._reached |= self._read_committed(self._config.sampler.group, [topics.interactions])  # 1
        self._reached |= self._read_committed(self._config.worker.group, [topics.sampled, *aside])
        later = self._before(_SKEW_MS)
        # A recently judged interaction is not judged again: the evaluation of a record may be older than the record.
        judged = self._before(_SKEW_MS + int(self._config.worker.repeat_seconds * 1000))
        steps = [
            _Step(topics.deadletter, later, self._take_letter),  # 2
            _Step(topics.evaluations, judged, self._take_evaluation),
            *(_Step(topic, later, partial(self._take_aside, kind)) for topic, kind in aside.items()),  # 3
            _Step(topics.sampled, later, self._take_queued),
            _Step(topics.interactions, self._since_ms, self._take_interaction),  # 4
        ]
        steps = [step for step in steps if step.topic in self._partitions]
        self._total = sum(self._extent(step) for step in steps)
        for step in steps:
            self._read(step)
        return self._account.balance()

    def _aside(self) -> dict[str, FateKind]:
        """Return the topics where records wait apart from the work queue, even if they are no longer configured."""
        name = re.compile(re.escape(self._config.topics.retry) + r"\.[0-9]+")
        retries = sorted(topic for topic in self._partitions if name.fullmatch(topic))
        return {**dict.fromkeys(retries, FateKind.PARKED), self._config.topics.overflow: FateKind.DEFERRED}

    def _before(self, ms: int) -> int | None:
        return None if self._since_ms is None else self._since_ms - ms

    def _read_committed(self, group: str, topics: Collection[str]) -> dict[Partition, int]:
        partitions = [Partition(topic, number) for topic in topics for number in range(self._partitions.get(topic, 0))]
        return read_committed_offsets(self._config.kafka, group, partitions)

    def _extent(self, step: "_Step") -> int:
        with TopicScan(self._config.kafka, step.topic) as scan:
            return scan.extent(step.since_ms)

    def _read(self, step: "_Step") -> None:
        with TopicScan(self._config.kafka, step.topic, whole=True) as scan:
            for message in scan.read(step.since_ms):
                step.take(message)
                self._done += 1
                if self._done % _PROGRESS_RECORDS == 0:
                    self._progress(self._done, max(self._done, self._total))

    def _take_letter(self, message: KafkaMessage) -> None:
        headers = dict(read_record(message).headers)
        if is_mark(headers):
            letter = marked_letter(headers)
            if letter is not None:
                self._account.mark(letter)
                return
        source, reason = source_of(headers), headers.get(ERROR_TYPE)
        if source is None or not reason:
            self._account.unreadable += 1
            return
        position = message.partition() or 0, message.offset() or 0
        self._account.letter(position, source, reason.decode("utf-8", "replace"))

    def _take_evaluation(self, message: KafkaMessage) -> None:
        headers = read_record(message).headers
        if is_backfilled(headers):
            return  # it does not come from the pipeline
        value = message.value() or b""
        try:
            evaluation = _EVALUATIONS.decode(value)
            if evaluation.sampling.lane == CANARY:
                return  # a canary comes from no interaction
            unscored = None if evaluation.composite.score is not None else _reason(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValidationError, RecursionError):
            self._account.unreadable += 1
            return
        interaction_id = logged_id_in(headers) or evaluation.interaction_id.encode("utf-8", "surrogatepass")
        self._account.evaluation(
            evaluation.evaluation_id, interaction_id, at_ms=message.timestamp()[1], unscored=unscored
        )

    def _take_aside(self, kind: FateKind, message: KafkaMessage) -> None:
        record, place = read_record(message), _place(message)
        source = source_of(dict(record.headers))
        waiting = kind if self._waits(place) else None
        if source is not None:
            self._account.aside(place, source, waiting)
        else:  # another program put it there
            self._take_as_queued(record, place, waiting)

    def _take_queued(self, message: KafkaMessage) -> None:
        place = _place(message)
        self._take_as_queued(read_record(message), place, FateKind.WAITING_WORKER if self._waits(place) else None)

    def _take_as_queued(self, record: Record, place: Place, waiting: FateKind | None) -> None:
        if is_canary(record.headers):
            return  # a canary comes from no interaction
        body_id = self._recalled.body_id(record.value)
        spared = body_id is not None and self._may_be_spared(record, body_id)
        self._account.queued(place, record.key or body_id or place, body_id, waiting, spared=spared)

    def _may_be_spared(self, record: Record, body_id: bytes) -> bool:
        """Return whether a worker may have left the record out to save money; the saving level is not recorded."""
        if not self._config.budgets.thins or self._thinning.keeps(body_id, MIN_KEEP):
            return False
        safety = self._config.sampling.safety
        try:
            return safety is None or read_sampling(record.headers).lane != safety.lane
        except RecordError:
            return False  # it should have been a dead letter

    def _take_interaction(self, message: KafkaMessage) -> None:
        place, facts = _place(message), self._wrap(message)
        self._account.interaction(
            place, self._recalled.record_id(facts), lambda: self._recalled.fate(facts), waiting=self._waits(place)
        )

    def _waits(self, place: Place) -> bool:
        return place.offset >= self._reached.get(Partition(place.topic, place.partition), 0)


class _AuditedComposite(msgspec.Struct):
    score: float | None


class _AuditedSampling(msgspec.Struct):
    lane: str = "main"


class _Evaluation(msgspec.Struct):
    evaluation_id: str
    interaction_id: str
    composite: _AuditedComposite
    sampling: _AuditedSampling = msgspec.field(default_factory=_AuditedSampling)


# Reading whole evaluations takes fifty times as long.
_EVALUATIONS = msgspec.json.Decoder(_Evaluation)


def _reason(value: bytes) -> str:
    reason = unscored_reason(Evaluation.model_validate_json(value))
    return reason.value if reason is not None else "unknown"


def _bounds(plan: SamplingRule | SamplingConfig) -> tuple[float, float]:
    if plan.target_per_minute is None:
        rate = plan.rate or 0.0
        return rate, rate
    return DEFAULT_MIN_RATE if plan.min_rate is None else plan.min_rate, 1.0 if plan.max_rate is None else plan.max_rate


def _place(message: KafkaMessage) -> Place:
    return Place(message.topic() or "", message.partition() or 0, message.offset() or 0)


def _ignore_progress(_done: int, _total: int) -> None:
    pass
