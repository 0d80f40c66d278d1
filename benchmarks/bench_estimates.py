"""What weighting is worth: 1,000 invented days, and how far each way of averaging is from what all traffic was like.

5 % of the traffic is risky, of which 40 % is bad and all is judged; of the rest 2 % is bad and 5 % is judged. An
interval covers a day if the share of bad records in all traffic of that day is within it.

plain     the mean of what was judged, as if all had been as likely to be
± 1.96 σ  the weighted mean with the textbook interval, for comparison
weighted  the weighted mean with the interval of sinks/estimates.py
by rule   an estimate for each of the two rules, combined by the known shares of the traffic

    make bench
"""

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import log, log1p, sqrt

from rich.console import Console
from rich.table import Table

from sinks.estimates import Estimate, Sums, combine, estimate

DAYS = 1_000
RISKY_SHARE, RISKY_BAD, RISKY_RATE = 0.05, 0.40, 1.0
REST_BAD, REST_RATE = 0.02, 0.05
PLAIN, WALD, WEIGHTED, COMBINED = "plain", "± 1.96 σ", "weighted", "by rule"
# Promised of the last two, at this much traffic or more.
MOST_BIAS, COVERED = 0.002, (0.93, 0.97)
LEAST_RECORDS = 5_000
VOLUMES = (1_000, 2_000, 5_000, 20_000, 100_000)


@dataclass
class Tally:
    """What the days of one way of averaging add up to."""

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
    def holds(self) -> bool:
        return abs(self.bias) <= MOST_BIAS and COVERED[0] <= self.coverage <= COVERED[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The records of one day under one rule."""

    count: int
    bad: int
    judged: Sums

    @classmethod
    def draw(cls, rng: random.Random, count: int, bad_share: float, rate: float) -> "Group":
        bad = chosen(rng, count, bad_share)
        judged_bad, judged_good = chosen(rng, bad, rate), chosen(rng, count - bad, rate)
        judged = Sums.of(1.0, rate, times=judged_bad) + Sums.of(0.0, rate, times=judged_good)
        return cls(count=count, bad=bad, judged=judged)


def chosen(rng: random.Random, count: int, rate: float) -> int:
    """How many of so many are chosen independently at this rate, by leaps from one to the next."""
    if rate >= 1.0:
        return count
    found, position = 0, 0
    while (position := position + 1 + int(log(1.0 - rng.random()) / log1p(-rate))) <= count:
        found += 1
    return found


def estimates(risky: Group, rest: Group) -> Iterator[tuple[str, Estimate]]:
    # The plain mean takes what was judged for a sample in which all were as likely to be.
    judged = risky.judged + rest.judged
    rate = judged.count / (risky.count + rest.count)
    bad = sum(round(group.judged.count * group.judged.records.mean) for group in (risky, rest))
    yield PLAIN, estimate(Sums.of(1.0, rate, times=bad) + Sums.of(0.0, rate, times=judged.count - bad))
    yield WALD, estimate(judged)
    yield WEIGHTED, estimate(judged)
    yield COMBINED, combine({"risky": (risky.judged, risky.count), "rest": (rest.judged, rest.count)})


def interval(found: Estimate) -> tuple[float, float, float]:
    assert found.mean is not None
    assert found.low is not None
    assert found.high is not None
    return found.mean, found.low, found.high


def textbook(found: Estimate) -> tuple[float, float, float]:
    assert found.mean is not None
    assert found.variance is not None
    half = 1.96 * sqrt(found.variance)
    return found.mean, found.mean - half, found.mean + half


def simulate(records: int, days: int = DAYS, seed: int = 1) -> dict[str, Tally]:
    """The days of one volume of traffic, tallied by way of averaging."""
    rng = random.Random(seed)
    tallies = {name: Tally() for name in (PLAIN, WALD, WEIGHTED, COMBINED)}
    for _day in range(days):
        count = chosen(rng, records, RISKY_SHARE)
        risky = Group.draw(rng, count, RISKY_BAD, RISKY_RATE)
        rest = Group.draw(rng, records - count, REST_BAD, REST_RATE)
        true = (risky.bad + rest.bad) / records
        for name, found in estimates(risky, rest):
            tallies[name].add(true, *(textbook(found) if name == WALD else interval(found)))
    return tallies


def row(name: str, tally: Tally) -> tuple[str, ...]:
    days = tally.days
    return (
        name,
        f"{tally.true / days:.2%}",
        f"{tally.mean / days:.2%}",
        f"{tally.ratio:.2f}",
        f"{100 * tally.bias:+.3f}",
        f"{tally.coverage:.1%}",
        f"{100 * tally.too_low / days:.1f}/{100 * tally.too_high / days:.1f}",
        f"{100 * tally.width / days:.2f}",
    )


def main() -> None:
    broken = []
    columns = ("average", "true", "mean", "× true", "bias", "covered", "under/over", "width")
    for records in VOLUMES:
        table = Table(*columns, title=f"{DAYS:,} days of {records:,} records")
        for name, tally in simulate(records).items():
            table.add_row(*row(name, tally))
            if name in (WEIGHTED, COMBINED) and records >= LEAST_RECORDS and not tally.holds:
                broken.append(f"{name} at {records:,} records a day")
        Console().print(table)
    print("bias, width: percentage points; under/over: % of days whose whole interval is under or over the true share")
    if broken:
        sys.exit(f"bias or coverage is not what it should be: {', '.join(broken)}")


if __name__ == "__main__":
    main()
