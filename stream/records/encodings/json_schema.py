"""JSON records with a JSON Schema: checked against the schema, and then read as they are."""

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import SerializationContext


class JsonReader:
    """Checks JSON records of all schemas."""

    schema_type = "JSON"
    schema_format: str | None = None

    def __init__(self, client: SchemaRegistryClient) -> None:
        options = {"subject.name.strategy": topic_subject_name_strategy}
        self._deserialise = JSONDeserializer(None, schema_registry_client=client, conf=options)

    def prepare(self, schema: Schema, _indexes: list[int] | None) -> object:
        """Parse the schema and those that it refers to."""
        # A private method, but the only one that parses a schema as the deserialiser does, and keeps it there.
        self._deserialise._get_parsed_schema(schema)
        return None

    def read(self, value: bytes, context: SerializationContext, payload: bytes, _prepared: object) -> bytes:
        self._deserialise(value, context)
        return payload
