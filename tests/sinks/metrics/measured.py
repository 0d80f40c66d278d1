"""Evaluations to count, and a registry with all metrics."""

import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.samples import Sample

from judges.models.flow import FailureKind, FlowState
from judges.models.redaction import ALL_KINDS
from judges.shortfall import Unscored
from judges.values.evaluation import (
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
    Tokens,
)
from sinks.metrics import (
    AssemblerMetrics,
    DetectionMetrics,
    Outcome,
    PipelineMetrics,
    SamplingMetrics,
    ScoreMetrics,
    Stage,
)
from sinks.metrics.archive import ArchiveMetrics
from sinks.metrics.budgets import BudgetStanding
from sinks.metrics.detection import AgreementStanding
from sinks.metrics.scores import OptIn
from sinks.metrics.scrape import ScrapeView
from sinks.statistics.corrected import CorrectedEstimate, MeanInterval
from sinks.statistics.difference import Difference
from sinks.statistics.estimates import Estimate, Sums, estimate
from sinks.statistics.judge_quality import JudgeCriterion, JudgeQuality, JudgeSlice, RangedShare

INFO = EvaluatorInfo(fingerprint="f", criteria=("clarity",), judges=("local",), version="1")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
OUTCOMES = {
    Stage.ASSEMBLER: (Outcome.SEEN, Outcome.DEADLETTER),
    Stage.SAMPLER: (
        Outcome.FILTERED,
        Outcome.SAMPLED_OUT,
        Outcome.SAMPLED,
        Outcome.SHED,
        Outcome.DEADLETTER,
    ),
    Stage.WORKER: (
        Outcome.SCORED,
        Outcome.UNSCORED,
        Outcome.PARKED,
        Outcome.DEFERRED,
        Outcome.REPEATED,
        Outcome.SAMPLED_OUT,
        Outcome.DEADLETTER,
    ),
    Stage.MONITOR: (Outcome.SEEN, Outcome.REPEATED, Outcome.FILTERED, Outcome.DEADLETTER),
    Stage.ARCHIVIST: (Outcome.SEEN, Outcome.REPEATED, Outcome.FILTERED, Outcome.REFUSED),
}
# A rule of rate 0 leaves every record out, and has FILTERED instead of the others.
DECISIONS = tuple(outcome for outcome in OUTCOMES[Stage.SAMPLER] if outcome is not Outcome.FILTERED)
# Reasons that only a panel gives: a judge that does not support a criterion, or is of the same family, is not asked,
# and truncation is reported for the whole dimension.
PANEL_REASONS = (Reason.SAME_FAMILY, Reason.QUORUM, Reason.UNSUPPORTED, Reason.TRUNCATED)
VERDICT_REASONS = tuple(reason for reason in Reason if reason not in PANEL_REASONS)
# A panel that could never judge by a criterion is rejected at startup; a criterion that does not apply is not missing.
DIMENSION_REASONS = tuple(reason for reason in Reason if reason not in {Reason.UNSUPPORTED, Reason.NOTHING_TO_JUDGE})
UNREADABLE = (
    "bad_encoding",
    "bad_headers",
    "bad_json",
    "empty",
    "invalid_record",
    "too_deep",
    "too_large",
    "too_long",
)
REASONS = {
    (Stage.ASSEMBLER, Outcome.DEADLETTER): ("bad_headers", "bad_spans", "empty", "not_keyed"),
    (Stage.SAMPLER, Outcome.DEADLETTER): UNREADABLE,
    (Stage.WORKER, Outcome.DEADLETTER): (
        *UNREADABLE,
        "bad_envelope",
        "bad_probability",
        "internal_error",
        "reserved_app",
        "reserved_id",
        "unscored_judges_unavailable",
        "unscored_timeout",
        "unsupported_version",
    ),
    (Stage.MONITOR, Outcome.DEADLETTER): (
        "bad_key",
        "bad_probability",
        "bad_state",
        "bad_time",
        "internal_error",
        "invalid_record",
        "reserved_app",
        "too_deep",
        "too_large",
        "too_long",
        "unsupported_version",
    ),
    (Stage.ARCHIVIST, Outcome.REFUSED): ("bad_encoding", "bad_json", "bad_time", "database", "empty", "invalid_record"),
    (Stage.WORKER, Outcome.UNSCORED): (Unscored.INSUFFICIENT, Unscored.NOT_APPLICABLE, Unscored.BUDGET),
    (Stage.WORKER, Outcome.SAMPLED_OUT): (Unscored.BUDGET,),
    (Stage.WORKER, Outcome.PARKED): (Unscored.JUDGES_UNAVAILABLE, Unscored.TIMEOUT),
}


