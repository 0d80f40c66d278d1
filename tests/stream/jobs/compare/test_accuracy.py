"""Agreement of results with labels: the same numbers as scikit-learn, and undefined cases."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stream.jobs.compare.accuracy import BINS, accuracy, balanced_accuracy, calibration, f1, macro_f1

EXACT = 1e-12

places = st.integers(0, 4)
classes = st.lists(st.tuples(places, places), min_size=1, max_size=60)
# Never on the edge of a bin, where one rounding or another decides.
scores = st.integers(0, 10_000).map(lambda number: (number + 0.5) / 10_001).filter(lambda x: abs(x * 10 % 1) > 1e-6)


def sides(pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    labels, predictions = zip(*pairs, strict=True)
    return list(labels), list(predictions)


@pytest.mark.xdist_group("scipy")
@given(classes)
def test_accuracy_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    from sklearn.metrics import accuracy_score

    assert accuracy(pairs).value == pytest.approx(accuracy_score(*sides(pairs)), abs=EXACT)


@pytest.mark.xdist_group("scipy")
@given(classes)
def test_balanced_accuracy_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    from sklearn.metrics import balanced_accuracy_score

    with warnings.catch_warnings():
        # It warns of classes without labels, and leaves them out as we do.
        warnings.simplefilter("ignore")
        expected = balanced_accuracy_score(*sides(pairs))
    assert balanced_accuracy(pairs).value == pytest.approx(expected, abs=EXACT)


@pytest.mark.xdist_group("scipy")
@given(classes)
def test_macro_f1_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    from sklearn.metrics import f1_score

    expected = f1_score(*sides(pairs), average="macro", zero_division=0)
    assert macro_f1(pairs).value == pytest.approx(expected, abs=EXACT)


@pytest.mark.xdist_group("scipy")
@given(classes, st.frozensets(places))
def test_f1_of_one_side_of_a_cut_is_that_of_scikit_learn(
    pairs: list[tuple[int, int]], positive: frozenset[int]
) -> None:
    from sklearn.metrics import f1_score

    labelled, predicted = ([class_index in positive for class_index in side] for side in sides(pairs))
    score = f1(pairs, positive)
    if not any(labelled) and not any(predicted):
        assert score.reason == "neither labelled nor found on any row"
        return
    assert score.value == pytest.approx(f1_score(labelled, predicted, zero_division=0), abs=EXACT)


@pytest.mark.xdist_group("scipy")
@given(st.lists(st.tuples(st.booleans(), scores), min_size=1, max_size=60))
def test_the_calibration_curve_is_that_of_scikit_learn(pairs: list[tuple[bool, float]]) -> None:
    from sklearn.calibration import calibration_curve

    labels, predictions = zip(*pairs, strict=True)
    assume(len(set(labels)) == 2)
    curve = calibration([(float(label), prediction) for label, prediction in pairs])
    expected_labels, expected_predictions = calibration_curve(labels, predictions, n_bins=BINS, strategy="uniform")
    assert [calibration_bin.said for calibration_bin in curve.bins] == pytest.approx(list(expected_labels), abs=EXACT)
    assert [calibration_bin.found for calibration_bin in curve.bins] == pytest.approx(
        list(expected_predictions), abs=EXACT
    )


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=60))
def test_every_row_is_in_one_bin_and_the_error_is_the_mean_distance(pairs: list[tuple[float, float]]) -> None:
    curve = calibration(pairs)
    assert sum(calibration_bin.count for calibration_bin in curve.bins) == len(pairs)
    assert all(
        calibration_bin.low - EXACT <= calibration_bin.found <= calibration_bin.high + EXACT
        for calibration_bin in curve.bins
    )
    weights = [calibration_bin.count / len(pairs) for calibration_bin in curve.bins]
    expected = np.dot(weights, [abs(calibration_bin.found - calibration_bin.said) for calibration_bin in curve.bins])
    assert curve.error.value == pytest.approx(expected, abs=EXACT)


def test_both_ends_of_the_scores_are_in_a_bin() -> None:
    curve = calibration([(0.0, 0.0), (1.0, 1.0)])
    assert [(calibration_bin.low, calibration_bin.high) for calibration_bin in curve.bins] == [(0.0, 0.1), (0.9, 1.0)]
    assert curve.error.value == 0.0


def test_a_judge_that_is_always_certain_and_half_right_has_an_error_of_a_half() -> None:
    assert calibration([(1.0, 1.0), (0.0, 1.0)]).error.value == 0.5


def test_without_rows_every_statistic_is_unknown_with_a_reason() -> None:
    for statistic in (accuracy([]), balanced_accuracy([]), macro_f1([]), f1([], frozenset({0})), calibration([]).error):
        assert statistic.value is None
        assert statistic.reason == "no rows to compare"
