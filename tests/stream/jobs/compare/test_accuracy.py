"""How well findings meet labels: the numbers of scikit-learn, and what is unknown."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

from stream.jobs.compare.accuracy import BINS, accuracy, balanced_accuracy, calibration, f1, macro_f1

EXACT = 1e-12

places = st.integers(0, 4)
classes = st.lists(st.tuples(places, places), min_size=1, max_size=60)
# Never on the edge of a bin, where one rounding or another decides.
scores = st.integers(0, 10_000).map(lambda number: (number + 0.5) / 10_001).filter(lambda x: abs(x * 10 % 1) > 1e-6)


def sides(pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    said, found = zip(*pairs, strict=True)
    return list(said), list(found)


@given(classes)
def test_accuracy_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    assert accuracy(pairs).value == pytest.approx(accuracy_score(*sides(pairs)), abs=EXACT)


@given(classes)
def test_balanced_accuracy_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    with warnings.catch_warnings():
        # It warns of classes that nobody said, and leaves them out as we do.
        warnings.simplefilter("ignore")
        expected = balanced_accuracy_score(*sides(pairs))
    assert balanced_accuracy(pairs).value == pytest.approx(expected, abs=EXACT)


@given(classes)
def test_macro_f1_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    expected = f1_score(*sides(pairs), average="macro", zero_division=0)
    assert macro_f1(pairs).value == pytest.approx(expected, abs=EXACT)


@given(classes, st.frozensets(places))
def test_f1_of_one_side_of_a_cut_is_that_of_scikit_learn(
    pairs: list[tuple[int, int]], positive: frozenset[int]
) -> None:
    said, found = ([each in positive for each in side] for side in sides(pairs))
    measured = f1(pairs, positive)
    if not any(said) and not any(found):
        assert measured.reason == "neither labelled nor found on any row"
        return
    assert measured.value == pytest.approx(f1_score(said, found, zero_division=0), abs=EXACT)


@given(st.lists(st.tuples(st.booleans(), scores), min_size=1, max_size=60))
def test_the_calibration_curve_is_that_of_scikit_learn(pairs: list[tuple[bool, float]]) -> None:
    said, found = zip(*pairs, strict=True)
    assume(len(set(said)) == 2)
    curve = calibration([(float(said), found) for said, found in pairs])
    expected_said, expected_found = calibration_curve(said, found, n_bins=BINS, strategy="uniform")
    assert [each.said for each in curve.bins] == pytest.approx(list(expected_said), abs=EXACT)
    assert [each.found for each in curve.bins] == pytest.approx(list(expected_found), abs=EXACT)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=60))
def test_every_row_is_in_one_bin_and_the_error_is_the_mean_distance(pairs: list[tuple[float, float]]) -> None:
    curve = calibration(pairs)
    assert sum(each.count for each in curve.bins) == len(pairs)
    assert all(each.low - EXACT <= each.found <= each.high + EXACT for each in curve.bins)
    weights = [each.count / len(pairs) for each in curve.bins]
    expected = np.dot(weights, [abs(each.found - each.said) for each in curve.bins])
    assert curve.error.value == pytest.approx(expected, abs=EXACT)


def test_both_ends_of_the_scores_are_in_a_bin() -> None:
    curve = calibration([(0.0, 0.0), (1.0, 1.0)])
    assert [(each.low, each.high) for each in curve.bins] == [(0.0, 0.1), (0.9, 1.0)]
    assert curve.error.value == 0.0


def test_a_judge_that_is_always_sure_and_half_right_is_half_off() -> None:
    assert calibration([(1.0, 1.0), (0.0, 1.0)]).error.value == 0.5


def test_without_rows_everything_is_unknown_and_says_so() -> None:
    for found in (accuracy([]), balanced_accuracy([]), macro_f1([]), f1([], frozenset({0})), calibration([]).error):
        assert found.value is None
        assert found.reason == "no rows to compare"
