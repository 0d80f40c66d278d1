"""Records of spans as JSON: the encoding `otlp_json` of the Collector's kafka exporter."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from sinks.telemetry.settings import SCOPE
from stream.assembler.otlp.filtering import AttributeFilter, drop_prompts
from stream.assembler.otlp.spans import (
    KeptSpan,
    SpanCounts,
    SpanEvent,
    TraceFilter,
    TraceSpan,
    is_needed,
)
from stream.errors import RecordError

_MALFORMED = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)


class JsonSpans:
    """Reads the attributes that are needed. Ids are hexadecimal, and large numbers are strings."""

    def __init__(self, attributes: AttributeFilter) -> None:
        self._filter = attributes

    def read(self, value: bytes, keeps: TraceFilter, counts: SpanCounts) -> list[TraceSpan]:
        kept: list[TraceSpan] = []
        try:
            for group, scoped in _scopes(value, counts):
                resource = self._attributes(_object(group.get("resource")), self._filter.keeps_resource)
                for span in _objects(scoped.get("spans")):
                    trace_id, span_id = _ids(span)
                    if is_needed(trace_id, span_id, keeps, counts):
                        kept.append((trace_id, self._keep(span_id, span, resource)))
        except _MALFORMED as error:
            raise _bad_spans(error) from None
        return kept

    def split(self, value: bytes, keeps: TraceFilter, counts: SpanCounts) -> dict[bytes, bytes]:
        by_trace: dict[bytes, list[dict[str, Any]]] = {}
        try:
            for group, scoped in _scopes(value, counts):
                spans: dict[bytes, list[dict[str, Any]]] = {}
                for span in _objects(scoped.get("spans")):
                    trace_id, span_id = _ids(span)
                    if is_needed(trace_id, span_id, keeps, counts):
                        spans.setdefault(trace_id, []).append(span)
                for trace_id, own in spans.items():
                    by_trace.setdefault(trace_id, []).append({**group, "scopeSpans": [{**scoped, "spans": own}]})
        except _MALFORMED as error:
            raise _bad_spans(error) from None
        return {trace_id: msgspec.json.encode({"resourceSpans": groups}) for trace_id, groups in by_trace.items()}

    def _keep(self, span_id: bytes, span: dict[str, Any], resource: dict[str, Any]) -> KeptSpan:
        attributes = self._attributes(span, self._filter.keeps)
        parent_id = bytes.fromhex(span.get("parentSpanId") or "")
        if any(parent_id):
            drop_prompts(attributes)
        return KeptSpan(
            span_id=span_id,
            parent_id=parent_id if any(parent_id) else b"",
            start=int(span.get("startTimeUnixNano") or 0),
            end=int(span.get("endTimeUnixNano") or 0),
            attributes=attributes,
            events=[
                SpanEvent(event["name"], self._attributes(event, lambda _name: True))
                for event in _objects(span.get("events"))
                if self._filter.keeps_event(event.get("name", ""))
            ],
            resource=resource,
        )

    def _attributes(self, item: dict[str, Any], keeps: Callable[[str], bool]) -> dict[str, Any]:
        pairs = _objects(item.get("attributes"))
        return {name: _plain(pair.get("value")) for pair in pairs if keeps(name := str(pair.get("key", "")))}


def _scopes(value: bytes, counts: SpanCounts) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each group of spans of one scope, with the group of its resource."""
    groups = _object(msgspec.json.decode(value)).get("resourceSpans")
    if not groups:
        raise ValueError("has no spans")
    for group in _objects(groups):
        for scoped in _objects(group.get("scopeSpans")):
            if _object(scoped.get("scope")).get("name") == SCOPE:
                counts.own += len(_objects(scoped.get("spans")))
            else:
                yield group, scoped


def _ids(span: dict[str, Any]) -> tuple[bytes, bytes]:
    """Return the ids of the trace and of the span; empty if they cannot be read."""
    try:
        return bytes.fromhex(span["traceId"]), bytes.fromhex(span["spanId"])
    except (KeyError, TypeError, ValueError):
        return b"", b""


def _object(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError("an object was expected")
    return value


def _objects(value: Any) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise TypeError("a list was expected")
    return [_object(item) for item in value]


def _plain(value: Any) -> Any:
    value = _object(value)
    for kind, content in value.items():
        match kind:
            case "stringValue" | "boolValue":
                return content
            case "intValue":
                return int(content)
            case "doubleValue":
                return float(content)
            case "arrayValue":
                return [_plain(item) for item in _objects(_object(content).get("values"))]
            case "kvlistValue":
                return {
                    str(pair.get("key")): _plain(pair.get("value")) for pair in _objects(_object(content).get("values"))
                }
    return None


def _bad_spans(error: Exception) -> RecordError:
    reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    return RecordError("bad_spans", f"is not OTLP JSON: {reason}")
