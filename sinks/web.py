"""The web server of a process: `/metrics` for Prometheus, `/healthz` and `/readyz` for whoever supervises it.

With a token, all but the two answers about health ask for it; with a certificate, everything is served over TLS.
"""

import hmac
import json
import logging
import ssl
import sys
from collections.abc import Iterable
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Literal
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry

from sinks.health import Health, Report
from sinks.scrape import metrics_app
from sinks.serving import QuickBind, Serving

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

log = logging.getLogger(__name__)

_INDEX = b"streamjury: /metrics /healthz /readyz\n"
# Whoever supervises a process has no token, and learns only whether it is well.
_OPEN = frozenset({"/healthz", "/readyz"})
# A client that says nothing for so long is cut off, because a thread waits for it.
_SILENCE_SECONDS = 30.0


class CertificateError(Exception):
    """A certificate or key that nothing can be served with; `part` says which of the two."""

    def __init__(self, part: Literal["certificate", "key"], message: str) -> None:
        super().__init__(message)
        self.part = part


def server_tls(certificate: str, key: str) -> ssl.SSLContext:
    """What a server needs to serve HTTPS with these two files, both PEM."""
    if "-----BEGIN CERTIFICATE-----" not in _pem("certificate", certificate):
        raise CertificateError("certificate", f"{certificate} has no certificate in PEM form")
    if "PRIVATE KEY-----" not in _pem("key", key):
        raise CertificateError("key", f"{key} has no private key in PEM form")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise CertificateError("key", f"{key} is not the key of {certificate}") from error
        raise CertificateError("certificate", f"{certificate} and {key} cannot be used ({error})") from error
    except _PasswordError as error:
        raise CertificateError("key", f"{key} is protected by a password; give one that is not") from error
    return context


def _pem(part: Literal["certificate", "key"], path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise CertificateError(part, f"cannot read {path} ({error.strerror})") from error


class _PasswordError(Exception):
    pass


def _no_password() -> str:
    """Without an answer of ours the library would ask at the terminal, and wait."""
    raise _PasswordError


class _Server(ThreadingMixIn, QuickBind, WSGIServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        super().__init__(address, _QuietHandler)

    def server_bind(self) -> None:
        super().server_bind()
        self.setup_environ()

    def get_request(self) -> tuple[Any, Any]:
        """The handshake is left to the connection's own thread: here, one slow client would keep out all others."""
        connection, address = super().get_request()
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def finish_request(self, request: Any, client_address: Any) -> None:
        if isinstance(request, ssl.SSLSocket):
            request.settimeout(_SILENCE_SECONDS)
            request.do_handshake()
        super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave, fall silent or speak something else are no errors of ours."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            log.debug("a connection from %s ended early: %s", client_address, error)
        else:
            log.exception("a request from %s could not be answered", client_address)


class _QuietHandler(WSGIRequestHandler):
    timeout = _SILENCE_SECONDS

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """A line per scrape tells nobody anything."""


class WebServer(Serving):
    """Serves until the `with` block ends."""

    def __init__(
        self,
        registry: CollectorRegistry,
        health: Health,
        *,
        host: str,
        port: int,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._health = health
        self._token = token
        self._metrics = metrics_app(registry)
        server = _Server((host, port), tls)
        server.set_app(self._answer)
        super().__init__(server, name="web", scheme="http" if tls is None else "https")

    def _answer(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if path not in _OPEN and not self._admits(environ.get("HTTP_AUTHORIZATION", "")):
            return _refusal(start_response)
        if path == "/metrics":
            return self._metrics(environ, start_response)
        if path == "/healthz":
            return _report(self._health.alive(), start_response)
        if path == "/readyz":
            return _report(self._health.ready(), start_response)
        known = path == "/"
        start_response("200 OK" if known else "404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [_INDEX]

    def _admits(self, authorization: str) -> bool:
        """Whether the header has the token; how long that takes does not tell how much of it was right."""
        if self._token is None:
            return True
        scheme, _, given = authorization.partition(" ")
        # Headers are bytes; the server hands them over as if they were Latin-1.
        same = hmac.compare_digest(given.strip().encode("latin-1"), self._token.encode())
        return same and scheme.lower() == "bearer"


def _refusal(start_response: "StartResponse") -> Iterable[bytes]:
    start_response(
        "401 Unauthorized",
        [
            ("WWW-Authenticate", 'Bearer realm="streamjury"'),
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Cache-Control", "no-store"),
        ],
    )
    return [b"this page needs the token of http.token: Authorization: Bearer ...\n"]


def _report(report: Report, start_response: "StartResponse") -> Iterable[bytes]:
    start_response(
        "200 OK" if report.ok else "503 Service Unavailable",
        [("Content-Type", "application/json"), ("Cache-Control", "no-store")],
    )
    return [json.dumps({"ok": report.ok, "parts": dict(report.parts)}, ensure_ascii=False).encode() + b"\n"]
