"""Judges one record of the work queue, and turns every failure into a result."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from judges.evaluator import Evaluator, Submission
from judges.models.spending import paying_from
from judges.runtime.conditions import Conditions, judging_under
from judges.runtime.sync import is_cancelled
from judges.shortfall import Unscored, retry_reason, shortfall_of, unscored_reason
from judges.values.evaluation import Evaluation, SafetyNotice, SafetyStatus, evaluation_id
from sinks.base import Message, TopicWriter
from sinks.metrics import Outcome, Stage
from sinks.topics.dead_letters import DeadLetterTopic
from sinks.topics.results import EvaluationTopic
from stream.config.model import Config
from stream.config.names import CANARY
from stream.errors import RecordError
from stream.kafka.offsets import Partition
from stream.kafka.record import dead_letter, whole_value
from stream.logs import add_log_context, log_context, trace_fields
from stream.records.canaries import CanaryReader, refuse_canary_app, refuse_canary_id
from stream.records.envelope import evaluation_headers, is_canary, read_sampling
from stream.records.identity import UNKNOWN_CONTENT, content_digest, distinct_id, refuse_distinct_id
from stream.records.reading import InteractionReader
from stream.worker.budget import SavingPlan, Thinning, Treasury, thin
from stream.worker.budget.savings import measures_of
from stream.worker.recent_evaluations import RecentEvaluations
from stream.worker.retries import Arrival, Retries

log = logging.getLogger(__name__)

_TOO_LARGE = "too_large"
# These outcomes leave no evaluation that could stand for another record of the same interaction.
_WITHOUT_EVALUATION = frozenset({Outcome.DEADLETTER, Outcome.SAMPLED_OUT})


@dataclass(slots=True, kw_only=True)
class RecordResult:
    """The outcome of one record: messages to publish, and what to count after publishing them."""

    outcome: Outcome
    messages: Sequence[Message] = ()
    evaluation: Evaluation | None = None
    reason: str | None = None
    """Why the record is a dead letter, or has no score."""
    content: str = UNKNOWN_CONTENT
    """The digest of the judged content."""
    is_id_conflict: bool = False
    """Whether another content was judged under the id that the record was logged with."""

    @property
    def is_published(self) -> bool:
        """Whether the evaluation goes to the evaluations topic."""
        return self.outcome in {Outcome.SCORED, Outcome.UNSCORED}

    def mark_too_large(self) -> None:
        """Record that the result was too large, and that a dead letter was published instead."""
        self.outcome, self.reason = Outcome.DEADLETTER, _TOO_LARGE


class _EvaluationInWork(NamedTuple):
    """An evaluation in progress, under the name of one interaction."""

    partition: Partition
    content: str
    outcome: asyncio.Future[Outcome]


class Judging:
    """Turns records into results. Errors in a record, or in our own code, become results too."""

    def __init__(
        self,
        config: Config,
        evaluator: Evaluator,
        recent: RecentEvaluations,
        *,
        retries: Retries,
        treasury: Treasury,
        on_unsafe: Callable[[SafetyNotice], None],
    ) -> None:
        self._deadline = config.worker.deadline_seconds
        self._repeats = config.worker.repeat_seconds > 0
        self._evaluator = evaluator
        self._recent = recent
        self._retries = retries
        self._treasury = treasury
        self._measures = measures_of(config.budgets)
        self._thinning = Thinning(config.sampling.salt)
        self._least_probability = config.sampling.least_probability
        self._on_unsafe = on_unsafe
        self._safety = config.composite.safety
        self._reader, self._canary_reader = InteractionReader(config.input), CanaryReader()
        self._evaluations: TopicWriter[Evaluation] = EvaluationTopic(config.topics.evaluations)
        self._dead_letters = DeadLetterTopic(config.topics.deadletter)
        self._in_work: dict[str, _EvaluationInWork] = {}
        self._unstarted: Counter[Partition] = Counter()
        self._leaving: frozenset[Partition] = frozenset()

    async def judge(self, arrival: Arrival) -> RecordResult:
        """Judge a record; never raises, because an exception would lose the record."""
        with log_context(stage=Stage.WORKER.value):
            return await self._judge_or_dead_letter(arrival)

    async def _judge_or_dead_letter(self, arrival: Arrival) -> RecordResult:
        try:
            return await self._evaluate_once(arrival, self._read(arrival))
        except RecordError as error:
            return self._dead_letter(arrival, error)
        except (Exception, asyncio.CancelledError) as error:
            # Re-raise our own cancellation only: one that escaped from a client must not cancel this task.
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            log.exception("cannot judge record %s of %s", arrival.record.offset, arrival.record.partition)
            return self._dead_letter(arrival, RecordError("internal_error", f"{type(error).__name__}: {error}"))

    def mark_published(self, result: RecordResult) -> None:
        """Note that a result is on its topic, so that its record is not judged again."""
        if result.evaluation is not None:
            self._in_work.pop(result.evaluation.evaluation_id, None)
            if result.is_published:
                self._recent.add(result.evaluation.evaluation_id, result.content)

    def leave(self, partitions: Collection[Partition]) -> None:
        """Stop starting records of these partitions that wait for room: another worker will judge them."""
        self._leaving |= frozenset(partitions)

    def count_unstarted(self, partitions: Collection[Partition]) -> int:
        """Count the records of these partitions that wait for room at the endpoints."""
        return sum(self._unstarted[partition] for partition in partitions)

    def forget(self, partitions: Collection[Partition]) -> None:
        """Drop unpublished work on these partitions: another worker has them now."""
        self._leaving -= frozenset(partitions)
        for name in [name for name, work in list(self._in_work.items()) if work.partition in partitions]:
            self._in_work.pop(name, None)

    def _read(self, arrival: Arrival) -> Submission:
        """Read the record to judge; from here on, log lines carry its id."""
        canary = is_canary(arrival.record.headers)
        reading = (self._canary_reader if canary else self._reader).read(whole_value(arrival.record))
        interaction = reading.interaction
        add_log_context(interaction_id=interaction.id, **trace_fields(interaction.traceparent))
        if not canary:
            refuse_canary_id(interaction.id)
            refuse_canary_app(interaction.app)
            refuse_distinct_id(interaction.id)
        sampling = read_sampling(arrival.record.headers, least_probability=self._least_probability)
        return Submission(interaction=interaction, sampling=sampling, truncated=reading.truncated)

    async def _evaluate_once(self, arrival: Arrival, submission: Submission) -> RecordResult:
        """Evaluate a record, unless the same content was or is being judged under its id: then it is a repeat.

        A record whose content differs from the one judged under its id is not a repeat. It gets its own id.
        """
        interaction = submission.interaction
        content = content_digest(interaction)
        arrival = arrival._replace(content=content)
        if not self._repeats:
            return await self._evaluate(arrival, submission)
        own_id = distinct_id(interaction.id, content)
        name, own_name = self._name(interaction.id), self._name(own_id)
        while True:
            if await self._earlier_content(own_name, content) == content:
                return RecordResult(outcome=Outcome.REPEATED)
            earlier = await self._earlier_content(name, content)
            if earlier in {content, UNKNOWN_CONTENT}:
                return RecordResult(outcome=Outcome.REPEATED)
            own_work = self._in_work.get(own_name)
            if own_work is None or own_work.content != content:  # no work on it was started while this one waited
                break
        if earlier is not None:
            name, arrival = own_name, arrival._replace(logged_id=interaction.id)
            submission = replace(submission, interaction=interaction.model_copy(update={"id": own_id}))
        return await self._hold(name, arrival, submission)

    def _name(self, interaction_id: str) -> str:
        return evaluation_id(interaction_id, self._evaluator.info.fingerprint)

    async def _earlier_content(self, name: str, content: str) -> str | None:
        """Return the content that is or was judged under a name, or None. Waits for work on the same content.

        That record stays on its topic until its own result is published, so skipping this one loses nothing.
        """
        while (work := self._in_work.get(name)) is not None:
            if work.content != content or await asyncio.shield(work.outcome) not in _WITHOUT_EVALUATION:
                return work.content
        return self._recent.content_of(name)

    async def _hold(self, name: str, arrival: Arrival, submission: Submission) -> RecordResult:
        """Evaluate a record while its repeats wait for the outcome."""
        work = _EvaluationInWork(arrival.record.partition, arrival.content, asyncio.get_running_loop().create_future())
        self._in_work[name] = work
        outcome = Outcome.DEADLETTER
        try:
            result = await self._evaluate(arrival, submission)
            outcome = result.outcome
            return result
        finally:
            if outcome in _WITHOUT_EVALUATION and self._in_work.get(name) is work:
                del self._in_work[name]
            work.outcome.set_result(outcome)

    async def _evaluate(self, arrival: Arrival, submission: Submission) -> RecordResult:
        """Judge a record within the budgets.

        A canary measures the judges, so the whole panel is asked, without the cache, and no safety notice is sent.
        """
        partition, app, lane = arrival.record.partition, submission.interaction.app, submission.sampling.lane
        canary = lane == CANARY
        plan = SavingPlan() if canary else self._treasury.plan_savings(partition, app, lane, self._measures)
        # A retried record was kept before, and keeps the smaller of the two probabilities.
        keep_share = min(arrival.kept, plan.keep_share)
        if not self._thinning.keeps(arrival.logged_id or submission.interaction.id, keep_share):
            return RecordResult(outcome=Outcome.SAMPLED_OUT, reason=Unscored.BUDGET)
        arrival = arrival._replace(kept=keep_share)
        submission = replace(submission, sampling=thin(submission.sampling, keep_share))
        on_unsafe = _ignore_notice if canary or arrival.noticed else self._on_unsafe
        purse = self._treasury.purse(partition, app, lane)
        async with self._place(partition):
            with paying_from(purse), judging_under(Conditions(fresh=canary, savings=plan.savings)):
                evaluation = await self._evaluator.evaluate(submission, deadline=self._deadline, on_unsafe=on_unsafe)
        unreached = retry_reason(evaluation)
        if unreached is None:
            return self._publish(arrival, evaluation)
        is_unsafe = evaluation.composite.safety.status is SafetyStatus.UNSAFE
        arrival = arrival._replace(noticed=arrival.noticed or is_unsafe)
        return self._park_or_give_up(arrival, evaluation, unreached)

    @asynccontextmanager
    async def _place(self, partition: Partition) -> AsyncIterator[None]:
        """Wait until the endpoints have room for the record's calls; its deadline counts from then."""
        self._unstarted[partition] += 1
        started = False
        try:
            async with self._evaluator.admission.place():
                if partition not in self._leaving:
                    self._unstarted[partition] -= 1
                    started = True
                    yield
                    return
            # Leave it to the next worker; it is cancelled together with its partition.
            await asyncio.get_running_loop().create_future()
        finally:
            if not started:
                self._unstarted[partition] -= 1

    def _publish(self, arrival: Arrival, evaluation: Evaluation) -> RecordResult:
        reason = unscored_reason(evaluation)
        outcome = Outcome.SCORED if reason is None else Outcome.UNSCORED
        is_conflict = arrival.logged_id is not None
        result = RecordResult(
            outcome=outcome, evaluation=evaluation, reason=reason, content=arrival.content, is_id_conflict=is_conflict
        )
        extra = evaluation_headers(arrival.content, arrival.logged_id)
        messages = [
            replace(message, headers=(*message.headers, *extra)) for message in self._evaluations.messages(evaluation)
        ]
        result.messages = self._replaceable(arrival, result, messages)
        return result

    def _park_or_give_up(self, arrival: Arrival, evaluation: Evaluation, reason: Unscored) -> RecordResult:
        """Park a record whose judges could not be reached, even where the others are enough for a composite.

        Published now, the composite would be a mean over the dimensions whose judges happen to work.

        After the last attempt such a composite counts. Without one, the record is a dead letter.
        """
        shortfall = shortfall_of(evaluation, self._safety)
        detail = shortfall.detail if shortfall is not None else ""
        kind = f"unscored_{reason}"
        parked = self._retries.park(arrival, error=kind, message=detail)
        if parked is None and evaluation.composite.score is not None:
            return self._publish(arrival, evaluation)
        if parked is None:
            result = self._dead_letter(arrival, RecordError(kind, detail))
            result.evaluation = evaluation
            return result
        result = RecordResult(outcome=Outcome.PARKED, evaluation=evaluation, reason=reason)
        result.messages = self._replaceable(arrival, result, [parked])
        return result

    def defer(self, arrival: Arrival) -> RecordResult:
        """Move a record to the overflow topic: its app exceeds its fair share."""
        result = RecordResult(outcome=Outcome.DEFERRED)
        result.messages = self._replaceable(arrival, result, [self._retries.defer(arrival)])
        return result

    def _replaceable(self, arrival: Arrival, result: RecordResult, messages: Sequence[Message]) -> list[Message]:
        def make_dead_letter() -> Message:
            result.mark_too_large()
            error = RecordError(_TOO_LARGE, "its result exceeds the size limit of the topic")
            (message,) = self._dead_letter(arrival, error).messages
            return message

        return [replace(message, instead=make_dead_letter) for message in messages]

    def _dead_letter(self, arrival: Arrival, error: RecordError) -> RecordResult:
        letter = dead_letter(arrival.origin, error, stage=Stage.WORKER, attempts=arrival.attempts + 1)
        messages = self._dead_letters.messages(letter)
        return RecordResult(outcome=Outcome.DEADLETTER, messages=messages, reason=error.kind)


def _ignore_notice(_notice: SafetyNotice) -> None:
    pass
