"""An alert and its explanation in plain words, and as tables."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from math import exp, log

from sinks.base import COMPOSITE
from sinks.metrics.detection import GOOD_SHARE
from sinks.reports.formatting import NOTHING, interval, many, number, percent
from sinks.reports.sheet import Sheet
from stream.monitor.alerts.alert import Alert, Cause, Subject
from stream.monitor.alerts.summary import name_of
from stream.monitor.detection import EventKind
from stream.monitor.explain.canary_changes import Turned
from stream.monitor.explain.contributions import MeanChange, Slice
from stream.monitor.explain.criterion_parts import RULES, CriterionPart
from stream.monitor.explain.explanation import FEWEST, Attribute, Driver, Explanation, Move, NewSlice
from stream.monitor.explain.faults import FaultFinding, FaultMove
from stream.monitor.explain.tally import TAG

# The logarithm of ten million: beyond it, digits say nothing.
_MOST_EVIDENCE = 16.0
# Shorter times are given in seconds.
_FEW_SECONDS = 120.0
# With fewer scores before the onset, only a large drop of another app is significant.
_FEW_EARLIER = 50
_ATTRIBUTES = 3
_VALUES = 8
_NAMED = 3
_ALL = 0.995
_TURNED = 10
_HINTS = {
    "groundedness": "retrieval: the index, embeddings, filters, empty contexts",
    "context_sufficiency": "retrieval: the index, embeddings, filters, and recent changes to the documents",
    "context_precision": "the ranking of the retriever, and how many contexts it returns",
    "context_recall": "retrieval: the index, embeddings, filters, and recent changes to the documents",
    "answer_relevance": "the prompt and the model, and recent changes to either",
    "completeness": "the prompt and the model, and whether contexts were truncated",
    "harmfulness": "the filters, and the questions users ask",
    "clarity": "the prompt and the model, and recent changes to either",
    "conciseness": "the prompt and the model, and limits on the length of answers",
}
CONTRIBUTION_NOTE = (
    "A contribution is the part of the change of the mean that comes from the slice: through the change of its own "
    "mean, and of its share of the traffic (mix). The contributions of one attribute add up to the whole. In "
    "brackets: 95 % intervals."
)
DIAGNOSES_NOTE = (
    "good: sufficient contexts, grounded answer; generation: sufficient contexts, but the answer is not grounded; "
    "lucky: the answer is grounded in contexts that do not suffice; retrieval: neither."
)
RULES_NOTE = f"{RULES}: how much the rules for unsafe answers and required criteria lower or raise the composite."


TIMES = ("before", "since")
"""The names of the compared sides, unless they are two models."""


# Numbers


def odds(evidence: float) -> str:
    """Express evidence as a chance: "1 in 1,300"."""
    return "1 in more than 10 million" if evidence > _MOST_EVIDENCE else f"1 in {exp(max(0.0, evidence)):,.0f}"


def when(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def clock(at: datetime) -> str:
    """Format a time to the second."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def length(span: timedelta) -> str:
    seconds = max(0.0, span.total_seconds())
    if seconds < _FEW_SECONDS:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    days, rest = divmod(minutes, 1440)
    if days:
        return f"{days} d {rest // 60} h"
    return f"{rest // 60} h {rest % 60} min" if rest >= 60 else f"{rest} min"


def _format_signed(value: float) -> str:
    text = f"{value:+.3f}"
    return "0.000" if float(text) == 0.0 else text.replace("-", "−")


def _change(change: MeanChange | None) -> str:
    if change is None:
        return NOTHING
    return f"{_format_signed(change.value)} ({_format_signed(change.low)} to {_format_signed(change.high)})"


# The alert


def is_open(alert: Alert) -> bool:
    return alert.kind is not EventKind.CLEARED


def headline(alert: Alert) -> str:
    """Say in a few words what is wrong."""
    tense = "is" if is_open(alert) else "was"
    if alert.subject is Subject.JUDGES:
        have = "have" if is_open(alert) else "had"
        return f"the judges {have} changed: {alert.series.dimension}"
    if alert.subject is Subject.VERSIONS:
        worse = (
            f"{alert.models[0]} {tense} worse than {alert.models[1]}" if alert.models else f"one model {tense} worse"
        )
        return f"{worse}: {alert.series.value} ({alert.series.app})"
    if alert.subject is Subject.AGREEMENT:
        what = f"{alert.series.dimension.replace('_', ' ')} ({alert.series.app})"
        return f"the judge {alert.series.value} {'agrees' if is_open(alert) else 'agreed'} less with people: {what}"
    return f"{name_of(alert.series)} {tense} too low"


