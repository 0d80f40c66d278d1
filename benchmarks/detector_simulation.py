"""Simulates thousands of series with the detector of `stream.monitor.detection` and its usual alternatives.

All series advance together, one score at a time, as numpy arrays. `tests/stream/monitor/detection/test_simulation.py`
checks that the simulated detector raises its alarms at the same scores as the real one.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stream.monitor.detection import Settings, VersionSettings, VersionSide, WeightedTally, interval
from stream.monitor.detection.evidence import DIVISION, ODDS
from stream.monitor.detection.onset import ASKED, FOLLOWED

Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Generator = np.random.Generator

SIZE = 10_000
DAYS = 30.0
TARGET = 0.85
# Scores before a drop, so that it is in the middle of a long run.
BEFORE = 2_000
NEVER = np.iinfo(np.int64).max
RIVALS = ("interval", "window", "CUSUM")

# The CUSUM sums the distances of scores below the aim, which is best for a drop from 0.90 to 0.70. It raises an alarm
# at the limit; 99 % of 4,000 runs of 30 days at 50 scores an hour stayed below it.
CUSUM_AIM, CUSUM_LIMIT = 0.814, 9.19


# Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedScores:
    """Ten thousand equally likely scores, and the probabilities with which their records were sampled."""

    values: Numbers
    probabilities: Numbers | None = None

    @property
    def mean(self) -> float:
        """The mean of all traffic."""
        weights = None if self.probabilities is None else 1.0 / self.probabilities
        return float(np.average(self.values, weights=weights))

    def draw(self, rng: Generator, shape: tuple[int, int]) -> tuple[Numbers, Numbers | None]:
        which = rng.integers(0, len(self.values), shape, dtype=np.uint16)
        return self.values[which], None if self.probabilities is None else self.probabilities[which]


def passes(mean: float) -> SimulatedScores:
    """Return passes and fails with this mean."""
    return levels(1.0 - mean, 0.0, mean)


def levels(bad: float, middling: float, good: float) -> SimulatedScores:
    """Return scores of 0, a half and 1, like those of groundedness."""
    counts = [round(SIZE * share) for share in (bad, middling, good)]
    return SimulatedScores(values=np.repeat([0.0, 0.5, 1.0], counts))


def three_levels(mean: float) -> SimulatedScores:
    """Return scores of 0, a half and 1; middling answers account for a quarter of the shortfall."""
    lost = 1.0 - mean
    return levels(0.75 * lost, 0.5 * lost, 1.0 - 1.25 * lost)


def composite(mean: float) -> SimulatedScores:
    """Return scores like those of composites: continuous, and crowded near the top."""
    values = np.sort(np.random.default_rng(7).beta(4.0, 0.9, SIZE))
    low, high = 0.01, 20.0
    for _halving in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if float(np.mean(values**middle)) > mean else (low, middle)
    return SimulatedScores(values=values**low)


def mixed_rates(mean: float) -> SimulatedScores:
    """Return scores of traffic with two sampling rates: 5 % is risky, mostly bad and always judged; of the rest, 5 %.

    So half of the scores belong to risky traffic, and the plain mean of scores says little about all traffic.
    """
    risky = round(SIZE * 0.05 / (0.05 + 0.95 * 0.05))
    others = SIZE - risky
    risky_good = round(0.45 * risky)
    good = math.ceil((mean * (risky + 20 * others) - risky_good) / 20)
    return SimulatedScores(
        values=np.repeat([1.0, 0.0, 1.0, 0.0], [risky_good, risky - risky_good, good, others - good]),
        probabilities=np.repeat([1.0, 0.05], [risky, others]),
    )


# Detectors, many at a time


class Bettor:
    """The evidence of `stream.monitor.detection` for many series: a row for each bet."""

    def __init__(self, line: float | Numbers, runs: int) -> None:
        self.line = line
        odds, self._division = np.array(ODDS)[:, None], np.array(DIVISION)[:, None]
        self.stakes = (odds - 1.0) / (line + odds * (1.0 - line))
        self.evidence = np.zeros((len(ODDS), runs))

    def start(self, capital: float) -> None:
        self.evidence += self._division * capital

    def step(self, short: Numbers, fresh: float) -> Numbers:
        self.evidence *= 1.0 + self.stakes * short
        self.evidence += self._division * fresh
        total: Numbers = self.evidence.sum(axis=0)
        return total

    def forget(self, which: Flags) -> None:
        self.evidence[:, which] = 0.0


@dataclass
class Weights:
    """Weights relative to the heaviest of the last one or two windows, as the detector learns them."""

    settings: Settings
    runs: int
    scores: int = 0
    older: Numbers = field(init=False)
    newer: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self.older, self.newer = np.ones(self.runs), np.ones(self.runs)

    def step(self, probabilities: Numbers) -> Numbers:
        scale = np.maximum(self.settings.floor, np.minimum(self.settings.lowest_probability, self.older))
        self.older, self.newer = np.minimum(self.older, probabilities), np.minimum(self.newer, probabilities)
        self.scores += 1
        if self.scores % self.settings.window == 0:
            self.older, self.newer = self.newer, np.ones(self.runs)
        return np.minimum(1.0, scale / probabilities)


@dataclass
class Watch:
    """The detector without an alarm yet."""

    settings: Settings
    runs: int
    target: float | Numbers = TARGET
    bettor: Bettor = field(init=False)
    weights: Weights = field(init=False)

    def __post_init__(self) -> None:
        self.bettor = Bettor(self.target, self.runs)
        self.weights = Weights(self.settings, self.runs)

    def step(self, scores: Numbers, probabilities: Numbers | None, passed: float) -> Flags:
        short = self.target - scores
        if probabilities is not None:
            short = self.weights.step(probabilities) * short
        alerts: Flags = (
            self.bettor.step(short, passed / self.settings.period_seconds) * self.settings.alert_alpha >= 1.0
        )
        return alerts


@dataclass
class Rivals:
    """The usual alternatives, for many series. They ignore weights."""

    rate: int
    runs: int
    target: float = TARGET
    scores: int = 0
    last: Numbers = field(init=False)
    total: Numbers = field(init=False)
    squares: Numbers = field(init=False)
    short: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self.last = np.zeros((self.rate, self.runs))
        self.total, self.squares, self.short = np.zeros(self.runs), np.zeros(self.runs), np.zeros(self.runs)

    def step(self, scores: Numbers) -> dict[str, Flags]:
        place = self.scores % self.rate
        self.scores += 1
        oldest = self.last[place]
        self.total += scores - oldest
        self.squares += scores * scores - oldest * oldest
        self.last[place] = scores
        self.short = np.maximum(0.0, self.short + (CUSUM_AIM - scores))
        mean = self.total / self.rate
        if self.scores < self.rate:
            low = sure = np.zeros(self.runs, dtype=np.bool_)
        else:
            # Sums of differences are not exact.
            short = self.target - 1e-9 - mean
            low = short > 0.0
            sure = low & (short * short * (self.rate - 1) > 1.96**2 * (self.squares / self.rate - mean * mean))
        return {"window": low, "interval": sure, "CUSUM": self.short >= CUSUM_LIMIT}


# False alarms


@dataclass
class Silence:
    """Runs without a drop: which of them had an alarm, and the number of alarms in all of them."""

    alarmed: Flags
    episodes: int = 0

    @property
    def share(self) -> float:
        return float(np.mean(self.alarmed))

    @property
    def per_run(self) -> float:
        return self.episodes / len(self.alarmed)


def simulate_quiet(
    scores: SimulatedScores,
    rate: int,
    *,
    runs: int,
    seed: int,
    settings: Settings,
    target: float | Numbers = TARGET,
    arrivals: Callable[[int], float] | None = None,
    with_rivals: bool = True,
    days: float = DAYS,
) -> dict[str, Silence]:
    """Simulate days without a drop, thirty by default."""
    rng = np.random.default_rng(seed)
    watch, rivals = Watch(settings, runs, target), Rivals(rate, runs)
    names = ("detector", *RIVALS) if with_rivals else ("detector",)
    silences = {name: Silence(np.zeros(runs, dtype=np.bool_)) for name in names}
    before = {name: silences[name].alarmed for name in names}
    for number, (values, probabilities) in enumerate(stream(scores, rng, int(days * 24 * rate), runs)):
        passed = 3600.0 / rate if arrivals is None else arrivals(number)
        alerts = watch.step(values, probabilities, passed if number else 0.0)
        if np.any(alerts):
            silences["detector"].alarmed |= alerts
            watch.bettor.forget(alerts)
        if with_rivals:
            now = rivals.step(values)
            for name, others in now.items():
                silences[name].episodes += int(np.count_nonzero(others > before[name]))
                silences[name].alarmed = silences[name].alarmed | others
            before = now
    return silences


def stream(scores: SimulatedScores, rng: Generator, count: int, runs: int) -> Iterator[tuple[Numbers, Numbers | None]]:
    """Yield the next score of every run, `count` times."""
    chunk = 500
    for start in range(0, count, chunk):
        values, probabilities = scores.draw(rng, (min(chunk, count - start), runs))
        for row in range(len(values)):
            yield values[row], None if probabilities is None else probabilities[row]


def arrive_in_rounds(size: int, rate: int) -> Callable[[int], float]:
    """Return gaps between arrivals: `size` scores at the same moment, then silence."""
    return lambda number: 3600.0 * size / rate if number % size == 0 else 0.0


# Delays


@dataclass
class Drop:
    """Number of scores from the drop to the alarm, and to the suspected onset, in runs without an earlier alarm."""

    delays: dict[str, Counts]
    onsets: Counts


@dataclass
class Follower:
    """The suspected onsets of `stream.monitor.detection`, for many series."""

    runs: int
    capital: Numbers = field(init=False)
    began: Counts = field(init=False)

    def __post_init__(self) -> None:
        self.capital = np.ones((len(FOLLOWED), self.runs))
        self.began = np.zeros((len(FOLLOWED), self.runs), dtype=np.int64)

    def step(self, number: int, bettor: Bettor, short: Numbers) -> None:
        self.began[self.capital <= 1.0] = number
        for place, bet in enumerate(FOLLOWED):
            grown = np.maximum(1.0, self.capital[place]) * (1.0 + bettor.stakes[bet] * short)
            self.capital[place] = np.minimum(1e300, grown)

    def suspect_onsets(self, bettor: Bettor) -> Counts:
        asked = np.array(ASKED)[np.argmax(bettor.evidence, axis=0)]
        onsets: Counts = self.began[asked, np.arange(self.runs)]
        return onsets


def simulate_drop(
    before: SimulatedScores,
    after: SimulatedScores,
    rate: int,
    *,
    runs: int,
    seed: int,
    settings: Settings,
    lead: int = BEFORE,
    most: int = 5_000,
) -> Drop:
    """Simulate a drop after `lead` scores, until all runs have raised an alarm or for `most` scores."""
    rng = np.random.default_rng(seed)
    assert settings.target is not None
    watch, rivals = Watch(settings, runs, settings.target), Rivals(rate, runs, settings.target)
    delays = {name: np.full(runs, NEVER) for name in ("detector", *RIVALS)}
    follower, onsets = Follower(runs), np.zeros(runs, dtype=np.int64)
    scores = itertools.chain(stream(before, rng, lead, runs), stream(after, rng, most, runs))
    for number, (values, probabilities) in enumerate(scores, -lead):
        alerts = rivals.step(values) | {"detector": watch.step(values, probabilities, 3600.0 / rate)}
        weight = 1.0 if probabilities is None else settings.lowest_probability / probabilities
        follower.step(number, watch.bettor, weight * (settings.target - values))
        if number < 0:
            watch.bettor.forget(alerts["detector"])
            continue
        onsets = np.where(delays["detector"] == NEVER, follower.suspect_onsets(watch.bettor), onsets)
        for name, raised in alerts.items():
            delays[name][raised & (delays[name] == NEVER)] = number + 1
        watch.bettor.forget(alerts["detector"])
        if all(np.all(delay != NEVER) for delay in delays.values()):
            break
    return Drop(delays, onsets)


# Clearing, versions, intervals


def simulate_clearing(
    scores: SimulatedScores, rate: int, *, runs: int, seed: int, settings: Settings, most: int
) -> Counts:
    """Return the number of scores from an alarm to its end, if all scores after the alarm are like these."""
    rng = np.random.default_rng(seed)
    assert settings.target is not None
    line = settings.target - settings.margin
    bettor, cleared = Bettor(1.0 - line, runs), np.full(runs, NEVER)
    for number, (values, _probabilities) in enumerate(stream(scores, rng, most, runs)):
        enough = bettor.step(values - line, 3600.0 / rate / settings.clear_seconds) * settings.clear_alpha >= 1.0
        cleared[enough & (cleared == NEVER)] = number + 1
        bettor.forget(enough)
    return cleared


@dataclass
class Pairing:
    """The comparison of `stream.monitor.detection.version_comparison`, for many pairs of versions."""

    settings: VersionSettings
    runs: int
    sums: dict[VersionSide, list[Numbers]] = field(init=False)
    bettor: Bettor = field(init=False)

    def __post_init__(self) -> None:
        self.sums = {side: [np.zeros(self.runs) for _sum in range(3)] for side in VersionSide}
        self.bettor = Bettor((1.0 - self.settings.margin) / 2.0, self.runs)
        self.bettor.start(1.0)

    def step(self, is_a: Flags, scores: Numbers, weights: Numbers | float = 1.0) -> Flags:
        for side, belongs in ((VersionSide.A, is_a), (VersionSide.B, ~is_a)):
            for number, part in enumerate((1.0, weights, weights * scores)):
                self.sums[side][number] += np.where(belongs, part, 0.0)
        a, b = self.sums[VersionSide.A], self.sums[VersionSide.B]
        paired = (a[0] > 0.0) & (b[0] > 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            weight = a[1] / a[0] * (b[1] / b[0])
            standing = (1.0 + a[2] / a[1] - b[2] / b[1]) / 2.0
        short = np.where(paired, weight * (self.bettor.line - standing), 0.0)
        for total in (*a, *b):
            total[paired] = 0.0
        alerts: Flags = self.bettor.step(short, 0.0) * self.settings.alpha >= 1.0
        return alerts


def simulate_comparison(
    a: SimulatedScores,
    b: SimulatedScores,
    *,
    share_of_a: float,
    runs: int,
    seed: int,
    settings: VersionSettings,
    most: int,
) -> Counts:
    """Return the number of scores of both versions until A is found to be worse."""
    rng = np.random.default_rng(seed)
    pairing, delays = Pairing(settings, runs), np.full(runs, NEVER)
    for number in range(most):
        is_a = rng.random(runs) < share_of_a
        (a_values, a_probabilities), (b_values, b_probabilities) = (scores.draw(rng, (1, runs)) for scores in (a, b))
        values = np.where(is_a, a_values[0], b_values[0])
        weights: Numbers | float = 1.0
        if a_probabilities is not None and b_probabilities is not None:
            weights = settings.lowest_probability / np.where(is_a, a_probabilities[0], b_probabilities[0])
        alerts = pairing.step(is_a, values, weights)
        delays[alerts & (delays == NEVER)] = number + 1
        pairing.bettor.forget(alerts)
        if np.all(delays != NEVER):
            break
    return delays


def measure_coverage(
    scores: SimulatedScores, *, runs: int, seed: int, miss: float = 0.05, most: int = 1_000
) -> tuple[float, float]:
    """Return the share of runs whose interval is wrong at any of a dozen looks, and the mean width at the last one."""
    rng = np.random.default_rng(seed)
    looks = set(np.unique(np.geomspace(10, most, 12).astype(int)).tolist())
    missed, width = 0, 0.0
    for _run in range(runs):
        values, probabilities = scores.draw(rng, (most, 1))
        tally, is_missed = WeightedTally(), False
        for number in range(most):
            weight = 1.0 if probabilities is None else 0.05 / float(probabilities[number, 0])
            tally = tally.plus(float(values[number, 0]), weight)
            if number + 1 in looks:
                bounds = interval(tally, miss)
                is_missed |= not bounds.low <= scores.mean <= bounds.high
        missed += is_missed
        width += (bounds.high - bounds.low) / runs
    return missed / runs, width


def quantile(counts: Counts, level: float) -> int:
    """Return a quantile without interpolation: there is no value halfway to "never"."""
    return int(np.sort(counts)[math.ceil(level * len(counts)) - 1])
