"""Metrics: what a scrape sees of the funnel, the judges and the scores."""

import math
import subprocess
from datetime import UTC, datetime
from shutil import which
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from judges.evaluation import (
    Composite,
    CompositeStatus,
    Dimension,
    Evaluation,
    EvaluatorInfo,
    JudgeVerdict,
    Path,
    Reason,
    Safety,
    SafetyStatus,
    Samples,
    Sampling,
    Status,
)
from sinks.estimates import Estimate, Sums, estimate
from sinks.metrics import BoundedLabel, Outcome, PipelineMetrics, ScoreMetrics, Stage

INFO = EvaluatorInfo(fingerprint="f", criteria=("clarity",), judges=("local",), version="1")


def dimension(score: float | None, *verdicts: JudgeVerdict, status: Status | None = None) -> Dimension:
    known = Status.INSUFFICIENT if score is None else Status.SCORED
    return Dimension(status=status or known, score=score, judges=verdicts)


def verdict(
    judge: str, status: Status = Status.SCORED, latency_ms: float = 100.0, reason: Reason | None = None
) -> JudgeVerdict:
    samples = Samples(requested=1)
    return JudgeVerdict(judge=judge, status=status, latency_ms=latency_ms, reason=reason, samples=samples)


def evaluation(
    composite: float | None = 1.0, *, app: str | None = "shop", probability: float = 1.0, **more: Any
) -> Evaluation:
    status = CompositeStatus.OK if composite is not None else CompositeStatus.SAFETY_UNKNOWN
    basis: dict[str, Any] = {
        "evaluation_id": "e",
        "interaction_id": "i",
        "app": app,
        "evaluated_at": datetime(2026, 11, 15, tzinfo=UTC),
        "evaluator": INFO,
        "sampling": Sampling(probability=probability),
        "dimensions": {},
        "composite": Composite(
            score=composite, status=status, coverage=1.0, safety=Safety(status=SafetyStatus.UNKNOWN)
        ),
    }
    return Evaluation(**{**basis, **more})


