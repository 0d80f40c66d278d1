"""The traces of a partition: finished in time and once, over crashes, with late and repeated spans."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.span_data import MadeSpan, encode, make_trace, trace_id_of
from sinks.metrics.pipeline import SPAN_OUTCOMES, TRACE_OUTCOMES
from stream.assembler.assembling import AssembledTrace, Assembling, TraceOutcome
from stream.assembler.clock import PartitionClock
from stream.assembler.otlp.decoding import SpanDecoder
from stream.assembler.otlp.filtering import AttributeFilter
from stream.assembler.otlp.spans import SpanCounts
from stream.assembler.partition import PartitionTraces
from stream.assembler.recovery import FinishedTrace, TraceNote
from stream.config.sections.otlp import OtlpConfig
from stream.kafka.offsets import Partition

PART = Partition("spans", 0)
CONFIG = OtlpConfig(quiet_seconds=10, max_seconds=60)
BEGIN = 1_790_000_000.0


@dataclass(frozen=True, slots=True)
class WrittenRecord:
    """A record of a partition: its time, and its spans."""

    at: float
    value: bytes


@dataclass(slots=True)
class Simulation:
    """A broker with one partition of spans, and one assembler after the other: each resumes what the last committed."""

    records: Sequence[WrittenRecord]
    config: OtlpConfig = CONFIG
    interactions: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    finished: list[FinishedTrace] = field(default_factory=list)
    spans: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._offset, self._note = 0, ""
        self._decoder = SpanDecoder(AttributeFilter(self.config), None)
        self.restart()

    def restart(self) -> None:
        """Forget all that is not committed."""
        note = TraceNote.read(self._note)
        self.state = PartitionTraces(PART, self.config, note, self._offset)
        for finished in self.finished[note.offset :]:
            self.state.recall(finished)

    def read(self, number: int) -> None:
        """Read some records, and finish the traces that are due then."""
        for record in self.records[self.state.position : self.state.position + number]:
            self.state.clock.observe(record.at)
            offset, self.state.position = self.state.position, self.state.position + 1
            self.state.add(offset, self._decoder.read(record.value, SpanCounts()))
        self._finish_due()

    def wait(self, seconds: int) -> None:
        for _second in range(seconds):
            self.state.clock.wait(1.0)
        self._finish_due()

    def commit(self) -> None:
        """Publish all results in one transaction."""
        self.interactions += self._results
        self.finished += self._outcomes
        self._results, self._outcomes = [], []
        self.spans += self.state.results.spans
        self.state.results.spans.clear()
        self._offset, self._note = self.state.mark(1)
        self.state.note_trace_offset(len(self.finished))

    def crash(self) -> None:
        self._results, self._outcomes = [], []
        self.restart()

    _results: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    _outcomes: list[FinishedTrace] = field(default_factory=list)
    _offset: int = 0
    _note: str = ""
    _decoder: SpanDecoder = field(init=False)
    state: PartitionTraces = field(init=False)

    def _finish_due(self) -> None:
        for trace_id, trace in self.state.take_due():
            assembled = Assembling(self.config).assemble(trace_id, trace.read_spans())
            self._take(trace_id, assembled, len(trace.spans), trace.first_offset)

    def _take(self, trace_id: bytes, assembled: AssembledTrace, spans: int, first: int) -> None:
        self._results.append((trace_id, assembled.record))
        self._outcomes.append(
            FinishedTrace(
                trace_id=trace_id.hex(),
                outcome=assembled.outcome.value,
                spans=spans,
                topic=PART.topic,
                partition=PART.number,
                first_offset=first,
                next_offset=self.state.position,
            )
        )
        self.state.finish(trace_id)


def whole(number: int) -> bytes | None:
    """Return the interaction of a trace with all its spans."""
    decoder = SpanDecoder(AttributeFilter(CONFIG), None)
    spans = [span for _, span in decoder.read(encode(make_trace(number)), SpanCounts())]
    return Assembling(CONFIG).assemble(trace_id_of(number), spans).record


@st.composite
def written(draw: st.DrawFn) -> list[WrittenRecord]:
    """Spans of traces in any order and split over records, some of them twice; a trace takes under ten seconds."""
    traces = draw(st.integers(1, 6))
    placed: list[tuple[float, MadeSpan]] = []
    for number in range(traces):
        start = draw(st.integers(0, 100))
        for span in make_trace(number):
            # A root that comes late keeps its trace open, while later traces are finished.
            delays = st.integers(0, 9) if span.parent_id else st.integers(0, 9) | st.integers(9, 50)
            placed += [(start + draw(delays), span)] * draw(st.integers(1, 2))
    placed.sort(key=lambda item: item[0])
    records: list[WrittenRecord] = []
    while placed:
        size = draw(st.integers(1, 4))
        lot, placed = placed[:size], placed[size:]
        # A record is written when its last span is there; within it, the order is any.
        records.append(WrittenRecord(BEGIN + lot[-1][0], encode(draw(st.permutations([span for _, span in lot])))))
    return records


@given(written(), st.data())
def test_every_trace_is_finished_once_and_whole_over_crashes(records: list[WrittenRecord], data: st.DataObject) -> None:
    simulation = Simulation(records)
    for _step in range(data.draw(st.integers(0, 40))):
        simulation.read(data.draw(st.integers(1, 3)))
        match data.draw(st.sampled_from(["go on", "commit", "commit and crash", "crash"])):
            case "commit":
                simulation.commit()
            case "commit and crash":
                simulation.commit()
                simulation.crash()
            case "crash":
                simulation.crash()
    while simulation.state.position < len(records):
        simulation.read(2)
    simulation.wait(100)
    simulation.commit()
    numbers = {int.from_bytes(trace_id, "big") - 1 for trace_id, _ in simulation.interactions}
    # A record waits for its last span, so that a span may come up to four records late: then it is counted as late.
    assert sorted(trace_id for trace_id, _ in simulation.interactions) == [
        trace_id_of(number) for number in sorted(numbers)
    ]
    assert len(numbers) == len({int.from_bytes(trace_id_of(number), "big") for number in numbers})
    if not simulation.spans["late"]:
        assert dict(simulation.interactions) == {trace_id_of(number): whole(number) for number in numbers}
    # A crash after a trace was finished must not bring it back.
    simulation.crash()
    while simulation.state.position < len(records):
        simulation.read(3)
    simulation.wait(100)
    simulation.commit()
    assert len(simulation.interactions) == len(numbers)


@given(st.lists(st.booleans(), min_size=3, max_size=3), st.permutations(range(3)))
def test_a_trace_with_lost_spans_has_a_named_outcome(left: list[bool], order: list[int]) -> None:
    spans = [make_trace(0)[place] for place in order if left[place]]
    simulation = Simulation([WrittenRecord(BEGIN, encode([span])) for span in spans])
    simulation.read(3)
    simulation.wait(100)
    simulation.commit()
    outcomes = [finished.outcome for finished in simulation.finished]
    expected = TraceOutcome.ASSEMBLED if left[2] else TraceOutcome.NO_ROOT
    assert outcomes == ([expected] if any(left) else [])
    assert not len(simulation.state.open)


def late_and_early() -> list[WrittenRecord]:
    retriever, llm, root = make_trace(0)
    return [
        WrittenRecord(BEGIN, encode([root, retriever])),
        WrittenRecord(BEGIN + 11, encode(make_trace(1))),
        WrittenRecord(BEGIN + 12, encode([llm])),
    ]


def test_a_late_span_is_counted_and_opens_no_new_trace() -> None:
    simulation = Simulation(late_and_early())
    for _record in range(3):
        simulation.read(1)
    simulation.wait(100)
    simulation.commit()
    assert [finished.spans for finished in simulation.finished] == [2, 3]
    assert simulation.spans == {"kept": 5, "late": 1}


def test_a_late_span_is_counted_once_over_a_crash() -> None:
    """The second trace is open, so that the third record is read again after the crash."""
    simulation = Simulation(late_and_early())
    for _record in range(3):
        simulation.read(1)
    simulation.commit()
    simulation.crash()
    assert simulation.state.position == 1
    simulation.read(2)
    simulation.wait(100)
    simulation.commit()
    assert simulation.spans == {"kept": 5, "late": 1}
    assert len(simulation.finished) == 2


def test_a_trace_is_finished_at_the_latest_after_max_seconds() -> None:
    """Its spans keep coming: the last of them are late."""
    root = make_trace(0)[-1]
    records = [WrittenRecord(BEGIN, encode([root]))]
    records += [
        WrittenRecord(BEGIN + 5 * place, encode([MadeSpan(trace_id=root.trace_id, span_id=bytes([9] * 7 + [place]))]))
        for place in range(1, 15)
    ]
    simulation = Simulation(records)
    for _record in records:
        simulation.read(1)
    simulation.commit()
    (finished,) = simulation.finished
    assert 12 <= finished.spans <= 14  # times are rounded up to a twentieth of the quiet time
    assert simulation.spans["late"] == 15 - finished.spans


def test_the_offset_of_the_oldest_open_trace_is_committed() -> None:
    retriever, _llm, _root = make_trace(0)
    records = [WrittenRecord(BEGIN, encode(make_trace(1))), WrittenRecord(BEGIN + 1, encode([retriever]))]
    records += [WrittenRecord(BEGIN + 2 + place, encode(make_trace(2 + place))) for place in range(40)]
    simulation = Simulation(records)
    simulation.read(42)
    assert simulation.state.mark(1).offset == 1
    simulation.wait(60)
    assert simulation.state.mark(1).offset == 42


def test_a_note_survives_its_text_and_an_unknown_one_reads_everything() -> None:
    note = TraceNote(12, 6, 345)
    assert TraceNote.read(str(note)) == note
    assert TraceNote.read("") == TraceNote.read("sj1|h9z3k") == TraceNote(0, 0, 0)


def test_the_clock_follows_records_and_then_our_own_time_and_distrusts_the_future() -> None:
    clock = PartitionClock(1.0, wall=lambda: 1000.0)
    clock.observe(500.0)
    clock.observe(400.0)
    assert clock.now == 500.0
    clock.wait(0.9)
    assert clock.now == 500.0
    clock.wait(0.6)
    assert clock.now == 500.5
    clock.wait(30.0)  # this process was held up: records may be waiting
    assert clock.now == 501.5
    clock.observe(9999.0)
    assert clock.now == 1000.0


def test_every_outcome_has_a_metric() -> None:
    assert set(TRACE_OUTCOMES) == set(TraceOutcome)
    assert {*SpanCounts.__slots__, "kept", "repeated", "late", "known"} == set(SPAN_OUTCOMES)


def test_interactions_are_json() -> None:
    assert json.loads(whole(3) or b"")["id"] == trace_id_of(3).hex()
