"""Metrics of the funnel and of the judges' work, as a scrape sees them."""

import math
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from judges.models.flow import FailureKind, FlowState
from judges.values.evaluation import EvaluatorInfo, Path, Reason, Status, Tokens
from sinks.metrics import Outcome, SamplingMetrics, Stage
from tests.sinks.metrics.measured import Scraped, dimension, evaluation, everything, samples_of, verdict


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


# The funnel


def test_records_are_counted_by_stage_and_outcome(scraped: Scraped) -> None:
    scraped.pipeline.count(Stage.SAMPLER, Outcome.CONSUMED, 5)
    scraped.pipeline.count(Stage.SAMPLER, Outcome.CONSUMED)
    scraped.pipeline.count(Stage.WORKER, Outcome.CONSUMED)
    assert scraped("records_total", stage="sampler", outcome="consumed", reason="") == 6
    assert scraped("records_total", stage="worker", outcome="consumed", reason="") == 1
    assert scraped("records_total", stage="sampler", outcome="sampled", reason="") is None


def test_a_count_can_be_read_back_as_a_scrape_would_see_it_for_all_reasons_together(scraped: Scraped) -> None:
    assert scraped.pipeline.read_count(Stage.WORKER, Outcome.SCORED) == 0
    scraped.pipeline.count(Stage.WORKER, Outcome.SCORED, 3)
    scraped.pipeline.count(Stage.WORKER, Outcome.DEADLETTER, 2, reason="bad_json")
    scraped.pipeline.count(Stage.WORKER, Outcome.DEADLETTER, reason="empty")
    scraped.pipeline.count(Stage.SAMPLER, Outcome.DEADLETTER, 7, reason="empty")
    assert scraped.pipeline.read_count(Stage.WORKER, Outcome.SCORED) == 3
    assert scraped.pipeline.read_count(Stage.SAMPLER, Outcome.SCORED) == 0
    assert scraped.pipeline.read_count(Stage.WORKER, Outcome.DEADLETTER) == 3
    assert scraped("records_total", stage="worker", outcome="deadletter", reason="bad_json") == 2


def test_notices_lag_and_work_in_flight(scraped: Scraped) -> None:
    scraped.pipeline.count_notice()
    scraped.pipeline.count_id_conflict()
    scraped.pipeline.in_flight(7)
    scraped.pipeline.in_flight(3)
    scraped.pipeline.lag(Stage.WORKER, 41)
    assert scraped("critical_notices_total") == 1
    assert scraped("id_conflicts_total") == 1
    assert scraped("in_flight") == 3
    assert scraped("lag", stage="worker") == 41


def test_no_number_of_apps_makes_more_than_a_bounded_number_of_decisions(scraped: Scraped) -> None:
    for index in range(200):
        scraped.sampling.count("all", f"app-{index}", Outcome.SAMPLED, 2)
    assert len(scraped.values("app")) == 51
    assert scraped("sampling_total", rule="all", app="other", outcome="sampled") == 300


def test_an_app_that_comes_after_many_junk_names_has_its_own_label() -> None:
    registry = CollectorRegistry()
    sampling = SamplingMetrics(registry)
    for index in range(60):
        sampling.count("all", f"junk-{index}", Outcome.SAMPLED, 1)
    sampling.count("all", "shop", Outcome.SAMPLED, 30)
    labels = {"rule": "all", "app": "shop", "outcome": "sampled"}
    assert registry.get_sample_value("streamjury_sampling_total", labels) == 30


def test_a_reserved_app_has_its_own_label_however_late_it_comes() -> None:
    registry = CollectorRegistry()
    sampling = SamplingMetrics(registry, apps=2, reserved=("late",))
    for app in ("early", "more", None, "late"):
        sampling.count("all", app, Outcome.SAMPLED, 1)
    [decided] = registry.collect()
    assert {sample.labels["app"] for sample in decided.samples} == {"early", "late", "other", "unknown"}


# The judges


