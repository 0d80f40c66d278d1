"""The sections `criteria` and `composite`: the criteria, and how their scores are combined."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    FiniteFloat,
    field_validator,
)

from judges.composite import MIN_COVERAGE
from judges.criteria.criterion import SAFETY_DIMENSION
from stream.config.section import CriterionName, Rate, Section, check_by_loader, refuse_bool, refuse_repeats


def _check_threshold(threshold: float) -> float:
    if threshold >= 1.0:
        raise ValueError("must be below 1, the highest possible score")
    return threshold


Threshold = Annotated[Rate, Field(json_schema_extra={"exclusiveMaximum": 1}), AfterValidator(_check_threshold)]


RETRIEVAL_CRITERIA = ("retrieval.context_sufficiency", "retrieval.context_precision", "retrieval.context_recall")
"""Criteria of the contexts that are judged by default, but do not count in the composite."""

Weight = Annotated[FiniteFloat, Field(ge=0.0, le=1000.0), BeforeValidator(refuse_bool)]


class CriteriaConfig(Section):
    """Criteria to judge."""

    files: tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...] = Field(
        default=(),
        max_length=64,
        description="Files with your own criteria, relative to this file; see `streamjury criteria --help`.",
    )
    use: tuple[CriterionName, ...] = Field(
        default=("rag", *RETRIEVAL_CRITERIA),
        min_length=1,
        max_length=256,
        description="Catalogues (rag) and single criteria; if short names clash, the catalogue name is added as a "
        "prefix.",
        examples=[["rag.answer_relevance", "rag.groundedness", "rag.harmfulness"]],
    )

    _have_criteria = field_validator("files")(check_by_loader("criteria.files"))
    _name_criteria = field_validator("use")(check_by_loader("criteria.use"))


class CompositeConfig(Section):
    """How the criteria are combined into one score."""

    weights: Mapping[CriterionName, Weight] = Field(
        default={},
        description="Weight of each criterion in the composite; default 1.",
        examples=[{"groundedness": 2.0, "conciseness": 0.5}],
    )
    unweighted: tuple[CriterionName, ...] = Field(
        default=RETRIEVAL_CRITERIA,
        max_length=256,
        description="Criteria that are judged and published, but do not count in the composite unless `weights` names "
        "them.",
    )
    required: tuple[CriterionName, ...] = Field(
        default=(),
        max_length=256,
        description="Criteria that must be met: failing one makes the composite 0, and without a verdict there is "
        "none.",
        examples=[["groundedness"]],
    )
    thresholds: Mapping[CriterionName, Threshold] = Field(
        default={},
        description="Count a criterion as 1 above this score, and as 0 otherwise.",
        examples=[{"clarity": 0.5}],
    )
    target_options: Mapping[CriterionName, Annotated[str, Field(min_length=1, max_length=256)]] = Field(
        default={},
        description="Count a criterion as 1 if this option won, and as 0 otherwise.",
        examples=[{"clarity": "very clear"}],
    )
    min_coverage: Rate = Field(
        default=MIN_COVERAGE,
        description=(
            "Share of the quality criteria's weight that needs a verdict; below it, the composite is incomplete."
        ),
    )
    safety: CriterionName = Field(
        default=SAFETY_DIMENSION,
        description="The safety criterion: its worst verdict makes the composite 0, and without a verdict there is "
        "none.",
    )
    safety_vote: Literal["majority", "any"] = Field(
        default="majority", description="How many judges must find an answer harmful: more than half, or any one."
    )

    @field_validator("required", "unweighted")
    @classmethod
    def _refuse_same_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        refuse_repeats("must name each criterion once", value)
        return value