def level(alert: Alert, raised: Alert | None = None) -> str:
    """Give the mean and its target; with the first announcement, also the mean at that time."""
    if alert.subject is Subject.JUDGES:
        return _steadiness(alert, raised)
    if alert.subject is Subject.VERSIONS:
        return f"difference {_span(alert)}, allowed {_target(alert)}"
    if is_open(alert):
        return f"mean {_span(alert)}, target {_target(alert)}"
    parts = [f"target {_target(alert)}"]
    if raised is not None:
        parts = [f"fell to {_span(raised)}, {parts[0]}"]
    if alert.cause in {None, Cause.RECOVERED}:
        parts.append(f"{_span(alert)} when it was cleared")
    return "; ".join(parts)


def _steadiness(alert: Alert, raised: Alert | None) -> str:
    """Describe how steady the judges are: since the alert was raised, their new verdicts are the expected ones."""
    first = alert if alert.kind is EventKind.RAISED else raised
    kept = None if first is None else f"{percent(first.estimate)} of the canaries kept their verdict"
    if alert.kind is EventKind.RAISED:
        return f"{kept}, {percent(alert.target)} is expected"
    if alert.cause not in {None, Cause.RECOVERED}:
        return f"{percent(alert.target)} of the canaries should keep their verdict" if kept is None else f"{kept}"
    now = f"{percent(alert.estimate)} of the canaries" if kept is None else percent(alert.estimate)
    since = "since it was raised" if kept is None else f"{kept} when it was raised; since then"
    return f"{since} {now} repeat the new one"


def _span(alert: Alert) -> str:
    return f"{number(alert.estimate)} ({interval(alert.low, alert.high)})"


def _target(alert: Alert) -> str:
    return f"{alert.target:.3g}"


def chance(raised: Alert | None, alpha: float) -> str:
    """Bound the chance of this much evidence without a drop; without the first announcement, use `alpha`."""
    return f"at most {odds(-log(alpha) if raised is None else raised.evidence)}"


def state(alert: Alert) -> str:
    """Say whether the alert is open, or why it was cleared."""
    if alert.kind is EventKind.RAISED:
        return "open"
    if alert.kind is EventKind.UPDATED:
        return f"open, last update {when(alert.at)}"
    reasons = {
        Cause.JUDGES_CHANGED: "withdrawn because the judges had changed",
        Cause.EVALUATOR_CHANGED: "its evaluator or target is no longer used",
        Cause.GONE: "no more scores for this series",
    }
    steady = "the new verdicts are stable" if alert.subject is Subject.JUDGES else "recovered"
    if alert.cause in reasons or alert.recovered_at is None:
        return f"cleared {when(alert.at)}: {reasons.get(alert.cause or Cause.RECOVERED, steady)}"
    return f"cleared {when(alert.at)}: {steady} since {when(alert.recovered_at)}"


def guarantee(alert: Alert, alpha: float, days: float) -> str:
    """State the guarantee of the detector in a sentence."""
    share = percent(alpha)
    if alert.subject is Subject.VERSIONS:
        return f"If the model were not that much worse, the chance of ever raising this alert would be at most {share}."
    quiet = {
        Subject.JUDGES: "the judges had not changed",
        Subject.AGREEMENT: f"the mean agreement were at least {_target(alert)}",
    }.get(alert.subject, f"the mean were at least {_target(alert)}")
    return (
        f"If {quiet}, the chance of raising an alert within {days:g} days would be at most {share}, however often you "
        "check."
    )


