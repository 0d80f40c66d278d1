"""An archive with answers of a test's choice, written as the archivist writes them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sinks.archive.database import Database
from sinks.archive.published import read_evaluation
from sinks.archive.retention import Retention
from sinks.archive.texts import compress
from sinks.archive.writing import (
    ArchiveBatch,
    ArchivedEvaluation,
    ArchivedTexts,
    ArchiveWriter,
    EvaluationRow,
)

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
FINGERPRINT = "5f0c1e9b7a3d2846"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An answer, as a test describes it."""

    id: str
    at: int = START_MS
    app: str = "shop"
    tenant: str | None = None
    model: str | None = None
    lane: str = "main"
    probability: float = 1.0
    composite: float | None = 0.8
    status: str = "ok"
    scores: Mapping[str, float | None] = field(default_factory=dict)
    spread: float | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    question: str = "What is it?"
    answer: str = "It is this."
    judges: Sequence[Mapping[str, Any]] = ()
    """Verdicts of judges on every criterion."""
    cost_usd: float | None = None
    fingerprint: str = FINGERPRINT
    trace_id: str | None = None
    record: bytes | None = None
    """The record to store instead of one of these fields."""
    good_score: float = 0.7
    has_texts: bool = True
    answer_is_redacted: bool = False

    def document(self) -> dict[str, Any]:
        return {
            "evaluation_id": self.id,
            "interaction_id": f"i-{self.id}",
            "app": self.app,
            "tenant": self.tenant,
            "model": self.model,
            "tags": dict(self.tags),
            "evaluator": {"fingerprint": self.fingerprint, "criteria": list(self.scores), "judges": [], "version": "1"},
            "sampling": {"probability": self.probability, "rule": "all", "lane": self.lane},
            "evaluated_at": datetime.fromtimestamp(self.at / 1000, UTC).isoformat(),
            "dimensions": {
                name: {
                    "status": "insufficient" if score is None else "scored",
                    "score": score,
                    "spread": self.spread,
                    "judges": list(self.judges),
                }
                for name, score in self.scores.items()
            },
            "composite": {
                "score": self.composite,
                "status": self.status,
                "coverage": 1.0,
                "safety": {"level": None, "status": "safe"},
            },
            "cost_usd": self.cost_usd,
            "latency_ms": 1.0,
        }

    def rows(self) -> ArchivedEvaluation:
        value = self.record or json.dumps(self.document()).encode()
        scored = {name: score for name, score in self.scores.items() if score is not None}
        return ArchivedEvaluation(
            row=EvaluationRow(
                id=self.id,
                interaction_id=f"i-{self.id}",
                texts_id=f"t-{self.id}",
                at=self.at,
                app=self.app,
                tenant=self.tenant,
                model=self.model,
                lane=self.lane,
                rule="all",
                probability=self.probability,
                composite=self.composite,
                status=self.status,
                coverage=1.0,
                safety="safe",
                worst_criterion=min(scored, key=lambda name: scored[name], default=None),
                spread=self.spread,
                cost_usd=self.cost_usd,
                latency_ms=1.0,
                fingerprint=self.fingerprint,
                trace_id=self.trace_id,
                tags=json.dumps(dict(self.tags)),
                question=self.question,
                answer=self.answer,
            ),
            logged_id=f"i-{self.id}",
            tags=list(self.tags.items()),
            record=compress(value),
            published=read_evaluation(value),
            is_live=self.lane not in {"canary", "backfill"},
            good_score=self.good_score,
        )

    def texts(self) -> ArchivedTexts:
        content: dict[str, Any] = {
            "question": self.question,
            "history": [],
            "contexts": [],
            "answer": self.answer,
            "reference": None,
        }
        if self.answer_is_redacted:
            content["answer_is_redacted"] = True
        return ArchivedTexts(
            id=f"t-{self.id}",
            interaction_id=f"i-{self.id}",
            at=self.at,
            tenant=self.tenant,
            content=compress(json.dumps(content).encode()),
        )


def alert_row(
    alert_id: str,
    *,
    app: str = "shop",
    dimension: str = "composite",
    subject: str = "quality",
    kind: str = "raised",
    onset: int = START_MS,
    raised: int | None = None,
    cleared: int | None = None,
    attribute: str | None = None,
    value: str | None = None,
    summary: str = "It has dropped.",
) -> dict[str, Any]:
    about = "" if attribute is None else f"/{attribute}={value}"
    return {
        "alert_id": alert_id,
        "series_key": f"{app}/{dimension}{about}",
        "app": app,
        "dimension": dimension,
        "attribute": attribute,
        "value": value,
        "subject": subject,
        "kind": kind if cleared is None else "cleared",
        "raised_at": raised or onset,
        "onset_at": onset,
        "cleared_at": cleared,
        "at": cleared or raised or onset,
        "record": json.dumps({"summary": summary, "estimate": 0.5, "target": 0.8}),
    }


def fill(
    database: Database,
    answers: Iterable[Judged],
    *,
    alerts: Iterable[Mapping[str, Any]] = (),
    labels: Iterable[Mapping[str, Any]] = (),
) -> None:
    """Writes these to an archive."""
    judged = list(answers)
    ArchiveWriter(database, Retention(None)).write(
        ArchiveBatch(
            evaluations=[answer.rows() for answer in judged],
            texts=[answer.texts() for answer in judged if answer.has_texts],
            alerts=[dict(alert) for alert in alerts],
            labels=[dict(label) for label in labels],
        )
    )
