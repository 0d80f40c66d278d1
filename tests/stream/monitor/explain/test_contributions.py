"""Contributions add up and follow the formula, and their intervals cover the true values."""

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
).filter(lambda drawn: {period for period, *_ in drawn} == set(Period))


def divide(observations: list[tuple[Period, str, float, float]]) -> tuple[Pair, dict[str, Pair]]:
    whole, parts = Pair(), {name: Pair() for _, name, *_ in observations}
    for period, name, score, weight in observations:
        whole.add(period, score, weight)
        parts[name].add(period, score, weight)
    return whole, parts


def test_sums_have_the_weighted_mean_and_the_effective_size() -> None:
    sums = ScoreSums()
    assert sums.mean is None
    assert sums.effective == 0.0
    for score, weight in ((1.0, 1.0), (0.0, 3.0)):
        sums.add(score, weight)
    assert sums.mean == pytest.approx(0.25)
    assert sums.effective == pytest.approx(16 / 10)


@given(records)
def test_the_contributions_of_all_slices_add_up_to_the_change(
    observations: list[tuple[Period, str, float, float]],
) -> None:
    whole, parts = divide(observations)
    slices = [slice_of(whole, pair, name) for name, pair in parts.items()]
    change = mean_change(whole)
    assert change is not None
    assert sum(part.contribution.value for part in slices) == pytest.approx(change.value, abs=1e-9)
    assert sum(part.excess.value for part in slices) == pytest.approx(0.0, abs=1e-9)
    for index in (0, 1):
        assert sum(part.shares[index] for part in slices) == pytest.approx(1.0)


@given(records)
def test_every_interval_contains_its_estimate(observations: list[tuple[Period, str, float, float]]) -> None:
    whole, parts = divide(observations)
    for name, pair in parts.items():
        part = slice_of(whole, pair, name, tests=5)
        for change in (part.contribution, part.excess, part.change):
            if change is not None:
                assert change.low < change.value < change.high


@given(records)
def test_the_whole_is_a_slice_without_excess(observations: list[tuple[Period, str, float, float]]) -> None:
    whole, _ = divide(observations)
    part, change = slice_of(whole, whole, "all"), mean_change(whole)
    assert change is not None
    assert part.contribution.value == pytest.approx(change.value, abs=1e-9)
    assert part.excess.value == pytest.approx(0.0, abs=1e-9)


@given(records, st.floats(0.5, 50.0))
def test_the_unit_of_the_weights_does_not_matter(
    observations: list[tuple[Period, str, float, float]], factor: float
) -> None:
    one, other = (
        slice_of(whole, parts[observations[0][1]], "a")
        for whole, parts in (divide(observations), divide([(p, n, s, w * factor) for p, n, s, w in observations]))
    )
    for a, b in ((one.contribution, other.contribution), (one.excess, other.excess)):
        assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high), rel=1e-6, abs=1e-9)


def test_a_growing_slice_contributes_only_if_it_differs_from_the_rest() -> None:
    whole, parts = divide(
        [(Period.BEFORE, "a", 0.5, 1.0)] * 10
        + [(Period.BEFORE, "b", 0.5, 1.0)] * 30
        + [(Period.SINCE, "a", 0.5, 1.0)] * 30
        + [(Period.SINCE, "b", 0.5, 1.0)] * 10
    )
    part = slice_of(whole, parts["a"], "a")
    assert (part.contribution.value, part.mix) == pytest.approx((0.0, 0.0))


