"""Measures how far one bad judge of three or five moves a panel's scores, combined by mean and by median.

Answers are on three levels. Good judges choose the right level with a probability of 80 %, else a neighbour. In each
scenario one judge is replaced by a bad one:

none         no bad judge: the noise of good ones only
stuck high   always the best level
stuck low    always the worst level
random       any level
sycophantic  the best level for nine of ten answers, whatever they are like; else a good judge
biased       one level better than a good judge, for half of the answers

error        root mean square of score − truth, over answers
bias         mean of score − truth
drop         how much of a true drop of 10 points the panel shows

    PYTHONPATH=. python benchmarks/bench_panels.py
"""

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser
from judges.values.combine import Numeric, combine_numbers

ANSWERS, SHORT_ANSWERS = 20_000, 300
LEVELS = (0.0, 0.5, 1.0)
# Shares of the levels before and after a drop of 10 points.
HEALTHY, DROPPED = (0.10, 0.20, 0.70), (0.20, 0.20, 0.60)
RIGHT = 0.8
RULES: tuple[Numeric, ...] = ("mean", "median")

Voter = Callable[[random.Random, float], float]


def vote_well(rng: random.Random, truth: float) -> float:
    if rng.random() < RIGHT:
        return truth
    return truth + rng.choice((-0.5, 0.5)) if truth == 0.5 else 0.5


def vote_biased(rng: random.Random, truth: float) -> float:
    vote = vote_well(rng, truth)
    return min(1.0, vote + 0.5) if rng.random() < 0.5 else vote


BAD_JUDGES: Mapping[str, Voter] = {
    "none": vote_well,
    "stuck high": lambda _rng, _truth: 1.0,
    "stuck low": lambda _rng, _truth: 0.0,
    "random": lambda rng, _truth: rng.choice(LEVELS),
    "sycophantic": lambda rng, truth: 1.0 if rng.random() < 0.9 else vote_well(rng, truth),
    "biased": vote_biased,
}
# Judges that still follow the answers.
BENIGN = ("none", "biased")


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelErrors:
    """The errors of one rule in one scenario."""

    error: float
    bias: float
    drop: float


def judge_answers(
    rng: random.Random, bad: Voter, judges: int, shares: Sequence[float], answers: int
) -> Iterator[tuple[float, list[float]]]:
    """Yield the truth and the votes of answers."""
    for truth in rng.choices(LEVELS, shares, k=answers):
        yield truth, [bad(rng, truth), *(vote_well(rng, truth) for _judge in range(judges - 1))]


def measure(bad: Voter, judges: int, answers: int, seed: int = 1) -> dict[Numeric, PanelErrors]:
    rng = random.Random(seed)
    before = list(judge_answers(rng, bad, judges, HEALTHY, answers))
    after = list(judge_answers(rng, bad, judges, DROPPED, answers))
    true_drop = fmean(truth for truth, _ in before) - fmean(truth for truth, _ in after)
    errors = {}
    for rule in RULES:
        gaps = [combine_numbers(rule, votes) - truth for truth, votes in before]
        shown = fmean(combine_numbers(rule, votes) for _, votes in before) - fmean(
            combine_numbers(rule, votes) for _, votes in after
        )
        errors[rule] = PanelErrors(
            error=sqrt(fmean(gap * gap for gap in gaps)), bias=fmean(gaps), drop=shown / true_drop
        )
    return errors


def is_confirmed(results: Mapping[str, Mapping[Numeric, PanelErrors]]) -> bool:
    """Return whether the median is better with a judge that is useless, and not much worse with the others."""
    useless = [errors for name, errors in results.items() if name not in BENIGN]
    return (
        all(errors["median"].error < errors["mean"].error for errors in useless)
        and all(abs(errors["median"].bias) <= abs(errors["mean"].bias) for errors in useless)
        and all(results[name]["median"].error <= results[name]["mean"].error * 1.05 for name in BENIGN)
    )


def main() -> None:
    options = argument_parser(__doc__).parse_args()
    answers = SHORT_ANSWERS if options.short else ANSWERS
    unconfirmed = []
    for judges in (3, 5):
        results = {name: measure(bad, judges, answers) for name, bad in BAD_JUDGES.items()}
        table = Table("bad judge", *(f"{name}, {rule}" for name in ("error", "bias", "drop") for rule in RULES))
        for name, errors in results.items():
            table.add_row(
                name,
                *(f"{100 * errors[rule].error:.1f}" for rule in RULES),
                *(f"{100 * errors[rule].bias:+.1f}" for rule in RULES),
                *(f"{errors[rule].drop:.0%}" for rule in RULES),
            )
        print(f"{judges} judges, {answers:,} answers")
        Console(width=120).print(table)
        if not is_confirmed(results):
            unconfirmed.append(f"{judges} judges")
    print("error, bias: percentage points; drop: share of a true drop that the panel shows")
    if unconfirmed and not options.short:
        sys.exit(f"the median is not the better default for {', '.join(unconfirmed)}")


if __name__ == "__main__":
    main()
