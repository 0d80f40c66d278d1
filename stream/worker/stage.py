"""The worker's stage: judges sampled records in a bounded pool and publishes results in offset order.

The order in which things happen is what keeps records from being lost or published twice:
1. a record is started only while it fits into the pool and under the run-ahead cap,
2. it is judged; an unsafe verdict goes to the critical topic at once,
3. its result waits until every earlier record of its partition has one,
4. delivery of the critical notices is confirmed,
5. results and offsets are published in one transaction,
6. only then are they counted and forgotten.
"""

import logging
import threading
import time
from collections.abc import Collection, Iterable

from judges.evaluator import Evaluator
from judges.values.evaluation import SafetyNotice
from sinks.base import Sink, TopicWriter, write_all
from sinks.metrics import Outcome, PipelineMetrics, Stage
from sinks.topics.results import CriticalTopic
from stream.config.model import Config
from stream.errors import PublishAborted
from stream.kafka.consume_produce import TransactionalConsumer
from stream.kafka.offsets import OffsetTracker, Partition, Ticket
from stream.kafka.producers.immediate import ImmediateProducer
from stream.kafka.record import Record
from stream.records.envelope import is_canary
from stream.worker.budget import Treasury
from stream.worker.budget.limits import Budgets
from stream.worker.conflict_log import ConflictLog
from stream.worker.failure_log import FailureLog
from stream.worker.fair_share import FairShares
from stream.worker.judging import Judging, RecordResult
from stream.worker.pool import JudgePool
from stream.worker.recent_evaluations import RecentEvaluations
from stream.worker.retries import Retries
from stream.worker.waiting_line import Waiting, WaitingLine

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.02
_METRICS_SECONDS = 0.25
_POLL_RECORDS = 64
_ARRIVAL_SECONDS = 5.0
_PAST_SECONDS = 5.0
# A broker that does not answer, or lags behind, is not asked at every step.
_ASK_AGAIN_SECONDS = 1.0


