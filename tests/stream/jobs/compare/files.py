"""Builders of small results files."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from judges.values.evaluation import (
    Composite,
    CompositeStatus,
    Dimension,
    Evaluation,
    EvaluatorInfo,
    JudgeVerdict,
    Safety,
    SafetyStatus,
    Samples,
    Sampling,
    Status,
)
from sinks.reports.results_schema import CriterionInfo, End, Row, RowError, Run

AT = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)

CLARITY = CriterionInfo(
    name="clarity",
    title="Clarity",
    question="Is it clear?",
    weight=1.0,
    bounds=(0, 4),
    choices=[("very unclear", 0), ("unclear", 1), ("average", 2), ("clear", 3), ("very clear", 4)],
)
GROUNDED = CriterionInfo(
    name="groundedness",
    title="Groundedness",
    question="Is it supported?",
    weight=1.0,
    bounds=(0, 2),
    choices=[("hallucinated", 0), ("partly supported", 1), ("fully supported", 2)],
)
ERRORS = CriterionInfo(name="errors", title="Errors", question="How many?", weight=1.0, bounds=(0, 10))
TOPIC = CriterionInfo(
    name="topic",
    title="Topic",
    question="What about?",
    weight=1.0,
    bounds=None,
    choices=[("prices", None), ("delivery", None), ("other", None)],
)

Found = Dimension | None


def level(criterion: CriterionInfo, value: int, *, judges: Sequence[JudgeVerdict] = ()) -> Dimension:
    """Return a dimension at this level of its scale."""
    assert criterion.bounds is not None
    low, high = criterion.bounds
    label = next(label for label, choice_value in criterion.choices if choice_value == value)
    score = (value - low) / (high - low)
    return Dimension(status=Status.SCORED, score=score, level=value, option=label, value=value, judges=tuple(judges))


def unscored_dimension(status: Status = Status.INSUFFICIENT) -> Dimension:
    return Dimension(status=status)


def falling(value: float) -> Dimension:
    """Return a dimension that counts errors from 0 to 10, where fewer are better."""
    return Dimension(status=Status.SCORED, score=1.0 - value / 10.0, value=value)


def option(name: str) -> Dimension:
    return Dimension(status=Status.SCORED, option=name)


def verdict(judge: str, criterion: CriterionInfo, value: int, *, cost: float = 0.01, ms: float = 100.0) -> JudgeVerdict:
    dimension = level(criterion, value)
    return JudgeVerdict(
        judge=judge,
        status=Status.SCORED,
        score=dimension.score,
        level=value,
        option=dimension.option,
        value=value,
        samples=Samples(requested=1, valid=1),
        cost_usd=cost,
        latency_ms=ms,
    )


def row(
    number: int,
    dimensions: Mapping[str, Dimension],
    *,
    name: str | None = None,
    composite: float | None = 0.5,
    status: CompositeStatus = CompositeStatus.OK,
    cost: float | None = 0.002,
    ms: float = 50.0,
    question: str = "How long does delivery take?",
) -> Row:
    evaluator = EvaluatorInfo(fingerprint="f" * 16, criteria=tuple(dimensions), judges=("local",), version="1")
    evaluation = Evaluation(
        evaluation_id=f"e-{number}",
        interaction_id=name or f"r-{number}",
        evaluator=evaluator,
        sampling=Sampling(),
        evaluated_at=AT,
        dimensions=dimensions,
        composite=Composite(score=composite, status=status, coverage=1.0, safety=Safety(status=SafetyStatus.SAFE)),
        cost_usd=cost,
        latency_ms=ms,
    )
    return Row(row=number, source={"question": question}, evaluation=evaluation)


def failed_row(number: int) -> Row:
    return Row(row=number, source={}, error=RowError(kind="bad_row", message="has no answer"))


def write(
    path: Path,
    rows: Iterable[Row],
    criteria: Sequence[CriterionInfo],
    *,
    fingerprint: str = "f" * 16,
    digest: str | None = "d",
    finished: bool = True,
) -> Path:
    """Write a results file with the rows in this order."""
    rows = list(rows)
    run = Run(
        name="rows.csv",
        input_digest=digest,
        started_at=AT,
        evaluator=EvaluatorInfo(
            fingerprint=fingerprint,
            criteria=tuple(criterion.name for criterion in criteria),
            judges=("local",),
            version="1",
        ),
        criteria=tuple(criteria),
        parameters={},
    )
    end = [End(ended_at=AT, rows=len(rows), seconds=1.0)] if finished else []
    lines = [document.model_dump_json() for document in (run, *rows, *end)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
