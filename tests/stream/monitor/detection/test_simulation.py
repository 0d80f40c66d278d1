"""The simulator in benchmarks/detector_simulation.py behaves exactly like the detector."""

import numpy as np
import pytest

from benchmarks.detector_simulation import (
    NEVER,
    Follower,
    Numbers,
    Pairing,
    SimulatedScores,
    Watch,
    composite,
    mixed_rates,
    passes,
    quantile,
    simulate_drop,
    simulate_quiet,
    three_levels,
)
from stream.monitor.detection import (
    EventKind,
    Settings,
    State,
    VersionSettings,
    VersionSide,
    VersionState,
    observe,
    observe_version,
)

RUNS = 12
RATE = 50
STEP = 3600.0 / RATE


def draw_runs(before: SimulatedScores, after: SimulatedScores, seed: int) -> tuple[Numbers, Numbers]:
    """Return scores and probabilities of all runs: 150 before a drop, 450 after it."""
    rng = np.random.default_rng(seed)
    parts = [scores.draw(rng, (count, RUNS)) for scores, count in ((before, 150), (after, 450))]
    values = np.concatenate([part[0] for part in parts])
    probabilities = np.concatenate([np.ones(part[0].shape) if part[1] is None else part[1] for part in parts])
    return values, probabilities


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (passes(0.9), passes(0.6)),
        (three_levels(0.9), three_levels(0.6)),
        (composite(0.9), composite(0.7)),
        (mixed_rates(0.9), mixed_rates(0.6)),
    ],
    ids=["passes", "levels", "composite", "mixed"],
)
def test_the_simulated_alarms_are_those_of_the_detector(before: SimulatedScores, after: SimulatedScores) -> None:
    values, probabilities = draw_runs(before, after, 1)
    settings = Settings(target=0.85, window=100)
    watch, follower = Watch(settings, RUNS), Follower(RUNS)
    states = [State()] * RUNS
    simulated: dict[int, tuple[int, int]] = {}
    real: dict[int, tuple[int, int]] = {}
    for number, (scores, chances) in enumerate(zip(values, probabilities, strict=True)):
        weights = watch.weights.older
        scale = np.maximum(settings.floor, np.minimum(settings.lowest_probability, weights))
        short = np.minimum(1.0, scale / chances) * (0.85 - scores)
        alarms = watch.step(scores, chances, STEP if number else 0.0)
        follower.step(number, watch.bettor, short)
        suspected = follower.suspect_onsets(watch.bettor)
        for run in range(RUNS):
            if alarms[run]:
                simulated.setdefault(run, (number, int(suspected[run])))
            if run in real:
                continue
            states[run], event = observe(
                states[run], settings, float(scores[run]), float(chances[run]), at=number * STEP
            )
            if event is not None:
                assert event.kind is EventKind.RAISED
                real[run] = (number, round(event.onset_at / STEP))
        for run in range(RUNS):
            if run not in real:
                assert states[run].evidence == tuple(watch.bettor.evidence[:, run].tolist())
    assert simulated == real
    assert len(real) > RUNS // 2


def test_the_simulated_comparison_is_that_of_two_versions() -> None:
    rng = np.random.default_rng(2)
    settings = VersionSettings(lowest_probability=0.05, floor=0.05)
    pairing, states = Pairing(settings, RUNS), [VersionState()] * RUNS
    simulated, real = np.full(RUNS, NEVER), np.full(RUNS, NEVER)
    for number in range(600):
        is_a = rng.random(RUNS) < 0.3
        values, chances = mixed_rates(0.7).draw(rng, (1, RUNS))
        assert chances is not None
        scores = np.where(is_a, values[0], 1.0)
        alarms = pairing.step(is_a, scores, 0.05 / chances[0])
        simulated[alarms & (simulated == NEVER)] = number
        for run in range(RUNS):
            side = VersionSide.A if is_a[run] else VersionSide.B
            states[run], news = observe_version(states[run], settings, side, float(scores[run]), float(chances[0, run]))
            if news:
                real[run] = number
    assert simulated.tolist() == real.tolist()
    assert np.count_nonzero(real != NEVER) > RUNS // 2


def test_false_alarms_are_as_rare_as_promised_where_they_are_most_likely() -> None:
    """The mean is exactly the target for ten days at 20 scores an hour; at most a third of 1 % is expected."""
    alarms_by_method = simulate_quiet(passes(0.85), 20, runs=600, seed=3, settings=Settings(target=0.85), days=10)
    assert np.count_nonzero(alarms_by_method["detector"].alarmed) <= 6
    assert alarms_by_method["window"].share == 1.0


def test_delays_are_as_short_as_promised() -> None:
    for after, limit in ((0.6, 100), (0.7, 240)):
        drop = simulate_drop(passes(0.9), passes(after), 200, runs=200, seed=4, settings=Settings(target=0.85))
        assert quantile(drop.delays["detector"], 0.5) <= limit
