"""The backfill: surveys, judges and publishes, each evaluation once, however often it is interrupted.

Evaluations with the same fingerprint on the output topic are finished; no other state is kept:
1. fence any other backfill with this fingerprint, which aborts its open transaction,
2. read the existing evaluations,
3. judge the records without one, at a steady rate, and publish in transactions.
The interactions topic is read without joining a group: no offset is committed.
"""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec
from confluent_kafka import Message as KafkaMessage

from judges.evaluator import Evaluator
from judges.runtime.sync import is_cancelled
from judges.shortfall import Unscored, retry_reason, shortfall_of, unscored_reason
from judges.values.evaluation import Evaluation
from sinks.base import UNKNOWN, Headers, Message
from sinks.topics.headers import LANE
from sinks.topics.results import EvaluationTopic
from stream.config.model import Config
from stream.config.names import BACKFILL
from stream.errors import StageError
from stream.jobs.backfill.cost_estimate import CostEstimate, Paid, SystematicSample, estimate
from stream.jobs.backfill.selection import Counts, Selected, Selection
from stream.jobs.patient_evaluation import GIVE_UP_AFTER, Bill, evaluate_with_retries
from stream.kafka.offsets import Ticket
from stream.kafka.producers.exclusive import ExclusiveProducer
from stream.kafka.producers.oversize import RefusedError
from stream.kafka.record import partition_of, read_record
from stream.kafka.topic_scan import TopicScan
from stream.records.envelope import content_in
from stream.worker.pool import JudgePool

log = logging.getLogger(__name__)

# Clocks of producers differ: search for the evaluation of a record from this long before it.
_SKEW_MS = 5 * 60_000
# Between attempts on a record whose judges cannot be reached.
_RETRY_SECONDS = (2.0, 8.0, 30.0)
_BATCH_RECORDS = 100
_PUBLISH_SECONDS = 1.0
_TICK_SECONDS = 0.1
_LOOK_RECORDS = 500

# The lane is also in the value; the header is for readers of keys and headers alone.
_LANE = (LANE, BACKFILL.encode())

Looking = Callable[[int, int], None]
"""Called from time to time with the number of records read, and about how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRequest:
    """Which part of the topic, and how much of it."""

    since: datetime | None = None
    until: datetime | None = None
    offsets: Mapping[int, range] | None = None
    """By partition, instead of times; other partitions are left out."""
    share: float = 1.0
    limit: int | None = None
    """The most records to judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillSurvey:
    """The records to judge."""

    ranges: Mapping[int, range]
    """The offsets to read, by partition."""
    gone: int
    """Requested offsets that are no longer on the topic."""
    counts: Counts
    apps: Counter[str]
    """Records to judge, by app."""
    todo: int
    """Records to judge, within the limit."""
    estimate: CostEstimate


@dataclass(slots=True, kw_only=True)
class BackfillResult:
    """The outcome of a backfill."""

    scored: int = 0
    unscored: Counter[str] = field(default_factory=Counter)
    """Published without a composite, by reason."""
    put_off: Counter[str] = field(default_factory=Counter)
    """Not published because judges could not be reached, by reason: another run will judge them."""
    failed: Counter[str] = field(default_factory=Counter)
    """Not published, and another run would not help, by reason."""
    cost_usd: float = 0.0
    """Known cost of all calls, published or not."""
    problem: str | None = None
    """Why it ended early."""

    @property
    def published(self) -> int:
        return self.scored + self.unscored.total()

    @property
    def records(self) -> int:
        return self.published + self.put_off.total() + self.failed.total()


Progress = Callable[[BackfillResult], None]


