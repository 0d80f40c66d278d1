"""How often the interval of the recording rules holds the mean of all traffic, on 1,000 invented days of several sizes.

Of most traffic 5 % is judged, and 2 % of it is bad, so that scores are skewed. In one world that is all; in the other
5 % of the traffic is risky, often bad, and judged always. Prometheus knows sums only (Σw, Σw², Σws, Σws²), not who was
certain to be judged: in the second world its interval is wider than need be.

normal    mean ± 1.96·√(v/n), the textbook's, with v measured and n by Kish
binomial  Wilson's with m·(1 − m), as if every score were a pass or a fail
rules     Wilson's with the variance that was measured: stream/alerting/recording.py
monitor   the interval of sinks/estimates.py, which knows every judgement, for comparison

    make bench
"""

import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import sqrt

from rich.console import Console
from rich.table import Table

from benchmarks.bench_estimates import chosen
from sinks.estimates import Sums, estimate

DAYS = 1_000
RISKY_RATE, REST_RATE = 1.0, 0.05
# The share of the traffic that is risky, by world.
WORLDS: Mapping[str, float] = {"one rate": 0.0, "risky traffic judged always": 0.05}
# Scores and how many have them. A mean of many of them is far from normal where few are bad.
RISKY: Mapping[float, float] = {1.0: 0.4, 0.75: 0.2, 0.25: 0.2, 0.0: 0.2}
REST: Mapping[float, float] = {1.0: 0.85, 0.92: 0.10, 0.5: 0.03, 0.0: 0.02}
VOLUMES = (600, 1_000, 2_000, 5_000, 20_000)
Z = 1.96
# Promised of the rules, from objectives.min_effective judgements on.
LEAST_EFFECTIVE, LEAST_COVERED = 30, 0.93


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """What came, and what was judged of it."""

    true_mean: float
    judged: Sums
    square_sum: float
    """Σ w·s²."""


@dataclass
class Tally:
    days: int = 0
    too_low: int = 0
    too_high: int = 0
    width: float = 0.0

    def add(self, true: float, low: float, high: float) -> None:
        self.days += 1
        self.too_low += high < true
        self.too_high += low > true
        self.width += high - low

    @property
    def coverage(self) -> float:
        return 1.0 - (self.too_low + self.too_high) / self.days


def spread_over(rng: random.Random, count: int, shares: Mapping[float, float]) -> Iterator[tuple[float, int]]:
    """How many of so many records have each score."""
    left = 1.0
    for score, share in shares.items():
        number = chosen(rng, count, share / left) if share < left else count
        yield score, number
        count, left = count - number, left - share


def draw(rng: random.Random, records: int, risky_share: float) -> Day:
    risky = chosen(rng, records, risky_share) if risky_share else 0
    total, judged, square_sum = 0.0, Sums(), 0.0
    for count, shares, rate in ((risky, RISKY, RISKY_RATE), (records - risky, REST, REST_RATE)):
        for score, number in spread_over(rng, count, shares):
            seen = chosen(rng, number, rate)
            total += score * number
            judged += Sums.of(score, rate, times=seen)
            square_sum += seen / rate * score * score
    return Day(true_mean=total / records, judged=judged, square_sum=square_sum)


def intervals(day: Day) -> Iterator[tuple[str, float, float]]:
    weight, mean = day.judged.records.weight, day.judged.records.mean
    size = weight**2 / day.judged.squares
    variance = max(day.square_sum / weight - mean**2, 0.0)
    half = Z * sqrt(variance / size)
    yield "normal", mean - half, mean + half
    yield "binomial", *wilson(mean, size, mean * (1.0 - mean))
    yield "rules", *wilson(mean, size, variance)
    found = estimate(day.judged)
    assert found.low is not None
    assert found.high is not None
    yield "monitor", found.low, found.high


def wilson(mean: float, size: float, variance: float) -> tuple[float, float]:
    middle, half = size * mean + Z**2 / 2, Z * sqrt(size * variance + Z**2 / 4)
    return (middle - half) / (size + Z**2), (middle + half) / (size + Z**2)


def simulate(records: int, risky_share: float, days: int = DAYS, seed: int = 1) -> tuple[dict[str, Tally], float]:
    """The tallies of one volume of traffic, and the mean effective number of judgements."""
    rng, tallies, sizes = random.Random(seed), dict[str, Tally](), 0.0
    for _day in range(days):
        day = draw(rng, records, risky_share)
        sizes += day.judged.records.weight**2 / day.judged.squares
        for name, low, high in intervals(day):
            tallies.setdefault(name, Tally()).add(day.true_mean, low, high)
    return tallies, sizes / days


def main() -> None:
    broken = []
    for (world, risky_share), records in product(WORLDS.items(), VOLUMES):
        tallies, size = simulate(records, risky_share)
        title = f"{world}: {records:,} records, {size:.0f} effective judgements"
        table = Table("interval", "covered", "under/over", "width", title=title)
        for name, tally in tallies.items():
            misses = f"{100 * tally.too_low / tally.days:.1f}/{100 * tally.too_high / tally.days:.1f}"
            table.add_row(name, f"{tally.coverage:.1%}", misses, f"{tally.width / tally.days:.4f}")
        if size >= LEAST_EFFECTIVE and tallies["rules"].coverage < LEAST_COVERED:
            broken.append(f"{records:,} records ({world})")
        Console().print(table)
    print("under/over: % of days whose whole interval is under or over the true mean")
    if broken:
        sys.exit(f"the interval of the rules covers less than {LEAST_COVERED:.0%} of the days of {', '.join(broken)}")


if __name__ == "__main__":
    main()