_SHARE = RangedShare(value=0.8, low=0.7, high=0.9)
QUALITY = JudgeQuality(
    labels=40,
    sensitivity=_SHARE,
    specificity=_SHARE,
    kappa=_SHARE,
    bias=Difference(rows=40, mean=0.1, low=0.0, high=0.2),
)
STANDING = AgreementStanding(mean=0.8, low=0.7, high=0.9, target=0.75, evidence=-1.0, enough=4.6, fallen=False)


def dimension(score: float | None, *verdicts: JudgeVerdict, status: Status | None = None, **fields: Any) -> Dimension:
    default_status = Status.INSUFFICIENT if score is None else Status.SCORED
    return Dimension(status=status or default_status, score=score, judges=verdicts, **fields)


def verdict(judge: str, status: Status = Status.SCORED, latency_ms: float = 100.0, **fields: Any) -> JudgeVerdict:
    return JudgeVerdict(
        **{"judge": judge, "status": status, "latency_ms": latency_ms, "samples": samples_of(1), **fields}
    )


def samples_of(requested: int, **became: int) -> Samples:
    return Samples(requested=requested, **became)


def evaluation(
    composite: float | None = 1.0,
    *,
    app: str | None = "shop",
    probability: float = 1.0,
    safety: SafetyStatus = SafetyStatus.UNKNOWN,
    status: CompositeStatus | None = None,
    **more: Any,
) -> Evaluation:
    default_status = CompositeStatus.OK if composite is not None else CompositeStatus.SAFETY_UNKNOWN
    basis: dict[str, Any] = {
        "evaluation_id": "e",
        "interaction_id": "i",
        "app": app,
        "evaluated_at": datetime(2026, 11, 15, tzinfo=UTC),
        "evaluator": INFO,
        "sampling": Sampling(probability=probability),
        "dimensions": {},
        "composite": Composite(
            score=composite, status=status or default_status, coverage=1.0, safety=Safety(status=safety)
        ),
    }
    return Evaluation(**{**basis, **more})


def estimate_of(mean: float) -> Estimate:
    """Return an estimate from twenty judgements, each with an inclusion probability of 0.1."""
    return estimate(Sums.of(1.0, 0.1, times=round(20 * mean)) + Sums.of(0.0, 0.1, times=20 - round(20 * mean)))


class Scraped:
    """A registry with all kinds of metrics on it."""

    def __init__(self, **scores: Any) -> None:
        self.registry = CollectorRegistry()
        self.pipeline = PipelineMetrics(self.registry)
        self.assembler = AssemblerMetrics(self.registry)
        self.sampling = SamplingMetrics(self.registry)
        self.scores = ScoreMetrics(self.registry, **scores)
        self.detection = DetectionMetrics(self.registry, self.scores.apps)
        self.archive = ArchiveMetrics(self.registry)

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"streamjury_{name}", labels)

    def samples(self, name: str) -> list[Sample]:
        samples = (sample for metric in self.registry.collect() for sample in metric.samples)
        return [sample for sample in samples if sample.name == f"streamjury_{name}"]

    def total(self, name: str) -> float:
        """Return the sum over all labels."""
        return sum(sample.value for sample in self.samples(name))

    def values(self, label: str) -> set[str]:
        """Return all values of a label."""
        samples = (sample for metric in self.registry.collect() for sample in metric.samples)
        return {sample.labels[label] for sample in samples if label in sample.labels}


