"""Measures false alarms of the monitor's canary watch, and how soon it detects a change of the judges.

Each canary has a usual verdict. The watch sees it in 98.5 % of all cases, and after the change in 87 %. It must learn
the usual verdicts first. `bench_detector.py` has thousands of runs of the detector alone, which sees only agreements.

    PYTHONPATH=. python benchmarks/bench_canaries.py --runs 20
"""

import statistics
import sys
from random import Random

from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser
from judges.values.evaluation import evaluation_id
from stream.config.model import Config
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord, Source
from stream.monitor.alerts.watch.canaries import CanaryWatch

RUNS, SHORT_RUNS = 40, 2
DAYS, SHORT_DAYS = 30, 2
CANARIES = 50
BEGIN = 1_700_000_000.0
PLAN = WatchPlan(Config())
STABLE, CHANGED = 0.985, 0.87
MOST_FALSE, MOST_DELAY = 0.01, 250


class Judges:
    """Canaries judged one after the other, in a new random order each hour."""

    def __init__(self, seed: int) -> None:
        self._draw = Random(seed)
        self._watch = CanaryWatch(PLAN)
        self.number = 0

    def judge_for_an_hour(self, probability: float) -> bool:
        """Judge every canary once, or until an alarm; return whether there was one."""
        for canary in self._draw.sample(range(CANARIES), CANARIES):
            verdict = "usual" if self._draw.random() < probability else "other"
            alerts = self._watch.observe(self._record(f"c{canary}", verdict))
            if any(alert.kind == "raised" for alert in alerts):
                return True
        return False

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


def has_false_alarm(seed: int, days: int) -> bool:
    """Return whether judges that do not change raise an alarm within these days."""
    judges = Judges(seed)
    return any(judges.judge_for_an_hour(STABLE) for _hour in range(24 * days))


def measure_delay(seed: int) -> int:
    """Return the number of canaries from a change of the judges to the alarm."""
    judges = Judges(seed)
    for _hour in range(48):
        judges.judge_for_an_hour(STABLE)
    before = judges.number
    while not judges.judge_for_an_hour(CHANGED):
        pass
    return judges.number - before


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--runs", type=int, help=f"default: {RUNS}, or {SHORT_RUNS} in the short form")
    options = parser.parse_args()
    runs = options.runs or (SHORT_RUNS if options.short else RUNS)
    days = SHORT_DAYS if options.short else DAYS
    false_alarms = sum(has_false_alarm(seed, days) for seed in range(runs))
    delays = sorted(measure_delay(seed) for seed in range(runs))
    table = Table("measure", "value", title=f"{CANARIES} canaries an hour, {runs} runs")
    table.add_row(f"runs of {days} days with a false alarm", f"{false_alarms} ({false_alarms / runs:.1%})")
    table.add_row(
        f"canaries from {STABLE:.1%} → {CHANGED:.0%} to the alarm: median", f"{statistics.median(delays):.0f}"
    )
    table.add_row("… in 95 % of the runs", str(delays[int(0.95 * (runs - 1))]))
    table.add_row("… in all runs", str(delays[-1]))
    Console(width=100).print(table)
    broken = false_alarms > max(1, MOST_FALSE * runs) or statistics.median(delays) > MOST_DELAY
    if broken and not options.short:
        sys.exit("a promise is broken")


if __name__ == "__main__":
    main()