def test_verdicts_and_times_of_judges(scraped: Scraped) -> None:
    judged = evaluation(
        latency_ms=1500.0,
        dimensions={
            "clarity": dimension(
                1.0,
                verdict("a", latency_ms=200.0),
                verdict("b", Status.INSUFFICIENT, 3000.0, reason=Reason.TIMEOUT),
            ),
            "groundedness": dimension(None, verdict("a", Status.NOT_APPLICABLE, 20.0)),
        },
    )
    scraped.pipeline.count_evaluation(judged)
    assert scraped("judge_verdicts_total", judge="a", criterion="clarity", status="scored", reason="") == 1
    failed = {"judge": "b", "criterion": "clarity", "status": "insufficient", "reason": "timeout"}
    assert scraped("judge_verdicts_total", **failed) == 1
    assert scraped("judge_verdicts_total", judge="a", criterion="groundedness", status="not_applicable", reason="") == 1
    assert scraped("judge_seconds_count", judge="a") == 2
    assert scraped("judge_seconds_sum", judge="a") == pytest.approx(0.22)
    assert scraped("judge_seconds_bucket", judge="b", le="2.5") == 0
    assert scraped("judge_seconds_bucket", judge="b", le="5.0") == 1
    assert scraped("evaluation_seconds_sum") == pytest.approx(1.5)
    assert scraped.pipeline.judge_latency_ms() == pytest.approx((200 + 3000 + 20) / 3)


@pytest.mark.parametrize(
    ("fields", "timed"),
    [
        pytest.param({"samples": samples_of(1, valid=1)}, True, id="an answer"),
        pytest.param({"samples": samples_of(1)}, True, id="a judge of somebody's own that says nothing of its samples"),
        pytest.param(
            {"samples": samples_of(3, invalid=1, error=2), "status": Status.INSUFFICIENT, "reason": Reason.UNAVAILABLE},
            True,
            id="an answer before the endpoint went away",
        ),
        pytest.param(
            {"samples": samples_of(1, error=1), "status": Status.INSUFFICIENT, "reason": Reason.TIMEOUT},
            True,
            id="a call that took too long",
        ),
        pytest.param(
            {"samples": samples_of(0), "status": Status.INSUFFICIENT, "reason": Reason.MISSING_FIELD},
            False,
            id="refused at once",
        ),
        pytest.param(
            {"samples": samples_of(3, error=3), "status": Status.INSUFFICIENT, "reason": Reason.UNAVAILABLE},
            False,
            id="paused or out of reach",
        ),
        pytest.param(
            {
                "samples": samples_of(1, error=1),
                "status": Status.INSUFFICIENT,
                "reason": Reason.TIMEOUT,
                "latency_ms": 0.0,
            },
            False,
            id="given up by the panel, its time not known",
        ),
        pytest.param({"samples": samples_of(1, valid=1), "cached": True}, False, id="from a cache"),
    ],
)
def test_the_time_of_a_verdict_is_that_of_a_judge_at_work(
    scraped: Scraped, fields: dict[str, Any], timed: bool
) -> None:
    unscored = dimension(None, verdict("a", **fields))
    scraped.pipeline.count_evaluation(evaluation(None, dimensions={"clarity": unscored}))
    assert scraped("judge_seconds_count", judge="a") == (1 if timed else None)
    assert len(scraped.samples("judge_verdicts_total")) == 1, "it is counted all the same"
    assert scraped.pipeline.judge_latency_ms() == (100.0 if timed else None)


def test_times_up_to_the_longest_configurable_wait_have_distinct_buckets(scraped: Scraped) -> None:
    for seconds in (119.0, 599.0, 601.0):
        slow = verdict("a", latency_ms=1000 * seconds)
        scraped.pipeline.count_evaluation(
            evaluation(dimensions={"clarity": dimension(1.0, slow)}, latency_ms=1000 * seconds)
        )
    for name, labels in (("judge_seconds_bucket", {"judge": "a"}), ("evaluation_seconds_bucket", {})):
        assert [scraped(name, le=le, **labels) for le in ("30.0", "120.0", "600.0", "+Inf")] == [0, 1, 2, 3]