def everything(
    *,
    apps: Sequence[str | None] = ("shop",),
    criteria: Sequence[str] = ("clarity", "groundedness", "context_sufficiency"),
    judges: Sequence[str] = ("local",),
    rules: Sequence[str] = ("all",),
    labels: Sequence[OptIn] = (),
    canaries: bool = True,
    versions: Sequence[str] = ("new-model",),
    refusals: bool = True,
    corrected: bool = True,
) -> Scraped:
    """Return every metric with every series that these names can produce."""
    scraped = Scraped(labels=labels)
    if refusals:
        scraped.scores.write([evaluation(app=apps[0], dimensions={"refusal": dimension(0.0, option="refusal")})])
    for app in apps:
        for scored in _evaluations_of_all_kinds(app, criteria):
            scraped.scores.write([scored])
        scraped.scores.show_recent(scraped.scores.apps.label(app), estimate_of(0.5))
        for rule, outcome in itertools.product(rules, DECISIONS):
            scraped.sampling.count(rule, app, outcome, 1)
    scraped.sampling.count("none", None, Outcome.DEADLETTER, 1)
    for finding in _findings(judges):
        judged = evaluation(0.5, dimensions=dict.fromkeys(criteria, finding), latency_ms=10.0, traceparent=TRACEPARENT)
        scraped.pipeline.count_evaluation(judged)
    hidden = dimension(0.5).model_copy(update={"judges": (verdict(judges[0], redacted=dict.fromkeys(ALL_KINDS, 1)),)})
    scraped.pipeline.count_evaluation(evaluation(0.5, dimensions={criteria[0]: hidden}))
    for name, path in _paths(criteria):
        scraped.pipeline.count_evaluation(evaluation(0.5, dimensions={name: dimension(0.5, path=path)}))
    _run(scraped.pipeline, judges)
    standing = [BudgetStanding(window=window, app="", spent_usd=0.5, limit_usd=1.0) for window in ("hour", "day")]
    scraped.pipeline.spending(standing, refused=1, excess_usd=0.1)
    _watch(scraped.detection, [app or "unknown" for app in apps], criteria, canaries=canaries, versions=versions)
    if corrected:
        _correct(scraped.detection, [app or "unknown" for app in apps], criteria)
    return scraped


def large(*, apps: int, judges: int, criteria: int = 9, canaries: bool = False) -> int:
    """Return the maximum number of series for this many apps (one of them unnamed) and criteria, and 3 rules.

    No models are compared, refusals are not judged, and there are no labels.
    """
    scraped = everything(
        apps=[None, *(f"app-{index}" for index in range(1, apps))],
        criteria=["groundedness", "context_sufficiency", *(f"criterion_{index}" for index in range(2, criteria))],
        judges=[f"judge-{index}" for index in range(judges)],
        rules=["checkout", "slow", "default"],
        canaries=canaries,
        versions=(),
        refusals=False,
        corrected=False,
    )
    exposition = generate_latest(ScrapeView(scraped.registry)).decode()
    return sum(not line.startswith("#") for line in exposition.splitlines())


def _evaluations_of_all_kinds(app: str | None, criteria: Sequence[str]) -> Iterator[Evaluation]:
    """Yield scored and unscored evaluations with every status."""
    for score, status in itertools.product((0.5, None), CompositeStatus):
        dimensions = dict.fromkeys(criteria, dimension(score))
        yield evaluation(score, app=app, status=status, dimensions=dimensions, traceparent=TRACEPARENT)


