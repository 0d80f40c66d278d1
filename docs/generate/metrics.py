"""The page with all metrics, written from the metrics themselves."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from sinks.metrics import (
    ArchiveMetrics,
    AssemblerMetrics,
    DetectionMetrics,
    PipelineMetrics,
    SamplingMetrics,
    ScoreMetrics,
)
from sinks.metrics.budgets import BudgetMetrics
from sinks.metrics.detection import AgreementMetrics, CanaryMetrics, CorrectionMetrics, VersionMetrics
from sinks.metrics.endpoints import EndpointMetrics
from sinks.metrics.processes import RestartMetrics
from sinks.metrics.sinks import SinkMetrics

_HEAD = """\
# All metrics

<!-- Written by `make reference`. -->

All metrics on `/metrics`, by process. [Metrics](../metrics.md) explains them, and how to query means, intervals and
coverage.
"""

_SECTIONS = {
    "Assemblers": AssemblerMetrics,
    "Samplers": SamplingMetrics,
    "Samplers, workers and monitors": PipelineMetrics,
    "Workers whose judges ask endpoints": EndpointMetrics,
    "Workers with budgets": BudgetMetrics,
    "Workers with sinks": SinkMetrics,
    "Archivists": ArchiveMetrics,
    "Workers of several processes": RestartMetrics,
    "Monitors": ScoreMetrics,
    "Monitors that watch for drops": DetectionMetrics,
    "Monitors with canaries": CanaryMetrics,
    "Monitors that compare models": VersionMetrics,
    "Monitors that read labels": CorrectionMetrics,
    "Monitors that compare judges with labels": AgreementMetrics,
}


class _ListingRegistry(CollectorRegistry):
    """Remembers what was registered, in that order."""

    def __init__(self) -> None:
        super().__init__()
        self.metrics: list[MetricWrapperBase] = []

    def register(self, collector: object) -> None:
        assert isinstance(collector, MetricWrapperBase)
        self.metrics.append(collector)


def page() -> str:
    """The whole page, as Markdown."""
    return "\n".join([_HEAD, *(part for title, made in _SECTIONS.items() for part in _section(title, made))])


def _section(title: str, made: type) -> Iterator[str]:
    listing = _ListingRegistry()
    made(listing)
    yield f"## {title}\n\n| metric | type | labels | what it says |\n| --- | --- | --- | --- |"
    yield from map(_row, listing.metrics)
    yield ""


def _row(metric: MetricWrapperBase) -> str:
    [family] = metric.describe()
    name = f"{family.name}_total" if family.type == "counter" else family.name
    # Nothing public tells the labels of a metric that has no series yet.
    labels = ", ".join(metric._labelnames)
    return f"| `{name}` | {family.type} | {labels} | {family.documentation} |"
