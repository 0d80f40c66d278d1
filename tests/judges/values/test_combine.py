"""The rules that combine numbers and votes, for samples and for judges."""

from collections.abc import Sequence
from fractions import Fraction
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.combine import Numeric, combine_numbers, lower_median, weighted_mean

finite = st.floats(allow_nan=False, allow_infinity=False)
ranks = st.lists(st.integers(0, 4), min_size=1, max_size=9)


@pytest.mark.parametrize(("rule", "result"), [("mean", 2.5), ("median", 2.0), ("min", 1.0), ("max", 5.0)])
def test_rules_for_numbers(rule: Numeric, result: float) -> None:
    assert combine_numbers(rule, [5.0, 1.0, 1.0, 3.0]) == result


@pytest.mark.parametrize("rule", get_args(Numeric))
@pytest.mark.parametrize(("number", "expected"), [(0.25, "0.25"), (2, "2.0"), (-0.0, "0.0")])
def test_one_number_is_itself_as_a_float_and_never_a_negative_zero(rule: Numeric, number: float, expected: str) -> None:
    assert repr(combine_numbers(rule, [number])) == expected
    assert repr(combine_numbers(rule, [number, number])) == expected


@given(st.lists(finite, min_size=1, max_size=9), st.sampled_from(get_args(Numeric)))
def test_a_result_never_leaves_the_range_of_its_numbers(numbers: list[float], rule: Numeric) -> None:
    assert min(numbers) <= combine_numbers(rule, numbers) <= max(numbers)


@given(st.lists(st.tuples(finite, st.floats(min_value=1e-9, max_value=1e9)), min_size=1, max_size=9))
def test_a_weighted_mean_never_leaves_the_range_of_its_numbers(pairs: list[tuple[float, float]]) -> None:
    numbers, weights = zip(*pairs, strict=True)
    assert min(numbers) <= weighted_mean(numbers, weights) <= max(numbers)


@pytest.mark.parametrize(
    ("votes", "weights", "rank"),
    [
        ([0, 0, 1, 1, 2], None, 1),
        ([0, 0, 1, 1, 1], None, 1),
        ([2, 0], None, 0),
        ([2, 2, 0], None, 2),
        ([2, 2, 0], [1.0, 1.0, 2.0], 0),
        ([2, 2, 0], [1.0, 1.0, 1.9], 2),
    ],
)
def test_the_worse_side_of_the_middle(votes: Sequence[int], weights: Sequence[float] | None, rank: int) -> None:
    assert lower_median(votes, weights) == rank


@given(ranks)
def test_at_least_half_give_this_or_worse_and_less_than_half_give_worse(votes: list[int]) -> None:
    median = lower_median(votes)
    assert Fraction(sum(vote <= median for vote in votes), len(votes)) >= Fraction(1, 2)
    assert Fraction(sum(vote < median for vote in votes), len(votes)) < Fraction(1, 2)
