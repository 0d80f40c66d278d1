"""Records as protobuf: attributes are read as the protobuf library reads them, and invalid texts are refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData

from stream.assembler.otlp.decoding import SpanDecoder
from stream.assembler.otlp.filtering import AttributeFilter
from stream.assembler.otlp.spans import KeptSpan, SpanCounts
from stream.config.sections.otlp import OtlpConfig
from stream.errors import RecordError

DECODER = SpanDecoder(AttributeFilter(OtlpConfig(topics=["otlp_spans"])), None)
KEPT = ("input.value", "session.id", "llm.output_messages.0.message.content", "retrieval.documents.12.document.score")
NOT_KEPT = ("", "http.route", "llm.token_count.prompt")
NAMES = st.sampled_from(KEPT + NOT_KEPT)

# A value of each kind, with the Python value that it has.
Value = tuple[AnyValue, Any]
SIMPLE: st.SearchStrategy[Value] = st.one_of(
    st.text(max_size=300).map(lambda text: (AnyValue(string_value=text), text)),
    st.booleans().map(lambda value: (AnyValue(bool_value=value), value)),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: (AnyValue(int_value=number), number)),
    st.floats(allow_nan=False).map(lambda number: (AnyValue(double_value=number), number)),
    st.binary(max_size=5).map(lambda value: (AnyValue(bytes_value=value), None)),
    st.just((AnyValue(), None)),
)


def as_list(items: list[Value]) -> Value:
    value = AnyValue()
    value.array_value.SetInParent()
    value.array_value.values.extend(item for item, _plain in items)
    return value, [plain for _item, plain in items]


VALUES = st.one_of(SIMPLE, st.lists(SIMPLE, max_size=3).map(as_list))


def record(pairs: list[KeyValue], service: str = "shop") -> bytes:
    span = Span(trace_id=bytes(15) + b"1", span_id=b"12345678", name="step", attributes=pairs)
    resource = Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value=service))])
    group = ResourceSpans(resource=resource, scope_spans=[ScopeSpans(spans=[span])])
    encoded: bytes = TracesData(resource_spans=[group]).SerializeToString()
    return encoded


def read(value: bytes) -> KeptSpan:
    ((_trace_id, span),) = DECODER.read(value, SpanCounts())
    return span


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8))
def test_kept_attributes_have_the_values_that_were_written_and_the_last_of_a_name_counts(
    attributes: list[tuple[str, Value]],
) -> None:
    span = read(record([KeyValue(key=name, value=value) for name, (value, _plain) in attributes]))
    assert span.attributes == {name: plain for name, (_value, plain) in attributes if name in KEPT}
    assert span.resource == {"service.name": "shop"}


@pytest.mark.parametrize("name", ["input.value", "http.route"])
def test_a_text_that_is_not_utf8_is_refused_in_any_attribute(name: str) -> None:
    value = record([KeyValue(key=name, value=AnyValue(string_value="caf+"))])
    with pytest.raises(RecordError, match="neither OTLP protobuf"):
        read(value.replace(b"caf+", b"caf\xe9"))


@pytest.mark.parametrize("written", ["input.value", "sh+p"])
def test_a_name_or_resource_that_is_not_utf8_is_refused(written: str) -> None:
    value = record([KeyValue(key="input.value", value=AnyValue(string_value="a"))], service="sh+p")
    encoded = written.encode()
    with pytest.raises(RecordError, match="neither OTLP protobuf"):
        read(value.replace(encoded, b"\xe9" + encoded[1:]))
