"""Opens the web server of a process, with the pages and the settings of the section `http`."""

import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from sinks.web.health import Health, health_routes
from sinks.web.metrics import metrics_routes
from sinks.web.routes import Route
from sinks.web.server import WebServer
from sinks.web.tls import CertificateError, server_tls
from stream.config.sections.stages import HttpConfig
from stream.errors import StageError


@contextmanager
def open_web_server(
    http: HttpConfig, registry: CollectorRegistry, health: Health, routes: Sequence[Route] = ()
) -> Iterator[WebServer]:
    """Serve metrics, health and these routes until the end of the block; raises StageError, with the key to change."""
    server = WebServer(
        [*metrics_routes(registry), *health_routes(health), *routes],
        index="streamjury: /metrics /healthz /readyz",
        host=http.host,
        port=http.port,
        token=http.token.get_secret_value() if http.token is not None else None,
        tls=_tls(http),
    )
    try:
        server.start()
    except OSError as error:
        raise StageError(
            f"cannot listen on {http.host}:{http.port} ({error.strerror}); every process on a host needs its own "
            f"http.port: set STREAMJURY__HTTP__PORT to another one, or to 0 for any free port"
        ) from error
    try:
        yield server
    finally:
        server.stop()


def _tls(http: HttpConfig) -> ssl.SSLContext | None:
    if http.certificate is None or http.key is None:
        return None
    try:
        return server_tls(http.certificate, http.key)
    except CertificateError as error:
        raise StageError(f"http.{error.part}: {error}") from error
