"""The detector of one series: one score in; the new state, and the event to announce, out.

Without an alert the evidence is about a drop: it bets against "the mean is at least the target". With an alert it is
about the recovery: it bets against "the mean is at most the target less the margin". Each score multiplies the
evidence, and time adds to it as it passes: fresh capital for a change that begins now. While the statement is true, the
evidence grows on average by no more than time adds, whatever the rate of the scores. So alerts at 1/alpha are false at
most alpha times a period.
"""

from dataclasses import dataclass, replace
from math import isfinite, log
from typing import NamedTuple

from sinks.statistics.anytime import Interval, interval, lower_bound
from stream.monitor.detection.evidence import NONE, advance, leading, stakes, total
from stream.monitor.detection.onset import Onset
from stream.monitor.detection.settings import DAY_SECONDS, Settings
from stream.monitor.detection.state import Event, EventKind, ScoreWindow, State

# A score advances the time by at most this: one with a wrong time must not spend the capital of years.
_LONGEST_STEP = DAY_SECONDS
# ... and silence must not take the place of evidence.
_MOST_FRESH = 1.0 / 30.0
# An alert is updated after this many scores, and again whenever their number has doubled.
_FIRST_UPDATE = 50
# If the reference says too little, it is evaluated again after this many scores.
_ASK_AGAIN = 50
_LEAST_EVIDENCE = 1e-12