def test_the_change_within_a_slice_is_separated_from_that_of_the_mix() -> None:
    """A hard slice with mean 0.4 grows from a quarter to a half, and the easy one falls from 1 to 0.9."""
    whole, parts = divide(
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
    whole, parts = divide(
        [(Period.BEFORE, "old", 1.0, 1.0)] * 40
        + [(Period.SINCE, "old", 1.0, 1.0)] * 20
        + [(Period.SINCE, "new", 0.0, 1.0)] * 20
    )
    new = slice_of(whole, parts["new"], "new")
    assert new.change is None
    assert new.means == (None, 0.0)
    # Half of the traffic is at 0 instead of 1, which is the whole fall.
    assert new.contribution.value == pytest.approx(0.5 * (0.0 - 1.0))
    assert slice_of(whole, parts["old"], "old").contribution.value == pytest.approx(0.0)
    assert new.contribution.is_fall
    assert new.mix == new.contribution.value


def test_if_one_slice_replaces_another_the_fall_is_attributed_to_the_new_one() -> None:
    whole, parts = divide([(Period.BEFORE, "old", 1.0, 1.0)] * 40 + [(Period.SINCE, "new", 0.5, 1.0)] * 40)
    old, new = (slice_of(whole, parts[name], name) for name in ("old", "new"))
    assert (old.contribution.value, new.contribution.value) == pytest.approx((0.0, -0.5))
    assert (old.left, old.arrived, new.left, new.arrived) == (True, False, False, True)


@given(records)
def test_the_excess_is_the_change_of_a_slices_distance_from_the_mean(
    observations: list[tuple[Period, str, float, float]],
) -> None:
    whole, parts = divide(observations)
    for name, pair in parts.items():
        part = slice_of(whole, pair, name)
        below = [
            share * ((own.mean or 0.0) - (everything.mean or 0.0))
            for share, own, everything in zip(
                part.shares, (pair.before, pair.since), (whole.before, whole.since), strict=True
            )
        ]
        assert part.excess.value == pytest.approx(below[1] - below[0], abs=1e-9)


@pytest.mark.parametrize("shares", [(0.2, 0.6), (0.7, 0.1), (0.5, 0.5)])
def test_intervals_cover_the_truth_when_shares_change(shares: tuple[float, float]) -> None:
    rng, runs, covered = random.Random(3), 300, [0, 0]
    means = {Period.BEFORE: (0.6, 0.9), Period.SINCE: (0.3, 0.8)}
    usual, now = (
        share * means[period][0] + (1 - share) * means[period][1] for period, share in zip(Period, shares, strict=True)
    )
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
        part_slice = slice_of(whole, part, "a")
        for index, (change, truth) in enumerate(zip((part_slice.contribution, part_slice.excess), truths, strict=True)):
            covered[index] += change.low <= truth <= change.high
    assert all(0.91 <= count / runs <= 0.985 for count in covered), covered


def test_more_tests_make_the_interval_of_the_excess_wider_and_no_other() -> None:
    whole, parts = divide(
        [(period, name, float(index % 3 > 0), 1.0) for period in Period for index, name in enumerate("ab" * 20)]
    )
    slices = [slice_of(whole, parts["a"], "a", tests=tests) for tests in (1, 10, 100)]
    widths = [part.excess.high - part.excess.low for part in slices]
    assert all(narrow < wide for narrow, wide in pairwise(widths))
    assert len({part.contribution for part in slices}) == 1


def test_a_period_without_scores_cannot_be_explained() -> None:
    whole = Pair()
    whole.add(Period.SINCE, 1.0, 1.0)
    assert mean_change(whole) is None
    with pytest.raises(ValueError, match="without scores"):
        slice_of(whole, whole, "a")


@pytest.mark.parametrize("heavy", [1.0, 20.0])
@pytest.mark.parametrize("since_mean", [0.6, 0.9])
def test_intervals_cover_the_truth_as_often_as_promised(heavy: float, since_mean: float) -> None:
    """A slice of 20 % falls from 0.9 or stays; scores are passes and fails of equal or very unequal weights."""
    rng, runs, share = random.Random(7), 250, 0.2
    covered = [0, 0, 0]
    for _ in range(runs):
        whole, part = Pair(), Pair()
        for period, count in ((Period.BEFORE, 200), (Period.SINCE, 60)):
            for _ in range(count):
                inside = rng.random() < share
                mean = since_mean if inside and period is Period.SINCE else 0.9
                score, weight = float(rng.random() < mean), rng.choice((1.0, heavy))
                whole.add(period, score, weight)
                if inside:
                    part.add(period, score, weight)
        part_slice = slice_of(whole, part, "a")
        within, contribution = since_mean - 0.9, share * (since_mean - 0.9)
        truths = (
            (part_slice.change, within),
            (part_slice.contribution, contribution),
            (part_slice.excess, contribution * (1 - share)),
        )
        for index, (change, truth) in enumerate(truths):
            assert change is not None
            covered[index] += change.low <= truth <= change.high
    assert all(count / runs >= 0.9 for count in covered), covered
