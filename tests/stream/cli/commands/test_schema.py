"""Published schemas: every field of a record, a results file and the configuration has a description."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import BaseModel, Field

from sinks.reports.results_schema import End, Row, Run
from stream.cli.commands.schema import RECORDS, wire_schema
from stream.config.reference import schema

SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    **{record: wire_schema(record) for record in RECORDS},
    **{model.__name__: model.model_json_schema(mode="serialization") for model in (Run, Row, End)},
}


def definitions(published: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the schema itself and every definition in it."""
    return {published["title"]: published, **published.get("$defs", {})}


def fields(published: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, definition in definitions(published).items():
        for field, content in definition.get("properties", {}).items():
            yield f"{name}.{field}", content


def undescribed_fields(published: Mapping[str, Any]) -> list[str]:
    return [name for name, content in fields(published) if not content.get("description", "").strip()]


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_field_has_a_description(name: str) -> None:
    assert undescribed_fields(SCHEMAS[name]) == []
    assert len(list(fields(SCHEMAS[name]))) > 3


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_part_has_a_description(name: str) -> None:
    parts = definitions(SCHEMAS[name])
    ours = {part: definition for part, definition in parts.items() if {"properties", "enum"} & definition.keys()}
    assert [part for part, definition in ours.items() if not definition.get("description")] == []


def test_every_key_of_the_configuration_has_a_description() -> None:
    """A section may be described in its definition; the same text introduces the section in the starter file."""
    configuration = schema()
    parts = definitions(configuration)
    keys = dict(fields(configuration))
    bare = {name: keys[name].get("$ref", "").removeprefix("#/$defs/") for name in undescribed_fields(configuration)}
    assert len(keys) > 200
    assert [name for name, part in bare.items() if not parts.get(part, {}).get("description")] == []


def test_a_field_without_a_description_is_found_however_deep_it_is() -> None:
    class Inner(BaseModel):
        explained: int = Field(description="A number.")
        bare: int

    class Outer(BaseModel):
        inner: tuple[Inner, ...] = Field(description="Inner ones.")
        empty: str = Field(description=" ")

    assert undescribed_fields(Outer.model_json_schema()) == ["Outer.empty", "Inner.bare"]


@pytest.mark.parametrize("record", RECORDS)
def test_descriptions_of_records_are_sentences_that_fit_a_table(record: str) -> None:
    """They are table cells on the records page, and tooltips in code generated from a schema."""
    texts = {name: content["description"] for name, content in fields(SCHEMAS[record])}
    assert [name for name, text in texts.items() if re.search(r"[|\n]|  |^What ", text) or not text.endswith(".")] == []


@pytest.mark.parametrize("record", RECORDS)
def test_a_field_that_may_be_null_says_when_it_is(record: str) -> None:
    nullable = {
        name: content["description"]
        for name, content in fields(SCHEMAS[record])
        if {"type": "null"} in content.get("anyOf", ())
    }
    assert nullable
    assert [name for name, text in nullable.items() if "null" not in text.lower()] == []
