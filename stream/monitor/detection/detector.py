"""The detector of one series: one score in; the new state, and the event to announce, out.

Without an alert the evidence is about a drop: "the mean is at least the target" is bet against. With one it is about
the recovery: "the mean is at most the target less the margin" is. Each score multiplies the evidence, and time adds to
it as it passes: fresh capital for a change that begins now. While what is bet against is true, the evidence grows on
average by no more than time adds, whatever the rate of the scores; so alerts at 1/alpha are false at most alpha times
a period.
"""

from dataclasses import dataclass, replace
from math import isfinite, log
from typing import NamedTuple

from stream.monitor.detection.evidence import NONE, advance, leading, stakes, total
from stream.monitor.detection.interval import Interval, interval, lower_bound
from stream.monitor.detection.onset import Onset
from stream.monitor.detection.settings import DAY_SECONDS, Settings
from stream.monitor.detection.state import Event, EventKind, ScoreWindow, State

# The time advances by no more at one score: one with a wrong time must not spend the capital of years.
_LONGEST_STEP = DAY_SECONDS
# ... and silence must not take the place of evidence.
_MOST_FRESH = 1.0 / 30.0
# An alert is updated when so many scores have come, and again whenever they have doubled.
_FIRST_UPDATE = 50
# A reference that says too little is asked again after so many scores.
_ASK_AGAIN = 50
_LEAST_EVIDENCE = 1e-12


