"""Measures how often the interval of the recording rules covers the mean of all traffic, on 1,000 simulated days.

5 % of ordinary traffic is judged, and 2 % of it is bad, so scores are skewed. One world has only ordinary traffic; in
the other, 5 % of the traffic is risky, often bad, and always judged. Prometheus has only sums (Σw, Σw², Σws, Σws²), so
it cannot see which records were certain to be judged: in the second world its interval is wider than necessary. The
compared intervals are

normal    mean ± 1.96·√(v/n), the textbook's, with the measured variance v and n by Kish
binomial  Wilson's with m·(1 − m), as if every score were a pass or a fail
rules     Wilson's with the measured variance: stream/monitor/prometheus/recording_rules.py
monitor   the interval of sinks/statistics/estimates.py, which has every judgement

    PYTHONPATH=. python benchmarks/bench_rule_interval.py
"""

import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import sqrt

from rich.console import Console
from rich.table import Table

from benchmarks.bench_estimates import CoverageTally, draw_count
from benchmarks.common import argument_parser
from sinks.statistics.estimates import Sums, estimate, wilson

DAYS, SHORT_DAYS = 1_000, 10
RISKY_RATE, REST_RATE = 1.0, 0.05
# The share of the traffic that is risky, by world.
WORLDS: Mapping[str, float] = {"one rate": 0.0, "risky traffic judged always": 0.05}
# Scores, and the shares of records that have them. If few are bad, their mean is far from normally distributed.
RISKY: Mapping[float, float] = {1.0: 0.4, 0.75: 0.2, 0.25: 0.2, 0.0: 0.2}
REST: Mapping[float, float] = {1.0: 0.85, 0.92: 0.10, 0.5: 0.03, 0.0: 0.02}
VOLUMES = (600, 1_000, 2_000, 5_000, 20_000)
Z = 1.96
# Promised of the rules, from objectives.min_effective judgements.
LEAST_EFFECTIVE, LEAST_COVERED = 30, 0.93


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """One day's traffic: its true mean, and sums over the judged records."""

    true_mean: float
    judged: Sums
    square_sum: float
    """Σ w·s²."""


def draw_scores(rng: random.Random, count: int, shares: Mapping[float, float]) -> Iterator[tuple[float, int]]:
    """Draw the number of `count` records that have each score."""
    remaining = 1.0
    for score, share in shares.items():
        number = draw_count(rng, count, share / remaining) if share < remaining else count
        yield score, number
        count, remaining = count - number, remaining - share


def draw_day(rng: random.Random, records: int, risky_share: float) -> Day:
    risky = draw_count(rng, records, risky_share) if risky_share else 0
    total, judged, square_sum = 0.0, Sums(), 0.0
    for count, shares, rate in ((risky, RISKY, RISKY_RATE), (records - risky, REST, REST_RATE)):
        for score, number in draw_scores(rng, count, shares):
            judged_number = draw_count(rng, number, rate)
            total += score * number
            judged += Sums.of(score, rate, times=judged_number)
            square_sum += judged_number / rate * score * score
    return Day(true_mean=total / records, judged=judged, square_sum=square_sum)


def intervals(day: Day) -> Iterator[tuple[str, float, float]]:
    weight, mean = day.judged.records.weight, day.judged.records.mean
    size = weight**2 / day.judged.squares
    variance = max(day.square_sum / weight - mean**2, 0.0)
    half = Z * sqrt(variance / size)
    yield "normal", mean - half, mean + half
    yield "binomial", *wilson(mean, size, mean * (1.0 - mean))
    yield "rules", *wilson(mean, size, variance)
    estimated = estimate(day.judged)
    assert estimated.low is not None
    assert estimated.high is not None
    yield "monitor", estimated.low, estimated.high


def simulate(
    records: int, risky_share: float, days: int = DAYS, seed: int = 1
) -> tuple[dict[str, CoverageTally], float]:
    """Simulate days of one volume of traffic; return a tally for each interval, and the mean effective sample size."""
    rng, tallies, sizes = random.Random(seed), dict[str, CoverageTally](), 0.0
    for _day in range(days):
        day = draw_day(rng, records, risky_share)
        sizes += day.judged.records.weight**2 / day.judged.squares
        for name, low, high in intervals(day):
            tallies.setdefault(name, CoverageTally()).add(day.true_mean, day.judged.records.mean, low, high)
    return tallies, sizes / days


def main() -> None:
    options = argument_parser(__doc__).parse_args()
    days = SHORT_DAYS if options.short else DAYS
    broken = []
    for (world, risky_share), records in product(WORLDS.items(), VOLUMES):
        tallies, size = simulate(records, risky_share, days)
        title = f"{world}: {records:,} records, {size:.0f} effective judgements"
        table = Table("interval", "covered", "under/over", "width", title=title)
        for name, tally in tallies.items():
            table.add_row(name, f"{tally.coverage:.1%}", tally.misses, f"{tally.width / tally.days:.4f}")
        if size >= LEAST_EFFECTIVE and tallies["rules"].coverage < LEAST_COVERED:
            broken.append(f"{records:,} records ({world})")
        Console().print(table)
    print("under/over: % of days whose whole interval is under or over the true mean")
    if broken and not options.short:
        sys.exit(f"the interval of the rules covers less than {LEAST_COVERED:.0%} of the days of {', '.join(broken)}")


if __name__ == "__main__":
    main()
