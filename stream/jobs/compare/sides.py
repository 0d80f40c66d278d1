"""The two sides of a comparison: the findings of each on every row, compact enough for very many rows."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from judges.values.evaluation import Dimension, Evaluation, JudgeVerdict, Status
from sinks.reports.results_reader import Results, read_results
from sinks.reports.results_schema import CriterionInfo, Row, Run
from sinks.text import shorten
from stream.jobs.compare.scales import Scale

_QUESTION_CHARS = 80
# At most this much of a long question is cleaned for display.
_LOOKED_AT_CHARS = 400
# Names of the question in a row, if the evaluation has no excerpt of it.
_QUESTIONS = ("question", "current user question")


Watch = Callable[[int, int], None]
"""Called after every row with the number of rows read, and their total."""


class Key(NamedTuple):
    """Identifies a row on both sides: its id, and its number among the rows with that id."""

    id: str
    time: int = 1


class CriterionResult(NamedTuple):
    """A finding or a human label on one criterion."""

    status: Status
    score: float | None = None
    place: int | None = None
    """Its class on the scale, worst first; None on a range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVerdicts:
    """The findings of one side on one row."""

    number: int
    question: str
    findings: Mapping[str, CriterionResult]
    composite: float | None = None
    status: str | None = None
    """Status of the composite; None for a single judge, which has none."""

    cost_usd: float | None = None
    latency_ms: float | None = None
    """None for a judge that was not asked."""

    cached: bool = False
    """Whether a verdict came from a cache, which costs nothing and takes no time."""


@dataclass(slots=True, kw_only=True)
class Side:
    name: str
    """For people: a file, or a judge."""

    path: Path
    run: Run
    finished: bool
    judged: dict[Key, RowVerdicts] = field(default_factory=dict)
    """By rising row number."""

    scales: Mapping[str, Scale] = field(default_factory=dict)
    failed: int = 0
    """Rows without an evaluation."""

    unplaced: Counter[str] = field(default_factory=Counter)
    """Findings per criterion whose option is not among its choices, such as one in another language."""

    composite: bool = True


class UnknownJudgeError(ValueError):
    """A judge that gave no verdict in the results."""


def _ignore_progress(_done: int, _total: int) -> None:
    pass


def load_side(path: Path, *, watch: Watch = _ignore_progress) -> Side:
    """Load a file or folder of results; raises ResultsError."""
    results = read_results(path)
    side = Side(name=str(path), path=results.path, run=results.run, finished=results.end is not None)
    _fill(results, [(side, None)], watch)
    return side


def load_judges(path: Path, names: Sequence[str], *, watch: Watch = _ignore_progress) -> list[Side]:
    """Load the findings of each of these judges from one file or folder of results."""
    results = read_results(path)
    finished = results.end is not None
    sides = [Side(name=name, path=results.path, run=results.run, finished=finished, composite=False) for name in names]
    heard = _fill(results, [(side, side.name) for side in sides], watch)
    for name in names:
        if name not in heard:
            judges = ", ".join(sorted(heard)) or "none"
            raise UnknownJudgeError(f"{results.path}: no verdicts by a judge named {name!r}; its judges are: {judges}")
    return sides


def _fill(results: Results, wanted: Sequence[tuple[Side, str | None]], watch: Watch) -> set[str]:
    """Read the rows once for all sides; return the names of all judges in them."""
    readers = [(_Reader(side), judge) for side, judge in wanted]
    times: Counter[str] = Counter()
    heard: set[str] = set()
    for done, row in enumerate(results.rows(), start=1):
        watch(done, len(results))
        if row.evaluation is None:
            for reader, _ in readers:
                reader.side.failed += 1
            continue
        name = row.evaluation.interaction_id
        times[name] += 1
        dimensions = row.evaluation.dimensions.values()
        heard.update(verdict.judge for dimension in dimensions for verdict in dimension.judges)
        for reader, judge in readers:
            reader.add(Key(name, times[name]), row, row.evaluation, judge)
    for reader, _ in readers:
        reader.side.scales = reader.scales
    return heard


