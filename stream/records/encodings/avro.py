"""Avro records: the reader of one schema, and the schemas that no reader can read safely."""

from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import SerializationContext

from stream.errors import RecordError
from stream.records.encodings.values import BytesReader, encode_json, with_text


class AvroReader:
    """Reads Avro records of all schemas."""

    schema_type = "AVRO"
    schema_format: str | None = None

    def __init__(self, client: SchemaRegistryClient, read_bytes: BytesReader) -> None:
        self._deserialise = AvroDeserializer(client, conf={"subject.name.strategy": topic_subject_name_strategy})
        self._read_bytes = read_bytes

    def prepare(self, schema: Schema, _indexes: list[int] | None) -> object:
        """Parse the schema and those that it refers to."""
        # A private method, but the only one that parses a schema as the deserialiser does, and keeps it there.
        check_schema(self._deserialise._get_parsed_schema(schema))
        return None

    def read(self, value: bytes, context: SerializationContext, _payload: bytes, _prepared: object) -> bytes:
        return encode_json(with_text(self._deserialise(value, context), self._read_bytes))


def check_schema(schema: Any) -> None:
    """Raise RecordError for a schema with which a small record could end the process.

    fastavro reads nested values by recursion without a limit, so a recursive type would exhaust the stack. Items of an
    array that take no bytes need no record of their size to fill the memory.
    """
    _Check().visit(schema, ())


class _Check:
    def __init__(self) -> None:
        self._types: dict[str, Any] = {}

    def visit(self, schema: Any, around: tuple[str, ...]) -> bool:
        """Check a schema inside the named types `around`; return whether its values can take no bytes."""
        if isinstance(schema, str):
            return self._visit_name(schema, around)
        if isinstance(schema, list):
            for branch in schema:
                self.visit(branch, around)
            return False  # the number of the branch takes a byte
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._visit_record(schema, around)
        if kind in ("array", "map"):
            if self.visit(schema["items" if kind == "array" else "values"], around) and kind == "array":
                raise RecordError("bad_schema", "an Avro array with items that take no bytes is not supported")
            return False
        if kind in ("enum", "fixed"):
            self._types[schema["name"]] = schema
            return bool(schema.get("size") == 0)
        return self.visit(kind, around)

    def _visit_record(self, schema: Any, around: tuple[str, ...]) -> bool:
        self._types[schema["name"]] = schema
        inside = (*around, schema["name"])
        sizes = [self.visit(field["type"], inside) for field in schema["fields"]]
        return all(sizes)

    def _visit_name(self, name: str, around: tuple[str, ...]) -> bool:
        if name in around:
            raise RecordError("bad_schema", f"the Avro type {name} contains itself, which is not supported")
        if name in self._types:
            return self.visit(self._types[name], around)
        return name == "null"
