"""Exemplars: link a number in a histogram to the trace of an interaction behind it."""

from judges.values.evaluation import Evaluation
from sinks.telemetry.traceparent import parse_traceparent


def exemplar_of(evaluation: Evaluation) -> dict[str, str] | None:
    """Return the labels of an exemplar, or None if the interaction has no trace."""
    trace = parse_traceparent(evaluation.traceparent)
    return None if trace is None else {"trace_id": trace.trace_id}
