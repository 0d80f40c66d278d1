"""The detector: silent without a drop, announces one once and clears it, and is not fooled by clocks or weights."""

import math
import random
from itertools import chain
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream.monitor.detection import EventKind, Settings, State, agreement, canary_settings, observe, reading
from tests.stream.monitor.detection.series import START, STEP, passes, watched

TARGET = Settings(target=0.85)
UNIT = st.floats(0.0, 1.0)
OBSERVATIONS = st.lists(
    st.tuples(UNIT, st.sampled_from([1.0, 0.5, 0.05]), st.floats(-100.0, 1e5)), min_size=1, max_size=60
)


def test_a_drop_is_announced_once_with_its_size_and_its_beginning() -> None:
    rng = random.Random(1)
    _state, events = watched(TARGET, chain(passes(0.9, 2000, rng), passes(0.6, 40 + 120, rng)))
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
    state, events = watched(TARGET, chain.from_iterable(parts))
    told = [(number, event) for number, event in events if event.kind is not EventKind.UPDATED]
    assert [event.kind for _number, event in told] == [EventKind.RAISED, EventKind.CLEARED, EventKind.RAISED]
    (_, first), (cleared_at, cleared), (_, second) = told
    assert 800 < cleared_at < 1300
    assert cleared.onset_at == first.onset_at
    assert cleared.recovered_at is not None
    assert abs(cleared.recovered_at - (START + 800 * STEP)) < 60 * STEP
    assert cleared.low <= 0.95 <= cleared.high
    assert second.onset_at > cleared.at
    assert reading(state, TARGET).is_raised
    assert reading(state, TARGET).onset_at == second.onset_at


def test_an_alarm_is_updated_ever_more_rarely() -> None:
    _state, events = watched(TARGET, [0.7] * 1000)
    (raised_at, raised), *updates = events
    assert raised.kind is EventKind.RAISED
    assert [number - raised_at for number, _event in updates] == [50, 100, 200, 400, 800]
    assert {event.kind for _number, event in updates} == {EventKind.UPDATED}
    assert all(event.estimate == pytest.approx(0.7) for _number, event in updates)
    assert all(event.onset_at == raised.onset_at for _number, event in updates)
    # The mean is of what came since the alarm, and ever better known.
    widths = [event.high - event.low for _number, event in updates[:4]]
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("score", [0.85, 0.86, 1.0])
def test_scores_that_are_good_enough_never_raise_an_alarm(score: float) -> None:
    state, events = watched(TARGET, [score] * 3000)
    assert events == []
    assert reading(state, TARGET).evidence < 0.0


@pytest.mark.parametrize("score", [0.0, 0.5, 0.8])
def test_an_alarm_stays_while_the_mean_is_low(score: float) -> None:
    """At 0.8, the target less the margin, it would be cleared above and is not at it."""
    state, events = watched(TARGET, [score] * 3000)
    assert events[0][1].kind is EventKind.RAISED
    assert EventKind.CLEARED not in {event.kind for _number, event in events}
    assert state.is_raised


def test_a_worse_drop_is_seen_sooner() -> None:
    delays = [watched(TARGET, [score] * 400)[1][0][0] for score in (0.8, 0.7, 0.6, 0.3, 0.0)]
    assert delays == sorted(delays, reverse=True)
    assert delays[-1] < 15


@given(st.lists(st.tuples(UNIT, UNIT), min_size=30, max_size=120))
@settings(max_examples=50)
def test_lower_scores_raise_an_alarm_no_later(pairs: list[tuple[float, float]]) -> None:
    lower = watched(TARGET, [min(pair) for pair in pairs])[1]
    higher = watched(TARGET, [max(pair) for pair in pairs])[1]
    assert not higher or lower[0][0] <= higher[0][0]


