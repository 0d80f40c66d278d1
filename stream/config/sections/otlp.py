"""The section `input.otlp`: spans of OpenTelemetry traces, which the assembler turns into interactions."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, FiniteFloat, ValidationInfo, field_validator

from stream.config.section import Section
from stream.config.sections.kafka import TopicName
from stream.config.sections.stages import Identifier

AttributeName = Annotated[str, Field(min_length=1, max_length=256)]
TagLabel = Annotated[str, Field(min_length=1, max_length=128)]
Convention = Literal["gen_ai", "openinference", "openllmetry"]

SERVICE_NAME = "service.name"


class OtlpAttributesConfig(Section):
    """Attribute names to read fields from: first in the root span, then in the other spans and their resources."""

    question: AttributeName | None = Field(
        default=None, description="Attribute with the question; null: as the conventions define it."
    )
    answer: AttributeName | None = Field(
        default=None, description="Attribute with the answer; null: as the conventions define it."
    )
    history: AttributeName | None = Field(
        default=None, description="Attribute with earlier messages, as JSON; null: as the conventions define it."
    )
    model: AttributeName | None = Field(
        default=None, description="Attribute with the model; null: that of the last LLM span."
    )
    app: AttributeName = Field(default=SERVICE_NAME, description="Attribute with the app.")
    tenant: AttributeName | None = Field(default=None, description="Attribute with the tenant; null: no tenant.")
    tags: Mapping[TagLabel, AttributeName] = Field(
        default={},
        max_length=63,
        description="Tags of the interaction: name of the tag to attribute.",
        examples=[{"environment": "deployment.environment.name", "user": "enduser.id"}],
    )

    @property
    def names(self) -> frozenset[str]:
        """All attribute names to read, besides those of the conventions."""
        single = (self.question, self.answer, self.history, self.model, self.app, self.tenant)
        return frozenset(name for name in (*single, *self.tags.values()) if name is not None)


class OtlpConfig(Section):
    """OpenTelemetry spans as input: the assembler writes one interaction for each trace of a RAG service."""

    topics: tuple[TopicName, ...] = Field(
        default=("otlp_spans",),
        min_length=1,
        max_length=64,
        description="Topics with spans, as the Collector's kafka exporter writes them (otlp_proto or otlp_json).",
    )
    keyed: bool = Field(
        default=False,
        description="Whether every record has its trace id as key (`partition_traces_by_id` of the exporter). If not, "
        "spans are first written to topics.spans, by trace id.",
    )
    conventions: tuple[Convention, ...] = Field(
        default=("gen_ai", "openinference", "openllmetry"),
        min_length=1,
        description="Conventions to read; the first one that has a field of a span decides.",
    )
    attributes: OtlpAttributesConfig = Field(
        default_factory=OtlpAttributesConfig, description="Attribute names of fields."
    )
    quiet_seconds: FiniteFloat = Field(
        default=10.0,
        ge=0.1,
        le=3600,
        description="A trace with a root span is complete after this time without a further span.",
    )
    max_seconds: FiniteFloat = Field(
        default=300.0,
        ge=0.1,
        le=86_400,
        description="A trace is finished this long after its first span, complete or not; later spans are late.",
    )
    max_traces: int = Field(
        default=100_000, ge=1, le=10_000_000, description="Maximum unfinished traces in memory; the oldest are evicted."
    )
    group: Identifier = Field(default="streamjury-assembler", description="Consumer group of the assemblers.")
    instance: Identifier | None = Field(
        default=None, description="Fixed instance name in the group, kept across restarts; null: a generated name."
    )

    @field_validator("topics", "conventions")
    @classmethod
    def _refuse_repeated(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError("must not list a value twice")
        return value

    @field_validator("max_seconds")
    @classmethod
    def _check_max_seconds(cls, value: float, info: ValidationInfo) -> float:
        quiet = info.data.get("quiet_seconds", 0.0)
        if value < quiet:
            raise ValueError(f"must be at least input.otlp.quiet_seconds ({quiet:g})")
        return value


def _require_native(value: OtlpConfig | None, info: ValidationInfo) -> OtlpConfig | None:
    """Require the format that the assembler writes; the fields before this one are already checked."""
    if value is not None and info.data.get("adapter", "streamjury") != "streamjury":
        raise ValueError("requires 'adapter: streamjury': the assembler writes interactions in this form")
    return value


OtlpInput = Annotated[OtlpConfig | None, AfterValidator(_require_native)]
"""The section, or None if interactions are logged directly."""