class Observation(NamedTuple):
    state: State
    event: Event | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesReading:
    """The current state of a series, for metrics and for people."""

    is_learning: bool
    is_raised: bool
    target: float | None
    evidence: float
    """The natural logarithm: of a drop, or of the recovery while there is an alert."""
    enough: float
    """The evidence at which the alert is raised or cleared."""
    current: Interval
    """Mean of the latest scores: of the last one or two windows, but not from before the last alert or its end."""
    onset_at: float | None
    """Start of the drop that the open alert is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Score:
    value: float
    weight: float
    at: float
    passed: float
    """Seconds."""


def observe(state: State, settings: Settings, score: float, probability: float = 1.0, *, at: float) -> Observation:
    """Take the next score, of a record that was chosen with this probability, at a time in seconds."""
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"a score must be between 0 and 1, not {score}")
    if not 0.0 < probability <= 1.0:
        raise ValueError(f"an inclusion probability must be above 0 and at most 1, not {probability}")
    if not isfinite(at):
        raise ValueError(f"a time must be a number of seconds, not {at}")
    weight = relative_weight(probability, state.older.least, settings)
    # To the millisecond: stored states are short.
    previous = round(at if state.at is None else state.at, 3)
    now = round(min(max(at, previous), previous + _LONGEST_STEP), 3)
    latest = _Score(value=score, weight=weight, at=now, passed=now - previous)
    state = replace(_set_target(state, settings), at=now)
    if state.target is None:
        return Observation(_learn_target(_add_to_windows(state, settings, latest, probability), settings), None)
    state = _add_to_windows(state, settings, latest, probability)
    return _watch_for_recovery(state, settings, latest) if state.is_raised else _watch_for_drop(state, settings, latest)


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
    """Return the evidence for a drop that has no alert yet, and the mean since its suspected onset."""
    if state.is_raised or state.target is None:
        return None
    onset = state.onsets.find_suspected(leading(state.evidence))
    return (_log_evidence(state), onset.estimate(settings.miss)) if onset.has_begun else None


def relative_weight(probability: float, least: float, settings: Settings) -> float:
    """Return the weight relative to the heaviest of the earlier scores; at most 1."""
    scale = max(settings.floor, min(settings.lowest_probability, least))
    return min(1.0, scale / probability)


def _set_target(state: State, settings: Settings) -> State:
    """Set the target of the settings; evidence against another target does not count."""
    if settings.target is None or settings.target == state.target:
        return state
    return replace(state, target=settings.target, evidence=NONE, onsets=state.onsets.forgotten)


def _add_to_windows(state: State, settings: Settings, latest: _Score, probability: float) -> State:
    older, newer = (window.plus(latest.value, latest.weight, probability) for window in (state.older, state.newer))
    if newer.tally.count >= settings.window and state.target is not None:
        older, newer = newer, ScoreWindow()
    return replace(state, older=older, newer=newer, since=state.since + 1)


def _learn_target(state: State, settings: Settings) -> State:
    """Set the target from the reference if it is long enough; the bound holds at every look, so any end is valid."""
    if state.since < settings.reference_scores or (state.since - settings.reference_scores) % _ASK_AGAIN:
        return state
    bound = lower_bound(state.older.tally, settings.alpha * settings.reference_share) - settings.tolerance
    if bound <= settings.margin:
        return state
    return replace(state, target=bound, since=0)


def _watch_for_drop(state: State, settings: Settings, latest: _Score) -> Observation:
    assert state.target is not None
    short = latest.weight * (state.target - latest.value)
    state = _bet(state, settings, latest, line=state.target, short=short, period=settings.period_seconds)
    if total(state.evidence) * settings.alert_alpha < 1.0:
        return Observation(state, None)
    onset = state.onsets.find_suspected(leading(state.evidence))
    event = _event(EventKind.RAISED, state, onset.estimate(settings.miss), onset)
    return Observation(replace(_start_over(state), raised_at=latest.at, dropped_at=event.onset_at), event)


def _watch_for_recovery(state: State, settings: Settings, latest: _Score) -> Observation:
    assert state.target is not None
    line = state.target - settings.margin
    over = latest.weight * (latest.value - line)
    state = _bet(state, settings, latest, line=1.0 - line, short=over, period=settings.clear_seconds)
    if total(state.evidence) * settings.clear_alpha >= 1.0:
        onset = state.onsets.find_suspected(leading(state.evidence))
        event = _event(EventKind.CLEARED, state, onset.estimate(settings.miss), onset)
        return Observation(replace(_start_over(state), raised_at=None, dropped_at=None), event)
    if _is_due(state.since):
        return Observation(state, _event(EventKind.UPDATED, state, interval(state.older.tally, settings.miss), None))
    return Observation(state, None)


def _bet(state: State, settings: Settings, latest: _Score, *, line: float, short: float, period: float) -> State:
    sizes = stakes(line)
    passed = latest.passed / settings.miss_seconds
    onsets = state.onsets.follow(latest.value, latest.weight, stakes=sizes, short=short, at=latest.at, passed=passed)
    fresh = min(_MOST_FRESH, latest.passed / period)
    return replace(state, evidence=advance(state.evidence, sizes, short, fresh), onsets=onsets)


def _start_over(state: State) -> State:
    """Clear evidence and windows after an alert was raised or cleared: a new question begins."""
    return replace(
        state,
        evidence=NONE,
        onsets=state.onsets.forgotten,
        since=0,
        older=state.older.emptied,
        newer=state.newer.emptied,
    )


def _event(kind: EventKind, state: State, mean: Interval, onset: Onset | None) -> Event:
    assert state.at is not None
    assert state.target is not None
    began = state.at if onset is None or onset.at is None else onset.at
    return Event(
        kind=kind,
        at=state.at,
        target=state.target,
        evidence=_log_evidence(state),
        estimate=state.target if mean.mean is None else mean.mean,
        low=mean.low,
        high=mean.high,
        effective_n=mean.effective_size,
        scores=mean.scores,
        onset_at=began if state.dropped_at is None else state.dropped_at,
        recovered_at=began if kind is EventKind.CLEARED else None,
    )


def _log_evidence(state: State) -> float:
    return log(max(_LEAST_EVIDENCE, total(state.evidence)))


def _is_due(scores: int) -> bool:
    times, rest = divmod(scores, _FIRST_UPDATE)
    return rest == 0 and times.bit_count() == 1
