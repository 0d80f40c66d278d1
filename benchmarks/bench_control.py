"""Measures what a cheap judge on all traffic would add to a dear one on the sample (a control variate).

The cheap judge is the local one. Its scores of all traffic are known, and 5 % of the traffic also has the dear score.
The difference estimator is the dear mean of the sample, less λ times the difference between the cheap means of the
sample and of all traffic. Its interval is narrower by 1 − √(1 − ρ²(1 − n/N)), where ρ is the correlation of both
scores, n the size of the sample and N that of the traffic.

ρ is that of real answers: between the local judge and people, who are the best panel there can be, and between the
local judge and the shipped encoder. From these answers

- days of 10,000 answers are drawn: the width of both intervals, how often the narrow one contains the mean, and how
  many more answers would have to be sampled for the same width without the cheap judge;
- streams are drawn whose share of supported answers falls by 10 points: the median number of sampled scores until the
  detector raises an alert, from the dear scores alone and from those less the cheap difference. The latter may be
  below 0 or above 1, so both are shrunk into the range of the detector by the same rule: that alone changes the delay.

The data are not in this repository: see benchmarks/labelled_answers.py for the formats. Without a file, the demo's
answers are used.

    PYTHONPATH=. python benchmarks/bench_control.py ragtruth-qa-dev.jsonl train.json.xz
    PYTHONPATH=. python benchmarks/bench_control.py --short
"""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import fmean, median

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser
from benchmarks.labelled_answers import JudgedPair, draw_day, evaluate_answers, name_of, read_answers, read_pairs
from sinks.statistics.corrected import correct
from stream.monitor.detection import Settings, State, observe

TRAFFIC, RATE = 10_000, 0.05
DAYS, SHORT_DAYS = 1_000, 3
STREAMS, SHORT_STREAMS = 200, 2
DROP, TOLERANCE = 0.10, 0.02
# Sampled scores before the drop, and after it at most.
BEFORE, AFTER = 300, 4_000
SECONDS = 60.0

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePairs:
    """The cheap and the dear scores of the same answers, and whether people found these supported."""

    name: str
    cheap: Numbers
    dear: Numbers
    label: Numbers

    @property
    def correlation(self) -> float:
        return float(np.corrcoef(self.cheap, self.dear)[0, 1])

    @property
    def slope(self) -> float:
        """λ."""
        return float(np.cov(self.cheap, self.dear)[0, 1] / self.cheap.var(ddof=1))

    def draw(self, rng: np.random.Generator, count: int, drop: float) -> tuple[Numbers, Numbers]:
        """Draw the cheap and dear scores of traffic whose share of supported answers has fallen by `drop`."""
        good, bad = np.flatnonzero(self.label == 1.0), np.flatnonzero(self.label == 0.0)
        is_good = rng.random(count) < self.label.mean() - drop
        which = np.where(is_good, rng.choice(good, count), rng.choice(bad, count))
        return self.cheap[which], self.dear[which]


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthFigures:
    """Means over days."""

    width: float
    width_alone: float
    covered: float


# Intervals


def measure_days(pairs: ScorePairs, days: int) -> WidthFigures:
    rng, truth = np.random.default_rng(1), float(pairs.dear.mean())
    counts = Counter(zip(pairs.cheap.tolist(), pairs.dear.tolist(), strict=True))
    estimates = [correct(draw_day(rng, counts, TRAFFIC, RATE)) for _day in range(days)]
    both = [estimate.corrected for estimate in estimates if estimate.corrected is not None]
    alone = [estimate.labels_alone for estimate in estimates if estimate.labels_alone is not None]
    return WidthFigures(
        width=fmean(interval.width for interval in both),
        width_alone=fmean(interval.width for interval in alone),
        covered=fmean(interval.low <= truth <= interval.high for interval in both),
    )


# Detection


