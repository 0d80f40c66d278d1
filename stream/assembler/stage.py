"""The assembler's stage: reads span topics and writes one interaction for each trace of a RAG service.

The order in which things happen is what keeps interactions from being lost or written twice:
1. spans wait in memory until their trace is finished,
2. the interaction of a finished trace, its outcome for `topics.traces` and the offsets are published together,
3. the committed offset of a partition is that of its oldest open trace, so the next owner reads all its spans again,
4. the next owner first reads from `topics.traces` which traces were finished after that offset, and skips them.

Records without their trace id as key are first split by trace and written to `topics.spans`, which is read in the same
way; the same group reads both.
"""

import logging
import threading
import time
from collections.abc import Collection, Sequence
from functools import partial

from sinks.base import SCHEMA, Message
from sinks.metrics import AssemblerMetrics, Outcome, PipelineMetrics, Stage
from sinks.topics.dead_letters import DeadLetterTopic
from stream.assembler.assembling import AssembledTrace, Assembling, TraceOutcome
from stream.assembler.open_traces import OpenTrace
from stream.assembler.otlp.decoding import SpanDecoder
from stream.assembler.otlp.filtering import AttributeFilter, trace_filter
from stream.assembler.otlp.spans import SpanCounts, TraceSpan
from stream.assembler.partition import PartitionTraces, PendingResults
from stream.assembler.recovery import FinishedTrace, TraceNote, finished_message, read_finished
from stream.config.model import Config
from stream.config.sections.otlp import OtlpConfig
from stream.errors import PublishAborted, RecordError, StageError
from stream.kafka.consume_produce import CommittedOffset, TransactionalConsumer
from stream.kafka.offsets import Partition
from stream.kafka.record import Record, dead_letter, whole_value

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_BATCH_RECORDS = 2_000
_COMMIT_SECONDS = 0.25
# Offsets that moved, without results, are committed this often.
_IDLE_COMMIT_SECONDS = 2.0
_RETRY_SECONDS = 0.5
_ASK_AGAIN_SECONDS = 1.0
# A new owner reads finished traces from as long before the oldest open trace. Asking for the end of a partition waits
# for a fetch on the same connection, about a tenth of a second under load, so it is asked rarely.
_TRACE_OFFSET_SECONDS = 15.0
_TOO_LARGE = "too_large"


