"""Servers and clients for the tests of the web server: requests with httpx, and bytes over bare sockets."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import httpx

from sinks.web.limits import Limits
from sinks.web.routes import Handler, Reply, Request, Route
from sinks.web.server import WebServer
from tests.parts import local_http
from tests.parts.patience import patience

INDEX = "pages: /quick /slow"


def quick(_request: Request) -> Reply:
    return Reply(body=b"quick\n")


def page(path: str, handler: Handler = quick, **options: bool | int) -> Route:
    return Route(method="GET", path=path, handler=handler, **options)  # type: ignore[arg-type]


def serve(*routes: Route, limits: Limits | None = None, token: str | None = None) -> WebServer:
    return WebServer(routes, index=INDEX, host="127.0.0.1", port=0, limits=limits, token=token)


def ask(server: WebServer, path: str, method: str = "GET", **options: object) -> httpx.Response:
    return local_http.request(method, server.url + path, timeout=10 * patience(), **options)  # type: ignore[arg-type]


def address(server: WebServer) -> tuple[str, int]:
    url = httpx.URL(server.url)
    assert url.port is not None
    return url.host, url.port


def connect(server: WebServer) -> socket.socket:
    return socket.create_connection(address(server), timeout=10 * patience())


@contextmanager
def slow_clients(server: WebServer, number: int, sent: bytes = b"") -> Iterator[Sequence[socket.socket]]:
    """Open clients that send the beginning of a request and then do nothing."""
    with ExitStack() as stack:
        clients = []
        for _ in range(number):
            client = stack.enter_context(connect(server))
            clients.append(client)
            client.sendall(sent)
        yield clients


def read_all(client: socket.socket) -> bytes:
    """Return all bytes that the server sends until it closes the connection."""
    received = b""
    while True:
        try:
            data = client.recv(65_536)
        except ConnectionResetError:
            return received
        if not data:
            return received
        received += data


def is_closed(client: socket.socket) -> bool:
    """Return whether the server has closed the connection, without waiting."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
