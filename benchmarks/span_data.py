"""Makes OTLP spans of a RAG service, as OpenInference instrumentations write them: a root, a retriever and an LLM."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

QUESTION, ANSWER = "How long do I have to return goods?", "You have 30 days from delivery."
PASSAGES = (
    "Goods can be returned within 30 days of delivery.",
    "Refunds are paid to the original card within 5 working days.",
    "The shop in Basel is open from 9 to 18 h on working days.",
)
SPANS_PER_TRACE = 3
_SECOND = 1_000_000_000
_BEGIN = 1_790_000_000 * _SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeSpan:
    """A span before it is encoded."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes = b""
    start: int = _BEGIN
    end: int = _BEGIN + _SECOND
    attributes: Mapping[str, Any] = field(default_factory=dict)
    scope: str = "openinference.instrumentation.langchain"
    service: str = "shop"


def trace_id_of(number: int) -> bytes:
    return (number + 1).to_bytes(16, "big")


def make_trace(number: int, *, passages: Sequence[str] = PASSAGES, question: str = QUESTION) -> list[MadeSpan]:
    """Make the spans of one interaction in the order in which they end: the root comes last."""
    trace_id = trace_id_of(number)
    root, retriever, llm = (place.to_bytes(8, "big") for place in (1, 2, 3))
    documents = {f"retrieval.documents.{place}.document.content": text for place, text in enumerate(passages)}
    documents |= {f"retrieval.documents.{place}.document.id": f"kb-{place}" for place in range(len(passages))}
    prompt = "\n".join([*passages, question])
    return [
        MadeSpan(
            trace_id=trace_id,
            span_id=retriever,
            parent_id=root,
            start=_BEGIN + _SECOND // 10,
            end=_BEGIN + _SECOND // 5,
            attributes={"openinference.span.kind": "RETRIEVER", "input.value": question, **documents},
        ),
        MadeSpan(
            trace_id=trace_id,
            span_id=llm,
            parent_id=root,
            start=_BEGIN + _SECOND // 4,
            end=_BEGIN + _SECOND // 2,
            attributes={
                "openinference.span.kind": "LLM",
                "llm.model_name": "atlas-mini",
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": prompt,
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": ANSWER,
                "llm.token_count.prompt": 100,
                "llm.token_count.completion": 10,
            },
        ),
        MadeSpan(
            trace_id=trace_id,
            span_id=root,
            attributes={
                "openinference.span.kind": "CHAIN",
                "input.value": f"{question} ({number})",
                "output.value": ANSWER,
                "session.id": f"session-{number % 10}",
            },
        ),
    ]


def encode(spans: Iterable[MadeSpan]) -> bytes:
    """Encode spans as one record of the Collector's kafka exporter, `otlp_proto`."""
    data = TracesData()
    groups: dict[tuple[str, str], Any] = {}
    for span in spans:
        scoped = groups.get((span.service, span.scope))
        if scoped is None:
            group = data.resource_spans.add()
            group.resource.attributes.append(_pair("service.name", span.service))
            scoped = groups[span.service, span.scope] = group.scope_spans.add()
            scoped.scope.name = span.scope
        scoped.spans.append(
            Span(
                trace_id=span.trace_id,
                span_id=span.span_id,
                parent_span_id=span.parent_id,
                name="span",
                start_time_unix_nano=span.start,
                end_time_unix_nano=span.end,
                attributes=[_pair(name, value) for name, value in span.attributes.items()],
            )
        )
    return data.SerializeToString()


def as_document(spans: Iterable[MadeSpan]) -> dict[str, Any]:
    """Return spans as one record of the Collector's kafka exporter, `otlp_json`."""
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": span.service}}]},
                "scopeSpans": [{"scope": {"name": span.scope}, "spans": [_span_document(span)]}],
            }
            for span in spans
        ]
    }


def _span_document(span: MadeSpan) -> dict[str, Any]:
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_id.hex(),
        "name": "span",
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": [{"key": name, "value": _json_value(value)} for name, value in span.attributes.items()],
    }


def _json_value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case str():
            return {"stringValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_json_value(item) for item in value]}}
        case _:
            pairs = [{"key": name, "value": _json_value(item)} for name, item in value.items()]
            return {"kvlistValue": {"values": pairs}}


def _pair(name: str, value: Any) -> KeyValue:
    return KeyValue(key=name, value=_proto_value(value))


def _proto_value(value: Any) -> AnyValue:
    made = AnyValue()
    match value:
        case bool():
            made.bool_value = value
        case str():
            made.string_value = value
        case int():
            made.int_value = value
        case float():
            made.double_value = value
        case list():
            made.array_value.values.extend(map(_proto_value, value))
            made.array_value.SetInParent()
        case _:
            made.kvlist_value.values.extend(_pair(name, item) for name, item in value.items())
            made.kvlist_value.SetInParent()
    return made
