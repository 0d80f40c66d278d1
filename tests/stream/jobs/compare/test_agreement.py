"""Agreement of two who judged the same rows: the numbers of scikit-learn and scipy, and what is unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score

from stream.jobs.compare.agreement import Weights, cohen_kappa, share_equal, spearman

EXACT = 1e-12
WEIGHTS: list[Weights] = ["plain", "linear", "quadratic"]
CLASSES = 5

places = st.integers(0, CLASSES - 1)
classes = st.lists(st.tuples(places, places), min_size=1, max_size=80)
# Few values, so that many ranks are shared, beside any at all.
numbers = st.one_of(st.sampled_from([0.0, 1 / 3, 0.5, 2 / 3, 1.0]), st.floats(-1e6, 1e6))
scores = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=80)


@pytest.mark.parametrize("weights", WEIGHTS)
@given(pairs=classes)
def test_kappa_is_that_of_scikit_learn(weights: Weights, pairs: list[tuple[int, int]]) -> None:
    found = cohen_kappa(pairs, weights).value
    if found is None:
        assert len({each for pair in pairs for each in pair}) == 1
        return
    ones, others = zip(*pairs, strict=True)
    other = cohen_kappa_score(ones, others, weights=None if weights == "plain" else weights, labels=range(CLASSES))
    assert found == pytest.approx(other, abs=EXACT)


@pytest.mark.parametrize("weights", WEIGHTS)
@given(pairs=classes)
def test_kappa_does_not_depend_on_who_is_first_nor_on_the_order_of_the_rows(
    weights: Weights, pairs: list[tuple[int, int]]
) -> None:
    found = cohen_kappa(pairs, weights)
    assert cohen_kappa([(other, one) for one, other in pairs], weights) == found
    assert cohen_kappa(pairs[::-1], weights) == found


@given(pairs=classes)
def test_kappa_is_at_most_1_and_that_only_where_all_agree(pairs: list[tuple[int, int]]) -> None:
    for weights in WEIGHTS:
        found = cohen_kappa(pairs, weights).value
        assert found is None or found <= 1.0
        assert found is None or (found == 1.0) == all(one == other for one, other in pairs)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_kappa_of_one_class_on_both_sides_is_unknown(weights: Weights) -> None:
    found = cohen_kappa([(2, 2)] * 7, weights)
    assert found.value is None
    assert found.reason == "both chose the same class on every row"


def test_kappa_of_two_constants_that_differ_is_0() -> None:
    assert cohen_kappa([(0, 1)] * 7).value == 0.0


def test_classes_that_nobody_chose_still_count_as_steps_between_those_chosen() -> None:
    """0 and 4 are four steps apart, whether or not anybody chose what is between."""
    near = cohen_kappa([(0, 0), (1, 1), (0, 1), (4, 4)], "linear").value
    far = cohen_kappa([(0, 0), (1, 1), (0, 4), (4, 4)], "linear").value
    assert near is not None
    assert far is not None
    assert near > far


@given(pairs=scores)
def test_spearman_is_that_of_scipy(pairs: list[tuple[float, float]]) -> None:
    found = spearman(pairs).value
    ones, others = zip(*pairs, strict=True)
    if found is None:
        assert len(set(ones)) == 1 or len(set(others)) == 1
        return
    assert found == pytest.approx(spearmanr(ones, others).statistic, abs=EXACT)


@given(pairs=scores)
def test_spearman_does_not_depend_on_who_is_first_and_turns_with_the_direction(
    pairs: list[tuple[float, float]],
) -> None:
    found = spearman(pairs)
    assert spearman([(other, one) for one, other in pairs]) == found
    turned = spearman([(one, -other) for one, other in pairs]).value
    assert (turned is None) == (found.value is None)
    assert turned is None or found.value is None or turned == pytest.approx(-found.value, abs=EXACT)


def test_spearman_with_what_never_varies_is_unknown() -> None:
    assert spearman([(0.5, 0.1), (0.5, 0.9)]).reason == "one side is the same on every row"
    assert spearman([(0.1, 0.5), (0.9, 0.5)]).reason == "one side is the same on every row"


def test_one_row_has_no_ranks_to_compare() -> None:
    assert spearman([(0.1, 0.2)]).reason == "fewer than two rows to rank"


def test_without_rows_everything_is_unknown_and_says_so() -> None:
    for found in (share_equal([]), cohen_kappa([]), spearman([])):
        assert found.value is None
        assert found.reason == "no rows to compare"


def test_the_share_of_equal_rows() -> None:
    assert share_equal([(0, 0), (1, 2), (2, 2), (3, 3)]).value == 0.75