def _findings(judges: Sequence[str]) -> Iterator[Dimension]:
    """Yield all verdicts of all judges, and all reasons of a panel."""
    scored: dict[str, Any] = {
        "samples": samples_of(3, valid=1, invalid=1, error=1, saved=1, repairs=1, retries=1),
        "tokens": Tokens(prompt=100, completion=10),
        "cost_usd": 0.01,
        "position_bias": True,
    }
    panel: dict[str, Any] = {"agreement": 1.0, "spread": 0.0, "effective_votes": 2.5}
    yield dimension(0.5, *(verdict(judge, **scored) for judge in judges), **panel)
    for reason in VERDICT_REASONS:
        status = Status.NOT_APPLICABLE if reason is Reason.NOTHING_TO_JUDGE else Status.INSUFFICIENT
        verdicts = (verdict(judge, status, reason=reason) for judge in judges)
        yield dimension(None, *verdicts, status=Status.NOT_APPLICABLE)
    for reason in DIMENSION_REASONS:
        yield dimension(None, reason=reason)
    yield dimension(None, *(verdict(judge, Status.NOT_APPLICABLE) for judge in judges), status=Status.NOT_APPLICABLE)


def _paths(criteria: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield all paths of a cascade. The first criterion is the safety criterion, for which all judges are asked."""
    yield criteria[0], Path.FULL_SAFETY
    for name, path in itertools.product(criteria[1:], Path):
        if path is not Path.FULL_SAFETY:
            yield name, path


def _run(pipeline: PipelineMetrics, judges: Sequence[str]) -> None:
    for stage in Stage:
        pipeline.lag(stage, 0)
        for outcome in OUTCOMES[stage]:
            for reason in REASONS.get((stage, outcome), (None,)):
                pipeline.count(stage, Outcome.CONSUMED)
                pipeline.count(stage, outcome, reason=reason)
    pipeline.count_notice()
    pipeline.in_flight(1)
    pipeline.set_parked(1)
    pipeline.evaluator(INFO)
    pipeline.set_paused(judges, {})
    failures = dict.fromkeys(FailureKind, 1)
    state = FlowState(limit=8, rate=2.5, in_flight=1, waiting=0, failures=failures)
    # Each judge may have a separate endpoint.
    pipeline.endpoints({f"http://{judge}/v1": state for judge in judges})


def _correct(detection: DetectionMetrics, apps: Sequence[str], criteria: Sequence[str]) -> None:
    mean = MeanInterval(mean=0.6, low=0.5, high=0.7)
    estimate = CorrectedEstimate(
        judged=90, labels=40, effective_labels=40.0, judge_mean=0.8, corrected=mean, anytime=mean
    )
    for app in apps:
        detection.correct(app, dict.fromkeys((*criteria, "composite"), estimate), {"thumbs": (3, 0.5)})
        judges = [JudgeCriterion("local", name) for name in criteria]
        detection.agree(app, dict.fromkeys(judges, QUALITY), dict.fromkeys(judges, STANDING))
        slices = [
            JudgeSlice(*judge, attribute, value)
            for judge in judges
            for attribute, value in (("family", "gpt"), ("language", "en"))
        ]
        detection.agree_on_slices(app, dict.fromkeys(slices, QUALITY))


def _watch(
    detection: DetectionMetrics,
    apps: Sequence[str],
    criteria: Sequence[str],
    *,
    canaries: bool,
    versions: Sequence[str],
) -> None:
    """Raise an alarm about every series, and for each app more alarms than there are places."""
    for name, app in itertools.product((*criteria, "composite", "good_share"), apps):
        detection.show(
            app,
            name,
            evidence=1.0,
            enough=2.3,
            mean=0.5,
            low=0.4,
            high=0.6,
            target=0.8,
            raised=True,
            attributed_to_judges=True if canaries else None,
        )
    for subject, kind in itertools.product(("quality", "judges", "versions"), ("raised", "updated", "cleared")):
        detection.count_announcement(subject, kind)
    for name in (*criteria, "composite") if canaries else ():
        detection.judges(name, evidence=1.0, enough=4.6, low=0.9, high=1.0, changed=True)
        detection.canaries_missing(1)
    for name, app in itertools.product(versions, apps):
        detection.versions(name, app, evidence=1.0, enough=4.6, low=-0.2, high=-0.1, worse=True)
