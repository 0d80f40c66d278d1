"""The open traces of a partition: their spans, and the times at which they are finished."""

import heapq
from collections import OrderedDict
from collections.abc import Iterator

from stream.assembler.otlp.spans import KeptSpan, pack, unpack

# Traces that are due within one step are finished together.
_STEPS_PER_QUIET = 20


class OpenTrace:
    """A trace that is not finished."""

    __slots__ = ("first_at", "first_offset", "has_root", "last_at", "spans")

    def __init__(self, offset: int, now: float) -> None:
        self.first_offset = offset
        """Offset of the record with its first span."""
        self.first_at = self.last_at = now
        self.has_root = False
        self.spans: dict[bytes, bytes] = {}
        """Packed spans by span id."""

    def read_spans(self) -> list[KeptSpan]:
        return list(map(unpack, self.spans.values()))


class OpenTraces:
    """Open traces in the order of their first spans."""

    def __init__(self, *, quiet_seconds: float, max_seconds: float) -> None:
        self._quiet, self._max = quiet_seconds, max_seconds
        self._step = quiet_seconds / _STEPS_PER_QUIET
        self._traces: OrderedDict[bytes, OpenTrace] = OrderedDict()
        self._due: dict[int, list[bytes]] = {}
        self._steps: list[int] = []

    def __len__(self) -> int:
        return len(self._traces)

    @property
    def oldest(self) -> OpenTrace | None:
        return next(iter(self._traces.values()), None)

    def add(self, trace_id: bytes, span: KeptSpan, offset: int, now: float) -> bool:
        """Add a span; return False if the trace has it already."""
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._traces[trace_id] = OpenTrace(offset, now)
            self._look_at(now + self._max, trace_id)
        trace.last_at = now
        span_id = span.span_id
        if span_id in trace.spans:
            return False
        trace.spans[span_id] = pack(span)
        if not trace.has_root and span.is_root:
            trace.has_root = True
            self._look_at(now + self._quiet, trace_id)
        return True

    def take_due(self, now: float) -> Iterator[tuple[bytes, OpenTrace]]:
        """Remove the traces that are finished by now, and yield them."""
        while self._steps and self._steps[0] * self._step <= now:
            for trace_id in self._due.pop(heapq.heappop(self._steps)):
                trace = self._traces.get(trace_id)
                if trace is None:
                    continue
                due = self._due_at(trace)
                if due <= now:
                    del self._traces[trace_id]
                    yield trace_id, trace
                else:
                    self._look_at(due, trace_id)

    def take_oldest(self) -> tuple[bytes, OpenTrace]:
        return self._traces.popitem(last=False)

    def _due_at(self, trace: OpenTrace) -> float:
        latest = trace.first_at + self._max
        return min(trace.last_at + self._quiet, latest) if trace.has_root else latest

    def _look_at(self, due: float, trace_id: bytes) -> None:
        """Remember to look at a trace at a time, or a little later."""
        step = int(due / self._step) + 1
        if step not in self._due:
            self._due[step] = []
            heapq.heappush(self._steps, step)
        self._due[step].append(trace_id)
