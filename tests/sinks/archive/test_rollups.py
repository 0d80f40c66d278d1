"""Sums over minutes: they give the estimates that the records themselves give."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.archive_data import make_answers
from sinks.archive.published import PublishedEvaluation, read_evaluation
from sinks.archive.rollups import GOOD, Rollups, latency_step, step_latency, sums_of
from sinks.archive.tables import app_minutes, buckets, judge_failures, judge_latencies, judge_minutes
from sinks.statistics.estimates import Estimator, estimate

PUBLISHED = [read_evaluation(answer.evaluation) for answer in make_answers(300)]


def roll_up() -> Rollups:
    rollups = Rollups()
    for item in PUBLISHED:
        is_live = item.sampling.lane not in {"canary", "backfill"}
        rollups.add(item, app=item.app or "", time_ms=120_000, is_live=is_live, good_score=0.7)
    return rollups


def live() -> list[PublishedEvaluation]:
    return [item for item in PUBLISHED if item.sampling.lane not in {"canary", "backfill"}]


@pytest.mark.parametrize("series", ["composite", GOOD, "groundedness"])
def test_the_sums_of_a_bucket_give_the_estimate_of_its_records(series: str) -> None:
    app = "support-bot"
    expected = Estimator()
    for item in live():
        if item.app != app:
            continue
        score = item.composite.score if series in {"composite", GOOD} else item.dimensions[series].score
        good = None if score is None else float(score >= 0.7)
        expected.add(good if series == GOOD else score, item.sampling.probability)
    columns = [column.name for column in buckets.columns][3:]
    row = dict(zip(columns, roll_up().changes(buckets)[app, series, 2], strict=True))
    actual = estimate(sums_of(row))
    for field in ("count", "coverage", "mean", "low", "high", "variance", "effective_size", "design_effect"):
        assert getattr(actual, field) == pytest.approx(getattr(expected.result(), field), rel=1e-9), field


def test_an_app_is_counted_by_status_and_pays_for_all_lanes() -> None:
    sums = roll_up().changes(app_minutes)
    columns = [column.name for column in app_minutes.columns][2:]
    total = {name: sum(row[place] for row in sums.values()) for place, name in enumerate(columns)}
    statuses = Counter(item.composite.status for item in live())
    assert total["n"] == len(live())
    assert total["cost_usd"] == pytest.approx(sum(item.cost_usd or 0.0 for item in PUBLISHED))
    assert {name: total[name] for name in ("ok", "incomplete", "unsafe")} == {
        name: statuses.get(name, 0) for name in ("ok", "incomplete", "unsafe")
    }


def test_a_judge_is_counted_with_failures_agreement_and_latency() -> None:
    rollups = roll_up()
    verdicts = [verdict for item in PUBLISHED for part in item.dimensions.values() for verdict in part.judges]
    failed = [verdict for verdict in verdicts if verdict.status != "scored"]
    counted = rollups.changes(judge_minutes)
    assert sum(row[0] for row in counted.values()) == len(verdicts)
    assert sum(row[1] for row in counted.values()) == len(verdicts) - len(failed)
    assert sum(row[0] for row in rollups.changes(judge_failures).values()) == len(failed) > 0
    pairs = [part.judges for item in PUBLISHED for part in item.dimensions.values()]
    both = [pair for pair in pairs if all(verdict.status == "scored" for verdict in pair)]
    same = sum(2 for one, other in both if one.option == other.option)
    assert sum(row[4] for row in counted.values()) == 2 * len(both)
    assert sum(row[5] for row in counted.values()) == pytest.approx(same)
    timed = sum(row[6] for row in counted.values())
    assert timed == sum(row[0] for row in rollups.changes(judge_latencies).values())
    assert len(verdicts) - len(failed) <= timed < len(verdicts)


@given(st.floats(min_value=0.01, max_value=1e8))
def test_a_step_of_the_histogram_is_within_an_eighth_of_its_durations(milliseconds: float) -> None:
    assert step_latency(latency_step(milliseconds)) == pytest.approx(milliseconds, rel=0.13)
