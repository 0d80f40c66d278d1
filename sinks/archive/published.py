"""The fields of published records that the archive keeps in columns and sums, decoded fast from JSON.

All other fields stay in the stored record. Limits are those of the records that our stages write (docs/security.md).
"""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

Id = Annotated[str, Meta(max_length=512)]
Name = Annotated[str, Meta(max_length=256)]
Criterion = Annotated[str, Meta(max_length=129)]
Word = Annotated[str, Meta(max_length=64)]
UnitInterval = Annotated[float, Meta(ge=0.0, le=1.0)]
Moment = Annotated[datetime, Meta(tz=True)]

_MAX_CRITERIA = 300
_MAX_JUDGES = 64


class JudgedSamples(Struct, frozen=True):
    """Numbers of answers requested from a judge, and of valid and invalid ones."""

    requested: int = 0
    valid: int = 0
    invalid: int = 0


class JudgedVerdict(Struct, frozen=True):
    """The verdict of one judge on one criterion."""

    judge: Name
    status: Word
    score: UnitInterval | None = None
    option: str | None = None
    reason: Word | None = None
    latency_ms: float = 0.0
    cost_usd: float | None = None
    cached: bool = False
    samples: JudgedSamples = JudgedSamples()


class JudgedDimension(Struct, frozen=True):
    """The verdict of the panel on one criterion."""

    status: Word
    score: UnitInterval | None = None
    option: str | None = None
    spread: float | None = None
    judges: Annotated[tuple[JudgedVerdict, ...], Meta(max_length=_MAX_JUDGES)] = ()


class JudgedSafety(Struct, frozen=True):
    status: Word


class JudgedComposite(Struct, frozen=True):
    score: UnitInterval | None
    status: Word
    coverage: UnitInterval
    safety: JudgedSafety


class JudgedEvaluator(Struct, frozen=True):
    fingerprint: Name


class JudgedSampling(Struct, frozen=True):
    probability: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0
    rule: Name = "all"
    lane: Name = "main"


class JudgedExcerpt(Struct, frozen=True):
    question: str = ""
    answer: str = ""


class PublishedEvaluation(Struct, frozen=True):
    """A record of the evaluations topic."""

    evaluation_id: Id
    interaction_id: Id
    evaluator: JudgedEvaluator
    evaluated_at: Moment
    dimensions: Annotated[dict[Criterion, JudgedDimension], Meta(max_length=_MAX_CRITERIA)]
    composite: JudgedComposite
    sampling: JudgedSampling = JudgedSampling()
    app: Name | None = None
    tenant: Name | None = None
    model: Name | None = None
    tags: dict[str, Any] = {}
    excerpt: JudgedExcerpt | None = None
    traceparent: Name | None = None
    cost_usd: float | None = None
    latency_ms: float = 0.0


class PublishedSeries(Struct, frozen=True):
    app: Name
    dimension: Name
    attribute: Name | None = None
    value: Name | None = None


class PublishedAlert(Struct, frozen=True):
    """A record of the alerts topic."""

    alert_id: Id
    kind: Word
    subject: Word
    series: PublishedSeries
    at: Moment
    raised_at: Moment
    onset_at: Moment


class PublishedLabel(Struct, frozen=True):
    """A record of the labels topic: a person's verdict, or its retraction."""

    label_id: Id
    interaction_id: Id
    labelled_at: Moment
    who: Name = ""
    criterion: Criterion = ""
    evaluation_id: Id | None = None
    option: Name | None = None
    score: UnitInterval | None = None
    probability: Annotated[float, Meta(gt=0.0, le=1.0)] | None = None
    kind: Word = "review"
    comment: Annotated[str, Meta(max_length=20_000)] | None = None
    retracts: Id | None = None


read_evaluation = msgspec.json.Decoder(PublishedEvaluation).decode
read_alert = msgspec.json.Decoder(PublishedAlert).decode
read_label = msgspec.json.Decoder(PublishedLabel).decode
"""Each raises ValueError or RecursionError if the bytes are not such a record."""
