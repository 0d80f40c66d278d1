"""The end of a run with generated traffic: it waits for a slow machine, and gives up when nothing happens any more."""

from collections.abc import Callable
from threading import Event
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from stream.cli.commands import run as run_module
from stream.cli.commands.run import _Session
from stream.errors import StageError

LOOK_SECONDS = 50.0


def finish(monkeypatch: pytest.MonkeyPatch, waiting: list[int]) -> float:
    """Finish a run that looks every 50 seconds and finds these numbers of waiting records; return how long it took."""
    looks = 0

    def loop(_session: _Session, _view: object, is_done: Callable[[], bool]) -> None:
        nonlocal looks
        while not is_done():
            looks += 1
            assert looks < len(waiting), "it still waits"

    replaced: dict[str, Any] = {
        "_waiting": lambda _session, _written: waiting[looks],
        "_steps_left": lambda _session, _written: 2 * waiting[looks],
        "_is_drained": lambda _session, _written: waiting[looks] == 0,
        "_loop": loop,
    }
    for name, method in replaced.items():
        monkeypatch.setattr(_Session, name, method)
    monkeypatch.setattr(run_module, "time", SimpleNamespace(monotonic=lambda: looks * LOOK_SECONDS))
    session = object.__new__(_Session)
    session._stop = Event()
    session._finish(Mock(), 10)
    return looks * LOOK_SECONDS


def test_it_waits_as_long_as_records_are_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    assert finish(monkeypatch, [5, 4, 3, 2, 1, 0]) == 5 * LOOK_SECONDS


def test_it_gives_up_after_a_minute_without_a_finished_record(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StageError, match="no record was finished for 60 s, and 4 are left"):
        finish(monkeypatch, [5, 4, 4, 4, 4, 4])
