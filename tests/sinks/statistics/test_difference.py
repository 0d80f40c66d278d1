"""The paired difference with its interval, and the spread of a list: the numbers of scipy and numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.statistics.difference import paired_difference, spread_of, student_quantile

# Not so small that scipy rounds a deviation to zero.
unit = st.integers(0, 10_000).map(lambda number: number / 10_000)


@pytest.mark.xdist_group("scipy")
@given(st.lists(st.tuples(unit, unit), min_size=2, max_size=60))
def test_the_interval_is_students_for_paired_differences(pairs: list[tuple[float, float]]) -> None:
    from scipy import stats

    result = paired_difference(pairs)
    first, second = np.array(pairs).T
    assert result.mean == pytest.approx(np.mean(second - first), abs=1e-12)
    if result.low is None or result.high is None:
        assert np.ptp(second - first) == 0
        assert result.reason == "the same difference on every row"
        return
    deviation = np.std(second - first, ddof=1)
    expected = stats.t.interval(0.95, len(pairs) - 1, loc=np.mean(second - first), scale=deviation / len(pairs) ** 0.5)
    assert (result.low, result.high) == pytest.approx(expected, abs=1e-9)


@pytest.mark.xdist_group("scipy")
@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 24, 29, 99, 1_000, 99_999, 10_000_000])
def test_the_quantile_is_students(freedom: int) -> None:
    from scipy import stats

    assert student_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-8)
    assert student_quantile(freedom, 0.5) == pytest.approx(stats.t.ppf(0.75, freedom), rel=1e-8)


@given(st.lists(st.tuples(unit, unit), min_size=2, max_size=60))
def test_swapping_the_sides_negates_the_difference(pairs: list[tuple[float, float]]) -> None:
    result, turned = paired_difference(pairs), paired_difference([(second, first) for first, second in pairs])
    assert result.mean == pytest.approx(-(turned.mean or 0.0), abs=1e-12)
    if result.low is not None and turned.high is not None:
        assert result.low == pytest.approx(-turned.high, abs=1e-9)


def test_a_difference_that_never_varies_has_no_interval() -> None:
    result = paired_difference([(0.5, 0.75), (0.25, 0.5)])
    assert (result.mean, result.low, result.high) == (0.25, None, None)
    assert result.reason == "the same difference on every row"


def test_one_row_has_a_difference_and_no_interval() -> None:
    result = paired_difference([(0.5, 0.25)])
    assert (result.rows, result.mean, result.reason) == (1, -0.25, "one row has no interval")


def test_no_rows_have_no_difference() -> None:
    result = paired_difference([])
    assert (result.rows, result.mean, result.reason) == (0, None, "no rows to compare")


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=60))
def test_the_spread_is_that_of_numpy(numbers: list[float]) -> None:
    result = spread_of(numbers)
    assert result.count == len(numbers)
    assert result.total == pytest.approx(np.sum(numbers))
    assert result.mean == pytest.approx(np.mean(numbers))
    assert result.p50 == pytest.approx(np.percentile(numbers, 50))
    assert result.p95 == pytest.approx(np.percentile(numbers, 95))


def test_nothing_has_no_spread() -> None:
    assert (spread_of([]).count, spread_of([]).mean, spread_of([]).p95) == (0, None, None)
