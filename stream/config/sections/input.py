"""The section `input`: the shape of the records that the RAG service logs."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from judges.criteria.problems import InconsistentError, unknown
from judges.values.interaction import Interaction
from stream.config.section import Section
from stream.config.sections.otlp import OtlpInput
from stream.config.sections.registry import Encoding, RegistryConfig


def _check_field(name: str) -> str:
    if name not in Interaction.model_fields:
        raise ValueError(unknown("field of an interaction", name, Interaction.model_fields))
    return name


def _check_path(path: str) -> str:
    if not all(path.split(".")):
        raise ValueError("must be a dotted path, such as request.text")
    return path


FieldPath = Annotated[str, Field(min_length=1, max_length=512), AfterValidator(_check_path)]


FieldName = Annotated[
    str, AfterValidator(_check_field), WithJsonSchema({"type": "string", "enum": list(Interaction.model_fields)})
]


class LimitsConfig(Section):
    """Size limits for input records; a record beyond `record_bytes` or `nesting` is dead-lettered."""

    record_bytes: int = Field(default=1_048_576, ge=1, le=83_886_080, description="Maximum record size in bytes.")
    contexts: int = Field(default=64, ge=1, le=10_000, description="Maximum contexts read per interaction.")
    nesting: int = Field(default=32, ge=1, le=256, description="Maximum nesting depth of a record's JSON.")
    text_chars: int = Field(
        default=65_536,
        ge=1,
        le=10_000_000,
        description="Maximum characters read of the question, the answer and each turn.",
    )
    context_chars: int = Field(
        default=16_384, ge=1, le=10_000_000, description="Maximum characters read of each context."
    )


class InputConfig(Section):
    """Format of the records that the RAG service logs."""

    adapter: Literal["streamjury", "mapping", "csv"] = Field(
        default="streamjury",
        description="Record format: Streamjury's own, as defined by `mapping`, or table rows.",
    )
    mapping: Mapping[FieldName, FieldPath] = Field(
        default={},
        description="For the `mapping` adapter: interaction field to dotted path in the record, also into JSON texts.",
        examples=[
            {
                "id": "request.id",
                "question": "request.text",
                "answer": "response.text",
                "contexts": "retrieval.documents",
            }
        ],
    )
    encoding: Encoding = Field(
        default="json",
        description="Encoding of the records: plain JSON, or a Confluent encoding with schemas in a Schema Registry.",
    )
    registry: RegistryConfig = Field(
        default_factory=RegistryConfig, description="Schema Registry, for the Confluent encodings."
    )
    limits: LimitsConfig = Field(default_factory=LimitsConfig, description="Size limits for input records.")
    otlp: OtlpInput = Field(default=None, description="OpenTelemetry spans as input; null: none.")

    @model_validator(mode="before")
    @classmethod
    def _check_spans(cls, data: Any) -> Any:
        """Refuse an encoding beside `otlp`: interactions that are assembled from spans are plain JSON."""
        if isinstance(data, Mapping) and data.get("otlp") and data.get("encoding", "json") not in {"json", None}:
            message = "must be json together with input.otlp, which writes interactions as JSON"
            raise InconsistentError([(("encoding",), message)])
        return data

    @field_validator("registry")
    @classmethod
    def _check_registry(cls, value: RegistryConfig, info: ValidationInfo) -> RegistryConfig:
        encoding = info.data.get("encoding")
        if encoding == "json" and value != RegistryConfig():
            raise ValueError("requires 'encoding: confluent-avro', confluent-protobuf or confluent-json")
        if encoding not in {"json", None} and value.url is None:
            raise InconsistentError([(("url",), f"must be set for 'encoding: {encoding}'")])
        return value

    @field_validator("mapping")
    @classmethod
    def _check_mapping(cls, value: Mapping[str, str], info: ValidationInfo) -> Mapping[str, str]:
        adapter = info.data.get("adapter")
        if adapter not in {"mapping", None} and value:
            raise ValueError("requires 'adapter: mapping'")
        missing = [name for name in ("id", "question", "answer") if name not in value]
        if adapter == "mapping" and missing:
            raise ValueError(f"must map {', '.join(missing)}")
        return value
