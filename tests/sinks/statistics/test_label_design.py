"""Queues and plans: uncertain answers first, never without a chance, and enough labels for the width."""

import random
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.statistics.corrected import CorrectionSums, correct
from sinks.statistics.label_design import (
    LabelledScore,
    LabelPlan,
    expected_error,
    label_probability,
    plan_labels,
)

UNIT = st.floats(0.0, 1.0)
SHARES = st.floats(0.01, 1.0)


@given(UNIT, UNIT, SHARES, SHARES, SHARES)
def test_a_larger_error_is_never_less_likely_and_the_floor_holds(
    one: float, other: float, rate: float, floor: float, probability: float
) -> None:
    low, high = (
        label_probability(error, probability, rate=rate, floor=floor, lowest=0.05) for error in sorted((one, other))
    )
    assert rate * floor <= low <= high <= rate


def test_an_answer_with_a_small_weight_is_less_likely() -> None:
    chances = [label_probability(1.0, pi, rate=0.2, floor=0.1, lowest=0.05) for pi in (0.01, 0.05, 0.1, 1.0)]
    assert chances == pytest.approx([0.2, 0.2, 0.1, 0.02])


@pytest.mark.parametrize(
    ("signals", "error"),
    [
        ({}, 0.5),
        ({"disagreement": 0.0, "certainty": 1.0, "distance": 0.3}, 0.5),
        ({"disagreement": 1.0}, 1.0),
        ({"disagreement": 0.5}, 0.75),
        ({"certainty": 0.5}, 1.0),
        ({"certainty": 0.9, "disagreement": 0.1}, 0.6),
        ({"distance": 0.0}, 1.0),
        ({"distance": 0.125}, 0.75),
    ],
)
def test_the_largest_signal_is_the_expected_error(signals: dict[str, float], error: float) -> None:
    assert expected_error(**signals) == pytest.approx(error)


def draw(
    rng: random.Random, judged: int, chance: dict[bool, float]
) -> tuple[list[tuple[float, float]], list[LabelledScore]]:
    """Draw scores that are almost right on easy answers and useless on hard ones; a hard answer has the score 0.5."""
    others, labelled = [], []
    for _record in range(judged):
        label, is_hard = float(rng.random() < 0.5), rng.random() < 0.3
        score = 0.5 if is_hard else 0.05 + 0.9 * label
        if rng.random() < chance[is_hard]:
            labelled.append(
                LabelledScore(score=score, label=label, probability=0.5, label_probability=0.5 * chance[is_hard])
            )
        else:
            others.append((score, 0.5))
    return others, labelled


def test_a_plan_reaches_its_width() -> None:
    pilot = plan_labels(0.04, *draw(random.Random(1), 20_000, {True: 0.02, False: 0.005}))
    assert pilot.labels is not None
    assert pilot.known > 100
    # The same queue, at the rate that gives as many labels.
    rate = pilot.labels / 20_000 / (0.3 * 0.02 + 0.7 * 0.005)
    others, labelled = draw(random.Random(2), 20_000, {True: 0.02 * rate, False: 0.005 * rate})
    sums = CorrectionSums()
    for record in labelled:
        sums += CorrectionSums.of_label(record.score, record.label, record.probability, record.label_probability)
    for score, probability in others:
        sums += CorrectionSums.of_score(score, probability)
    interval = correct(sums).corrected
    assert interval is not None
    assert interval.width == pytest.approx(0.04, rel=0.25)


def test_a_plan_says_what_the_queue_saves() -> None:
    designed = plan_labels(0.08, *draw(random.Random(3), 20_000, {True: 0.02, False: 0.004}))
    assert designed.saved is not None
    assert designed.saved > 0.2
    assert designed.labels is not None
    assert designed.labels < designed.labels_alone
    wrong_way_round = plan_labels(0.08, *draw(random.Random(3), 20_000, {True: 0.004, False: 0.02}))
    assert wrong_way_round.saved is not None
    assert wrong_way_round.saved < -0.2


def test_without_labels_a_plan_assumes_the_worst() -> None:
    assert plan_labels(0.1, [(0.5, 1.0)] * 10, []) == LabelPlan(
        width=0.1, labels=ceil(0.25 * 39.2**2), random_labels=385, labels_alone=385, known=0
    )


def test_too_few_judged_records_are_reported() -> None:
    plan = plan_labels(0.01, *draw(random.Random(4), 1000, {True: 0.3, False: 0.3}))
    assert (plan.labels, plan.saved) == (None, None)


def test_impossible_figures_are_refused() -> None:
    with pytest.raises(ValueError, match="width"):
        plan_labels(0.0, [], [])
    with pytest.raises(ValueError, match="rate and floor"):
        label_probability(0.5, 0.5, rate=0.0, floor=0.5, lowest=0.5)
    with pytest.raises(ValueError, match="probabilities"):
        label_probability(0.5, 0.0, rate=0.1, floor=0.5, lowest=0.5)