class _Reader:
    """Fills a side with rows; equal findings share one object."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.scales = {criterion.name: Scale.of(criterion) for criterion in side.run.criteria}
        self._ranges = {part.name: part for part in side.run.criteria if not part.choices and part.bounds}
        self._interned: dict[CriterionResult, CriterionResult] = {}

    def add(self, key: Key, row: Row, evaluation: Evaluation, judge: str | None) -> None:
        question = _question(row, evaluation)
        if judge is None:
            judged = self._of_panel(row.row, question, evaluation)
        else:
            judged = self._of_judge(row.row, question, evaluation, judge)
        self.side.judged[key] = judged

    def _of_panel(self, number: int, question: str, evaluation: Evaluation) -> RowVerdicts:
        verdicts = (verdict for dimension in evaluation.dimensions.values() for verdict in dimension.judges)
        return RowVerdicts(
            number=number,
            question=question,
            findings={name: self._finding(name, dimension) for name, dimension in evaluation.dimensions.items()},
            composite=evaluation.composite.score,
            status=evaluation.composite.status.value,
            cost_usd=evaluation.cost_usd,
            latency_ms=evaluation.latency_ms,
            cached=any(verdict.cached for verdict in verdicts),
        )

    def _of_judge(self, number: int, question: str, evaluation: Evaluation, judge: str) -> RowVerdicts:
        """Return a judge's findings. Its criteria are judged at the same time, so the slowest one is its latency."""
        verdicts = dict(_verdicts(evaluation, judge))
        costs = [verdict.cost_usd for verdict in verdicts.values() if verdict.cost_usd is not None]
        return RowVerdicts(
            number=number,
            question=question,
            findings={name: self._finding(name, verdict) for name, verdict in verdicts.items()},
            cost_usd=sum(costs) if costs else None,
            latency_ms=max((verdict.latency_ms for verdict in verdicts.values()), default=None),
            cached=any(verdict.cached for verdict in verdicts.values()),
        )

    def _finding(self, name: str, verdict: Dimension | JudgeVerdict) -> CriterionResult:
        if verdict.status is not Status.SCORED:
            return CriterionResult(verdict.status)
        if name in self._ranges and verdict.value is not None and verdict.score is not None:
            self._learn(self._ranges[name], verdict.value, verdict.score)
        finding = CriterionResult(verdict.status, verdict.score, self._place(name, verdict))
        return self._interned.setdefault(finding, finding)

    def _place(self, name: str, verdict: Dimension | JudgeVerdict) -> int | None:
        scale = self.scales.get(name)
        if scale is None or not scale.labels:
            return None
        place = scale.place(level=verdict.level, option=verdict.option, value=verdict.value)
        self.side.unplaced[name] += place is None
        return place

    def _learn(self, criterion: CriterionInfo, value: float, score: float) -> None:
        """Learn the direction of a range from a value outside its middle; the results do not state it."""
        rising = self.scales[criterion.name].score(value) if self.scales[criterion.name].rising else None
        if rising is not None and abs(rising - score) > abs(1.0 - rising - score):
            self.scales[criterion.name] = Scale.of(criterion, rising=False)


def _verdicts(evaluation: Evaluation, judge: str) -> Iterator[tuple[str, JudgeVerdict]]:
    for name, dimension in evaluation.dimensions.items():
        for verdict in dimension.judges:
            if verdict.judge == judge:
                yield name, verdict


def _question(row: Row, evaluation: Evaluation) -> str:
    if evaluation.excerpt is not None:
        return shorten(evaluation.excerpt.question[:_LOOKED_AT_CHARS], _QUESTION_CHARS)
    texts = {name.strip().casefold(): value for name, value in row.source.items()}
    question = next((texts[name] for name in _QUESTIONS if isinstance(texts.get(name), str)), "")
    return shorten(str(question)[:_LOOKED_AT_CHARS], _QUESTION_CHARS)
