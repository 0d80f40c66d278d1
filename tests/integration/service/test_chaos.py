"""A short chaos run: after kills, restarts and outages every interaction is accounted for."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.chaos.plan import LONG, SHORT, Kind, Plan, schedule
from tests.chaos.report import table
from tests.chaos.run import run
from tests.parts import kafka
from tests.parts.patience import patience
from tests.parts.required import unavailable


def test_a_seed_reproduces_its_schedule_and_another_seed_gives_another_one() -> None:
    assert schedule(SHORT, 7) == schedule(SHORT, 7)
    assert schedule(SHORT, 7) != schedule(SHORT, 8)


@pytest.mark.parametrize("plan", [SHORT, LONG], ids=["short", "long"])
def test_a_schedule_has_every_fault_and_kills_no_dead_process(plan: Plan) -> None:
    for seed in range(50):
        events = schedule(plan, seed)
        kinds = [event.kind for event in events]
        assert kinds.count(Kind.KILL) == 20
        assert [kinds.count(kind) for kind in (Kind.BROKER_CRASH, Kind.BROKER_STOP, Kind.OUTAGE)] == [1, 1, 1]
        back: dict[str, float] = {}
        for event in events:
            if event.kind is Kind.KILL:
                assert event.at > back.get(event.target, 0.0)
                back[event.target] = event.at + event.lasts


@pytest.mark.xdist_group("own-kafka")
@pytest.mark.slow
def test_no_interaction_is_lost_or_duplicated_whatever_is_killed(tmp_path: Path) -> None:
    """A failed run reports its seed; `make chaos ARGS="--seed N"` repeats the schedule."""
    if reason := kafka.why_unavailable():
        unavailable(reason)
    seed = random.SystemRandom().randrange(1_000_000)
    # Half of `make chaos`, and no limit on the recovery of a worker: beside other tests, processes start slowly.
    plan = replace(SHORT, interactions=5_000, feed_seconds=75.0, outage_seconds=15.0, restart_seconds=60.0 * patience())
    result = run(plan, seed=seed, folder=tmp_path, say=print)
    console = Console(width=120)
    console.print(table(result.checks, f"chaos with seed {seed}"))
    for note in result.notes:
        console.print(note, markup=False)
    assert result.ok, f"seed {seed}: " + "; ".join(f"{c.what}: {c.figure}" for c in result.checks if not c.ok)
