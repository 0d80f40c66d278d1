"""Telemetry of a running worker: spans and events at a collector, and log lines that name the same trace."""

import json
import re
import socket
from collections import Counter
from collections.abc import Callable
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
WARNINGS = {"warning", "error"}


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


def run_worker(broker: EmbeddedBroker, log: Path, config: Path, *, has_exported: Callable[[], bool]) -> None:
    """Run a worker until all records are judged and it has exported what the test expects, and stop it.

    At its end, it has a few seconds to export the rest.
    """
    with StageProcess("worker", bootstrap=broker.bootstrap, log=log, config=config) as process:
        wait_until(
            lambda: len(read_json(broker.bootstrap, "rag.evaluations")) == RECORDS,
            seconds=60,
            what=lambda: f"{RECORDS} evaluations; the log: {log.read_text()[-2000:]}",
        )
        wait_until(has_exported, seconds=30, what=lambda: f"the export; the log: {log.read_text()[-2000:]}")
        assert process.terminate() == 0


@pytest.mark.parametrize("protocol", collectors)
@pytest.mark.slow
def test_a_collector_gets_every_evaluation_and_the_log_names_the_same_traces(
    embedded_broker: EmbeddedBroker, tmp_path: Path, protocol: str
) -> None:
    send(embedded_broker)
    with collectors[protocol]() as collected, JudgeEndpoint() as endpoint:
        config, log = write_config(tmp_path, endpoint, endpoint=collected.url, protocol=protocol), tmp_path / "log"
        run_worker(embedded_broker, log, config, has_exported=lambda: has_all(collected))
    check_spans(collected)
    check_events(collected)
    check_log(log, calls=len(endpoint.calls))


def has_all(collected: Collected) -> bool:
    spans = Counter(span.name for span in collected.spans)
    expected = RECORDS, RECORDS * len(RAG_DIMENSIONS), RECORDS * (len(RAG_DIMENSIONS) + 1)
    return (spans["evaluate"], spans["chat test-model"], len(collected.events)) == expected


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
        config, log = write_config(tmp_path, endpoint, endpoint=nobody), tmp_path / "log"
        run_worker(embedded_broker, log, config, has_exported=lambda: bool(complaints_in(log)))
    assert "Traceback" not in json.dumps(complaints_in(log))
    assert SECRET not in log.read_text(encoding="utf-8")


def complaints_in(log: Path) -> list[dict[str, Any]]:
    """Return the warnings and errors about telemetry."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    entries = [json.loads(line) for line in lines if line.endswith("\n")]
    # Only telemetry: a process of another test may call the port of this worker by mistake, and that is logged too.
    loggers = ("opentelemetry", "sinks.telemetry")
    return [entry for entry in entries if entry["logger"].startswith(loggers) and entry["level"] in WARNINGS]


def test_a_worker_does_not_start_with_telemetry_that_cannot_work(
    embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    with JudgeEndpoint() as endpoint:
        config = write_config(tmp_path, endpoint, endpoint="http://127.0.0.1:4318", headers={"x-key": "a\nb"})
        log = tmp_path / "worker.log"
        with StageProcess("worker", bootstrap=embedded_broker.bootstrap, log=log, config=config) as process:
            wait_until(lambda: process.has_logged("telemetry"), seconds=30, what="an error")
    assert re.search(r"telemetry\.headers\.x-key: must be printable ASCII", log.read_text(encoding="utf-8"))