class Backfill:
    """One backfill of the configured topics."""

    def __init__(self, config: Config, evaluator: Evaluator, request: BackfillRequest) -> None:
        self._config, self._evaluator, self._request = config, evaluator, request
        self.fingerprint = evaluator.info.fingerprint
        self._writer: ExclusiveProducer | None = None
        self._existing: dict[bytes, str] = {}
        self._ranges: Mapping[int, range] | None = None
        self._gone = 0

    def survey(self, looking: Looking = lambda _done, _total: None) -> BackfillSurvey:
        """Find out which records would be judged now, without changes and without asking a judge."""
        ranges, paid = self._find_ranges(), self._read_existing()
        selection, sample, apps = self._selection(), SystematicSample(), Counter[str]()
        total = sum(map(len, ranges.values()))
        with TopicScan(self._config.kafka, self._config.topics.interactions) as scan:
            for number, message in enumerate(scan.read_within(ranges), 1):
                selected = selection.take(message)
                if selected is not None and (self._request.limit is None or sample.seen < self._request.limit):
                    interaction = selected.submission.interaction
                    sample.add(interaction)
                    apps[interaction.app or UNKNOWN] += 1
                if number % _LOOK_RECORDS == 0:
                    looking(number, total)
        return BackfillSurvey(
            ranges=ranges,
            gone=self._gone,
            counts=selection.counts,
            apps=apps,
            todo=sample.seen,
            estimate=estimate(self._config, sample, paid),
        )

    def take_over(self) -> None:
        """Fence every other backfill with this fingerprint, then read the existing evaluations."""
        name = f"streamjury-backfill-{self._config.topics.evaluations}-{self.fingerprint}"
        work = "backfill with this configuration"
        self._writer = ExclusiveProducer(self._config.kafka, name, work=work, done="published")  # 1
        self._read_existing()  # 2

    def run(
        self, rate: float, stop: threading.Event, progress: Progress = lambda _done: None
    ) -> tuple[BackfillResult, Counts]:
        """Judge the records without an evaluation, `rate` a second, until all are done or `stop` is set.

        Then finish the records in flight, for as long as a worker would, and publish them.
        """
        assert self._writer is not None, "take over first"
        ranges, selection = self._find_ranges(), self._selection()
        judging = _Judging(
            self._config, self._evaluator, self._writer, pace=RateLimiter(rate), stop=stop, progress=progress
        )
        with TopicScan(self._config.kafka, self._config.topics.interactions) as scan:
            judging.run(scan.read_within(ranges), selection, self._request.limit)  # 3
        return judging.done, selection.counts

    def _selection(self) -> Selection:
        return Selection(self._config, self.fingerprint, share=self._request.share, known=self._existing)

    def _find_ranges(self) -> Mapping[int, range]:
        """Return the ranges, fixed at the first call: later records are not history."""
        if self._ranges is None:
            since, until = self._request.since, self._request.until
            with TopicScan(self._config.kafka, self._config.topics.interactions) as scan:
                held = scan.ranges(_milliseconds(since), _milliseconds(until))
            self._ranges = held if self._request.offsets is None else self._restrict(held, self._request.offsets)
        return self._ranges

    def _restrict(self, held: Mapping[int, range], requested: Mapping[int, range]) -> Mapping[int, range]:
        missing = sorted(requested.keys() - held.keys())
        if missing:
            topic = self._config.topics.interactions
            raise StageError(f"{topic} has no partition {missing[0]}; it has {len(held)}, from 0 to {len(held) - 1}")
        self._gone = sum(
            max(0, min(held[number].start, offsets.stop) - offsets.start) for number, offsets in requested.items()
        )
        return {
            number: range(max(offsets.start, held[number].start), min(offsets.stop, held[number].stop))
            for number, offsets in requested.items()
        }

    def _read_existing(self) -> Paid:
        """Read the existing evaluations and their cost."""
        since_ms, paid = _milliseconds(self._request.since), Paid()
        self._existing = {}
        with TopicScan(self._config.kafka, self._config.topics.evaluations, whole=True) as scan:
            for message in scan.read(None if since_ms is None else since_ms - _SKEW_MS):
                published = _read_published(message)
                if published is not None and published.evaluator.fingerprint == self.fingerprint:
                    self._existing[UUID(published.evaluation_id).bytes] = content_in(read_record(message).headers)
                    paid.add(published.cost_usd)
        return paid