class Worker:
    """One process's share of the judging."""

    stage = Stage.WORKER

    def __init__(
        self,
        config: Config,
        evaluator: Evaluator,
        metrics: PipelineMetrics,
        sinks: Iterable[Sink] = (),
    ) -> None:
        self._config = config.worker
        self._evaluator = evaluator
        self._metrics = metrics
        self.sinks = list(sinks)
        """Sinks for every evaluation counted as scored or unscored, and no other, so that figures add up."""
        self._critical: TopicWriter[SafetyNotice] = CriticalTopic(config.topics.critical)
        self._retries = Retries(config)
        self._queue = config.topics.sampled
        self._recent = RecentEvaluations(config.kafka, config.topics.evaluations, config.worker.repeat_seconds)
        safety = config.sampling.safety
        self._treasury = Treasury(
            Budgets.of(config), topic=self._queue, safety_lane=None if safety is None else safety.lane
        )
        self._judging = Judging(
            config,
            evaluator,
            self._recent,
            retries=self._retries,
            treasury=self._treasury,
            on_unsafe=self._on_unsafe,
        )
        self._tracker: OffsetTracker[RecordResult] = OffsetTracker(config.worker.run_ahead)
        self._waiting = WaitingLine(self._retries, config.input)
        self._shares = FairShares(config.worker.concurrency)
        # Slots that an app above its fair share leaves to the others, even when they have no record now.
        self._reserve = config.worker.concurrency // 4 if config.worker.fair else 0
        self._assigned_at: dict[Partition, float] = {}
        self._apps: dict[Ticket, str | None] = {}
        self._paused: set[Partition] = set()
        self._unsure: set[Partition] = set()
        self._draining = False
        self._failures = FailureLog()
        self._conflicts = ConflictLog()
        self._published_at = self._metrics_at = time.monotonic()
        self._ask_at = 0.0
        metrics.evaluator(evaluator.info)
        self._consumer = TransactionalConsumer(
            config.kafka,
            topic=self._queue,
            companions=(*self._retries.topics, self._retries.overflow),
            group=config.worker.group,
            instance=config.worker.instance,
            listener=self,
        )
        self._notices = ImmediateProducer(
            config.kafka,
            client=f"{config.worker.group}-critical-{self._consumer.name}",
            delivered=metrics.count_notice,
        )

    @property
    def pulse(self) -> TransactionalConsumer:
        return self._consumer

    def paused_judges(self) -> dict[str, str]:
        """Return the judges that are currently not asked, each with the reason; may be called from any thread."""
        return self._evaluator.paused()

    def run(self, stop: threading.Event) -> None:
        """Judge until `stop` is set, then finish the records in flight within `drain_seconds`."""
        self._pool: JudgePool[RecordResult] = JudgePool(self._config.concurrency)
        self._consumer.start()
        try:
            with self._recent:
                while not stop.is_set():
                    self._step()
                self._drain()
        finally:
            self._failures.write(rest=True)
            self._conflicts.write(rest=True)
            try:
                self._pool.close(self._evaluator.aclose())
            finally:
                self._consumer.close()
                self._notices.wait_for_delivery(_ARRIVAL_SECONDS)

    def _drain(self) -> None:
        """Finish the records in flight; keep polling, because a rebalance must end before we can commit."""
        self._draining = True
        seconds, unfinished = self._config.drain_seconds, self._tracker.outstanding
        if unfinished:
            log.info("finishing %d records, for up to %g s; Ctrl-C abandons them", unfinished, seconds)
        deadline = time.monotonic() + seconds
        self._judging.leave(self._assigned_at)
        while self._tracker.outstanding and time.monotonic() < deadline:
            self._step()
            if self._pool.in_flight <= self._judging.count_unstarted(self._assigned_at) and not self._tracker.ready():
                break  # the rest waits for room at the endpoints, and no judge was asked

    def on_assigned(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self._tracker.assign(partition, shares=partition.topic == self._queue)
            self._waiting.open(partition)
            self._assigned_at[partition] = time.monotonic()
        # The client keeps a pause from an earlier assignment.
        self._unsure |= set(partitions)
        self._treasury.expect_partitions(partitions)
        self._ask_at = 0.0
        self._recent.look()

    def on_revoked(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self._waiting.close(partition)
        self._settle(partitions)
        self._release(partitions)

    def on_lost(self, partitions: Collection[Partition]) -> None:
        self._release(partitions)

    def _step(self) -> None:
        for record in self._consumer.poll(_POLL_RECORDS, _POLL_SECONDS):
            self._take(record)
        self._load_budget_state()
        self._start_waiting()
        self._collect()
        if time.monotonic() - self._published_at >= self._config.commit_seconds:
            self._publish()
        self._apply_backpressure()
        if time.monotonic() - self._metrics_at >= _METRICS_SECONDS:
            self._publish_metrics()

    def _take(self, record: Record) -> None:
        app = self._waiting.add(record).app
        # A retry would make its app look noisier, and canaries have no share.
        if record.partition.topic == self._queue and not is_canary(record.headers):
            self._shares.count_record(app)

    def _load_budget_state(self) -> None:
        unread = self._treasury.unread
        if not unread or time.monotonic() < self._ask_at:
            return
        answer = self._consumer.marks(unread)
        self._ask_at = time.monotonic() + _ASK_AGAIN_SECONDS
        if answer is not None:
            count, marks = answer
            for partition, mark in marks.items():
                offset = mark.offset if mark.offset >= 0 else None
                # A broker that does not know of added partitions yet would give each partition too large a share.
                if partition.number < count:
                    self._treasury.open_partition(partition, offset, mark.note, partitions=count)

    def _publish_metrics(self) -> None:
        """Publish the backlog; records that are not due yet are not part of it."""
        self._metrics_at = time.monotonic()
        due = (self._queue, self._retries.overflow)
        lag = self._consumer.lag(due) + self._waiting.count(due)
        self._metrics.in_flight(self._pool.in_flight)
        self._metrics.set_paused(self._evaluator.judge_names, self._evaluator.paused())
        self._metrics.endpoints(self._evaluator.flow_states())
        self._metrics.lag(self.stage, lag)
        funds = self._treasury
        self._metrics.spending(funds.standing(), refused=funds.refused, excess_usd=funds.excess_usd)
        self._metrics.set_parked(self._consumer.lag(self._retries.topics) + self._waiting.count(self._retries.topics))
        # A worker under back-pressure cannot start any of them, but has not stalled.
        self._consumer.backlog = self._pool.in_flight + (0 if self._is_held_back() else lag)

    def _start_waiting(self) -> None:
        """Start records of all partitions in turn, so that no partition waits for another."""
        if self._draining or self._is_held_back():
            return
        for lane in self._waiting.lanes():
            startable = lane
            while startable:
                startable = [partition for partition in startable if self._start_one(partition)]

    def _is_held_back(self) -> bool:
        """Return whether a lossless sink must catch up first; polling and committing go on meanwhile."""
        return any(sink.applies_backpressure for sink in self.sinks)

    def _start_one(self, partition: Partition) -> bool:
        """Start the partition's next record if possible; return False when the partition can start no more."""
        waiting = self._waiting.first(partition)
        if waiting is None or not self._tracker.may_start(partition):
            return False
        if not self._previous_results_loaded(partition) or not self._treasury.is_open(partition):
            return False
        crowded = self._pool.free <= self._reserve
        late = crowded and self._is_late(waiting)
        if not late and (not self._pool.free or (crowded and partition.topic == self._retries.overflow)):
            return False
        arrival, app = self._waiting.take(partition)
        ticket = self._tracker.start(partition, arrival.record.offset)
        if late:
            self._tracker.finish(ticket, self._judging.defer(arrival))
        else:
            self._apps[ticket] = app
            self._shares.take_slot(app)
            self._pool.submit(ticket, self._judging.judge(arrival))
        return True

    def _is_late(self, waiting: Waiting) -> bool:
        """Return whether a record must wait on the overflow topic behind other apps; broken records are not moved."""
        record = waiting.arrival.record
        movable = self._config.fair and record.partition.topic == self._queue and record.problem is None
        return movable and not is_canary(record.headers) and self._shares.exceeds_share(waiting.app)

    def _previous_results_loaded(self, partition: Partition) -> bool:
        """Return whether the results of the partition's last owner are loaded, or we waited for them long enough.

        A transaction that a crash left open hides later records until the broker aborts it.
        """
        since = self._assigned_at[partition]
        return self._recent.loaded_at >= since or time.monotonic() - since > _PAST_SECONDS

    def _collect(self, seconds: float = 0.0) -> None:
        for ticket, result in self._pool.collect(seconds):
            self._release_slot(ticket)
            self._tracker.finish(ticket, result)
            if result.evaluation is not None:
                self._failures.note(result.evaluation)
                if result.is_id_conflict:
                    self._conflicts.note(result.evaluation.app, result.evaluation.interaction_id)
        self._failures.write()
        self._conflicts.write()

    def _release_slot(self, ticket: Ticket) -> None:
        if ticket in self._apps:
            self._shares.release_slot(self._apps.pop(ticket))

    def _publish(self) -> None:
        self._published_at = time.monotonic()
        ready = self._tracker.ready()
        if ready and not self._notices.wait_for_delivery():
            ready = []  # but still commit leases: calls wait for them
        plan = self._treasury.prepare({part.partition: part.next_offset for part in ready}, self._uncommitted_offset)
        if not plan.offsets:
            return
        messages = [message for part in ready for result in part.results for message in result.messages]
        try:
            self._consumer.publish(messages, plan.offsets, plan.notes)
        except PublishAborted:
            return
        self._treasury.confirm_commit(plan)
        self._tracker.forget_committed(ready)
        for part in ready:
            for result in part.results:
                self._judging.mark_published(result)
                self._count(result)

    def _uncommitted_offset(self, partition: Partition) -> int | None:
        """Return the offset to commit for a partition without a committed one: it stays where it is.

        If none of its records is in flight, records with its number may be on the retry and overflow topics.
        """
        oldest = self._tracker.oldest(partition)
        return self._consumer.beginning(partition) if oldest is None else oldest

    def _settle(self, partitions: Collection[Partition]) -> None:
        """Wait for the records in flight on these partitions, within the limit, and publish finished results."""
        deadline = time.monotonic() + self._config.drain_seconds
        self._judging.leave(partitions)
        # After the pool was closed, no record is in flight.
        while self._is_judging(partitions) and self._pool.in_flight and time.monotonic() < deadline:
            self._collect(_POLL_SECONDS)
            if self._treasury.urgent:
                self._publish()
        self._notices.wait_for_delivery(max(0.0, deadline - time.monotonic()))
        self._treasury.close_partitions(partitions)
        self._publish()
        unfinished = self._tracker.count_uncommitted(partitions)
        if unfinished:
            log.warning("%d records not finished in time; the next worker will judge them again", unfinished)

    def _is_judging(self, partitions: Collection[Partition]) -> bool:
        """Return whether judges work on records of these partitions; others wait for room at the endpoints."""
        return self._tracker.count_unfinished(partitions) > self._judging.count_unstarted(partitions)

    def _release(self, partitions: Collection[Partition]) -> None:
        self._pool.cancel(partitions)
        for ticket in [ticket for ticket in self._apps if ticket.partition in partitions]:
            self._release_slot(ticket)
        self._judging.forget(partitions)
        self._treasury.forget(partitions)
        self._paused -= set(partitions)
        self._unsure -= set(partitions)
        for partition in partitions:
            self._tracker.revoke(partition)
            self._assigned_at.pop(partition, None)
            self._waiting.close(partition)

    def _apply_backpressure(self) -> None:
        """Pause full partitions, so that records wait on the broker and not here."""
        if resume := (self._paused & self._waiting.empty()) | self._unsure:
            self._consumer.resume(resume)
        self._paused -= resume
        self._unsure.clear()
        if pause := self._waiting.full() - self._paused:
            self._consumer.pause(pause)
        self._paused |= pause

    def _on_unsafe(self, notice: SafetyNotice) -> None:
        for message in self._critical.messages(notice):
            self._notices.send(message)

    def _count(self, result: RecordResult) -> None:
        self._metrics.count(self.stage, result.outcome, reason=result.reason)
        if result.is_id_conflict:
            self._metrics.count_id_conflict()
        if result.evaluation is not None:
            self._metrics.count_evaluation(result.evaluation, published=result.is_published)
            if result.is_published:
                write_all(self.sinks, result.evaluation)
        self._metrics.count(self.stage, Outcome.CONSUMED)
