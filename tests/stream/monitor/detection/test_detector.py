"""The detector announces each drop once, clears it, and is not misled by clocks or weights."""

import math
import random
from itertools import chain
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream.monitor.detection import EventKind, Settings, State, agreement, canary_settings, observe, reading
from tests.stream.monitor.detection.series import START, STEP, passes, watch_scores

TARGET = Settings(target=0.85)
UNIT = st.floats(0.0, 1.0)
OBSERVATIONS = st.lists(
    st.tuples(UNIT, st.sampled_from([1.0, 0.5, 0.05]), st.floats(-100.0, 1e5)), min_size=1, max_size=60
)


def test_a_drop_is_announced_once_with_its_size_and_its_start() -> None:
    rng = random.Random(1)
    _state, events = watch_scores(TARGET, chain(passes(0.9, 2000, rng), passes(0.6, 40 + 120, rng)))
    raised = [(number, event) for number, event in events if event.kind is EventKind.RAISED]
    [(number, event)] = raised
    assert 2000 < number < 2160
    assert event.evidence >= math.log(100.0)
    assert event.low <= 0.6 <= event.high
    assert event.low < event.estimate < event.target == 0.85
    assert event.at == START + number * STEP
    assert abs(event.onset_at - (START + 2000 * STEP)) < 40 * STEP
    assert event.scores == event.effective_n == round((event.at - event.onset_at) / STEP) + 1
    assert event.recovered_at is None


def test_an_alarm_is_cleared_after_the_recovery_and_can_be_raised_again() -> None:
    rng = random.Random(2)
    parts = (passes(0.9, 500, rng), passes(0.6, 300, rng), passes(0.95, 500, rng), passes(0.5, 100, rng))
    state, events = watch_scores(TARGET, chain.from_iterable(parts))
    changes = [(number, event) for number, event in events if event.kind is not EventKind.UPDATED]
    assert [event.kind for _number, event in changes] == [EventKind.RAISED, EventKind.CLEARED, EventKind.RAISED]
    (_, first), (cleared_at, cleared), (_, second) = changes
    assert 800 < cleared_at < 1300
    assert cleared.onset_at == first.onset_at
    assert cleared.recovered_at is not None
    assert abs(cleared.recovered_at - (START + 800 * STEP)) < 60 * STEP
    assert cleared.low <= 0.95 <= cleared.high
    assert second.onset_at > cleared.at
    assert reading(state, TARGET).is_raised
    assert reading(state, TARGET).onset_at == second.onset_at


def test_an_alert_is_updated_less_and_less_often() -> None:
    _state, events = watch_scores(TARGET, [0.7] * 1000)
    (raised_at, raised), *updates = events
    assert raised.kind is EventKind.RAISED
    assert [number - raised_at for number, _event in updates] == [50, 100, 200, 400, 800]
    assert {event.kind for _number, event in updates} == {EventKind.UPDATED}
    assert all(event.estimate == pytest.approx(0.7) for _number, event in updates)
    assert all(event.onset_at == raised.onset_at for _number, event in updates)
    # The mean covers the scores since the alert, and its interval narrows.
    widths = [event.high - event.low for _number, event in updates[:4]]
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("score", [0.85, 0.86, 1.0])
def test_scores_that_are_good_enough_never_raise_an_alarm(score: float) -> None:
    state, events = watch_scores(TARGET, [score] * 3000)
    assert events == []
    assert reading(state, TARGET).evidence < 0.0


@pytest.mark.parametrize("score", [0.0, 0.5, 0.8])
def test_an_alarm_stays_while_the_mean_is_low(score: float) -> None:
    """The alert is cleared only above 0.8, the target less the margin."""
    state, events = watch_scores(TARGET, [score] * 3000)
    assert events[0][1].kind is EventKind.RAISED
    assert EventKind.CLEARED not in {event.kind for _number, event in events}
    assert state.is_raised


def test_a_larger_drop_is_detected_sooner() -> None:
    delays = [watch_scores(TARGET, [score] * 400)[1][0][0] for score in (0.8, 0.7, 0.6, 0.3, 0.0)]
    assert delays == sorted(delays, reverse=True)
    assert delays[-1] < 15


@given(st.lists(st.tuples(UNIT, UNIT), min_size=30, max_size=120))
@settings(max_examples=50)
def test_lower_scores_raise_an_alarm_no_later(pairs: list[tuple[float, float]]) -> None:
    lower = watch_scores(TARGET, [min(pair) for pair in pairs])[1]
    higher = watch_scores(TARGET, [max(pair) for pair in pairs])[1]
    assert not higher or lower[0][0] <= higher[0][0]


