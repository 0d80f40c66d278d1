"""Measures the bias, coverage and width of means that labels correct, over 1,000 simulated days.

Three judges choose one of three levels, and their mean is 15 points too high. 5 % of the traffic is risky: half of it
is judged, and 5 % of the rest. About 200 of the judged answers are labelled. The estimates compared are

judges      the judges' mean, weighted by the sampling
labels      the labels alone, with a random queue
random      the judges' mean corrected by labels from a random queue
designed    the same with the queue that prefers answers with a large weight, and those on which the judges disagree

Then the number of labels at which the designed queue has the width that a random queue has with 200, also where all
traffic is sampled at the same rate and only the disagreement is left to prefer. Last, how often an interval of the
anytime-valid version (99 %) is wrong at any of its looks.

    PYTHONPATH=. python benchmarks/bench_labels.py
"""

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser
from sinks.statistics.corrected import CorrectedEstimate, CorrectionSums, MeanInterval, correct
from sinks.statistics.corrected_anytime import CorrectedSequence, corrected_interval
from sinks.statistics.label_design import expected_error, label_probability

DAYS, SHORT_DAYS = 1_000, 3
TRAFFIC, LABELS = 20_000, 200
FLOOR = 0.1
MISS = 0.01
# Almost all days have this many labels.
LAST_LOOK, LOOK_EVERY = 150, 15

MOST_BIAS, COVERED, LEAST_NARROWER, LEAST_SAVED = 0.002, (0.93, 0.97), 0.20, 0.15


