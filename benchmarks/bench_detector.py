"""False alarms and delays of the detector, in invented traffic that is looked at after every score.

Thousands of series are simulated side by side; that the detector itself raises its alarms at the same scores is tested.
Beside it, in the same runs, what is often used instead:

window     the mean of the last hour is below the target
interval   the last hour's mean and its whole 95 % interval are below the target
CUSUM      tuned to 1 % false alarms in 30 days: for passes and fails, with a mean of 0.90, at 50 scores an hour

    PYTHONPATH=. python benchmarks/bench_detector.py --runs 100
"""

import argparse
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.table import Table

from stream.detection import Settings, Side, Tally, VersionSettings, canary_settings, interval, lower_bound
from stream.detection.bets import DIVISION, ODDS
from stream.detection.onset import ASKED, FOLLOWED

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Generator = np.random.Generator

RUNS = 2_000
# So many times more where chance matters most.
MANY = 5
SIZE = 10_000
DAYS = 30
RATES = (20, 50, 200)
TARGET = 0.85
# A drop is in the middle of a long run: so many scores come before it.
BEFORE = 2_000
NEVER = np.iinfo(np.int64).max

# The CUSUM adds up what scores are short of the one, best for a drop from 0.90 to 0.70, and alarms at the other, which
# 99 % of 4,000 runs of 30 days at 50 scores an hour stayed below.
CUSUM_AIM, CUSUM_LIMIT = 0.814, 9.19

# What is promised, of passes and fails, the hardest scores there are.
MOST_FALSE = 0.01
MOST_DELAY = {0.6: 100, 0.7: 240}
MOST_CANARIES = 250


# Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Ten thousand scores, each as likely as any other, and the probability with which its record was chosen."""

    values: Numbers
    probabilities: Numbers | None = None

    @property
    def mean(self) -> float:
        """Of all traffic."""
        weights = None if self.probabilities is None else 1.0 / self.probabilities
        return float(np.average(self.values, weights=weights))

    def drawn(self, rng: Generator, shape: tuple[int, int]) -> tuple[Numbers, Numbers | None]:
        which = rng.integers(0, len(self.values), shape, dtype=np.uint16)
        return self.values[which], None if self.probabilities is None else self.probabilities[which]


def passes(mean: float) -> Scores:
    """Passes and fails."""
    return levels(1.0 - mean, 0.0, mean)


def levels(bad: float, middling: float, good: float) -> Scores:
    """Scores of 0, a half and 1, as groundedness has."""
    counts = [round(SIZE * share) for share in (bad, middling, good)]
    return Scores(values=np.repeat([0.0, 0.5, 1.0], counts))


def three_levels(mean: float) -> Scores:
    """As many middling answers as make a quarter of what is not good."""
    lost = 1.0 - mean
    return levels(0.75 * lost, 0.5 * lost, 1.0 - 1.25 * lost)


def composite(mean: float) -> Scores:
    """Scores like those of composites: anything in between, and crowded near the top."""
    drawn = np.sort(np.random.default_rng(7).beta(4.0, 0.9, SIZE))
    low, high = 0.01, 20.0
    for _halving in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if float(np.mean(drawn**middle)) > mean else (low, middle)
    return Scores(values=drawn**low)


def mixed(mean: float) -> Scores:
    """5 % of the traffic is risky, mostly bad and always judged; of the rest 5 % is judged.

    So half of the scores are of the risky traffic, and their plain mean says nothing about all of it.
    """
    risky = round(SIZE * 0.05 / (0.05 + 0.95 * 0.05))
    others = SIZE - risky
    risky_good = round(0.45 * risky)
    good = math.ceil((mean * (risky + 20 * others) - risky_good) / 20)
    return Scores(
        values=np.repeat([1.0, 0.0, 1.0, 0.0], [risky_good, risky - risky_good, good, others - good]),
        probabilities=np.repeat([1.0, 0.05], [risky, others]),
    )


# Detectors, many at a time


class Bettor:
    """The evidence of `stream.detection`, for many series: a row for each bet."""

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
        alarms: Flags = (
            self.bettor.step(short, passed / self.settings.period_seconds) * self.settings.alarm_alpha >= 1.0
        )
        return alarms