def test_saved_calls_and_paths_of_a_cascade_are_counted(scraped: Scraped) -> None:
    first = dimension(1.0, verdict("cheap"), path=Path.FIRST, calls_saved=10)
    full = dimension(0.5, verdict("cheap"), verdict("reserve"), path=Path.FULL_THRESHOLD)
    for finding in (first, first, full):
        scraped.pipeline.count_evaluation(
            evaluation(dimensions={"clarity": finding, "tone": dimension(1.0, verdict("cheap"))})
        )
    assert scraped("judge_calls_saved_total", criterion="clarity") == 20
    assert scraped("judge_calls_saved_total", criterion="tone") == 0
    assert scraped("cascade_paths_total", criterion="clarity", path="first") == 2
    assert scraped("cascade_paths_total", criterion="clarity", path="full:near_threshold") == 1
    assert scraped("cascade_paths_total", criterion="tone", path="first") is None
    assert scraped("judge_verdicts_total", judge="reserve", criterion="clarity", status="scored", reason="") == 1


def test_answers_repairs_and_retries_are_added_up_by_judge(scraped: Scraped) -> None:
    busy_verdict = verdict("a", samples=samples_of(9, valid=2, invalid=1, error=3, saved=4, repairs=5, retries=6))
    scraped.pipeline.count_evaluation(evaluation(dimensions={"clarity": dimension(1.0, busy_verdict, verdict("b"))}))
    scraped.pipeline.count_evaluation(evaluation(dimensions={"tone": dimension(1.0, busy_verdict)}))
    became = {sample.labels["outcome"]: sample.value for sample in scraped.samples("judge_samples_total")[:4]}
    assert became == {"valid": 4, "invalid": 2, "error": 6, "saved": 8}
    assert (scraped("judge_repairs_total", judge="a"), scraped("judge_retries_total", judge="a")) == (10, 12)
    assert scraped("judge_samples_total", judge="b", outcome="error") == 0, "so that a share of errors can be computed"
    assert (scraped("judge_repairs_total", judge="b"), scraped("judge_retries_total", judge="b")) == (0, 0)


def test_tokens_and_cost_are_counted_where_they_are_known(scraped: Scraped) -> None:
    priced = verdict("a", tokens=Tokens(prompt=100, completion=20), cost_usd=0.25)
    scraped.pipeline.count_evaluation(evaluation(dimensions={"clarity": dimension(1.0, priced, verdict("b"))}))
    scraped.pipeline.count_evaluation(evaluation(dimensions={"tone": dimension(1.0, priced)}))
    assert scraped("judge_tokens_total", judge="a", kind="prompt") == 200
    assert scraped("judge_tokens_total", judge="a", kind="completion") == 40
    assert scraped("judge_cost_usd_total", judge="a") == 0.5
    assert scraped("judge_cost_usd_total", judge="b") is None
    assert scraped("judge_tokens_total", judge="b", kind="prompt") is None


def test_a_judge_that_says_it_earned_money_breaks_nothing(scraped: Scraped) -> None:
    scraped.pipeline.count_evaluation(evaluation(dimensions={"clarity": dimension(1.0, verdict("a", cost_usd=-1.0))}))
    assert scraped("judge_cost_usd_total", judge="a") == 0


def test_verdicts_from_a_cache_are_counted(scraped: Scraped) -> None:
    verdicts = (verdict("a", cached=True), verdict("a"), verdict("b"))
    scraped.pipeline.count_evaluation(evaluation(dimensions={"clarity": dimension(1.0, *verdicts)}))
    assert (scraped("judge_cached_total", judge="a"), scraped("judge_cached_total", judge="b")) == (1, 0)


def test_checks_of_the_order_of_options_are_counted_where_they_were_made(scraped: Scraped) -> None:
    verdicts = (verdict("a", position_bias=True), verdict("a", position_bias=False), verdict("a", position_bias=False))
    scraped.pipeline.count_evaluation(evaluation(dimensions={"clarity": dimension(1.0, *verdicts, verdict("b"))}))
    assert scraped("position_checks_total", judge="a", result="flipped") == 1
    assert scraped("position_checks_total", judge="a", result="kept") == 2
    assert scraped("position_checks_total", judge="b", result="kept") is None


