"""One span with the attributes that are needed, in the compact form in which it waits for its trace."""

from collections.abc import Callable
from typing import Any

import msgspec

AttributeValue = str | int | float | bool | list[Any] | dict[str, Any] | None


class SpanEvent(msgspec.Struct, array_like=True, frozen=True):
    """An event of a span."""

    name: str
    attributes: dict[str, Any]


class KeptSpan(msgspec.Struct, array_like=True, frozen=True):
    """A span, without the attributes that no convention needs."""

    span_id: bytes
    parent_id: bytes
    """Empty for the root span."""
    start: int
    end: int
    """Both in nanoseconds since 1970."""
    attributes: dict[str, Any]
    events: list[SpanEvent]
    resource: dict[str, Any]
    """Attributes of the resource that the configuration names."""

    @property
    def is_root(self) -> bool:
        return not self.parent_id


TraceSpan = tuple[bytes, KeptSpan]
"""A span with the id of its trace before it."""

TraceFilter = Callable[[bytes], bool] | None
"""Tells by its id whether a trace is needed; None: every trace is."""

# Zeros mean that there is no id.
_TRACE_BYTES, _SPAN_BYTES = 16, 8
_NO_TRACE, NO_SPAN = bytes(_TRACE_BYTES), bytes(_SPAN_BYTES)


class SpanCounts:
    """Counts spans that are left out when records are decoded."""

    __slots__ = ("invalid", "own", "sampled_out")

    def __init__(self) -> None:
        self.own = 0
        """Spans of Streamjury itself."""
        self.sampled_out = 0
        """Spans of traces that the sampler would not choose."""
        self.invalid = 0
        """Spans without a valid id."""

    def by_outcome(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


def is_needed(trace_id: bytes, span_id: bytes, keeps: TraceFilter, counts: SpanCounts) -> bool:
    """Return whether a span has valid ids and belongs to a trace that is needed; count it if not."""
    if len(trace_id) != _TRACE_BYTES or len(span_id) != _SPAN_BYTES or trace_id == _NO_TRACE or span_id == NO_SPAN:
        counts.invalid += 1
        return False
    if keeps is not None and not keeps(trace_id):
        counts.sampled_out += 1
        return False
    return True


pack: Callable[[KeptSpan], bytes] = msgspec.msgpack.Encoder().encode
"""Packs a span into bytes, which take a fraction of the memory."""

unpack: Callable[[bytes], KeptSpan] = msgspec.msgpack.Decoder(KeptSpan).decode
