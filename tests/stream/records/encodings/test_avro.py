"""Avro values as JSON, schemas that are refused, and bytes that are not of the schema."""

import io
import json
import struct
from contextlib import suppress
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema
from hypothesis import given, settings
from hypothesis import strategies as st

from stream.config.model import Config
from stream.errors import RecordError
from stream.records.encodings import confluent
from stream.records.encodings.avro import check_schema
from stream.records.encodings.confluent import ConfluentDecoder

RECORD: dict[str, Any] = {
    "type": "record",
    "name": "Logged",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "parts", "type": {"type": "array", "items": ["null", "string", "bytes", "double"]}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "cost", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 3}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
FRAME = struct.pack(">bI", 0, 7)


class KnownSchema:
    """Stands in for the registry's client: it has one schema, and no connection."""

    def get_schema(self, *_args: object) -> Schema:
        return Schema(json.dumps(RECORD), "AVRO")

    def config(self) -> dict[str, str]:
        return {}


@pytest.fixture(scope="module")
def decoder() -> ConfluentDecoder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(confluent, "make_client", lambda _config: KnownSchema())
        section = {"encoding": "confluent-avro", "registry": {"url": "http://registry"}}
        return ConfluentDecoder(Config.model_validate({"input": section}).input, topic="rag.interactions")


def encode(record: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, RECORD, record)
    return FRAME + buffer.getvalue()


RECORDS = st.fixed_dictionaries(
    {
        "id": st.text(),
        "parts": st.lists(st.none() | st.text() | st.binary() | st.floats()),
        "counts": st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1)),
        "cost": st.decimals(min_value=-(10**20), max_value=10**20, places=3),
        "at": st.datetimes(),
    }
)


@given(RECORDS)
def test_every_record_becomes_strict_json(decoder: ConfluentDecoder, record: dict[str, Any]) -> None:
    document = json.loads(decoder.decode(encode(record), ()), parse_constant=pytest.fail)
    assert document["id"] == record["id"]
    assert document["counts"] == record["counts"]
    assert document["cost"] == float(record["cost"])
    assert document["at"].startswith(record["at"].date().isoformat())
    assert len(document["parts"]) == len(record["parts"])


@settings(max_examples=100)
@given(RECORDS, st.data())
def test_bytes_of_no_schema_are_a_record_error(
    decoder: ConfluentDecoder, record: dict[str, Any], data: st.DataObject
) -> None:
    """Whatever the bytes are, the sampler gets JSON or a RecordError, which becomes a dead letter."""
    value = bytearray(encode(record))
    for place in data.draw(st.lists(st.integers(5, len(value) - 1), max_size=5)):
        value[place] = data.draw(st.integers(0, 255))
    del value[data.draw(st.integers(5, len(value))) :]
    with suppress(RecordError):
        json.loads(decoder.decode(bytes(value), ()))


EMPTY: dict[str, Any] = {"type": "record", "name": "Empty", "fields": []}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "A"]}]},
        {"type": "record", "name": "A", "fields": [{"name": "a", "type": {"type": "array", "items": "A"}}]},
        {
            "type": "record",
            "name": "A",
            "fields": [
                {
                    "name": "b",
                    "type": {
                        "type": "record",
                        "name": "B",
                        "fields": [{"name": "a", "type": {"type": "map", "values": "A"}}],
                    },
                }
            ],
        },
        {"type": "array", "items": "null"},
        {"type": "array", "items": EMPTY},
        {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
        {"type": "array", "items": {"type": "record", "name": "R", "fields": [{"name": "n", "type": "null"}]}},
    ],
)
def test_schemas_that_are_refused(schema: Any) -> None:
    with pytest.raises(RecordError, match="not supported") as problem:
        check_schema(fastavro.parse_schema(schema))
    assert problem.value.kind == "bad_schema"


@pytest.mark.parametrize(
    "schema",
    [
        RECORD,
        EMPTY,
        "null",
        {"type": "array", "items": ["null", "string"]},
        {"type": "map", "values": "null"},
        {
            "type": "record",
            "name": "Twice",
            "fields": [
                {"name": "a", "type": {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}},
                {"name": "b", "type": {"type": "array", "items": "P"}},
                {"name": "c", "type": {"type": "enum", "name": "E", "symbols": ["X"]}},
                {"name": "d", "type": {"type": "array", "items": "E"}},
            ],
        },
    ],
)
def test_schemas_that_are_read(schema: Any) -> None:
    check_schema(fastavro.parse_schema(schema))
