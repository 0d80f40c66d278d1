"""Means corrected by labels: equal to ppi-python's where that applies, and free of the judges' bias."""

import json
import random
from functools import reduce
from operator import add

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinks.statistics.anytime import WeightedTally
from sinks.statistics.corrected import (
    MIN_LABELS,
    CorrectedEstimate,
    CorrectionSums,
    JudgedSums,
    MeanInterval,
    correct,
)
from tests.sinks.statistics.ppi_figures import CASES, FIGURES, draw_case

UNIT = st.floats(0.0, 1.0)
PROBABILITIES = st.floats(0.01, 1.0)
LABELLED = st.tuples(UNIT, UNIT, PROBABILITIES, PROBABILITIES)
RECORDS = st.lists(LABELLED, min_size=2, max_size=12), st.lists(st.tuples(UNIT, PROBABILITIES), max_size=12)


def sums_of(
    labelled: list[tuple[float, float, float, float]], others: list[tuple[float, float]] | None = None
) -> CorrectionSums:
    """Add up records; a labelled one is its score, its label, and the probabilities of its two choices."""
    parts = [CorrectionSums.of_label(score, label, pi, pi * rho) for score, label, pi, rho in labelled]
    parts += [CorrectionSums.of_score(score, pi) for score, pi in others or []]
    return reduce(add, parts, CorrectionSums())


def corrected(sums: CorrectionSums) -> MeanInterval:
    interval = correct(sums, min_labels=2).corrected
    assert interval is not None
    return interval


@pytest.mark.parametrize("number", range(len(CASES)))
@pytest.mark.parametrize("sampled", [1.0, 0.05])
def test_unweighted_it_equals_ppi_python(number: int, sampled: float) -> None:
    labels, scores, others = draw_case(number, *CASES[number])
    share = len(labels) / (len(labels) + len(others))
    labelled = [(score, label, sampled, share) for score, label in zip(scores, labels, strict=True)]
    interval = corrected(sums_of(labelled, [(score, sampled) for score in others]))
    figures = json.loads(FIGURES.read_text())[number]
    assert interval.mean == pytest.approx(figures["mean"], abs=1e-9)
    assert interval.low == pytest.approx(figures["low"], abs=1e-9)
    assert interval.high == pytest.approx(figures["high"], abs=1e-9)


@given(st.lists(st.tuples(UNIT, PROBABILITIES), max_size=12))
def test_sums_of_judged_records_are_those_of_an_interval_at_every_look(records: list[tuple[float, float]]) -> None:
    judged, expected = JudgedSums(), WeightedTally()
    for score, probability in records:
        judged, expected = judged.plus(score, probability), expected.plus(score, 0.01 / probability)
    assert judged.tally(0.01).as_list() == pytest.approx(expected.as_list(), abs=1e-9)


def draw_records(rng: random.Random, count: int) -> tuple[CorrectionSums, CorrectionSums]:
    """Return the sums of biased scores with the right weights, and with weights that ignore how records were chosen."""
    right, wrong = CorrectionSums(), CorrectionSums()
    for _record in range(count):
        label = float(rng.random() < 0.6)
        score = min(1.0, label * 0.7 + 0.3 * rng.random() + 0.15)
        pi = 1.0 if label else 0.5
        rho = 0.4 if score < 0.5 else 0.1
        if rng.random() >= pi:
            continue
        if rng.random() < rho:
            right += CorrectionSums.of_label(score, label, pi, pi * rho)
            wrong += CorrectionSums.of_label(score, label, 1.0, 0.2)
        else:
            right += CorrectionSums.of_score(score, pi)
            wrong += CorrectionSums.of_score(score, 1.0)
    return right, wrong


def test_the_bias_of_judges_and_of_both_choices_is_gone() -> None:
    rng = random.Random(1)
    days = [draw_records(rng, 1000) for _day in range(40)]
    estimates = [correct(right) for right, _ in days]
    means = [estimate.corrected.mean for estimate in estimates if estimate.corrected]
    assert sum(means) / len(days) == pytest.approx(0.6, abs=0.01)
    assert sum(estimate.bias or 0.0 for estimate in estimates) / len(days) > 0.08
    unweighted = [corrected(wrong).mean for _, wrong in days]
    assert abs(sum(unweighted) / len(days) - 0.6) > 0.05


