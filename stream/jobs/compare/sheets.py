"""The comparison as tables of text, the same for the terminal and for Markdown."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sinks.reports.formatting import NOTHING, duration, many, money, number, percent
from sinks.reports.sheet import Sheet
from sinks.statistics.corrected import MIN_LABELS, CorrectedEstimate, MeanInterval
from sinks.statistics.difference import Difference
from stream.jobs.compare.comparison import Expense, LabelAgreement, Meeting, RowChange, SideAgreement, SideComparison
from stream.jobs.compare.detection import Ranged
from stream.jobs.compare.measure import Measure
from stream.jobs.compare.sides import Side

_DIGITS = 3


_NAMED = 5


_SCORES = 3


AGREEMENT_NOTE = (
    "Kappa is the agreement beyond chance, at most 1; linear and quadratic kappa penalise neighbouring levels less "
    "than distant ones. Spearman is the rank correlation of the scores."
)


DIFFERENCE_NOTE = "Scores run from 0 (worst) to 1 (best). The interval is Student's for paired differences."


LABEL_NOTE = (
    "Balanced accuracy is the mean recall over the levels that people gave; macro F1 is the mean F1 over the levels. "
    "Bad means below the middle of the scale, and for statuses everything except ok."
)


CALIBRATION_NOTE = (
    "Rows by their score: answers scored 0.8 should average 0.8 in the labels. The error is the mean distance between "
    "the two, over all rows."
)


DETECTION_NOTE = (
    "Answers labelled no are to be found; an alarm is a score below the cut. The a-priori cut is the best level, or "
    "the middle of a range. The best cut has the highest F1 on these very rows: it is a bound, not a result. AUROC is "
    "the chance that an answer labelled no has the lower score. In brackets: 95 % intervals."
)


CORRECTED_NOTE = (
    "The mean score of all judged rows, without the bias of the judges, from the labels of rows that were chosen at "
    f"random (those with a probability). There is none with fewer than {MIN_LABELS} such labels."
)


UNLIKE_NOTE = "composite: different criteria count on the two sides, so the composites are not comparable"


def sheets_of(
    sides: Sequence[Side], comparison: SideComparison | None, meetings: Sequence[Meeting], names: Sequence[str]
) -> Iterator[Sheet]:
    """Yield all tables of a comparison; `names` are short names of the sides for the columns."""
    yield _sides(sides, comparison, names)
    if comparison is not None:
        agreements = [*comparison.criteria, *([comparison.composite] if comparison.composite else [])]
        unlike = () if comparison.composite is None or comparison.comparable else (UNLIKE_NOTE,)
        yield _agreements(agreements, names, unlike)
        yield _means("Mean scores", agreements, names, unlike)
        if comparison.statuses:
            yield _statuses(comparison.statuses, names)
        yield _changes(comparison, names)
        yield _expenses(comparison.expenses, names)
    for name, meeting in zip(names, meetings, strict=False):
        yield _hits(name, meeting)
        agreements = [hit.agreement for hit in meeting.hits]
        yield _hit_agreements(name, agreements)
        yield _means(f"{name} and the labels: mean scores", agreements, ("people", name))
        yield _curves(name, meeting.hits)
        if any(hit.detection is not None for hit in meeting.hits):
            yield _detections(name, meeting.hits)
        corrected = {hit.name: hit.corrected for hit in meeting.hits if hit.corrected is not None}
        if corrected:
            yield _corrections(name, corrected)


def _sides(sides: Sequence[Side], comparison: SideComparison | None, names: Sequence[str]) -> Sheet:
    rows = [
        ("results", *(str(side.path) for side in sides)),
        ("of", *(side.run.name for side in sides)),
        ("evaluator", *(side.run.evaluator.fingerprint for side in sides)),
        ("judges", *(", ".join(side.run.evaluator.judges) for side in sides)),
        ("rows judged", *(f"{len(side.judged):,}" for side in sides)),
        ("rows without an evaluation", *(f"{side.failed:,}" for side in sides)),
    ]
    notes = list(_notes(sides))
    if comparison is not None:
        only = (comparison.only_first, comparison.only_second)
        rows += [
            ("rows only here", *(f"{len(ids):,}" for ids in only)),
            ("rows compared", *(f"{comparison.rows:,}" for _ in only)),
        ]
        notes += [f"only in {name}: {_some(ids)}" for name, ids in zip(names, only, strict=True) if ids]
    everywhere = frozenset(range(len(sides) + 1))
    return Sheet(title="Compared", headings=("", *names), rows=tuple(rows), notes=tuple(notes), words=everywhere)


def _notes(sides: Sequence[Side]) -> Iterator[str]:
    for side in sides:
        if not side.finished:
            yield f"unfinished run: {side.name}"
        for criterion, count in side.unplaced.items():
            if count:
                yield f"not on the scale of {criterion}: the options of {many(count, 'verdict')} in {side.name}"
    if len(sides) == 2:
        yield from _notes_on_two(*sides)


def _notes_on_two(first: Side, second: Side) -> Iterator[str]:
    digests = {side.run.input_digest for side in (first, second)}
    if len(digests) == 2 and None not in digests:
        yield "the two judged files differ; rows are matched by id"
    same = first.run.evaluator.fingerprint == second.run.evaluator.fingerprint
    if same and first.composite:
        yield "both were judged by the same evaluator: any difference is due to chance or to the rows"
    for one, other in ((first, second), (second, first)):
        alone = [name for name in one.scales if name not in other.scales]
        if alone:
            yield f"only {one.name} has {', '.join(alone)}"


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
    return ", ".join(ids[:_NAMED]) + more


def _agreements(agreements: Sequence[SideAgreement], names: Sequence[str], more: Sequence[str]) -> Sheet:
    headings = ("", "rows", *(f"only\n{name}" for name in names), "same", "kappa", "linear", "quadratic", "Spearman")
    rows = tuple(
        (
            agreement.name,
            f"{agreement.rows:,}",
            f"{agreement.only_first:,}",
            f"{agreement.only_second:,}",
            percent(agreement.same.value),
            *(
                _number(measure)
                for measure in (agreement.kappa, agreement.linear, agreement.quadratic, agreement.spearman)
            ),
        )
        for agreement in agreements
    )
    notes = (*more, AGREEMENT_NOTE, *_reasons((agreement.name, _measures(agreement)) for agreement in agreements))
    return Sheet(title="Agreement", headings=headings, rows=rows, notes=notes)


def _measures(agreement: SideAgreement) -> Mapping[str, Measure]:
    return {
        "same": agreement.same,
        "kappa": agreement.kappa,
        "linear": agreement.linear,
        "quadratic": agreement.quadratic,
        "Spearman": agreement.spearman,
    }


def _means(title: str, agreements: Sequence[SideAgreement], names: Sequence[str], more: Sequence[str] = ()) -> Sheet:
    headings = ("", "rows", *names, f"{names[1]} − {names[0]}", "95 % interval")
    rows = tuple(_mean_row(agreement) for agreement in agreements)
    reasons = _reasons(
        (agreement.name, {"interval": Measure(reason=agreement.difference.reason)}) for agreement in agreements
    )
    return Sheet(title=title, headings=headings, rows=rows, notes=(*more, DIFFERENCE_NOTE, *reasons))


def _mean_row(agreement: SideAgreement) -> tuple[str, ...]:
    difference = agreement.difference
    means = (number(agreement.first_mean, _DIGITS), number(agreement.second_mean, _DIGITS))
    return agreement.name, f"{difference.rows:,}", *means, _signed(difference.mean), _interval(difference)


def _statuses(statuses: Mapping[tuple[str, str], int], names: Sequence[str]) -> Sheet:
    rows = sorted(statuses.items(), key=lambda item: (-item[1], item[0]))
    return Sheet(
        title="Composite statuses",
        headings=(*names, "rows"),
        rows=tuple((*pair, f"{count:,}") for pair, count in rows),
        words=frozenset({0, 1}),
    )


def _changes(comparison: SideComparison, names: Sequence[str]) -> Sheet:
    total = f"{comparison.changed:,} of {many(comparison.rows, 'row')} differ"
    composite = comparison.composite is not None
    what = "composites" if composite else "scores"
    note = f"{total}; from {names[0]} to {names[1]}, sorted by the largest difference of their {what}"
    headings = ("row", "id", *(("composite", "status") if composite else ()), "criteria", "question")
    return Sheet(
        title="Rows that changed most",
        headings=headings,
        rows=tuple(_change_row(change, composite=composite) for change in comparison.most),
        notes=(note,) if comparison.most else (total,),
        words=frozenset(range(1, len(headings))),
    )


def _change_row(change: RowChange, *, composite: bool) -> tuple[str, ...]:
    id_text = change.key.id if change.key.time == 1 else f"{change.key.id} (no. {change.key.time})"
    scores = [f"{name} {_arrow(*_texts(pair))}" for name, pair in change.scores.items()]
    scores += [f"{name} {_arrow(one or NOTHING, other or NOTHING)}" for name, (one, other) in change.options.items()]
    more = [f"and {len(scores) - _SCORES} more"] if len(scores) > _SCORES else []
    criteria = ", ".join(scores[:_SCORES] + more)
    statuses = (status or NOTHING for status in change.status)
    whole = (_arrow(*_texts(change.composite)), _arrow(*statuses)) if composite else ()
    return f"{change.number:,}", id_text, *whole, criteria, change.question


def _texts(pair: tuple[float | None, float | None]) -> tuple[str, str]:
    return number(pair[0]), number(pair[1])


def _arrow(one: str, other: str) -> str:
    return one if one == other else f"{one} → {other}"


def _expenses(expenses: Sequence[Expense], names: Sequence[str]) -> Sheet:
    costs = [expense.cost_usd for expense in expenses]
    times = [expense.latency_ms for expense in expenses]
    rows = [
        ("total cost", *(money(cost.total) for cost in costs)),
        ("cost per row, mean", *(money(cost.mean) for cost in costs)),
        ("cost per row, p50", *(money(cost.p50) for cost in costs)),
        ("cost per row, p95", *(money(cost.p95) for cost in costs)),
        ("rows with unknown cost", *(f"{expense.unpriced:,}" for expense in expenses)),
        ("latency, mean", *(_duration(latency.mean) for latency in times)),
        ("latency, p50", *(_duration(latency.p50) for latency in times)),
        ("latency, p95", *(_duration(latency.p95) for latency in times)),
        ("rows with a cached verdict", *(f"{expense.cached:,}" for expense in expenses)),
    ]
    notes = ("Cached verdicts cost nothing and took no time.",) if any(expense.cached for expense in expenses) else ()
    return Sheet(title="Cost and latency", headings=("", *names), rows=tuple(rows), notes=notes)


def _hits(name: str, meeting: Meeting) -> Sheet:
    headings = ("", "labels", "unscored", "accuracy", "balanced", "macro F1", "bad", "F1 of bad")
    rows = tuple(
        (
            hit.name,
            f"{hit.labelled:,}",
            f"{hit.unscored:,}",
            percent(hit.accuracy.value),
            percent(hit.balanced_accuracy.value),
            _number(hit.macro_f1),
            f"{hit.bad:,}",
            _number(hit.bad_f1),
        )
        for hit in meeting.hits
    )
    notes = [LABEL_NOTE, *_reasons((hit.name, _label_measures(hit)) for hit in meeting.hits)]
    notes += [
        f"{hit.name}: labelled not applicable on {many(hit.not_applicable, 'row')}"
        for hit in meeting.hits
        if hit.not_applicable
    ]
    if meeting.unmatched:
        notes.append(f"labelled but not judged: {_some(meeting.unmatched)}")
    title = f"{name} and the labels: {many(meeting.rows, 'row')}"
    return Sheet(title=title, headings=headings, rows=rows, notes=tuple(notes))


def _label_measures(hit: LabelAgreement) -> Mapping[str, Measure]:
    return {
        "accuracy": hit.accuracy,
        "balanced accuracy": hit.balanced_accuracy,
        "macro F1": hit.macro_f1,
        "F1 of bad": hit.bad_f1,
    }


def _hit_agreements(name: str, agreements: Sequence[SideAgreement]) -> Sheet:
    wanted = ("kappa", "linear", "quadratic", "Spearman")
    measures = [(part.name, {what: _measures(part)[what] for what in wanted}) for part in agreements]
    counts = {part.name: f"{part.rows:,}" for part in agreements}
    return Sheet(
        title=f"{name} and the labels: agreement",
        headings=("", "rows", *wanted),
        rows=tuple((criterion, counts[criterion], *map(_number, numbers.values())) for criterion, numbers in measures),
        notes=(AGREEMENT_NOTE, *_reasons(measures)),
    )


def _curves(name: str, hits: Sequence[LabelAgreement]) -> Sheet:
    rows: list[tuple[str, ...]] = []
    for hit in hits:
        for place, part in enumerate(hit.calibration.bins):
            error = number(hit.calibration.error.value, _DIGITS) if place == 0 else ""
            scores = f"{part.low:g} to {part.high:g}"
            means = (number(part.found, _DIGITS), number(part.said, _DIGITS))
            rows.append((hit.name if place == 0 else "", error, scores, f"{part.count:,}", *means))
    return Sheet(
        title=f"{name} and the labels: calibration",
        headings=("", "error", "scores", "rows", name, "people"),
        rows=tuple(rows),
        notes=(CALIBRATION_NOTE,),
        words=frozenset({0, 2}),
    )


def _detections(name: str, hits: Sequence[LabelAgreement]) -> Sheet:
    rows: list[tuple[str, ...]] = []
    for hit in hits:
        found = hit.detection
        if found is None:
            continue
        counts = (f"{found.rows:,}", f"{found.bad:,}", _ranged(found.auroc))
        for what, cut in (("a priori", found.a_priori), ("best", found.best)):
            figures = map(_ranged, (cut.precision, cut.recall, cut.f1))
            first = (hit.name, *counts) if what == "a priori" else ("", "", "", "")
            rows.append((*first, f"{what}, below {cut.below:.3g}", f"{cut.alarms:,}", *figures))
    return Sheet(
        title=f"{name} and the labels: yes and no",
        headings=("", "rows", "no", "AUROC", "cut", "alarms", "precision", "recall", "F1"),
        rows=tuple(rows),
        notes=(DETECTION_NOTE,),
        words=frozenset({0, 4}),
    )


def _corrections(name: str, estimates: Mapping[str, CorrectedEstimate]) -> Sheet:
    rows = [
        (
            criterion,
            f"{estimate.judged:,}",
            f"{estimate.labels:,}",
            number(estimate.judge_mean, _DIGITS),
            NOTHING if estimate.corrected is None else number(estimate.corrected.mean, _DIGITS),
            _mean_range(estimate.corrected),
            _mean_range(estimate.labels_alone),
            _signed(estimate.bias),
        )
        for criterion, estimate in estimates.items()
    ]
    return Sheet(
        title=f"{name} and the labels: corrected means",
        headings=("", "rows", "labels", name, "corrected", "95 % interval", "labels alone", "bias"),
        rows=tuple(rows),
        notes=(CORRECTED_NOTE,),
    )


def _mean_range(interval: MeanInterval | None) -> str:
    if interval is None:
        return NOTHING
    return f"{number(interval.low, _DIGITS)} to {number(interval.high, _DIGITS)}"


def _ranged(ranged: Ranged) -> str:
    if ranged.measure.value is None or ranged.low is None or ranged.high is None:
        return NOTHING
    return f"{ranged.measure.value:.3f} ({ranged.low:.3f}–{ranged.high:.3f})"


def _number(measure: Measure) -> str:
    return number(measure.value, _DIGITS)


def _signed(value: float | None) -> str:
    return NOTHING if value is None else f"{value:+.{_DIGITS}f}"


def _interval(difference: Difference) -> str:
    if difference.low is None or difference.high is None:
        return NOTHING
    return f"{_signed(difference.low)} to {_signed(difference.high)}"


def _duration(milliseconds: float | None) -> str:
    return NOTHING if milliseconds is None else duration(milliseconds)


def _reasons(measured: Iterable[tuple[str, Mapping[str, Measure]]]) -> Iterator[str]:
    """Yield why numbers are missing, each reason once: `kappa, linear of clarity: …`."""
    by_reason: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for name, measures in measured:
        for what, measure in measures.items():
            if measure.reason is not None and measure.value is None:
                by_reason[measure.reason].setdefault(name, []).append(what)
    for reason, names in by_reason.items():
        grouped: dict[str, list[str]] = defaultdict(list)
        for name, whats in names.items():
            grouped[", ".join(whats)].append(name)
        for whats_text, of in grouped.items():
            yield f"{NOTHING} {whats_text} of {', '.join(of)}: {reason}"
