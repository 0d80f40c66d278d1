"""Telemetry of a running worker: spans and events at a collector, and log lines that name the same trace."""

import json
import re
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from judges.criteria.criterion import RAG_DIMENSIONS
from stream.kafka.embedded import EmbeddedBroker
from tests.integration.pipeline import StageProcess, produce_all, read_json, wait_until
from tests.parts.endpoints.collector import Collected, attributes_of, collectors
from tests.parts.endpoints.judge_endpoint import JudgeEndpoint

RECORDS = 5
SECRET = "geheim-4711"


def traceparent(number: int) -> str:
    return f"00-{number + 1:032x}-{number + 1:016x}-01"


def send(broker: EmbeddedBroker) -> None:
    for number in range(RECORDS):
        value = {
            "id": f"i-{number}",
            "question": "How long is the return period?",
            "contexts": [{"text": "Goods can be returned within 30 days."}],
            # All differ: a verdict on the same texts would come from the cache.
            "answer": f"You have {30 + number} days.",
            "traceparent": traceparent(number),
        }
        produce_all(broker.bootstrap, "rag.sampled", [{"key": f"i-{number}", "value": json.dumps(value)}])


def write_config(folder: Path, judges: JudgeEndpoint, **telemetry: Any) -> Path:
    judge = {"kind": "openai", "name": "mini", "model": "test-model", "base_url": judges.base_url}
    settings = {
        "criteria": {"use": ["rag"]},
        "judges": {"panel": [judge]},
        "telemetry": {"headers": {"x-key": SECRET}, **telemetry},
        "logging": {"format": "json", "level": "debug"},
    }
    path = folder / "streamjury.yaml"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def run_worker(broker: EmbeddedBroker, folder: Path, config: Path) -> Path:
    """Run a worker until all records are judged, stop it, and return its log."""
    log = folder / "worker.log"
    with StageProcess("worker", bootstrap=broker.bootstrap, log=log, config=config) as process:
        wait_until(
            lambda: len(read_json(broker.bootstrap, "rag.evaluations")) == RECORDS,
            seconds=60,
            what=lambda: f"{RECORDS} evaluations; the log: {log.read_text()[-2000:]}",
        )
        assert process.terminate() == 0
    return log


@pytest.mark.parametrize("protocol", collectors)
@pytest.mark.slow
def test_a_collector_gets_every_evaluation_and_the_log_names_the_same_traces(
    embedded_broker: EmbeddedBroker, tmp_path: Path, protocol: str
) -> None:
    send(embedded_broker)
    with collectors[protocol]() as collected, JudgeEndpoint() as endpoint:
        config = write_config(tmp_path, endpoint, endpoint=collected.url, protocol=protocol)
        log = run_worker(embedded_broker, tmp_path, config)
    check_spans(collected)
    check_events(collected)
    check_log(log, calls=len(endpoint.calls))


def check_spans(collected: Collected) -> None:
    roots = {span.span_id: span for span in collected.spans if span.name == "evaluate"}
    calls = [span for span in collected.spans if span.name == "chat test-model"]
    assert (len(roots), len(calls)) == (RECORDS, RECORDS * len(RAG_DIMENSIONS))
    assert {link.trace_id.hex() for span in roots.values() for link in span.links} == {
        traceparent(number).split("-")[1] for number in range(RECORDS)
    }
    for call in calls:
        root = roots[call.parent_span_id]
        assert call.trace_id == root.trace_id
        assert attributes_of(call)["gen_ai.usage.input_tokens"] == 100
        # Verdicts and evaluations are timed by different clocks.
        assert root.start_time_unix_nano - 50_000_000 <= call.start_time_unix_nano
        assert call.start_time_unix_nano < call.end_time_unix_nano <= root.end_time_unix_nano + 50_000_000


def check_events(collected: Collected) -> None:
    results = Counter(event.trace_id.hex() for event in collected.events)
    assert results == {traceparent(number).split("-")[1]: len(RAG_DIMENSIONS) + 1 for number in range(RECORDS)}
    for event in collected.events:
        assert attributes_of(event)["streamjury.interaction_id"] == f"i-{int(event.span_id.hex(), 16) - 1}"


def check_log(log: Path, *, calls: int) -> None:
    """Log lines written during a judge call name the record."""
    text = log.read_text(encoding="utf-8")
    assert SECRET not in text
    lines = [json.loads(line) for line in text.splitlines()]
    requests = [line for line in lines if line["logger"] == "judges.models.endpoint" and "answered" in line["message"]]
    assert len(requests) == calls
    for line in requests:
        number = int(line["interaction_id"].removeprefix("i-"))
        assert (line["trace_id"], line["stage"]) == (traceparent(number).split("-")[1], "worker")
    assert not [line for line in lines if line["logger"] == "stream.kafka.consume_produce" and "trace_id" in line]


@pytest.mark.slow
def test_a_worker_with_an_unreachable_collector_still_judges(embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    send(embedded_broker)
    with JudgeEndpoint() as endpoint:
        log = run_worker(embedded_broker, tmp_path, write_config(tmp_path, endpoint, endpoint=nobody))
    text = log.read_text(encoding="utf-8")
    # Only telemetry: a process of another test may call the port of this worker by mistake, and that is logged too.
    loggers = ("opentelemetry", "sinks.telemetry")
    complaints = [line for line in map(json.loads, text.splitlines()) if line["logger"].startswith(loggers)]
    assert {"warning", "error"} & {line["level"] for line in complaints}
    assert "Traceback" not in json.dumps(complaints)
    assert SECRET not in text


def test_a_worker_does_not_start_with_telemetry_that_cannot_work(
    embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    with JudgeEndpoint() as endpoint:
        config = write_config(tmp_path, endpoint, endpoint="http://127.0.0.1:4318", headers={"x-key": "a\nb"})
        log = tmp_path / "worker.log"
        with StageProcess("worker", bootstrap=embedded_broker.bootstrap, log=log, config=config) as process:
            wait_until(lambda: process.has_logged("telemetry"), seconds=30, what="an error")
    assert re.search(r"telemetry\.headers\.x-key: must be printable ASCII", log.read_text(encoding="utf-8"))
