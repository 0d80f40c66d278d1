"""One partition of spans: its open and finished traces, its unpublished results, and the offset to commit."""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from sinks.base import Message
from stream.assembler.assembling import TraceOutcome
from stream.assembler.clock import PartitionClock
from stream.assembler.open_traces import OpenTrace, OpenTraces
from stream.assembler.otlp.spans import SpanCounts, TraceSpan
from stream.assembler.recovery import FinishedTrace, TraceNote
from stream.config.sections.otlp import OtlpConfig
from stream.kafka.consume_produce import CommittedOffset
from stream.kafka.offsets import Partition

# Without records, our own time counts after this, or after half of the quiet time.
_PATIENCE_SECONDS = 1.0


@dataclass(slots=True)
class PendingResults:
    """Results of a partition that are not published yet."""

    messages: list[Message] = field(default_factory=list)
    records: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Dead letters by reason."""
    left_out: SpanCounts = field(default_factory=SpanCounts)
    spans: Counter[str] = field(default_factory=Counter)
    """All other spans by outcome."""
    traces: Counter[TraceOutcome] = field(default_factory=Counter)


class PartitionTraces:
    """The traces of one partition."""

    def __init__(self, partition: Partition, config: OtlpConfig, note: TraceNote, offset: int) -> None:
        """Resume a partition from its committed offset."""
        self.partition = partition
        self.results = PendingResults()
        self.open = OpenTraces(quiet_seconds=config.quiet_seconds, max_seconds=config.max_seconds)
        self.clock = PartitionClock(min(_PATIENCE_SECONDS, config.quiet_seconds / 2))
        self._remember_seconds, self._most = config.max_seconds, config.max_traces
        self._finished: OrderedDict[bytes, tuple[int, float]] = OrderedDict()
        self._is_recalling = False
        self._processed = note.position
        """Records before this offset were processed by an earlier owner."""
        self.position = offset
        self._trace_offsets: deque[tuple[int, int]] = deque([(offset, note.offset)])
        self.committed: CommittedOffset | None = None

    def recall(self, finished: FinishedTrace) -> None:
        """Remember a trace that an earlier owner finished."""
        self._finished[bytes.fromhex(finished.trace_id)] = (finished.next_offset, 0.0)
        self._is_recalling = True

    def is_new(self, offset: int) -> bool:
        """Return whether no earlier owner processed the record at this offset."""
        return offset >= self._processed

    def add(self, offset: int, spans: list[TraceSpan]) -> None:
        """Add the spans of a record."""
        is_new, now, counts = self.is_new(offset), self.clock.now, self.results.spans
        for trace_id, span in spans:
            finished = self._finished.get(trace_id)
            if finished is not None:
                outcome = "late" if offset >= finished[0] else "known"
            elif self.open.add(trace_id, span, offset, now):
                outcome = "kept"
            else:
                outcome = "repeated"
            if is_new:
                counts[outcome] += 1

    def take_due(self) -> Iterator[tuple[bytes, OpenTrace]]:
        return self.open.take_due(self.clock.now)

    def finish(self, trace_id: bytes) -> None:
        """Remember a finished trace, to recognise its late spans."""
        self._finished[trace_id] = (self.position, self.clock.now)
        if self.position < self._processed:
            return  # spans of recalled traces are still to come
        if self._is_recalling:
            self._is_recalling = False
            self._finished = OrderedDict(
                (name, (offset, self.clock.now)) for name, (offset, _) in self._finished.items()
            )
        oldest = self.clock.now - self._remember_seconds
        while len(self._finished) > self._most or next(iter(self._finished.values()))[1] < oldest:
            self._finished.popitem(last=False)

    def note_trace_offset(self, end: int) -> None:
        """Note the current end of the topic of finished traces: traces that begin later are finished after it."""
        if end > self._trace_offsets[-1][1]:
            self._trace_offsets.append((self.position, end))

    def mark(self, partitions: int) -> CommittedOffset:
        """Return the offset to commit, and the note with it."""
        oldest = self.open.oldest
        offset = self.position if oldest is None else oldest.first_offset
        known = self._trace_offsets
        while len(known) > 1 and known[1][0] <= offset:
            known.popleft()
        position = max(self.position, self._processed)
        return CommittedOffset(offset, str(TraceNote(position, partitions, known[0][1])))
