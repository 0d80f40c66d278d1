"""The Confluent encodings: a record names its schema, in its first bytes or in a header, and the registry has it."""

import time
from typing import Any, Protocol

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, dual_schema_id_deserializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext

from sinks.base import Headers
from stream.config.sections.input import InputConfig
from stream.errors import RecordError, RegistryError
from stream.records.encodings.avro import AvroReader
from stream.records.encodings.framing import VALUE_SCHEMA_ID
from stream.records.encodings.json_schema import JsonReader
from stream.records.encodings.protobuf import ProtobufReader
from stream.records.encodings.schema_client import (
    REGISTRY_ERRORS,
    is_refused_id,
    make_client,
    no_schema,
    registry_errors,
)
from stream.records.encodings.values import bytes_reader

# A schema that is missing now may be registered later, or its references may.
_REFUSED_SECONDS = 30.0
_REFUSALS_KEPT = 4096
_RETRY_SECONDS = 1.0
_ERROR_CHARS = 300
# Ids are signed numbers of 32 bits in every registry.
_LARGEST_ID = 2**31 - 1

SchemaKey = tuple[int | str, tuple[int, ...]]
"""The id of a schema, and the place of the message type in it, for Protobuf."""


class SchemaReader(Protocol):
    """Reads the records of one encoding."""

    schema_type: str
    schema_format: str | None

    def prepare(self, schema: Schema, indexes: list[int] | None) -> object:
        """Parse a schema; return what `read` needs for it."""

    def read(self, value: bytes, context: SerializationContext, payload: bytes, prepared: Any) -> bytes:
        """Return a record as JSON; `payload` is its value without the framing."""


class ConfluentDecoder:
    """Decodes records with the schemas that they name."""

    def __init__(self, config: InputConfig, *, topic: str, patience: float = 0.0) -> None:
        self._config, self._topic, self._patience = config, topic, patience
        self._client = make_client(config.registry)
        self._reader = _make_reader(config, self._client)
        self._prepared: dict[SchemaKey, object] = {}
        self._refusals: dict[SchemaKey, tuple[float, RecordError]] = {}

    def check(self) -> None:
        with registry_errors(self._config.registry, "its own types"):
            try:
                types = self._client.get_schema_types()
            except (ValueError, TypeError, AttributeError) as error:
                raise no_schema(self._config.registry, error) from None
        if not isinstance(types, list):
            raise no_schema(self._config.registry, ValueError("no list of schema types"))

    def decode(self, value: bytes | None, headers: Headers) -> bytes:
        if not value:
            raise RecordError("empty", "the record has no value")
        self._check_size(len(value))
        context = self._context(headers)
        schema_id, payload = self._read_framing(value, context)
        prepared = self._prepare_patiently(schema_id)
        document = self._read(value, context, payload, prepared)
        self._check_size(len(document))
        return document

    def _check_size(self, size: int) -> None:
        limit = self._config.limits.record_bytes
        if size > limit:
            raise RecordError("too_large", f"{size} bytes, the limit is {limit}")

    def _context(self, headers: Headers) -> SerializationContext:
        # The last of repeated headers counts, as for our own.
        schema_id = next((value for name, value in reversed(headers) if name == VALUE_SCHEMA_ID), None)
        framing: Any = {} if schema_id is None else {VALUE_SCHEMA_ID: schema_id}
        return SerializationContext(self._topic, MessageField.VALUE, framing)

    def _read_framing(self, value: bytes, context: SerializationContext) -> tuple[SchemaId, bytes]:
        schema_id = SchemaId(self._reader.schema_type)
        try:
            return schema_id, dual_schema_id_deserializer(value, context, schema_id).read()
        except Exception as error:
            hint = "; it looks like plain JSON, see input.encoding" if value.lstrip()[:1] == b"{" else ""
            message = f"no schema id in the first bytes or in a header ({_describe(error)}){hint}"
            raise RecordError("bad_framing", message) from None

    def _prepare_patiently(self, schema_id: SchemaId) -> object:
        key = (
            schema_id.id if schema_id.id is not None else str(schema_id.guid),
            tuple(schema_id.message_indexes or ()),
        )
        if key in self._prepared:
            return self._prepared[key]
        deadline = time.monotonic() + self._patience
        while True:
            try:
                self._prepared[key] = self._prepare(key, schema_id)
                return self._prepared[key]
            except RegistryError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY_SECONDS)

    def _prepare(self, key: SchemaKey, schema_id: SchemaId) -> object:
        until, refusal = self._refusals.get(key, (0.0, None))
        if refusal is not None and time.monotonic() < until:
            raise RecordError(refusal.kind, str(refusal))
        try:
            with registry_errors(self._config.registry, f"schema {key[0]}"):
                schema = self._fetch(schema_id)
                self._check_type(schema, key)
                return self._parse(schema, schema_id)
        except RecordError as error:
            if len(self._refusals) >= _REFUSALS_KEPT:
                self._refusals.clear()
            self._refusals[key] = time.monotonic() + _REFUSED_SECONDS, error
            raise

    def _fetch(self, schema_id: SchemaId) -> Schema:
        form, subject = self._reader.schema_format, f"{self._topic}-value"
        if schema_id.id is not None and schema_id.id > _LARGEST_ID:
            raise RecordError("unknown_schema", f"no schema has the id {schema_id.id}")
        try:
            if schema_id.id is not None:
                return self._client.get_schema(schema_id.id, subject, form)
            return self._client.get_schema_by_guid(str(schema_id.guid), form)
        except SchemaRegistryError as error:
            if is_refused_id(error):
                # From a wrong address, or from a registry that does not know such ids. In the second case the record is
                # bad, and must not hold up its partition.
                self.check()
                raise RecordError("unknown_schema", f"the Schema Registry refuses the id: {error}") from None
            raise
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise no_schema(self._config.registry, error) from None

    def _check_type(self, schema: Schema, key: SchemaKey) -> None:
        kind = schema.schema_type or "AVRO"
        if kind != self._reader.schema_type:
            message = f"schema {key[0]} is of type {kind}, but input.encoding is {self._config.encoding}"
            raise RecordError("bad_schema", message)

    def _parse(self, schema: Schema, schema_id: SchemaId) -> object:
        try:
            return self._reader.prepare(schema, schema_id.message_indexes)
        except (RecordError, *REGISTRY_ERRORS):
            raise
        except Exception as error:
            raise RecordError("bad_schema", f"the schema cannot be used: {_describe(error)}") from None

    def _read(self, value: bytes, context: SerializationContext, payload: bytes, prepared: object) -> bytes:
        """Read a record. Any error is one of the record: the libraries raise many types for bytes of unknown origin."""
        with registry_errors(self._config.registry, "a schema"):
            try:
                return self._reader.read(value, context, payload, prepared)
            except (RecordError, *REGISTRY_ERRORS):
                raise
            except Exception as error:
                kind = self._config.encoding.removeprefix("confluent-")
                raise RecordError("bad_encoding", f"not {kind} of its schema: {_describe(error)}") from None


def _make_reader(config: InputConfig, client: SchemaRegistryClient) -> SchemaReader:
    read_bytes = bytes_reader(config.registry.bytes)
    if config.encoding == "confluent-avro":
        return AvroReader(client, read_bytes)
    if config.encoding == "confluent-protobuf":
        return ProtobufReader(client, read_bytes)
    return JsonReader(client)


def _describe(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:_ERROR_CHARS]
