"""The judge worker: judges sampled records in a bounded pool and publishes results in offset order.

The order in which things happen is what keeps records from being lost or published twice:
1. a record is started only while it fits into the pool and under the run-ahead cap,
2. it is judged; an unsafe verdict goes to the critical topic at once,
3. its result waits until every earlier record of its partition has one,
4. the critical notices are known to have arrived,
5. results and offsets are published in one transaction,
6. only then are they counted and forgotten.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from judges.evaluation import Evaluation, SafetyNotice
from judges.evaluator import Evaluator, Submission
from sinks.base import Message, Sink
from sinks.deadletter import DeadLetterTopic
from sinks.metrics import Outcome, PipelineMetrics, Stage
from sinks.topics import CriticalTopic, EvaluationTopic
from stream.config import Config
from stream.envelope import read_sampling
from stream.errors import PublishAborted, RecordError
from stream.exchange import Exchange
from stream.failures import JudgeFailures
from stream.offsets import OffsetTracker, Partition
from stream.outlet import Outlet
from stream.pool import JudgePool
from stream.reading import InteractionReader
from stream.records import Record, dead_letter, readable

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_POLL_RECORDS = 64
# Records of a partition that wait in memory before the broker is told to hold the rest.
_WAITING_PER_PARTITION = 64
_ARRIVAL_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What became of one record: messages to publish, and what to count once they are."""

    outcome: Outcome
    messages: Sequence[Message]
    evaluation: Evaluation | None = None
    reason: str | None = None


