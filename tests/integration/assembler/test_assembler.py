"""The assembler on the embedded broker: spans in, one interaction for each trace out."""

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from benchmarks.span_data import ANSWER, PASSAGES, QUESTION, as_document, encode, make_trace, trace_id_of
from sinks.metrics import AssemblerMetrics, PipelineMetrics
from stream.assembler.stage import Assembler
from stream.config.model import Config
from stream.config.sections.sampling import SamplingConfig
from stream.jobs.audit.traces import audit_traces
from stream.kafka.embedded import EmbeddedBroker, make_topics
from stream.kafka.topics import plan_topics
from stream.records.decision import Cohort
from tests.integration.pipeline import headers_of, produce_all, read_all, read_json, wait_until
from tests.parts.patience import patience

TRACES = 50
# A machine that is busy reads the spans of a trace further apart.
QUIET_SECONDS = 0.4 * patience(at_most=10.0)


def make_config(bootstrap: str, *, rate: float = 1.0, **otlp: Any) -> Config:
    return Config.model_validate(
        {
            "kafka": {"bootstrap": bootstrap},
            "sampling": {"rate": rate},
            "input": {"otlp": {"quiet_seconds": QUIET_SECONDS, **otlp}},
        }
    )


@contextmanager
def running_assembler(bootstrap: str, *, rate: float = 1.0, **otlp: Any) -> Iterator[CollectorRegistry]:
    """Run an assembler in a thread until the end of the block."""
    config = make_config(bootstrap, rate=rate, **otlp)
    make_topics(bootstrap, [plan.name for plan in plan_topics(config)])
    registry, stop = CollectorRegistry(), threading.Event()
    stage = Assembler(config, PipelineMetrics(registry), AssemblerMetrics(registry))
    thread = threading.Thread(target=stage.run, args=(stop,))
    thread.start()
    try:
        yield registry
    finally:
        stop.set()
        thread.join()


def expected(number: int) -> dict[str, Any]:
    trace_id = trace_id_of(number).hex()
    return {
        "id": trace_id,
        "question": f"{QUESTION} ({number})",
        "answer": ANSWER,
        "app": "shop",
        "model": "atlas-mini",
        "contexts": [{"text": text, "id": f"kb-{place}"} for place, text in enumerate(PASSAGES)],
        "tags": {"session": f"session-{number % 10}"},
        "timestamp": "2026-09-21T14:13:21+00:00",
        "traceparent": f"00-{trace_id}-{(1).to_bytes(8, 'big').hex()}-01",
    }


def test_spans_without_keys_become_one_interaction_for_each_trace(embedded_broker: EmbeddedBroker) -> None:
    """Spans of many traces are shuffled over records, some twice, half of the records in JSON."""
    spans = [span for number in range(TRACES) for span in make_trace(number)]
    spans += spans[:30]
    random.Random(5).shuffle(spans)
    lots = [spans[place : place + 7] for place in range(0, len(spans), 7)]
    values = [encode(lot) if place % 2 else json.dumps(as_document(lot)) for place, lot in enumerate(lots)]
    bootstrap = embedded_broker.bootstrap
    with running_assembler(bootstrap) as registry:
        produce_all(bootstrap, "otlp_spans", [{"value": value} for value in [*values, b"\x0a\xff not spans"]])
        wait_until(lambda: len(read_all(bootstrap, "rag.interactions")) >= TRACES, seconds=20, what="all assembled")
        wait_until(lambda: bool(read_all(bootstrap, "rag.deadletter")), seconds=10, what="the dead letter")
    records = read_json(bootstrap, "rag.interactions")
    assert sorted(records, key=lambda record: record["id"]) == [expected(number) for number in range(TRACES)]
    assert {message.key().decode() for message in read_all(bootstrap, "rag.interactions")} == {
        record["id"] for record in records
    }
    (letter,) = read_all(bootstrap, "rag.deadletter")
    assert headers_of(letter)["sj-error-type"] == "bad_spans"
    assert letter.value() == b"\x0a\xff not spans"
    assert registry.get_sample_value("streamjury_assembler_traces_total", {"outcome": "assembled"}) == TRACES
    assert registry.get_sample_value("streamjury_assembler_spans_total", {"outcome": "repeated"}) == 30


def test_keyed_spans_are_read_at_once_and_other_keys_are_refused(embedded_broker: EmbeddedBroker) -> None:
    """Half of the traces are sampled; the audit accounts for these, and finds an interaction that was written twice."""
    bootstrap = embedded_broker.bootstrap
    rate = 0.5
    chooses = Cohort(SamplingConfig().salt).chooser(rate)
    numbers = [number for number in range(40) if chooses(trace_id_of(number).hex().encode())]
    assert 5 < len(numbers) < 35
    whole = [{"key": trace_id_of(number).hex(), "value": encode(make_trace(number))} for number in range(40)]
    other = {"key": "another key", "value": encode(make_trace(numbers[0]))}
    rootless = {"key": trace_id_of(numbers[1]), "value": encode(make_trace(numbers[1])[:1])}
    otlp = {"keyed": True, "max_seconds": QUIET_SECONDS + 1.1}
    with running_assembler(bootstrap, rate=rate, **otlp) as registry:
        produce_all(bootstrap, "otlp_spans", [*whole, other, rootless])
        wait_until(lambda: len(read_all(bootstrap, "rag.interactions")) >= len(numbers), seconds=20, what="assembled")
        wait_until(lambda: bool(read_all(bootstrap, "rag.deadletter")), seconds=10, what="the dead letter")
        count = partial(registry.get_sample_value, "streamjury_assembler_spans_total")
        wait_until(lambda: count({"outcome": "sampled_out"}) == 3 * (40 - len(numbers)), seconds=10, what="counted")
    ids = [message.key().decode() for message in read_all(bootstrap, "rag.interactions")]
    assert sorted(ids) == sorted(trace_id_of(number).hex() for number in numbers)
    assert [headers_of(letter)["sj-error-type"] for letter in read_all(bootstrap, "rag.deadletter")] == ["not_keyed"]
    config = make_config(bootstrap, rate=rate, **otlp)
    balance = audit_traces(config, {"otlp_spans": 4, "rag.traces": 4})
    assert balance is not None
    assert (balance.balanced, balance.traces, balance.outcomes) == (True, len(numbers), {"assembled": len(numbers)})
    produce_all(bootstrap, "rag.traces", [{"value": read_all(bootstrap, "rag.traces")[0].value()}])
    doubled = audit_traces(config, {"otlp_spans": 4, "rag.traces": 4})
    assert doubled is not None
    assert not doubled.balanced


def test_too_many_open_traces_are_evicted_oldest_first(embedded_broker: EmbeddedBroker) -> None:
    bootstrap = embedded_broker.bootstrap
    open_traces = [{"key": trace_id_of(n).hex(), "value": encode(make_trace(n)[:2]), "partition": 0} for n in range(9)]
    with running_assembler(bootstrap, keyed=True, max_traces=4):
        produce_all(bootstrap, "otlp_spans", open_traces)
        wait_until(lambda: len(read_json(bootstrap, "rag.traces")) == 5, seconds=20, what="five are evicted")
    outcomes = [(record["trace_id"], record["outcome"]) for record in read_json(bootstrap, "rag.traces")]
    assert outcomes == [(trace_id_of(number).hex(), "evicted") for number in range(5)]
