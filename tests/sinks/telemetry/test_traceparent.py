"""Parsing of valid and invalid traceparent headers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.telemetry.traceparent import TraceParent, parse_traceparent

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)])
def test_its_parts_are_read(flags: str, sampled: bool) -> None:
    parent = parse_traceparent(f"00-{TRACE}-{SPAN}-{flags}")
    assert parent == TraceParent(trace_id=TRACE, span_id=SPAN, sampled=sampled)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        TRACE,
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}0-01",
        f"00-{'g' * 32}-{SPAN}-01",
        f"00-{'٣' * 32}-{SPAN}-01",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"01-{TRACE}-{SPAN}-01more",
    ],
)
def test_an_invalid_traceparent_is_none(text: str | None) -> None:
    assert parse_traceparent(text) is None


def test_the_known_parts_of_a_later_version_are_read() -> None:
    assert parse_traceparent(f"01-{TRACE}-{SPAN}-01-what-ever") == TraceParent(TRACE, SPAN, True)


@given(st.text(max_size=80) | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{30,34}-[0-9a-f]{14,18}-[0-9a-f]{2}.{0,2}"))
def test_no_input_raises_and_results_are_hexadecimal(text: str) -> None:
    parent = parse_traceparent(text)
    assert parent is None or (len(parent.trace_id), len(parent.span_id)) == (32, 16)
    assert parent is None or int(parent.trace_id, 16) * int(parent.span_id, 16) > 0
