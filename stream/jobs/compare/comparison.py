"""The comparison: two sides row by row, and each side with the human labels."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from statistics import fmean

from judges.values.evaluation import CompositeStatus, Status
from sinks.base import COMPOSITE
from sinks.statistics.corrected import CorrectedEstimate, CorrectionSums, correct
from sinks.statistics.difference import Difference, Spread, paired_difference, spread_of
from stream.jobs.compare.accuracy import Calibration, accuracy, balanced_accuracy, calibration, f1, macro_f1
from stream.jobs.compare.agreement import Pairs, cohen_kappa, share_equal, spearman
from stream.jobs.compare.detection import Detection, detect
from stream.jobs.compare.human_labels import STATUSES, Said
from stream.jobs.compare.measure import Measure, unknown
from stream.jobs.compare.scales import BAD_BELOW, BEST, Scale
from stream.jobs.compare.sides import CriterionResult, Key, RowVerdicts, Side

_NOTHING = CriterionResult(Status.INSUFFICIENT)
_BAD_STATUSES = frozenset(place for place, name in enumerate(STATUSES.labels) if name != CompositeStatus.OK)

Met = Sequence[tuple[CriterionResult, CriterionResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SideAgreement:
    """Agreement on one criterion or on the composite, over the rows that both sides have."""

    name: str
    rows: int
    """Rows on which both have a verdict; their scores are compared."""

    only_first: int
    only_second: int
    neither: int
    classed: int
    """Rows on which both chose a class; the classes are compared. The classes of the composite are its statuses."""

    same: Measure
    kappa: Measure
    linear: Measure
    quadratic: Measure
    spearman: Measure
    first_mean: float | None
    second_mean: float | None
    difference: Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """A row on which the two sides differ."""

    key: Key
    number: int
    question: str
    size: float
    """The distance of the composites or, without two composites, the mean distance of the scores."""

    composite: tuple[float | None, float | None]
    status: tuple[str | None, str | None]
    scores: Mapping[str, tuple[float | None, float | None]]
    """Scores of the criteria on which they differ, the largest difference first."""

    options: Mapping[str, tuple[str | None, str | None]]
    """Different choices on the criteria whose options have no scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expense:
    """Cost and latency of one side, over the rows that both have."""

    cost_usd: Spread
    latency_ms: Spread
    unpriced: int
    """Rows with unknown cost."""

    cached: int
    """Rows with a verdict from a cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideComparison:
    """The comparison of two sides."""

    rows: int
    only_first: tuple[str, ...]
    """Ids of the rows that the other side does not have."""

    only_second: tuple[str, ...]
    criteria: tuple[SideAgreement, ...]
    composite: SideAgreement | None
    comparable: bool
    """Whether both composites are made of the same criteria."""

    statuses: Mapping[tuple[str, str], int]
    """Rows by the status on both sides."""

    changed: int
    """Rows on which they differ."""

    most: tuple[RowChange, ...]
    """Rows that differ most, the largest difference first."""

    expenses: tuple[Expense, Expense]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAgreement:
    """Agreement of one side with the labels on one criterion or on the composite. In `agreement`, people come first."""

    name: str
    labelled: int
    unscored: int
    """Labelled rows without a verdict."""

    not_applicable: int
    """Rows labelled as not applicable."""

    bad: int
    """Rows labelled as bad."""

    agreement: SideAgreement
    accuracy: Measure
    balanced_accuracy: Measure
    macro_f1: Measure
    bad_f1: Measure
    calibration: Calibration
    detection: Detection | None = None
    """For labels of yes and no: how well the scores find the rows labelled no."""

    corrected: CorrectedEstimate | None = None
    """The mean of all judged rows, corrected by the labels; None without labels of rows chosen at random."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Agreement of one side with the labels."""

    rows: int
    """Labelled rows that were judged."""

    unmatched: tuple[str, ...]
    hits: tuple[LabelAgreement, ...]


def compare(first: Side, second: Side, *, most: int = 10) -> SideComparison:
    """Compare the rows that both sides have, and list those that only one has."""
    common = [(key, judged, second.judged[key]) for key, judged in first.judged.items() if key in second.judged]
    rows = [(one, other) for _, one, other in common]
    scales = {name: (scale, second.scales[name]) for name, scale in first.scales.items() if name in second.scales}
    changes = [change for row in common if (change := _change(*row, scales)) is not None]
    with_composite = first.composite and second.composite
    return SideComparison(
        rows=len(rows),
        only_first=_only(first, second),
        only_second=_only(second, first),
        criteria=tuple(_agreement(name, _pair_findings(rows, name), *both) for name, both in scales.items()),
        composite=_agreement(COMPOSITE, _pair_findings(rows, COMPOSITE), STATUSES, STATUSES)
        if with_composite
        else None,
        comparable=_parts(first) == _parts(second),
        statuses=Counter((one.status or "", other.status or "") for one, other in rows) if with_composite else {},
        changed=len(changes),
        most=tuple(nlargest(most, changes, key=_weight)),
        expenses=(_expense([one for one, _ in rows]), _expense([other for _, other in rows])),
    )


