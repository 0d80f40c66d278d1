"""Records of spans as protobuf: the encoding `otlp_proto` of the Collector's kafka exporter."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, TracesData

from sinks.telemetry.settings import SCOPE
from stream.assembler.otlp.filtering import AttributeFilter, drop_prompts
from stream.assembler.otlp.spans import (
    NO_SPAN,
    KeptSpan,
    SpanCounts,
    SpanEvent,
    TraceFilter,
    TraceSpan,
    is_needed,
)
from stream.errors import RecordError

_RESOURCES_CACHED = 100


class ProtobufSpans:
    """Reads the attributes that are needed, and nothing else of a span.

    Repeated fields are read as slices: iterating over the field itself ends with an exception inside the library, which
    takes as long as reading several items.
    """

    def __init__(self, attributes: AttributeFilter) -> None:
        self._keeps, self._keeps_resource = attributes.keeps, attributes.keeps_resource
        self._keeps_event = attributes.keeps_event
        # Few resources write all the records.
        self._resource = lru_cache(_RESOURCES_CACHED)(self._read_resource)

    def read(self, value: bytes, keeps: TraceFilter, counts: SpanCounts) -> list[TraceSpan]:
        kept: list[TraceSpan] = []
        for group in _groups(_NamedTraces, value)[:]:
            resource = self._resource(group.resource)
            for scoped in group.scope_spans[:]:
                if scoped.scope.name == SCOPE:
                    counts.own += len(scoped.spans)
                    continue
                for span in scoped.spans[:]:
                    trace_id, span_id = span.trace_id, span.span_id
                    if is_needed(trace_id, span_id, keeps, counts):
                        kept.append((trace_id, self._keep(span_id, span, resource)))
        return kept

    def split(self, value: bytes, keeps: TraceFilter, counts: SpanCounts) -> dict[bytes, bytes]:
        by_trace: dict[bytes, TracesData] = {}
        for group in _groups(TracesData, value):
            groups: dict[bytes, Any] = {}
            for scoped in group.scope_spans:
                if scoped.scope.name == SCOPE:
                    counts.own += len(scoped.spans)
                    continue
                scopes: dict[bytes, Any] = {}
                for span in scoped.spans:
                    trace_id = span.trace_id
                    if not is_needed(trace_id, span.span_id, keeps, counts):
                        continue
                    if trace_id not in groups:
                        groups[trace_id] = by_trace.setdefault(trace_id, TracesData()).resource_spans.add()
                        groups[trace_id].resource.CopyFrom(group.resource)
                    if trace_id not in scopes:
                        scopes[trace_id] = groups[trace_id].scope_spans.add()
                        scopes[trace_id].scope.CopyFrom(scoped.scope)
                    scopes[trace_id].spans.append(span)
        return {trace_id: message.SerializeToString() for trace_id, message in by_trace.items()}

    def _keep(self, span_id: bytes, span: Any, resource: dict[str, Any]) -> KeptSpan:
        keeps, values = self._keeps, span.attributes
        attributes = {
            # Most values are texts, and asking which kind a value has takes as long as reading it.
            name: (value := values[name]).string_value or _plain(value)
            for name in values
            if keeps(name)
        }
        parent_id = span.parent_span_id
        if not parent_id or parent_id == NO_SPAN:
            parent_id = b""
        else:
            drop_prompts(attributes)
        return KeptSpan(
            span_id=span_id,
            parent_id=parent_id,
            start=span.start_time_unix_nano,
            end=span.end_time_unix_nano,
            attributes=attributes,
            events=list(self._events(span)) if span.events else [],
            resource=resource,
        )

    def _events(self, span: Any) -> Iterator[SpanEvent]:
        for event in span.events:
            if self._keeps_event(event.name):
                yield SpanEvent(event.name, {pair.key: _plain(pair.value) for pair in event.attributes})

    def _read_resource(self, encoded: bytes) -> dict[str, Any]:
        keeps, pairs = self._keeps_resource, _parse(Resource, encoded).attributes
        return {name: _plain(pair.value) for pair in pairs if keeps(name := pair.key)}


def _named_traces() -> Any:
    """Return a class like TracesData that is faster to read, for records with the same encoding.

    The attributes of a span are a map, which takes fewer objects than a list of pairs. A resource stays encoded.
    """
    pool = DescriptorPool()
    for module in (common_pb2, resource_pb2, trace_pb2):
        file = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        for message in file.message_type:
            if message.name == Span.DESCRIPTOR.name:
                _map_attributes(message)
            if message.name == ResourceSpans.DESCRIPTOR.name:
                _field(message, "resource").type = FieldDescriptorProto.TYPE_BYTES
                _field(message, "resource").ClearField("type_name")
        pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(TracesData.DESCRIPTOR.full_name))


def _map_attributes(message: DescriptorProto) -> None:
    """Make a map of the attributes, as protoc writes it: a list of a nested type with a key and a value."""
    entry = message.nested_type.add(name="AttributesEntry")
    pair = DescriptorProto()
    KeyValue.DESCRIPTOR.CopyToProto(pair)
    entry.field.extend(pair.field[:2])
    entry.options.map_entry = True
    _field(message, "attributes").type_name = f".{Span.DESCRIPTOR.full_name}.{entry.name}"


def _field(message: DescriptorProto, name: str) -> FieldDescriptorProto:
    return next(field for field in message.field if field.name == name)


_NamedTraces = _named_traces()


def _parse(kind: Any, value: bytes) -> Any:
    try:
        return kind.FromString(value)
    except DecodeError:
        raise RecordError("bad_spans", "is neither OTLP protobuf nor OTLP JSON") from None


def _groups(kind: Any, value: bytes) -> Any:
    """Return the groups of spans in a record, each of one resource."""
    groups = _parse(kind, value).resource_spans
    if not groups:
        raise RecordError("bad_spans", "has no spans")
    return groups


def _plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind == "array_value":
        return [_plain(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: _plain(pair.value) for pair in value.kvlist_value.values}
    return None if kind is None or kind == "bytes_value" else getattr(value, kind)
