"""Rolling means equal a direct computation over the window, for any order and weights."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.metrics import FrequentLabel
from stream.monitor.rolling_means import RollingScores, SeriesMean

WINDOW = 600.0
STEP = WINDOW / 60
NOW = 1_800_000_000.0  # a multiple of the step


def apps(*names: str, places: int = 50) -> FrequentLabel:
    """Return a label that has counted these apps."""
    label = FrequentLabel(places, free_after=1)
    for name in names:
        label.count(name)
    return label


def rolling_scores(*scores: tuple[float, float, float], now: float = NOW) -> RollingScores:
    """Return rolling scores of one series, from scores, weights and ages in seconds."""
    subject = RollingScores(WINDOW, apps("app"))
    for score, weight, age in scores:
        subject.add("app", "clarity", score=score, probability=1 / weight, at=now - age, now=now)
    return subject


def only(means: Iterable[SeriesMean]) -> SeriesMean:
    [series] = means
    return series


def test_a_mean_is_weighted_and_has_its_effective_size() -> None:
    series = only(rolling_scores((1.0, 1.0, 0.0), (0.0, 3.0, 1.0)).means(NOW))
    assert (series.app, series.dimension) == ("app", "clarity")
    assert (series.mean, series.count) == (0.25, 2)
    assert series.estimate.effective_size == pytest.approx(16 / 10)


def test_with_equal_weights_the_effective_size_is_the_count() -> None:
    series = only(rolling_scores(*((0.5, 10.0, float(index)) for index in range(7))).means(NOW))
    assert series.count == 7
    assert series.estimate.effective_size == pytest.approx(7)


def test_series_are_kept_separate() -> None:
    subject = RollingScores(WINDOW, apps("a", "b"))
    for app, dimension, score in (("a", "x", 0.1), ("a", "y", 0.2), ("b", "x", 0.3)):
        subject.add(app, dimension, score=score, probability=1.0, at=NOW, now=NOW)
    assert {(s.app, s.dimension): s.mean for s in subject.means(NOW)} == {
        ("a", "x"): pytest.approx(0.1),
        ("a", "y"): pytest.approx(0.2),
        ("b", "x"): pytest.approx(0.3),
    }


def test_a_score_is_dropped_when_the_window_has_passed() -> None:
    subject = rolling_scores((0.0, 1.0, 0.0))
    subject.add("app", "clarity", score=1.0, probability=1.0, at=NOW + WINDOW / 2, now=NOW + WINDOW / 2)
    assert only(subject.means(NOW + WINDOW - STEP)).mean == 0.5
    assert only(subject.means(NOW + WINDOW)).mean == 1.0
    assert list(subject.means(NOW + 2 * WINDOW)) == []


def test_a_series_that_returns_starts_over() -> None:
    subject = rolling_scores((0.0, 1.0, 0.0))
    assert list(subject.means(NOW + 2 * WINDOW)) == []
    subject.add("app", "clarity", score=1.0, probability=1.0, at=NOW + 2 * WINDOW, now=NOW + 2 * WINDOW)
    assert only(subject.means(NOW + 2 * WINDOW)).mean == 1.0


def test_a_record_older_than_the_window_is_not_counted() -> None:
    assert list(rolling_scores((0.5, 1.0, WINDOW)).means(NOW)) == []
    assert only(rolling_scores((0.5, 1.0, WINDOW - STEP)).means(NOW)).count == 1


@pytest.mark.parametrize("ahead", [1.0, STEP, WINDOW, 1e9])
def test_a_score_dated_in_the_future_is_kept_no_longer_than_others(ahead: float) -> None:
    subject = rolling_scores((0.5, 1.0, -ahead))
    assert only(subject.means(NOW)).count == 1
    assert list(subject.means(NOW + WINDOW)) == []


def test_memory_stays_constant_for_any_number_of_records_and_any_times() -> None:
    subject = RollingScores(WINDOW, apps("app"))
    for second in range(5_000):
        now = NOW + second
        subject.add("app", "clarity", score=0.5, probability=1.0, at=now + (second * 7919) % 10_000 - 5_000, now=now)
        if second % 10 == 0:
            list(subject.means(now))
    [series] = subject._series.values()
    assert len(series.buckets) <= 61


records = st.lists(
    st.tuples(
        st.floats(min_value=0.0, max_value=1.0),
        st.floats(min_value=1.0, max_value=1e6),
        st.integers(min_value=0, max_value=int(1.5 * WINDOW)).map(float),
    ),
    max_size=40,
)


@given(records, st.data())
def test_means_equal_a_direct_computation_in_any_order(
    scores: list[tuple[float, float, float]], data: st.DataObject
) -> None:
    within = [(score, weight) for score, weight, age in scores if (NOW - age) // STEP > NOW // STEP - 60]
    means = list(rolling_scores(*data.draw(st.permutations(scores))).means(NOW))
    if not within:
        assert means == []
        return
    total = sum(weight for _, weight in within)
    series = only(means)
    assert series.mean == pytest.approx(sum(score * weight for score, weight in within) / total)
    assert series.count == len(within)
    effective = series.estimate.effective_size
    assert effective == pytest.approx(total**2 / sum(weight**2 for _, weight in within))


def test_a_mean_has_its_interval_and_its_coverage() -> None:
    subject = rolling_scores(*((float(index % 4 > 0), 10.0, float(index)) for index in range(100)))
    for index in range(25):
        subject.add("app", "clarity", score=None, probability=0.1, at=NOW - index, now=NOW)
    estimate = only(subject.means(NOW)).estimate
    assert estimate.mean == pytest.approx(0.75)
    assert estimate.low is not None
    assert estimate.high is not None
    assert 0.6 < estimate.low < 0.75 < estimate.high < 0.85
    assert estimate.coverage == pytest.approx(0.8)


def test_a_series_without_any_score_has_no_mean() -> None:
    subject = RollingScores(WINDOW, apps("app"))
    subject.add("app", "clarity", score=None, probability=1.0, at=NOW, now=NOW)
    assert list(subject.means(NOW)) == []


def test_apps_beyond_the_label_limit_share_a_series() -> None:
    subject = RollingScores(WINDOW, apps(*(f"app-{index}" for index in range(1000))))
    for index in range(1000):
        subject.add(f"app-{index}", "clarity", score=0.5, probability=1.0, at=NOW, now=NOW)
    counts = {series.app: series.count for series in subject.means(NOW)}
    assert len(subject._series) == 51
    assert (counts["app-0"], counts["app-49"], counts["other"]) == (1, 1, 950)


def test_the_series_of_an_app_whose_metrics_were_removed_is_dropped() -> None:
    """Its gauges of the rolling mean are among them."""
    now = 0.0
    label = FrequentLabel(1, free_after=1, clock=lambda: now)
    subject = RollingScores(WINDOW, label)
    label.count("shop")
    subject.add("shop", "clarity", score=0.5, probability=1.0, at=NOW, now=NOW)
    label.count("bank", 20)
    assert only(subject.means(NOW)).app == "shop"
    now = 1000.0
    label.count("bank")
    assert list(subject.means(NOW)) == []
