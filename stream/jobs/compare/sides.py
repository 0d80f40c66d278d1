"""The two sides of a comparison: the findings of each on every row, kept small enough for very many rows."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from judges.values.evaluation import Dimension, Evaluation, JudgeVerdict, Status
from sinks.reports.results_reader import Results, read_results
from sinks.reports.results_schema import CriterionInfo, Row, Run
from sinks.text import shortened
from stream.jobs.compare.scales import Scale

_QUESTION_CHARS = 80
# Of a long question, so much is made fit to be shown.
_LOOKED_AT_CHARS = 400
# Where the question stands in a row, if the evaluation has no excerpt of it.
_QUESTIONS = ("question", "current user question")


Watch = Callable[[int, int], None]
"""Is told after every row how many of how many are read."""


class Key(NamedTuple):
    """Names a row on both sides: its id, and which of the rows of that id it is."""

    id: str
    time: int = 1


class CriterionResult(NamedTuple):
    """What was found, or said by people, on one criterion."""

    status: Status
    score: float | None = None
    place: int | None = None
    """Its class on the scale, worst first; None on a range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVerdicts:
    """What one side found on one row."""

    number: int
    question: str
    findings: Mapping[str, CriterionResult]
    composite: float | None = None
    status: str | None = None
    """Of the composite; None of a single judge, which has none."""

    cost_usd: float | None = None
    latency_ms: float | None = None
    """None of a judge that was not asked."""

    cached: bool = False
    """Some verdict came from a cache, which costs nothing and takes no time."""


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
    """By criterion, findings whose option is not among its choices, such as one in another language."""

    composite: bool = True


class UnknownJudgeError(ValueError):
    """A judge that gave no verdict in the results."""


def _unwatched(_done: int, _total: int) -> None:
    pass


def load_side(path: Path, *, watch: Watch = _unwatched) -> Side:
    """What a file or folder of results holds; raises ResultsError."""
    results = read_results(path)
    side = Side(name=str(path), path=results.path, run=results.run, finished=results.end is not None)
    _fill(results, [(side, None)], watch)
    return side


def load_judges(path: Path, names: Sequence[str], *, watch: Watch = _unwatched) -> list[Side]:
    """What each of these judges found, in one file or folder of results."""
    results = read_results(path)
    finished = results.end is not None
    sides = [Side(name=name, path=results.path, run=results.run, finished=finished, composite=False) for name in names]
    heard = _fill(results, [(side, side.name) for side in sides], watch)
    for name in names:
        if name not in heard:
            known = ", ".join(sorted(heard)) or "none"
            raise UnknownJudgeError(f"{results.path}: no verdicts by a judge named {name!r}; its judges are: {known}")
    return sides


def _fill(results: Results, wanted: Sequence[tuple[Side, str | None]], watch: Watch) -> set[str]:
    """Reads the rows once for all sides; the judges that were heard are told."""
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
        heard.update(verdict.judge for each in row.evaluation.dimensions.values() for verdict in each.judges)
        for reader, judge in readers:
            reader.add(Key(name, times[name]), row, row.evaluation, judge)
    for reader, _ in readers:
        reader.side.scales = reader.scales
    return heard


class _Reader:
    """Fills a side with rows; equal findings are kept once."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.scales = {criterion.name: Scale.of(criterion) for criterion in side.run.criteria}
        self._ranges = {each.name: each for each in side.run.criteria if not each.choices and each.bounds}
        self._known: dict[CriterionResult, CriterionResult] = {}

    def add(self, key: Key, row: Row, evaluation: Evaluation, judge: str | None) -> None:
        question = _question(row, evaluation)
        if judge is None:
            judged = self._of_panel(row.row, question, evaluation)
        else:
            judged = self._of_judge(row.row, question, evaluation, judge)
        self.side.judged[key] = judged

    def _of_panel(self, number: int, question: str, evaluation: Evaluation) -> RowVerdicts:
        verdicts = (verdict for each in evaluation.dimensions.values() for verdict in each.judges)
        return RowVerdicts(
            number=number,
            question=question,
            findings={name: self._finding(name, each) for name, each in evaluation.dimensions.items()},
            composite=evaluation.composite.score,
            status=evaluation.composite.status.value,
            cost_usd=evaluation.cost_usd,
            latency_ms=evaluation.latency_ms,
            cached=any(verdict.cached for verdict in verdicts),
        )

    def _of_judge(self, number: int, question: str, evaluation: Evaluation, judge: str) -> RowVerdicts:
        """Its criteria are asked at the same time: the slowest one is how long the judge took."""
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

    def _finding(self, name: str, found: Dimension | JudgeVerdict) -> CriterionResult:
        if found.status is not Status.SCORED:
            return CriterionResult(found.status)
        if name in self._ranges and found.value is not None and found.score is not None:
            self._learn(self._ranges[name], found.value, found.score)
        finding = CriterionResult(found.status, found.score, self._place(name, found))
        return self._known.setdefault(finding, finding)

    def _place(self, name: str, found: Dimension | JudgeVerdict) -> int | None:
        scale = self.scales.get(name)
        if scale is None or not scale.labels:
            return None
        place = scale.place(level=found.level, option=found.option, value=found.value)
        self.side.unplaced[name] += place is None
        return place

    def _learn(self, criterion: CriterionInfo, value: float, score: float) -> None:
        """Which way a range runs shows wherever a value is not in its middle; the results do not say it otherwise."""
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
        return shortened(evaluation.excerpt.question[:_LOOKED_AT_CHARS], _QUESTION_CHARS)
    texts = {name.strip().casefold(): value for name, value in row.source.items()}
    found = next((texts[name] for name in _QUESTIONS if isinstance(texts.get(name), str)), "")
    return shortened(str(found)[:_LOOKED_AT_CHARS], _QUESTION_CHARS)
