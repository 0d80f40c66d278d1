"""Use of an endpoint's capacity, and the cost of random refusals, in whole runs in virtual time."""

from dataclasses import replace

import pytest

from benchmarks.flow_simulation import SCENARIOS, measure, measure_recovery

pytestmark = pytest.mark.slow

RANDOM = ["random 2.5 %", "random 5 %, Retry-After 1"]
# A single run may be slightly worse than the mean of several; the benchmark checks the promise for the mean.
LIMITED = [
    "bucket of 50/s",
    "bucket of 25/s, burst 25, fast",
    "50 in every second",
    "16 at once",
    "two workers on 50/s",
]


@pytest.mark.parametrize("name", RANDOM)
def test_random_refusals_cost_little_throughput(name: str) -> None:
    assert measure(replace(SCENARIOS[name], seconds=30.0), range(1)).use >= 0.85


def test_chance_at_the_start_makes_no_limit() -> None:
    """With this seed, many of the first attempts are refused."""
    assert measure(replace(SCENARIOS["random 5 %"], seconds=30.0), [4]).use >= 0.85


def test_random_refusals_do_not_collapse_throughput_on_a_busy_machine() -> None:
    """With late steps, the few attempts of the last second say little about the endpoint's capacity."""
    alone = replace(SCENARIOS["no limit"], latency=0.5, busy=True, seconds=40.0)
    refused = replace(SCENARIOS["random 5 %"], latency=0.5, busy=True, seconds=40.0)
    assert measure(refused, range(3)).use >= 0.6 * measure(alone, range(3)).use


@pytest.mark.parametrize("name", LIMITED)
def test_a_limit_is_used_and_attempts_are_seldom_refused(name: str) -> None:
    result = measure(replace(SCENARIOS[name], seconds=30.0), range(1))
    assert result.use >= 0.9
    assert result.refused <= 0.07


@pytest.mark.parametrize("trouble", ["limit of 25/s", "8 at once", "503 to everything"])
def test_a_limit_that_was_lifted_is_forgotten_within_ten_seconds(trouble: str) -> None:
    seconds = measure_recovery(trouble, 0)
    assert seconds is not None
    assert seconds <= 10
