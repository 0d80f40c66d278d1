"""The audit: reads the topics into an account, from the last to the first.

The order is what makes it right beside a running pipeline:
1. ask how far the sampler and the workers have come,
2. read where records end: dead letters and evaluations,
3. read where they wait in between: retry and overflow topics, then the work queue,
4. read where they begin.
Whatever was behind a committed offset in 1 had its result visible then, so it is found in 2 and 3. Whatever is beyond
one waits, and is found to be further only if it moved on meanwhile.
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
from stream.records.envelope import is_backfilled, is_canary, logged_id_in, read_sampling
from stream.records.facts import LazyMessage, LazyRecord
from stream.records.headers import is_mark, marked_letter, source_of
from stream.sampler.policy import DecisionExplanation, SamplingPolicy
from stream.worker.budget.savings import Thinning

Progress = Callable[[int, int], None]
"""Called now and then with how many records were read, of about how many."""

# Clocks of producers differ: what a record became is looked for from so long before it.
_SKEW_MS = 5 * 60_000
_PROGRESS_RECORDS = 500
_LEFT_OUT = {SamplingOutcome.FILTERED: Fate(FateKind.FILTERED), SamplingOutcome.SAMPLED_OUT: Fate(FateKind.SAMPLED_OUT)}


def audit(
    config: Config, partitions: Mapping[str, int], *, since_ms: int | None = None, progress: Progress | None = None
) -> Balance:
    """The balance of what the topics hold, of interactions from a time on.

    `partitions` says how many each topic of the cluster has; a topic that is not among them is empty.
    """
    return _Audit(config, partitions, since_ms, progress or _nothing).run()


class Recalled:
    """What the sampler must have decided about a record, as far as the record and the configuration tell."""

    def __init__(self, config: Config) -> None:
        # Steps of adaptive rates are the sampler's to write.
        sampling = config.sampling.model_copy(update={"step_log": None, "replay_steps": None})
        self._config = sampling
        self._policy = SamplingPolicy(sampling, config.input)
        self._plans: dict[str, SamplingRule | SamplingConfig] = {rule.name: rule for rule in sampling.rules}

    def record_id(self, facts: LazyRecord) -> bytes | None:
        """What a record is drawn by; None where it cannot be read."""
        try:
            return self._policy.record_id(facts)
        except RecordError:
            return None

    def body_id(self, value: bytes | None) -> bytes | None:
        """The id in a record's body; None where it cannot be read."""
        return self.record_id(LazyRecord(None, value, 0))

    def fate(self, facts: LazyRecord) -> Fate:
        """What became of a record that left no trace."""
        fixed = self._policy.fixed
        if fixed is not None and facts.key:
            return MISSING if fixed.chooses(facts.key) else _LEFT_OUT[fixed.left_out.outcome]
        try:
            return self._judged(self._policy.explain(facts))
        except RecordError:
            return MISSING  # it should have been a dead letter

    def _judged(self, explanation: DecisionExplanation) -> Fate:
        """A decision that followed the traffic is known where its draw is outside of all that the rate can have been.

        Between, it counts as left out, and what a cap may have shed as shed.
        """
        plan = next((self._plans[each.rule] for each in explanation.tried if each.matched), self._config)
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
        # A cap is of the rule, and what a trigger takes over is not under it.
        if plan.max_per_minute is not None and high > least:
            return Fate(FateKind.SHED, estimated=True)
        return MISSING


class _Step(NamedTuple):
    """A topic, from when on it is read, and who takes its records."""

    topic: str
    since_ms: int | None
    take: Callable[[KafkaMessage], None]


