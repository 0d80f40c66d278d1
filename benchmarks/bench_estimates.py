"""Measures the bias and coverage of estimates from sampled traffic, against all traffic of 1,000 simulated days.

5 % of the traffic is risky: 40 % of it is bad, and all of it is judged. Of the rest 2 % is bad, and 5 % is judged. An
interval covers a day if it contains the share of bad records in all traffic of that day. The averages compared are

plain     the mean of the judged records, as if all records had been equally likely to be judged
± 1.96 σ  the weighted mean with the textbook interval
weighted  the weighted mean with the interval of sinks/statistics/estimates.py
by rule   one estimate for each of the two rules, combined by the known shares of the traffic

    PYTHONPATH=. python benchmarks/bench_estimates.py
"""

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import log, log1p, sqrt

from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser
from sinks.statistics.estimates import Estimate, Sums, combine, estimate

DAYS, SHORT_DAYS = 1_000, 10
RISKY_SHARE, RISKY_BAD, RISKY_RATE = 0.05, 0.40, 1.0
REST_BAD, REST_RATE = 0.02, 0.05
PLAIN, WALD, WEIGHTED, COMBINED = "plain", "± 1.96 σ", "weighted", "by rule"
# Promised of the last two averages, from this much traffic.
MOST_BIAS, COVERED = 0.002, (0.93, 0.97)
LEAST_RECORDS = 5_000
VOLUMES = (1_000, 2_000, 5_000, 20_000, 100_000)


@dataclass
class CoverageTally:
    """Sums over days: estimated means and intervals, and the true means."""

    days: int = 0
    true: float = 0.0
    mean: float = 0.0
    width: float = 0.0
    too_low: int = 0
    too_high: int = 0

    def add(self, true: float, mean: float, low: float, high: float) -> None:
        self.days += 1
        self.true += true
        self.mean += mean
        self.width += high - low
        self.too_low += high < true
        self.too_high += low > true

    @property
    def bias(self) -> float:
        return (self.mean - self.true) / self.days

    @property
    def ratio(self) -> float:
        return self.mean / self.true

    @property
    def coverage(self) -> float:
        return 1.0 - (self.too_low + self.too_high) / self.days

    @property
    def misses(self) -> str:
        """Percentages of days whose whole interval is under, and over, the true mean."""
        return f"{100 * self.too_low / self.days:.1f}/{100 * self.too_high / self.days:.1f}"

    @property
    def holds(self) -> bool:
        return abs(self.bias) <= MOST_BIAS and COVERED[0] <= self.coverage <= COVERED[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficGroup:
    """The records of one day under one rule."""

    count: int
    bad: int
    judged: Sums

    @classmethod
    def draw(cls, rng: random.Random, count: int, bad_share: float, rate: float) -> "TrafficGroup":
        bad = draw_count(rng, count, bad_share)
        judged_bad, judged_good = draw_count(rng, bad, rate), draw_count(rng, count - bad, rate)
        judged = Sums.of(1.0, rate, times=judged_bad) + Sums.of(0.0, rate, times=judged_good)
        return cls(count=count, bad=bad, judged=judged)


def draw_count(rng: random.Random, count: int, rate: float) -> int:
    """Draw the number of `count` records that are chosen independently at this rate, by random gaps between them."""
    if rate >= 1.0:
        return count
    chosen, position = 0, 0
    while (position := position + 1 + int(log(1.0 - rng.random()) / log1p(-rate))) <= count:
        chosen += 1
    return chosen


def estimates(risky: TrafficGroup, rest: TrafficGroup) -> Iterator[tuple[str, Estimate]]:
    # The plain mean treats the judged records as a sample in which every record was equally likely.
    judged = risky.judged + rest.judged
    rate = judged.count / (risky.count + rest.count)
    bad = sum(round(group.judged.count * group.judged.records.mean) for group in (risky, rest))
    yield PLAIN, estimate(Sums.of(1.0, rate, times=bad) + Sums.of(0.0, rate, times=judged.count - bad))
    yield WALD, estimate(judged)
    yield WEIGHTED, estimate(judged)
    yield COMBINED, combine({"risky": (risky.judged, risky.count), "rest": (rest.judged, rest.count)})


def interval(estimated: Estimate) -> tuple[float, float, float]:
    assert estimated.mean is not None
    assert estimated.low is not None
    assert estimated.high is not None
    return estimated.mean, estimated.low, estimated.high


def textbook_interval(estimated: Estimate) -> tuple[float, float, float]:
    assert estimated.mean is not None
    assert estimated.variance is not None
    half = 1.96 * sqrt(estimated.variance)
    return estimated.mean, estimated.mean - half, estimated.mean + half


def simulate(records: int, days: int = DAYS, seed: int = 1) -> dict[str, CoverageTally]:
    """Simulate days of one volume of traffic, and return a tally for each average."""
    rng = random.Random(seed)
    tallies = {name: CoverageTally() for name in (PLAIN, WALD, WEIGHTED, COMBINED)}
    for _day in range(days):
        count = draw_count(rng, records, RISKY_SHARE)
        risky = TrafficGroup.draw(rng, count, RISKY_BAD, RISKY_RATE)
        rest = TrafficGroup.draw(rng, records - count, REST_BAD, REST_RATE)
        true = (risky.bad + rest.bad) / records
        for name, estimated in estimates(risky, rest):
            tallies[name].add(true, *(textbook_interval(estimated) if name == WALD else interval(estimated)))
    return tallies


def row(name: str, tally: CoverageTally) -> tuple[str, ...]:
    days = tally.days
    return (
        name,
        f"{tally.true / days:.2%}",
        f"{tally.mean / days:.2%}",
        f"{tally.ratio:.2f}",
        f"{100 * tally.bias:+.3f}",
        f"{tally.coverage:.1%}",
        tally.misses,
        f"{100 * tally.width / days:.2f}",
    )


def main() -> None:
    options = argument_parser(__doc__).parse_args()
    days = SHORT_DAYS if options.short else DAYS
    broken = []
    columns = ("average", "true", "mean", "× true", "bias", "covered", "under/over", "width")
    for records in VOLUMES:
        table = Table(*columns, title=f"{days:,} days of {records:,} records")
        for name, tally in simulate(records, days).items():
            table.add_row(*row(name, tally))
            if name in (WEIGHTED, COMBINED) and records >= LEAST_RECORDS and not tally.holds:
                broken.append(f"{name} at {records:,} records a day")
        Console().print(table)
    print("bias, width: percentage points; under/over: % of days whose whole interval is under or over the true share")
    if broken and not options.short:
        sys.exit(f"bias or coverage is not what it should be: {', '.join(broken)}")


if __name__ == "__main__":
    main()
