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
from stream.kafka.record import dead_letter, readable
from stream.logs import add_log_context, log_context, trace_fields
from stream.records.canaries import CanaryReader, refuse_canary_id
from stream.records.envelope import evaluation_headers, is_canary, read_sampling
from stream.records.identity import UNKNOWN_CONTENT, content_digest, distinct_id, refuse_distinct_id
from stream.records.reading import InteractionReader
from stream.worker.budget import SavingPlan, Thinning, Treasury, thinned
from stream.worker.budget.savings import measures_of
from stream.worker.recent_evaluations import RecentEvaluations
from stream.worker.retries import Arrival, Retries

log = logging.getLogger(__name__)

_TOO_LARGE = "too_large"
# Of these nothing is left that could stand for another record of the same interaction.
_WITHOUT_EVALUATION = frozenset({Outcome.DEADLETTER, Outcome.SAMPLED_OUT})


@dataclass(slots=True, kw_only=True)
class RecordResult:
    """What became of one record: messages to publish, and what to count once they are."""

    outcome: Outcome
    messages: Sequence[Message] = ()
    evaluation: Evaluation | None = None
    reason: str | None = None
    """Why it is a dead letter, or has no score."""
    content: str = UNKNOWN_CONTENT
    """The digest of what was judged."""
    is_id_conflict: bool = False
    """Whether another content was judged under the id that the record was logged with."""

    @property
    def is_published(self) -> bool:
        """Whether its evaluation goes to the topic of evaluations."""
        return self.outcome in {Outcome.SCORED, Outcome.UNSCORED}

    def refused(self) -> None:
        """What it was to be published as was too large: a dead letter went instead."""
        self.outcome, self.reason = Outcome.DEADLETTER, _TOO_LARGE


class _EvaluationInWork(NamedTuple):
    """The evaluation that is under way under one name."""

    partition: Partition
    content: str
    outcome: asyncio.Future[Outcome]


