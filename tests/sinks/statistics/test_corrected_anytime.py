"""Corrected intervals that hold at every look: bets are fair or worse, and bounds do not depend on the notation."""

import random
from itertools import product
from math import exp, log1p

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.statistics.anytime import WeightedTally
from sinks.statistics.corrected_anytime import (
    CorrectedSequence,
    FixedGaps,
    GapTally,
    SlopeTally,
    _penalty,
    corrected_interval,
    fixed_interval,
    log_capital,
    log_mean_capital,
)

UNIT = st.floats(0.0, 1.0)
WEIGHTS = st.floats(0.01, 1.0)
RECORDS = st.lists(st.tuples(UNIT, UNIT, UNIT, WEIGHTS), max_size=8)
# Probabilities of the four outcomes of a score and a label, each high or low.
CELLS = st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4)


def tally(records: list[tuple[float, float, float, float]]) -> GapTally:
    gaps = GapTally()
    for score, label, tuning, weight in records:
        gaps = gaps.plus(score, label, tuning, weight)
    return gaps


@given(CELLS, st.tuples(UNIT, UNIT), st.tuples(UNIT, UNIT), st.tuples(WEIGHTS, WEIGHTS))
def test_the_capital_against_the_true_mean_does_not_grow_on_average(
    cells: list[float], scores: tuple[float, float], labels: tuple[float, float], weights: tuple[float, float]
) -> None:
    """Two labels in a row, over all outcomes: λ of the second depends on the first, and so may its weight."""
    outcomes = list(product(scores, labels))
    chances = [cell / sum(cells) for cell in cells]
    score_mean = sum(chance * score for chance, (score, _) in zip(chances, outcomes, strict=True))
    mean = sum(chance * label for chance, (_, label) in zip(chances, outcomes, strict=True))
    expected = dict.fromkeys((True, False), 0.0)
    for (one, first), (two, second) in product(zip(chances, outcomes, strict=True), repeat=2):
        slope = SlopeTally()
        gaps = GapTally().plus(*first, slope.tuning, weights[0])
        slope = slope.plus(*first, weights[0])
        gaps = gaps.plus(*second, slope.tuning, weights[first[1] > mean])
        for is_upper in expected:
            ends = (score_mean, score_mean)
            expected[is_upper] += one * two * exp(log_capital(gaps, mean, ends, is_upper=is_upper))
    assert max(expected.values()) <= 1.0 + 1e-9


@given(CELLS, st.tuples(UNIT, UNIT), st.tuples(UNIT, UNIT), st.tuples(WEIGHTS, WEIGHTS))
def test_labels_in_any_order_make_no_capital_against_the_true_mean_on_average(
    cells: list[float], scores: tuple[float, float], labels: tuple[float, float], chances: tuple[float, float]
) -> None:
    """One label, over all outcomes; answers with a good label are labelled with another probability than others.

    With fixed λ the capital is a product over the labels, so what holds for one holds for all.
    """
    outcomes = list(product(scores, labels))
    shares = [cell / sum(cells) for cell in cells]
    score_mean = sum(share * score for share, (score, _) in zip(shares, outcomes, strict=True))
    mean = sum(share * label for share, (_, label) in zip(shares, outcomes, strict=True))
    labelled = [chances[label > mean] for _, label in outcomes]
    total = sum(share * chance for share, chance in zip(shares, labelled, strict=True))
    for is_upper in (True, False):
        expected = 0.0
        for share, chance, outcome in zip(shares, labelled, outcomes, strict=True):
            gaps = FixedGaps().plus(*outcome, min(chances) / chance)
            capital = log_mean_capital(gaps.tallies, mean, (score_mean, score_mean), is_upper=is_upper)
            expected += share * chance / total * exp(capital)
        assert expected <= 1.0 + 1e-9