def test_scores_that_follow_the_labels_make_the_interval_narrower_than_that_of_labels_alone() -> None:
    estimate = correct(draw_records(random.Random(2), 3000)[0])
    assert estimate.corrected is not None
    assert estimate.labels_alone is not None
    assert estimate.corrected.width < 0.7 * estimate.labels_alone.width
    assert estimate.tuning is not None
    assert 0.9 < estimate.tuning < 1.6


@given(*RECORDS)
def test_sums_can_be_merged_in_any_order(
    labelled: list[tuple[float, float, float, float]], others: list[tuple[float, float]]
) -> None:
    one, other = sums_of(labelled[:1], others[1:]), sums_of(labelled[1:], others[:1])
    expected = corrected(sums_of(labelled, others))
    for merged in (corrected(one + other), corrected(other + one)):
        assert merged.mean == pytest.approx(expected.mean, abs=1e-6)
        assert merged.width == pytest.approx(expected.width, abs=1e-4)


@given(*RECORDS)
def test_the_interval_contains_the_mean_within_the_range(
    labelled: list[tuple[float, float, float, float]], others: list[tuple[float, float]]
) -> None:
    estimate = correct(sums_of(labelled, others), min_labels=2)
    for interval in (estimate.corrected, estimate.labels_alone):
        assert interval is not None
        assert 0.0 <= interval.low <= interval.mean <= interval.high <= 1.0
    assert 1.0 - 1e-9 <= estimate.effective_labels <= estimate.labels * (1.0 + 1e-9)


@given(UNIT, st.lists(st.tuples(UNIT, PROBABILITIES, PROBABILITIES), min_size=2, max_size=9), RECORDS[1])
def test_equal_labels_are_the_mean_whatever_the_judges_say(
    label: float, records: list[tuple[float, float, float]], others: list[tuple[float, float]]
) -> None:
    labelled = [(score, label, pi, rho) for score, pi, rho in records]
    assert corrected(sums_of(labelled, others)).mean == pytest.approx(label, abs=1e-6)


def test_few_labels_do_not_correct() -> None:
    labelled = [(0.9, 0.5, 0.1, 0.5)] * (MIN_LABELS - 1)
    estimate = correct(sums_of(labelled, [(0.8, 0.1)]))
    assert estimate == CorrectedEstimate(
        judged=MIN_LABELS,
        labels=MIN_LABELS - 1,
        effective_labels=pytest.approx(MIN_LABELS - 1),  # type: ignore[arg-type]
        judge_mean=pytest.approx((0.9 * 29 + 0.8) / 30),  # type: ignore[arg-type]
    )
    assert correct(sums_of([*labelled, (0.9, 0.5, 0.1, 0.5)])).corrected is not None


def test_labels_of_which_one_outweighs_the_others_do_not_correct() -> None:
    honest = [(0.9, 0.9 + 0.1 * (number % 2), 0.1, 0.5) for number in range(200)]
    assert correct(sums_of(honest)).corrected is not None
    estimate = correct(sums_of([*honest, (0.9, 0.0, 0.1, 2.0**-49)]))
    assert estimate.effective_labels == pytest.approx(1.0)
    assert (estimate.labels, estimate.corrected, estimate.labels_alone) == (201, None, None)
    assert estimate.judge_mean == pytest.approx(0.9)


def test_no_records_have_no_mean() -> None:
    assert correct(CorrectionSums()) == CorrectedEstimate(judged=0, labels=0, effective_labels=0.0, judge_mean=None)


def test_labels_that_all_agree_do_not_seem_certain() -> None:
    records = [(float(number % 4 > 0), float(number % 4 > 0), 1.0, 0.1) for number in range(100)]
    others = [(float(number % 4 > 0), 1.0) for number in range(9900)]
    interval = corrected(sums_of(records, others))
    # The rule of three: up to 3 % of the labels may differ where 100 agree.
    assert interval.high - interval.mean > 0.03


@settings(max_examples=20)
@given(st.sampled_from([(1.1, 0.5, 0.5), (-0.1, 0.5, 0.5), (0.5, 0.0, 0.0), (0.5, 1.5, 0.5), (0.5, 0.2, 0.3)]))
def test_values_that_would_spoil_a_mean_are_refused(values: tuple[float, float, float]) -> None:
    score, pi, label_probability = values
    with pytest.raises(ValueError, match=r"must be|cannot be larger"):
        CorrectionSums.of_label(score, 0.5, pi, label_probability)


def test_an_impossible_confidence_is_refused() -> None:
    with pytest.raises(ValueError, match="confidence"):
        correct(CorrectionSums(), confidence=1.0)
