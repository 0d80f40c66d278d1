"""Metrics of several processes on one page: every series of each, distinguished by the label `process`.

Sums would be wrong for most of them. A summed counter falls when a process ends; Prometheus takes that for a reset,
and counts the values of the other processes as an increase. Some gauges add up and others do not. Exemplars belong to
one series. With the label, each series is the same as if its process were scraped alone, and the counters of a
restarted process are ordinary counter resets.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Metric
from prometheus_client.registry import Collector

from sinks.metrics import names

PROCESS = "process"
"""The label; our own metrics do not use it."""


class ProcessSeries(Collector):
    """All series of several processes, requested at each collection."""

    def __init__(self, gather: Callable[[], Mapping[str, Sequence[Metric]]]) -> None:
        """Take `gather`, which returns the metrics of each process that answers, by process name."""
        self._gather = gather

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for process, metrics in self._gather().items():
            for metric in metrics:
                family = families.setdefault(
                    metric.name, Metric(metric.name, metric.documentation, metric.type, metric.unit)
                )
                family.samples += [
                    sample._replace(labels={**sample.labels, PROCESS: process}) for sample in metric.samples
                ]
        yield from families.values()


class RestartMetrics:
    """Counts restarts of processes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._restarts = Counter(
            names.PROCESS_RESTARTS,
            "Processes of a worker that ended by themselves and were started again.",
            [PROCESS],
            registry=registry,
        )

    def add(self, process: str) -> None:
        """Show a process from its start, so that its first restart is an increase and not a new series."""
        self._restarts.labels(process)

    def count(self, process: str) -> None:
        self._restarts.labels(process).inc()
