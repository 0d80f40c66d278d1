"""Accounts for traces: every trace on the span topics has an outcome on `topics.traces`, or is still open."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from stream.assembler.assembling import TraceOutcome
from stream.assembler.otlp.decoding import SpanDecoder
from stream.assembler.otlp.filtering import AttributeFilter, trace_filter
from stream.assembler.otlp.spans import SpanCounts
from stream.assembler.recovery import read_finished_trace
from stream.config.model import Config
from stream.config.sections.otlp import OtlpConfig
from stream.errors import RecordError
from stream.kafka.offsets import Partition
from stream.kafka.record import partition_of
from stream.kafka.topic_scan import TopicScan, read_committed_offsets


@dataclass(slots=True, kw_only=True)
class TraceBalance:
    """What became of the traces."""

    traces: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    """Number of traces by outcome."""
    waiting: int = 0
    """Traces that are still open, or not read yet."""
    unreadable: int = 0
    """Records that are not OTLP; they are dead letters."""
    missing: tuple[str, ...] = ()
    """Ids of traces without an outcome."""
    duplicates: tuple[str, ...] = ()
    """Ids of traces that were assembled twice."""

    @property
    def balanced(self) -> bool:
        return not self.missing and not self.duplicates


def audit_traces(config: Config, partitions: Mapping[str, int], *, since_ms: int | None = None) -> TraceBalance | None:
    """Read the topics of the assembler; None if no spans are configured, or its topics do not exist."""
    otlp = config.input.otlp
    topics = () if otlp is None else otlp.topics if otlp.keyed else (config.topics.spans,)
    if otlp is None or not {*topics, config.topics.traces} <= partitions.keys():
        return None
    places = [Partition(topic, number) for topic in topics for number in range(partitions[topic])]
    # Before the outcomes are read: a trace that is finished in between is not missing.
    reached = read_committed_offsets(config.kafka, otlp.group, places)
    balance = TraceBalance()
    last = _read_spans(config, otlp, topics, since_ms, balance)
    outcomes = _read_outcomes(config)
    assembled = Counter(trace_id for trace_id, outcome in outcomes if outcome == TraceOutcome.ASSEMBLED)
    known = dict(outcomes) | dict.fromkeys(assembled, TraceOutcome.ASSEMBLED.value)
    balance.traces = len(last)
    balance.outcomes = Counter(known[trace_id] for trace_id in last if trace_id in known)
    unknown = {trace_id: place for trace_id, place in last.items() if trace_id not in known}
    lost = [name for name, (partition, offset) in unknown.items() if offset < reached.get(partition, 0)]
    balance.missing, balance.waiting = tuple(sorted(lost)), len(unknown) - len(lost)
    balance.duplicates = tuple(sorted(name for name, number in assembled.items() if number > 1))
    return balance


def _read_spans(
    config: Config, otlp: OtlpConfig, topics: tuple[str, ...], since_ms: int | None, balance: TraceBalance
) -> dict[str, tuple[Partition, int]]:
    """Return the traces that the sampler may choose, each with the place of its last span."""
    decoder = SpanDecoder(AttributeFilter(otlp), trace_filter(config.sampling))
    last: dict[str, tuple[Partition, int]] = {}
    for topic in topics:
        with TopicScan(config.kafka, topic, whole=True) as scan:
            for message in scan.read(since_ms):
                try:
                    spans = decoder.read(message.value(), SpanCounts())
                except RecordError:
                    balance.unreadable += 1
                    continue
                place = partition_of(message), message.offset() or 0
                last.update((trace_id.hex(), place) for trace_id, _span in spans)
    return last


def _read_outcomes(config: Config) -> list[tuple[str, str]]:
    with TopicScan(config.kafka, config.topics.traces, whole=True) as scan:
        records = (read_finished_trace(message.value()) for message in scan.read())
        return [(finished.trace_id, finished.outcome) for finished in records if finished is not None]
