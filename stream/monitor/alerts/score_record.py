"""The score record: the part of an evaluation that the detectors need, keyed by its app."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt

from judges.values.evaluation import MIN_PROBABILITY, Dimension, Evaluation, Score, Status
from sinks.base import SCHEMA, UNKNOWN, Message
from sinks.metrics import results
from stream.config.names import BACKFILL, CANARY
from stream.records.canaries import CANARY_TAG


class Source(BaseModel):
    """Where on the evaluations topic a score comes from."""

    model_config = ConfigDict(frozen=True)

    partition: NonNegativeInt
    offset: NonNegativeInt


class ScoreRecord(BaseModel):
    """The scores of one evaluation."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    source: Source
    evaluation_id: str
    interaction_id: str
    app: str
    model: str | None = None
    tenant: str | None = None
    at: FiniteFloat
    probability: Annotated[FiniteFloat, Field(ge=MIN_PROBABILITY, le=1.0)]
    fingerprint: str
    scores: Mapping[str, Score] = Field(default_factory=dict)
    """Of criteria and of the composite, as far as they have one."""
    canary: str | None = None
    """Which of the canaries it is."""
    verdicts: Mapping[str, str] = Field(default_factory=dict)
    """Of a canary: what was found, by criterion."""

    @classmethod
    def of(cls, evaluation: Evaluation, source: Source, *, now: float) -> Self | None:
        """None for what says nothing of the present: history that was judged after the fact.

        A clock that is ahead must not date a series ahead: for long, nothing else would count.
        """
        if evaluation.sampling.lane == BACKFILL:
            return None
        about = cls(
            source=source,
            evaluation_id=evaluation.evaluation_id,
            interaction_id=evaluation.interaction_id,
            app=evaluation.app or UNKNOWN,
            at=min(evaluation.evaluated_at.timestamp(), now),
            probability=evaluation.sampling.probability,
            fingerprint=evaluation.evaluator.fingerprint,
        )
        if evaluation.sampling.lane == CANARY:
            canary = str(evaluation.tags.get(CANARY_TAG, evaluation.interaction_id))
            return about.model_copy(update={"canary": canary, "verdicts": verdicts(evaluation.dimensions)})
        return about.model_copy(
            update={
                "model": evaluation.model,
                "tenant": evaluation.tenant,
                "scores": {name: score for name, score in results(evaluation) if score is not None},
            }
        )

    def message(self, topic: str, partition: int = -1) -> Message:
        value = self.model_dump_json(exclude_defaults=True).encode()
        return Message(topic=topic, key=self.app.encode(), value=value, headers=(SCHEMA,), partition=partition)


def verdicts(dimensions: Mapping[str, Dimension]) -> dict[str, str]:
    """What can be said again or not: the option, the level, or a score to one digit."""
    found = {}
    for name, dimension in dimensions.items():
        if dimension.status is not Status.SCORED:  # a judge that failed has not changed its mind
            continue
        if dimension.option is not None:
            found[name] = dimension.option
        elif dimension.level is not None:
            found[name] = str(dimension.level)
        elif dimension.score is not None:
            found[name] = f"{dimension.score:.1f}"
    return found