class RateLimiter:
    """Allows `rate` starts a second, without a burst after a pause."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._gap, self._clock = 1.0 / rate, clock
        self._due = clock()

    @property
    def seconds(self) -> float:
        """Time until the next start."""
        return max(0.0, self._due - self._clock())

    def start(self) -> None:
        self._due = max(self._due, self._clock() - self._gap) + self._gap


class _JudgedRecord(NamedTuple):
    evaluation: Evaluation | None
    """None after an internal error."""
    reason: Unscored | None
    spent_usd: float
    headers: Headers
    """Additional headers of its evaluation."""


class _Judging:
    """One run: records in, evaluations out, in the order of completion."""

    def __init__(
        self,
        config: Config,
        evaluator: Evaluator,
        writer: ExclusiveProducer,
        *,
        pace: RateLimiter,
        stop: threading.Event,
        progress: Progress,
    ) -> None:
        self._config, self._evaluator, self._writer = config.worker, evaluator, writer
        self._safety = config.composite.safety
        self._pace, self._stop, self._progress = pace, stop, progress
        self._topic = EvaluationTopic(config.topics.evaluations)
        self._finished: list[_JudgedRecord] = []
        self._published_at = time.monotonic()
        self._unreached = 0
        self.done = BackfillResult()

    def run(self, messages: Iterable[KafkaMessage], selection: Selection, limit: int | None) -> None:
        self._pool: JudgePool[_JudgedRecord] = JudgePool(self._config.concurrency)
        try:
            self._start_all(messages, selection, limit)
            self._drain()
            self._publish()
        finally:
            self._pool.close(self._evaluator.aclose())

    @property
    def _ends(self) -> bool:
        """Whether no further record is started, for whatever reason."""
        return self._stop.is_set() or self.done.problem is not None

    def _start_all(self, messages: Iterable[KafkaMessage], selection: Selection, limit: int | None) -> None:
        for message in messages:
            selected = selection.take(message)
            if selected is not None:
                if not self._may_start():
                    return
                self._pace.start()
                ticket = Ticket(partition_of(message), 0, message.offset() or 0)
                self._pool.submit(ticket, self._judge(selected))
            self._collect()
            if self._ends or selection.counts.chosen == limit:
                return

    def _may_start(self) -> bool:
        """Wait for a slot and for the rate limit; return False if the run ends first."""
        while not self._ends:
            wait = self._pace.seconds
            if self._pool.free and not wait:
                return True
            self._collect(min(wait, _TICK_SECONDS) if self._pool.free else _TICK_SECONDS)
        return False

    def _drain(self) -> None:
        """Wait for records in flight, with a limit if the run ends early."""
        deadline = None
        while self._pool.in_flight and (deadline is None or time.monotonic() < deadline):
            if self._ends and deadline is None:
                deadline = time.monotonic() + self._config.drain_seconds
            self._collect(_TICK_SECONDS)

    async def _judge(self, selected: Selected) -> _JudgedRecord:
        """Judge a record; never raises, because an exception would end the run for one record."""
        submission, headers = selected
        bill = Bill()
        try:
            evaluation = await evaluate_with_retries(
                self._evaluator,
                submission,
                deadline=self._config.deadline_seconds,
                pauses=_RETRY_SECONDS,
                bill=bill,
            )
            return _JudgedRecord(evaluation, unscored_reason(evaluation), bill.usd or 0.0, headers)
        except (Exception, asyncio.CancelledError) as error:
            # Re-raise our own cancellation only: one that escaped from a client must not cancel this task.
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            log.exception("cannot judge interaction %s", submission.interaction.id)
            return _JudgedRecord(None, None, bill.usd or 0.0, headers)

    def _collect(self, seconds: float = 0.0) -> None:
        for _, judged in self._pool.collect(seconds):
            self._settle(judged)
        late = time.monotonic() - self._published_at >= _PUBLISH_SECONDS
        if len(self._finished) >= _BATCH_RECORDS or (late and self._finished):
            self._publish()
        self._progress(self.done)

    def _settle(self, judged: _JudgedRecord) -> None:
        self.done.cost_usd += judged.spent_usd
        if judged.evaluation is None:
            self.done.failed["internal_error"] += 1
            return
        unreached = retry_reason(judged.evaluation)
        self._unreached = 0 if unreached is None else self._unreached + 1
        if unreached is not None and judged.reason is not None:
            self.done.put_off[unreached.value] += 1
        else:
            self._finished.append(judged)
        if self._unreached >= GIVE_UP_AFTER:
            self._give_up(judged.evaluation)

    def _give_up(self, evaluation: Evaluation) -> None:
        shortfall = shortfall_of(evaluation, self._safety)
        detail = f" ({shortfall.detail})" if shortfall is not None and shortfall.detail else ""
        self.done.problem = (
            f"the judges could not be reached for {self._unreached} consecutive records{detail}; finished evaluations "
            "are published; run the command again when the judges respond"
        )

    def _messages(self, judged: _JudgedRecord) -> Iterator[Message]:
        if judged.evaluation is not None:
            for message in self._topic.messages(judged.evaluation):
                yield replace(message, headers=(*message.headers, _LANE, *judged.headers))

    def _publish(self) -> None:
        finished, self._finished = self._finished, []
        for start in range(0, len(finished), _BATCH_RECORDS):
            self._commit(finished[start : start + _BATCH_RECORDS])
        self._published_at = time.monotonic()

    def _commit(self, batch: Sequence[_JudgedRecord]) -> None:
        """Publish a batch; if it is refused for the size of a record, publish all but that record."""
        try:
            self._writer.commit(message for judged in batch for message in self._messages(judged))
        except RefusedError as error:
            if len(batch) == 1:
                evaluation = batch[0].evaluation
                name = None if evaluation is None else evaluation.interaction_id
                log.warning("cannot publish the evaluation of %s: %s", name, error)
                self.done.failed["too_large"] += 1
                return
            half = len(batch) // 2
            self._commit(batch[:half])
            self._commit(batch[half:])
            return
        for judged in batch:
            if judged.reason is None:
                self.done.scored += 1
            else:
                self.done.unscored[judged.reason.value] += 1


class _Evaluator(msgspec.Struct):
    fingerprint: str


class _Published(msgspec.Struct):
    evaluation_id: str
    evaluator: _Evaluator
    cost_usd: float | None = None


_PUBLISHED = msgspec.json.Decoder(_Published)


def _read_published(message: KafkaMessage) -> _Published | None:
    """Read the needed fields of an evaluation; return None for another program's record."""
    try:
        published = _PUBLISHED.decode(message.value() or b"")
        UUID(published.evaluation_id)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return published


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)