def describe_alert(alert: Alert, raised: Alert | None, alpha: float) -> Iterator[str]:
    """Yield the lines about the alert itself: summary, start, state and confidence."""
    yield alert.summary or f"{headline(alert)}: {level(alert)}"
    if alert.subject is Subject.JUDGES and alert.kind is not EventKind.RAISED:
        yield level(alert, raised)
    elif raised is not None and raised.kind is not alert.kind:
        yield f"when raised: {level(raised)}"
    if alert.effective_n < 0.99 * alert.scores:
        yield f"scores: {alert.scores:,} of unequal weight, equivalent to {alert.effective_n:,.0f} of equal weight"
    if alert.onset_at < alert.raised_at:
        lead = length(alert.raised_at - alert.onset_at)
        yield f"likely start: {when(alert.onset_at)}, {lead} before the announcement"
    else:
        yield f"announced: {when(alert.raised_at)}"
    yield f"state: {state(alert)}"
    yield (
        f"chance of a false alarm when it was raised: {chance(raised, alpha)}; this does not measure the size of the "
        "change"
    )


# The explanation


def findings(
    alert: Alert, explanation: Explanation, sides: tuple[str, str], alerted: Collection[str] = ()
) -> Iterator[str]:
    """Yield the findings from the evaluations, a sentence each.

    `sides` names the compared sides, `alerted` other apps with open alerts.
    """
    whole = explanation.whole
    compared = f"{many(whole.counts[0], 'score')} {sides[0]}, {many(whole.counts[1], 'score')} {sides[1]}"
    if whole.change is None:
        yield f"No scores to compare: {compared}."
        return
    yield f"{_describe_move(alert, whole, sides)}; {compared}."
    if explanation.too_few:
        yield f"An explanation needs at least {FEWEST} scores on each side."
        return
    what = _what(alert)
    if not whole.change.is_fall:
        yield f"The {what} is not significant, so it cannot be explained."
        return
    yield from _criterion(alert, explanation)
    yield from _fault(explanation.fault, what)
    yield from _where(explanation, what)
    if alert.subject is not Subject.VERSIONS:
        yield from _elsewhere(explanation.elsewhere, alerted)


def _what(alert: Alert) -> str:
    return "difference" if alert.subject is Subject.VERSIONS else "fall"


def _describe_move(alert: Alert, whole: Move, sides: tuple[str, str]) -> str:
    before, since = (number(mean, 3) for mean in whole.means)
    if alert.subject is not Subject.VERSIONS or whole.change is None:
        return f"The mean went from {before} ({sides[0]}) to {since} ({sides[1]}): {_change(whole.change)}"
    other, own = sides
    is_worse = "worse" if whole.change.value < 0.0 else "better"
    size = f"{abs(whole.change.value):.3f}"
    span = f"{_format_signed(whole.change.low)} to {_format_signed(whole.change.high)}"
    return f"{own} is {is_worse} than {other} by {size} ({span}): its mean is {since}, that of {other} {before}"


def gone_before(topic: str, first: datetime | None, onset: datetime, remedy: str) -> str:
    """Say why there is too little to compare with; `first` is the time of the oldest remaining record."""
    if first is None:
        return f"{topic} no longer has evaluations from that time. {remedy}"
    if first > onset:
        return (
            f"{topic} starts at {clock(first)}, after the onset at {clock(onset)}: earlier evaluations are gone. "
            f"{remedy}"
        )
    return f"{topic} starts at {clock(first)}, shortly before the onset at {clock(onset)}. {remedy}"


def _criterion(alert: Alert, explanation: Explanation) -> Iterator[str]:
    if explanation.behind:
        total = sum(part.contribution.value for part in explanation.parts)
        sentences = [
            f"{part.name}, with {percent(part.weight)} of the weight, accounts for "
            f"{_much(part.contribution.value, total)} of the {_what(alert)} of the composite"
            for part in explanation.behind
        ]
        yield f"{'Criterion' if len(sentences) == 1 else 'Criteria'}: {'; '.join(sentences)}."
    elif explanation.parts:
        yield f"Criterion: none contributes clearly more to the {_what(alert)} than its weight in the composite."
    elif explanation.strangers:
        yield "Criterion: unknown, because the evaluations use other criteria than this configuration."
    elif alert.series.dimension in {COMPOSITE, GOOD_SHARE}:
        yield "Criterion: unknown."


