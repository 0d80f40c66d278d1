"""Attribution: only judges move anchors, only live scores point to the system, and a verdict waits for the guard."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.monitor.detection.attribution import (
    AttributionSettings,
    AttributionState,
    DriftSource,
    ReviewGap,
    attribute,
    observe_anchor,
    observe_review,
)
from stream.monitor.detection.settings import Settings
from stream.monitor.detection.state import State

SETTINGS = AttributionSettings(guard=10)
LABELS = {f"a-{number}": (0.0, 0.5, 1.0)[number % 3] for number in range(12)}


def judge_rounds(state: AttributionState, rounds: int, shift: float = 0.0, start: float = 0.0) -> AttributionState:
    """Score every anchor a half above its label, moved by `shift`, in several rounds."""
    for number in range(rounds):
        for place, (anchor, label) in enumerate(LABELS.items()):
            score = min(1.0, max(0.0, label + 0.5 + shift))
            at = start + 60.0 * (number * len(LABELS) + place)
            state = observe_anchor(state, SETTINGS, anchor, score, label, at=at)
    return state


def raised(scores: int, dropped_at: float = 0.0) -> State:
    """Return the state of a live detector this many scores after its alert was raised."""
    return State(raised_at=dropped_at + 1.0, dropped_at=dropped_at, since=scores)


LEARNT = judge_rounds(AttributionState(), 10)


def test_without_a_change_there_is_no_source() -> None:
    assert attribute([LEARNT], State(), SETTINGS) is DriftSource.NONE
    # Labels of 0 and 0.5 have a gap of a half, those of 1 have none.
    assert LEARNT.usual_gap == pytest.approx(1 / 3)


@pytest.mark.parametrize("shift", [-0.5, -0.25, 0.5])
def test_a_changed_judge_is_found_by_the_anchors_alone_and_learnt_again(shift: float) -> None:
    state = judge_rounds(LEARNT, 8, shift, start=1e5)
    assert attribute([state], State(), SETTINGS) is DriftSource.JUDGE
    assert state.changed_at is not None
    assert judge_rounds(state, 20, shift, start=2e5).changed_at == state.changed_at


def test_a_drop_is_the_systems_if_the_anchors_stay_until_the_guard_ends() -> None:
    assert attribute([LEARNT], raised(SETTINGS.guard - 1), SETTINGS) is None
    assert attribute([LEARNT], raised(SETTINGS.guard), SETTINGS) is DriftSource.SYSTEM


def test_a_drop_has_no_source_without_anchors_or_with_too_few_of_their_scores_since_it_began() -> None:
    assert attribute([], raised(1000), SETTINGS) is None
    assert attribute([AttributionState()], raised(1000), SETTINGS) is None
    assert attribute([LEARNT, AttributionState()], raised(1000), SETTINGS) is None
    assert attribute([LEARNT], raised(1000, dropped_at=max(LEARNT.latest)), SETTINGS) is None


def test_a_drop_is_the_judges_if_the_anchors_follow_within_the_guard() -> None:
    state = judge_rounds(LEARNT, 8, -0.5, start=1e5)
    assert attribute([LEARNT, state], raised(50, dropped_at=1e5), SETTINGS) is DriftSource.JUDGE


def test_a_change_of_the_judges_does_not_explain_a_much_later_drop() -> None:
    state = judge_rounds(judge_rounds(LEARNT, 8, -0.5, start=1e5), 20, -0.5, start=1e6)
    later = raised(SETTINGS.guard, dropped_at=1e6)
    assert attribute([state], later, SETTINGS) is DriftSource.SYSTEM


def test_a_state_survives_its_stored_form() -> None:
    for state in (AttributionState(), LEARNT, judge_rounds(AttributionState(), 2), judge_rounds(LEARNT, 8, -0.5, 1e5)):
        assert AttributionState.from_data(json.loads(json.dumps(state.as_data()))) == state


REVIEWS = Settings(target=None, reference_scores=100)


def review(gap: ReviewGap, rng: random.Random, answers: int, good: float, stricter: float) -> ReviewGap:
    """Review answers: a share of them is good, and the judge scores a share of the good ones too low."""
    for _ in range(answers):
        label = float(rng.random() < good)
        # The judge passes a fifth of the bad answers.
        score = float(rng.random() < 0.2) if not label else float(rng.random() >= stricter)
        gap = observe_review(gap, REVIEWS, score, label, 0.1, at=(gap.state.at or 0.0) + 60.0)
    return gap


def test_reviews_show_stricter_judges_but_a_drop_of_quality_is_never_the_judges() -> None:
    rng = random.Random(4)
    usual = review(ReviewGap(), rng, 300, good=0.9, stricter=0.02)
    assert usual.changed_at is None
    assert review(usual, rng, 400, good=0.5, stricter=0.02).changed_at is None
    assert review(usual, rng, 400, good=0.9, stricter=0.6).changed_at is not None


def test_an_anchor_with_a_new_label_is_learnt_again() -> None:
    state = LEARNT
    for number in range(50):
        state = observe_anchor(state, SETTINGS, "a-0", 0.5, 1.0, at=1e5 + number)
    assert state.anchors["a-0"].usual == -0.5
    assert attribute([state], State(), SETTINGS) is DriftSource.NONE


@given(st.integers(0, 2**32), st.floats(0.0, 0.01))
def test_a_judge_that_repeats_its_scores_is_not_suspected(seed: int, noise: float) -> None:
    rng, state = random.Random(seed), AttributionState()
    for number in range(60):
        anchor = f"a-{number % 6}"
        score = 0.5 if rng.random() >= noise / 10 else 0.0
        state = observe_anchor(state, SETTINGS, anchor, score, 0.5, at=number * 600.0)
    assert attribute([state], State(), SETTINGS) is DriftSource.NONE


def test_values_off_the_scale_are_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        observe_anchor(LEARNT, SETTINGS, "a-0", 1.5, 1.0, at=0.0)
    with pytest.raises(ValueError, match="guard"):
        AttributionSettings(guard=-1)
