"""Scrapes of `/metrics` by Prometheus and by people: both formats are valid."""

import json
import random
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from shutil import which
from urllib.parse import parse_qs

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, Summary
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from prometheus_client.samples import Sample

from sinks.metrics import FrequentLabel, Outcome
from sinks.metrics.scores import OptIn
from sinks.metrics.scrape import ScrapeView, ShownSeries
from sinks.web.metrics import metrics_routes
from sinks.web.routes import Request
from sinks.web.server import WebServer
from tests.parts import local_http
from tests.parts.patience import patience
from tests.parts.promtool import failures_of
from tests.parts.required import unavailable
from tests.sinks.metrics.measured import TRACE, TRACEPARENT, Scraped, dimension, evaluation, everything, large

# Accept headers of Prometheus 2.42 and 3.0.
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


class Served:
    """A registry behind its `/metrics` page."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def get(self, accept: str = "*/*", query: str = "") -> httpx.Response:
        return self._client.get(f"/metrics{query}", headers={"accept": accept}).raise_for_status()

    def read_as_prometheus(self, accept: str = PROMETHEUS, query: str = "") -> list[Metric]:
        """Return the metrics as Prometheus reads them."""
        answer = self.get(accept, query)
        assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        return list(read_open_metrics(answer.text))  # type: ignore[no-untyped-call]

    def read_as_curl(self) -> list[Metric]:
        """Return the metrics as curl gets them."""
        answer = self.get()
        assert answer.headers["content-type"].startswith("text/plain; version=")
        return list(read_text(answer.text))


def serve(registry: CollectorRegistry) -> Served:
    """Serve without a socket: requests go straight to the handler of the page."""
    [route] = metrics_routes(registry)

    def answer(request: httpx.Request) -> httpx.Response:
        query = parse_qs(request.url.query.decode())
        asked = Request(method="GET", path="/metrics", headers=request.headers, query=query, variables={}, body=b"")
        reply = route.handler(asked)
        return httpx.Response(
            reply.status, content=reply.body, headers={"Content-Type": reply.content_type, **reply.headers}
        )

    return Served(httpx.Client(transport=httpx.MockTransport(answer), base_url="http://127.0.0.1"))


@contextmanager
def serve_on_a_socket(registry: CollectorRegistry) -> Iterator[Served]:
    with (
        WebServer(metrics_routes(registry), index="", host="127.0.0.1", port=0) as server,
        local_http.client(base_url=server.url, timeout=10 * patience()) as client,
    ):
        yield Served(client)


def values(metrics: list[Metric]) -> dict[str, float]:
    return {series_name(sample): sample.value for metric in metrics for sample in metric.samples}


def series_name(sample: Sample) -> str:
    return f"{sample.name}{dict(sorted(sample.labels.items()))}"


def view(registry: CollectorRegistry, shown_series: ShownSeries | None = None) -> list[Metric]:
    return list(ScrapeView(registry, shown_series).collect())


# New series


@pytest.mark.parametrize("accept", [PROMETHEUS, PROMETHEUS_3, "application/openmetrics-text"])
def test_counters_are_0_in_the_first_scrape_and_correct_in_the_second(accept: str) -> None:
    scraped = everything()
    served = serve(scraped.registry)
    truth = values(view(scraped.registry))
    counted = {
        series_name(sample)
        for metric in view(scraped.registry)
        for sample in metric.samples
        if metric.type in {"counter", "histogram", "summary"}
    }
    first, second = values(served.read_as_prometheus(accept)), values(served.read_as_prometheus(accept))
    assert first == {name: 0.0 if name in counted else value for name, value in truth.items()}
    assert second == truth
    assert any(truth[name] for name in counted)


def test_a_series_that_is_born_later_begins_at_0_and_the_others_go_on() -> None:
    """The first unsafe answer of an app shows as an increase."""
    registry = CollectorRegistry()
    incidents = Counter("incidents", "Incidents.", ["app"], registry=registry)
    served = serve(registry)
    incidents.labels("shop").inc(3)
    served.read_as_prometheus()
    incidents.labels("shop").inc()
    incidents.labels("bank").inc()
    shop, bank = "incidents_total{'app': 'shop'}", "incidents_total{'app': 'bank'}"
    assert values(served.read_as_prometheus()) == {shop: 4.0, bank: 0.0}
    incidents.labels("bank").inc(2)
    assert values(served.read_as_prometheus()) == {shop: 4.0, bank: 3.0}


def test_a_new_histogram_is_0_as_a_whole_and_gauges_are_as_they_are() -> None:
    registry = CollectorRegistry()
    Histogram("seconds", "Time.", buckets=(1.0, 2.0), registry=registry).observe(1.5)
    Summary("agreement", "Agreement.", registry=registry).observe(0.5)
    Gauge("lag", "Lag.", registry=registry).set(7)
    served = serve(registry)
    assert set(values(served.read_as_prometheus()).values()) == {0.0, 7.0}
    assert values(served.read_as_prometheus()) == {
        "seconds_bucket{'le': '1.0'}": 0.0,
        "seconds_bucket{'le': '2.0'}": 1.0,
        "seconds_bucket{'le': '+Inf'}": 1.0,
        "seconds_count{}": 1.0,
        "seconds_sum{}": 1.5,
        "agreement_count{}": 1.0,
        "agreement_sum{}": 0.5,
        "lag{}": 7.0,
    }


@pytest.mark.parametrize("accept", ["*/*", "", "text/plain", "text/html,application/xhtml+xml,*/*;q=0.8"])
def test_the_text_format_is_never_0_and_takes_nothing_from_prometheus(accept: str) -> None:
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc(5)
    served = serve(registry)
    for _ in range(2):
        assert "\nthings_total 5.0\n" in served.get(accept).text
    assert values(served.read_as_prometheus()) == {"things_total{}": 0.0}
    assert "\nthings_total 5.0\n" in served.get(accept).text
    assert values(served.read_as_prometheus()) == {"things_total{}": 5.0}


def test_a_scrape_of_some_names_counts_for_these_only() -> None:
    registry = CollectorRegistry()
    for name in ("one", "two"):
        Counter(name, f"{name.title()}.", registry=registry).inc(5)
    served = serve(registry)
    assert values(served.read_as_prometheus(query="?name[]=one_total")) == {"one_total{}": 0.0}
    assert values(served.read_as_prometheus()) == {"one_total{}": 5.0, "two_total{}": 0.0}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(min_value=0, max_value=9)) | st.none(), max_size=40))
def test_the_increases_between_scrapes_are_all_that_was_counted(events: list[tuple[str, int] | None]) -> None:
    """None stands for a scrape. Counts that a first scrape shows above 0 would be missing from the sum of increases."""
    registry, shown_series = CollectorRegistry(), ShownSeries()
    counter = Counter("things", "Things.", ["kind"], registry=registry)
    last: dict[str, float] = {}
    grown = 0.0
    for event in [*events, None, None]:
        if event is not None:
            counter.labels(event[0]).inc(event[1])
            continue
        now = values(view(registry, shown_series))
        grown += sum(value - last.get(name, value) for name, value in now.items())
        assert all(value >= last.get(name, 0.0) for name, value in now.items()), "nothing looks like a restart"
        last = now
    assert grown == sum(event[1] for event in events if event is not None)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(min_value=1, max_value=9)) | st.sampled_from(["scrape", *"abc"]),
        max_size=40,
    )
)
def test_increases_are_complete_over_series_that_are_removed_and_come_back(events: list[tuple[str, int] | str]) -> None:
    """A letter alone removes its series after two scrapes, as when a label loses its place.

    Increases are computed as Prometheus does: a value below the last one means that the counter was reset.
    """
    registry, shown_series = CollectorRegistry(), ShownSeries()
    counter = Counter("things", "Things.", ["kind"], registry=registry)
    last: dict[str, float] = {}
    grown = 0.0

    def scrape() -> None:
        nonlocal grown
        for name, value in values(view(registry, shown_series)).items():
            if name in last:
                grown += value - last[name] if value >= last[name] else value
            last[name] = value

    for event in events:
        if isinstance(event, tuple):
            counter.labels(event[0]).inc(event[1])
        elif event == "scrape":
            scrape()
        else:
            scrape()
            scrape()
            counter.remove_by_labels({"kind": event})
    scrape()
    scrape()
    assert grown == sum(event[1] for event in events if isinstance(event, tuple))
    assert len(shown_series._series) == len(values(view(registry))), "removed series are forgotten"


def test_prometheus_computes_complete_increases_for_an_app_whose_label_comes_and_goes(tmp_path: Path) -> None:
    """One scrape a minute: shop loses its label to bank, its series are removed, and it gets the label back."""
    now = 0.0
    registry = CollectorRegistry()
    label = FrequentLabel(1, free_after=1, clock=lambda: now)
    counter = Counter("things", "Things.", ["app"], registry=registry)
    label.attach("app", counter)
    served, scrapes = serve(registry), list[dict[str, float]]()
    minutes = [("shop", 10)] * 3 + [("bank", 40)] * 9 + [("shop", 900)] * 3 + [("shop", 0)] * 2
    for app, number in minutes:
        for _ in range(number):
            counter.labels(label.count(app)).inc()
        scrapes.append(
            {sample.labels["app"]: sample.value for metric in served.read_as_prometheus() for sample in metric.samples}
        )
        now += 60.0
    series = {app: " ".join(_values(app, scrapes)) for app in ("shop", "bank", "other")}
    assert re.search(r"stale( _)* 0 \d+", series["shop"]), "it was removed, and begins at 0"
    case = {
        "interval": "1m",
        "input_series": [
            {"series": f'things_total{{app="{app}"}}', "values": values} for app, values in series.items()
        ],
        "promql_expr_test": [
            {
                "expr": "round(sum(increase(things_total[17m])))",
                "eval_time": "16m",
                "exp_samples": [{"labels": "{}", "value": sum(number for _, number in minutes)}],
            }
        ],
    }
    file = tmp_path / "increase.yml"
    file.write_text(json.dumps({"evaluation_interval": "1m", "tests": [case]}))
    assert failures_of(file) == ""


def _values(app: str, scrapes: list[dict[str, float]]) -> Iterator[str]:
    """Return a series in promtool's notation; Prometheus marks the first scrape that lacks it."""
    for before, now in pairwise([{}, *scrapes]):
        yield f"{now[app]:g}" if app in now else "stale" if app in before else "_"


