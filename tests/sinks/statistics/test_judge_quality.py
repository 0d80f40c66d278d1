"""The agreement of judges with people: known figures, the same kappa as scikit-learn, and intervals that cover."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.statistics.judge_quality import RangedShare, judge_quality

LEVELS = st.sampled_from([0.0, 0.5, 1.0])


def test_known_figures() -> None:
    # The judge finds three of four bad answers, passes eight of ten others, and is milder on one and stricter on two.
    pairs = [(0.0, 0.0)] * 3 + [(1.0, 0.0)] + [(1.0, 1.0)] * 8 + [(0.0, 1.0)] * 2
    quality = judge_quality(pairs)
    assert quality.labels == 14
    assert quality.sensitivity.value == pytest.approx(3 / 4)
    assert quality.specificity.value == pytest.approx(8 / 10)
    # Wilson's interval of 3 of 4.
    assert (quality.sensitivity.low, quality.sensitivity.high) == pytest.approx((0.3006, 0.9544), abs=1e-4)
    assert quality.bias.mean == pytest.approx(-1 / 14)


@pytest.mark.xdist_group("scipy")
@given(st.lists(st.tuples(LEVELS, LEVELS), min_size=2, max_size=60))
def test_kappa_is_that_of_scikit_learn(pairs: list[tuple[float, float]]) -> None:
    from sklearn.metrics import cohen_kappa_score

    value = judge_quality(pairs).kappa.value
    steps = [(int(2 * score), int(2 * label)) for score, label in pairs]
    if value is None:
        assert len({step for pair in steps for step in pair}) == 1
    else:
        expected = cohen_kappa_score(*zip(*steps, strict=True), weights="linear", labels=[0, 1, 2])
        assert value == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), max_size=40))
def test_intervals_contain_their_figures(pairs: list[tuple[float, float]]) -> None:
    quality = judge_quality(pairs)
    for share in (quality.sensitivity, quality.specificity, quality.kappa):
        if share.low is not None and share.high is not None:
            assert share.value is not None
            assert -1.0 <= share.low <= share.value <= share.high <= 1.0


def test_figures_without_answers_are_not_known() -> None:
    quality = judge_quality([(1.0, 1.0)])
    assert quality.sensitivity == RangedShare()
    assert quality.specificity.value == 1.0
    assert judge_quality([]).kappa == RangedShare()


def test_the_interval_of_kappa_covers_that_of_a_large_sample() -> None:
    rng = random.Random(1)

    def draw(count: int) -> list[tuple[float, float]]:
        labels = rng.choices((0.0, 0.5, 1.0), (0.2, 0.3, 0.5), k=count)
        return [(label if rng.random() < 0.7 else rng.choice((0.0, 0.5, 1.0)), label) for label in labels]

    true = judge_quality(draw(50_000)).kappa.value
    assert true is not None
    intervals = [judge_quality(draw(150)).kappa for _time in range(200)]
    covered = sum(share.low <= true <= share.high for share in intervals if share.low is not None and share.high)
    assert 0.90 <= covered / 200 <= 0.99