class Worker:
    """One process's share of the judging."""

    stage = Stage.WORKER

    def __init__(self, config: Config, evaluator: Evaluator, metrics: PipelineMetrics) -> None:
        self._config = config.worker
        self._evaluator = evaluator
        self._metrics = metrics
        self._reader = InteractionReader(config.input)
        self._evaluations: Sink[Evaluation] = EvaluationTopic(config.topics.evaluations)
        self._critical: Sink[SafetyNotice] = CriticalTopic(config.topics.critical)
        self._dead_letters = DeadLetterTopic(config.topics.deadletter)
        self._tracker: OffsetTracker[Judged] = OffsetTracker(config.worker.run_ahead)
        self._waiting: dict[Partition, deque[Record]] = {}
        self._paused: set[Partition] = set()
        self._draining = False
        self._failures = JudgeFailures()
        self._published_at = time.monotonic()
        self._exchange = Exchange(
            config.kafka,
            topic=config.topics.sampled,
            group=config.worker.group,
            instance=config.worker.instance,
            listener=self,
        )
        self._outlet = Outlet(
            config.kafka,
            client=f"{config.worker.group}-critical-{self._exchange.name}",
            delivered=metrics.critical_delivered,
        )

    @property
    def pulse(self) -> Exchange:
        return self._exchange

    def run(self, stop: threading.Event) -> None:
        """Judges until told to stop, then finishes what is in flight, as far as `drain_seconds` allow."""
        self._pool: JudgePool[Judged] = JudgePool(self._config.concurrency)
        self._exchange.start()
        try:
            while not stop.is_set():
                self._step()
            self._drain()
        finally:
            self._failures.tell(rest=True)
            try:
                self._pool.close(self._evaluator.aclose())
            finally:
                self._exchange.close()
                self._outlet.arrived(_ARRIVAL_SECONDS)

    def _drain(self) -> None:
        """Finishes what is in flight; goes on polling, because a rebalance under way must end before we can commit."""
        self._draining = True
        seconds, left = self._config.drain_seconds, self._tracker.outstanding
        if left:
            log.info("finishing %d records, for up to %g s; Ctrl-C leaves them", left, seconds)
        deadline = time.monotonic() + seconds
        while self._tracker.outstanding and time.monotonic() < deadline:
            self._step()

    def on_assigned(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self._tracker.assign(partition)
            self._waiting[partition] = deque()
            # The client keeps a pause from an earlier assignment; counted as paused, it is lifted at the next step.
            self._paused.add(partition)

    def on_revoked(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self._waiting.pop(partition, None)
        self._settle(partitions)
        self._release(partitions)

    def on_lost(self, partitions: Collection[Partition]) -> None:
        self._release(partitions)

    def _step(self) -> None:
        for record in self._exchange.poll(_POLL_RECORDS, _POLL_SECONDS):
            self._waiting[record.partition].append(record)
        self._start_waiting()
        self._collect()
        if time.monotonic() - self._published_at >= self._config.commit_seconds:
            self._publish()
        self._hold_back()
        self._metrics.in_flight(self._pool.in_flight)
        self._metrics.lag(self.stage, self._exchange.lag() + sum(map(len, self._waiting.values())))

    def _start_waiting(self) -> None:
        """Starts records of all partitions in turn, so that none waits for another."""
        if self._draining:
            return
        startable = [partition for partition, records in self._waiting.items() if records]
        while startable and self._pool.free:
            startable = [partition for partition in startable if self._start_one(partition)]

    def _start_one(self, partition: Partition) -> bool:
        """Starts the partition's next record if it may; False when the partition can start no more."""
        records = self._waiting[partition]
        if not records or not self._pool.free or not self._tracker.may_start(partition):
            return False
        record = records.popleft()
        self._pool.submit(self._tracker.start(partition, record.offset), self._judge(record))
        return True

    def _collect(self, seconds: float = 0.0) -> None:
        for ticket, judged in self._pool.collect(seconds):
            self._tracker.finish(ticket, judged)
            if judged.evaluation is not None:
                self._failures.note(judged.evaluation)
        self._failures.tell()

    def _publish(self) -> None:
        self._published_at = time.monotonic()
        ready = self._tracker.ready()
        if not ready or not self._outlet.arrived():
            return
        results = [judged for part in ready for judged in part.results]
        messages = [message for judged in results for message in judged.messages]
        try:
            self._exchange.publish(messages, {part.partition: part.next_offset for part in ready})
        except PublishAborted:
            return
        self._tracker.committed(ready)
        for judged in results:
            self._count(judged)

    def _settle(self, partitions: Collection[Partition]) -> None:
        """Waits for what is in flight on these partitions, within the limit, and publishes what is finished."""
        deadline = time.monotonic() + self._config.drain_seconds
        # With nothing in flight (the pool was closed before) there is nothing to wait for.
        while self._tracker.unfinished(partitions) and self._pool.in_flight and time.monotonic() < deadline:
            self._collect(_POLL_SECONDS)
        self._outlet.arrived(max(0.0, deadline - time.monotonic()))
        self._publish()
        left = self._tracker.uncommitted(partitions)
        if left:
            log.warning("%d records are left unfinished and uncommitted, for the next worker on this broker", left)

    def _release(self, partitions: Collection[Partition]) -> None:
        self._pool.cancel(partitions)
        self._paused -= set(partitions)
        for partition in partitions:
            self._tracker.revoke(partition)
            self._waiting.pop(partition, None)

    def _hold_back(self) -> None:
        """Lets the broker keep what would only wait here."""
        full = {p for p, records in self._waiting.items() if len(records) >= _WAITING_PER_PARTITION}
        empty = {p for p, records in self._waiting.items() if not records}
        if pause := full - self._paused:
            self._exchange.pause(pause)
        if resume := self._paused & empty:
            self._exchange.resume(resume)
        self._paused = (self._paused | pause) - resume

    async def _judge(self, record: Record) -> Judged:
        """Whatever is wrong with a record, or with us, becomes a result: an exception would lose it."""
        try:
            reading = self._reader.read(readable(record))
            submission = Submission(
                interaction=reading.interaction,
                sampling=read_sampling(record.headers),
                truncated=reading.truncated,
            )
            evaluation = await self._evaluator.evaluate(
                submission, deadline=self._config.deadline_seconds, on_unsafe=self._on_unsafe
            )
            messages = [replace(m, instead=lambda: self._refused(record)) for m in self._evaluations.write(evaluation)]
        except RecordError as error:
            return self._give_up(record, error)
        except Exception as error:
            log.exception("record %s of %s could not be judged", record.offset, record.partition)
            return self._give_up(record, RecordError("internal_error", f"{type(error).__name__}: {error}"))
        scored = evaluation.composite.score is not None
        return Judged(outcome=Outcome.SCORED if scored else Outcome.UNSCORED, messages=messages, evaluation=evaluation)

    def _give_up(self, record: Record, error: RecordError) -> Judged:
        messages = self._dead_letters.write(dead_letter(record, error, stage=self.stage))
        return Judged(outcome=Outcome.DEADLETTER, messages=messages, reason=error.kind)

    def _refused(self, record: Record) -> Message:
        (message,) = self._give_up(
            record, RecordError("too_large", "its evaluation is larger than the topic takes")
        ).messages
        return message

    def _on_unsafe(self, notice: SafetyNotice) -> None:
        for message in self._critical.write(notice):
            self._outlet.send(message)

    def _count(self, judged: Judged) -> None:
        self._metrics.count(self.stage, Outcome.CONSUMED)
        self._metrics.count(self.stage, judged.outcome)
        if judged.evaluation is not None:
            self._metrics.judged(judged.evaluation)
        if judged.reason is not None:
            self._metrics.dead_letter(self.stage, judged.reason)
