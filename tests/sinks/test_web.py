"""The web server over a real socket: metrics for Prometheus, two answers about health, and who is let in."""

import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families
from sinks.health import Health, Report

from sinks.web import CertificateError, WebServer, server_tls
from tests.parts import certificates


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


# The token

TOKEN = "s3cret-tökén"


@pytest.fixture(scope="module")
def guarded() -> Iterator[WebServer]:
    with WebServer(CollectorRegistry(), Health(), host="127.0.0.1", port=0, token=TOKEN) as server:
        yield server


def ask(server: WebServer, path: str, authorization: str | None) -> httpx.Response:
    headers = {} if authorization is None else {b"Authorization": authorization.encode()}
    return httpx.get(server.url + path, headers=headers, trust_env=False, timeout=5)


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN.upper()}",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer{TOKEN}",
    ],
)
@pytest.mark.parametrize("path", ["/metrics", "/", "/nothing", "/healthz/", "/metrics?x=/healthz"])
def test_without_the_token_only_health_is_shown(guarded: WebServer, path: str, authorization: str | None) -> None:
    answer = ask(guarded, path, authorization)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="streamjury"'
    assert "/healthz" not in answer.text
    assert TOKEN not in answer.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_with_the_token_metrics_are_shown(guarded: WebServer, scheme: str) -> None:
    assert ask(guarded, "/metrics", f"{scheme} {TOKEN}").status_code == 200
    assert ask(guarded, "/nothing", f"{scheme} {TOKEN}").status_code == 404


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_needs_no_token(guarded: WebServer, path: str) -> None:
    assert ask(guarded, path, None).status_code == 200
    assert ask(guarded, path, "Bearer wrong").status_code == 200


def test_two_authorizations_are_no_token(guarded: WebServer) -> None:
    headers = [(b"Authorization", b"Bearer wrong"), (b"Authorization", f"Bearer {TOKEN}".encode())]
    assert httpx.get(guarded.url + "/metrics", headers=headers, trust_env=False).status_code == 401


# TLS


@pytest.fixture(scope="module")
def pair(authority: certificates.Authority) -> tuple[Path, Path]:
    return authority.sign("server")


@pytest.fixture(scope="module")
def secure(pair: tuple[Path, Path]) -> Iterator[WebServer]:
    tls = server_tls(str(pair[0]), str(pair[1]))
    with WebServer(CollectorRegistry(), Health(), host="127.0.0.1", port=0, token=TOKEN, tls=tls) as server:
        yield server


def trusting(authority: certificates.Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.certificate)


def over_tls(server: WebServer, authority: certificates.Authority, path: str) -> httpx.Response:
    headers = {b"Authorization": f"Bearer {TOKEN}".encode()}
    return httpx.get(server.url + path, headers=headers, verify=trusting(authority), trust_env=False, timeout=5)


def address(server: WebServer) -> tuple[str, int]:
    host, port = server.url.removeprefix("https://").split(":")
    return host, int(port)


def test_with_a_certificate_it_serves_https(secure: WebServer, authority: certificates.Authority) -> None:
    assert secure.url.startswith("https://127.0.0.1:")
    assert over_tls(secure, authority, "/metrics").status_code == 200
    assert over_tls(secure, authority, "/healthz").json() == {"ok": True, "parts": {}}


def test_a_client_that_does_not_trust_the_certificate_is_not_served(secure: WebServer) -> None:
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(secure.url + "/healthz", verify=ssl.create_default_context(), trust_env=False)


def test_a_client_without_tls_gets_no_page_and_leaves_no_trace(
    secure: WebServer, authority: certificates.Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), pytest.raises(httpx.HTTPError):
        httpx.get(secure.url.replace("https", "http") + "/healthz", trust_env=False, timeout=5)
    assert over_tls(secure, authority, "/healthz").status_code == 200
    assert not [record for record in caplog.records if record.name == "sinks.web"]


def test_clients_that_do_not_finish_their_handshake_hold_up_nobody(
    secure: WebServer, authority: certificates.Authority
) -> None:
    with (
        socket.create_connection(address(secure), timeout=5) as silent,
        socket.create_connection(address(secure), timeout=5) as slow,
    ):
        slow.sendall(b"\x16\x03\x01\x02\x00")  # the beginning of a handshake
        assert over_tls(secure, authority, "/healthz").status_code == 200
        assert silent.fileno() > 0


def test_old_versions_of_tls_are_refused(secure: WebServer, authority: certificates.Authority) -> None:
    context = trusting(authority)
    assert context.maximum_version is ssl.TLSVersion.MAXIMUM_SUPPORTED
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(address(secure), timeout=5) as plain,
        pytest.raises(ssl.SSLError, match=r"(?i)version"),
    ):
        context.wrap_socket(plain, server_hostname="127.0.0.1")


@pytest.mark.parametrize(
    ("certificate", "key", "part", "words"),
    [
        ("missing.pem", "server.key", "certificate", "No such file"),
        ("server.pem", "missing.key", "key", "No such file"),
        (".", "server.key", "certificate", "Is a directory"),
        ("server.key", "server.key", "certificate", "no certificate"),
        ("server.pem", "server.pem", "key", "no private key"),
        ("server.pem", "other.key", "key", "is not the key of"),
        ("server.pem", "server.locked", "key", "protected by a password"),
        ("broken.pem", "server.key", "certificate", "cannot be used"),
    ],
)
def test_what_cannot_be_served_with_is_named(
    authority: certificates.Authority, pair: tuple[Path, Path], certificate: str, key: str, part: str, words: str
) -> None:
    folder = pair[0].parent
    authority.sign("other")
    certificates.with_password(pair[1], "open sesame")
    folder.joinpath("broken.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(CertificateError, match=words) as raised:
        server_tls(str(folder / certificate), str(folder / key))
    assert raised.value.part == part
