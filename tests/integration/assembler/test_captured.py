"""The captured spans of instrumented LangChain and LlamaIndex: each convention gives the same interaction."""

import json
from pathlib import Path
from typing import Any

import pytest

from stream.assembler.assembling import AssembledTrace, Assembling, TraceOutcome
from stream.assembler.otlp.decoding import SpanDecoder
from stream.assembler.otlp.filtering import AttributeFilter
from stream.assembler.otlp.spans import SpanCounts
from stream.config.sections.otlp import OtlpConfig
from tests.parts.otel.services import ALL, Run, expected_record

CAPTURED = Path(__file__).parent / "captured"
OF_THE_TRACE = ("id", "timestamp", "traceparent")


def assemble(requests: list[dict[str, Any]]) -> AssembledTrace:
    config = OtlpConfig()
    decoder = SpanDecoder(AttributeFilter(config), None)
    spans = [span for request in requests for span in decoder.read(json.dumps(request).encode(), SpanCounts())]
    [trace_id] = {trace_id for trace_id, _span in spans}
    return Assembling(config).assemble(trace_id, [span for _trace_id, span in spans])


@pytest.mark.parametrize("run", ALL, ids=lambda run: run.name)
def test_captured_spans_give_the_same_interaction_in_every_convention(run: Run) -> None:
    outcome, record = assemble(json.loads((CAPTURED / f"{run.name}.json").read_text(encoding="utf-8")))
    expected = expected_record(run)
    if expected is None:
        assert (outcome, record) == (TraceOutcome.NO_ANSWER, None)
        return
    assert outcome is TraceOutcome.ASSEMBLED
    assert record is not None
    assert {name: value for name, value in json.loads(record).items() if name not in OF_THE_TRACE} == expected


def test_every_captured_file_belongs_to_a_pipeline() -> None:
    assert {path.stem for path in CAPTURED.iterdir()} == {run.name for run in ALL}
