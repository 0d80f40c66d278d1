"""Canaries as the monitor follows them, learning what to expect: false alarms, and how soon a change is seen.

`bench_detector.py` has thousands of runs of the detector alone, which is told of agreements. Here the whole watch is
told of verdicts: each canary has a usual one and gets it in 98.5 % of all cases; after the change, in 87 %.

    PYTHONPATH=. python benchmarks/bench_canaries.py --runs 20
"""

import argparse
import statistics
import sys
from random import Random

from judges.evaluation import evaluation_id
from stream.alarms.canarywatch import CanaryWatch
from stream.alarms.plan import WatchPlan
from stream.alarms.scores import ScoreRecord, Source
from stream.config import Config

RUNS = 40
CANARIES = 50
DAYS = 30
BEGIN = 1_700_000_000.0
PLAN = WatchPlan(Config())
STABLE, CHANGED = 0.985, 0.87
MOST_FALSE, MOST_DELAY = 0.01, 250


class Judges:
    """Canaries judged one after the other, in an order drawn anew each hour."""

    def __init__(self, seed: int) -> None:
        self._draw = Random(seed)
        self._watch = CanaryWatch(PLAN)
        self.number = 0

    def round(self, probability: float) -> bool:
        """One hour; whether there was an alarm."""
        raised = False
        for canary in self._draw.sample(range(CANARIES), CANARIES):
            verdict = "usual" if self._draw.random() < probability else "other"
            alerts = self._watch.observe(self._record(f"c{canary}", verdict))
            raised = raised or any(alert.kind == "raised" for alert in alerts)
            if raised:
                break
        return raised

    def _record(self, canary: str, verdict: str) -> ScoreRecord:
        number, self.number = self.number, self.number + 1
        name = f"canary:{canary}:{number}"
        return ScoreRecord(
            source=Source(partition=0, offset=number),
            evaluation_id=evaluation_id(name, "f"),
            interaction_id=name,
            app="canaries",
            at=BEGIN + 3600.0 * number / CANARIES,
            probability=1.0,
            fingerprint="f",
            canary=canary,
            verdicts={"groundedness": verdict},
        )


def is_false(seed: int) -> bool:
    judges = Judges(seed)
    return any(judges.round(STABLE) for _hour in range(24 * DAYS))


def delay(seed: int) -> int:
    judges = Judges(seed)
    for _hour in range(48):
        judges.round(STABLE)
    before = judges.number
    while not judges.round(CHANGED):
        pass
    return judges.number - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    runs = parser.parse_args().runs
    false = sum(is_false(seed) for seed in range(runs))
    delays = sorted(delay(seed) for seed in range(runs))
    print(f"{CANARIES} canaries an hour, {runs} runs")
    print(f"  judges that do not change, {DAYS} days: {false} runs with a false alarm ({false / runs:.1%})")
    print(
        f"  from {STABLE:.1%} to {CHANGED:.0%}: seen after {statistics.median(delays):.0f} canaries in the median, "
        f"{delays[int(0.95 * (runs - 1))]} in 95 % of the runs, {delays[-1]} in all"
    )
    if false > max(1, MOST_FALSE * runs) or statistics.median(delays) > MOST_DELAY:
        sys.exit("a promise is broken")


if __name__ == "__main__":
    main()