@given(OBSERVATIONS, st.sampled_from([0.85, None]))
@settings(max_examples=50)
def test_storing_and_reading_the_state_after_every_score_changes_nothing(
    observations: list[tuple[float, float, float]], target: float | None
) -> None:
    detector_settings = Settings(target=target, reference_scores=5, window=7, alpha=0.4, margin=0.01)
    state, stored, timestamp = State(), State().as_json(), START
    for score, probability, elapsed in observations:
        timestamp += elapsed
        state, event = observe(state, detector_settings, score, probability, at=timestamp)
        reloaded, reloaded_event = observe(State.from_json(stored), detector_settings, score, probability, at=timestamp)
        stored = reloaded.as_json()
        assert (reloaded, reloaded_event) == (state, event)
        assert len(stored) < 1000


def test_a_state_is_small_through_a_whole_incident() -> None:
    """Weights and scores have as many digits as possible."""
    rng = random.Random(3)
    subject = Settings(target=0.8123456789, lowest_probability=0.0512345678)
    state, timestamp, largest, kinds = State(), START, 0, set()
    for number in range(6000):
        timestamp += rng.expovariate(1 / 71.0)
        score = rng.betavariate(6, 1) if number % 3000 < 2000 else rng.betavariate(3, 2)
        state, event = observe(state, subject, score, rng.choice([1.0, 0.3456789, 0.0512345678]), at=timestamp)
        largest = max(largest, len(state.as_json()))
        kinds |= {event.kind} if event else set()
    assert kinds == set(EventKind)
    assert largest < 1000


# Clocks


def test_fresh_capital_does_not_depend_on_the_rate_of_the_scores() -> None:
    """Ten times as many scores in the same time add the same capital."""
    for step, count in ((3600.0, 240), (360.0, 2400)):
        state, _events = watch_scores(TARGET, [0.85] * count, step=step)
        assert sum(state.evidence) == pytest.approx(10.0 / 30.0, rel=0.01)


def test_a_wrong_time_raises_no_alarm_and_does_not_stop_the_clock_for_long() -> None:
    state, _events = watch_scores(TARGET, [1.0] * 100)
    last_timestamp = state.at
    assert last_timestamp is not None
    state, event = observe(state, TARGET, 0.0, at=last_timestamp + 1e10)
    assert event is None
    assert state.at == last_timestamp + 86_400.0
    assert sum(state.evidence) < 0.05


def test_times_that_go_back_add_no_capital() -> None:
    state, _events = watch_scores(TARGET, [1.0] * 100)
    later, _event = observe(state, TARGET, 0.85, at=START)
    assert later.at == state.at
    assert sum(later.evidence) == sum(state.evidence)


def test_scores_at_the_same_time_never_overflow() -> None:
    state, _event = observe(State(), TARGET, 0.85, at=START)
    for _score in range(3000):
        state, event = observe(state, TARGET, 0.0, at=START)
        assert event is None
    assert State.from_json(state.as_json()) == state


def test_a_long_silence_is_no_evidence() -> None:
    state, events = watch_scores(TARGET, [1.0, 0.9] * 50, step=40 * 86_400.0)
    assert events == []
    alarmed, _events = watch_scores(TARGET, [0.0] * 60)
    assert alarmed.is_raised
    after, _event = observe(alarmed, TARGET, 0.9, at=START + 400 * 86_400.0)
    assert after.is_raised
    assert not state.is_raised


# Weights


def test_a_uniform_probability_changes_no_event() -> None:
    scores = list(chain([1.0] * 5, passes(0.9, 300, random.Random(4)), passes(0.5, 100, random.Random(5))))
    expected = [(number, event.kind) for number, event in watch_scores(TARGET, scores)[1]]
    assert expected
    for probability in (0.5, 0.03):
        assert [(n, event.kind) for n, event in watch_scores(TARGET, scores, probability=probability)[1]] == expected


def strata(rng: random.Random, rest: float, count: int) -> list[tuple[float, float]]:
    """Return scores and probabilities; half of the scores are of risky traffic, always judged and mostly bad."""
    observations = []
    for _score in range(count):
        risky = rng.random() < 0.5
        observations.append((float(rng.random() < (0.4 if risky else rest)), 1.0 if risky else 0.05))
    return observations


@pytest.mark.parametrize("subject", [TARGET, Settings(target=0.85, lowest_probability=0.05)])
def test_oversampled_bad_answers_are_no_drop(subject: Settings) -> None:
    """The mean of the scores is 0.66, that of the traffic 0.90."""
    state, unweighted, timestamp = State(), State(), START
    for score, probability in strata(random.Random(6), 0.925, 3000):
        timestamp += STEP
        state, event = observe(state, subject, score, probability, at=timestamp)
        unweighted, _event = observe(unweighted, TARGET, score, at=timestamp)
        assert event is None
    assert unweighted.is_raised
    current = reading(state, subject).current
    assert current.low <= 0.9 <= current.high