@given(OBSERVATIONS, st.sampled_from([0.85, None]))
@settings(max_examples=50)
def test_what_is_stored_and_read_after_every_score_gives_the_same(
    observations: list[tuple[float, float, float]], target: float | None
) -> None:
    subject = Settings(target=target, reference_scores=5, window=7, alpha=0.4, margin=0.01)
    kept, stored, at = State(), State().as_json(), START
    for score, probability, passed in observations:
        at += passed
        kept, event = observe(kept, subject, score, probability, at=at)
        read, again = observe(State.from_json(stored), subject, score, probability, at=at)
        stored = read.as_json()
        assert (read, again) == (kept, event)
        assert len(stored) < 1000


def test_a_state_is_small_through_a_whole_incident() -> None:
    """With the longest numbers there are: weights and scores of which no digit is 0."""
    rng = random.Random(3)
    subject = Settings(target=0.8123456789, lowest_probability=0.0512345678)
    state, at, most, kinds = State(), START, 0, set()
    for number in range(6000):
        at += rng.expovariate(1 / 71.0)
        score = rng.betavariate(6, 1) if number % 3000 < 2000 else rng.betavariate(3, 2)
        state, event = observe(state, subject, score, rng.choice([1.0, 0.3456789, 0.0512345678]), at=at)
        most = max(most, len(state.as_json()))
        kinds |= {event.kind} if event else set()
    assert kinds == set(EventKind)
    assert most < 1000


# Clocks


def test_the_rate_of_the_scores_does_not_matter_to_the_capital_they_bring() -> None:
    """Ten times as many scores in the same time bring the same."""
    for step, count in ((3600.0, 240), (360.0, 2400)):
        state, _events = watched(TARGET, [0.85] * count, step=step)
        assert sum(state.evidence) == pytest.approx(10.0 / 30.0, rel=0.01)


def test_a_wrong_time_raises_no_alarm_and_does_not_stop_the_clock_for_long() -> None:
    state, _events = watched(TARGET, [1.0] * 100)
    known = state.at
    assert known is not None
    state, event = observe(state, TARGET, 0.0, at=known + 1e10)
    assert event is None
    assert state.at == known + 86_400.0
    assert sum(state.evidence) < 0.05


def test_times_that_go_back_bring_no_capital() -> None:
    state, _events = watched(TARGET, [1.0] * 100)
    later, _event = observe(state, TARGET, 0.85, at=START)
    assert later.at == state.at
    assert sum(later.evidence) == sum(state.evidence)


def test_scores_of_one_moment_never_overflow() -> None:
    state, _event = observe(State(), TARGET, 0.85, at=START)
    for _score in range(3000):
        state, event = observe(state, TARGET, 0.0, at=START)
        assert event is None
    assert State.from_json(state.as_json()) == state


def test_a_long_silence_does_not_take_the_place_of_evidence() -> None:
    state, events = watched(TARGET, [1.0, 0.9] * 50, step=40 * 86_400.0)
    assert events == []
    alarmed, _events = watched(TARGET, [0.0] * 60)
    assert alarmed.is_raised
    after, _event = observe(alarmed, TARGET, 0.9, at=START + 400 * 86_400.0)
    assert after.is_raised
    assert not state.is_raised


# Weights


def test_one_probability_for_all_is_as_good_as_another() -> None:
    scores = list(chain([1.0] * 5, passes(0.9, 300, random.Random(4)), passes(0.5, 100, random.Random(5))))
    expected = [(number, event.kind) for number, event in watched(TARGET, scores)[1]]
    assert expected
    for probability in (0.5, 0.03):
        assert [(n, event.kind) for n, event in watched(TARGET, scores, probability=probability)[1]] == expected


def strata(rng: random.Random, rest: float, count: int) -> list[tuple[float, float]]:
    """Scores and probabilities: half of the scores are of risky traffic that is always judged, and mostly bad."""
    drawn = []
    for _score in range(count):
        risky = rng.random() < 0.5
        drawn.append((float(rng.random() < (0.4 if risky else rest)), 1.0 if risky else 0.05))
    return drawn