@dataclass
class Rivals:
    """What is often used instead, for many series. They know nothing of weights."""

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
        gone = self.last[place]
        self.total += scores - gone
        self.squares += scores * scores - gone * gone
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
    """Runs without a drop: which had an alarm, and how many began in all of them."""

    alarmed: Flags
    episodes: int = 0

    @property
    def share(self) -> float:
        return float(np.mean(self.alarmed))

    @property
    def per_run(self) -> float:
        return self.episodes / len(self.alarmed)


def quiet(
    scores: Scores,
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
    """Thirty days without a drop."""
    rng = np.random.default_rng(seed)
    watch, rivals = Watch(settings, runs, target), Rivals(rate, runs)
    names = ("detector", "window", "interval", "CUSUM") if with_rivals else ("detector",)
    found = {name: Silence(np.zeros(runs, dtype=np.bool_)) for name in names}
    before = {name: found[name].alarmed for name in names}
    for number, (values, probabilities) in enumerate(stream(scores, rng, int(days * 24 * rate), runs)):
        passed = 3600.0 / rate if arrivals is None else arrivals(number)
        alarms = watch.step(values, probabilities, passed if number else 0.0)
        if np.any(alarms):
            found["detector"].alarmed |= alarms
            watch.bettor.forget(alarms)
        if with_rivals:
            now = rivals.step(values)
            for name, others in now.items():
                found[name].episodes += int(np.count_nonzero(others > before[name]))
                found[name].alarmed = found[name].alarmed | others
            before = now
    return found


def stream(scores: Scores, rng: Generator, count: int, runs: int) -> Iterator[tuple[Numbers, Numbers | None]]:
    """The next score of every run, so many times."""
    chunk = 500
    for start in range(0, count, chunk):
        values, probabilities = scores.drawn(rng, (min(chunk, count - start), runs))
        for row in range(len(values)):
            yield values[row], None if probabilities is None else probabilities[row]


def in_rounds(size: int, rate: int) -> Callable[[int], float]:
    """So many scores at the same time, then silence."""
    return lambda number: 3600.0 * size / rate if number % size == 0 else 0.0


# Delays


@dataclass
class Drop:
    """Scores from the drop to the alarm, and to the suspected onset; of runs that had no alarm before it."""

    delays: dict[str, npt.NDArray[np.int64]]
    onsets: npt.NDArray[np.int64]


@dataclass
class Follower:
    """The suspected onsets of `stream.detection`, for many series."""

    runs: int
    capital: Numbers = field(init=False)
    began: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.capital = np.ones((len(FOLLOWED), self.runs))
        self.began = np.zeros((len(FOLLOWED), self.runs), dtype=np.int64)

    def step(self, number: int, bettor: Bettor, short: Numbers) -> None:
        self.began[self.capital <= 1.0] = number
        for place, bet in enumerate(FOLLOWED):
            grown = np.maximum(1.0, self.capital[place]) * (1.0 + bettor.stakes[bet] * short)
            self.capital[place] = np.minimum(1e300, grown)

    def suspected(self, bettor: Bettor) -> npt.NDArray[np.int64]:
        asked = np.array(ASKED)[np.argmax(bettor.evidence, axis=0)]
        found: npt.NDArray[np.int64] = self.began[asked, np.arange(self.runs)]
        return found


def dropping(
    before: Scores, after: Scores, rate: int, *, runs: int, seed: int, settings: Settings, most: int = 5_000
) -> Drop:
    """A drop in the middle of a long run."""
    rng = np.random.default_rng(seed)
    assert settings.target is not None
    watch, rivals = Watch(settings, runs, settings.target), Rivals(rate, runs, settings.target)
    delays = {name: np.full(runs, NEVER) for name in ("detector", "window", "interval", "CUSUM")}
    follower, onsets = Follower(runs), np.zeros(runs, dtype=np.int64)
    scores = itertools.chain(stream(before, rng, BEFORE, runs), stream(after, rng, most, runs))
    for number, (values, probabilities) in enumerate(scores, -BEFORE):
        alarms = rivals.step(values) | {"detector": watch.step(values, probabilities, 3600.0 / rate)}
        weight = 1.0 if probabilities is None else settings.lowest_probability / probabilities
        follower.step(number, watch.bettor, weight * (settings.target - values))
        if number < 0:
            watch.bettor.forget(alarms["detector"])
            continue
        onsets = np.where(delays["detector"] == NEVER, follower.suspected(watch.bettor), onsets)
        for name, alarm in alarms.items():
            delays[name][alarm & (delays[name] == NEVER)] = number + 1
        watch.bettor.forget(alarms["detector"])
        if all(np.all(found != NEVER) for found in delays.values()):
            break
    return Drop(delays, onsets)


# Clearing, versions, intervals


def clearing(
    scores: Scores, rate: int, *, runs: int, seed: int, settings: Settings, most: int
) -> npt.NDArray[np.int64]:
    """Scores from the alarm to its end, if all scores after it are like these."""
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
    """The comparison of `stream.detection.versions`, for many pairs of versions."""

    settings: VersionSettings
    runs: int
    sums: dict[Side, list[Numbers]] = field(init=False)
    bettor: Bettor = field(init=False)

    def __post_init__(self) -> None:
        self.sums = {side: [np.zeros(self.runs) for _sum in range(3)] for side in Side}
        self.bettor = Bettor((1.0 - self.settings.margin) / 2.0, self.runs)
        self.bettor.start(1.0)

    def step(self, is_a: Flags, scores: Numbers, weights: Numbers | float = 1.0) -> Flags:
        for side, belongs in ((Side.A, is_a), (Side.B, ~is_a)):
            for number, part in enumerate((1.0, weights, weights * scores)):
                self.sums[side][number] += np.where(belongs, part, 0.0)
        a, b = self.sums[Side.A], self.sums[Side.B]
        paired = (a[0] > 0.0) & (b[0] > 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            weight = a[1] / a[0] * (b[1] / b[0])
            standing = (1.0 + a[2] / a[1] - b[2] / b[1]) / 2.0
        short = np.where(paired, weight * (self.bettor.line - standing), 0.0)
        for total in (*a, *b):
            total[paired] = 0.0
        alarms: Flags = self.bettor.step(short, 0.0) * self.settings.alpha >= 1.0
        return alarms


def comparing(
    a: Scores, b: Scores, *, share_of_a: float, runs: int, seed: int, settings: VersionSettings, most: int
) -> npt.NDArray[np.int64]:
    """Scores of both until A turns out to be worse."""
    rng = np.random.default_rng(seed)
    pairing, found = Pairing(settings, runs), np.full(runs, NEVER)
    for number in range(most):
        is_a = rng.random(runs) < share_of_a
        drawn = [scores.drawn(rng, (1, runs)) for scores in (a, b)]
        values = np.where(is_a, drawn[0][0][0], drawn[1][0][0])
        weights: Numbers | float = 1.0
        if drawn[0][1] is not None and drawn[1][1] is not None:
            weights = settings.lowest_probability / np.where(is_a, drawn[0][1][0], drawn[1][1][0])
        alarms = pairing.step(is_a, values, weights)
        found[alarms & (found == NEVER)] = number + 1
        pairing.bettor.forget(alarms)
        if np.all(found != NEVER):
            break
    return found


def covering(scores: Scores, *, runs: int, seed: int, miss: float = 0.05, most: int = 1_000) -> tuple[float, float]:
    """How many of the runs have an interval that is wrong at any of a dozen looks, and how wide it is in the end."""
    rng = np.random.default_rng(seed)
    looks = set(np.unique(np.geomspace(10, most, 12).astype(int)).tolist())
    missed, width = 0, 0.0
    for _run in range(runs):
        values, probabilities = scores.drawn(rng, (most, 1))
        tally, is_missed = Tally(), False
        for number in range(most):
            weight = 1.0 if probabilities is None else 0.05 / float(probabilities[number, 0])
            tally = tally.plus(float(values[number, 0]), weight)
            if number + 1 in looks:
                found = interval(tally, miss)
                is_missed |= not found.low <= scores.mean <= found.high
        missed += is_missed
        width += (found.high - found.low) / runs
    return missed / runs, width


# Tables


class Report:
    """Prints the tables, and remembers what is not as promised."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.broken: list[str] = []
        self.console = Console(width=140)

    def hold(self, name: str, is_so: bool) -> None:
        if not is_so:
            self.broken.append(name)

    def hold_share(self, name: str, share: float, most: float, *, on_the_edge: bool, runs: int | None = None) -> None:
        """Of runs with something that should be rare. Where it is just as rare as promised, chance has its say."""
        chance = 2.6 * math.sqrt(most * (1.0 - most) / (runs or self.runs)) if on_the_edge else 0.0
        self.hold(name, share <= most + chance)

    def table(self, title: str, columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> None:
        begun = time.monotonic()
        made = Table(*columns, title=title, box=box.MARKDOWN)
        for row in rows:
            made.add_row(*row)
        self.console.print(made)
        print(f"{time.monotonic() - begun:.0f} s", file=sys.stderr)


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def false_alarms(report: Report) -> Iterator[tuple[str, ...]]:
    for kind, made in {"pass/fail": passes, "levels": three_levels, "composite": composite}.items():
        for mean in (0.90, TARGET):
            for rate in RATES:
                found = quiet(made(mean), rate, runs=report.runs, seed=rate, settings=Settings(target=TARGET))
                report.hold_share(
                    f"false alarms, {kind} {mean} at {rate}/h",
                    found["detector"].share,
                    MOST_FALSE,
                    on_the_edge=mean == TARGET,
                )
                rivals = (
                    f"{percent(found[name].share)} ({found[name].per_run:.3g})"
                    for name in ("interval", "window", "CUSUM")
                )
                yield kind, f"{mean:.2f}", str(rate), percent(found["detector"].share), *rivals


def special_false_alarms(report: Report) -> Iterator[tuple[str, ...]]:
    runs, fixed = report.runs, Settings(target=TARGET)
    known = Settings(target=TARGET, lowest_probability=0.05)
    canaries = canary_settings()
    for mean in (0.90, TARGET):
        for rate in RATES:
            found = quiet(mixed(mean), rate, runs=runs, seed=rate, settings=known, with_rivals=False)
            yield said(report, "π 1.0 and 0.05 mixed", f"{mean:.2f}", rate, found)
    found = quiet(mixed(TARGET), 50, runs=runs, seed=2, settings=fixed, with_rivals=False)
    yield said(report, "... and not known before", f"{TARGET:.2f}", 50, found)
    for rate in RATES:
        found = quiet(passes(0.985), rate, runs=runs, seed=rate, settings=canaries, target=0.985, with_rivals=False)
        yield said(report, "canaries", "0.985", rate, found)
    for rate in RATES:
        found = quiet(
            passes(0.985),
            rate,
            runs=runs,
            seed=rate,
            settings=canaries,
            target=0.985,
            with_rivals=False,
            arrivals=in_rounds(50, rate),
        )
        yield said(report, "canaries, 50 at a time", "0.985", rate, found)
    rng = np.random.default_rng(3)
    gaps = rng.exponential(1.0, DAYS * 24 * 50) * np.where(np.arange(DAYS * 24 * 50) % 600 < 300, 12.0, 132.0)
    found = quiet(
        passes(TARGET),
        50,
        runs=runs,
        seed=4,
        settings=fixed,
        with_rivals=False,
        arrivals=lambda number: float(gaps[number]),
    )
    yield said(report, "300/h and 27/h in turn", f"{TARGET:.2f}", 50, found)
    learning = Settings(target=None)
    for scores in (500, 1000, 4000):
        targets = learnt_targets(passes(0.90), scores, runs, learning)
        found = quiet(passes(0.90), 50, runs=runs, seed=6, settings=learning, target=targets, with_rivals=False)
        yield said(report, f"target learnt from {scores} scores: {np.median(targets):.3f}", "0.90", 50, found)


def said(report: Report, name: str, mean: str, rate: int, found: dict[str, Silence]) -> tuple[str, ...]:
    share = found["detector"].share
    edge = mean != "0.90"
    report.hold_share(f"false alarms, {name} {mean} at {rate}/h", share, MOST_FALSE, on_the_edge=edge)
    return name, mean, str(rate), percent(share)


def learnt_targets(scores: Scores, count: int, runs: int, settings: Settings) -> Numbers:
    rng = np.random.default_rng(5)
    targets = []
    for _run in range(runs):
        values = scores.drawn(rng, (count, 1))[0]
        total, power = float(values.sum()), float((values * values).sum())
        tally = Tally(count=count, weight=count, total=total, squares=count, cross=total, power=power)
        targets.append(lower_bound(tally, settings.alpha * settings.reference_share))
    return np.array(targets)


def delays(report: Report) -> Iterator[tuple[str, ...]]:
    kinds = {"pass/fail": passes, "levels": three_levels, "composite": composite}
    for kind, made in kinds.items():
        for after in (0.6, 0.7, 0.8):
            for rate in RATES:
                drop = dropping(
                    made(0.90), made(after), rate, runs=report.runs, seed=rate, settings=Settings(target=TARGET)
                )
                yield delayed(report, kind, f"0.90 → {after:.2f}", rate, drop, MOST_DELAY.get(after))
    known = Settings(target=TARGET, lowest_probability=0.05)
    for after in (0.6, 0.7):
        drop = dropping(mixed(0.90), mixed(after), 50, runs=report.runs, seed=1, settings=known)
        yield delayed(report, "π mixed", f"0.90 → {after:.2f}", 50, drop, None)
    for rate in RATES:
        drop = dropping(passes(0.985), passes(0.87), rate, runs=report.runs, seed=rate, settings=canary_settings())
        yield delayed(report, "canaries", "0.985 → 0.87", rate, drop, MOST_CANARIES)


def delayed(report: Report, kind: str, what: str, rate: int, drop: Drop, limit: int | None) -> tuple[str, ...]:
    own = drop.delays["detector"]
    if limit is not None:
        report.hold(f"delay, {kind} {what} at {rate}/h", quantile(own, 0.5) <= limit)
    low, middle, high = (shown(drop.onsets, level) for level in (0.1, 0.5, 0.9))
    figures = (shown(own, level) for level in (0.5, 0.9, 0.99))
    # The others are made for neither weights nor canaries.
    is_theirs = kind not in ("π mixed", "canaries")
    rivals = (shown(drop.delays[name], 0.5) if is_theirs else "–" for name in ("interval", "window", "CUSUM"))
    return kind, what, str(rate), *figures, f"{middle} ({low} to {high})", *rivals


def shown(found: npt.NDArray[np.int64], level: float) -> str:
    """A quantile."""
    number = quantile(found, level)
    return "never" if number == NEVER else str(number)


def quantile(found: npt.NDArray[np.int64], level: float) -> int:
    """One of the numbers themselves: there is nothing halfway to never."""
    return int(np.sort(found)[math.ceil(level * len(found)) - 1])


def on_the_edge(report: Report) -> Iterator[tuple[str, ...]]:
    """Some of what is exactly as rare as promised, with more runs than the other tables have and other seeds."""
    runs = MANY * report.runs
    watched = {"known": Settings(target=TARGET, lowest_probability=0.05), "not known": Settings(target=TARGET)}
    for name, settings in watched.items():
        share = quiet(mixed(TARGET), 20, runs=runs, seed=21, settings=settings, with_rivals=False)["detector"].share
        report.hold_share(f"the edge, π {name}", share, MOST_FALSE, on_the_edge=True, runs=runs)
        yield f"π mixed and {name}, mean {TARGET}, 20 per hour", f"{runs:,}", percent(share)
    compared = {
        "two versions of 0.90, one with 10 %": (passes(0.9), 0.1, VersionSettings()),
        "two versions of 0.90, π mixed": (mixed(0.9), 0.5, VersionSettings(lowest_probability=0.05)),
    }
    for name, (scores, part, settings_of_both) in compared.items():
        found = comparing(scores, scores, share_of_a=part, runs=runs, seed=22, settings=settings_of_both, most=10_000)
        share = float(np.mean(found != NEVER))
        report.hold_share(f"the edge, {name}", share, MOST_FALSE, on_the_edge=True, runs=runs)
        yield name, f"{runs:,}", percent(share)


def clearings(report: Report) -> Iterator[tuple[str, ...]]:
    settings = Settings(target=TARGET)
    for kind, made in {"pass/fail": passes, "composite": composite}.items():
        for mean in (0.95, 0.90, TARGET):
            found = clearing(made(mean), 50, runs=report.runs, seed=8, settings=settings, most=8_000)
            yield (
                kind,
                f"{mean:.2f}",
                shown(found, 0.5),
                shown(found, 0.9),
                "–",
            )
        for mean in (TARGET - settings.margin, 0.75, 0.70):
            found = clearing(made(mean), 50, runs=report.runs, seed=9, settings=settings, most=24 * 50)
            share = float(np.mean(found != NEVER))
            report.hold_share(f"false clearings at {mean}", share, settings.clear_alpha, on_the_edge=mean > 0.75)
            yield kind, f"{mean:.2f}", "–", "–", percent(share)


def versions(report: Report) -> Iterator[tuple[str, ...]]:
    plain, known = VersionSettings(), VersionSettings(lowest_probability=0.05)
    margin = VersionSettings(margin=0.05)
    cases = (
        ("pass/fail", passes(0.9), passes(0.9), 0.5, plain, 10_000),
        ("pass/fail", passes(0.9), passes(0.9), 0.1, plain, 10_000),
        ("pass/fail, margin 0.05", passes(0.85), passes(0.9), 0.5, margin, 10_000),
        ("π mixed", mixed(0.9), mixed(0.9), 0.5, known, 10_000),
        ("pass/fail", passes(0.85), passes(0.9), 0.5, plain, 10_000),
        ("pass/fail", passes(0.80), passes(0.9), 0.5, plain, 10_000),
        ("pass/fail", passes(0.80), passes(0.9), 0.1, plain, 10_000),
        ("pass/fail, margin 0.05", passes(0.75), passes(0.9), 0.5, margin, 10_000),
        ("composite", composite(0.85), composite(0.9), 0.5, plain, 10_000),
        ("π mixed", mixed(0.75), mixed(0.9), 0.5, known, 10_000),
    )
    for kind, a, b, share_of_a, settings, most in cases:
        found = comparing(a, b, share_of_a=share_of_a, runs=report.runs, seed=10, settings=settings, most=most)
        is_null = b.mean - a.mean <= settings.margin + 1e-9
        share = float(np.mean(found != NEVER))
        if is_null:
            name = f"versions, {kind} {a.mean:.2f} and {b.mean:.2f}"
            report.hold_share(name, share, settings.alpha, on_the_edge=True)
        median = "–" if is_null else shown(found, 0.5)
        yield kind, f"{a.mean:.2f}", f"{b.mean:.2f}", f"{share_of_a:.0%}", percent(share), median


def intervals(report: Report) -> Iterator[tuple[str, ...]]:
    runs = max(1, report.runs // 2)
    cases = {
        "pass/fail 0.90": passes(0.9),
        "pass/fail 0.60": passes(0.6),
        "composite 0.90": composite(0.9),
        "π mixed 0.90": mixed(0.9),
    }
    for name, scores in cases.items():
        missed, width = covering(scores, runs=runs, seed=11)
        report.hold(f"intervals, {name}", missed <= 0.05)
        weights = np.ones(SIZE) if scores.probabilities is None else 1.0 / scores.probabilities
        spread = float(np.mean((weights * (scores.values - scores.mean)) ** 2) / np.mean(weights) ** 2)
        yield name, percent(missed), f"± {width / 2:.3f}", f"± {1.96 * math.sqrt(spread / 1_000):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=RUNS)
    report = Report(parser.parse_args().runs)
    runs = f"{report.runs:,} runs"
    rivals = ("95 % interval", "1 h mean", "CUSUM")
    report.table(
        f"30 days without a drop, {runs}: runs with a false alarm (and how many there were in a run)",
        ("scores", "mean", "per hour", "detector", *rivals),
        false_alarms(report),
    )
    report.table(
        f"30 days without a drop, {runs}: runs with a false alarm",
        ("scores", "mean", "per hour", "detector"),
        special_false_alarms(report),
    )
    report.table(
        f"Scores from a drop to the alarm, {runs}",
        ("scores", "drop", "per hour", "median", "90 %", "99 %", "onset (80 %)", *rivals),
        delays(report),
    )
    report.table(
        f"From an alarm to its end at 50 scores per hour, {runs}",
        ("scores", "mean", "median", "90 %", "cleared within a day"),
        clearings(report),
    )
    report.table(
        f"Two versions, {runs} of up to 10,000 scores of both",
        ("scores", "mean of A", "mean of B", "share of A", "A is said to be worse", "median of scores of both"),
        versions(report),
    )
    report.table("On the edge: false alarms", ("", "runs", "false alarms"), on_the_edge(report))
    report.table(
        f"Intervals at a dozen looks up to 1,000 scores, {max(1, report.runs // 2):,} runs",
        ("scores", "ever wrong", "in the end", "fixed 95 % interval"),
        intervals(report),
    )
    if report.broken:
        sys.exit(f"not as promised: {'; '.join(report.broken)}")


if __name__ == "__main__":
    main()