def draw_stream(rng: np.random.Generator, pairs: ScorePairs) -> tuple[Numbers, Numbers]:
    """Draw the sampled scores of a stream that becomes worse: the dear ones, and the same less the cheap difference."""
    block = round(1.0 / RATE)
    parts = [pairs.draw(rng, count * block, drop) for count, drop in ((BEFORE, 0.0), (AFTER, DROP))]
    cheap, dear = (np.concatenate(scores).reshape(-1, block) for scores in zip(*parts, strict=True))
    # One of each block is sampled, and the whole block has cheap scores.
    return dear[:, 0], dear[:, 0] - pairs.slope * (cheap[:, 0] - cheap.mean(axis=1))


def detect(scores: Numbers, target: float) -> int | None:
    """Return the number of scores after the drop at which an alert is raised; None if it is raised before or never."""
    state, settings = State(), Settings(target=target)
    for number, score in enumerate(scores.tolist()):
        state = observe(state, settings, score, at=number * SECONDS).state
        if state.is_raised:
            return number - BEFORE if number >= BEFORE else None
    return None


def measure_delays(pairs: ScorePairs, streams: int) -> tuple[float, float]:
    """Return the median delays with the dear scores alone, and with the cheap ones."""
    rng, target = np.random.default_rng(2), float(pairs.dear.mean()) - TOLERANCE
    delays: tuple[list[int], list[int]] = ([], [])
    reach = abs(pairs.slope)
    for _stream in range(streams):
        for found, scores in zip(delays, draw_stream(rng, pairs), strict=True):
            delay = detect((scores + reach) / (1.0 + 2.0 * reach), (target + reach) / (1.0 + 2.0 * reach))
            found.append(AFTER if delay is None else delay)
    return median(delays[0]), median(delays[1])


# Output


def score_pairs(name: str, pairs: Sequence[JudgedPair]) -> Iterator[ScorePairs]:
    """Yield the local judge beside people, and beside the encoder."""
    for dear in ("people", "encoder"):
        rows = [
            (pair.judges["local"], pair.label if dear == "people" else pair.judges[dear], pair.label)
            for pair in pairs
            if "local" in pair.judges and (dear == "people" or dear in pair.judges)
        ]
        if rows:
            cheap, scores, label = np.array(rows).T
            yield ScorePairs(name=f"{name}, {dear}", cheap=cheap, dear=scores, label=label)


def judge_file(path: Path | None, *, short: bool) -> list[JudgedPair]:
    answers = read_answers(path)
    with tempfile.TemporaryDirectory() as folder:
        options = ("--judge", "local") if short else ()
        return read_pairs(evaluate_answers(answers, Path(folder), name_of(path), *options), answers)


def table_row(pairs: ScorePairs, *, short: bool) -> tuple[str, ...]:
    days = measure_days(pairs, SHORT_DAYS if short else DAYS)
    alone, both = measure_delays(pairs, SHORT_STREAMS if short else STREAMS)
    unexplained = 1.0 - pairs.correlation**2 * (1.0 - RATE)
    return (
        pairs.name,
        f"{pairs.correlation:.2f}",
        f"{1.0 - sqrt(unexplained):.1%}",
        f"{1.0 - days.width / days.width_alone:.1%}",
        f"{days.covered:.1%}",
        f"{1.0 / unexplained - 1.0:+.0%}",
        f"{alone:.0f}",
        f"{both:.0f}",
    )


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("files", type=Path, nargs="*", help="labelled answers, JSON Lines or train.json.xz")
    options = parser.parse_args()
    headings = ("ρ", "narrower, formula", "narrower", "covered", "same by sampling", "delay alone", "with local")
    table = Table("set, dear judge", *headings, title=f"local judge on all, dear judge on {RATE:.0%}")
    for path in options.files or [None]:
        for pairs in score_pairs(name_of(path), judge_file(path, short=options.short)):
            table.add_row(*table_row(pairs, short=options.short))
    Console(width=130).print(table)
    print("delay: median of sampled scores from a drop of 10 points to the alert")


if __name__ == "__main__":
    main()
