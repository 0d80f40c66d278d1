"""Bets: capital does not grow on average while the mean is at least the line, for any scores and weights."""

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stream.monitor.detection.evidence import DIVISION, NONE, ODDS, advance, initial_evidence, leading, stakes, total

LINES = st.floats(0.01, 0.99)
UNIT = st.floats(0.0, 1.0)
WEIGHTS = st.floats(0.001, 1.0)
Outcomes = list[tuple[float, float, float]]
"""The probability, the weight and the score of each possible outcome."""


@st.composite
def nulls(draw: st.DrawFn, line: float, most: int = 5) -> Outcomes:
    """Draw strata with different weights and means, whose weighted mean is at least the line."""
    drawn = draw(st.lists(st.tuples(st.floats(0.05, 1.0), WEIGHTS, UNIT), min_size=1, max_size=most))
    total_chance = sum(chance for chance, _weight, _score in drawn)
    outcomes = [(chance / total_chance, weight, score) for chance, weight, score in drawn]
    short = sum(chance * weight * (line - score) for chance, weight, score in outcomes)
    if short <= 0.0:
        return outcomes
    # Add as many perfect scores as needed.
    perfect = short / (short + 1.0 - line)
    return [(chance * (1.0 - perfect), weight, score) for chance, weight, score in outcomes] + [(perfect, 1.0, 1.0)]


@given(st.data(), LINES)
def test_no_bet_wins_on_average_while_the_weighted_mean_is_at_least_the_line(data: st.DataObject, line: float) -> None:
    outcomes = data.draw(nulls(line))
    for stake in stakes(line):
        expected = sum(chance * (1.0 + stake * weight * (line - score)) for chance, weight, score in outcomes)
        assert expected <= 1.0 + 1e-9


@given(LINES, WEIGHTS, UNIT)
def test_capital_is_never_lost_entirely(line: float, weight: float, score: float) -> None:
    assert all(1.0 + stake * weight * (line - score) > 0.0 for stake in stakes(line))


@given(LINES)
def test_a_stake_is_best_at_the_odds_it_is_for(line: float) -> None:
    """A pass and a fail multiply the capital by the ratios of their probabilities."""
    for odds, stake in zip(ODDS, stakes(line), strict=True):
        mean = line / (line + odds * (1.0 - line))
        assert 1.0 + stake * (line - 1.0) == pytest.approx(mean / line)
        assert 1.0 + stake * line == pytest.approx((1.0 - mean) / (1.0 - line))


def test_fresh_capital_is_divided_completely() -> None:
    assert sum(DIVISION) == pytest.approx(1.0)
    assert total(initial_evidence(1.0)) == pytest.approx(1.0)
    assert total(NONE) == 0.0


@given(st.data(), st.floats(0.1, 0.95), st.lists(st.floats(0.0, 0.5), min_size=5, max_size=5))
def test_evidence_grows_on_average_by_no_more_than_the_fresh_capital(
    data: st.DataObject, line: float, fresh: list[float]
) -> None:
    """Exact over all outcomes of five scores, each from a different distribution."""
    distributions = [data.draw(nulls(line, most=2)) for _score in fresh]
    expected = 0.0
    for path in itertools.product(*distributions):
        evidence, chance = NONE, 1.0
        for (probability, weight, score), added in zip(path, fresh, strict=True):
            evidence = advance(evidence, stakes(line), weight * (line - score), added)
            chance *= probability
        expected += chance * total(evidence)
    assert expected <= sum(fresh) + 1e-9


@given(LINES, st.lists(st.tuples(UNIT, UNIT, WEIGHTS), min_size=1, max_size=40))
def test_lower_scores_never_leave_less_evidence(line: float, score_pairs: list[tuple[float, float, float]]) -> None:
    lower, higher = NONE, NONE
    for one, other, weight in score_pairs:
        lower = advance(lower, stakes(line), weight * (line - min(one, other)), 0.01)
        higher = advance(higher, stakes(line), weight * (line - max(one, other)), 0.01)
    assert all(more >= less * (1.0 - 1e-9) for more, less in zip(lower, higher, strict=True))


@given(st.permutations([0.1, 0.2, 0.3, 0.4]))
def test_the_bet_with_the_most_capital_leads(evidence: list[float]) -> None:
    assume(len(evidence) == len(ODDS))
    assert evidence[leading(tuple(evidence))] == 0.4
