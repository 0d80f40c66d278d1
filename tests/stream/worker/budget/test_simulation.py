"""Budgets of real processes: killed, hung, moved and refused, they spend no more than the cap, and almost all of it."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
SCHEDULES = 12


@pytest.mark.slow
def test_eight_workers_keep_one_cap_and_can_use_almost_all_of_it() -> None:
    """A few of the schedules of benchmarks/bench_budget.py; each names its seed."""
    seed = random.randrange(10**6)
    command = [sys.executable, "-m", "tests.stream.worker.budget.simulation"]
    done = subprocess.run(
        [*command, "--schedules", str(SCHEDULES), "--seed", str(seed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == SCHEDULES, done.stderr[-3000:]
    assert [each for each in found if each["most"] > 1] == [], "a cap was exceeded"
    assert [each for each in found if each["used"] < 0.95] == []
    assert min(each["calls"] for each in found) > 1000
