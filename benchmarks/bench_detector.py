"""Measures false alarms and delays of the detector on simulated traffic, evaluated after every score.

Thousands of series are simulated side by side (`detector_simulation.py`). The detector is compared, in the same runs,
with the usual alternatives:

window     the mean of the last hour is below the target
interval   the mean of the last hour and its whole 95 % interval are below the target
CUSUM      tuned to 1 % false alarms in 30 days: for passes and fails, with a mean of 0.90, at 50 scores an hour

    PYTHONPATH=. python benchmarks/bench_detector.py --runs 100
"""

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser
from benchmarks.detector_simulation import (
    BEFORE,
    DAYS,
    NEVER,
    RIVALS,
    SIZE,
    TARGET,
    Counts,
    Numbers,
    SimulatedScores,
    arrive_in_rounds,
    composite,
    measure_coverage,
    mixed_rates,
    passes,
    quantile,
    simulate_clearing,
    simulate_comparison,
    simulate_drop,
    simulate_quiet,
    three_levels,
)
from stream.monitor.detection import Settings, VersionSettings, WeightedTally, canary_settings, lower_bound


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSize:
    """The number of runs and their length: in days if there is no drop, and otherwise in scores."""

    runs: int
    days: float
    before_drop: int
    after_drop: int
    cleared: int
    compared: int

    @property
    def interval_runs(self) -> int:
        return max(1, self.runs // 2)


FULL = RunSize(runs=2_000, days=DAYS, before_drop=BEFORE, after_drop=5_000, cleared=8_000, compared=10_000)
SHORT = RunSize(runs=4, days=0.25, before_drop=100, after_drop=300, cleared=300, compared=300)
# Factor of runs for the cases that are on the edge of a promise.
MANY = 5
RATES = (20, 50, 200)
KINDS: Mapping[str, Callable[[float], SimulatedScores]] = {
    "pass/fail": passes,
    "levels": three_levels,
    "composite": composite,
}

# The promises, for passes and fails: the hardest scores there are.
MOST_FALSE = 0.01
MOST_DELAY = {0.6: 100, 0.7: 240}
MOST_CANARIES = 250


class DelayReport:
    """Prints the tables, and collects the broken promises."""

    def __init__(self, size: RunSize) -> None:
        self.size = size
        self.runs = size.runs
        self.broken: list[str] = []
        self._console = Console(width=140)

    def hold(self, promise: str, is_kept: bool) -> None:
        if not is_kept:
            self.broken.append(promise)

    def hold_share(
        self, promise: str, share: float, most: float, *, on_the_edge: bool, runs: int | None = None
    ) -> None:
        """Check the share of runs with a rare event; on the edge, where it is truly `most`, allow for chance."""
        chance = 2.6 * math.sqrt(most * (1.0 - most) / (runs or self.runs)) if on_the_edge else 0.0
        self.hold(promise, share <= most + chance)

    def table(self, title: str, columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> None:
        started = time.monotonic()
        table = Table(*columns, title=title, box=box.MARKDOWN)
        for row in rows:
            table.add_row(*row)
        self._console.print(table)
        print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def show_quantile(counts: Counts, level: float) -> str:
    count = quantile(counts, level)
    return "never" if count == NEVER else str(count)


# False alarms


def false_alarms(report: DelayReport) -> Iterator[tuple[str, ...]]:
    """Yield false alarms of the detector and of its rivals, for every kind of score."""
    for (kind, make), mean, rate in product(KINDS.items(), (0.90, TARGET), RATES):
        silences = simulate_quiet(
            make(mean), rate, runs=report.runs, seed=rate, settings=Settings(target=TARGET), days=report.size.days
        )
        share = silences["detector"].share
        report.hold_share(f"false alarms, {kind} {mean} at {rate}/h", share, MOST_FALSE, on_the_edge=mean == TARGET)
        rivals = (f"{percent(silences[name].share)} ({silences[name].per_run:.3g})" for name in RIVALS)
        yield kind, f"{mean:.2f}", str(rate), percent(share), *rivals


def special_false_alarms(report: DelayReport) -> Iterator[tuple[str, ...]]:
    """Yield false alarms of the detector with weights, canaries, uneven arrivals and learnt targets."""
    fixed, weighted = Settings(target=TARGET), Settings(target=TARGET, lowest_probability=0.05)
    for mean, rate in product((0.90, TARGET), RATES):
        yield watch_quietly(
            report, "π 1.0 and 0.05 mixed", mixed_rates(mean), f"{mean:.2f}", rate, settings=weighted, seed=rate
        )
    yield watch_quietly(
        report, "... and not known before", mixed_rates(TARGET), f"{TARGET:.2f}", 50, settings=fixed, seed=2
    )
    for name, burst in (("canaries", 1), ("canaries, 50 at a time", 50)):
        for rate in RATES:
            yield watch_quietly(
                report,
                name,
                passes(0.985),
                "0.985",
                rate,
                settings=canary_settings(),
                seed=rate,
                target=0.985,
                arrivals=None if burst == 1 else arrive_in_rounds(burst, rate),
            )
    yield watch_quietly(
        report,
        "300/h and 27/h in turn",
        passes(TARGET),
        f"{TARGET:.2f}",
        50,
        settings=fixed,
        seed=4,
        arrivals=draw_arrivals(),
    )
    learning = Settings(target=None)
    for count in (500, 1000, 4000):
        targets = learn_targets(passes(0.90), count, report.runs, learning)
        name = f"target learnt from {count} scores: {np.median(targets):.3f}"
        yield watch_quietly(report, name, passes(0.90), "0.90", 50, settings=learning, seed=6, target=targets)


def watch_quietly(
    report: DelayReport,
    name: str,
    scores: SimulatedScores,
    mean: str,
    rate: int,
    *,
    settings: Settings,
    seed: int,
    target: float | Numbers = TARGET,
    arrivals: Callable[[int], float] | None = None,
) -> tuple[str, ...]:
    """Run the detector alone on traffic without a drop, and return a row of the table."""
    share = simulate_quiet(
        scores,
        rate,
        runs=report.runs,
        seed=seed,
        settings=settings,
        target=target,
        arrivals=arrivals,
        with_rivals=False,
        days=report.size.days,
    )["detector"].share
    report.hold_share(f"false alarms, {name} {mean} at {rate}/h", share, MOST_FALSE, on_the_edge=mean != "0.90")
    return name, mean, str(rate), percent(share)


def draw_arrivals() -> Callable[[int], float]:
    """Return random gaps between scores: 300 an hour and 27 an hour in turn, 50 on average."""
    count = int(DAYS * 24 * 50)
    gaps = np.random.default_rng(3).exponential(1.0, count) * np.where(np.arange(count) % 600 < 300, 12.0, 132.0)
    return lambda number: float(gaps[number])


def learn_targets(scores: SimulatedScores, count: int, runs: int, settings: Settings) -> Numbers:
    """Return the target that the detector would learn from `count` scores, for every run."""
    rng = np.random.default_rng(5)
    targets = []
    for _run in range(runs):
        values = scores.draw(rng, (count, 1))[0]
        total, power = float(values.sum()), float((values * values).sum())
        tally = WeightedTally(count=count, weight=count, total=total, squares=count, cross=total, power=power)
        targets.append(lower_bound(tally, settings.alpha * settings.reference_share))
    return np.array(targets)


def edge_false_alarms(report: DelayReport) -> Iterator[tuple[str, ...]]:
    """Yield some cases whose false alarms are exactly as rare as promised, with other seeds and more runs."""
    runs = MANY * report.runs
    watched = {"known": Settings(target=TARGET, lowest_probability=0.05), "not known": Settings(target=TARGET)}
    for name, settings in watched.items():
        share = simulate_quiet(
            mixed_rates(TARGET), 20, runs=runs, seed=21, settings=settings, with_rivals=False, days=report.size.days
        )["detector"].share
        report.hold_share(f"the edge, π {name}", share, MOST_FALSE, on_the_edge=True, runs=runs)
        yield f"π mixed and {name}, mean {TARGET}, 20 per hour", f"{runs:,}", percent(share)
    compared = {
        "two versions of 0.90, one with 10 %": (passes(0.9), 0.1, VersionSettings()),
        "two versions of 0.90, π mixed": (mixed_rates(0.9), 0.5, VersionSettings(lowest_probability=0.05)),
    }
    for name, (scores, part, both) in compared.items():
        most = report.size.compared
        delays = simulate_comparison(scores, scores, share_of_a=part, runs=runs, seed=22, settings=both, most=most)
        share = float(np.mean(delays != NEVER))
        report.hold_share(f"the edge, {name}", share, MOST_FALSE, on_the_edge=True, runs=runs)
        yield name, f"{runs:,}", percent(share)


# Delays


def drops(report: DelayReport) -> Iterator[tuple[str, ...]]:
    """Yield the delays of alarms after a drop."""
    fixed, weighted = Settings(target=TARGET), Settings(target=TARGET, lowest_probability=0.05)
    for (kind, make), after, rate in product(KINDS.items(), (0.6, 0.7, 0.8), RATES):
        name, most = f"0.90 → {after:.2f}", MOST_DELAY.get(after)
        yield drop(report, kind, name, make(0.90), make(after), rate, settings=fixed, seed=rate, most_delay=most)
    for after in (0.6, 0.7):
        name = f"0.90 → {after:.2f}"
        yield drop(report, "π mixed", name, mixed_rates(0.90), mixed_rates(after), 50, settings=weighted, seed=1)
    for rate in RATES:
        before, changed, settings = passes(0.985), passes(0.87), canary_settings()
        name, most = "0.985 → 0.87", MOST_CANARIES
        yield drop(report, "canaries", name, before, changed, rate, settings=settings, seed=rate, most_delay=most)


def drop(
    report: DelayReport,
    kind: str,
    name: str,
    before: SimulatedScores,
    after: SimulatedScores,
    rate: int,
    *,
    settings: Settings,
    seed: int,
    most_delay: int | None = None,
) -> tuple[str, ...]:
    """Simulate a drop, and return a row of the table."""
    size = report.size
    dropped = simulate_drop(
        before, after, rate, runs=size.runs, seed=seed, settings=settings, lead=size.before_drop, most=size.after_drop
    )
    own = dropped.delays["detector"]
    if most_delay is not None:
        report.hold(f"delay, {kind} {name} at {rate}/h", quantile(own, 0.5) <= most_delay)
    low, middle, high = (show_quantile(dropped.onsets, level) for level in (0.1, 0.5, 0.9))
    figures = (show_quantile(own, level) for level in (0.5, 0.9, 0.99))
    # The rivals support neither weights nor canaries.
    has_rivals = kind not in ("π mixed", "canaries")
    rivals = (show_quantile(dropped.delays[name], 0.5) if has_rivals else "–" for name in RIVALS)
    return kind, name, str(rate), *figures, f"{middle} ({low} to {high})", *rivals


# Clearing, versions, intervals


def clearings(report: DelayReport) -> Iterator[tuple[str, ...]]:
    """Yield the delays from an alarm to its end, and the share of alarms that end too early."""
    settings, size = Settings(target=TARGET), report.size
    for kind, make in {"pass/fail": passes, "composite": composite}.items():
        for mean in (0.95, 0.90, TARGET):
            cleared = simulate_clearing(make(mean), 50, runs=size.runs, seed=8, settings=settings, most=size.cleared)
            yield kind, f"{mean:.2f}", show_quantile(cleared, 0.5), show_quantile(cleared, 0.9), "–"
        for mean in (TARGET - settings.margin, 0.75, 0.70):
            a_day = min(size.cleared, 24 * 50)
            cleared = simulate_clearing(make(mean), 50, runs=size.runs, seed=9, settings=settings, most=a_day)
            share = float(np.mean(cleared != NEVER))
            report.hold_share(f"false clearings at {mean}", share, settings.clear_alpha, on_the_edge=mean > 0.75)
            yield kind, f"{mean:.2f}", "–", "–", percent(share)


def versions(report: DelayReport) -> Iterator[tuple[str, ...]]:
    """Yield the share of runs in which version A is reported as worse than version B, and after how many scores."""
    plain, weighted = VersionSettings(), VersionSettings(lowest_probability=0.05)
    margin = VersionSettings(margin=0.05)
    cases = (
        ("pass/fail", passes(0.9), passes(0.9), 0.5, plain),
        ("pass/fail", passes(0.9), passes(0.9), 0.1, plain),
        ("pass/fail, margin 0.05", passes(0.85), passes(0.9), 0.5, margin),
        ("π mixed", mixed_rates(0.9), mixed_rates(0.9), 0.5, weighted),
        ("pass/fail", passes(0.85), passes(0.9), 0.5, plain),
        ("pass/fail", passes(0.80), passes(0.9), 0.5, plain),
        ("pass/fail", passes(0.80), passes(0.9), 0.1, plain),
        ("pass/fail, margin 0.05", passes(0.75), passes(0.9), 0.5, margin),
        ("composite", composite(0.85), composite(0.9), 0.5, plain),
        ("π mixed", mixed_rates(0.75), mixed_rates(0.9), 0.5, weighted),
    )
    for kind, a, b, share_of_a, settings in cases:
        most = report.size.compared
        delays = simulate_comparison(
            a, b, share_of_a=share_of_a, runs=report.runs, seed=10, settings=settings, most=most
        )
        is_null = b.mean - a.mean <= settings.margin + 1e-9
        share = float(np.mean(delays != NEVER))
        if is_null:
            promise = f"versions, {kind} {a.mean:.2f} and {b.mean:.2f}"
            report.hold_share(promise, share, settings.alpha, on_the_edge=True)
        median = "–" if is_null else show_quantile(delays, 0.5)
        yield kind, f"{a.mean:.2f}", f"{b.mean:.2f}", f"{share_of_a:.0%}", percent(share), median


def intervals(report: DelayReport) -> Iterator[tuple[str, ...]]:
    """Yield the share of runs in which the interval is ever wrong, and its width beside that of a fixed interval."""
    cases = {
        "pass/fail 0.90": passes(0.9),
        "pass/fail 0.60": passes(0.6),
        "composite 0.90": composite(0.9),
        "π mixed 0.90": mixed_rates(0.9),
    }
    for name, scores in cases.items():
        missed, width = measure_coverage(scores, runs=report.size.interval_runs, seed=11)
        report.hold(f"intervals, {name}", missed <= 0.05)
        weights = np.ones(SIZE) if scores.probabilities is None else 1.0 / scores.probabilities
        spread = float(np.mean((weights * (scores.values - scores.mean)) ** 2) / np.mean(weights) ** 2)
        yield name, percent(missed), f"± {width / 2:.3f}", f"± {1.96 * math.sqrt(spread / 1_000):.3f}"


# The report


def print_tables(report: DelayReport) -> None:
    size = report.size
    runs, quiet_days = f"{size.runs:,} runs", f"{size.days:g} days without a drop"
    rivals = ("95 % interval", "1 h mean", "CUSUM")
    report.table(
        f"{quiet_days}, {runs}: runs with a false alarm (and how many there were in a run)",
        ("scores", "mean", "per hour", "detector", *rivals),
        false_alarms(report),
    )
    report.table(
        f"{quiet_days}, {runs}: runs with a false alarm",
        ("scores", "mean", "per hour", "detector"),
        special_false_alarms(report),
    )
    report.table(
        f"Scores from a drop to the alarm, {runs}",
        ("scores", "drop", "per hour", "median", "90 %", "99 %", "onset (80 %)", *rivals),
        drops(report),
    )
    report.table(
        f"From an alarm to its end at 50 scores per hour, {runs}",
        ("scores", "mean", "median", "90 %", "cleared within a day"),
        clearings(report),
    )
    report.table(
        f"Two versions, {runs} of up to {size.compared:,} scores of both",
        ("scores", "mean of A", "mean of B", "share of A", "A is said to be worse", "median of scores of both"),
        versions(report),
    )
    report.table("On the edge: false alarms", ("", "runs", "false alarms"), edge_false_alarms(report))
    report.table(
        f"Intervals at a dozen looks up to 1,000 scores, {size.interval_runs:,} runs",
        ("scores", "ever wrong", "in the end", "fixed 95 % interval"),
        intervals(report),
    )


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--runs", type=int, help=f"default: {FULL.runs:,}, or {SHORT.runs} in the short form")
    options = parser.parse_args()
    size = SHORT if options.short else FULL
    report = DelayReport(replace(size, runs=options.runs or size.runs))
    print_tables(report)
    if report.broken and not options.short:
        sys.exit(f"not as promised: {'; '.join(report.broken)}")


if __name__ == "__main__":
    main()
