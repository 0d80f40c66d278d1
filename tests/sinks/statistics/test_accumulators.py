"""Figures accumulated one by one equal the plain formulas over all values at once."""

import math
import statistics
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.statistics import accumulators
from sinks.statistics.accumulators import Durations, Scores, Sketch, Values
from sinks.statistics.kappa import kappa

scores = st.floats(0.0, 1.0)
probabilities = st.sampled_from((1.0, 0.5, 0.1, 0.01))
finite = st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(scores, probabilities), min_size=1, max_size=60), st.integers(0, 5), st.integers(0, 5))
def test_scores(rows: list[tuple[float, float]], unscored: int, unjudged: int) -> None:
    gathered = Scores()
    for score, probability in rows:
        gathered.add(score, probability)
    for _ in range(unscored):
        gathered.add(None, 0.5)
    result = gathered.result(unjudged=unjudged)
    weights = [1.0 / probability for _, probability in rows]
    total = math.fsum(weights)
    mean = math.fsum(w * s for w, (s, _) in zip(weights, rows, strict=True)) / total
    variance = math.fsum(w * (s - mean) ** 2 for w, (s, _) in zip(weights, rows, strict=True)) / total
    judged = total + 2.0 * unscored
    everything = judged * (1.0 + unjudged / (len(rows) + unscored))
    assert result.mean == pytest.approx(mean, abs=1e-9)
    assert result.deviation == pytest.approx(math.sqrt(variance), abs=1e-6)
    assert result.estimate.coverage == pytest.approx(total / everything)
    assert (result.least, result.most) == (min(s for s, _ in rows), max(s for s, _ in rows))
    assert result.estimate.count == len(rows)


@given(st.integers(2, 400), st.data())
def test_the_interval_of_passes_and_fails_is_wilsons_also_when_every_row_was_judged(
    n: int, data: st.DataObject
) -> None:
    passes = data.draw(st.integers(0, n))
    gathered = Scores()
    for index in range(n):
        gathered.add(float(index < passes), 1.0)
    result = gathered.result().estimate
    z = statistics.NormalDist().inv_cdf(0.975)
    share = passes / n
    center = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    assert result.low == pytest.approx(max(0.0, center - half), abs=1e-4)
    assert result.high == pytest.approx(min(1.0, center + half), abs=1e-4)


def test_one_row_has_a_mean_and_no_interval_and_none_has_neither() -> None:
    lone = Scores()
    assert (lone.result().mean, lone.result().deviation, lone.result().estimate.coverage) == (None, None, None)
    lone.add(0.5, 1.0)
    assert (lone.result().mean, lone.result().estimate.low) == (0.5, None)


def test_memory_of_scores_does_not_grow_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulators, "_MAX_DISTINCT", 8)
    gathered, plain = Scores(), [number / 1000 for number in range(1000)]
    most = 0
    for score in plain:
        gathered.add(score, 1.0)
        most = max(most, len(gathered._counted))
    assert most < 8
    assert gathered.result().mean == pytest.approx(statistics.fmean(plain))
    assert gathered.result().deviation == pytest.approx(statistics.pstdev(plain))
    assert (gathered.result().least, gathered.result().most) == (0.0, 0.999)


@given(st.lists(st.tuples(finite, st.floats(1.0, 100.0)), min_size=1, max_size=50))
def test_values_on_any_scale(rows: list[tuple[float, float]]) -> None:
    gathered = Values()
    for value, weight in rows:
        gathered.add(value, weight)
    result = gathered.result()
    assert result is not None
    total = math.fsum(weight for _, weight in rows)
    mean = math.fsum(value * weight for value, weight in rows) / total
    variance = math.fsum(weight * (value - mean) ** 2 for value, weight in rows) / total
    assert result.mean == pytest.approx(mean, rel=1e-9, abs=1e-6)
    assert result.deviation == pytest.approx(math.sqrt(variance), rel=1e-6, abs=1e-3)
    assert (result.count, result.least, result.most) == (len(rows), min(rows)[0], max(rows)[0])
    assert Values().result() is None


@given(st.lists(st.floats(0.01, 1e7), min_size=1, max_size=200))
def test_percentiles_of_durations_are_right_to_one_percent(given_durations: list[float]) -> None:
    gathered = Durations()
    for duration in given_durations:
        gathered.add(duration)
    result = gathered.result()
    assert result is not None
    ranked = sorted(given_durations)
    for share, value in ((0.5, result.half), (0.95, result.most)):
        assert value == pytest.approx(ranked[math.ceil(share * len(ranked)) - 1], rel=0.0101)
    assert result.longest == ranked[-1]


def test_zero_and_very_long_durations_are_counted_too() -> None:
    gathered = Durations()
    assert gathered.result() is None
    for duration in (0.0, 0.0, 1e12):
        gathered.add(duration)
    result = gathered.result()
    assert result is not None
    assert result.half == pytest.approx(0.001, rel=0.01)
    assert result.longest == 1e12


@given(st.lists(scores, min_size=1, max_size=200))
def test_a_sketch_has_the_lower_median_to_a_thousandth_and_counts_every_score_once(given_scores: list[float]) -> None:
    sketch = Sketch()
    for score in given_scores:
        sketch.add(score)
    assert sketch.median() == pytest.approx(statistics.median_low(given_scores), abs=0.001 + 1e-9)
    assert sum(sketch.coarse(20)) == len(given_scores)


def test_a_score_on_the_border_of_two_bins_is_in_the_upper_and_1_in_the_last() -> None:
    sketch = Sketch()
    for score in (0.1 + 0.2, 0.7 - 1e-13, 1.0, 0.0):
        sketch.add(score)
    assert sketch.coarse(10) == (1, 0, 0, 1, 0, 0, 0, 1, 0, 1)
    assert Sketch().median() is None


def test_kappa_of_a_textbook() -> None:
    """Fifty applications, two readers: 20 times both yes, 15 times both no."""
    joint = Counter({("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15})
    assert kappa(joint) == pytest.approx(0.4)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=50))
def test_kappa(pairs: list[tuple[int, int]]) -> None:
    result = kappa(Counter(pairs))
    n = len(pairs)
    if not n or len({rating for pair in pairs for rating in pair}) == 1:
        assert result is None
        return
    observed = sum(a == b for a, b in pairs) / n
    expected = sum(sum(a == k for a, _ in pairs) * sum(b == k for _, b in pairs) for k in range(4)) / n**2
    assert result == pytest.approx((observed - expected) / (1 - expected), abs=1e-12)
