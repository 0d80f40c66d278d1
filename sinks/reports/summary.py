"""The figures of a run, collected row by row, so that a hundred thousand rows take no more memory than ten."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from judges.criteria.criterion import SAFETY_DIMENSION
from judges.shortfall import Unscored, shortfall_of, unscored_reason
from judges.values.diagnosis import CONTEXT_CRITERIA
from judges.values.evaluation import CompositeStatus, Dimension, Evaluation, JudgeVerdict, Reason, SafetyStatus, Status
from sinks.base import COMPOSITE
from sinks.metrics.scores import results
from sinks.reports.results_schema import CriterionInfo, Row, Run
from sinks.statistics.accumulators import (
    Durations,
    DurationStatistics,
    Scores,
    ScoreStatistics,
    Sketch,
    Values,
    ValueStatistics,
)
from sinks.statistics.kappa import kappa

MAX_LISTED = 100
"""The most rows in a list of issues; the rest are counted."""

MAX_ERRORS = 50
"""The most rows without a composite that are listed with their reason."""

MAX_NAMES = 50
"""The most kinds of errors, and of options off the scale, that are counted separately."""

HISTOGRAM_BINS = 20

# A composite of 0.9 may be computed a little below it.
_DIGITS = 9
# Below this a score is nearer to the worst than to the best.
_HALF = 0.5
_OTHER = "(other)"


class Band(StrEnum):
    """The quality of a composite in one word."""

    EXCELLENT = "excellent"
    GOOD = "good"
    FAIR = "fair"
    POOR = "poor"
    BAD = "bad"


FLOORS: Mapping[Band, float] = {Band.EXCELLENT: 0.9, Band.GOOD: 0.75, Band.FAIR: 0.5, Band.POOR: 0.3, Band.BAD: 0.0}
"""The lowest composite of each band, best band first."""

LOW = FLOORS[Band.POOR]
"""A composite below this is itself an issue."""


def band_of(score: float) -> Band:
    return next(band for band, floor in FLOORS.items() if round(score, _DIGITS) >= floor)


class IssueKind(StrEnum):
    UNSAFE = "unsafe"
    UNGROUNDED = "ungrounded"
    INCOMPLETE = "incomplete"
    LOW = "low"


_JUDGED_BY: Mapping[IssueKind, str] = {IssueKind.UNGROUNDED: "groundedness", IssueKind.INCOMPLETE: "completeness"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """One row in a list."""

    row: int
    id: str
    score: float | None
    """The score that put it on the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """The rows with one issue: their number, and the first of them."""

    kind: IssueKind
    count: int
    rows: tuple[Mention, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A row without a composite, and the reason."""

    row: int
    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionSummary:
    """The findings on one criterion."""

    criterion: CriterionInfo
    normalised: ScoreStatistics
    raw: ValueStatistics | None
    """On the criterion's own scale; None without scores, or if options have no values."""
    statuses: Mapping[Status, int]
    reasons: Mapping[Reason, int]
    """Reasons for missing scores."""
    choices: tuple[tuple[str, int], ...]
    """Counts of each level or option, worst first; empty for a range."""

    @property
    def coverage(self) -> float | None:
        """The share of applicable rows that have a verdict; None if the criterion applied to no row."""
        if self.normalised.estimate.coverage is not None:
            return self.normalised.estimate.coverage
        scored, missing = self.statuses[Status.SCORED], self.statuses[Status.INSUFFICIENT]
        return scored / (scored + missing) if scored + missing else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The agreement of two judges on one criterion, over the rows that both scored."""

    dimension: str
    judges: tuple[str, str]
    count: int
    equal: float | None
    """The share of rows with the same verdict; None on a range, where numbers are seldom equal."""
    kappa: float | None
    """Cohen's kappa: 1 is full agreement, 0 is that of chance; None if it is not defined."""
    difference: float | None
    """The mean distance of their normalised scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSummary:
    """The work of one judge, over all criteria."""

    judge: str
    verdicts: Mapping[Status, int]
    reasons: Mapping[Reason, int]
    samples: Mapping[str, int]
    """Requested, valid, invalid and error."""
    tokens: tuple[int, int] | None
    """Tokens of prompts and completions."""
    cost_usd: float | None
    cached: int
    latency: DurationStatistics | None
    """Latency of verdicts that did not come from a cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The figures of a whole run."""

    rows: int
    judged: int
    """Rows with an evaluation; the others could not be read."""
    scored: int
    """Rows with a composite."""
    composite: ScoreStatistics
    median: float | None
    histogram: tuple[int, ...]
    bands: Mapping[Band, int]
    statuses: Mapping[CompositeStatus, int]
    incomplete: int
    """Rows without a composite because verdicts are missing, and not because no criterion applied."""
    errors: Mapping[str, int]
    """Rows that could not be judged at all, by kind of error."""
    failures: tuple[Failure, ...]
    """The first rows without a composite."""
    dimensions: tuple[DimensionSummary, ...]
    best: str | None
    worst: str | None
    """The dimensions with the highest and the lowest normalised mean; None if fewer than two have one."""
    issues: tuple[Issue, ...]
    judges: tuple[JudgeSummary, ...]
    agreement: tuple[Agreement, ...]
    cost_usd: float | None
    """None if no judge reported its cost."""
    latency: DurationStatistics | None
    sampled: bool
    """Whether some rows were chosen with a probability below 1."""
    truncated: int = 0
    """Rows with a text that was truncated before it was judged."""

    @property
    def without_verdict(self) -> tuple[str, ...]:
        """Criteria that should have verdicts, but have none on any row."""
        return tuple(
            part.criterion.name
            for part in self.dimensions
            if part.statuses[Status.INSUFFICIENT] and not part.statuses[Status.SCORED]
        )

    def missing_verdict_notes(self, title: Callable[[str], str]) -> Iterator[str]:
        """Yield a note for each criterion without verdicts, or one for all of them."""
        names = self.without_verdict
        if names and not any(part.statuses[Status.SCORED] for part in self.dimensions):
            yield "No judge gave a verdict, so there are no scores"
            return
        effect = ": it does not count in the composites" if self.scored else ""
        yield from (f"{title(name)} has no verdicts{effect}" for name in names)


class Summariser:
    """Collects rows; their order only affects which rows the lists include."""

    def __init__(self, run: Run) -> None:
        self._rows = 0
        self._judged = 0
        self._truncated = 0
        self._composite = Scores()
        self._sketch = Sketch()
        self._bands: Counter[Band] = Counter()
        self._statuses: Counter[CompositeStatus] = Counter()
        self._incomplete = 0
        self._errors: Counter[str] = Counter()
        self._failures: list[Failure] = []
        self._dimensions = {criterion.name: _DimensionTally(criterion) for criterion in run.criteria}
        self._safety = next((criterion.name for criterion in run.criteria if criterion.safety), SAFETY_DIMENSION)
        self._issues = {kind: _IssueTally(kind) for kind in _issue_kinds(run.criteria)}
        self._judges = {name: _JudgeTally(name) for name in run.evaluator.judges}
        self._cost: float | None = None
        self._latency = Durations()
        self._sampled = False

    def add(self, row: Row) -> None:
        self._rows += 1
        if row.evaluation is None:
            kind = "unknown" if row.error is None else row.error.kind
            message = "no evaluation and no error" if row.error is None else row.error.message
            _count(self._errors, kind)
            self._fail(row, kind, message)
        else:
            self._add_judged(row, row.evaluation)

    def _add_judged(self, row: Row, evaluation: Evaluation) -> None:
        self._judged += 1
        self._truncated += bool(evaluation.truncated)
        probability = evaluation.sampling.probability
        self._sampled |= probability < 1.0
        self._statuses[evaluation.composite.status] += 1
        is_incomplete = evaluation.composite.status is CompositeStatus.INCOMPLETE
        self._incomplete += is_incomplete and unscored_reason(evaluation) is not Unscored.NOT_APPLICABLE
        for name, score in results(evaluation):
            scores = self._composite if name == COMPOSITE else self._tally(name).scores
            scores.add(score, probability)
        for name, dimension in evaluation.dimensions.items():
            self._tally(name).add(dimension, 1.0 / probability)
            for verdict in dimension.judges:
                self._judge(verdict.judge).add(verdict)
        self._add_composite(row, evaluation)
        for kind, score in issues_of(evaluation):
            if kind in self._issues:
                self._issues[kind].add(Mention(row=row.row, id=evaluation.interaction_id, score=score))
        if evaluation.cost_usd is not None:
            self._cost = (self._cost or 0.0) + evaluation.cost_usd
        self._latency.add(evaluation.latency_ms)

    def _add_composite(self, row: Row, evaluation: Evaluation) -> None:
        score = evaluation.composite.score
        if score is None:
            shortfall = shortfall_of(evaluation, self._safety)
            words = "" if shortfall is None else f"{shortfall.reason.value}: {shortfall.detail}".removesuffix(": ")
            self._fail(row, evaluation.composite.status.value, words)
        else:
            self._sketch.add(score)
            self._bands[band_of(score)] += 1

    def _fail(self, row: Row, kind: str, message: str) -> None:
        if len(self._failures) < MAX_ERRORS:
            self._failures.append(Failure(row=row.row, kind=kind, message=message))

    def _tally(self, name: str) -> "_DimensionTally":
        """Return the tally of a criterion; one that the run does not describe has only a name."""
        if name not in self._dimensions:
            unknown = CriterionInfo(name=name, title=name, question="", weight=0.0, bounds=None)
            self._dimensions[name] = _DimensionTally(unknown)
        return self._dimensions[name]

    def _judge(self, name: str) -> "_JudgeTally":
        if name not in self._judges:
            self._judges[name] = _JudgeTally(name)
        return self._judges[name]

    def result(self) -> Summary:
        unjudged = self._rows - self._judged
        dimensions = tuple(tally.result(unjudged) for tally in self._dimensions.values())
        # Criteria of the contexts say nothing about the answers.
        of_answers = (part for part in dimensions if part.criterion.name not in CONTEXT_CRITERIA)
        ranked = sorted((part for part in of_answers if part.normalised.mean is not None), key=_mean)
        return Summary(
            rows=self._rows,
            judged=self._judged,
            scored=sum(self._bands.values()),
            composite=self._composite.result(unjudged=unjudged),
            median=self._sketch.median(),
            histogram=self._sketch.coarse(HISTOGRAM_BINS),
            bands={band: self._bands[band] for band in Band},
            statuses={status: self._statuses[status] for status in CompositeStatus if self._statuses[status]},
            incomplete=self._incomplete,
            errors=dict(self._errors.most_common()),
            failures=tuple(self._failures),
            dimensions=dimensions,
            best=ranked[-1].criterion.name if len(ranked) > 1 else None,
            worst=ranked[0].criterion.name if len(ranked) > 1 else None,
            issues=tuple(tally.result() for tally in self._issues.values()),
            judges=tuple(tally.result() for tally in self._judges.values()),
            agreement=tuple(pair for tally in self._dimensions.values() for pair in tally.agreement()),
            cost_usd=self._cost,
            latency=self._latency.result(),
            sampled=self._sampled,
            truncated=self._truncated,
        )


def _mean(dimension: DimensionSummary) -> float:
    assert dimension.normalised.mean is not None
    return dimension.normalised.mean


def _issue_kinds(criteria: Sequence[CriterionInfo]) -> list[IssueKind]:
    """Return the kinds of issues that the criteria can find: others are not reported as absent."""
    names = {criterion.name for criterion in criteria}
    return [kind for kind in IssueKind if _JUDGED_BY.get(kind) is None or _JUDGED_BY[kind] in names]


def issues_of(evaluation: Evaluation) -> Iterator[tuple[IssueKind, float | None]]:
    """Yield the issues of an answer, each with its score."""
    composite = evaluation.composite
    if composite.safety.status is SafetyStatus.UNSAFE:
        yield IssueKind.UNSAFE, composite.score
    for kind, name in _JUDGED_BY.items():
        dimension = evaluation.dimensions.get(name)
        score = dimension.score if dimension is not None and dimension.status is Status.SCORED else None
        if score is not None and round(score, _DIGITS) < _HALF:
            yield kind, score
    if composite.score is not None and round(composite.score, _DIGITS) < LOW:
        yield IssueKind.LOW, composite.score


class _IssueTally:
    def __init__(self, kind: IssueKind) -> None:
        self._kind = kind
        self._count = 0
        self._rows: list[Mention] = []

    def add(self, mention: Mention) -> None:
        self._count += 1
        if len(self._rows) < MAX_LISTED:
            self._rows.append(mention)

    def result(self) -> Issue:
        return Issue(kind=self._kind, count=self._count, rows=tuple(self._rows))


class _DimensionTally:
    def __init__(self, criterion: CriterionInfo) -> None:
        self._criterion = criterion
        self.scores = Scores()
        self._values = Values()
        self._statuses: Counter[Status] = Counter()
        self._reasons: Counter[Reason] = Counter()
        self._choices: Counter[str] = Counter({label: 0 for label, _value in criterion.choices})
        self._pairs: dict[tuple[str, str], _PairTally] = {}

    def add(self, dimension: Dimension, weight: float) -> None:
        self._statuses[dimension.status] += 1
        self._add_pairs(dimension.judges)
        if dimension.status is not Status.SCORED:
            if dimension.reason is not None:
                self._reasons[dimension.reason] += 1
            return
        if dimension.value is not None:
            self._values.add(dimension.value, weight)
        label = choice_of(self._criterion, dimension)
        if label is not None:
            _count(self._choices, label)

    def _add_pairs(self, verdicts: Sequence[JudgeVerdict]) -> None:
        if len(verdicts) < 2:
            return
        scored = [verdict for verdict in verdicts if verdict.status is Status.SCORED]
        for one, other in combinations(sorted(scored, key=lambda verdict: verdict.judge), 2):
            names = one.judge, other.judge
            if names not in self._pairs:
                self._pairs[names] = _PairTally()
            self._pairs[names].add(self._criterion, one, other)

    def result(self, unjudged: int) -> DimensionSummary:
        return DimensionSummary(
            criterion=self._criterion,
            normalised=self.scores.result(unjudged=unjudged),
            raw=self._values.result(),
            statuses={status: self._statuses[status] for status in Status},
            reasons=dict(self._reasons.most_common()),
            choices=tuple(self._choices.items()),
        )

    def agreement(self) -> Iterator[Agreement]:
        for judges in sorted(self._pairs):
            yield self._pairs[judges].result(self._criterion.name, judges)


class _PairTally:
    """Verdicts of two judges on the same rows."""

    def __init__(self) -> None:
        self._count = 0
        self._joint: Counter[tuple[Hashable, Hashable]] = Counter()
        self._differences = Values()

    def add(self, criterion: CriterionInfo, one: JudgeVerdict, other: JudgeVerdict) -> None:
        self._count += 1
        choices = choice_of(criterion, one), choice_of(criterion, other)
        if None not in choices and (choices in self._joint or len(self._joint) < MAX_NAMES**2):
            self._joint[choices] += 1
        if one.score is not None and other.score is not None:
            self._differences.add(abs(one.score - other.score))

    def result(self, dimension: str, judges: tuple[str, str]) -> Agreement:
        comparable = sum(self._joint.values())
        same = sum(count for (one, other), count in self._joint.items() if one == other)
        differences = self._differences.result()
        return Agreement(
            dimension=dimension,
            judges=judges,
            count=self._count,
            equal=same / comparable if comparable else None,
            kappa=kappa(self._joint),
            difference=None if differences is None else differences.mean,
        )


class _JudgeTally:
    def __init__(self, judge: str) -> None:
        self._judge = judge
        self._verdicts: Counter[Status] = Counter()
        self._reasons: Counter[Reason] = Counter()
        self._samples = dict.fromkeys(("requested", "valid", "invalid", "error"), 0)
        self._tokens: tuple[int, int] | None = None
        self._cost: float | None = None
        self._cached = 0
        self._latency = Durations()

    def add(self, verdict: JudgeVerdict) -> None:
        self._verdicts[verdict.status] += 1
        if verdict.reason is not None:
            self._reasons[verdict.reason] += 1
        for name in self._samples:
            self._samples[name] += getattr(verdict.samples, name)
        if verdict.tokens is not None:
            prompt, completion = self._tokens or (0, 0)
            self._tokens = prompt + verdict.tokens.prompt, completion + verdict.tokens.completion
        if verdict.cost_usd is not None:
            self._cost = (self._cost or 0.0) + verdict.cost_usd
        if verdict.cached:
            self._cached += 1
        else:
            self._latency.add(verdict.latency_ms)

    def result(self) -> JudgeSummary:
        return JudgeSummary(
            judge=self._judge,
            verdicts={status: self._verdicts[status] for status in Status},
            reasons=dict(self._reasons.most_common()),
            samples=dict(self._samples),
            tokens=self._tokens,
            cost_usd=self._cost,
            cached=self._cached,
            latency=self._latency.result(),
        )


def choice_of(criterion: CriterionInfo, result: Dimension | JudgeVerdict) -> str | None:
    """Return the label of the level or option, as in the run's criteria; None on a range."""
    if result.level is not None:
        return next((label for label, value in criterion.choices if value == result.level), str(result.level))
    if result.option is None:
        return None
    option = result.option.strip().casefold()
    named = [label for label, _value in criterion.choices if label.strip().casefold() == option]
    # Earlier versions used labels as options, which differ between languages; then only the value is the same.
    alike = [label for label, value in criterion.choices if value is not None and value == result.value]
    if named:
        return named[0]
    return alike[0] if len(alike) == 1 else result.option


def _count(counts: Counter[str], key: str) -> None:
    """Count a name. Names come from files, so at most MAX_NAMES of them are counted separately."""
    counts[key if key in counts or len(counts) < MAX_NAMES else _OTHER] += 1
