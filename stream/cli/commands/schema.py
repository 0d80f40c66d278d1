"""`streamjury schema`: prints the JSON Schema of the records on the wire."""

import json
from collections.abc import Mapping
from typing import Any, Literal

import click
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from judges.values.evaluation import Evaluation, SafetyNotice
from judges.values.interaction import Interaction
from judges.values.label import Label
from stream.monitor.alerts.alert import Alert

VERSION = 1

# Records that we write have every field; records that we read need only a few.
RECORDS: Mapping[str, tuple[type[BaseModel], Literal["serialization", "validation"]]] = {
    "evaluation": (Evaluation, "serialization"),
    "interaction": (Interaction, "validation"),
    "critical": (SafetyNotice, "serialization"),
    "alert": (Alert, "serialization"),
    "label": (Label, "serialization"),
}


class _WireSchema(GenerateJsonSchema):
    """Marks every field of written records as required: Pydantic takes fields with a default for optional."""

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,
    ) -> bool:
        return self.mode == "serialization" or super().field_is_required(field, total)


@click.command()
@click.argument("record", type=click.Choice(list(RECORDS)))
def schema(record: str) -> None:
    """Print the JSON Schema (2020-12) of a record on the wire.

    \b
    evaluation    result of judging one interaction
    interaction   logged by the RAG service
    critical      a safety failure, published immediately
    alert         an alert about quality or judges: raised, updated or cleared
    label         the verdict of a person, or its retraction

    \b
    Example:
      streamjury schema evaluation > evaluation.schema.json
    """
    click.echo(json.dumps(wire_schema(record), indent=2, ensure_ascii=False))


def wire_schema(record: str) -> dict[str, Any]:
    """Return the schema of one kind of record."""
    model, mode = RECORDS[record]
    heading = {"$schema": _WireSchema.schema_dialect, "$id": f"urn:streamjury:{record}:{VERSION}"}
    return {**heading, **model.model_json_schema(mode=mode, schema_generator=_WireSchema)}
