"""Instrumented LangChain and LlamaIndex, a real Collector and real Kafka: interactions as if the service wrote them."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from prometheus_client import CollectorRegistry

from sinks.metrics import AssemblerMetrics, PipelineMetrics
from stream.assembler.stage import Assembler
from stream.config.model import Config
from tests.integration.pipeline import read_all, read_json, wait_until
from tests.parts.kafka import KafkaBroker
from tests.parts.otel import collector, services
from tests.parts.otel.collector import JSON, PROTO, Collector
from tests.parts.otel.services import Run, expected_record, run_pipelines
from tests.parts.required import unavailable

pytestmark = pytest.mark.slow
OF_THE_TRACE = ("id", "timestamp", "traceparent")


class Traced(NamedTuple):
    """The topics with the spans of all pipelines, and the trace of each pipeline."""

    bootstrap: str
    topics: dict[str, str]
    trace_ids: dict[Run, str]


@pytest.fixture(scope="module")
def traced(real_kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    """Every pipeline run once, and its spans on a topic of each encoding."""
    if reason := collector.why_unavailable() or services.why_unavailable():
        unavailable(reason)
    name = f"traced-{uuid.uuid4().hex[:8]}"
    topics = {encoding: f"{name}.{encoding}" for encoding in (PROTO, JSON)}
    real_kafka.create_topics(*topics.values(), partitions=2)
    bootstrap = real_kafka.bootstrap
    folder = tmp_path_factory.mktemp("collector")
    with Collector(folder, bootstrap=bootstrap, proto_topic=topics[PROTO], json_topic=topics[JSON]) as server:
        trace_ids = run_pipelines(server.url)
        keys = {trace_id.encode() for trace_id in trace_ids.values()}
        # Each encoding has a queue of its own.
        wait_until(
            lambda: (
                {message.key() for message in read_all(bootstrap, topics[PROTO])} == keys
                and set(_trace_ids(read_json(bootstrap, topics[JSON]))) == set(trace_ids.values())
            ),
            seconds=20,
            what=lambda: f"all traces on the topic: {server.log.read_text()[-3000:]}",
        )
    return Traced(bootstrap, topics, trace_ids)


def _trace_ids(requests: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the trace of every span in requests to a Collector."""
    for request in requests:
        for resource in request["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                yield from (span["traceId"] for span in scope["spans"])


@contextmanager
def assembler(traced: Traced, kafka: KafkaBroker, encoding: str) -> Iterator[tuple[Config, threading.Thread]]:
    """Run an assembler over the topic of an encoding, in a thread."""
    prefix = f"{traced.topics[encoding]}.out"
    written = {kind: f"{prefix}.{kind}" for kind in ("interactions", "spans", "traces", "deadletter")}
    kafka.create_topics(*written.values())
    config = Config.model_validate(
        {
            "kafka": {"bootstrap": traced.bootstrap},
            "sampling": {"rate": 1},
            "topics": written,
            "input": {
                "otlp": {
                    "topics": [traced.topics[encoding]],
                    "keyed": encoding == PROTO,
                    "quiet_seconds": 1,
                    "group": f"{prefix}.group",
                }
            },
        }
    )
    stop, registry = threading.Event(), CollectorRegistry()
    stage = Assembler(config, PipelineMetrics(registry), AssemblerMetrics(registry))
    thread = threading.Thread(target=stage.run, args=(stop,))
    thread.start()
    try:
        yield config, thread
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("encoding", [PROTO, JSON])
def test_every_convention_gives_the_same_interaction(traced: Traced, real_kafka: KafkaBroker, encoding: str) -> None:
    """Whole traces in protobuf by trace id, and requests as they came in JSON without a key."""
    with_answer = [run for run in traced.trace_ids if expected_record(run) is not None]
    with assembler(traced, real_kafka, encoding) as (config, thread):

        def count_finished() -> int:
            assert thread.is_alive()
            return len(read_all(traced.bootstrap, config.topics.traces))

        wait_until(
            lambda: count_finished() >= len(traced.trace_ids),
            seconds=30,
            what=lambda: f"{len(traced.trace_ids)} traces are finished, not {count_finished()}",
        )
    records = {record["id"]: record for record in read_json(traced.bootstrap, config.topics.interactions)}
    outcomes = {trace["trace_id"]: trace["outcome"] for trace in read_json(traced.bootstrap, config.topics.traces)}
    assert len(records) == len(with_answer) == len(read_all(traced.bootstrap, config.topics.interactions))
    for run, trace_id in traced.trace_ids.items():
        expected = expected_record(run)
        assert outcomes[trace_id] == ("no_answer" if expected is None else "assembled"), run
        assert _without_trace(records.get(trace_id)) == expected, run
    assert read_all(traced.bootstrap, config.topics.deadletter) == []


def _without_trace(record: dict[str, Any] | None) -> dict[str, Any] | None:
    return record and {name: value for name, value in record.items() if name not in OF_THE_TRACE}
