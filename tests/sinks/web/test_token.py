"""The token: which pages it protects, and how it is compared."""

import logging
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client import CollectorRegistry

from sinks.web.health import Health, health_routes
from sinks.web.metrics import metrics_routes
from sinks.web.server import WebServer
from tests.parts import local_http
from tests.parts.patience import patience
from tests.sinks.web.asking import ask, page, serve

TOKEN = "s3cret-tökén"


@pytest.fixture(scope="module")
def guarded() -> Iterator[WebServer]:
    routes = (*metrics_routes(CollectorRegistry()), *health_routes(Health()))
    with serve(*routes, page("/open", needs_token=False), token=TOKEN) as server:
        yield server


def ask_as(server: WebServer, path: str, authorization: str | None, method: str = "GET") -> httpx.Response:
    return ask(
        server, path, method, headers={} if authorization is None else {b"Authorization": authorization.encode()}
    )


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
    answer = ask_as(guarded, path, authorization)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="streamjury"'
    assert (answer.headers["content-type"], answer.headers["cache-control"]) == (
        "text/plain; charset=utf-8",
        "no-store",
    )
    assert answer.text == "this page needs the token of http.token: Authorization: Bearer ...\n"
    assert "/healthz" not in answer.text
    assert TOKEN not in answer.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_with_the_token_metrics_are_shown(guarded: WebServer, scheme: str) -> None:
    assert ask_as(guarded, "/metrics", f"{scheme} {TOKEN}").status_code == 200
    assert ask_as(guarded, "/nothing", f"{scheme} {TOKEN}").status_code == 404


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_needs_no_token(guarded: WebServer, path: str) -> None:
    assert ask_as(guarded, path, None).status_code == 200
    assert ask_as(guarded, path, "Bearer wrong").status_code == 200


@pytest.mark.parametrize("method", ["HEAD", "POST", "OPTIONS"])
def test_no_method_bypasses_the_token(guarded: WebServer, method: str) -> None:
    assert ask_as(guarded, "/metrics", None, method).status_code == 401


@pytest.mark.parametrize("path", ["/%6detrics", "//metrics", "/./metrics", "/healthz/../metrics", "/healthz;/metrics"])
def test_no_spelling_of_a_path_bypasses_the_token(guarded: WebServer, path: str) -> None:
    with local_http.client(timeout=30 * patience()) as client:
        request = client.build_request("GET", guarded.url)
        request.url = request.url.copy_with(raw_path=path.encode())
        assert client.send(request).status_code == 401


def test_a_route_can_be_public(guarded: WebServer) -> None:
    assert ask_as(guarded, "/open", None).text == "quick\n"


@pytest.mark.parametrize("right_first", [True, False])
def test_two_authorizations_are_no_token(guarded: WebServer, right_first: bool) -> None:
    headers = [(b"Authorization", f"Bearer {TOKEN}".encode()), (b"Authorization", b"Bearer wrong")]
    sent_headers = headers if right_first else headers[::-1]
    assert ask(guarded, "/metrics", headers=sent_headers).status_code in {400, 401}


def test_bytes_that_are_not_text_are_not_a_token(guarded: WebServer) -> None:
    assert ask(guarded, "/metrics", headers={b"Authorization": b"Bearer \xff\xfe"}).status_code == 401


def test_a_token_is_never_logged(guarded: WebServer, caplog: pytest.LogCaptureFixture) -> None:
    secret = "hunter2-hunter2"
    with caplog.at_level(logging.DEBUG):
        ask_as(guarded, "/metrics", f"Bearer {secret}")
        ask(guarded, "/metrics", headers={"Authorization": f"Bearer {secret * 1000}"})
    assert secret not in "".join(str(vars(record)) for record in caplog.records if not record.name.startswith("http"))
