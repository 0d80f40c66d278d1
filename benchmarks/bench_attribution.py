"""Measures whether drops of live scores are attributed to the system or to the judges (as in arXiv 2606.15474).

A judge scores live answers on three levels, and every fifth score is that of an anchor: one of 60 canaries with a human
label. After a healthy start one thing changes:

silent judge change  a new version of the judge chooses the next worse level for 20 % of all answers, and the next
                     better one for 5 %
strict prompt        the judge chooses the next worse level for 35 % of all answers
quality drop         answers become worse; the judge stays the same
nothing              30 days without a change

The judge repeats 99 % of its scores of the same answer; `--repeats` and `--baseline` are for other judges.

The detector of live scores and the detectors of the anchors each may raise one false alert in 200 periods of 30 days.

    PYTHONPATH=. python benchmarks/bench_attribution.py
"""

import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser
from stream.monitor.detection import Settings, State, observe
from stream.monitor.detection.attribution import (
    AttributionSettings,
    AttributionState,
    DriftSource,
    attribute,
    observe_anchor,
)
from stream.monitor.detection.judge_drift import BASELINE

LEVELS = (0.0, 0.5, 1.0)
HEALTHY, WORSE = (0.05, 0.15, 0.80), (0.20, 0.25, 0.55)
ANCHORS, ANCHOR_EVERY = 60, 5
# Live scores before the change, and after it at most.
BEFORE, AFTER = 3_000, 3_000
SCORES_PER_HOUR, DAYS = 20, 30
REPEATS = 0.99
RUNS = {"silent judge change": 60, "strict prompt": 120, "quality drop": 120, "nothing": 300}
LIVE = Settings(target=0.84, alpha=0.005)
ATTRIBUTION = AttributionSettings(alpha=0.005)


def move(level: float, steps: int) -> float:
    return min(1.0, max(0.0, level + steps / 2.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedJudge:
    """A judge, and how it differs from the usual one."""

    worse: float = 0.0
    """Share of the answers for which it chooses the next worse level."""
    better: float = 0.0

    def score(self, rng: random.Random, level: float, repeats: float) -> float:
        """Score an answer; `repeats` is the share of its scores that a judge repeats."""
        if rng.random() >= repeats:
            level = move(level, rng.choice((-1, 1)))
        if self == USUAL:
            return level
        draw = rng.random()
        return move(level, -1) if draw < self.worse else move(level, 1) if draw > 1.0 - self.better else level


USUAL = SimulatedJudge()


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftScenario:
    """What changes after the healthy start."""

    judge: SimulatedJudge = USUAL
    levels: tuple[float, float, float] = HEALTHY
    live_scores: int = BEFORE + AFTER


SCENARIOS = {
    "silent judge change": DriftScenario(judge=SimulatedJudge(worse=0.20, better=0.05)),
    "strict prompt": DriftScenario(judge=SimulatedJudge(worse=0.35)),
    "quality drop": DriftScenario(levels=WORSE),
    "nothing": DriftScenario(live_scores=SCORES_PER_HOUR * 24 * DAYS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How well judges repeat their scores, and what the attribution expects of them."""

    repeats: float = REPEATS
    attribution: AttributionSettings = ATTRIBUTION


def verdicts(rng: random.Random, scenario: DriftScenario, setting: Setting) -> Iterator[tuple[int, DriftSource | None]]:
    """Yield the number of live scores since the change, and the attribution after each."""
    # The judge's usual opinion of an anchor differs from the label of people on one of four.
    labels = rng.choices(LEVELS, (0.3, 0.3, 0.4), k=ANCHORS)
    opinions = [move(label, rng.choice((-1, 1))) if rng.random() < 0.25 else label for label in labels]
    live, state, anchor = State(), AttributionState(), 0
    for number in range(scenario.live_scores):
        has_changed, at = number >= BEFORE, number * 3600.0 / SCORES_PER_HOUR
        judge = scenario.judge if has_changed else USUAL
        (level,) = rng.choices(LEVELS, scenario.levels if has_changed else HEALTHY)
        live = observe(live, LIVE, judge.score(rng, level, setting.repeats), at=at).state
        if number % ANCHOR_EVERY == 0:
            place = anchor % ANCHORS
            score = judge.score(rng, opinions[place], setting.repeats)
            state = observe_anchor(state, setting.attribution, str(place), score, labels[place], at=at)
            anchor += 1
        yield number - BEFORE, attribute([state], live, setting.attribution)


def first_verdict(rng: random.Random, scenario: DriftScenario, setting: Setting) -> tuple[DriftSource, int]:
    """Return the first attribution other than none, and the live scores that it took after the change."""
    for number, verdict in verdicts(rng, scenario, setting):
        if verdict in (DriftSource.SYSTEM, DriftSource.JUDGE):
            return verdict, number
    return DriftSource.NONE, 0


def find_broken(counts: dict[str, Counter[DriftSource]]) -> Iterator[str]:
    silent, strict, worse = (counts[name] for name in ("silent judge change", "strict prompt", "quality drop"))
    if silent[DriftSource.JUDGE] < 58 or silent[DriftSource.SYSTEM]:
        yield "silent judge change"
    if strict[DriftSource.JUDGE] < 110:
        yield "strict prompt"
    if worse[DriftSource.JUDGE]:
        yield "quality drop"
    nothing = counts["nothing"]
    if nothing.total() - nothing[DriftSource.NONE] > 0.01 * nothing.total():
        yield "false alarms"


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--repeats", type=float, default=REPEATS, help="share of scores that the judge repeats")
    parser.add_argument("--baseline", type=float, default=BASELINE, help="share that the attribution expects, at least")
    options = parser.parse_args()
    setting = Setting(repeats=options.repeats, attribution=replace(ATTRIBUTION, baseline=options.baseline))
    table = Table("change", "runs", *DriftSource, "median live scores until the verdict")
    counts: dict[str, Counter[DriftSource]] = {}
    for place, (name, scenario) in enumerate(SCENARIOS.items()):
        runs = 1 if options.short else RUNS[name]
        results = [first_verdict(random.Random(1000 * place + run), scenario, setting) for run in range(runs)]
        counts[name] = Counter(verdict for verdict, _ in results)
        delays = sorted(delay for verdict, delay in results if verdict is not DriftSource.NONE)
        median = str(delays[len(delays) // 2]) if delays else "–"
        table.add_row(name, str(runs), *(str(counts[name][source]) for source in DriftSource), median)
    Console(width=110).print(table)
    broken = list(find_broken(counts))
    if broken and not options.short:
        sys.exit(f"not as promised: {', '.join(broken)}")


if __name__ == "__main__":
    main()