@pytest.mark.parametrize("subject", [TARGET, Settings(target=0.85, lowest_probability=0.05)])
def test_bad_answers_that_were_looked_for_are_no_drop(subject: Settings) -> None:
    """The mean of the scores is 0.66, that of the traffic 0.90."""
    state, unweighted, at = State(), State(), START
    for score, probability in strata(random.Random(6), 0.925, 3000):
        at += STEP
        state, event = observe(state, subject, score, probability, at=at)
        unweighted, _event = observe(unweighted, TARGET, score, at=at)
        assert event is None
    assert unweighted.is_raised
    current = reading(state, subject).current
    assert current.low <= 0.9 <= current.high


def test_a_drop_of_the_traffic_is_seen_through_the_weights() -> None:
    state, at = State(), START
    for score, probability in strata(random.Random(7), 0.65, 600):
        at += STEP
        state, event = observe(state, TARGET, score, probability, at=at)
        if event is not None:
            break
    assert state.is_raised


def test_a_smaller_probability_than_the_floor_counts_as_the_floor() -> None:
    subject = Settings(target=0.85, floor=0.05)
    state, _event = observe(State(), subject, 0.9, 1e-9, at=START)
    state, _event = observe(state, subject, 0.9, 0.05, at=START)
    assert state.older.tally.weight == 2.0


# Targets


def test_a_learnt_target_allows_for_the_chance_in_its_reference() -> None:
    subject = Settings(target=None)
    state, _events = watched(subject, passes(0.9, 999, random.Random(8)))
    assert reading(state, subject).is_learning
    state, events = watched(subject, passes(0.9, 1, random.Random(8)), state=state)
    assert events == []
    assert state.target is not None
    assert 0.83 < state.target < 0.88
    assert not reading(state, subject).is_learning
    assert reading(state, subject).enough == pytest.approx(-math.log(0.008))
    _state, events = watched(subject, passes(0.5, 100, random.Random(9)), state=state)
    assert events[0][1].kind is EventKind.RAISED
    assert events[0][1].target == state.target


def test_a_tolerance_lowers_a_learnt_target() -> None:
    scores = list(passes(0.9, 1000, random.Random(8)))
    plain, tolerant = (watched(Settings(target=None, tolerance=by), scores)[0].target for by in (0.0, 0.02))
    assert plain is not None
    assert tolerant == pytest.approx(plain - 0.02)


def test_a_reference_that_says_too_little_goes_on() -> None:
    subject = Settings(target=None, reference_scores=10)
    state, _events = watched(subject, [0.0] * 100)
    assert state.target is None
    state, _events = watched(subject, [1.0] * 100, state=state)
    assert state.target is not None


def test_another_target_is_another_question() -> None:
    state, _events = watched(TARGET, [1.0] * 50 + [0.5] * 10)
    assert max(state.evidence) > 1e-3
    state, _event = observe(state, Settings(target=0.7), 0.9, at=START)
    assert state.target == 0.7
    assert sum(state.evidence) == 0.0


# Canaries


def test_judges_that_change_their_verdicts_are_noticed_within_250_canaries() -> None:
    subject, delays = canary_settings(), []
    for seed in range(20):
        rng = random.Random(seed)
        _state, events = watched(subject, chain(passes(0.985, 300, rng), passes(0.87, 250, rng)))
        [raised] = [number for number, event in events if event.kind is EventKind.RAISED]
        delays.append(raised - 299)
    assert min(delays) > 0
    assert median(delays) < 120


def test_a_canary_scores_whether_its_verdict_is_the_same() -> None:
    assert (agreement("pass", "pass"), agreement("pass", "fail")) == (1.0, 0.0)


# Guarantees, in short; benchmarks/bench_detector.py has them at length


def test_the_interval_of_an_alarm_is_right_in_spite_of_the_chosen_onset() -> None:
    missed = 0
    for seed in range(40):
        rng = random.Random(seed)
        _state, events = watched(TARGET, chain(passes(0.9, 200, rng), passes(0.6, 250, rng)))
        event = events[0][1]
        assert event.kind is EventKind.RAISED
        missed += not event.low <= 0.6 <= event.high
    assert missed <= 2


@pytest.mark.parametrize("change", ["score", "probability", "at"])
def test_what_is_no_score_probability_or_time_is_refused(change: str) -> None:
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
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Settings(**({"target": 0.85} | wrong))  # type: ignore[arg-type]
