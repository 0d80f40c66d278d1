"""Metrics of sinks: outcomes of evaluations, and the number of waiting ones."""

from collections.abc import Callable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge

from sinks.metrics import names


class Delivery(StrEnum):
    """The outcome of an evaluation in a sink."""

    WRITTEN = "written"
    DROPPED = "dropped"
    """The queue was full, or the process stopped before its turn."""
    FAILED = "failed"
    """The sink refused it."""


class SinkMetrics:
    """Created if there are sinks: a process without sinks has no such metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._evaluations = Counter(
            names.SINK_EVALUATIONS,
            "Evaluations given to a sink, by outcome.",
            ["sink", "outcome"],
            registry=registry,
        )
        self._queue = Gauge(names.SINK_QUEUE, "Evaluations waiting for a sink.", ["sink"], registry=registry)

    def add(self, sink: str, waiting: Callable[[], int]) -> None:
        """Show a sink from its start, so that its first loss is an increase and not a new series."""
        for outcome in Delivery:
            self._evaluations.labels(sink, outcome.value)
        self._queue.labels(sink).set_function(waiting)

    def count(self, sink: str, outcome: Delivery, number: int) -> None:
        self._evaluations.labels(sink, outcome.value).inc(number)