def test_exactly_one_of_several_concurrent_scrapers_sees_0() -> None:
    registry, shown_series = CollectorRegistry(), ShownSeries()
    counter = Counter("things", "Things.", ["kind"], registry=registry)
    for kind in range(200):
        counter.labels(kind).inc()
    start = threading.Barrier(4)
    scrapes: list[dict[str, float]] = []

    def scrape() -> None:
        start.wait()
        scrapes.append(values(view(registry, shown_series)))

    threads = [threading.Thread(target=scrape) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in scrapes[0]:
        assert sorted(scraped[name] for scraped in scrapes) == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("accept", ["application/openmetrics-text;version=abc", "text/plain;version=x.y"])
def test_an_unknown_version_gets_the_text_format(accept: str) -> None:
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc(5)
    assert "\nthings_total 5.0\n" in serve(registry).get(accept).text


# Exemplars


def test_exemplars_lead_to_the_trace_and_come_in_openmetrics_only() -> None:
    scraped = everything()
    served = serve(scraped.registry)
    served.read_as_prometheus()
    exemplars = {
        sample.name: sample.exemplar.labels
        for metric in served.read_as_prometheus()
        for sample in metric.samples
        if sample.exemplar is not None
    }
    assert exemplars == {
        "streamjury_score_bucket": {"trace_id": TRACE},
        "streamjury_evaluation_seconds_bucket": {"trace_id": TRACE},
    }
    assert "trace_id" not in served.get().text


def test_the_exemplar_is_in_the_bucket_of_the_score() -> None:
    scraped = Scraped()
    served = serve(scraped.registry)
    scraped.scores.write([evaluation(0.15, traceparent=TRACEPARENT)])
    scraped.scores.write([evaluation(0.95)])
    served.read_as_prometheus()
    [bucket] = [sample for metric in served.read_as_prometheus() for sample in metric.samples if sample.exemplar]
    assert bucket.exemplar is not None
    assert (bucket.labels["le"], bucket.exemplar.value) == ("0.3", 0.15)


@pytest.mark.parametrize("traceparent", [None, "", "nonsense", f"00-{'0' * 32}-00f067aa0ba902b7-01", TRACEPARENT[:-1]])
def test_without_a_valid_traceparent_there_is_no_exemplar(traceparent: str | None) -> None:
    scraped = Scraped()
    judged = evaluation(0.5, traceparent=traceparent)
    scraped.scores.write([judged])
    scraped.pipeline.count_evaluation(judged)
    assert not any(sample.exemplar for metric in scraped.registry.collect() for sample in metric.samples)
    assert scraped("score_count", app="shop") == scraped("evaluation_seconds_count") == 1


# All of it


def test_both_formats_agree_over_a_socket_and_neither_shows_creation_times() -> None:
    with serve_on_a_socket(everything(labels=("model", "tenant")).registry) as served:
        served.read_as_prometheus()
        read_as_prometheus, read_as_curl = values(served.read_as_prometheus()), values(served.read_as_curl())
    assert read_as_prometheus == read_as_curl
    assert not any("_created" in name for name in read_as_prometheus)


def test_a_large_installation_has_at_most_2200_series() -> None:
    """20 apps, 6 criteria (sufficiency among them), 3 judges and 3 sampling rules, with every possible event."""
    assert 1500 < large(apps=20, judges=3, criteria=6) <= 2200


def test_awkward_names_of_apps_can_be_read_back() -> None:
    scraped = Scraped()
    names = ['a"b', "c\\d", "e f", "г", "{}", "g,h=i", " "]
    for name in random.sample(names, len(names)):
        scraped.scores.write([evaluation(app=name)])
    served = serve(scraped.registry)
    for metrics in (served.read_as_prometheus(), served.read_as_curl()):
        samples = [sample for metric in metrics for sample in metric.samples]
        assert {sample.labels["app"] for sample in samples if "app" in sample.labels} == set(names)


@pytest.mark.slow
def test_no_name_of_the_traffic_steers_a_terminal_or_fills_the_page() -> None:
    scraped = Scraped(labels=("model", "tenant"))
    hostile = "a\x1b[2J\x9b31m\u202eb\u2066\x00" + "x" * 100_000
    for index in range(60):
        scraped.scores.write(
            [
                evaluation(app=f"{hostile}{index}", model=hostile, tenant=hostile),
                evaluation(app=None, dimensions={f"{hostile}{index}": dimension(0.5)}),
            ]
        )
        scraped.sampling.count("all", f"{hostile}{index}", Outcome.SAMPLED, 1)
        scraped.detection.show(
            f"{hostile}{index}",
            hostile,
            evidence=1.0,
            enough=4.0,
            mean=0.5,
            low=0.4,
            high=0.6,
            target=0.7,
            raised=True,
        )
    text = serve(scraped.registry).get().text
    assert all(line.isprintable() for line in text.splitlines())
    assert r"a\\x1b[2J\\x9b31m\\u202eb\\u2066\\x00xxx" in text
    assert max(map(len, text.splitlines())) < 2000


@pytest.mark.parametrize("labels", [(), ("model", "tenant")])
def test_the_page_passes_promtool(labels: tuple[OptIn, ...]) -> None:
    if which("promtool") is None:
        unavailable("promtool is not installed; it comes with Prometheus")
    with serve_on_a_socket(everything(labels=labels).registry) as served:
        text = served.get().content
        process = subprocess.run(
            ["promtool", "check", "metrics"], input=text, capture_output=True, check=False, timeout=60 * patience()
        )
        assert (process.returncode, process.stdout, process.stderr) == (0, b"", b"")
