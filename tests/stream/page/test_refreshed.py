"""A value that a thread keeps fresh: requests wait no longer than they must, and an unused thread ends."""

import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count

import pytest

from sinks.page.backend import BackendError
from stream.errors import StageError
from stream.page import refreshed
from stream.page.refreshed import RefreshedValue
from tests.integration.pipeline import wait_until
from tests.parts.patience import patience


class Source:
    """Counts how often it is read; a reading waits while the gate is closed."""

    def __init__(self) -> None:
        self.readings = 0
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def read(self) -> int:
        assert self.gate.wait(30 * patience())
        self.readings += 1
        if self.error is not None:
            raise self.error
        return self.readings


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def value(source: Source) -> Iterator[RefreshedValue[int]]:
    with closing(RefreshedValue(source.read, seconds=0.05, name="the numbers")) as opened:
        yield opened


def test_nothing_is_read_before_it_is_asked_for(source: Source, value: RefreshedValue[int]) -> None:
    assert source.readings == 0
    assert value.wait() >= 1


def test_the_latest_value_never_waits(source: Source, value: RefreshedValue[int]) -> None:
    source.gate.clear()
    assert value.latest() is None
    source.gate.set()
    wait_until(lambda: value.latest() is not None, seconds=10, what="there is a value")


def test_it_is_read_again_while_it_is_asked_for(source: Source, value: RefreshedValue[int]) -> None:
    wait_until(lambda: (value.latest() or 0) >= 3, seconds=10, what="it was read three times")


def test_a_new_value_is_one_that_was_read_from_now_on(source: Source) -> None:
    with closing(RefreshedValue(source.read, seconds=60.0, name="the numbers")) as value:
        assert value.wait() == 1
        assert value.wait() == 1
        assert value.wait(is_new=True) == 2


@pytest.mark.parametrize("fails", [False, True])
def test_a_reading_that_began_earlier_answers_no_request_for_a_new_value(fails: bool) -> None:
    """The next one begins right after it, although it is not its turn yet."""
    numbers, entered, proceed = count(1), threading.Event(), threading.Event()

    def read() -> int:
        number = next(numbers)
        if number == 1:
            entered.set()
            assert proceed.wait(30 * patience())
            if fails:
                raise StageError("no broker at a:1")
        return number

    with closing(RefreshedValue(read, seconds=60.0, name="the numbers")) as value, ThreadPoolExecutor(1) as pool:
        value.latest()
        assert entered.wait(30 * patience())
        answer = pool.submit(value.wait, is_new=True)
        wait_until(lambda: value._due_at < math.inf, seconds=10, what="a new value is asked for")
        proceed.set()
        assert answer.result(30 * patience()) == 2


def test_a_failure_is_a_sentence_and_passes(source: Source, value: RefreshedValue[int]) -> None:
    source.error = StageError("no broker at a:1")
    with pytest.raises(BackendError, match="no broker at a:1"):
        value.wait()
    source.error = None
    assert value.wait(is_new=True)


def test_a_bug_is_logged_and_does_not_end_the_thread(
    source: Source, value: RefreshedValue[int], caplog: pytest.LogCaptureFixture
) -> None:
    source.error = ZeroDivisionError()
    with pytest.raises(BackendError, match="see the log for the reason"):
        value.wait()
    assert "cannot read the numbers for the page" in caplog.text
    source.error = None
    assert value.wait(is_new=True)


def test_a_request_that_waits_too_long_fails(
    source: Source, value: RefreshedValue[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refreshed, "_WAIT_SECONDS", 0.05)
    source.gate.clear()
    with pytest.raises(BackendError, match="still reading the numbers; try again"):
        value.wait()
    source.gate.set()


def test_the_thread_ends_when_nobody_asks_and_starts_again_when_somebody_does(
    source: Source, value: RefreshedValue[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    value.wait()
    monkeypatch.setattr(refreshed, "_IDLE_SECONDS", 0.2)

    def threads() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "page-the-numbers"]

    wait_until(lambda: not threads(), seconds=10, what="the thread has ended")
    monkeypatch.undo()
    before = source.readings
    assert value.wait(is_new=True) > before


def test_a_closed_value_is_read_no_more(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refreshed, "_JOIN_SECONDS", 10 * patience())
    value = RefreshedValue(source.read, seconds=0.01, name="the numbers")
    value.wait()
    assert value.close()
    readings = source.readings
    value.latest()
    assert source.readings == readings
