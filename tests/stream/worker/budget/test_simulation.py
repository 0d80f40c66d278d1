"""Budgets of real processes under kills, hangs, moves and aborted commits: almost the whole cap is spent, no more."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.patience import patience

ROOT = Path(__file__).parents[4]
SCHEDULES = 5


@pytest.mark.slow
def test_eight_workers_keep_one_cap_and_can_use_almost_all_of_it() -> None:
    """This runs a few schedules of benchmarks/bench_budget.py; each result names its seed."""
    seed = random.randrange(10**6)
    command = [sys.executable, "-m", "tests.stream.worker.budget.simulation"]
    process = subprocess.run(
        [*command, "--schedules", str(SCHEDULES), "--seed", str(seed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200 * patience(),
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    findings = [json.loads(line) for line in process.stdout.splitlines()]
    assert len(findings) == SCHEDULES, process.stderr[-3000:]
    assert [finding for finding in findings if finding["most"] > 1] == [], "a cap was exceeded"
    assert [finding for finding in findings if finding["used"] < 0.95] == []
    assert min(finding["calls"] for finding in findings) > 1000
