"""The pages of a process over a real socket: metrics for Prometheus, and two answers about health."""

import re
import threading
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from sinks.web.health import Health, Report, health_routes
from sinks.web.metrics import metrics_routes
from sinks.web.server import WebServer
from tests.parts.patience import patience
from tests.sinks.web.asking import INDEX, ask, serve


class Part:
    """A part of a process whose problem the test sets."""

    def __init__(self, problem: str | None = None) -> None:
        self.problem = problem

    def __call__(self) -> str | None:
        return self.problem


class Renewable(Health):
    """Lets every test start with no parts on a shared server."""

    def __init__(self) -> None:
        super().__init__()
        self.current = Health()

    def alive(self) -> Report:
        return self.current.alive()

    def ready(self) -> Report:
        return self.current.ready()


class Served:
    def __init__(self, server: WebServer, health: Health, registry: CollectorRegistry) -> None:
        self.server = server
        self.health = health
        self.registry = registry

    def get(self, path: str, method: str = "GET", **headers: str) -> httpx.Response:
        return ask(self.server, path, method, headers=headers)


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[WebServer, Renewable, CollectorRegistry]]:
    health, registry = Renewable(), CollectorRegistry()
    with serve(*metrics_routes(registry), *health_routes(health)) as server:
        yield server, health, registry


@pytest.fixture
def served(running: tuple[WebServer, Renewable, CollectorRegistry]) -> Served:
    server, health, registry = running
    health.current = Health()
    return Served(server, health.current, registry)


def test_alive_and_ready_differ_when_only_readiness_fails(served: Served) -> None:
    served.health.add("worker", alive=Part(), ready=Part("no partitions assigned"))
    served.health.add("broker", ready=Part())
    alive, ready = served.get("/healthz"), served.get("/readyz")
    assert (alive.status_code, ready.status_code) == (200, 503)
    assert alive.json() == {"ok": True, "parts": {"worker": "ok"}}
    assert ready.json() == {"ok": False, "parts": {"worker": "no partitions assigned", "broker": "ok"}}


def test_a_part_that_is_not_alive_is_not_ready_and_both_pages_name_it(served: Served) -> None:
    served.health.add("worker", alive=Part("no progress for 61 s"), ready=Part())
    for path in ("/healthz", "/readyz"):
        answer = served.get(path)
        assert answer.status_code == 503
        assert answer.json() == {"ok": False, "parts": {"worker": "no progress for 61 s"}}


def test_health_is_checked_on_each_request(served: Served) -> None:
    broker = Part("does not answer")
    served.health.add("broker", ready=broker)
    assert served.get("/readyz").status_code == 503
    broker.problem = None
    assert served.get("/readyz").status_code == 200
    broker.problem = "gone again"
    assert served.get("/readyz").json()["parts"] == {"broker": "gone again"}


def test_a_check_that_raises_is_an_unhealthy_part(served: Served) -> None:
    def broken() -> str | None:
        raise KeyError("assignment")

    served.health.add("monitor", alive=broken)
    answer = served.get("/healthz")
    assert (answer.status_code, answer.json()["parts"]) == (503, {"monitor": "KeyError: 'assignment'"})


def test_without_parts_the_process_is_healthy(served: Served) -> None:
    assert served.get("/healthz").json() == served.get("/readyz").json() == {"ok": True, "parts": {}}


def test_health_is_json_that_is_never_cached(served: Served) -> None:
    served.health.add("broker", ready=Part("не отвечает"))
    answer = served.get("/readyz")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json()["parts"]["broker"] == "не отвечает"


def test_metrics_can_be_parsed(served: Served) -> None:
    Counter("streamjury_things", "Things.", ["kind"], registry=served.registry).labels('a"b\\c\nd').inc(3)
    answer = served.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    samples = [sample for family in text_string_to_metric_families(answer.text) for sample in family.samples]
    [total] = [sample for sample in samples if sample.name == "streamjury_things_total"]
    assert (total.value, total.labels) == (3.0, {"kind": 'a"b\\c\nd'})


@pytest.mark.parametrize("path", ["/nothing", "/metrics/x", "/healthz/", "/%2e%2e/etc/passwd"])
def test_an_unknown_path_is_not_found(served: Served, path: str) -> None:
    assert served.get(path).status_code == 404


def test_the_root_lists_the_pages(served: Served) -> None:
    answer = served.get("/")
    assert (answer.status_code, answer.text) == (200, f"{INDEX}\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_an_unknown_page_lists_the_pages(served: Served) -> None:
    answer = served.get("/nothing")
    assert (answer.status_code, answer.text) == (404, f"{INDEX}\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_a_query_does_not_matter(served: Served) -> None:
    assert served.get("/healthz?verbose=1").status_code == 200


def test_a_slow_check_blocks_no_other_request(served: Served) -> None:
    begun, release = threading.Event(), threading.Event()

    def slow() -> str | None:
        begun.set()
        release.wait(5)
        return None

    served.health.add("slow", ready=slow)
    thread = threading.Thread(target=lambda: served.get("/readyz"))
    thread.start()
    try:
        assert begun.wait(5 * patience())
        assert served.get("/healthz").status_code == 200
    finally:
        release.set()
        thread.join(5)


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz", "/readyz", "/nothing"])
def test_head_is_get_without_a_body(served: Served, path: str) -> None:
    head, get = served.get(path, "HEAD"), served.get(path)
    assert head.content == b""
    assert head.status_code == get.status_code
    for name in ("content-type", "content-length", "cache-control"):
        assert head.headers.get(name) == get.headers.get(name)


def test_head_of_metrics_shows_no_series_for_the_first_time() -> None:
    """Otherwise the next scrape would begin with the full count, and Prometheus would miss the increase."""
    registry = CollectorRegistry()
    Counter("streamjury_things", "Things.", registry=registry).inc(3)
    stored = {"Accept": "application/openmetrics-text"}
    with serve(*metrics_routes(registry)) as server:
        ask(server, "/metrics", "HEAD", headers=stored)
        first, second = (ask(server, "/metrics", headers=stored).text for _ in range(2))
    assert "streamjury_things_total 0.0\n" in first
    assert "streamjury_things_total 3.0\n" in second


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz", "/readyz"])
def test_other_methods_are_refused_with_those_that_are_allowed(served: Served, method: str, path: str) -> None:
    answer = served.get(path, method)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert answer.text == "method not allowed; use GET, HEAD\n"


def test_metrics_are_compressed_on_request(served: Served) -> None:
    plain = served.get("/metrics", **{"Accept-Encoding": "identity"})
    packed = served.get("/metrics", **{"Accept-Encoding": "br, gzip;q=0.5"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.text == plain.text


def test_some_metrics_can_be_asked_for_by_name() -> None:
    registry = CollectorRegistry()
    for name in ("one", "two", "three"):
        Counter(name, name.title(), registry=registry)
    with serve(*metrics_routes(registry)) as server:
        text = ask(server, "/metrics?name[]=one_total&name%5B%5D=two_total").text
    assert set(re.findall(r"^\w+(?= 0.0)", text, re.MULTILINE)) == {"one_total", "two_total"}


def test_an_accept_header_in_two_lines_is_one(served: Served) -> None:
    headers = [("Accept", "text/html"), ("Accept", "application/openmetrics-text")]
    answer = ask(served.server, "/metrics", headers=headers)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")


def test_the_server_does_not_name_its_software(served: Served) -> None:
    assert {served.get(path).headers["server"] for path in ("/", "/metrics", "/healthz", "/nothing")} == {"streamjury"}
