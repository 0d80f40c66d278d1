"""How well scores find the rows labelled no: figures by hand, and properties for all scores."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.jobs.compare.detection import auroc, detect

labelled_rows = st.lists(
    st.tuples(st.booleans(), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])), min_size=1, max_size=30
)


def test_the_figures_of_a_small_table() -> None:
    rows = [(True, 0.0), (True, 0.5), (True, 1.0), (False, 0.5), (False, 1.0), (False, 1.0)]
    found = detect(rows, 1.0)
    assert found is not None
    assert (found.rows, found.bad, found.a_priori.alarms) == (6, 3, 3)
    assert found.a_priori.precision.measure.value == pytest.approx(2 / 3)
    assert found.a_priori.recall.measure.value == pytest.approx(2 / 3)
    assert found.a_priori.f1.measure.value == pytest.approx(2 / 3)
    # Of nine pairs, five have the lower score for no, and three are ties.
    assert found.auroc.measure.value == pytest.approx((5 + 0.5 + 2 * 0.5) / 9)


@given(labelled_rows)
def test_auroc_is_the_share_of_pairs_in_the_right_order(rows: list[tuple[bool, float]]) -> None:
    bad = [score for is_bad, score in rows if is_bad]
    good = [score for is_bad, score in rows if not is_bad]
    found = auroc(rows)
    if not bad or not good:
        assert found.measure.value is None
        assert found.measure.reason == "all labels are the same"
        return
    wins = [1.0 if low < high else 0.5 if low == high else 0.0 for low, high in product(bad, good)]
    assert found.measure.value == pytest.approx(sum(wins) / len(wins))
    assert found.low is not None
    assert found.high is not None
    assert 0.0 <= found.low <= found.measure.value <= found.high <= 1.0


@given(labelled_rows, st.sampled_from([0.5, 1.0]))
def test_no_cut_beats_the_best_one_and_every_interval_contains_its_value(
    rows: list[tuple[bool, float]], cut: float
) -> None:
    found = detect(rows, cut)
    assert found is not None
    best = found.best.f1.measure.value or 0.0
    assert best >= (found.a_priori.f1.measure.value or 0.0) - 1e-12
    for figures in (found.a_priori, found.best):
        assert figures.alarms == sum(score < figures.below for _, score in rows)
        for ranged in (figures.precision, figures.recall, figures.f1):
            if ranged.measure.value is not None:
                assert ranged.low is not None
                assert ranged.high is not None
                assert ranged.low - 1e-12 <= ranged.measure.value <= ranged.high + 1e-12


def test_there_is_nothing_to_detect_without_rows() -> None:
    assert detect([], 1.0) is None
