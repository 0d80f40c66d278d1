"""The trace that an interaction belongs to, read from its `traceparent` (W3C Trace Context)."""

import re
from typing import NamedTuple

# Text after the flags belongs to later versions; version 00 has none.
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_NO_VERSION = "ff"
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16
_SAMPLED = 0x01


class TraceParent(NamedTuple):
    """The span that caused an interaction, in hexadecimal, and whether its trace was sampled."""

    trace_id: str
    span_id: str
    sampled: bool


def parse_traceparent(text: str | None) -> TraceParent | None:
    """Parse a traceparent; return None if it is missing or invalid."""
    match = _FORM.fullmatch(text or "")
    if match is None:
        return None
    version, trace, span, flags, rest = match.groups()
    if trace == _NO_TRACE or span == _NO_SPAN or version == _NO_VERSION or (version == "00" and rest):
        return None
    return TraceParent(trace_id=trace, span_id=span, sampled=bool(int(flags, 16) & _SAMPLED))
