"""The web server itself: its port, its routes, errors in handlers, and an event loop that never blocks."""

import asyncio
import gc
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http import HTTPStatus

import httpx
import pytest
from blockbuster import blockbuster_ctx
from prometheus_client import CollectorRegistry

from sinks.web.connections import Connections
from sinks.web.health import Health, health_routes
from sinks.web.limits import Limits
from sinks.web.metrics import metrics_routes
from sinks.web.routes import Reply, Request, Route
from sinks.web.server import WebServer
from tests.integration.pipeline import wait_until
from tests.parts.patience import patience
from tests.sinks.web.asking import INDEX, address, ask, connect, page, read_all, serve


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    with serve(page("/quick")) as running:
        yield running


# The port


def test_a_port_in_use_is_an_os_error(server: WebServer) -> None:
    second = WebServer([], index=INDEX, host="127.0.0.1", port=address(server)[1])
    with pytest.raises(OSError, match="in use") as raised:
        second.start()
    assert raised.value.strerror == "Address already in use"
    assert ask(server, "/quick").status_code == 200
    second.stop()


def test_after_the_end_of_the_block_the_port_is_free_again() -> None:
    with serve() as first:
        port = address(first)[1]
        assert ask(first, "/").status_code == 200
    with WebServer([], index=INDEX, host="127.0.0.1", port=port) as again:
        assert ask(again, "/").status_code == 200


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.slow
def test_a_client_accepted_at_the_moment_of_the_stop_is_not_lost(turns: int) -> None:
    """A lost socket would be closed by the garbage collector, with a warning."""

    async def inside() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
            listener.setblocking(False)
            client.setblocking(False)
            connections = Connections(Limits(), None)
            accepting = asyncio.create_task(connections.accept(listener, asyncio.Protocol))
            await asyncio.sleep(0)
            client.connect_ex(listener.getsockname())
            for _ in range(turns):
                await asyncio.sleep(0)
            accepting.cancel()
            await asyncio.wait([accepting])
            await connections.close()

    asyncio.run(inside())
    gc.collect()


def test_a_server_can_be_stopped_twice_and_started_again() -> None:
    server = serve(page("/quick"))
    for _ in range(2):
        server.start()
        assert ask(server, "/quick").status_code == 200
        server.stop()
        server.stop()
        with pytest.raises(httpx.ConnectError):
            ask(server, "/quick")


def test_it_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    with serve(page("/quick")) as server, connect(server):
        ask(server, "/quick")
    wait_until(lambda: set(threading.enumerate()) <= before, seconds=10, what="all threads have ended")


def test_an_address_is_known_only_after_the_start() -> None:
    with pytest.raises(RuntimeError, match="has not started"):
        _ = serve().url


def test_ipv6_has_brackets_in_its_address() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    with WebServer([page("/quick")], index=INDEX, host="::1", port=0) as server:
        assert server.url.startswith("http://[::1]:")
        assert ask(server, "/quick").status_code == 200


# Routes


def test_a_handler_is_given_all_of_the_request() -> None:
    requests: list[Request] = []

    def see(request: Request) -> Reply:
        requests.append(request)
        return Reply(status=HTTPStatus.CREATED, body=b"{}", content_type="application/json", headers={"X-Id": "7"})

    route = Route(method="PUT", path="/apps/{app}", handler=see, max_body_bytes=10)
    with serve(route) as server:
        reply = ask(server, "/apps/a%20b?q=1&q=2", "PUT", content=b"body", headers={"X-Name": "value"})
    [request] = requests
    assert (request.method, request.path, request.variables) == ("PUT", "/apps/a b", {"app": "a b"})
    assert (request.query, request.body) == ({"q": ["1", "2"]}, b"body")
    assert request.headers["x-name"] == "value"
    assert (reply.status_code, reply.headers["content-type"], reply.headers["x-id"]) == (201, "application/json", "7")


def test_methods_of_one_path_are_separate_routes() -> None:
    def post(_request: Request) -> Reply:
        return Reply(body=b"posted\n")

    with serve(page("/both"), page("/other"), Route(method="POST", path="/both", handler=post)) as server:
        assert ask(server, "/both").text == "quick\n"
        assert ask(server, "/both", "POST").text == "posted\n"
        assert ask(server, "/both", "DELETE").headers["allow"] == "GET, HEAD, POST"


def test_a_route_can_replace_the_index() -> None:
    with serve(page("/")) as server:
        assert ask(server, "/").text == "quick\n"
        assert ask(server, "/nothing").text == f"{INDEX}\n"


def test_two_routes_of_one_path_and_method_are_refused() -> None:
    with pytest.raises(RuntimeError, match="method GET is already registered"):
        serve(page("/quick"), page("/quick")).start()


# Errors


@pytest.mark.parametrize("error", [KeyError("hunter2"), StopIteration("hunter2"), SystemExit("hunter2")])
def test_an_error_in_a_handler_is_a_500_without_its_message_and_a_traceback_in_the_log(
    caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def fail(_request: Request) -> Reply:
        raise error

    with serve(page("/fail", fail), page("/quick")) as server:
        reply = ask(server, "/fail?secret=1", headers={"Accept": "text/html"})
        assert ask(server, "/quick").status_code == 200
    assert (reply.status_code, reply.text) == (500, "internal error; see the log\n")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    [record] = [record for record in caplog.records if record.name.startswith("sinks")]
    assert record.getMessage() == "request for GET /fail failed"
    assert record.exc_info is not None
    assert record.exc_info[1] is error


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00 not http at all\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization Bearer hunter2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_a_request_that_is_not_http_is_refused_and_its_bytes_are_not_logged(
    server: WebServer, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    with caplog.at_level(logging.DEBUG), connect(server) as client:
        client.sendall(sent)
        assert b" 400 " in read_all(client)
    records = [record for record in caplog.records if record.name.startswith(("sinks", "aiohttp", "asyncio"))]
    assert not [record for record in records if record.levelno > logging.DEBUG]
    assert "hunter2" not in "".join(str(vars(record)) for record in records)
    assert ask(server, "/quick").status_code == 200


def test_requests_are_not_logged(server: WebServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        ask(server, "/quick")
        ask(server, "/nothing")
    assert {record.name for record in caplog.records} <= {"httpx"}


# The event loop


def test_nothing_blocks_the_event_loop() -> None:
    with blockbuster_ctx("sinks"):
        routes = (*metrics_routes(CollectorRegistry()), *health_routes(Health()))
        echo = Route(method="POST", path="/echo", handler=lambda request: Reply(body=request.body), max_body_bytes=99)
        with serve(*routes, echo, token="right") as server:
            authorization = {"Authorization": "Bearer right"}
            assert ask(server, "/metrics", headers=authorization).status_code == 200
            assert ask(server, "/healthz").status_code == 200
            assert ask(server, "/metrics").status_code == 401
            assert ask(server, "/echo", "POST", content=b"x", headers=authorization).text == "x"
            assert ask(server, "/echo", "POST", content=bytes(100), headers=authorization).status_code == 413


def test_aiohttp_is_loaded_by_a_server_that_starts_and_not_before() -> None:
    program = (
        "import sys; from sinks.web.server import WebServer;"
        "import sinks.web.metrics, stream.cli.terminal.alertmanager_webhook;"
        "assert not [name for name in sys.modules if name.startswith('aiohttp')], 'too early'"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60 * patience())