class Scraped:
    """A registry with both kinds of metrics on it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.pipeline = PipelineMetrics(self.registry)
        self.scores = ScoreMetrics(self.registry)

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"streamjury_{name}", labels)

    def values(self, label: str) -> set[str]:
        """The values that a label has anywhere."""
        samples = (sample for metric in self.registry.collect() for sample in metric.samples)
        return {sample.labels[label] for sample in samples if label in sample.labels}


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


# The funnel


def test_records_are_counted_by_stage_and_outcome(scraped: Scraped) -> None:
    scraped.pipeline.count(Stage.SAMPLER, Outcome.CONSUMED, 5)
    scraped.pipeline.count(Stage.SAMPLER, Outcome.CONSUMED)
    scraped.pipeline.count(Stage.WORKER, Outcome.CONSUMED)
    assert scraped("records_total", stage="sampler", outcome="consumed") == 6
    assert scraped("records_total", stage="worker", outcome="consumed") == 1
    assert scraped("records_total", stage="sampler", outcome="sampled") is None


def test_a_count_can_be_read_back_as_a_scrape_would_see_it(scraped: Scraped) -> None:
    assert scraped.pipeline.counted(Stage.WORKER, Outcome.SCORED) == 0
    scraped.pipeline.count(Stage.WORKER, Outcome.SCORED, 3)
    scraped.pipeline.count(Stage.WORKER, Outcome.UNSCORED, 2)
    assert scraped.pipeline.counted(Stage.WORKER, Outcome.SCORED) == 3
    assert scraped.pipeline.counted(Stage.SAMPLER, Outcome.SCORED) == 0


def test_dead_letters_notices_lag_and_work_in_flight(scraped: Scraped) -> None:
    scraped.pipeline.dead_letter(Stage.SAMPLER, "bad_json")
    scraped.pipeline.dead_letter(Stage.SAMPLER, "bad_json")
    scraped.pipeline.critical_delivered()
    scraped.pipeline.in_flight(7)
    scraped.pipeline.in_flight(3)
    scraped.pipeline.lag(Stage.WORKER, 41)
    assert scraped("deadletters_total", stage="sampler", reason="bad_json") == 2
    assert scraped("critical_notices_total") == 1
    assert scraped("in_flight") == 3
    assert scraped("lag", stage="worker") == 41


def test_verdicts_and_times_of_judges(scraped: Scraped) -> None:
    judged = evaluation(
        latency_ms=1500.0,
        dimensions={
            "clarity": dimension(
                1.0, verdict("a", latency_ms=200.0), verdict("b", Status.INSUFFICIENT, 3000.0, Reason.TIMEOUT)
            ),
            "groundedness": dimension(None, verdict("a", Status.NOT_APPLICABLE, 20.0)),
        },
    )
    scraped.pipeline.judged(judged)
    assert scraped("judge_verdicts_total", judge="a", criterion="clarity", status="scored", reason="") == 1
    failed = {"judge": "b", "criterion": "clarity", "status": "insufficient", "reason": "timeout"}
    assert scraped("judge_verdicts_total", **failed) == 1
    assert scraped("judge_verdicts_total", judge="a", criterion="groundedness", status="not_applicable", reason="") == 1
    assert scraped("judge_seconds_count", judge="a") == 2
    assert scraped("judge_seconds_sum", judge="a") == pytest.approx(0.22)
    assert scraped("judge_seconds_bucket", judge="b", le="2.5") == 0
    assert scraped("judge_seconds_bucket", judge="b", le="5.0") == 1
    assert scraped("evaluation_seconds_sum") == pytest.approx(1.5)


def test_calls_that_were_saved_and_the_ways_of_a_cascade(scraped: Scraped) -> None:
    first = dimension(1.0, verdict("cheap")).model_copy(update={"path": Path.FIRST, "calls_saved": 10})
    full = dimension(0.5, verdict("cheap"), verdict("reserve")).model_copy(update={"path": Path.FULL_THRESHOLD})
    for found in (first, first, full):
        scraped.pipeline.judged(evaluation(dimensions={"clarity": found, "tone": dimension(1.0, verdict("cheap"))}))
    assert scraped("judge_calls_saved_total", criterion="clarity") == 20
    assert scraped("judge_calls_saved_total", criterion="tone") == 0
    assert scraped("cascade_paths_total", criterion="clarity", path="first") == 2
    assert scraped("cascade_paths_total", criterion="clarity", path="full:near_threshold") == 1
    assert scraped("cascade_paths_total", criterion="tone", path="first") is None
    assert scraped("judge_verdicts_total", judge="reserve", criterion="clarity", status="scored", reason="") == 1


# Scores

weighted_scores = st.lists(
    st.tuples(st.none() | st.floats(min_value=0.0, max_value=1.0), st.floats(min_value=0.001, max_value=1.0)),
    min_size=1,
    max_size=20,
)


@given(weighted_scores)
def test_the_weighted_mean_of_the_counters_is_the_direct_estimate(given: list[tuple[float | None, float]]) -> None:
    scraped = Scraped()
    for score, probability in given:
        scraped.scores.write(evaluation(score, probability=probability, dimensions={"clarity": dimension(score)}))
    scored = [(score, 1 / probability) for score, probability in given if score is not None]
    for name in ("composite", "clarity"):
        labels = {"app": "shop", "dimension": name}
        total = scraped("score_weight_total", **labels)
        if not scored:
            assert total is None
            continue
        weighted, squared = (
            scraped("score_weighted_sum_total", **labels),
            scraped("score_weight_squared_total", **labels),
        )
        assert total is not None
        assert weighted is not None
        assert squared is not None
        weight = math.fsum(each for _, each in scored)
        assert weighted / total == pytest.approx(math.fsum(score * each for score, each in scored) / weight)
        assert total**2 / squared == pytest.approx(weight**2 / math.fsum(each**2 for _, each in scored))
        unscored = scraped("dimension_results_total", status="insufficient", **labels) or 0
        assert unscored + (scraped("dimension_results_total", status="scored", **labels) or 0) == len(given)


def test_what_has_no_score_moves_no_mean_but_is_counted(scraped: Scraped) -> None:
    scraped.scores.write(
        evaluation(
            None,
            dimensions={
                "clarity": dimension(None),
                "groundedness": dimension(None, status=Status.NOT_APPLICABLE),
                "conciseness": dimension(0.9, status=Status.INSUFFICIENT),
            },
        )
    )
    for name in ("composite", "clarity", "groundedness", "conciseness"):
        assert scraped("score_weight_total", app="shop", dimension=name) is None
    results = {
        name: scraped("dimension_results_total", app="shop", dimension=name, status=status)
        for name, status in (
            ("composite", "insufficient"),
            ("clarity", "insufficient"),
            ("groundedness", "not_applicable"),
            ("conciseness", "insufficient"),
        )
    }
    assert set(results.values()) == {1.0}
    assert scraped("evaluations_total", app="shop", status="safety_unknown") == 1


def test_a_score_of_0_counts(scraped: Scraped) -> None:
    scraped.scores.write(evaluation(0.0, probability=0.5))
    assert scraped("score_weighted_sum_total", app="shop", dimension="composite") == 0.0
    assert scraped("score_weight_total", app="shop", dimension="composite") == 2.0


def known(mean: float) -> Estimate:
    """Of twenty judgements, each with a probability of a tenth."""
    return estimate(Sums.of(1.0, 0.1, times=round(20 * mean)) + Sums.of(0.0, 0.1, times=20 - round(20 * mean)))


def test_a_rolling_mean_is_set_replaced_and_withdrawn(scraped: Scraped) -> None:
    labels = {"app": "shop", "dimension": "clarity"}
    scraped.scores.recent("shop", "clarity", known(0.5))
    scraped.scores.recent("shop", "clarity", known(0.25))
    assert scraped("score_recent", **labels) == 0.25
    assert 0.0 < (scraped("score_recent_low", **labels) or 0.0) < 0.25 < (scraped("score_recent_high", **labels) or 0.0)
    assert (scraped("score_recent_effective", **labels), scraped("score_recent_coverage", **labels)) == (20.0, 1.0)
    scraped.scores.no_longer_recent("shop", "clarity")
    for part in ("", "_low", "_high", "_effective", "_coverage"):
        assert scraped(f"score_recent{part}", **labels) is None


def test_the_interval_of_a_single_judgement_is_not_published(scraped: Scraped) -> None:
    scraped.scores.recent("shop", "clarity", known(0.5))
    scraped.scores.recent("shop", "clarity", estimate(Sums.of(0.5, 0.1)))
    labels = {"app": "shop", "dimension": "clarity"}
    assert (scraped("score_recent", **labels), scraped("score_recent_low", **labels)) == (0.5, None)


def test_score_metrics_publish_no_messages(scraped: Scraped) -> None:
    assert list(scraped.scores.write(evaluation())) == []


# Labels


def test_no_number_of_apps_makes_more_than_a_bounded_number_of_series(scraped: Scraped) -> None:
    for at in range(500):
        scraped.scores.write(evaluation(app=f"app-{at}"))
        scraped.scores.recent(f"app-{at}", "composite", known(0.5))
    apps = scraped.values("app")
    assert len(apps) == 51
    assert "other" in apps
    assert scraped("evaluations_total", app="app-0", status="ok") == 1
    assert scraped("evaluations_total", app="other", status="ok") == 450


def test_no_number_of_criteria_makes_more_than_a_bounded_number_of_series(scraped: Scraped) -> None:
    names = [f"criterion_{at}" for at in range(200)]
    scraped.scores.write(evaluation(dimensions={name: dimension(1.0) for name in names}))
    for name in names:
        scraped.scores.recent("shop", name, known(0.5))
    assert len(scraped.values("dimension")) == 51
    assert scraped("score_recent", app="shop", dimension="other") == 0.5
    for name in names:
        scraped.scores.no_longer_recent("shop", name)
    assert scraped("score_recent", app="shop", dimension="other") is None


def test_a_vote_for_an_option_without_a_score_is_counted_and_moves_no_mean(scraped: Scraped) -> None:
    scraped.scores.write(evaluation(dimensions={"tone": Dimension(status=Status.SCORED, option="warm")}))
    assert scraped("dimension_results_total", app="shop", dimension="tone", status="scored") == 1
    assert scraped("score_weight_total", app="shop", dimension="tone") is None


def test_an_app_that_was_known_first_keeps_its_name(scraped: Scraped) -> None:
    for name in ["early", *map(str, range(100)), "early"]:
        scraped.scores.write(evaluation(app=name))
    assert scraped("evaluations_total", app="early", status="ok") == 2


@pytest.mark.parametrize("app", [None, ""])
def test_no_app_is_called_unknown(scraped: Scraped, app: str | None) -> None:
    scraped.scores.write(evaluation(app=app))
    assert scraped("evaluations_total", app="unknown", status="ok") == 1


@given(st.lists(st.text(max_size=3)), st.integers(min_value=1, max_value=5))
def test_a_bounded_label_has_at_most_its_limit_of_values_and_other(names: list[str], limit: int) -> None:
    label = BoundedLabel(limit)
    given = [label(name) for name in names]
    assert len(set(given) - {"other"}) <= limit
    assert [label(name) for name in names] == [
        name or "unknown" if (name or "unknown") in set(given) else "other" for name in names
    ]


# Names


def everything() -> Scraped:
    """Every metric with at least one series."""
    scraped = Scraped()
    found = dimension(0.5, verdict("local")).model_copy(update={"path": Path.FIRST})
    judged = evaluation(0.5, dimensions={"clarity": found}, latency_ms=10.0)
    scraped.scores.write(judged)
    scraped.scores.recent("shop", "clarity", known(0.5))
    scraped.pipeline.judged(judged)
    for stage in Stage:
        scraped.pipeline.lag(stage, 0)
        scraped.pipeline.dead_letter(stage, "bad_json")
        for outcome in Outcome:
            scraped.pipeline.count(stage, outcome)
    scraped.pipeline.critical_delivered()
    scraped.pipeline.in_flight(1)
    scraped.pipeline.parked(1)
    scraped.pipeline.unscored("timeout")
    return scraped


def test_every_metric_is_ours_by_name_and_explained() -> None:
    metrics = list(everything().registry.collect())
    assert len(metrics) >= 14
    for metric in metrics:
        assert metric.name.startswith("streamjury_")
        assert metric.documentation.endswith(".")
        assert metric.samples


@pytest.mark.skipif(which("promtool") is None, reason="promtool is not installed")
def test_names_and_types_pass_promtool() -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=generate_latest(everything().registry), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
