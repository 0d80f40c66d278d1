"""The queue in front of a sink: it never blocks its writer, and lost evaluations are counted and logged."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from judges.values.evaluation import Evaluation
from sinks import queued
from sinks.base import SinkRefused, SinkUnavailable
from sinks.jsonl import JsonLinesSink
from sinks.memory import ListSink
from sinks.metrics import SinkMetrics
from sinks.queued import QueuedSink, open_all
from tests.parts.patience import patience
from tests.sinks.test_sinks import evaluations_with_ids, ids_in


class Outage(ListSink):
    """Fails to open and to write a given number of times."""

    def __init__(self, *, opens: int = 0, writes: int = 0, error: Exception | None = None) -> None:
        super().__init__("outage")
        self._opens, self._writes = opens, writes
        self._error = error or SinkUnavailable("come back later")
        self.closed = 0

    def open(self) -> None:
        self._opens -= 1
        if self._opens >= 0:
            raise self._error

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        self._writes -= 1
        if self._writes >= 0:
            raise self._error
        super().write(evaluations)

    def close(self, seconds: float) -> None:
        self.closed += 1


class Blocked(ListSink):
    """Writes nothing until it is released."""

    def __init__(self) -> None:
        super().__init__("blocked")
        self.entered, self.release = threading.Event(), threading.Event()

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        self.entered.set()
        self.release.wait()
        super().write(evaluations)


class Counted:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = SinkMetrics(self.registry)

    def __call__(self, sink: str) -> dict[str, float | None]:
        names = ("written", "dropped", "failed")
        return {
            name: self.registry.get_sample_value("streamjury_sink_evaluations_total", {"sink": sink, "outcome": name})
            for name in names
        }

    def waiting(self, sink: str) -> float | None:
        return self.registry.get_sample_value("streamjury_sink_queue", {"sink": sink})


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    sink = Blocked()
    yield sink
    sink.release.set()


def ids(sink: ListSink) -> list[str]:
    return [item.evaluation_id for item in sink.items]


def test_a_full_queue_drops_the_newest_and_counts_and_logs_them(
    blocked: Blocked, counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    sink = QueuedSink(blocked, counted.metrics, size=3)
    sink.open()
    started = time.monotonic()
    for number in range(10):
        sink.write(evaluations_with_ids(number))
    assert time.monotonic() - started < 1.0 * patience(), "it waits for nothing"
    assert counted("blocked") == {"written": 0, "dropped": 7, "failed": 0}
    assert counted.waiting("blocked") == 3
    assert not sink.applies_backpressure
    assert [record.getMessage() for record in caplog.records] == [
        "sink blocked lost 1 evaluations: its queue is full"
    ], "once a minute"
    blocked.release.set()
    sink.close(10.0 * patience())
    assert ids(blocked) == ["0", "1", "2"]
    assert counted("blocked") == {"written": 3, "dropped": 7, "failed": 0}
    assert "lost 6 evaluations" in caplog.text, "the others are logged in the end"


def test_a_required_sink_loses_nothing_and_applies_backpressure(blocked: Blocked, counted: Counted) -> None:
    sink = QueuedSink(blocked, counted.metrics, size=3, when_full="wait")
    sink.open()
    sink.write(evaluations_with_ids(0, 1))
    assert not sink.applies_backpressure
    sink.write(evaluations_with_ids(2, 3, 4))
    assert sink.applies_backpressure
    sink.write(evaluations_with_ids(5))
    blocked.release.set()
    sink.flush(10.0 * patience())
    assert not sink.applies_backpressure
    sink.close(10.0 * patience())
    assert ids(blocked) == ["0", "1", "2", "3", "4", "5"]
    assert counted("blocked") == {"written": 6, "dropped": 0, "failed": 0}


def test_an_outage_is_waited_for_and_logged_once(counted: Counted, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    inner = Outage(opens=1, writes=2)
    sink = QueuedSink(inner, counted.metrics)
    sink.open()
    sink.write(evaluations_with_ids(0, 1))
    sink.flush(20.0 * patience())
    assert ids(inner) == ["0", "1"]
    sink.close(5.0 * patience())
    assert counted("outage") == {"written": 2, "dropped": 0, "failed": 0}
    assert [record.getMessage() for record in caplog.records] == [
        "sink outage is unavailable, retrying: come back later",
        "sink outage is available again",
    ] * 2, "once to open it and once to write"
    assert inner.closed == 1


def test_any_other_error_costs_the_batch_and_is_logged_once_a_minute(
    counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    inner = Outage(writes=3, error=TypeError("no such column"))
    sink = QueuedSink(inner, counted.metrics, batch=2)
    sink.open()
    sink.write(evaluations_with_ids(*range(8)))
    sink.close(10.0 * patience())
    assert ids(inner) == ["6", "7"]
    assert counted("outage") == {"written": 2, "dropped": 0, "failed": 6}
    assert [record.getMessage() for record in caplog.records] == [
        "sink outage lost 2 evaluations: it failed",
        "sink outage lost 4 evaluations: it failed",
    ]
    assert caplog.text.count("TypeError: no such column") == 1


def test_a_close_keeps_to_its_deadline_and_counts_the_rest(
    blocked: Blocked, counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    sink = QueuedSink(blocked, counted.metrics)
    sink.open()
    sink.write(evaluations_with_ids(0, 1, 2))
    assert blocked.entered.wait(10.0 * patience())
    started = time.monotonic()
    sink.close(0.2)
    assert time.monotonic() - started < 2.0 * patience()
    assert counted("blocked") == {"written": 0, "dropped": 3, "failed": 0}
    assert "sink blocked lost 3 evaluations: not written before shutdown" in caplog.text
    blocked.release.set()
    sink.write(evaluations_with_ids(3))
    assert counted("blocked")["dropped"] == 4, "a closed sink takes nothing"


def test_a_sink_that_never_opens_is_given_up_at_the_deadline(counted: Counted) -> None:
    inner = Outage(opens=1000)
    sink = QueuedSink(inner, counted.metrics)
    sink.open()
    sink.write(evaluations_with_ids(0))
    started = time.monotonic()
    sink.close(0.3)
    assert time.monotonic() - started < 2.0 * patience()
    assert counted("outage")["dropped"] == 1
    assert inner.closed == 0


def test_a_file_that_cannot_be_written_yet_is_written_later(tmp_path: Path, counted: Counted) -> None:
    path = tmp_path / "folder" / "e.jsonl"
    sink = QueuedSink(JsonLinesSink(str(path)), counted.metrics)
    sink.open()
    sink.write(evaluations_with_ids(0, 1))
    path.parent.mkdir()
    sink.flush(20.0 * patience())
    assert ids_in(path) == ["0", "1"]
    sink.close(5.0 * patience())


def test_all_sinks_close_concurrently_and_immediately_after_a_second_ctrl_c(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    slower = patience(at_most=3.0)
    monkeypatch.setattr(queued, "CLOSE_SECONDS", 3.0 * slower)
    assert seconds_to_leave(counted, None) < 8.0 * slower, "three seconds for the three together"
    assert seconds_to_leave(Counted(), KeyboardInterrupt()) < 3.0 * slower


def seconds_to_leave(counted: Counted, error: BaseException | None) -> float:
    inner = [Blocked() for _ in range(3)]
    sinks = [QueuedSink(sink, counted.metrics) for sink in inner]
    started = 0.0
    try:
        with open_all(sinks):
            for sink in sinks:
                sink.write(evaluations_with_ids(0))
            assert all(sink.entered.wait(10.0 * patience()) for sink in inner)
            started = time.monotonic()
            if error is not None:
                raise error
    except KeyboardInterrupt:
        pass
    finally:
        for sink in inner:
            sink.release.set()
    return time.monotonic() - started


def test_a_batch_of_which_a_part_is_refused_is_counted_by_its_parts(
    counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    class Choosy(ListSink):
        def write(self, evaluations: Sequence[Evaluation], /) -> None:
            super().write(evaluations[1:])
            raise SinkRefused(1, "one is not liked")

    sink = QueuedSink(Choosy("choosy"), counted.metrics)
    sink.write(evaluations_with_ids(*range(5)))
    sink.open()
    sink.close(5.0 * patience())
    assert counted("choosy") == {"written": 4, "dropped": 0, "failed": 1}
    assert "sink choosy lost 1 evaluations: one is not liked" in caplog.text


def test_a_sink_waits_as_long_as_the_other_side_asks_for(counted: Counted) -> None:
    inner = Outage(writes=1, error=SinkUnavailable("later", retry_after=1.0))
    sink = QueuedSink(inner, counted.metrics)
    sink.open()
    started = time.monotonic()
    sink.write(evaluations_with_ids(1))
    sink.flush(20.0 * patience())
    assert len(inner.items) == 1
    assert time.monotonic() - started >= 1.0
    sink.close(1.0 * patience())
