"""The names under which people may label an interaction."""

from collections.abc import Iterator

from judges.values.evaluation import Evaluation
from sinks.telemetry.traceparent import parse_traceparent


def trace_id_of(evaluation: Evaluation) -> str | None:
    """Return the id of the trace that an interaction belongs to; None without one."""
    parent = parse_traceparent(evaluation.traceparent)
    return None if parent is None else parent.trace_id


def label_names(evaluation: Evaluation) -> Iterator[str]:
    """Yield the ids under which an interaction may be labelled: its own, and that of its trace."""
    yield evaluation.interaction_id
    trace_id = trace_id_of(evaluation)
    if trace_id is not None:
        yield trace_id
