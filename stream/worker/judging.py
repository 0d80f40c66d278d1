"""Judges one record of the work queue, and turns every failure into a result."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace

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
from stream.records.envelope import is_canary, read_sampling
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

    @property
    def is_published(self) -> bool:
        """Whether its evaluation goes to the topic of evaluations."""
        return self.outcome in {Outcome.SCORED, Outcome.UNSCORED}

    def refused(self) -> None:
        """What it was to be published as was too large: a dead letter went instead."""
        self.outcome, self.reason = Outcome.DEADLETTER, _TOO_LARGE


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
        self._on_unsafe = on_unsafe
        self._safety = config.composite.safety
        self._reader, self._canary_reader = InteractionReader(config.input), CanaryReader()
        self._evaluations: TopicWriter[Evaluation] = EvaluationTopic(config.topics.evaluations)
        self._dead_letters = DeadLetterTopic(config.topics.deadletter)
        self._in_work: dict[str, tuple[Partition, asyncio.Future[Outcome]]] = {}

    async def judge(self, arrival: Arrival) -> RecordResult:
        """An exception that left this would lose the record."""
        with log_context(stage=Stage.WORKER.value):
            return await self._judge_or_dead_letter(arrival)

    async def _judge_or_dead_letter(self, arrival: Arrival) -> RecordResult:
        try:
            submission = self._read(arrival)
            name = evaluation_id(submission.interaction.id, self._evaluator.info.fingerprint)
            return await self._deduplicated(arrival, name, lambda: self._evaluate(arrival, submission))
        except RecordError as error:
            return self._dead_letter(arrival, error)
        except (Exception, asyncio.CancelledError) as error:
            # Our own cancellation goes on; one that escaped from a client would end what nobody wanted to end.
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            log.exception("record %s of %s could not be judged", arrival.record.offset, arrival.record.partition)
            return self._dead_letter(arrival, RecordError("internal_error", f"{type(error).__name__}: {error}"))

    def published(self, result: RecordResult) -> None:
        """A result is on its topic: what it is a result of need not be done again."""
        if result.evaluation is not None:
            self._in_work.pop(result.evaluation.evaluation_id, None)
            if result.is_published:
                self._recent.add(result.evaluation.evaluation_id)

    def forget(self, partitions: Collection[Partition]) -> None:
        """What was not published of these partitions is another worker's."""
        for name in [name for name, (partition, _) in list(self._in_work.items()) if partition in partitions]:
            self._in_work.pop(name, None)

    def _read(self, arrival: Arrival) -> Submission:
        """The record as it is judged; from here on, what is logged says which one it is about."""
        canary = is_canary(arrival.record.headers)
        reading = (self._canary_reader if canary else self._reader).read(readable(arrival.record))
        interaction = reading.interaction
        add_log_context(interaction_id=interaction.id, **trace_fields(interaction.traceparent))
        if not canary:
            refuse_canary_id(interaction.id)
        sampling = read_sampling(arrival.record.headers)
        return Submission(interaction=interaction, sampling=sampling, truncated=reading.truncated)

    async def _deduplicated(
        self, arrival: Arrival, name: str, work: Callable[[], Awaitable[RecordResult]]
    ) -> RecordResult:
        """Works unless that is done, or being done: another record of the same interaction is waited for.

        That one stays on its topic until its own result is published, so nothing is lost when this one is left out.
        """
        if not self._repeats:
            return await work()
        while (other := self._in_work.get(name)) is not None:
            if await asyncio.shield(other[1]) not in _WITHOUT_EVALUATION:
                return RecordResult(outcome=Outcome.REPEATED)
        if name in self._recent:
            return RecordResult(outcome=Outcome.REPEATED)
        mine: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._in_work[name] = arrival.record.partition, mine
        outcome = Outcome.DEADLETTER
        try:
            result = await work()
            outcome = result.outcome
            return result
        finally:
            if outcome in _WITHOUT_EVALUATION and self._in_work.get(name, (None, None))[1] is mine:
                del self._in_work[name]
            mine.set_result(outcome)

    async def _evaluate(self, arrival: Arrival, submission: Submission) -> RecordResult:
        """Judges it with what the budgets allow.

        A canary is there to show how the judges judge: by the whole panel, really asked, and nobody is called for it.
        """
        partition, app, lane = arrival.record.partition, submission.interaction.app, submission.sampling.lane
        canary = lane == CANARY
        plan = SavingPlan() if canary else self._treasury.plan_savings(partition, app, lane, self._measures)
        # One that comes again was kept before with the smaller of the two.
        kept = min(arrival.kept, plan.keep_share)
        if not self._thinning.keeps(submission.interaction.id, kept):
            return RecordResult(outcome=Outcome.SAMPLED_OUT, reason=Unscored.BUDGET)
        arrival = arrival._replace(kept=kept)
        submission = replace(submission, sampling=thinned(submission.sampling, kept))
        on_unsafe = _ignore_notice if canary or arrival.noticed else self._on_unsafe
        purse = self._treasury.purse(partition, app, lane)
        with paying_from(purse), judging_under(Conditions(fresh=canary, savings=plan.savings)):
            evaluation = await self._evaluator.evaluate(submission, deadline=self._deadline, on_unsafe=on_unsafe)
        unreached = retry_reason(evaluation)
        if unreached is None:
            return self._publish(arrival, evaluation)
        is_unsafe = evaluation.composite.safety.status is SafetyStatus.UNSAFE
        arrival = arrival._replace(noticed=arrival.noticed or is_unsafe)
        return self._park_or_give_up(arrival, evaluation, unreached)

    def _publish(self, arrival: Arrival, evaluation: Evaluation) -> RecordResult:
        reason = unscored_reason(evaluation)
        outcome = Outcome.SCORED if reason is None else Outcome.UNSCORED
        result = RecordResult(outcome=outcome, evaluation=evaluation, reason=reason)
        result.messages = self._replaceable(arrival, result, self._evaluations.messages(evaluation))
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
            error = RecordError(_TOO_LARGE, "what became of it is larger than the topic takes")
            (message,) = self._dead_letter(arrival, error).messages
            return message

        return [replace(message, instead=instead) for message in messages]

    def _dead_letter(self, arrival: Arrival, error: RecordError) -> RecordResult:
        letter = dead_letter(arrival.origin, error, stage=Stage.WORKER, attempts=arrival.attempts + 1)
        messages = self._dead_letters.messages(letter)
        return RecordResult(outcome=Outcome.DEADLETTER, messages=messages, reason=error.kind)


def _ignore_notice(_notice: SafetyNotice) -> None:
    pass