def test_a_drop_of_the_weighted_mean_is_detected() -> None:
    state, timestamp = State(), START
    for score, probability in strata(random.Random(7), 0.65, 600):
        timestamp += STEP
        state, event = observe(state, TARGET, score, probability, at=timestamp)
        if event is not None:
            break
    assert state.is_raised


def test_a_smaller_probability_than_the_floor_counts_as_the_floor() -> None:
    subject = Settings(target=0.85, floor=0.05)
    state, _event = observe(State(), subject, 0.9, 1e-9, at=START)
    state, _event = observe(state, subject, 0.9, 0.05, at=START)
    assert state.older.tally.weight == 2.0


# Targets


def test_a_learnt_target_allows_for_the_uncertainty_of_its_reference() -> None:
    subject = Settings(target=None)
    state, _events = watch_scores(subject, passes(0.9, 999, random.Random(8)))
    assert reading(state, subject).is_learning
    state, events = watch_scores(subject, passes(0.9, 1, random.Random(8)), state=state)
    assert events == []
    assert state.target is not None
    assert 0.83 < state.target < 0.88
    assert not reading(state, subject).is_learning
    assert reading(state, subject).enough == pytest.approx(-math.log(0.008))
    _state, events = watch_scores(subject, passes(0.5, 100, random.Random(9)), state=state)
    assert events[0][1].kind is EventKind.RAISED
    assert events[0][1].target == state.target


def test_a_tolerance_lowers_a_learnt_target() -> None:
    scores = list(passes(0.9, 1000, random.Random(8)))
    plain, tolerant = (
        watch_scores(Settings(target=None, tolerance=tolerance), scores)[0].target for tolerance in (0.0, 0.02)
    )
    assert plain is not None
    assert tolerant == pytest.approx(plain - 0.02)


def test_a_reference_that_is_too_uncertain_is_extended() -> None:
    subject = Settings(target=None, reference_scores=10)
    state, _events = watch_scores(subject, [0.0] * 100)
    assert state.target is None
    state, _events = watch_scores(subject, [1.0] * 100, state=state)
    assert state.target is not None


def test_another_target_resets_the_evidence() -> None:
    state, _events = watch_scores(TARGET, [1.0] * 50 + [0.5] * 10)
    assert max(state.evidence) > 1e-3
    state, _event = observe(state, Settings(target=0.7), 0.9, at=START)
    assert state.target == 0.7
    assert sum(state.evidence) == 0.0


# Canaries


def test_judges_that_change_their_verdicts_are_detected_within_250_canaries() -> None:
    subject, delays = canary_settings(), []
    for seed in range(20):
        rng = random.Random(seed)
        _state, events = watch_scores(subject, chain(passes(0.985, 300, rng), passes(0.87, 250, rng)))
        [raised] = [number for number, event in events if event.kind is EventKind.RAISED]
        delays.append(raised - 299)
    assert min(delays) > 0
    assert median(delays) < 120


def test_a_canary_scores_whether_its_verdict_is_the_same() -> None:
    assert (agreement("pass", "pass"), agreement("pass", "fail")) == (1.0, 0.0)


# Guarantees; benchmarks/bench_detector.py measures them in full


def test_the_interval_of_an_alert_holds_although_the_onset_was_selected() -> None:
    missed = 0
    for seed in range(40):
        rng = random.Random(seed)
        _state, events = watch_scores(TARGET, chain(passes(0.9, 200, rng), passes(0.6, 250, rng)))
        event = events[0][1]
        assert event.kind is EventKind.RAISED
        missed += not event.low <= 0.6 <= event.high
    assert missed <= 2


@pytest.mark.parametrize("change", ["score", "probability", "at"])
def test_an_invalid_score_probability_or_time_is_refused(change: str) -> None:
    good = {"score": 0.5, "probability": 0.5, "at": START}
    for bad in (math.nan, math.inf, -0.1):
        if change == "at" and bad == -0.1:
            continue
        with pytest.raises(ValueError, match="not"):
            observe(State(), TARGET, **(good | {change: bad}))
    with pytest.raises(ValueError, match="probability"):
        observe(State(), TARGET, 0.5, 0.0, at=START)


@pytest.mark.parametrize(
    "wrong",
    [
        {"target": 1.0},
        {"target": 0.05},
        {"alpha": 0.0},
        {"clear_alpha": 1.0},
        {"margin": 0.0},
        {"tolerance": -0.1},
        {"floor": 0.0},
        {"floor": 0.5, "lowest_probability": 0.1},
        {"period_seconds": 0.0},
        {"window": 0},
    ],
)
def test_invalid_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Settings(**({"target": 0.85} | wrong))  # type: ignore[arg-type]
