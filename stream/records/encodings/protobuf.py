"""Protobuf records: message classes made from schemas, and messages as JSON."""

import base64
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import attrs
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import SerializationContext
from google.protobuf import descriptor_pb2, empty_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from stream.errors import RecordError
from stream.records.encodings.values import BytesReader, encode_json

_OPTIONS = {"use.deprecated.format": False, "subject.name.strategy": topic_subject_name_strategy}
_COMPILE_SECONDS = 30.0
_WHOLE_NUMBERS = {FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64}
_FRACTIONS = {FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE}
# Messages with a form of their own in JSON.
_OWN_FORM = ("google.protobuf.",)


class SerialisingClient:
    """Returns Protobuf schemas in the form that the deserialiser reads, also from a registry that only has the text.

    Confluent's registry returns a schema as a serialised descriptor on request; others, such as Apicurio's, ignore the
    request. Their text is compiled, once for each schema.
    """

    def __init__(self, client: SchemaRegistryClient) -> None:
        self._client = client
        self._compiled: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_schema(self, schema_id: int, *options: Any, **more: Any) -> Schema:
        return self._serialised(self._client.get_schema(schema_id, *options, **more))

    def get_schema_by_guid(self, guid: str, *options: Any, **more: Any) -> Schema:
        return self._serialised(self._client.get_schema_by_guid(guid, *options, **more))

    def get_version(self, *options: Any, **more: Any) -> Any:
        version = self._client.get_version(*options, **more)
        return attrs.evolve(version, schema=self._serialised(version.schema))

    def _serialised(self, schema: Schema) -> Schema:
        text = schema.schema_str or ""
        if schema.schema_type != "PROTOBUF" or _is_serialised(text):
            return schema
        if text not in self._compiled:
            self._compiled[text] = _compile(text, self._imports(schema))
        return Schema(self._compiled[text], "PROTOBUF", schema.references or [])

    def _imports(self, schema: Schema) -> dict[str, descriptor_pb2.FileDescriptorProto]:
        """Return the schemas that a schema imports, directly or not, by the names of their files."""
        files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
        for reference in schema.references or ():
            imported = self.get_version(reference.subject, reference.version, True, "serialized").schema
            files |= self._imports(imported)
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(imported.schema_str))
            file.name = str(reference.name)
            files[file.name] = file
        return files


class ProtobufReader:
    """Reads Protobuf records; each message type of each schema has a deserialiser."""

    schema_type = "PROTOBUF"
    schema_format: str | None = "serialized"

    def __init__(self, client: SchemaRegistryClient, read_bytes: BytesReader) -> None:
        self._client: Any = SerialisingClient(client)
        # Only parses schemas; the type of its messages does not matter.
        self._parser = ProtobufDeserializer(empty_pb2.Empty, _OPTIONS, self._client)
        self._read_bytes = read_bytes

    def prepare(self, schema: Schema, indexes: list[int] | None) -> object:
        """Make the deserialiser for the message type at `indexes` in the schema."""
        # Private methods, but the only ones that parse a schema as the deserialiser does.
        file, pool = self._parser._get_parsed_schema(self._client._serialised(schema))
        descriptor = self._parser._get_message_desc(pool, pool.FindFileByName(file.name), indexes or [0])
        return ProtobufDeserializer(GetMessageClass(descriptor), _OPTIONS, self._client)

    def read(self, value: bytes, context: SerializationContext, _payload: bytes, prepared: Any) -> bytes:
        return encode_json(message_document(prepared(value, context), self._read_bytes))


def message_document(message: Message, read_bytes: BytesReader) -> dict[str, Any]:
    """Return the fields of a message as in Protobuf's JSON, under their names in the schema, with numbers as numbers.

    Fields without presence that are not set have their default value, as for every reader of the message.
    """
    document: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    _restore(message.DESCRIPTOR, document, read_bytes)
    return document


def _restore(descriptor: Descriptor, document: dict[str, Any], read_bytes: BytesReader) -> None:
    """Replace the texts that Protobuf's JSON has in place of long numbers, and read bytes as configured."""
    for name, value in document.items():
        field = descriptor.fields_by_name.get(name)
        if field is not None:
            document[name] = _restored(field, value, read_bytes)


def _restored(field: FieldDescriptor, value: Any, read_bytes: BytesReader) -> Any:
    if isinstance(value, list):
        return [_restored(field, item, read_bytes) for item in value]
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"]
        return {key: _restored(inner, item, read_bytes) for key, item in value.items()}
    if kind is not None:
        if isinstance(value, dict) and not kind.full_name.startswith(_OWN_FORM):
            _restore(kind, value, read_bytes)
        return value
    if field.cpp_type in _WHOLE_NUMBERS:
        return int(value)
    if field.cpp_type in _FRACTIONS:
        return value if isinstance(value, int | float) and math.isfinite(value) else None
    return read_bytes(base64.b64decode(value)) if field.type == FieldDescriptor.TYPE_BYTES else value


def _is_serialised(text: str) -> bool:
    """Return whether a schema is a descriptor in base64: the text of a schema has spaces or a semicolon."""
    return bool(text) and not set(" ;{\n") & set(text)


def _compile(text: str, imports: Mapping[str, descriptor_pb2.FileDescriptorProto]) -> str:
    """Compile the text of a schema to a descriptor in base64."""
    with tempfile.TemporaryDirectory(prefix="streamjury-schema-") as name:
        folder = Path(name)
        (folder / "record.proto").write_text(text, encoding="utf-8")
        (folder / "imports").write_bytes(descriptor_pb2.FileDescriptorSet(file=imports.values()).SerializeToString())
        command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={folder}"]
        if imports:
            command.append(f"--descriptor_set_in={folder / 'imports'}")
        command += [f"--descriptor_set_out={folder / 'compiled'}", "record.proto"]
        process = subprocess.run(  # noqa: S603 - our own arguments; the schema is in a file
            command, capture_output=True, text=True, check=False, timeout=_COMPILE_SECONDS
        )
        if process.returncode:
            raise RecordError("bad_schema", f"the Protobuf schema cannot be compiled: {process.stderr.strip()[:500]}")
        compiled = descriptor_pb2.FileDescriptorSet.FromString((folder / "compiled").read_bytes())
    (file,) = (file for file in compiled.file if PurePosixPath(file.name).name == "record.proto")
    return base64.b64encode(file.SerializeToString()).decode("ascii")
