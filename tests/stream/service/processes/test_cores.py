"""The cores that this process may use."""

import os

import pytest

from stream.service.processes.cores import cores


def test_where_the_system_does_not_tell_which_cores_are_ours_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == os.cpu_count()
