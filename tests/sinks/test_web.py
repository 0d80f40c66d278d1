"""The web server over a real socket: metrics for Prometheus, and two answers about health that can differ."""

import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from sinks.health import Health, Report
from sinks.web import WebServer


class Part:
    """A part of a process whose problem is set by hand."""

    def __init__(self, problem: str | None = None) -> None:
        self.problem = problem

    def __call__(self) -> str | None:
        return self.problem


class Renewable(Health):
    """Lets every test begin with no parts on a server that all share: ending one takes half a second."""

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

    def get(self, path: str) -> httpx.Response:
        # No proxy of the environment may stand between us and loopback.
        return httpx.get(self.server.url + path, trust_env=False, timeout=5)


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[WebServer, Renewable, CollectorRegistry]]:
    health, registry = Renewable(), CollectorRegistry()
    with WebServer(registry, health, host="127.0.0.1", port=0) as server:
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


def test_what_is_not_alive_is_not_ready_either_and_both_name_the_part(served: Served) -> None:
    served.health.add("worker", alive=Part("has not moved for 61 s"), ready=Part())
    for path in ("/healthz", "/readyz"):
        answer = served.get(path)
        assert answer.status_code == 503
        assert answer.json() == {"ok": False, "parts": {"worker": "has not moved for 61 s"}}


def test_health_is_asked_anew_each_time(served: Served) -> None:
    broker = Part("does not answer")
    served.health.add("broker", ready=broker)
    assert served.get("/readyz").status_code == 503
    broker.problem = None
    assert served.get("/readyz").status_code == 200
    broker.problem = "gone again"
    assert served.get("/readyz").json()["parts"] == {"broker": "gone again"}


def test_a_check_that_breaks_is_a_part_that_is_not_well(served: Served) -> None:
    def broken() -> str | None:
        raise KeyError("assignment")

    served.health.add("monitor", alive=broken)
    answer = served.get("/healthz")
    assert (answer.status_code, answer.json()["parts"]) == (503, {"monitor": "KeyError: 'assignment'"})


def test_without_parts_all_is_well(served: Served) -> None:
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


def test_the_root_says_what_there_is(served: Served) -> None:
    answer = served.get("/")
    assert answer.status_code == 200
    assert "/metrics /healthz /readyz" in answer.text


def test_a_query_does_not_matter(served: Served) -> None:
    assert served.get("/healthz?verbose=1").status_code == 200


def test_a_client_that_says_nothing_holds_up_nobody(served: Served) -> None:
    host, port = served.server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5):
        assert served.get("/healthz").status_code == 200


def test_a_slow_check_holds_up_nobody_else(served: Served) -> None:
    begun, release = threading.Event(), threading.Event()

    def slow() -> str | None:
        begun.set()
        release.wait(5)
        return None

    served.health.add("slow", ready=slow)
    thread = threading.Thread(target=lambda: served.get("/readyz"))
    thread.start()
    try:
        assert begun.wait(5)
        assert served.get("/healthz").status_code == 200
    finally:
        release.set()
        thread.join(5)


def test_a_request_that_is_no_http_harms_nothing(served: Served) -> None:
    host, port = served.server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00 not http at all\r\n\r\n")
        connection.recv(1000)
    assert served.get("/healthz").status_code == 200


def test_a_port_in_use_is_an_os_error(served: Served) -> None:
    port = int(served.server.url.rsplit(":", 1)[1])
    with pytest.raises(OSError, match="in use"):
        WebServer(CollectorRegistry(), Health(), host="127.0.0.1", port=port)
    assert served.get("/healthz").status_code == 200


def test_after_the_end_of_the_block_the_port_is_free_again() -> None:
    with WebServer(CollectorRegistry(), Health(), host="127.0.0.1", port=0) as server:
        port = int(server.url.rsplit(":", 1)[1])
    with WebServer(CollectorRegistry(), Health(), host="127.0.0.1", port=port) as again:
        assert httpx.get(again.url, trust_env=False).status_code == 200