LEVELS = (0.0, 0.5, 1.0)
# The levels of a judge who does not understand an answer.
GUESSES = (0.2, 0.3, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficKind:
    """A kind of traffic, and how judges err on it."""

    share: float
    """Share of the traffic."""
    probability: float
    """Probability of being sampled."""
    levels: tuple[float, float, float]
    """Share of answers on each level."""
    generous: float
    """Probability with which a judge chooses the next better level."""
    strict: float
    guess: float
    """Probability with which a judge guesses."""


EASY = TrafficKind(share=0.665, probability=0.05, levels=(0.2, 0.3, 0.5), generous=0.39, strict=0.02, guess=0.0)
HARD = TrafficKind(share=0.285, probability=0.05, levels=(0.5, 0.3, 0.2), generous=0.42, strict=0.02, guess=0.8)
KINDS = (
    EASY,
    HARD,
    replace(EASY, share=0.025, probability=0.5, levels=(0.4, 0.3, 0.3)),
    replace(HARD, share=0.025, probability=0.5, levels=(0.7, 0.2, 0.1)),
)
# The same traffic, sampled at one rate.
EVEN_KINDS = tuple(replace(kind, probability=0.0725) for kind in KINDS)
LOWEST = min(kind.probability for kind in KINDS)
TRUTH = sum(kind.share * share * level for kind in KINDS for share, level in zip(kind.levels, LEVELS, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAnswer:
    """A judged answer, and the label that it would get."""

    score: float
    label: float
    error: float
    probability: float

    def chance(self, rate: float, floor: float) -> float:
        """Return the probability of being labelled; a floor of 1 is a random queue."""
        return label_probability(self.error, self.probability, rate=rate, floor=floor, lowest=LOWEST)


@dataclass
class EstimateTally:
    """Sums over days."""

    days: int = 0
    mean: float = 0.0
    width: float = 0.0
    covered: int = 0
    labels: int = 0

    def add(self, estimate: MeanInterval, labels: int) -> None:
        self.days += 1
        self.mean += estimate.mean
        self.width += estimate.width
        self.covered += estimate.low <= TRUTH <= estimate.high
        self.labels += labels

    @property
    def bias(self) -> float:
        return self.mean / self.days - TRUTH

    @property
    def coverage(self) -> float:
        return self.covered / self.days

    @property
    def mean_width(self) -> float:
        return self.width / self.days


def vote(rng: random.Random, kind: TrafficKind, label: float) -> float:
    """Return the level that a judge chooses for an answer of this level."""
    if rng.random() < kind.guess:
        return rng.choices(LEVELS, GUESSES)[0]
    draw = rng.random()
    if draw < kind.generous:
        return min(1.0, label + 0.5)
    return max(0.0, label - 0.5) if draw < kind.generous + kind.strict else label


def draw_day(rng: random.Random, kinds: Sequence[TrafficKind] = KINDS) -> list[JudgedAnswer]:
    """Draw the judged answers of a day, in random order."""
    answers = []
    for kind in kinds:
        expected = TRAFFIC * kind.share * kind.probability
        for _number in range(max(0, round(rng.gauss(expected, (expected * (1.0 - kind.probability)) ** 0.5)))):
            (label,) = rng.choices(LEVELS, kind.levels)
            votes = [vote(rng, kind, label) for _judge in range(3)]
            error = expected_error(disagreement=max(votes) - min(votes))
            answers.append(JudgedAnswer(score=sum(votes) / 3.0, label=label, error=error, probability=kind.probability))
    rng.shuffle(answers)
    return answers


def find_rate(answers: list[JudgedAnswer], labels: float, floor: float) -> float:
    """Return the rate at which about as many answers are chosen as labels are wanted."""
    return min(1.0, labels / sum(answer.chance(1.0, floor) for answer in answers))


def estimate_day(rng: random.Random, answers: list[JudgedAnswer], labels: float, floor: float) -> CorrectedEstimate:
    sums = CorrectionSums()
    rate = find_rate(answers, labels, floor)
    for answer in answers:
        chance = answer.chance(rate, floor)
        if rng.random() < chance:
            both = answer.probability * chance
            sums += CorrectionSums.of_label(answer.score, answer.label, answer.probability, both)
        else:
            sums += CorrectionSums.of_score(answer.score, answer.probability)
    return correct(sums)


def simulate(days: int, seed: int = 1) -> dict[str, EstimateTally]:
    rng = random.Random(seed)
    tallies = {name: EstimateTally() for name in ("judges", "labels", "random", "designed")}
    for _day in range(days):
        answers = draw_day(rng)
        by_chance = estimate_day(rng, answers, LABELS, 1.0)
        designed = estimate_day(rng, answers, LABELS, FLOOR)
        for name, estimate, labels in (
            ("labels", by_chance.labels_alone, by_chance.labels),
            ("random", by_chance.corrected, by_chance.labels),
            ("designed", designed.corrected, designed.labels),
        ):
            assert estimate is not None
            tallies[name].add(estimate, labels)
        mean = by_chance.judge_mean
        assert mean is not None
        tallies["judges"].add(MeanInterval(mean=mean, low=mean, high=mean), 0)
    return tallies


def mean_width(days: int, kinds: Sequence[TrafficKind], labels: float, floor: float) -> float:
    rng, widths = random.Random(2), []
    for _day in range(days):
        corrected = estimate_day(rng, draw_day(rng, kinds), labels, floor).corrected
        assert corrected is not None
        widths.append(corrected.width)
    return fmean(widths)


def designed_labels(days: int, kinds: Sequence[TrafficKind]) -> float:
    """Return the number of labels at which the designed queue has the width that a random one has with `LABELS`."""
    width = mean_width(days, kinds, LABELS, 1.0)
    low, high = LABELS / 2.0, LABELS * 1.1
    for _halving in range(5):
        middle = (low + high) / 2.0
        low, high = (low, middle) if mean_width(days, kinds, middle, FLOOR) < width else (middle, high)
    return high


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """The looks at the anytime-valid intervals."""

    days: int
    wrong_days: int
    """Days with a wrong interval at any look."""
    wrong: dict[int, int]
    """Wrong intervals by their number of labels."""
    width: dict[int, float]
    """Sums of widths by the number of labels."""


def watch(days: int, floor: float, seed: int = 3) -> Looks:
    """Look at the interval after every few labels."""
    rng, wrong_days = random.Random(seed), 0
    wrong: dict[int, int] = {}
    width: dict[int, float] = {}
    for _day in range(days):
        missed = False
        for labels, found in intervals_of_day(rng, floor):
            is_wrong = not found.low <= TRUTH <= found.high
            wrong[labels] = wrong.get(labels, 0) + is_wrong
            width[labels] = width.get(labels, 0.0) + found.width
            missed = missed or is_wrong
        wrong_days += missed
    return Looks(days=days, wrong_days=wrong_days, wrong=wrong, width=width)


def intervals_of_day(rng: random.Random, floor: float) -> Iterator[tuple[int, MeanInterval]]:
    answers = draw_day(rng)
    rate = find_rate(answers, LABELS, floor)
    lowest = min(answer.probability * answer.chance(rate, floor) for answer in answers)
    series = CorrectedSequence(lowest_probability=LOWEST, lowest_label_probability=lowest)
    for answer in answers:
        series = series.plus_score(answer.score, answer.probability)
        chance = answer.chance(rate, floor)
        if rng.random() >= chance:
            continue
        series = series.plus_label(answer.score, answer.label, answer.probability * chance)
        if series.gaps.count % LOOK_EVERY == 0 and series.gaps.count <= LAST_LOOK:
            yield series.gaps.count, corrected_interval(series, MISS)


def print_estimates(tallies: dict[str, EstimateTally]) -> None:
    days = tallies["judges"].days
    table = Table("estimate", "labels", "bias", "covered", "width", title=f"{days:,} days, true mean {TRUTH:.2%}")
    for name, tally in tallies.items():
        is_mean = name == "judges"
        table.add_row(
            name,
            f"{tally.labels / days:.0f}",
            f"{100 * tally.bias:+.2f}",
            "" if is_mean else f"{tally.coverage:.1%}",
            "" if is_mean else f"{100 * tally.mean_width:.2f}",
        )
    Console().print(table)


def print_looks(looks: dict[str, Looks]) -> None:
    table = Table("queue", "looks", "right at every look", "worst look", "width at 75", "width at 150")
    for name, watched in looks.items():
        worst = max(watched.wrong.values())
        table.add_row(
            name,
            f"{len(watched.wrong)} a day",
            f"{1 - watched.wrong_days / watched.days:.1%}",
            f"{1 - worst / watched.days:.1%}",
            *(f"{100 * watched.width[labels] / watched.days:.1f}" for labels in (75, 150)),
        )
    Console().print(table)


def find_broken(tallies: dict[str, EstimateTally], saved: float, looks: dict[str, Looks]) -> Iterator[str]:
    for name in ("random", "designed"):
        if abs(tallies[name].bias) > MOST_BIAS:
            yield f"bias of {name}"
        if not COVERED[0] <= tallies[name].coverage <= COVERED[1]:
            yield f"coverage of {name}"
        if tallies[name].mean_width > (1.0 - LEAST_NARROWER) * tallies["labels"].mean_width:
            yield f"width of {name}"
    if saved < LEAST_SAVED:
        yield "labels saved by the designed queue"
    for name, watched in looks.items():
        if watched.wrong_days > MISS * watched.days:
            yield f"anytime-valid coverage of {name}"


def main() -> None:
    options = argument_parser(__doc__).parse_args()
    days = SHORT_DAYS if options.short else DAYS
    tallies = simulate(days)
    print_estimates(tallies)
    needed, even = (designed_labels(max(3, days // 5), kinds) for kinds in (KINDS, EVEN_KINDS))
    saved = 1.0 - needed / LABELS
    narrower = 1.0 - tallies["random"].mean_width / tallies["labels"].mean_width
    print(f"corrected intervals are {narrower:.1%} narrower than those of {LABELS} labels alone")
    print(f"the designed queue has the width of {LABELS} random labels with {needed:.0f}: {saved:.1%} fewer")
    print(f"if all traffic is sampled at one rate, with {even:.0f}: {1 - even / LABELS:.1%} fewer")
    looks = {"random": watch(days, 1.0), "designed": watch(days, FLOOR)}
    print_looks(looks)
    print("bias, width: percentage points")
    broken = list(find_broken(tallies, saved, looks))
    if broken and not options.short:
        sys.exit(f"not as promised: {', '.join(broken)}")


if __name__ == "__main__":
    main()