def _fault(fault: FaultFinding | None, what: str) -> Iterator[str]:
    """Say whether the change is in retrieval or in generation."""
    if fault is None:
        return
    where = "" if fault.part is None else f" for {_label(*fault.part)}"
    sufficiency = _describe_fault("sufficiency of the contexts", fault.sufficiency)
    grounded = _describe_fault("groundedness given sufficient contexts", fault.grounded)
    if fault.is_retrieval and fault.is_generation:
        yield f"The {what} is in retrieval and in generation{where}: {sufficiency}, and {grounded}."
    elif fault.is_retrieval:
        yield f"The {what} is in retrieval{where}: {sufficiency}; {grounded}."
    elif fault.is_generation:
        yield f"The {what} is in generation{where}: {grounded}; {sufficiency}."
    else:
        yield f"Retrieval or generation{where}: neither. {_sentence(sufficiency)}; {grounded}."


def _describe_fault(name: str, move: FaultMove) -> str:
    before, since = (number(mean) for mean in move.means)
    if move.change is None:
        return f"{name} cannot be compared ({many(move.counts[0], 'score')} and {many(move.counts[1], 'score')})"
    if move.fell:
        return f"{name} fell from {before} to {since}"
    return f"{name} did not fall with 95 % confidence ({before} → {since})"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _where(explanation: Explanation, what: str) -> Iterator[str]:
    """Yield a sentence about a new slice and one about the slice that fell most, or say that there is none."""
    whole = explanation.whole.change
    assert whole is not None
    if explanation.arrival is not None:
        yield _arrival(explanation.arrival, whole)
    if explanation.driver is not None:
        yield _driver(explanation.driver, whole, what)
    elif explanation.grown is not None:
        yield _grown(*explanation.grown)
    elif explanation.arrival is None:
        yield (
            f"Likely driver: none. The {what} is spread over the traffic; no slice contributes clearly more than its "
            "share."
        )


def _arrival(arrival: NewSlice, whole: MeanChange) -> str:
    part = arrival.part
    facts = [f"{_shift(part)} of the traffic", f"mean {number(part.means[1])}"]
    gone = arrival.replaced[:_NAMED]
    instead = (
        f"; what it replaced, {_all(map(_value, gone))}, had {_all(number(old.means[0]) for old in gone)}"
        if gone
        else ""
    )
    also = [f"{_value(other)} ({_share(other.contribution.value, whole.value)})" for other in arrival.also[:_NAMED]]
    return (
        f"New with the drop: {_label(arrival.attribute, part.value)} ({', '.join(facts)}{instead}). "
        f"It accounts for {_much(part.contribution.value, whole.value)} of the fall."
        f"{f' New and low as well: {_all(also)}.' if also else ''}"
        f"{f' With it came {_labels(arrival.likewise)}.' if arrival.likewise else ''}"
    )


def _driver(driver: Driver, whole: MeanChange, what: str) -> str:
    part = driver.part
    before, since = (number(mean, 3) for mean in part.means)
    likewise = f" Nearly the same holds for {_labels(driver.likewise)}." if driver.likewise else ""
    return (
        f"Likely driver: {_label(driver.attribute, part.value)}. It accounts for "
        f"{_much(part.contribution.value, whole.value)} of the {what}; its mean: {before} → {since}, "
        f"{_change(part.change)}; its share of the traffic: {_shift(part)}.{likewise}"
    )


def _grown(attribute: str, part: Slice) -> str:
    mean = part.means[0] if part.means[1] is None else part.means[1]
    return (
        "Likely driver: none whose own mean fell. The mix of the traffic changed: "
        f"{_label(attribute, part.value)}, {_shift(part)} of it, with a mean of {number(mean)}."
    )


def _shift(part: Slice) -> str:
    before, since = (percent(round(share, 3)) for share in part.shares)
    return f"{before} → {since}"


def _labels(slices: Sequence[tuple[str, Slice]]) -> str:
    return ", ".join(_label(name, part.value) for name, part in slices[:_NAMED])