class Judging:
    """Turns records into results. Whatever is wrong with a record, or with us, is a result too."""

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
        """An exception that left this would lose the record."""
        with log_context(stage=Stage.WORKER.value):
            return await self._judge_or_dead_letter(arrival)

    async def _judge_or_dead_letter(self, arrival: Arrival) -> RecordResult:
        try:
            return await self._evaluate_once(arrival, self._read(arrival))
        except RecordError as error:
            return self._dead_letter(arrival, error)
        except (Exception, asyncio.CancelledError) as error:
            # Our own cancellation goes on; one that escaped from a client would end what nobody wanted to end.
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            log.exception("cannot judge record %s of %s", arrival.record.offset, arrival.record.partition)
            return self._dead_letter(arrival, RecordError("internal_error", f"{type(error).__name__}: {error}"))

    def published(self, result: RecordResult) -> None:
        """A result is on its topic: what it is a result of need not be done again."""
        if result.evaluation is not None:
            self._in_work.pop(result.evaluation.evaluation_id, None)
            if result.is_published:
                self._recent.add(result.evaluation.evaluation_id, result.content)

    def leave(self, partitions: Collection[Partition]) -> None:
        """Ask no judges for records of these partitions that wait for room: another worker will."""
        self._leaving |= frozenset(partitions)

    def unstarted(self, partitions: Collection[Partition]) -> int:
        """How many records of these partitions wait for room at the endpoints."""
        return sum(self._unstarted[partition] for partition in partitions)

    def forget(self, partitions: Collection[Partition]) -> None:
        """What was not published of these partitions is another worker's."""
        self._leaving -= frozenset(partitions)
        for name in [name for name, work in list(self._in_work.items()) if work.partition in partitions]:
            self._in_work.pop(name, None)

    def _read(self, arrival: Arrival) -> Submission:
        """The record as it is judged; from here on, what is logged says which one it is about."""
        canary = is_canary(arrival.record.headers)
        reading = (self._canary_reader if canary else self._reader).read(readable(arrival.record))
        interaction = reading.interaction
        add_log_context(interaction_id=interaction.id, **trace_fields(interaction.traceparent))
        if not canary:
            refuse_canary_id(interaction.id)
            refuse_distinct_id(interaction.id)
        sampling = read_sampling(arrival.record.headers, least_probability=self._least_probability)
        return Submission(interaction=interaction, sampling=sampling, truncated=reading.truncated)

    async def _evaluate_once(self, arrival: Arrival, submission: Submission) -> RecordResult:
        """Evaluates a record unless its content was judged under its id, or is being judged: then it is a repeat.

        A record with another content than was judged under its id is no repeat. It gets an id of its own.
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
        """The content that is or was judged under a name; None if there is none. Waits for work on the same content.

        That record stays on its topic until its own result is published, so nothing is lost when this one is left out.
        """
        while (work := self._in_work.get(name)) is not None:
            if work.content != content or await asyncio.shield(work.outcome) not in _WITHOUT_EVALUATION:
                return work.content
        return self._recent.content_of(name)

    async def _hold(self, name: str, arrival: Arrival, submission: Submission) -> RecordResult:
        """Evaluates a record while its repeats wait for the outcome."""
        mine = _EvaluationInWork(arrival.record.partition, arrival.content, asyncio.get_running_loop().create_future())
        self._in_work[name] = mine
        outcome = Outcome.DEADLETTER
        try:
            result = await self._evaluate(arrival, submission)
            outcome = result.outcome
            return result
        finally:
            if outcome in _WITHOUT_EVALUATION and self._in_work.get(name) is mine:
                del self._in_work[name]
            mine.outcome.set_result(outcome)

    async def _evaluate(self, arrival: Arrival, submission: Submission) -> RecordResult:
        """Judges it with what the budgets allow.

        A canary is there to show how the judges judge: by the whole panel, really asked, and nobody is called for it.
        """
        partition, app, lane = arrival.record.partition, submission.interaction.app, submission.sampling.lane
        canary = lane == CANARY
        plan = SavingPlan() if canary else self._treasury.plan_savings(partition, app, lane, self._measures)
        # One that comes again was kept before with the smaller of the two.
        kept = min(arrival.kept, plan.keep_share)
        if not self._thinning.keeps(arrival.logged_id or submission.interaction.id, kept):
            return RecordResult(outcome=Outcome.SAMPLED_OUT, reason=Unscored.BUDGET)
        arrival = arrival._replace(kept=kept)
        submission = replace(submission, sampling=thinned(submission.sampling, kept))
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
        """Waits until the endpoints have room for its calls; its deadline counts from then."""
        self._unstarted[partition] += 1
        started = False
        try:
            async with self._evaluator.admission.place():
                if partition not in self._leaving:
                    self._unstarted[partition] -= 1
                    started = True
                    yield
                    return
            # It is left to the next worker, and cancelled together with its partition.
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
        added = evaluation_headers(arrival.content, arrival.logged_id)
        messages = [
            replace(message, headers=(*message.headers, *added)) for message in self._evaluations.messages(evaluation)
        ]
        result.messages = self._replaceable(arrival, result, messages)
        return result

    def _park_or_give_up(self, arrival: Arrival, evaluation: Evaluation, reason: Unscored) -> RecordResult:
        """Judges that could not be reached now may be reached later, also where the others are enough for a composite:
        published now, it would be a mean over the dimensions whose judges happen to work.

        After the last attempt such a composite counts. Without one, the record is a dead letter.
        """
        shortfall = shortfall_of(evaluation, self._safety)
        detail = shortfall.detail if shortfall is not None else ""
        kind = f"unscored_{reason}"
        parked = self._retries.parked(arrival, error=kind, message=detail)
        if parked is None and evaluation.composite.score is not None:
            return self._publish(arrival, evaluation)
        if parked is None:
            result = self._dead_letter(arrival, RecordError(kind, detail))
            result.evaluation = evaluation
            return result
        result = RecordResult(outcome=Outcome.PARKED, evaluation=evaluation, reason=reason)
        result.messages = self._replaceable(arrival, result, [parked])
        return result

    def _replaceable(self, arrival: Arrival, result: RecordResult, messages: Sequence[Message]) -> list[Message]:
        def instead() -> Message:
            result.refused()
            error = RecordError(_TOO_LARGE, "its result exceeds the size limit of the topic")
            (message,) = self._dead_letter(arrival, error).messages
            return message

        return [replace(message, instead=instead) for message in messages]

    def _dead_letter(self, arrival: Arrival, error: RecordError) -> RecordResult:
        letter = dead_letter(arrival.origin, error, stage=Stage.WORKER, attempts=arrival.attempts + 1)
        messages = self._dead_letters.messages(letter)
        return RecordResult(outcome=Outcome.DEADLETTER, messages=messages, reason=error.kind)


def _ignore_notice(_notice: SafetyNotice) -> None:
    pass