def meet(side: Side, labels: Said) -> Meeting:
    """Compare a side with the labels of its rows."""
    return Meeting(
        rows=len(labels.rows),
        unmatched=labels.unmatched,
        hits=tuple(_hit(name, side, labels) for name in labels.scales),
    )


def _parts(side: Side) -> set[str]:
    """Return the criteria that the composite is made of."""
    criteria = side.run.criteria
    return {part.name for part in criteria if part.safety or (part.weight and part.bounds is not None)}


def _only(side: Side, other: Side) -> tuple[str, ...]:
    return tuple(key.id for key in side.judged if key not in other.judged)


def finding_of(judged: RowVerdicts, name: str) -> CriterionResult:
    """Return the finding on a criterion or the composite; a withheld composite has a status and no score."""
    if name != COMPOSITE:
        return judged.findings.get(name, _NOTHING)
    place = STATUSES.place(option=judged.status)
    status = Status.INSUFFICIENT if judged.composite is None else Status.SCORED
    return CriterionResult(status, judged.composite, place)


def _pair_findings(rows: Sequence[tuple[RowVerdicts, RowVerdicts]], name: str) -> Met:
    return [(finding_of(one, name), finding_of(other, name)) for one, other in rows]


# Agreement


def _agreement(name: str, met: Met, first: Scale, second: Scale) -> SideAgreement:
    counts = Counter((one.status is Status.SCORED, other.status is Status.SCORED) for one, other in met)
    scores = _scores(met)
    classes = _classes(met)
    levelless = _levelless(met) if first.labels else None
    classless, orderless = _classless(first, second) or levelless, _orderless(first, second) or levelless
    ranked = [] if orderless else [(first.ranks[one], second.ranks[other]) for one, other in classes]
    scoreless = unknown("no scores to compare") if first.bounds is None and not scores else None
    return SideAgreement(
        name=name,
        rows=counts[True, True],
        only_first=counts[True, False],
        only_second=counts[False, True],
        neither=counts[False, False],
        classed=len(classes),
        same=classless or share_equal(classes),
        kappa=classless or cohen_kappa(classes),
        linear=orderless or cohen_kappa(ranked, "linear"),
        quadratic=orderless or cohen_kappa(ranked, "quadratic"),
        spearman=scoreless or spearman(scores),
        first_mean=fmean(one for one, _ in scores) if scores else None,
        second_mean=fmean(other for _, other in scores) if scores else None,
        difference=paired_difference(scores),
    )


def _scores(met: Met) -> list[tuple[float, float]]:
    return [(one.score, other.score) for one, other in met if one.score is not None and other.score is not None]


def _classes(met: Met) -> Pairs:
    return [(one.place, other.place) for one, other in met if one.place is not None and other.place is not None]


def _classless(first: Scale, second: Scale) -> Measure | None:
    """Return why classes cannot be compared, or None."""
    if not first.labels or not second.labels:
        return unknown("a range has no classes")
    return None if first.same_classes(second) else unknown("the two scales have different classes")


def _levelless(met: Met) -> Measure | None:
    """Return why labels have no classes although their scale has: they say only yes and no."""
    scored = [one for one, _other in met if one.status is Status.SCORED]
    is_yes_no = scored and all(one.place is None and one.score is not None for one in scored)
    return unknown("labels of yes and no have no levels") if is_yes_no else None


def _orderless(first: Scale, second: Scale) -> Measure | None:
    """Return why distances between classes cannot be compared, or None."""
    if first is STATUSES:
        return unknown("statuses have no order")
    reason = first.unordered or second.unordered
    return _classless(first, second) or (unknown(reason) if reason else None)


# Rows that changed


def _change(
    key: Key, one: RowVerdicts, other: RowVerdicts, scales: Mapping[str, tuple[Scale, Scale]]
) -> RowChange | None:
    pairs = {name: (finding_of(one, name), finding_of(other, name)) for name in scales}
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if not differing and one.composite == other.composite and one.status == other.status:
        return None
    scores = {name: (a.score, b.score) for name, (a, b) in differing.items() if (a.score, b.score) != (None, None)}
    return RowChange(
        key=key,
        number=one.number,
        question=one.question or other.question,
        size=_size(one, other, _scores(list(pairs.values()))),
        composite=(one.composite, other.composite),
        status=(one.status, other.status),
        scores=dict(sorted(scores.items(), key=lambda item: -_distance(*item[1]))),
        options={
            name: (_label(scales[name][0], a), _label(scales[name][1], b))
            for name, (a, b) in differing.items()
            if name not in scores and (a.place, b.place) != (None, None)
        },
    )