class _Audit:
    def __init__(self, config: Config, partitions: Mapping[str, int], since_ms: int | None, progress: Progress) -> None:
        self._config, self._partitions, self._progress = config, partitions, progress
        self._since_ms = since_ms
        self._recalled = Recalled(config)
        self._thinning = Thinning(config.sampling.salt)
        self._account = AuditAccount(repeat_ms=int(config.worker.repeat_seconds * 1000))
        self._done = self._total = 0
        self._reached: dict[Partition, int] = {}

    def run(self) -> Balance:
        topics, aside = self._config.topics, self._aside()
        self._reached |= self._committed(self._config.sampler.group, [topics.interactions])  # 1
        self._reached |= self._committed(self._config.worker.group, [topics.sampled, *aside])
        later = self._before(_SKEW_MS)
        # What was judged lately is not judged again: the evaluation of a record may be older than the record.
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
        """Where records wait beside the work queue; also on topics that are no longer configured."""
        name = re.compile(re.escape(self._config.topics.retry) + r"\.[0-9]+")
        retries = sorted(topic for topic in self._partitions if name.fullmatch(topic))
        return {**dict.fromkeys(retries, FateKind.PARKED), self._config.topics.overflow: FateKind.DEFERRED}

    def _before(self, ms: int) -> int | None:
        return None if self._since_ms is None else self._since_ms - ms

    def _committed(self, group: str, topics: Collection[str]) -> dict[Partition, int]:
        asked = [Partition(topic, number) for topic in topics for number in range(self._partitions.get(topic, 0))]
        return read_committed_offsets(self._config.kafka, group, asked)

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
        at = message.partition() or 0, message.offset() or 0
        self._account.letter(at, source, reason.decode("utf-8", "replace"))

    def _take_evaluation(self, message: KafkaMessage) -> None:
        headers = read_record(message).headers
        if is_backfilled(headers):
            return  # it says nothing of what the pipeline did
        value = message.value() or b""
        try:
            found = _EVALUATIONS.decode(value)
            if found.sampling.lane == CANARY:
                return  # as of a record that comes from no interaction
            unscored = None if found.composite.score is not None else _reason(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValidationError, RecursionError):
            self._account.unreadable += 1
            return
        interaction_id = logged_id_in(headers) or found.interaction_id.encode("utf-8", "surrogatepass")
        self._account.evaluation(found.evaluation_id, interaction_id, at_ms=message.timestamp()[1], unscored=unscored)

    def _take_aside(self, kind: FateKind, message: KafkaMessage) -> None:
        record, at = read_record(message), _place(message)
        source = source_of(dict(record.headers))
        waiting = kind if self._waits(at) else None
        if source is not None:
            self._account.aside(at, source, waiting)
        else:  # somebody else put it there
            self._take_as_queued(record, at, waiting)

    def _take_queued(self, message: KafkaMessage) -> None:
        at = _place(message)
        self._take_as_queued(read_record(message), at, FateKind.WAITING_WORKER if self._waits(at) else None)

    def _take_as_queued(self, record: Record, at: Place, waiting: FateKind | None) -> None:
        if is_canary(record.headers):
            return  # it comes from no interaction
        body_id = self._recalled.body_id(record.value)
        spared = body_id is not None and self._may_be_spared(record, body_id)
        self._account.queued(at, record.key or body_id or at, body_id, waiting, spared=spared)

    def _may_be_spared(self, record: Record, body_id: bytes) -> bool:
        """Whether a worker may have left the record out because money was short; how short it was is not recorded."""
        if not self._config.budgets.thins or self._thinning.keeps(body_id, MIN_KEEP):
            return False
        safety = self._config.sampling.safety
        try:
            return safety is None or read_sampling(record.headers).lane != safety.lane
        except RecordError:
            return False  # it should have been a dead letter

    def _take_interaction(self, message: KafkaMessage) -> None:
        at, facts = _place(message), LazyMessage(message)
        self._account.interaction(
            at, self._recalled.record_id(facts), lambda: self._recalled.fate(facts), waiting=self._waits(at)
        )

    def _waits(self, at: Place) -> bool:
        return at.offset >= self._reached.get(Partition(at.topic, at.partition), 0)


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


def _nothing(_done: int, _total: int) -> None:
    pass
