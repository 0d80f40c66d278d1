"""Confidence intervals: valid at all looks together, symmetric, and narrower with more data."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.statistics.anytime import _STAKES, WeightedTally, _cost, interval, lower_bound, penalty, upper_bound

pytestmark = pytest.mark.slow

UNIT = st.floats(0.0, 1.0)
WEIGHTS = st.floats(0.01, 1.0)


def tally_scores(scores: list[tuple[float, float]]) -> WeightedTally:
    tally = WeightedTally()
    for score, weight in scores:
        tally = tally.plus(score, weight)
    return tally


@given(st.floats(0.02, 0.98), UNIT, UNIT, WEIGHTS, WEIGHTS)
def test_neither_kind_of_capital_grows_on_average_at_the_true_mean(
    mean: float, below: float, above: float, one: float, other: float
) -> None:
    """Two outcomes with different weights, and the probabilities that give this weighted mean."""
    low, high = mean * below, mean + (1.0 - mean) * above
    lost, gained = one * (mean - low), other * (high - mean)
    chance = 0.5 if lost + gained == 0.0 else gained / (lost + gained)
    outcomes = ((chance, lost), (1.0 - chance, -gained))
    for stake in _STAKES:
        assert sum(p * math.exp(stake * y - _cost(stake, mean)) for p, y in outcomes) <= 1.0 + 1e-9
        if stake * (1.0 - mean) < 1.0:
            cost = penalty(stake, 1.0 - mean)
            assert sum(p * math.exp(stake * y - cost * y * y) for p, y in outcomes) <= 1.0 + 1e-9


@given(st.floats(1e-4, 2.0))
def test_the_penalty_is_smooth_where_its_formula_changes(stake: float) -> None:
    reach = 1e-3 / stake
    assert penalty(stake, reach * 0.999) == pytest.approx(penalty(stake, reach * 1.001), rel=1e-3)
    assert penalty(stake, 0.0) == pytest.approx(stake * stake / 2.0)


def test_without_scores_the_interval_is_the_whole_range() -> None:
    assert interval(WeightedTally(), 0.05) == (None, 0.0, 1.0, 0.0, 0)


@given(st.lists(st.tuples(UNIT, WEIGHTS), min_size=1, max_size=50), st.floats(1e-6, 0.5))
def test_the_mean_is_within_its_interval(scores: list[tuple[float, float]], miss: float) -> None:
    estimate = interval(tally_scores(scores), miss)
    assert estimate.mean is not None
    assert 0.0 <= estimate.low <= estimate.mean <= estimate.high <= 1.0
    assert estimate.scores == len(scores)
    assert estimate.effective_size <= len(scores) * (1.0 + 1e-9)


@given(st.lists(st.tuples(UNIT, WEIGHTS), min_size=1, max_size=50))
def test_the_bounds_are_symmetric(scores: list[tuple[float, float]]) -> None:
    tally, mirrored = tally_scores(scores), tally_scores([(1.0 - score, weight) for score, weight in scores])
    assert upper_bound(tally, 0.05) == pytest.approx(1.0 - lower_bound(mirrored, 0.05), abs=1e-5)


@given(st.lists(st.tuples(UNIT, WEIGHTS), min_size=1, max_size=50))
def test_less_risk_takes_a_wider_interval(scores: list[tuple[float, float]]) -> None:
    narrow, wide = interval(tally_scores(scores), 0.1), interval(tally_scores(scores), 0.001)
    assert wide.low <= narrow.low + 1e-9
    assert wide.high >= narrow.high - 1e-9


def test_without_any_risk_the_interval_is_the_whole_range() -> None:
    estimate = interval(tally_scores([(0.5, 1.0)] * 100), 0.0)
    assert (estimate.low, estimate.high) == (0.0, 1.0)


def test_an_interval_is_not_much_wider_than_one_for_a_single_look() -> None:
    estimate = interval(tally_scores([(1.0, 1.0)] * 900 + [(0.0, 1.0)] * 100), 0.05)
    fixed = 1.96 * math.sqrt(0.09 / 1000)
    assert fixed < (estimate.high - estimate.low) / 2.0 < 2.0 * fixed


def test_scores_with_less_variance_have_a_narrower_interval() -> None:
    spread = interval(tally_scores([(1.0, 1.0)] * 120 + [(0.0, 1.0)] * 80), 0.05)
    close = interval(tally_scores([(0.65, 1.0)] * 100 + [(0.55, 1.0)] * 100), 0.05)
    assert close.high - close.low < (spread.high - spread.low) / 3.0


@pytest.mark.parametrize("mean", [0.9, 0.6])
def test_intervals_are_valid_at_all_looks_together(mean: float) -> None:
    rng = random.Random(1)
    runs, missed = 100, 0
    for _run in range(runs):
        tally, wrong = WeightedTally(), False
        for number in range(1, 301):
            tally = tally.plus(float(rng.random() < mean))
            if number % 25 == 0:
                estimate = interval(tally, 0.05)
                wrong |= not estimate.low <= mean <= estimate.high
        missed += wrong
    assert missed <= 0.05 * runs


def test_the_interval_covers_the_weighted_mean_of_all_traffic() -> None:
    """Half of the scores are of a risky twentieth of the traffic; a plain mean would be 0.65."""
    rng = random.Random(2)
    runs, missed = 100, 0
    for _run in range(runs):
        tally = WeightedTally()
        for _score in range(800):
            risky = rng.random() < 0.5
            # 0.05 of the traffic at 0.4, 0.95 at 0.9.
            tally = tally.plus(float(rng.random() < (0.4 if risky else 0.9)), 0.05 / 0.95 if risky else 1.0)
        estimate = interval(tally, 0.05)
        missed += not estimate.low <= 0.05 * 0.4 + 0.95 * 0.9 <= estimate.high
        assert estimate.low > 0.75
        assert estimate.effective_size == pytest.approx(440, rel=0.1)
    assert missed <= 0.05 * runs


@given(st.lists(st.tuples(UNIT, WEIGHTS), max_size=5))
def test_a_tally_survives_a_list_unchanged(scores: list[tuple[float, float]]) -> None:
    assert WeightedTally.from_list(tally_scores(scores).as_list()) == tally_scores(scores)