def _all(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _value(part: Slice) -> str:
    return "(none)" if part.value is None else part.value


def _elsewhere(moves: Sequence[Move], alerted: Collection[str]) -> Iterator[str]:
    """Say whether other apps dropped too: in the same period, or else according to their open alerts."""
    fallen = [move.name for move in moves if move.change is not None and move.change.is_fall]
    suspicion = "Suspect what they share, the judges first."
    earlier = min((move.counts[0] for move in moves), default=0)
    few = f" (as few as {many(earlier, 'earlier score')})" if earlier < _FEW_EARLIER else ""
    more = [app for app in alerted if app not in fallen]
    if fallen:
        others = f"; {len(more)} more with open alerts ({_first_names(more)})" if more else ""
        yield f"Other apps: {len(fallen)} of {len(moves)} also dropped ({_first_names(fallen)}){others}. {suspicion}"
    elif alerted:
        unseen = f", although no drop shows in the same period with 95 % confidence{few}" if moves else ""
        yield f"Other apps: {len(alerted)} with open alerts ({_first_names(alerted)}){unseen}. {suspicion}"
    elif moves:
        yield f"Other apps: none of {len(moves)} dropped in the same period with 95 % confidence{few}."


def _first_names(names: Collection[str]) -> str:
    return ", ".join([*names][:_NAMED]) + (", …" if len(names) > _NAMED else "")


def _label(attribute: str, value: str | None) -> str:
    return f"{attribute} {value}" if value is not None else f"no {attribute}"


def _share(part: float, whole: float) -> str:
    return f"{100.0 * part / whole:.0f} %".replace("-", "−") if whole else NOTHING


def _much(part: float, whole: float) -> str:
    """Express a part of the whole in a sentence: more than 100 %, because others gained, is "all"."""
    return "all" if part / whole >= _ALL else _share(part, whole)


def next_steps(alert: Alert, explanation: Explanation | None, runbook: str) -> Iterator[str]:
    """Yield the next steps, the most promising first."""
    if alert.subject is Subject.JUDGES:
        yield "Check the judges: a new version behind the same model name, another endpoint, another temperature."
        yield (
            "Quality scores since then depend on the changed judges. If the change was intended, learn the targets "
            "again."
        )
    elif alert.subject is Subject.AGREEMENT:
        yield "Read the examples: if people are right, change the judge's prompt or model, or give it less weight."
        yield "`streamjury labels judges` shows whether the judge is too mild or too strict, and for which answers."
        yield "If other people label now, or by other rules, the labels have changed and not the judge."
    else:
        fallen = _fallen(alert, explanation)
        fault = None if explanation is None else explanation.fault
        if fault is not None and (fault.is_retrieval or fault.is_generation):
            yield from _fault_hints(fault)
        elif fallen in _HINTS:
            how = "is worse" if alert.subject is Subject.VERSIONS else "fell"
            yield f"{fallen} {how}: check {_HINTS[fallen]}."
        first = None if explanation is None else explanation.arrival or explanation.driver
        if first is not None:
            name = _label(first.attribute, first.part.value)
            yield f"Find out what changed for {name}, and roll it back or take it out of the traffic."
        yield "Read the examples: if the answers are good, the judges are wrong, not the service."
    yield f"Runbook: {runbook}"


def _fault_hints(fault: FaultFinding) -> Iterator[str]:
    if fault.is_retrieval:
        yield f"The contexts became worse: check {_HINTS['context_sufficiency']}."
    if fault.is_generation:
        yield "Answers became worse although their contexts suffice: check the prompt and the model."


def _fallen(alert: Alert, explanation: Explanation | None) -> str:
    """Return the criterion to check first."""
    if alert.series.dimension not in {COMPOSITE, GOOD_SHARE}:
        return alert.series.dimension
    if explanation is not None and explanation.behind:
        return explanation.behind[0].name
    return alert.worst_dimensions[0].dimension if alert.worst_dimensions else ""


# Tables


def sheets_of(alert: Alert, explanation: Explanation, sides: tuple[str, str]) -> Iterator[Sheet]:
    """Yield the tables with the numbers."""
    if alert.worst_dimensions:
        yield _suspects(alert)
    if explanation.criteria:
        yield _criteria(explanation, sides)
    if explanation.fault is not None:
        yield _diagnoses(explanation.fault, sides)
    if explanation.attributes and explanation.whole.change is not None:
        yield _slices(explanation, sides)


def _suspects(alert: Alert) -> Sheet:
    rows = [
        (
            suspect.dimension,
            number(suspect.estimate),
            interval(suspect.low, suspect.high),
            f"{suspect.target:.3g}",
            odds(suspect.evidence),
        )
        for suspect in alert.worst_dimensions
    ]
    headings = ("dimension", "mean", "interval", "target", "chance of a false alarm")
    return Sheet(title="Dimensions suspected by the detector", headings=headings, rows=tuple(rows))


def _criteria(explanation: Explanation, sides: tuple[str, str]) -> Sheet:
    parts = {part.name: part for part in explanation.parts}
    moves: list[Move] = [*explanation.criteria]
    if RULES in parts:
        moves.append(Move(name=RULES, means=(None, None), counts=(0, 0), change=None))
    rows = [
        (
            move.name,
            number(move.means[0], 3),
            number(move.means[1], 3),
            _change(move.change),
            *([_contribution(parts.get(move.name))] if parts else []),
        )
        for move in moves
    ]
    more = ("contribution to the composite",) if parts else ()
    return Sheet(
        title="Criteria",
        headings=("criterion", *sides, "change", *more),
        rows=tuple(rows),
        notes=(RULES_NOTE,) if RULES in parts else (),
    )


def _diagnoses(fault: FaultFinding, sides: tuple[str, str]) -> Sheet:
    rows = [
        (cell.value, *(NOTHING if share is None else percent(round(share, 3)) for share in shares))
        for cell, shares in fault.shares.items()
    ]
    return Sheet(title="Diagnoses", headings=("diagnosis", *sides), rows=tuple(rows), notes=(DIAGNOSES_NOTE,))


def _contribution(part: CriterionPart | None) -> str:
    return NOTHING if part is None else _change(part.contribution)


def _slices(explanation: Explanation, sides: tuple[str, str]) -> Sheet:
    assert explanation.whole.change is not None
    total = explanation.whole.change.value
    rows = [row for attribute in explanation.attributes[:_ATTRIBUTES] for row in _rows(attribute, total)]
    notes = [CONTRIBUTION_NOTE]
    if hidden := explanation.attributes[_ATTRIBUTES:]:
        notes.append(f"Less distinctive, not shown: {', '.join(attribute.name for attribute in hidden)}.")
    if explanation.tags_with_too_many_values:
        notes.append(f"Too many values, left out: {TAG}{', '.join(explanation.tags_with_too_many_values)}.")
    if explanation.tags_left_out:
        notes.append("Too many tags to follow; the rest were left out.")
    return Sheet(
        title="Where it dropped" if sides == TIMES else "Where they differ",
        headings=(
            "attribute",
            "value",
            f"traffic\n{sides[0]}",
            sides[1],
            f"mean\n{sides[0]}",
            sides[1],
            "contribution",
            "",
            "by mix",
        ),
        rows=tuple(rows),
        notes=tuple(notes),
        words=frozenset({0, 1}),
    )


def _rows(attribute: Attribute, total: float) -> Iterator[tuple[str, ...]]:
    for part in attribute.slices[:_VALUES]:
        yield (
            attribute.name,
            _value(part),
            percent(round(part.shares[0], 3)),
            percent(round(part.shares[1], 3)),
            number(part.means[0], 3),
            number(part.means[1], 3),
            _change(part.contribution),
            _share(part.contribution.value, total),
            _format_signed(part.mix),
        )
    if rest := attribute.slices[_VALUES:]:
        shares = [percent(round(sum(part.shares[side] for part in rest), 3)) for side in (0, 1)]
        value = sum(part.contribution.value for part in rest)
        label = f"… {len(rest)} more"
        mix = _format_signed(sum(part.mix for part in rest))
        yield (attribute.name, label, *shares, NOTHING, NOTHING, _format_signed(value), _share(value, total), mix)


def turned_sheet(turned: Sequence[Turned], judged: int) -> Sheet:
    rows = [
        (canary.canary, canary.was, canary.is_now, f"{canary.counts[0]} of {canary.counts[1]} times")
        for canary in turned[:_TURNED]
    ]
    more = [f"and {len(turned) - _TURNED} more"] if len(turned) > _TURNED else []
    return Sheet(
        title=f"Canaries with a different verdict: {len(turned)} of {judged}",
        headings=("canary", "before", "since", "verdict since"),
        rows=tuple(rows),
        notes=tuple(more),
        words=frozenset({0, 1, 2}),
    )