def _label(scale: Scale, finding: CriterionResult) -> str | None:
    return None if finding.place is None else scale.labels[finding.place]


def _size(one: RowVerdicts, other: RowVerdicts, scores: Sequence[tuple[float, float]]) -> float:
    if one.composite is not None and other.composite is not None:
        return abs(other.composite - one.composite)
    return fmean(abs(b - a) for a, b in scores) if scores else 0.0


def _distance(one: float | None, other: float | None) -> float:
    """Return the distance of two scores; a missing verdict counts as the largest distance."""
    if one is None and other is None:
        return 0.0
    return 1.0 if one is None or other is None else abs(other - one)


def _weight(change: RowChange) -> tuple[float, bool, float, int]:
    """Sort by the distance of composites, then changed statuses, then the criteria, then the order of rows."""
    distance = sum(_distance(*pair) for pair in change.scores.values())
    return change.size, change.status[0] != change.status[1], distance, -change.number


# Cost and latency


def _expense(rows: Sequence[RowVerdicts]) -> Expense:
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    return Expense(
        cost_usd=spread_of(costs),
        latency_ms=spread_of([row.latency_ms for row in rows if row.latency_ms is not None]),
        unpriced=len(rows) - len(costs),
        cached=sum(row.cached for row in rows),
    )


# Labels


def _hit(name: str, side: Side, labels: Said) -> LabelAgreement:
    scale = labels.scales[name]
    rows = [(row[name], finding_of(side.judged[key], name)) for key, row in labels.rows.items() if name in row]
    applying = [(label, finding) for label, finding in rows if label.status is Status.SCORED]
    # Labels that are scores have no statuses to compare with, and vice versa.
    met = [(label, _match_label_kind(finding, scale, name)) for label, finding in applying]
    classes, cut = _classes(met), list(_classify_bad(met, scale, name))
    classless = _classless(scale, scale) or _levelless(met)
    undirected = scale.bounds is None and name != COMPOSITE
    return LabelAgreement(
        name=name,
        labelled=len(rows),
        unscored=sum(finding.score is None and finding.place is None for _, finding in met),
        not_applicable=len(rows) - len(applying),
        bad=sum(label for label, _ in cut),
        agreement=_agreement(name, met, scale, scale),
        accuracy=classless or accuracy(classes),
        balanced_accuracy=classless or balanced_accuracy(classes),
        macro_f1=classless or macro_f1(classes),
        bad_f1=unknown("its options have no scores") if undirected else f1(cut, frozenset({1})),
        calibration=calibration(_scores(met)),
        detection=_detection(met, scale),
        corrected=_correct(name, side, labels),
    )


def _correct(name: str, side: Side, labels: Said) -> CorrectedEstimate | None:
    """Correct the mean score of all rows by the labels of those that were chosen at random."""
    if not labels.probabilities:
        return None
    sums = CorrectionSums()
    for key, judged in side.judged.items():
        score = finding_of(judged, name).score
        if score is None:
            continue
        label = labels.rows[key][name].score if name in labels.rows.get(key, {}) else None
        probability = labels.probabilities.get(key)
        if label is None or probability is None:
            sums += CorrectionSums.of_score(score, 1.0)
        else:
            sums += CorrectionSums.of_label(score, label, 1.0, probability)
    return correct(sums) if sums.labelled.count else None


def _detection(met: Met, scale: Scale) -> Detection | None:
    """Return how well the scores find the rows labelled no, if every label is the best or the worst of its scale."""
    scores = _scores(met)
    if not all(label in (0.0, 1.0) for label, _ in scores):
        return None
    # Yes means the best level, so any level below it is an alarm; a range has no levels.
    cut = BEST if scale.labels else BAD_BELOW
    return detect([(label == 0.0, score) for label, score in scores], cut)


def _match_label_kind(finding: CriterionResult, scale: Scale, name: str) -> CriterionResult:
    if name != COMPOSITE:
        return finding
    if scale is STATUSES:
        return CriterionResult(Status.SCORED, None, finding.place)
    return CriterionResult(finding.status, finding.score)


def _classify_bad(met: Met, scale: Scale, name: str) -> Iterator[tuple[int, int]]:
    """Yield every pair as 1 for bad and 0 for not bad, if both are known."""
    bad = _BAD_STATUSES if name == COMPOSITE and scale is STATUSES else scale.bad
    for label, finding in met:
        if label.place is not None and finding.place is not None:
            yield int(label.place in bad), int(finding.place in bad)
        elif label.score is not None and finding.score is not None:
            yield int(label.score < BAD_BELOW), int(finding.score < BAD_BELOW)
