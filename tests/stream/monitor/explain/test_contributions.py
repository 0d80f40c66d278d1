"""Contributions add up, are what the formula says, and their intervals hold what they should."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.monitor.explain import Pair, Period, ScoreSums, mean_change, slice_of

scores = st.floats(0.0, 1.0)
weights = st.floats(1.0, 1000.0)
records = st.lists(
    st.tuples(st.sampled_from(list(Period)), st.sampled_from("abc"), scores, weights), min_size=2, max_size=60
).filter(lambda each: {period for period, *_ in each} == set(Period))


def divided(found: list[tuple[Period, str, float, float]]) -> tuple[Pair, dict[str, Pair]]:
    whole, parts = Pair(), {name: Pair() for _, name, *_ in found}
    for period, name, score, weight in found:
        whole.add(period, score, weight)
        parts[name].add(period, score, weight)
    return whole, parts


def test_sums_know_the_weighted_mean_and_the_effective_number() -> None:
    sums = ScoreSums()
    assert sums.mean is None
    assert sums.effective == 0.0
    for score, weight in ((1.0, 1.0), (0.0, 3.0)):
        sums.add(score, weight)
    assert sums.mean == pytest.approx(0.25)
    assert sums.effective == pytest.approx(16 / 10)


@given(records)
def test_the_contributions_of_all_slices_add_up_to_the_change(found: list[tuple[Period, str, float, float]]) -> None:
    whole, parts = divided(found)
    slices = [slice_of(whole, pair, name) for name, pair in parts.items()]
    change = mean_change(whole)
    assert change is not None
    assert sum(each.contribution.value for each in slices) == pytest.approx(change.value, abs=1e-9)
    assert sum(each.excess.value for each in slices) == pytest.approx(0.0, abs=1e-9)
    for at in (0, 1):
        assert sum(each.shares[at] for each in slices) == pytest.approx(1.0)


@given(records)
def test_every_interval_holds_its_estimate_and_has_a_width(found: list[tuple[Period, str, float, float]]) -> None:
    whole, parts = divided(found)
    for name, pair in parts.items():
        each = slice_of(whole, pair, name, tests=5)
        for change in (each.contribution, each.excess, each.change):
            if change is not None:
                assert change.low < change.value < change.high


@given(records)
def test_the_whole_is_a_slice_without_excess(found: list[tuple[Period, str, float, float]]) -> None:
    whole, _ = divided(found)
    each, change = slice_of(whole, whole, "all"), mean_change(whole)
    assert change is not None
    assert each.contribution.value == pytest.approx(change.value, abs=1e-9)
    assert each.excess.value == pytest.approx(0.0, abs=1e-9)


@given(records, st.floats(0.5, 50.0))
def test_the_unit_of_the_weights_does_not_matter(found: list[tuple[Period, str, float, float]], factor: float) -> None:
    one, other = (
        slice_of(whole, parts[found[0][1]], "a")
        for whole, parts in (divided(found), divided([(p, n, s, w * factor) for p, n, s, w in found]))
    )
    for a, b in ((one.contribution, other.contribution), (one.excess, other.excess)):
        assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high), rel=1e-6, abs=1e-9)


def test_a_slice_that_grows_counts_only_as_far_as_it_is_unlike_the_rest() -> None:
    whole, parts = divided(
        [(Period.BEFORE, "a", 0.5, 1.0)] * 10
        + [(Period.BEFORE, "b", 0.5, 1.0)] * 30
        + [(Period.SINCE, "a", 0.5, 1.0)] * 30
        + [(Period.SINCE, "b", 0.5, 1.0)] * 10
    )
    found = slice_of(whole, parts["a"], "a")
    assert (found.contribution.value, found.mix) == pytest.approx((0.0, 0.0))


def test_the_change_within_a_slice_is_told_from_that_of_the_mix() -> None:
    """A hard slice of 0.4 grows from a quarter to a half, and the easy one falls from 1 to 0.9."""
    whole, parts = divided(
        [(Period.BEFORE, "hard", 0.4, 1.0)] * 10
        + [(Period.BEFORE, "easy", 1.0, 1.0)] * 30
        + [(Period.SINCE, "hard", 0.4, 1.0)] * 20
        + [(Period.SINCE, "easy", 0.9, 1.0)] * 20
    )
    hard, easy = (slice_of(whole, parts[name], name) for name in ("hard", "easy"))
    usual = 0.85
    assert (hard.mix, hard.contribution.value) == pytest.approx((0.25 * (0.4 - usual),) * 2)
    assert easy.mix == pytest.approx(-0.25 * (0.95 - usual))
    assert easy.contribution.value - easy.mix == pytest.approx(0.625 * -0.1)


def test_a_new_slice_of_bad_answers_is_a_change_of_the_mix() -> None:
    whole, parts = divided(
        [(Period.BEFORE, "old", 1.0, 1.0)] * 40
        + [(Period.SINCE, "old", 1.0, 1.0)] * 20
        + [(Period.SINCE, "new", 0.0, 1.0)] * 20
    )
    new = slice_of(whole, parts["new"], "new")
    assert new.change is None
    assert new.means == (None, 0.0)
    # Half of the traffic, at 0 where it was 1: all of the fall.
    assert new.contribution.value == pytest.approx(0.5 * (0.0 - 1.0))
    assert slice_of(whole, parts["old"], "old").contribution.value == pytest.approx(0.0)
    assert new.contribution.is_fall
    assert new.mix == new.contribution.value


def test_where_one_takes_the_place_of_another_the_fall_is_that_of_the_new_one() -> None:
    whole, parts = divided([(Period.BEFORE, "old", 1.0, 1.0)] * 40 + [(Period.SINCE, "new", 0.5, 1.0)] * 40)
    old, new = (slice_of(whole, parts[name], name) for name in ("old", "new"))
    assert (old.contribution.value, new.contribution.value) == pytest.approx((0.0, -0.5))
    assert (old.left, old.arrived, new.left, new.arrived) == (True, False, False, True)


@given(records)
def test_the_excess_is_what_a_slice_is_below_the_mean_more_than_before(
    found: list[tuple[Period, str, float, float]],
) -> None:
    whole, parts = divided(found)
    for name, pair in parts.items():
        each = slice_of(whole, pair, name)
        below = [
            share * ((own.mean or 0.0) - (everything.mean or 0.0))
            for share, own, everything in zip(
                each.shares, (pair.before, pair.since), (whole.before, whole.since), strict=True
            )
        ]
        assert each.excess.value == pytest.approx(below[1] - below[0], abs=1e-9)


@pytest.mark.parametrize("shares", [(0.2, 0.6), (0.7, 0.1), (0.5, 0.5)])
def test_intervals_are_as_wide_as_estimates_scatter_where_shares_change(shares: tuple[float, float]) -> None:
    rng, runs, held = random.Random(3), 300, [0, 0]
    means = {Period.BEFORE: (0.6, 0.9), Period.SINCE: (0.3, 0.8)}
    usual, now = (share * means[at][0] + (1 - share) * means[at][1] for at, share in zip(Period, shares, strict=True))
    contribution = shares[1] * (0.3 - usual) - shares[0] * (0.6 - usual)
    truths = (contribution, contribution - shares[1] * (now - usual))
    for _ in range(runs):
        whole, part = Pair(), Pair()
        for period, share in zip(Period, shares, strict=True):
            for _ in range(150):
                inside = rng.random() < share
                score = float(rng.random() < means[period][not inside])
                for pair in (whole, part) if inside else (whole,):
                    pair.add(period, score, 1.0)
        found = slice_of(whole, part, "a")
        for at, (change, truth) in enumerate(zip((found.contribution, found.excess), truths, strict=True)):
            held[at] += change.low <= truth <= change.high
    assert all(0.91 <= count / runs <= 0.985 for count in held), held


def test_more_tests_make_the_interval_of_the_excess_wider_and_no_other() -> None:
    whole, parts = divided(
        [(period, name, float(at % 3 > 0), 1.0) for period in Period for at, name in enumerate("ab" * 20)]
    )
    found = [slice_of(whole, parts["a"], "a", tests=tests) for tests in (1, 10, 100)]
    widths = [each.excess.high - each.excess.low for each in found]
    assert all(narrow < wide for narrow, wide in pairwise(widths))
    assert len({each.contribution for each in found}) == 1


def test_a_period_without_scores_cannot_be_explained() -> None:
    whole = Pair()
    whole.add(Period.SINCE, 1.0, 1.0)
    assert mean_change(whole) is None
    with pytest.raises(ValueError, match="without scores"):
        slice_of(whole, whole, "a")


@pytest.mark.parametrize("heavy", [1.0, 20.0])
@pytest.mark.parametrize("fallen", [0.6, 0.9])
def test_intervals_hold_the_truth_about_as_often_as_they_say(heavy: float, fallen: float) -> None:
    """A slice of 20 % falls from 0.9, or does not; passes and fails, of equal and of very unequal weights."""
    rng, runs, share = random.Random(7), 250, 0.2
    held = [0, 0, 0]
    for _ in range(runs):
        whole, part = Pair(), Pair()
        for period, count in ((Period.BEFORE, 200), (Period.SINCE, 60)):
            for _ in range(count):
                inside = rng.random() < share
                mean = fallen if inside and period is Period.SINCE else 0.9
                score, weight = float(rng.random() < mean), rng.choice((1.0, heavy))
                whole.add(period, score, weight)
                if inside:
                    part.add(period, score, weight)
        found = slice_of(whole, part, "a")
        within, contribution = fallen - 0.9, share * (fallen - 0.9)
        truths = (
            (found.change, within),
            (found.contribution, contribution),
            (found.excess, contribution * (1 - share)),
        )
        for at, (change, truth) in enumerate(truths):
            assert change is not None
            held[at] += change.low <= truth <= change.high
    assert all(count / runs >= 0.9 for count in held), held