def test_how_far_a_panel_agrees_is_a_sum_and_a_count(scraped: Scraped) -> None:
    for agreement, spread, votes in ((1.0, 0.0, None), (0.25, 0.5, 1.5), (None, None, None), (0.0, 1.0, 2.5)):
        agreed = dimension(1.0, agreement=agreement, spread=spread, effective_votes=votes)
        scraped.pipeline.count_evaluation(evaluation(dimensions={"clarity": agreed}))
    assert scraped("panel_agreement_sum", criterion="clarity") == 1.25
    assert scraped("panel_agreement_count", criterion="clarity") == 3
    assert scraped("panel_spread_sum", criterion="clarity") == 1.5
    assert scraped("panel_effective_votes", criterion="clarity") == 2.5


def test_unpublished_work_is_counted_but_not_its_dimensions(scraped: Scraped) -> None:
    unscored = dimension(None, verdict("a", cost_usd=0.25), reason=Reason.QUORUM)
    priced = evaluation(None, dimensions={"clarity": unscored})
    scraped.pipeline.count_evaluation(priced, published=False)
    assert scraped("judge_cost_usd_total", judge="a") == 0.25
    assert scraped("dimensions_unscored_total", criterion="clarity", reason="quorum_not_met") is None
    scraped.pipeline.count_evaluation(priced)
    assert scraped("judge_cost_usd_total", judge="a") == 0.5
    assert scraped("dimensions_unscored_total", criterion="clarity", reason="quorum_not_met") == 1


def test_dimensions_that_should_have_a_score_are_counted_by_the_reason_of_the_panel(scraped: Scraped) -> None:
    missing = dimension(None, verdict("a", Status.INSUFFICIENT, reason=Reason.TIMEOUT), reason=Reason.MISSING_FIELD)
    dimensions = {
        "clarity": dimension(None, reason=Reason.QUORUM),
        "tone": missing,
        "groundedness": dimension(None, status=Status.NOT_APPLICABLE, reason=Reason.NOTHING_TO_JUDGE),
        "harmfulness": dimension(1.0),
    }
    for _ in range(2):
        scraped.pipeline.count_evaluation(evaluation(None, dimensions=dimensions))
    counted = {
        (sample.labels["criterion"], sample.labels["reason"]): sample.value
        for sample in scraped.samples("dimensions_unscored_total")
    }
    assert counted == {("clarity", "quorum_not_met"): 2, ("tone", "missing_field"): 2}


def test_a_pause_is_shown_for_all_judges_and_ends(scraped: Scraped) -> None:
    scraped.pipeline.set_paused(("a", "b"), {"a": "it refuses the key"})
    assert (scraped("judge_paused", judge="a"), scraped("judge_paused", judge="b")) == (1, 0)
    scraped.pipeline.set_paused(("a", "b"), {})
    assert (scraped("judge_paused", judge="a"), scraped("judge_paused", judge="b")) == (0, 0)


def test_the_flow_in_front_of_an_endpoint_is_shown_and_a_rate_only_while_there_is_one(scraped: Scraped) -> None:
    def show(rate: float, throttled: int) -> None:
        failures = {FailureKind.THROTTLED: throttled}
        state = FlowState(limit=16, rate=rate, in_flight=3, waiting=7, failures=failures)
        scraped.pipeline.endpoints({"http://judge/v1": state})

    show(24.5, 2)
    gauges = ("endpoint_limit", "endpoint_rate", "endpoint_in_flight", "endpoint_waiting")
    assert [scraped(name, endpoint="http://judge/v1") for name in gauges] == [16, 24.5, 3, 7]
    show(math.inf, 5)
    assert scraped.samples("endpoint_rate") == []
    assert scraped("endpoint_failures_total", endpoint="http://judge/v1", reason="throttled") == 5


def test_the_evaluator_is_a_separate_series(scraped: Scraped) -> None:
    scraped.pipeline.evaluator(EvaluatorInfo(fingerprint="abc", criteria=(), judges=(), version="1.2"))
    assert scraped("evaluator_info", fingerprint="abc", version="1.2") == 1


# Names


def test_every_metric_is_ours_by_name_and_explained() -> None:
    metrics = list(everything().registry.collect())
    assert len(metrics) == 120
    for metric in metrics:
        assert metric.name.startswith("streamjury_")
        assert metric.documentation.endswith(".")
        assert metric.samples
