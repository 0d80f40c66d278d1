"""Simulated alerts and evaluations to explain."""

import itertools
import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from judges.values.evaluation import (
    Composite,
    CompositeStatus,
    Dimension,
    Evaluation,
    EvaluatorInfo,
    Excerpt,
    JudgeVerdict,
    Safety,
    SafetyStatus,
    Samples,
    Sampling,
    Status,
)
from stream.monitor.alerts.alert import Alert, Example, Series, Subject, Suspect, alert_id
from stream.monitor.alerts.summary import add_summary
from stream.monitor.detection import EventKind
from stream.monitor.explain import ChangeTally, by_time

FINGERPRINT = "fp-of-tests"
CRITERIA = ("answer_relevance", "clarity", "completeness", "conciseness", "groundedness", "harmfulness")
ONSET = datetime(2026, 11, 15, 2, 0, tzinfo=UTC)
RAISED = ONSET + timedelta(minutes=10)
SINCE = ONSET - timedelta(days=1)
_NUMBERS = itertools.count()


def dimension(score: float, name: str, option: str | None = None) -> Dimension:
    verdict = JudgeVerdict(
        judge="local",
        status=Status.SCORED,
        score=score,
        explanation=f"{name} is {score:g}, says the judge",
        samples=Samples(requested=1, valid=1),
    )
    return Dimension(status=Status.SCORED, score=score, option=option, judges=(verdict,))


def evaluation(
    scores: dict[str, float] | None = None,
    *,
    evaluated_at: datetime = ONSET,
    app: str = "support-bot",
    probability: float = 1.0,
    rule: str = "default",
    lane: str = "main",
    composite: float | None = None,
    name: str | None = None,
    fingerprint: str = FINGERPRINT,
    **fields: Any,
) -> Evaluation:
    """Return an evaluation with perfect scores except the given ones; the composite defaults to their mean."""
    name = name or f"i-{next(_NUMBERS)}"
    all_scores = {**dict.fromkeys(CRITERIA, 1.0), **(scores or {})}
    mean = sum(all_scores.values()) / len(all_scores) if composite is None else composite
    return Evaluation(
        evaluation_id=f"e-{name}",
        interaction_id=name,
        app=app,
        evaluated_at=evaluated_at,
        evaluator=EvaluatorInfo(fingerprint=fingerprint, criteria=CRITERIA, judges=("local",), version="1"),
        sampling=Sampling(probability=probability, rule=rule, lane=lane),
        dimensions={key: dimension(score, key) for key, score in all_scores.items()},
        composite=Composite(
            score=mean, status=CompositeStatus.OK, coverage=1.0, safety=Safety(status=SafetyStatus.SAFE, level=2)
        ),
        excerpt=Excerpt(question=f"What of {name}?", answer=f"This of {name}."),
        **fields,
    )


def traffic(
    *, before: int = 300, since: int = 100, bad: str | None = "model-2", rate: float = 0.9, seed: int = 1, **fields: Any
) -> Iterator[Evaluation]:
    """Yield evaluations of two models in three regions; since the onset, groundedness fails for one model or all."""
    rng = random.Random(seed)
    for number in range(before + since):
        is_since = number >= before
        evaluated_at = ONSET + timedelta(seconds=number - before)
        model, region = rng.choice(("model-1", "model-2")), rng.choice(("eu", "us", "asia"))
        fails = rng.random() < (rate if is_since and bad in {model, "all"} else 0.05)
        yield evaluation(
            {"groundedness": 0.0 if fails else 1.0},
            evaluated_at=evaluated_at,
            model=model,
            tags={"region": region, "request": f"r-{number}"},
            name=f"t-{seed}-{number}",
            **fields,
        )


def alert(*, kind: EventKind = EventKind.RAISED, dimension: str = "groundedness", **overrides: Any) -> Alert:
    series = overrides.pop("series", Series(app="support-bot", dimension=dimension))
    fields: dict[str, Any] = {
        "alert_id": alert_id(series, FINGERPRINT, RAISED.timestamp()),
        "kind": kind,
        "subject": Subject.QUALITY,
        "series": series,
        "at": RAISED,
        "raised_at": RAISED,
        "onset_at": ONSET,
        "target": 0.85,
        "evidence": 5.0,
        "enough": 4.6,
        "estimate": 0.55,
        "low": 0.42,
        "high": 0.68,
        "effective_n": 100.0,
        "scores": 100,
        "worst_dimensions": (
            Suspect(dimension="groundedness", estimate=0.5, low=0.4, high=0.6, target=0.9, evidence=9.0),
        ),
        "examples": (Example(interaction_id="t-1-310", score=0.0, at=ONSET),),
        "fingerprint": FINGERPRINT,
    }
    return add_summary(Alert(**{**fields, **overrides}))


def tally_changes(evaluations: Iterable[Evaluation], series: Series | None = None, **options: Any) -> ChangeTally:
    watched_series = series or Series(app="support-bot", dimension="groundedness")
    tally = ChangeTally(
        watched_series, FINGERPRINT, options.pop("split", by_time(SINCE, ONSET)), good_score=lambda _: 0.9, **options
    )
    for record in evaluations:
        tally.add(record)
    return tally
