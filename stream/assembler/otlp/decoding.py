"""Decodes records of spans; the first byte shows whether a record is protobuf or JSON."""

from typing import Protocol

from stream.assembler.otlp.documents import JsonSpans
from stream.assembler.otlp.filtering import AttributeFilter
from stream.assembler.otlp.protobuf import ProtobufSpans
from stream.assembler.otlp.spans import SpanCounts, TraceFilter, TraceSpan
from stream.errors import RecordError

# Protobuf begins with the tag of the only field of a record, 0x0a.
_OBJECT = ord("{")


class Encoding(Protocol):
    """One encoding of OTLP; raises RecordError for a record that is not in it."""

    def read(self, value: bytes, keeps: TraceFilter, counts: SpanCounts) -> list[TraceSpan]: ...

    def split(self, value: bytes, keeps: TraceFilter, counts: SpanCounts) -> dict[bytes, bytes]: ...


class SpanDecoder:
    """Decodes records; raises RecordError for one that is not OTLP."""

    def __init__(self, attributes: AttributeFilter, keeps_trace: TraceFilter) -> None:
        self._protobuf: Encoding = ProtobufSpans(attributes)
        self._json: Encoding = JsonSpans(attributes)
        self._keeps_trace = keeps_trace

    def read(self, value: bytes | None, counts: SpanCounts) -> list[TraceSpan]:
        """Return the spans of a record whose traces are needed."""
        return self._encoding(value).read(value or b"", self._keeps_trace, counts)

    def split(self, value: bytes | None, counts: SpanCounts) -> dict[bytes, bytes]:
        """Return one record for each trace that is needed, in the same encoding, by trace id."""
        return self._encoding(value).split(value or b"", self._keeps_trace, counts)

    def _encoding(self, value: bytes | None) -> Encoding:
        if not value:
            raise RecordError("empty", "the record has no value")
        return self._json if value[0] == _OBJECT else self._protobuf
