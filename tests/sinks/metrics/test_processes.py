"""Metrics of several processes on one page."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from sinks.metrics.processes import ProcessSeries, RestartMetrics
from sinks.metrics.scrape import MetricsPage
from sinks.web.metrics import metrics_routes
from sinks.web.routes import Request

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


class Process:
    """A registry as in a worker's process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.records = Counter("streamjury_records", "Records.", ["outcome"], registry=self.registry)
        self.lag = Gauge("streamjury_lag", "Waiting.", registry=self.registry)
        self.seconds = Histogram("streamjury_seconds", "Time.", buckets=(1.0,), registry=self.registry)

    def collect(self) -> list[Metric]:
        return list(self.registry.collect())


@pytest.fixture
def processes() -> dict[str, Process]:
    return {"worker-1": Process(), "worker-2": Process()}


@pytest.fixture
def registry(processes: dict[str, Process]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(ProcessSeries(lambda: {name: process.collect() for name, process in processes.items()}))
    return registry


def test_every_series_of_each_process_is_there_and_adds_up(
    processes: dict[str, Process], registry: CollectorRegistry
) -> None:
    processes["worker-1"].records.labels("scored").inc(3)
    processes["worker-2"].records.labels("scored").inc(4)
    processes["worker-1"].lag.set(10)
    processes["worker-2"].lag.set(5)
    counts = {
        name: registry.get_sample_value("streamjury_records_total", {"outcome": "scored", "process": name})
        for name in processes
    }
    assert counts == {"worker-1": 3, "worker-2": 4}
    assert registry.get_sample_value("streamjury_lag", {"process": "worker-2"}) == 5
    families = [metric.name for metric in registry.collect()]
    assert len(families) == len(set(families)), "a family that comes twice is no valid page"


def test_an_exemplar_stays_with_the_series_of_its_process(
    processes: dict[str, Process], registry: CollectorRegistry
) -> None:
    processes["worker-2"].seconds.observe(0.5, {"trace_id": "abc"})
    page = MetricsPage(registry)
    page.expose(accept=OPEN_METRICS)  # new series are shown as 0 the first time
    text = page.expose(accept=OPEN_METRICS).body.decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    [marked] = [sample for sample in samples if sample.exemplar is not None]
    assert marked.labels == {"process": "worker-2", "le": "1.0"}
    assert marked.exemplar is not None
    assert marked.exemplar.labels == {"trace_id": "abc"}


def test_the_counters_of_a_restarted_process_begin_at_0_and_the_others_continue(
    processes: dict[str, Process], registry: CollectorRegistry
) -> None:
    """A sum over processes would fall here, and Prometheus would count the other process twice."""
    page = MetricsPage(registry)

    def published_values() -> dict[str, float]:
        families = text_string_to_metric_families(page.expose(accept=OPEN_METRICS).body.decode())
        samples = [sample for family in families for sample in family.samples]
        return {s.labels["process"]: s.value for s in samples if s.name == "streamjury_records_total"}

    for process in processes.values():
        process.records.labels("scored").inc(100)
    assert published_values() == {"worker-1": 0, "worker-2": 0}
    assert published_values() == {"worker-1": 100, "worker-2": 100}
    stopped = processes.pop("worker-1")
    assert published_values() == {"worker-2": 100}
    processes["worker-1"] = Process()
    processes["worker-1"].records.labels("scored").inc(150)
    assert published_values() == {"worker-2": 100, "worker-1": 0}
    assert published_values() == {"worker-2": 100, "worker-1": 150}
    assert stopped.registry is not processes["worker-1"].registry


def test_a_scrape_of_some_names_works_on_the_page_of_several_processes(
    processes: dict[str, Process], registry: CollectorRegistry
) -> None:
    [route] = metrics_routes(registry)
    query = {"name[]": ["streamjury_lag"]}
    reply = route.handler(Request(method="GET", path="/metrics", headers={}, query=query, variables={}, body=b""))
    lines = [line for line in reply.body.decode().splitlines() if not line.startswith("#")]
    assert lines == ['streamjury_lag{process="worker-1"} 0.0', 'streamjury_lag{process="worker-2"} 0.0']


def test_restarts_are_counted_from_0() -> None:
    registry = CollectorRegistry()
    restarts = RestartMetrics(registry)
    restarts.add("worker-1")
    assert registry.get_sample_value("streamjury_process_restarts_total", {"process": "worker-1"}) == 0
    restarts.count("worker-1")
    assert registry.get_sample_value("streamjury_process_restarts_total", {"process": "worker-1"}) == 1
