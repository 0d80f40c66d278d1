"""The score record: the part of an evaluation that the detectors need, keyed by its app."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from judges.values.evaluation import MIN_PROBABILITY, Dimension, Evaluation, Score, Status
from sinks.base import SCHEMA, UNKNOWN, Message
from sinks.metrics import results
from sinks.statistics.labelled_answers import trace_id_of
from sinks.statistics.measured_judges import attribute_of
from stream.config.names import BACKFILL, CANARY
from stream.monitor.detection.stored import Moment
from stream.records.canaries import CANARY_TAG

MAX_ID_CHARS = 512
"""As an interaction has it."""
MAX_NAME_CHARS = 256
MAX_DIMENSION_CHARS = 128
MAX_DIMENSIONS = 300
"""More than a configuration can have criteria, and the composite."""
MAX_JUDGES = 32
"""More than a panel has."""
_MAX_ATTRIBUTE_CHARS = 64
_MAX_PARTITIONS = 10_000
_MAX_OFFSET = 2**63 - 1

Name = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
DimensionName = Annotated[str, Field(max_length=MAX_DIMENSION_CHARS)]
AttributeValue = Annotated[str, Field(max_length=_MAX_ATTRIBUTE_CHARS)]
Offset = Annotated[int, Field(ge=0, le=_MAX_OFFSET)]
JudgeScores = Annotated[Mapping[Name, Score], Field(max_length=MAX_JUDGES)]
"""Scores of one criterion, by judge."""
PartitionNumber = Annotated[int, Field(ge=0, lt=_MAX_PARTITIONS)]


class Source(BaseModel):
    """The place of an evaluation on its topic."""

    model_config = ConfigDict(frozen=True)

    partition: PartitionNumber
    offset: Offset


class ScoreRecord(BaseModel):
    """The scores of one evaluation. Names and numbers are bounded: they become part of the stored state."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    source: Source
    evaluation_id: Name
    interaction_id: Annotated[str, Field(max_length=MAX_ID_CHARS)]
    app: Name
    trace_id: Annotated[str, Field(max_length=MAX_ID_CHARS)] | None = None
    """Id of its trace, under which it may be labelled, too."""
    model: Name | None = None
    tenant: Name | None = None
    at: Moment
    probability: Annotated[FiniteFloat, Field(ge=MIN_PROBABILITY, le=1.0)]
    fingerprint: Name
    scores: Annotated[Mapping[DimensionName, Score], Field(max_length=MAX_DIMENSIONS)] = Field(default_factory=dict)
    """Scores of the criteria and the composite that have one."""
    judges: Annotated[Mapping[DimensionName, JudgeScores], Field(max_length=MAX_DIMENSIONS)] = Field(
        default_factory=dict
    )
    """Scores of each judge, by criterion. Records of earlier versions have none."""
    family: AttributeValue | None = None
    """Family of the answer's model, or `unknown`. Canaries and records of earlier versions have none."""
    language: AttributeValue | None = None
    """Language of the answer, or `unknown`. Canaries and records of earlier versions have none."""
    canary: Annotated[str, Field(max_length=MAX_ID_CHARS)] | None = None
    """Id of the canary, if it is one."""
    verdicts: Annotated[Mapping[DimensionName, Name], Field(max_length=MAX_DIMENSIONS)] = Field(default_factory=dict)
    """Verdicts on a canary, by criterion."""

    @classmethod
    def of(cls, evaluation: Evaluation, source: Source, *, now: float) -> Self | None:
        """Make the record of an evaluation; None for backfilled history, which says nothing about the present.

        The time is at most `now`: a clock that is ahead must not put a series into the future, where nothing else
        would count for a long time.
        """
        if evaluation.sampling.lane == BACKFILL:
            return None
        about = cls(
            source=source,
            evaluation_id=evaluation.evaluation_id,
            interaction_id=evaluation.interaction_id,
            app=evaluation.app or UNKNOWN,
            at=max(0.0, min(evaluation.evaluated_at.timestamp(), now)),
            probability=evaluation.sampling.probability,
            fingerprint=evaluation.evaluator.fingerprint,
        )
        scores = {name: score for name, score in results(evaluation) if score is not None}
        if evaluation.sampling.lane == CANARY:
            canary = str(evaluation.tags.get(CANARY_TAG, evaluation.interaction_id))[:MAX_ID_CHARS]
            short = {name: verdict[:MAX_NAME_CHARS] for name, verdict in verdicts(evaluation.dimensions).items()}
            return about.model_copy(update={"canary": canary, "verdicts": short, "scores": scores})
        return about.model_copy(
            update={
                "trace_id": trace_id_of(evaluation),
                "model": evaluation.model,
                "tenant": evaluation.tenant,
                "scores": scores,
                "judges": judge_scores(evaluation.dimensions),
                "family": attribute_of(evaluation, "family"),
                "language": attribute_of(evaluation, "language"),
            }
        )

    def message(self, topic: str) -> Message:
        value = self.model_dump_json(exclude_defaults=True).encode()
        return Message(topic=topic, key=self.app.encode(), value=value, headers=(SCHEMA,))


def judge_scores(dimensions: Mapping[str, Dimension]) -> dict[str, dict[str, float]]:
    """Return the scores of each judge, by criterion; of a judge that was asked twice, the last one."""
    scores = {}
    for name, dimension in dimensions.items():
        scored = {
            verdict.judge: verdict.score
            for verdict in dimension.judges
            if verdict.status is Status.SCORED and verdict.score is not None and len(verdict.judge) <= MAX_NAME_CHARS
        }
        if scored:
            scores[name] = dict(list(scored.items())[:MAX_JUDGES])
    return scores


def verdicts(dimensions: Mapping[str, Dimension]) -> dict[str, str]:
    """Return the verdicts that can be compared: the option, the level, or the score to one digit."""
    texts = {}
    for name, dimension in dimensions.items():
        if dimension.status is not Status.SCORED:  # a judge that failed has not changed its mind
            continue
        if dimension.option is not None:
            texts[name] = dimension.option
        elif dimension.level is not None:
            texts[name] = str(dimension.level)
        elif dimension.score is not None:
            texts[name] = f"{dimension.score:.1f}"
    return texts
