"""The comparison as tables of texts, alike for the terminal and for Markdown."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sinks.reports.formatting import NOTHING, duration, many, money, number, percent
from sinks.reports.sheet import Sheet
from sinks.statistics.difference import Difference
from stream.jobs.compare.comparison import Expense, LabelAgreement, Meeting, RowChange, SideAgreement, SideComparison
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


UNLIKE_NOTE = "composite: the two are computed from different criteria and are not comparable"


def sheets_of(
    sides: Sequence[Side], comparison: SideComparison | None, meetings: Sequence[Meeting], names: Sequence[str]
) -> Iterator[Sheet]:
    """Everything that was found; `names` are short ones for the columns."""
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
            each.name,
            f"{each.rows:,}",
            f"{each.only_first:,}",
            f"{each.only_second:,}",
            percent(each.same.value),
            *(_number(measure) for measure in (each.kappa, each.linear, each.quadratic, each.spearman)),
        )
        for each in agreements
    )
    notes = (*more, AGREEMENT_NOTE, *_reasons((each.name, _measures(each)) for each in agreements))
    return Sheet(title="Agreement", headings=headings, rows=rows, notes=notes)


def _measures(each: SideAgreement) -> Mapping[str, Measure]:
    return {
        "same": each.same,
        "kappa": each.kappa,
        "linear": each.linear,
        "quadratic": each.quadratic,
        "Spearman": each.spearman,
    }


def _means(title: str, agreements: Sequence[SideAgreement], names: Sequence[str], more: Sequence[str] = ()) -> Sheet:
    headings = ("", "rows", *names, f"{names[1]} − {names[0]}", "95 % interval")
    rows = tuple(_mean_row(each) for each in agreements)
    reasons = _reasons((each.name, {"interval": Measure(reason=each.difference.reason)}) for each in agreements)
    return Sheet(title=title, headings=headings, rows=rows, notes=(*more, DIFFERENCE_NOTE, *reasons))


def _mean_row(each: SideAgreement) -> tuple[str, ...]:
    difference = each.difference
    means = (number(each.first_mean, _DIGITS), number(each.second_mean, _DIGITS))
    return each.name, f"{difference.rows:,}", *means, _signed(difference.mean), _interval(difference)


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
    costs = [each.cost_usd for each in expenses]
    times = [each.latency_ms for each in expenses]
    rows = [
        ("total cost", *(money(each.total) for each in costs)),
        ("cost per row, mean", *(money(each.mean) for each in costs)),
        ("cost per row, p50", *(money(each.p50) for each in costs)),
        ("cost per row, p95", *(money(each.p95) for each in costs)),
        ("rows with unknown cost", *(f"{each.unpriced:,}" for each in expenses)),
        ("latency, mean", *(_duration(each.mean) for each in times)),
        ("latency, p50", *(_duration(each.p50) for each in times)),
        ("latency, p95", *(_duration(each.p95) for each in times)),
        ("rows with a cached verdict", *(f"{each.cached:,}" for each in expenses)),
    ]
    notes = ("Cached verdicts cost nothing and took no time.",) if any(each.cached for each in expenses) else ()
    return Sheet(title="Cost and latency", headings=("", *names), rows=tuple(rows), notes=notes)


def _hits(name: str, meeting: Meeting) -> Sheet:
    headings = ("", "labels", "unscored", "accuracy", "balanced", "macro F1", "bad", "F1 of bad")
    rows = tuple(
        (
            each.name,
            f"{each.labelled:,}",
            f"{each.unscored:,}",
            percent(each.accuracy.value),
            percent(each.balanced_accuracy.value),
            _number(each.macro_f1),
            f"{each.bad:,}",
            _number(each.bad_f1),
        )
        for each in meeting.hits
    )
    notes = [LABEL_NOTE, *_reasons((each.name, _label_measures(each)) for each in meeting.hits)]
    notes += [
        f"{each.name}: labelled not applicable on {many(each.not_applicable, 'row')}"
        for each in meeting.hits
        if each.not_applicable
    ]
    if meeting.unmatched:
        notes.append(f"labelled but not judged: {_some(meeting.unmatched)}")
    title = f"{name} and the labels: {many(meeting.rows, 'row')}"
    return Sheet(title=title, headings=headings, rows=rows, notes=tuple(notes))


def _label_measures(each: LabelAgreement) -> Mapping[str, Measure]:
    return {
        "accuracy": each.accuracy,
        "balanced accuracy": each.balanced_accuracy,
        "macro F1": each.macro_f1,
        "F1 of bad": each.bad_f1,
    }


def _hit_agreements(name: str, agreements: Sequence[SideAgreement]) -> Sheet:
    wanted = ("kappa", "linear", "quadratic", "Spearman")
    measures = [(each.name, {what: _measures(each)[what] for what in wanted}) for each in agreements]
    counts = {each.name: f"{each.rows:,}" for each in agreements}
    return Sheet(
        title=f"{name} and the labels: agreement",
        headings=("", "rows", *wanted),
        rows=tuple((each, counts[each], *map(_number, found.values())) for each, found in measures),
        notes=(AGREEMENT_NOTE, *_reasons(measures)),
    )


def _curves(name: str, hits: Sequence[LabelAgreement]) -> Sheet:
    rows: list[tuple[str, ...]] = []
    for each in hits:
        for place, part in enumerate(each.calibration.bins):
            error = number(each.calibration.error.value, _DIGITS) if place == 0 else ""
            scores = f"{part.low:g} to {part.high:g}"
            means = (number(part.found, _DIGITS), number(part.said, _DIGITS))
            rows.append((each.name if place == 0 else "", error, scores, f"{part.count:,}", *means))
    return Sheet(
        title=f"{name} and the labels: calibration",
        headings=("", "error", "scores", "rows", name, "people"),
        rows=tuple(rows),
        notes=(CALIBRATION_NOTE,),
        words=frozenset({0, 2}),
    )


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


def _reasons(found: Iterable[tuple[str, Mapping[str, Measure]]]) -> Iterator[str]:
    """Why numbers are missing, each reason once: `kappa, linear of clarity: …`."""
    by_reason: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for name, measures in found:
        for what, measure in measures.items():
            if measure.reason is not None and measure.value is None:
                by_reason[measure.reason].setdefault(name, []).append(what)
    for reason, names in by_reason.items():
        grouped: dict[str, list[str]] = defaultdict(list)
        for name, whats in names.items():
            grouped[", ".join(whats)].append(name)
        for whats_text, of in grouped.items():
            yield f"{NOTHING} {whats_text} of {', '.join(of)}: {reason}"
