"""Agreement of two raters on the same rows: the same numbers as scikit-learn and SciPy, and undefined cases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.jobs.compare.agreement import Weights, cohen_kappa, share_equal, spearman

EXACT = 1e-12
WEIGHTS: list[Weights] = ["plain", "linear", "quadratic"]
CLASSES = 5

places = st.integers(0, CLASSES - 1)
classes = st.lists(st.tuples(places, places), min_size=1, max_size=80)
# Few values, so that many ranks are tied, and arbitrary ones.
numbers = st.one_of(st.sampled_from([0.0, 1 / 3, 0.5, 2 / 3, 1.0]), st.floats(-1e6, 1e6))
scores = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=80)


@pytest.mark.xdist_group("scipy")
@pytest.mark.parametrize("weights", WEIGHTS)
@given(pairs=classes)
def test_kappa_is_that_of_scikit_learn(weights: Weights, pairs: list[tuple[int, int]]) -> None:
    from sklearn.metrics import cohen_kappa_score

    kappa = cohen_kappa(pairs, weights).value
    if kappa is None:
        assert len({class_index for pair in pairs for class_index in pair}) == 1
        return
    firsts, seconds = zip(*pairs, strict=True)
    expected = cohen_kappa_score(
        firsts, seconds, weights=None if weights == "plain" else weights, labels=range(CLASSES)
    )
    assert kappa == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("weights", WEIGHTS)
@given(pairs=classes)
def test_kappa_does_not_depend_on_the_order_of_the_raters_or_rows(
    weights: Weights, pairs: list[tuple[int, int]]
) -> None:
    kappa = cohen_kappa(pairs, weights)
    assert cohen_kappa([(other, one) for one, other in pairs], weights) == kappa
    assert cohen_kappa(pairs[::-1], weights) == kappa


@given(pairs=classes)
def test_kappa_is_1_only_if_all_rows_agree_and_never_above(pairs: list[tuple[int, int]]) -> None:
    for weights in WEIGHTS:
        kappa = cohen_kappa(pairs, weights).value
        assert kappa is None or kappa <= 1.0
        assert kappa is None or (kappa == 1.0) == all(one == other for one, other in pairs)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_kappa_of_one_class_on_both_sides_is_unknown(weights: Weights) -> None:
    kappa = cohen_kappa([(2, 2)] * 7, weights)
    assert kappa.value is None
    assert kappa.reason == "both chose the same class on every row"


def test_kappa_of_two_constants_that_differ_is_0() -> None:
    assert cohen_kappa([(0, 1)] * 7).value == 0.0


def test_classes_that_were_never_chosen_still_count_as_steps() -> None:
    """0 and 4 are four steps apart, even if the classes between were never chosen."""
    near = cohen_kappa([(0, 0), (1, 1), (0, 1), (4, 4)], "linear").value
    far = cohen_kappa([(0, 0), (1, 1), (0, 4), (4, 4)], "linear").value
    assert near is not None
    assert far is not None
    assert near > far


@pytest.mark.xdist_group("scipy")
@given(pairs=scores)
def test_spearman_is_that_of_scipy(pairs: list[tuple[float, float]]) -> None:
    from scipy.stats import spearmanr

    correlation = spearman(pairs).value
    firsts, seconds = zip(*pairs, strict=True)
    if correlation is None:
        assert len(set(firsts)) == 1 or len(set(seconds)) == 1
        return
    assert correlation == pytest.approx(spearmanr(firsts, seconds).statistic, abs=EXACT)


@given(pairs=scores)
def test_spearman_is_symmetric_and_changes_its_sign_with_the_direction(
    pairs: list[tuple[float, float]],
) -> None:
    correlation = spearman(pairs)
    assert spearman([(other, one) for one, other in pairs]) == correlation
    reversed_correlation = spearman([(one, -other) for one, other in pairs]).value
    assert (reversed_correlation is None) == (correlation.value is None)
    assert (
        reversed_correlation is None
        or correlation.value is None
        or reversed_correlation == pytest.approx(-correlation.value, abs=EXACT)
    )


def test_spearman_with_a_constant_side_is_unknown() -> None:
    assert spearman([(0.5, 0.1), (0.5, 0.9)]).reason == "one side is the same on every row"
    assert spearman([(0.1, 0.5), (0.9, 0.5)]).reason == "one side is the same on every row"


def test_one_row_has_no_ranks_to_compare() -> None:
    assert spearman([(0.1, 0.2)]).reason == "fewer than two rows to rank"


def test_without_rows_every_statistic_is_unknown_with_a_reason() -> None:
    for statistic in (share_equal([]), cohen_kappa([]), spearman([])):
        assert statistic.value is None
        assert statistic.reason == "no rows to compare"


def test_the_share_of_equal_rows() -> None:
    assert share_equal([(0, 0), (1, 2), (2, 2), (3, 3)]).value == 0.75