class Assembler:
    """Reads a batch, finishes the traces that are due, and publishes."""

    stage = Stage.ASSEMBLER

    def __init__(self, config: Config, metrics: PipelineMetrics, assembler: AssemblerMetrics) -> None:
        self._otlp = otlp = required_section(config)
        self._config, self._metrics, self._assembler = config, metrics, assembler
        self._decoder = SpanDecoder(AttributeFilter(otlp), trace_filter(config.sampling))
        self._assembling = Assembling(otlp)
        self._dead_letters = DeadLetterTopic(config.topics.deadletter)
        self._sources = frozenset() if otlp.keyed else frozenset(otlp.topics)
        """Topics that are only split by trace."""
        self._partitions: dict[Partition, PartitionTraces] = {}
        self._unopened: dict[Partition, list[Record]] = {}
        self._trace_partitions = 0
        self._held_up = False
        self._unsure: set[Partition] = set()
        now = time.monotonic()
        self._open_at = self._trace_offset_at = 0.0
        self._published_at = self._stepped_at = now
        topics = otlp.topics if otlp.keyed else (config.topics.spans, *otlp.topics)
        self._exchange = TransactionalConsumer(
            config.kafka,
            topic=topics[0],
            also=topics[1:],
            group=otlp.group,
            instance=otlp.instance,
            listener=self,
        )

    @property
    def pulse(self) -> TransactionalConsumer:
        return self._exchange

    def run(self, stop: threading.Event) -> None:
        """Assemble until `stop` is set; the next owner reads the spans of open traces again."""
        self._exchange.start()
        try:
            self._trace_partitions = self._exchange.count_partitions(self._config.topics.traces)
            while not stop.is_set():
                self.step()
        finally:
            self._exchange.close()

    def step(self) -> None:
        """Process one batch. After a failed publish, read no further records, but poll to stay in the group."""
        if self._unopened and time.monotonic() >= self._open_at:
            self._open_partitions()
        if self._held_up and not any(state.results.messages for state in self._partitions.values()):
            self._hold(False)  # the results moved to another owner, or were published after all
        self._pause_or_resume()
        limit = 1 if self._held_up else _BATCH_RECORDS
        records = self._exchange.poll(limit, _POLL_SECONDS)
        self._take(records)
        if not self._held_up:
            self._advance({record.partition for record in records}, is_behind=len(records) == limit)
        self._publish_if_due()
        self._show()

    # Assignment

    def on_assigned(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self._unopened[partition] = []
        # The client keeps a pause from an earlier assignment.
        self._unsure |= set(partitions)
        self._open_at = 0.0

    def on_revoked(self, partitions: Collection[Partition]) -> None:
        self.on_lost(partitions)

    def on_lost(self, partitions: Collection[Partition]) -> None:
        """Drop what is not published; the next owner reads it again."""
        for partition in partitions:
            self._partitions.pop(partition, None)
            self._unopened.pop(partition, None)
        self._held_up = self._held_up and any(state.results.messages for state in self._partitions.values())

    def _open_partitions(self) -> None:
        """Load what the last owners of new partitions left: their notes, and the traces that they finished."""
        self._open_at = time.monotonic() + _ASK_AGAIN_SECONDS
        answer = self._exchange.marks(self._unopened)
        if answer is None:
            return
        marks = answer[1]
        notes = {partition: TraceNote.read(mark.note) for partition, mark in marks.items() if mark.offset >= 0}
        states = {
            partition: PartitionTraces(
                partition, self._otlp, notes.get(partition, TraceNote()), max(0, marks[partition].offset)
            )
            for partition in self._unopened
        }
        try:
            self._recall(states, {part: note for part, note in notes.items() if part.topic not in self._sources})
        except StageError as error:
            log.warning("cannot read finished traces yet: %s", error)
            return
        for state in states.values():
            state.committed = state.mark(self._trace_partitions)
        early, self._unopened = self._unopened, {}
        self._partitions |= states
        for records in early.values():
            self._take(records)

    def _recall(self, states: dict[Partition, PartitionTraces], notes: dict[Partition, TraceNote]) -> None:
        if not notes:
            return
        number = 0
        for finished in read_finished(self._config.kafka, self._config.topics.traces, self._trace_partitions, notes):
            states[Partition(finished.topic, finished.partition)].recall(finished)
            number += 1
        log.info("resuming %d partitions; %d traces were finished before", len(notes), number)

    # Records

    def _take(self, records: Sequence[Record]) -> None:
        for record in records:
            state = self._partitions.get(record.partition)
            if state is None:
                self._unopened.setdefault(record.partition, []).append(record)
            else:
                self._take_one(state, record)
        for partition, offset in self._exchange.positions().items() if records else ():
            if partition in self._partitions:
                self._partitions[partition].position = offset

    def _take_one(self, state: PartitionTraces, record: Record) -> None:
        offset = record.offset
        is_new = state.is_new(offset)
        state.clock.observe(record.written_at)
        state.position = offset + 1
        counts = state.results.left_out if is_new else SpanCounts()
        try:
            if state.partition.topic in self._sources:
                self._split(state, record, counts)
            else:
                state.add(offset, self._read(record, counts))
        except RecordError as error:
            if is_new:
                state.results.messages += self._dead_letters.messages(dead_letter(record, error, stage=self.stage))
                state.results.refused[error.kind] += 1
        state.results.records += is_new

    def _read(self, record: Record, counts: SpanCounts) -> list[TraceSpan]:
        spans = self._decoder.read(whole_value(record), counts)
        key, checked = record.key, None
        for trace_id, _span in spans:
            if trace_id != checked and key != trace_id.hex().encode() and key != trace_id:
                raise RecordError("not_keyed", "the key is not the trace id of all spans; set input.otlp.keyed: false")
            checked = trace_id
        return spans

    def _split(self, state: PartitionTraces, record: Record, counts: SpanCounts) -> None:
        for trace_id, value in self._decoder.split(whole_value(record), counts).items():
            key = trace_id.hex().encode()
            state.results.messages.append(
                Message(
                    topic=self._config.topics.spans,
                    key=key,
                    value=value,
                    headers=(SCHEMA,),
                    instead=partial(self._replace_oversized, record._replace(key=key, value=value)),
                )
            )

    def _replace_oversized(self, record: Record) -> Message:
        error = RecordError(_TOO_LARGE, f"{self._config.topics.spans} does not accept records of this size")
        (message,) = self._dead_letters.messages(dead_letter(record, error, stage=self.stage))
        return message

    # Traces

    def _advance(self, heard: Collection[Partition], *, is_behind: bool) -> None:
        """Advance the clocks of silent partitions, finish the traces that are due, and evict what is too much."""
        passed, self._stepped_at = time.monotonic() - self._stepped_at, time.monotonic()
        for partition, state in self._partitions.items():
            if partition not in heard and not is_behind:
                state.clock.wait(passed)
            for trace_id, trace in state.take_due():
                self._finish(state, trace_id, trace, self._assembling.assemble(trace_id, trace.read_spans()))
        while sum(len(state.open) for state in self._partitions.values()) > self._otlp.max_traces:
            self._evict()
        if time.monotonic() - self._trace_offset_at >= _TRACE_OFFSET_SECONDS:
            self._note_trace_offsets()

    def _evict(self) -> None:
        crowded = [state for state in self._partitions.values() if len(state.open)]
        state = min(crowded, key=_age_of_oldest)
        trace_id, trace = state.open.take_oldest()
        self._finish(state, trace_id, trace, AssembledTrace(TraceOutcome.EVICTED))

    def _finish(self, state: PartitionTraces, trace_id: bytes, trace: OpenTrace, assembled: AssembledTrace) -> None:
        """Add the results of a trace: its interaction if there is one, and its outcome."""
        outcome, record = assembled
        name, results = trace_id.hex(), state.results
        if record is not None and len(record) > self._config.input.limits.record_bytes:
            outcome = TraceOutcome.TOO_LARGE
            self._dead_letter_interaction(state, trace, name.encode(), record)
        elif record is not None:
            results.messages.append(
                Message(topic=self._config.topics.interactions, key=name.encode(), value=record, headers=(SCHEMA,))
            )
        finished = FinishedTrace(
            trace_id=name,
            outcome=outcome.value,
            spans=len(trace.spans),
            topic=state.partition.topic,
            partition=state.partition.number,
            first_offset=trace.first_offset,
            next_offset=state.position,
        )
        results.messages.append(finished_message(self._config.topics.traces, finished, self._trace_partitions))
        results.traces[outcome] += 1
        state.finish(trace_id)

    def _dead_letter_interaction(self, state: PartitionTraces, trace: OpenTrace, key: bytes, value: bytes) -> None:
        limit = self._config.input.limits.record_bytes
        error = RecordError(_TOO_LARGE, f"the interaction has {len(value)} bytes, the limit is {limit}")
        record = Record(state.partition, trace.first_offset, key, value, ())
        state.results.messages += self._dead_letters.messages(dead_letter(record, error, stage=self.stage))

    def _note_trace_offsets(self) -> None:
        self._trace_offset_at = time.monotonic()
        numbers = {state.partition.number % self._trace_partitions for state in self._assembling_states()}
        ends = {number: self._exchange.end(Partition(self._config.topics.traces, number)) for number in numbers}
        for state in self._assembling_states():
            end = ends[state.partition.number % self._trace_partitions]
            if end is not None:
                state.note_trace_offset(end)

    def _assembling_states(self) -> list[PartitionTraces]:
        return [state for state in self._partitions.values() if state.partition.topic not in self._sources]

    # Publishing

    def _publish_if_due(self) -> None:
        passed = time.monotonic() - self._published_at
        has_results = any(state.results.messages for state in self._partitions.values())
        if passed >= (_COMMIT_SECONDS if has_results else _IDLE_COMMIT_SECONDS):
            self._publish()

    def _publish(self) -> None:
        self._published_at = time.monotonic()
        marks = {partition: state.mark(self._trace_partitions) for partition, state in self._partitions.items()}
        moved = {part: mark for part, mark in marks.items() if self._has_news(self._partitions[part], mark)}
        if not moved:
            return
        messages = [message for part in moved for message in self._partitions[part].results.messages]
        try:
            self._exchange.publish(
                messages,
                {part: mark.offset for part, mark in moved.items()},
                {part: mark.note for part, mark in moved.items()},
            )
        except PublishAborted:
            # The broker pushes back: read no more until it accepts these results.
            self._hold(True)
            time.sleep(_RETRY_SECONDS)
            return
        for partition, mark in moved.items():
            state = self._partitions[partition]
            state.committed = mark
            results, state.results = state.results, PendingResults()
            self._count(results)
        if self._held_up:
            self._hold(False)

    def _has_news(self, state: PartitionTraces, mark: CommittedOffset) -> bool:
        return bool(state.results.messages or state.results.records) or state.committed != mark

    def _hold(self, held_up: bool) -> None:
        self._held_up = held_up
        self._stepped_at = time.monotonic()
        self._unsure |= self._exchange.assignment

    def _pause_or_resume(self) -> None:
        """Pause partitions while results are held up and resume them afterwards, including newly assigned ones."""
        ours = self._unsure & self._exchange.assignment
        if ours:
            (self._exchange.pause if self._held_up else self._exchange.resume)(ours)
            self._unsure.clear()

    # Metrics

    def _count(self, results: PendingResults) -> None:
        refused = results.refused.total()
        self._metrics.count(self.stage, Outcome.SEEN, results.records - refused)
        for reason, number in results.refused.items():
            self._metrics.count(self.stage, Outcome.DEADLETTER, number, reason=reason)
        self._metrics.count(self.stage, Outcome.CONSUMED, results.records)
        spans = {**results.spans, **results.left_out.by_outcome()}
        self._assembler.count(spans, {outcome.value: n for outcome, n in results.traces.items()})

    def _show(self) -> None:
        lag = self._exchange.lag()
        self._metrics.lag(self.stage, lag)
        self._exchange.backlog = lag
        self._assembler.set_open(sum(len(state.open) for state in self._partitions.values()))


def required_section(config: Config) -> OtlpConfig:
    """Return the section `input.otlp`; raises StageError without one."""
    if config.input.otlp is None:
        raise StageError("the assembler needs the section input.otlp in the configuration")
    return config.input.otlp


def _age_of_oldest(state: PartitionTraces) -> float:
    oldest = state.open.oldest
    assert oldest is not None
    return oldest.first_at
