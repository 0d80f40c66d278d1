"""Sinks of a worker on a broker: whatever one of them does, the worker reads, judges and commits."""

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from judges.values.evaluation import Evaluation
from sinks.base import SinkUnavailable
from sinks.memory import ListSink
from sinks.metrics import Outcome, SinkMetrics, Stage
from sinks.queued import QueuedSink
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.service.service import Service
from stream.worker.stage import Worker
from tests.integration.pipeline import produce_all, read_json, wait_until
from tests.parts.patience import patience

RECORDS = 200


class SlowSink(ListSink):
    """Writes nothing until it is released."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.release = threading.Event()

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        assert self.release.wait(600)
        super().write(evaluations)


class FailingSink(ListSink):
    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(name)
        self._error = error

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        raise self._error


def send(broker: EmbeddedBroker) -> None:
    values = ({"id": f"i-{number}", "question": "How long?", "answer": f"{number} days."} for number in range(RECORDS))
    produce_all(broker.bootstrap, "rag.sampled", ({"key": v["id"], "value": json.dumps(v)} for v in values))


def make_config(broker: EmbeddedBroker, **sections: object) -> Config:
    return Config.model_validate({"kafka": {"bootstrap": broker.bootstrap}, "http": {"port": 0}, **sections})


def count_scored(service: Service) -> int:
    return service.metrics.read_count(Stage.WORKER, Outcome.SCORED)


def wait_until_idle(service: Service) -> None:
    """Wait until the worker has committed and counted all records that it has started."""
    [worker] = service._stages
    assert isinstance(worker, Worker)
    wait_until(lambda: worker._tracker.outstanding == 0, seconds=60, what="records already started are committed")
    committed_at = time.monotonic()
    wait_until(lambda: worker.pulse.moved_at > committed_at, seconds=30, what="they are counted")


def count(registry: CollectorRegistry, sink: str) -> dict[str, int]:
    outcomes = ("written", "dropped", "failed")
    name = "streamjury_sink_evaluations_total"
    return {
        outcome: int(registry.get_sample_value(name, {"sink": sink, "outcome": outcome}) or 0) for outcome in outcomes
    }


@pytest.mark.slow
def test_slow_and_failing_sinks_do_not_hold_up_the_worker_and_their_losses_are_counted(
    embedded_broker: EmbeddedBroker,
) -> None:
    registry = CollectorRegistry()
    metrics, slow, well = SinkMetrics(registry), SlowSink("slow"), ListSink("well")
    broken, away = FailingSink("broken", TypeError("no")), FailingSink("away", SinkUnavailable("no"))
    sinks = [QueuedSink(sink, metrics, size=20) for sink in (slow, broken, away)] + [QueuedSink(well, metrics)]
    for sink in sinks:
        sink.open()
    send(embedded_broker)
    with Service(make_config(embedded_broker), [Stage.WORKER], sinks) as service:
        wait_until(lambda: count_scored(service) == RECORDS, seconds=60, what="all evaluations")
        # An evaluation is counted before the sinks get it.
        wait_until(lambda: count(registry, "slow")["dropped"] == RECORDS - 20, seconds=30, what="a full queue")
        assert slow.items == []
        slow.release.set()
    for sink, inner in zip(sinks, (slow, broken, away, well), strict=True):
        sink.close(1.0 if inner is away else 30 * patience())
    assert len(well.items) == RECORDS == count(registry, "well")["written"]
    for name in ("slow", "broken", "away"):
        assert sum(count(registry, name).values()) == RECORDS, "every evaluation is accounted for"
    assert count(registry, "slow")["dropped"] == RECORDS - 20, "and no more once it writes"
    assert count(registry, "broken")["failed"] >= 20
    assert count(registry, "away") == {"written": 0, "dropped": RECORDS, "failed": 0}
    assert len(read_json(embedded_broker.bootstrap, "rag.evaluations")) == RECORDS


@pytest.mark.slow
def test_a_full_required_sink_only_holds_back_new_records(
    embedded_broker: EmbeddedBroker,
) -> None:
    registry, inner = CollectorRegistry(), SlowSink("patient")
    sink = QueuedSink(inner, SinkMetrics(registry), size=10, when_full="wait")
    sink.open()
    send(embedded_broker)
    slowness = patience(at_most=5.0)
    limits = {"deadline_seconds": 1.5 * slowness, "stall_seconds": 2.0 * slowness}
    worker = {"concurrency": 4, "run_ahead": 4, **limits}
    with Service(make_config(embedded_broker, worker=worker), [Stage.WORKER], [sink]) as service:
        wait_until(lambda: sink.applies_backpressure, seconds=60, what="a full queue")
        wait_until_idle(service)
        held_at = count_scored(service)
        pulse, longest = service._stages[0].pulse, 0.0
        until = time.monotonic() + 4.0 * slowness  # twice as long as a worker may stall
        while time.monotonic() < until:
            service.check()
            longest = max(longest, time.monotonic() - pulse.moved_at)
            time.sleep(0.05)
        assert count_scored(service) == held_at < RECORDS
        assert longest < 1.5 * slowness, "it goes on polling"
        assert pulse.assigned
        inner.release.set()
        wait_until(lambda: count_scored(service) == RECORDS, seconds=60, what="the rest")
    sink.close(30 * patience())
    assert sorted(item.interaction_id for item in inner.items) == sorted(f"i-{number}" for number in range(RECORDS))
    assert count(registry, "patient") == {"written": RECORDS, "dropped": 0, "failed": 0}
    assert len(read_json(embedded_broker.bootstrap, "rag.evaluations")) == RECORDS, "no record was judged twice"


@pytest.mark.slow
def test_a_configured_file_gets_every_evaluation_of_the_topic(
    embedded_broker: EmbeddedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "evaluations.jsonl"
    missing = {"kind": "jsonl", "name": "missing", "path": str(tmp_path / "no" / "such" / "folder.jsonl")}
    sinks = [{"kind": "jsonl", "path": str(path), "when_full": "wait", "queue": 50}, missing]
    send(embedded_broker)
    with Service(make_config(embedded_broker, sinks=sinks), [Stage.WORKER]) as service:
        wait_until(lambda: count_scored(service) == RECORDS, seconds=60, what="all evaluations")
        # At the end of a service, a sink has a few seconds to write what waits.
        wait_until(lambda: len(path.read_bytes().splitlines()) == RECORDS, seconds=30, what="all are written")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    published = read_json(embedded_broker.bootstrap, "rag.evaluations")
    assert sorted(lines, key=str) == sorted(published, key=str)
    assert count(service.registry, "missing") == {"written": 0, "dropped": RECORDS, "failed": 0}
    assert caplog.text.count("sink missing is unavailable") == 1
