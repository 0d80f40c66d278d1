"""Published schemas: whoever reads a record, a file of results or the configuration finds every field explained."""

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
    """The schema itself and all that it refers to."""
    return {published["title"]: published, **published.get("$defs", {})}


def fields(published: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, definition in definitions(published).items():
        for field, described in definition.get("properties", {}).items():
            yield f"{name}.{field}", described


def unexplained(published: Mapping[str, Any]) -> list[str]:
    return [name for name, described in fields(published) if not described.get("description", "").strip()]


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_field_has_a_description(name: str) -> None:
    assert unexplained(SCHEMAS[name]) == []
    assert len(list(fields(SCHEMAS[name]))) > 3


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_part_has_a_description(name: str) -> None:
    parts = definitions(SCHEMAS[name])
    ours = {part: definition for part, definition in parts.items() if {"properties", "enum"} & definition.keys()}
    assert [part for part, definition in ours.items() if not definition.get("description")] == []


def test_every_key_of_the_configuration_has_a_description() -> None:
    """A section may have it where it is defined: the same text stands over its part of a starter file."""
    configuration = schema()
    parts = definitions(configuration)
    keys = dict(fields(configuration))
    bare = {name: keys[name].get("$ref", "").removeprefix("#/$defs/") for name in unexplained(configuration)}
    assert len(keys) > 200
    assert [name for name, part in bare.items() if not parts.get(part, {}).get("description")] == []


def test_a_field_without_a_description_is_found_however_deep_it_is() -> None:
    class Inner(BaseModel):
        explained: int = Field(description="A number.")
        bare: int

    class Outer(BaseModel):
        inner: tuple[Inner, ...] = Field(description="Inner ones.")
        empty: str = Field(description=" ")

    assert unexplained(Outer.model_json_schema()) == ["Outer.empty", "Inner.bare"]


@pytest.mark.parametrize("record", RECORDS)
def test_descriptions_of_records_are_sentences_that_fit_a_table(record: str) -> None:
    """They are cells of the page about records, and tooltips of whoever generates code from a schema."""
    texts = {name: described["description"] for name, described in fields(SCHEMAS[record])}
    assert [name for name, text in texts.items() if re.search(r"[|\n]|  |^What ", text) or not text.endswith(".")] == []


@pytest.mark.parametrize("record", RECORDS)
def test_a_field_that_may_be_null_says_when_it_is(record: str) -> None:
    nullable = {
        name: described["description"]
        for name, described in fields(SCHEMAS[record])
        if {"type": "null"} in described.get("anyOf", ())
    }
    assert nullable
    assert [name for name, text in nullable.items() if "null" not in text.lower()] == []
