"""Version comparison: only real differences are reported, for any shares, weights and common changes."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream.monitor.detection import VersionSettings, VersionSide, VersionState, compare_versions, observe_version
from stream.monitor.detection.evidence import total

PLAIN = VersionSettings()
UNIT = st.floats(0.0, 1.0)


def compare_simulated(
    settings_used: VersionSettings, a: float, b: float, count: int, *, seed: int = 1, share_of_a: float = 0.5
) -> tuple[VersionState, int | None]:
    """Simulate passes and fails of both; return the state, and the number of scores until A was reported worse."""
    rng = random.Random(seed)
    state, reported_after = VersionState(), None
    for number in range(count):
        side = VersionSide.A if rng.random() < share_of_a else VersionSide.B
        score = float(rng.random() < (a if side is VersionSide.A else b))
        state, is_news = observe_version(state, settings_used, side, score)
        if is_news:
            assert reported_after is None
            reported_after = number + 1
    return state, reported_after


@pytest.mark.parametrize("share_of_a", [0.5, 0.1, 0.9])
def test_a_worse_version_is_detected_and_stays_worse(share_of_a: float) -> None:
    state, reported_after = compare_simulated(PLAIN, 0.7, 0.9, 3000, share_of_a=share_of_a)
    assert reported_after is not None
    assert state.is_worse
    result = compare_versions(state, PLAIN)
    assert result.is_worse
    assert result.difference.low <= -0.2 <= result.difference.high < 0.0


@pytest.mark.parametrize(("a", "b"), [(0.9, 0.9), (0.9, 0.7), (0.5, 0.5)])
def test_a_version_that_is_as_good_or_better_is_not_called_worse(a: float, b: float) -> None:
    state, reported_after = compare_simulated(PLAIN, a, b, 3000)
    assert reported_after is None
    difference = compare_versions(state, PLAIN).difference
    assert difference.low <= a - b <= difference.high


def test_a_difference_within_the_margin_is_not_called_worse() -> None:
    assert compare_simulated(VersionSettings(margin=0.2), 0.75, 0.9, 3000)[1] is None
    assert compare_simulated(VersionSettings(margin=0.05), 0.75, 0.9, 3000)[1] is not None


def test_one_version_alone_is_not_compared() -> None:
    state, reported_after = compare_simulated(PLAIN, 0.0, 1.0, 500, share_of_a=1.0)
    assert reported_after is None
    assert total(state.evidence) == pytest.approx(1.0)
    assert compare_versions(state, PLAIN).difference == (None, -1.0, 1.0, 0.0, 0)


def test_a_change_in_both_versions_is_no_difference() -> None:
    rng = random.Random(5)
    state = VersionState()
    for number in range(4000):
        side = VersionSide.A if rng.random() < 0.5 else VersionSide.B
        mean = 0.95 if number % 1000 < 500 else 0.4
        state, is_news = observe_version(state, PLAIN, side, float(rng.random() < mean))
        assert not is_news


@given(
    st.lists(st.tuples(st.floats(0.1, 1.0), st.floats(0.05, 1.0), UNIT), min_size=1, max_size=3),
    st.lists(st.tuples(st.floats(0.1, 1.0), st.floats(0.05, 1.0), UNIT), min_size=1, max_size=3),
    st.integers(1, 3),
)
@settings(max_examples=60)
def test_evidence_does_not_grow_on_average_if_the_traffic_of_both_is_equally_good(
    a: list[tuple[float, float, float]], b: list[tuple[float, float, float]], of_a: int
) -> None:
    """Exact over strata of (share of the traffic, probability, score); the margin is B's real lead."""
    subject = VersionSettings(margin=max(-0.99, min(0.99, mean(b) - mean(a))), lowest_probability=0.05, floor=0.05)
    if subject.margin < mean(b) - mean(a):
        return
    expected = 0.0
    for path in itertools.product(*[score_distribution(a)] * of_a, score_distribution(b)):
        state, chance = VersionState(), 1.0
        for number, (likely, probability, score) in enumerate(path):
            side = VersionSide.A if number < of_a else VersionSide.B
            state, _news = observe_version(state, subject, side, score, probability)
            chance *= likely
        expected += chance * total(state.evidence)
    assert expected <= 1.0 + 1e-9


def mean(strata: list[tuple[float, float, float]]) -> float:
    return sum(share * score for share, _probability, score in strata) / sum(share for share, _, _ in strata)


def score_distribution(strata: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Return the probability that the next score is of each stratum, from its share and sampling probability."""
    chosen = sum(share * probability for share, probability, _score in strata)
    return [(share * probability / chosen, probability, score) for share, probability, score in strata]


@given(st.lists(st.tuples(st.sampled_from(list(VersionSide)), UNIT, st.sampled_from([1.0, 0.2])), max_size=60))
@settings(max_examples=50)
def test_storing_and_reading_the_state_after_every_score_changes_nothing(
    scores: list[tuple[VersionSide, float, float]],
) -> None:
    state, stored = VersionState(), VersionState().as_json()
    for side, score, probability in scores:
        state, news = observe_version(state, PLAIN, side, score, probability)
        reloaded, reloaded_news = observe_version(VersionState.from_json(stored), PLAIN, side, score, probability)
        stored = reloaded.as_json()
        assert (reloaded, reloaded_news) == (state, news)
        assert len(stored) < 1000


def test_evidence_never_overflows() -> None:
    state = VersionState()
    for _pair in range(3000):
        state, _news = observe_version(state, PLAIN, VersionSide.A, 0.0)
        state, _news = observe_version(state, PLAIN, VersionSide.B, 1.0)
    assert VersionState.from_json(state.as_json()) == state
    assert compare_versions(state, PLAIN).evidence > 100.0


@pytest.mark.parametrize("wrong", [{"score": 1.5}, {"score": float("nan")}, {"probability": 0.0}])
def test_an_invalid_score_or_probability_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="not"):
        observe_version(VersionState(), PLAIN, VersionSide.A, **({"score": 0.5} | wrong))


@pytest.mark.parametrize("wrong", [{"alpha": 0.0}, {"miss": 1.0}, {"margin": 1.0}, {"lowest_probability": 0.0}])
def test_invalid_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"."):
        VersionSettings(**wrong)