@given(st.lists(st.tuples(UNIT, UNIT, WEIGHTS), max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_labels_does_not_matter_if_the_tuning_is_fixed(
    records: list[tuple[float, float, float]], rng: random.Random
) -> None:
    shuffled = rng.sample(records, len(records))
    intervals = []
    for ordered in (records, shuffled):
        gaps, scores = FixedGaps(), WeightedTally()
        for record in ordered:
            gaps, scores = gaps.plus(*record), scores.plus(record[0], record[2])
        intervals.append(fixed_interval(gaps, scores, 0.05))
    assert intervals[0].low == pytest.approx(intervals[1].low, abs=1e-6)
    assert intervals[0].high == pytest.approx(intervals[1].high, abs=1e-6)


@pytest.mark.slow
def test_the_interval_with_fixed_tunings_is_rarely_wrong_at_any_look_and_nearly_as_narrow() -> None:
    """40 series of 200 labels each, with a look after every 40; bad answers are labelled twice as often as others."""
    rng, wrong, widths = random.Random(4), 0, list[tuple[float, float]]()
    for _series in range(40):
        gaps, missed = FixedGaps(), False
        series = CorrectedSequence(lowest_probability=0.5, lowest_label_probability=0.2)
        while series.gaps.count < 200:
            label = float(rng.random() < 0.6)
            score, chance = min(1.0, label * 0.7 + 0.3 * rng.random() + 0.15), 0.2 if label else 0.4
            series = series.plus_score(score, 0.5)
            if rng.random() >= chance / 0.5:
                continue
            series, gaps = series.plus_label(score, label, chance), gaps.plus(score, label, 0.2 / chance)
            if series.gaps.count % 40 == 0:
                found = fixed_interval(gaps, series.scores, 0.05)
                missed = missed or not found.low <= 0.6 <= found.high
        wrong += missed
        widths.append((found.width, corrected_interval(series, 0.05).width))
    assert wrong <= 2
    fixed, followed = (sum(width[place] for width in widths) for place in (0, 1))
    assert fixed < 1.2 * followed


@given(RECORDS, UNIT, UNIT)
def test_sums_give_the_moments_of_every_candidate(
    records: list[tuple[float, float, float, float]], mean: float, score_mean: float
) -> None:
    terms = [weight * (label - tuning * (score - score_mean) - mean) for score, label, tuning, weight in records]
    expected = [sum(term**power for term in terms) for power in range(1, 5)]
    assert tally(records).moments(mean, score_mean) == pytest.approx(expected, abs=1e-9)


@given(st.floats(0.0001, 0.97), st.floats(-1.0, 3.0))
def test_the_polynomial_is_below_the_logarithm(reach: float, value: float) -> None:
    x = max(-reach, value)
    assert x - x**2 / 2.0 + x**3 / 3.0 - _penalty(reach) * x**4 <= log1p(x) + 1e-12
    assert _penalty(reach) >= 0.25


@given(RECORDS, UNIT, UNIT, st.tuples(UNIT, UNIT), st.booleans())
def test_an_interval_of_the_scores_mean_never_has_more_capital_than_a_mean_in_it(
    records: list[tuple[float, float, float, float]],
    mean: float,
    share: float,
    ends: tuple[float, float],
    is_upper: bool,
) -> None:
    low, high = sorted(ends)
    inside = low + share * (high - low)
    whole = log_capital(tally(records), mean, (low, high), is_upper=is_upper)
    assert whole <= log_capital(tally(records), mean, (inside, inside), is_upper=is_upper) + 1e-9


def draw(rng: random.Random, labels: int) -> CorrectedSequence:
    """Draw a judge who is 0.15 too generous, on answers of which 60 % are good."""
    series = CorrectedSequence(lowest_probability=0.5, lowest_label_probability=0.05)
    while series.gaps.count < labels:
        label = float(rng.random() < 0.6)
        score = min(1.0, label * 0.7 + 0.3 * rng.random() + 0.15)
        series = series.plus_score(score, 0.5)
        if rng.random() < 0.1:
            series = series.plus_label(score, label, 0.05)
    return series


def test_the_interval_contains_the_true_mean_and_shrinks() -> None:
    widths = [corrected_interval(draw(random.Random(7), labels), 0.01) for labels in (0, 50, 200, 800)]
    assert (widths[0].low, widths[0].high) == (0.0, 1.0)
    assert all(interval.low < 0.6 < interval.high for interval in widths)
    assert [interval.width for interval in widths] == sorted((interval.width for interval in widths), reverse=True)
    assert widths[-1].width < 0.1


def test_the_judges_mean_is_refuted() -> None:
    series = draw(random.Random(8), 800)
    assert series.scores.mean is not None
    assert corrected_interval(series, 0.01).high < series.scores.mean


def test_a_series_can_be_stored() -> None:
    for labels in (0, 5):
        series = draw(random.Random(9), labels)
        assert CorrectedSequence.from_list(series.as_list()) == series


def test_a_probability_below_the_lowest_is_refused() -> None:
    series = CorrectedSequence(lowest_probability=0.5, lowest_label_probability=0.05)
    with pytest.raises(ValueError, match=r"at least 0\.5"):
        series.plus_score(0.5, 0.4)
    with pytest.raises(ValueError, match=r"at least 0\.05"):
        series.plus_label(0.5, 0.5, 0.04)
    with pytest.raises(ValueError, match="wrong interval"):
        corrected_interval(series, 0.0)


def test_a_label_is_weighted_and_does_not_choose_its_own_tuning() -> None:
    series = CorrectedSequence(lowest_probability=0.5, lowest_label_probability=0.05)
    for score, label, probability in ((0.9, 0.0, 0.05), (0.2, 1.0, 0.1), (0.6, 0.5, 0.5)):
        expected = series.gaps.plus(score, label, series.slope.tuning, 0.05 / probability)
        series = series.plus_label(score, label, probability)
        assert series.gaps == expected
    assert series.slope.tuning < 1.0
