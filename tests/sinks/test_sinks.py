"""The contract of a sink, checked for every implementation in the package."""

import json
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from judges.values.evaluation import Evaluation
from sinks.base import Sink, SinkUnavailable
from sinks.jsonl import JsonLinesSink
from sinks.memory import ListSink
from sinks.metrics import SinkMetrics
from sinks.queued import QueuedSink
from sinks.telemetry import TelemetrySettings, open_telemetry
from tests.parts.endpoints.collector import attributes_of, http_collector
from tests.sinks.telemetry.test_telemetry import evaluation

Received = Callable[[], list[str]]
CLOSE = 10.0


def evaluations_with_ids(*numbers: int) -> list[Evaluation]:
    return [evaluation().model_copy(update={"evaluation_id": str(number)}) for number in numbers]


class Subject:
    """A sink, and the evaluation ids that arrived at its other end."""

    def __init__(self, sink: Sink, received: Received) -> None:
        self.sink = sink
        self.received = received


def memory(_folder: Path, _stack: ExitStack) -> Subject:
    sink = ListSink()
    return Subject(sink, lambda: [item.evaluation_id for item in sink.items])


def jsonl(folder: Path, _stack: ExitStack) -> Subject:
    path = folder / "evaluations.jsonl"
    return Subject(JsonLinesSink(str(path)), lambda: ids_in(path))


def telemetry(_folder: Path, stack: ExitStack) -> Subject:
    collected = stack.enter_context(http_collector())
    sink = open_telemetry(TelemetrySettings(endpoint=collected.url, version="1"))
    return Subject(
        sink,
        lambda: [
            str(attributes_of(span)["streamjury.evaluation_id"]) for span in collected.spans if span.name == "evaluate"
        ],
    )


def queued(inner: Callable[[Path, ExitStack], Subject]) -> Callable[[Path, ExitStack], Subject]:
    def make(folder: Path, stack: ExitStack) -> Subject:
        subject = inner(folder, stack)
        return Subject(QueuedSink(subject.sink, SinkMetrics(CollectorRegistry()), batch=2), subject.received)

    return make


MAKERS = {
    "memory": memory,
    "jsonl": jsonl,
    "telemetry": telemetry,
    "queued memory": queued(memory),
    "queued jsonl": queued(jsonl),
    "queued telemetry": queued(telemetry),
}


def ids_in(path: Path) -> list[str]:
    return [json.loads(line)["evaluation_id"] for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(params=MAKERS)
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    with ExitStack() as stack:
        yield MAKERS[request.param](tmp_path, stack)


def test_everything_written_has_arrived_in_order_when_it_is_closed(subject: Subject) -> None:
    subject.sink.open()
    for batch in (evaluations_with_ids(0), evaluations_with_ids(1, 2, 3), [], evaluations_with_ids(4)):
        subject.sink.write(batch)
    subject.sink.close(CLOSE)
    assert subject.received() == ["0", "1", "2", "3", "4"]


def test_a_flush_between_writes_loses_and_repeats_nothing(subject: Subject) -> None:
    subject.sink.open()
    subject.sink.write(evaluations_with_ids(0, 1))
    subject.sink.flush(5.0)
    subject.sink.flush(5.0)
    subject.sink.write(evaluations_with_ids(2))
    subject.sink.close(CLOSE)
    assert subject.received() == ["0", "1", "2"]


def test_closing_again_and_closing_without_a_write_do_nothing(subject: Subject) -> None:
    subject.sink.open()
    subject.sink.close(CLOSE)
    subject.sink.close(CLOSE)
    assert subject.sink.name
    assert not subject.sink.applies_backpressure


@pytest.mark.parametrize("name", ["queued memory", "queued jsonl"])
def test_flushed_evaluations_have_arrived_before_the_close(name: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        subject = MAKERS[name](tmp_path, stack)
        subject.sink.open()
        subject.sink.write(evaluations_with_ids(0, 1, 2))
        subject.sink.flush(10.0)
        assert subject.received() == ["0", "1", "2"]
        subject.sink.close(CLOSE)


class TestJsonLines:
    def test_a_line_is_the_evaluation_as_on_its_topic(self, tmp_path: Path) -> None:
        path = tmp_path / "e.jsonl"
        write(path, [evaluation()])
        assert Evaluation.model_validate_json(path.read_text(encoding="utf-8")) == evaluation()

    def test_it_appends_and_ends_a_line_that_a_crash_cut_off(self, tmp_path: Path) -> None:
        path = tmp_path / "e.jsonl"
        write(path, evaluations_with_ids(0))
        with path.open("a", encoding="utf-8") as file:
            file.write('{"evaluation_id": "cut')
        write(path, evaluations_with_ids(1))
        first, cut, last = path.read_text(encoding="utf-8").splitlines()
        assert (json.loads(first)["evaluation_id"], json.loads(last)["evaluation_id"]) == ("0", "1")
        assert cut.endswith("cut")

    def test_a_batch_that_does_not_fit_is_rolled_back_and_written_later(self, tmp_path: Path) -> None:
        path = tmp_path / "e.jsonl"
        write(path, evaluations_with_ids(0))
        sink, limits = JsonLinesSink(str(path)), resource.getrlimit(resource.RLIMIT_FSIZE)
        sink.open()
        # Like a disk that is full after a line and a half.
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size * 5 // 2, limits[1]))
        try:
            with pytest.raises(SinkUnavailable, match=r"cannot write to .*: File too large"):
                sink.write(evaluations_with_ids(1, 2, 3))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert ids_in(path) == ["0"]
        sink.write(evaluations_with_ids(1, 2, 3))
        sink.close(1.0)
        assert ids_in(path) == ["0", "1", "2", "3"]

    def test_several_writers_keep_their_lines_apart(self, tmp_path: Path) -> None:
        path = tmp_path / "e.jsonl"
        sinks = [JsonLinesSink(str(path)) for _ in range(2)]
        for sink in sinks:
            sink.open()
        for number in range(20):
            sinks[number % 2].write(evaluations_with_ids(number))
        for sink in sinks:
            sink.close(1.0)
        assert ids_in(path) == [str(number) for number in range(20)]


def write(path: Path, evaluations: Sequence[Evaluation]) -> None:
    sink = JsonLinesSink(str(path))
    sink.open()
    sink.write(evaluations)
    sink.close(1.0)