class Observation(NamedTuple):
    state: State
    event: Event | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesReading:
    """What a series is like now, for metrics and for people."""

    is_learning: bool
    is_raised: bool
    target: float | None
    evidence: float
    """The natural logarithm: of a drop, or of the recovery while there is an alert."""
    enough: float
    """The evidence at which the alert is raised or cleared."""
    current: Interval
    """The mean of the latest scores: of the last one or two windows, at most since the last alert or its end."""
    onset_at: float | None
    """When the drop began for which there is an alert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Score:
    value: float
    weight: float
    at: float
    passed: float
    """Seconds."""


def observe(state: State, settings: Settings, score: float, probability: float = 1.0, *, at: float) -> Observation:
    """Takes the next score, of a record that was chosen with this probability, at a time in seconds."""
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"a score must be between 0 and 1, not {score}")
    if not 0.0 < probability <= 1.0:
        raise ValueError(f"an inclusion probability must be above 0 and at most 1, not {probability}")
    if not isfinite(at):
        raise ValueError(f"a time must be a number of seconds, not {at}")
    weight = relative_weight(probability, state.older.least, settings)
    # To the millisecond: stored states are short.
    known = round(at if state.at is None else state.at, 3)
    now = round(min(max(at, known), known + _LONGEST_STEP), 3)
    seen = _Score(value=score, weight=weight, at=now, passed=now - known)
    state = replace(_aimed(state, settings), at=now)
    if state.target is None:
        return Observation(_learnt(_windowed(state, settings, seen, probability), settings), None)
    state = _windowed(state, settings, seen, probability)
    return _after_alert(state, settings, seen) if state.is_raised else _before_alert(state, settings, seen)


def reading(state: State, settings: Settings) -> SeriesReading:
    allowed = settings.clear_alpha if state.is_raised else settings.alert_alpha
    return SeriesReading(
        is_learning=state.target is None,
        is_raised=state.is_raised,
        target=state.target,
        evidence=_log_evidence(state),
        enough=-log(allowed),
        current=interval(state.older.tally, settings.miss),
        onset_at=state.dropped_at,
    )


def suspicion(state: State, settings: Settings) -> tuple[float, Interval] | None:
    """What speaks for a drop that there is no alert for yet: the evidence, and the mean since its suspected onset."""
    if state.is_raised or state.target is None:
        return None
    onset = state.onsets.suspected(leading(state.evidence))
    return (_log_evidence(state), onset.estimated(settings.miss)) if onset.has_begun else None


def relative_weight(probability: float, least: float, settings: Settings) -> float:
    """Relative to the heaviest among the latest scores, which is known before this one comes; at most 1."""
    scale = max(settings.floor, min(settings.lowest_probability, least))
    return min(1.0, scale / probability)


def _aimed(state: State, settings: Settings) -> State:
    """Evidence against one target is none against another."""
    if settings.target is None or settings.target == state.target:
        return state
    return replace(state, target=settings.target, evidence=NONE, onsets=state.onsets.forgotten)


def _windowed(state: State, settings: Settings, seen: _Score, probability: float) -> State:
    older, newer = (window.plus(seen.value, seen.weight, probability) for window in (state.older, state.newer))
    if newer.tally.count >= settings.window and state.target is not None:
        older, newer = newer, ScoreWindow()
    return replace(state, older=older, newer=newer, since=state.since + 1)


def _learnt(state: State, settings: Settings) -> State:
    """The bound holds at every look, so it does not matter when the reference ends."""
    if state.since < settings.reference_scores or (state.since - settings.reference_scores) % _ASK_AGAIN:
        return state
    bound = lower_bound(state.older.tally, settings.alpha * settings.reference_share) - settings.tolerance
    if bound <= settings.margin:
        return state
    return replace(state, target=bound, since=0)


def _before_alert(state: State, settings: Settings, seen: _Score) -> Observation:
    assert state.target is not None
    short = seen.weight * (state.target - seen.value)
    state = _bet(state, settings, seen, line=state.target, short=short, period=settings.period_seconds)
    if total(state.evidence) * settings.alert_alpha < 1.0:
        return Observation(state, None)
    onset = state.onsets.suspected(leading(state.evidence))
    event = _event(EventKind.RAISED, state, onset.estimated(settings.miss), onset)
    return Observation(replace(_changed(state), raised_at=seen.at, dropped_at=event.onset_at), event)


def _after_alert(state: State, settings: Settings, seen: _Score) -> Observation:
    assert state.target is not None
    line = state.target - settings.margin
    over = seen.weight * (seen.value - line)
    state = _bet(state, settings, seen, line=1.0 - line, short=over, period=settings.clear_seconds)
    if total(state.evidence) * settings.clear_alpha >= 1.0:
        onset = state.onsets.suspected(leading(state.evidence))
        event = _event(EventKind.CLEARED, state, onset.estimated(settings.miss), onset)
        return Observation(replace(_changed(state), raised_at=None, dropped_at=None), event)
    if _is_due(state.since):
        return Observation(state, _event(EventKind.UPDATED, state, interval(state.older.tally, settings.miss), None))
    return Observation(state, None)


def _bet(state: State, settings: Settings, seen: _Score, *, line: float, short: float, period: float) -> State:
    sizes = stakes(line)
    passed = seen.passed / settings.miss_seconds
    onsets = state.onsets.followed(seen.value, seen.weight, stakes=sizes, short=short, at=seen.at, passed=passed)
    fresh = min(_MOST_FRESH, seen.passed / period)
    return replace(state, evidence=advance(state.evidence, sizes, short, fresh), onsets=onsets)


def _changed(state: State) -> State:
    """Raised or cleared: what comes is a new question, and the current mean is of what comes."""
    return replace(
        state,
        evidence=NONE,
        onsets=state.onsets.forgotten,
        since=0,
        older=state.older.emptied,
        newer=state.newer.emptied,
    )


def _event(kind: EventKind, state: State, found: Interval, onset: Onset | None) -> Event:
    assert state.at is not None
    assert state.target is not None
    began = state.at if onset is None or onset.at is None else onset.at
    return Event(
        kind=kind,
        at=state.at,
        target=state.target,
        evidence=_log_evidence(state),
        estimate=state.target if found.mean is None else found.mean,
        low=found.low,
        high=found.high,
        effective_n=found.effective_size,
        scores=found.scores,
        onset_at=began if state.dropped_at is None else state.dropped_at,
        recovered_at=began if kind is EventKind.CLEARED else None,
    )


def _log_evidence(state: State) -> float:
    return log(max(_LEAST_EVIDENCE, total(state.evidence)))


def _is_due(scores: int) -> bool:
    times, rest = divmod(scores, _FIRST_UPDATE)
    return rest == 0 and times.bit_count() == 1
