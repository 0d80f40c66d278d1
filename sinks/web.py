"""The web server of a process: `/metrics` for Prometheus, `/healthz` and `/readyz` for whoever supervises it."""

import json
import threading
from collections.abc import Iterable
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Self, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from sinks.health import Health, Report

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_INDEX = b"streamjury: /metrics /healthz /readyz\n"


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """As the base class does, but without looking the host's name up, which can take seconds without a network."""
        TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """A line per scrape tells nobody anything."""


class WebServer:
    """Serves until the `with` block ends."""

    def __init__(self, registry: CollectorRegistry, health: Health, *, host: str, port: int) -> None:
        self._health = health
        self._metrics = make_wsgi_app(registry)
        self._server = make_server(host, port, self._answer, server_class=_Server, handler_class=_QuietHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="web", daemon=True)

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host if isinstance(host, str) else host.decode()}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if path == "/metrics":
            return cast(Iterable[bytes], self._metrics(environ, start_response))
        if path == "/healthz":
            return _report(self._health.alive(), start_response)
        if path == "/readyz":
            return _report(self._health.ready(), start_response)
        known = path == "/"
        start_response("200 OK" if known else "404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [_INDEX]


def _report(report: Report, start_response: "StartResponse") -> Iterable[bytes]:
    start_response(
        "200 OK" if report.ok else "503 Service Unavailable",
        [("Content-Type", "application/json"), ("Cache-Control", "no-store")],
    )
    return [json.dumps({"ok": report.ok, "parts": dict(report.parts)}, ensure_ascii=False).encode() + b"\n"]
