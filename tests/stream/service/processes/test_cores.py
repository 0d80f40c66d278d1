"""The cores that this process may use."""

import os

import pytest

from stream.service.processes.cores import cores


def test_all_cores_are_counted_if_the_system_has_no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == os.cpu_count()
