"""The summary of a run: its figures add up whenever the run ends."""

from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from judges.values.evaluation import (
    Composite,
    CompositeStatus,
    Dimension,
    Evaluation,
    EvaluatorInfo,
    Safety,
    SafetyStatus,
    Sampling,
    Status,
)
from sinks.metrics import Outcome, PipelineMetrics, Stage
from stream.cli.terminal.run_summary import RunSummary, summary_text
from tests.parts.documents.json_fields import json_fields


def evaluation(score: float | None, app: str) -> Evaluation:
    status = CompositeStatus.SAFETY_UNKNOWN if score is None else CompositeStatus.OK
    return Evaluation(
        evaluation_id=f"{app} {score}",
        interaction_id="i",
        app=app,
        evaluator=EvaluatorInfo(fingerprint="f", criteria=(), judges=(), version="1"),
        sampling=Sampling(),
        evaluated_at=datetime(2026, 1, 1, tzinfo=UTC),
        dimensions={},
        composite=Composite(score=score, status=status, coverage=0.0, safety=Safety(status=SafetyStatus.UNKNOWN)),
    )


def test_the_figures_per_app_add_up_to_the_committed_results_and_the_rest_is_left() -> None:
    """Repeats count too, although the monitor skips them, as do results that the monitor has not yet read."""
    metrics, summary = PipelineMetrics(CollectorRegistry()), RunSummary()
    metrics.count(Stage.SAMPLER, Outcome.SAMPLED, 9)
    metrics.count(Stage.WORKER, Outcome.DEADLETTER, reason="bad_json")
    for result in (evaluation(0.5, "a"), evaluation(0.5, "a"), evaluation(1.0, "b"), evaluation(None, "b")):
        summary.write([result])
    figures = summary.figures(metrics)
    assert list(figures) == json_fields("run")
    assert (figures["scored"], figures["unscored"], figures["left"], figures["deadletter"]) == (3, 1, 4, 1)
    assert figures["by_app"] == {
        "a": {"scored": 2, "unscored": 0, "unsafe": 0, "composite_mean": 0.5},
        "b": {"scored": 1, "unscored": 1, "unsafe": 0, "composite_mean": 1.0},
    }
    assert figures["composite_mean"] == round(2 / 3, 4)


def test_the_coverage_of_each_criterion_is_shown_without_counting_not_applicable_as_missing() -> None:
    summary = RunSummary()
    scored, missing, not_applicable = (Dimension(status=status) for status in Status)
    for clarity, grounded, topic in (
        (scored, missing, not_applicable),
        (scored, missing, not_applicable),
        (missing, missing, not_applicable),
    ):
        dimensions = {"clarity": clarity, "groundedness": grounded, "topic": topic}
        summary.write([evaluation(1.0, "a").model_copy(update={"dimensions": dimensions})])
    rare = Sampling(probability=0.25)
    summary.write([evaluation(1.0, "a").model_copy(update={"dimensions": {"clarity": scored}, "sampling": rare})])
    figures = summary.figures(PipelineMetrics(CollectorRegistry()))
    assert figures["coverage"] == {"clarity": round(6 / 7, 4), "groundedness": 0.0, "topic": None}
    text = summary_text(figures, summary.coverage)
    assert text.startswith("0 consumed: 0 filtered, 0 sampled out, 0 sampled\n0 sampled: ")
    assert "coverage: clarity 85.7 %, groundedness 0 %, topic –" in text
    assert [line for line in text.splitlines() if line.startswith("warning: ")] == [
        "warning: groundedness has no verdicts: it does not count in the composites"
    ]


def test_the_parts_of_both_sums_are_named_and_add_up() -> None:
    metrics, summary = PipelineMetrics(CollectorRegistry()), RunSummary()
    counts = {Outcome.CONSUMED: 20, Outcome.SAMPLED_OUT: 8, Outcome.SHED: 2, Outcome.SAMPLED: 9, Outcome.DEADLETTER: 1}
    for outcome, count in counts.items():
        metrics.count(Stage.SAMPLER, outcome, count)
    metrics.count(Stage.WORKER, Outcome.REPEATED, 3)
    metrics.count(Stage.WORKER, Outcome.SAMPLED_OUT, 1, reason="budget")
    metrics.count(Stage.WORKER, Outcome.DEADLETTER, 2, reason="bad_json")
    summary.write([evaluation(1.0, "a")])
    first, second, third, *_ = summary_text(summary.figures(metrics), {}).splitlines()
    assert first == "20 consumed: 0 filtered, 8 sampled out, 2 shed, 9 sampled, 1 dead letter"
    assert second == (
        "9 sampled: 1 scored, 0 unscored, 3 duplicates, 1 skipped, 2 dead letters, 2 not judged before the end"
    )
    assert third == "mean composite 1.0"


def test_a_worker_that_judged_more_than_was_sampled_has_nothing_left() -> None:
    metrics, summary = PipelineMetrics(CollectorRegistry()), RunSummary()
    summary.write([evaluation(1.0, "a")])
    assert summary.figures(metrics)["left"] == 0
