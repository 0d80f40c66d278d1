"""HTTPS: valid certificates, clients that do not speak TLS, and files that cannot be used."""

import logging
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sinks.web.health import Health, health_routes
from sinks.web.limits import Limits
from sinks.web.routes import Reply
from sinks.web.server import WebServer
from sinks.web.tls import CertificateError, server_tls
from tests.parts import certificates
from tests.parts.patience import patience
from tests.sinks.web.asking import INDEX, address, connect, is_closed, page, read_all, slow_clients

TOKEN = "s3cret-tökén"


@pytest.fixture(scope="module")
def pair(authority: certificates.Authority) -> tuple[Path, Path]:
    return authority.sign("server")


@pytest.fixture(scope="module")
def secure(pair: tuple[Path, Path]) -> Iterator[WebServer]:
    tls = server_tls(str(pair[0]), str(pair[1]))
    with serve_tls(tls) as server:
        yield server


def serve_tls(tls: ssl.SSLContext, limits: Limits | None = None) -> WebServer:
    routes = [page("/metrics"), *health_routes(Health())]
    return WebServer(routes, index=INDEX, host="127.0.0.1", port=0, token=TOKEN, tls=tls, limits=limits)


def trusting(authority: certificates.Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.certificate)


def over_tls(server: WebServer, authority: certificates.Authority, path: str) -> httpx.Response:
    headers = {b"Authorization": f"Bearer {TOKEN}".encode()}
    return httpx.get(
        server.url + path, headers=headers, verify=trusting(authority), trust_env=False, timeout=5 * patience()
    )


def test_with_a_certificate_it_serves_https(secure: WebServer, authority: certificates.Authority) -> None:
    assert secure.url.startswith("https://127.0.0.1:")
    assert over_tls(secure, authority, "/metrics").status_code == 200
    assert over_tls(secure, authority, "/healthz").json() == {"ok": True, "parts": {}}


def test_a_client_that_does_not_trust_the_certificate_is_not_served(secure: WebServer) -> None:
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(
            secure.url + "/healthz", verify=ssl.create_default_context(), trust_env=False, timeout=30 * patience()
        )


def test_a_client_without_tls_gets_no_page_and_leaves_no_trace(
    secure: WebServer, authority: certificates.Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), pytest.raises(httpx.HTTPError):
        httpx.get(secure.url.replace("https", "http") + "/healthz", trust_env=False, timeout=5 * patience())
    assert over_tls(secure, authority, "/healthz").status_code == 200
    assert not [record for record in caplog.records if record.name.startswith(("sinks", "asyncio", "aiohttp"))]


def test_clients_with_an_unfinished_handshake_block_no_other_client(
    secure: WebServer, authority: certificates.Authority
) -> None:
    with (
        socket.create_connection(address(secure), timeout=5 * patience()) as silent,
        socket.create_connection(address(secure), timeout=5 * patience()) as slow,
    ):
        slow.sendall(b"\x16\x03\x01\x02\x00")  # the beginning of a handshake
        assert over_tls(secure, authority, "/healthz").status_code == 200
        assert silent.fileno() > 0


def test_hundreds_of_clients_with_an_unfinished_handshake_block_no_other_client(
    pair: tuple[Path, Path], authority: certificates.Authority
) -> None:
    with (
        serve_tls(server_tls(str(pair[0]), str(pair[1])), Limits(connections=20)) as server,
        slow_clients(server, 200, b"\x16\x03\x01\x02\x00") as clients,
    ):
        assert over_tls(server, authority, "/healthz").status_code == 200
        assert sum(map(is_closed, clients)) >= 180


def test_a_handshake_that_takes_too_long_is_abandoned(pair: tuple[Path, Path]) -> None:
    limits = Limits(handshake_seconds=0.3)
    with serve_tls(server_tls(str(pair[0]), str(pair[1])), limits) as server:
        begun = time.monotonic()
        with connect(server) as client:
            assert read_all(client) == b""
            assert 0.2 < time.monotonic() - begun < 5 * patience()


def test_a_reply_over_tls_is_finished_when_it_is_written(
    pair: tuple[Path, Path], authority: certificates.Authority
) -> None:
    """If the write never ended, the connection would be cut off under an idle client."""
    server = serve_tls(server_tls(str(pair[0]), str(pair[1])), Limits(write_seconds=0.3))
    with (
        server,
        connect(server) as plain,
        trusting(authority).wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        for pieces in ([b"GET / HTTP/1.1\r\n", b"Host: x\r\n\r\n"], [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"]) * 2:
            for piece in pieces:
                client.sendall(piece)
                time.sleep(0.1)
            assert b"HTTP/1.1 " in client.recv(1000)
            time.sleep(0.6)


def test_a_large_reply_over_tls_arrives_whole(pair: tuple[Path, Path], authority: certificates.Authority) -> None:
    routes = [page("/large", lambda _request: Reply(body=bytes(20_000_000)))]
    tls = server_tls(str(pair[0]), str(pair[1]))
    with WebServer(routes, index=INDEX, host="127.0.0.1", port=0, tls=tls) as server:
        reply = httpx.get(f"{server.url}/large", verify=trusting(authority), trust_env=False, timeout=20 * patience())
    assert len(reply.content) == 20_000_000


def test_a_server_with_an_open_tls_connection_stops_at_once(
    pair: tuple[Path, Path], authority: certificates.Authority
) -> None:
    server = serve_tls(server_tls(str(pair[0]), str(pair[1])))
    with server, httpx.Client(verify=trusting(authority), trust_env=False, timeout=30 * patience()) as client:
        assert client.get(f"{server.url}/healthz").status_code == 200
        begun = time.monotonic()
        server.stop()
        assert time.monotonic() - begun < 2 * patience()


def test_old_versions_of_tls_are_refused_and_1_2_is_not(secure: WebServer, authority: certificates.Authority) -> None:
    context = trusting(authority)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with socket.create_connection(address(secure), timeout=5 * patience()) as plain:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.wrap_socket(plain, server_hostname="127.0.0.1").close()
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with socket.create_connection(address(secure), timeout=5 * patience()) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="127.0.0.1")


@pytest.mark.parametrize(
    ("certificate", "key", "part", "words"),
    [
        ("missing.pem", "server.key", "certificate", "No such file"),
        ("server.pem", "missing.key", "key", "No such file"),
        (".", "server.key", "certificate", "Is a directory"),
        ("server.key", "server.key", "certificate", "no certificate"),
        ("server.pem", "server.pem", "key", "no private key"),
        ("server.pem", "other.key", "key", "does not match"),
        ("server.pem", "server.locked", "key", "is encrypted"),
        ("broken.pem", "server.key", "certificate", "cannot use"),
    ],
)
def test_an_unusable_certificate_is_named(
    authority: certificates.Authority, pair: tuple[Path, Path], certificate: str, key: str, part: str, words: str
) -> None:
    folder = pair[0].parent
    authority.sign("other")
    certificates.with_password(pair[1], "open sesame")
    folder.joinpath("broken.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(CertificateError, match=words) as raised:
        server_tls(str(folder / certificate), str(folder / key))
    assert raised.value.part == part
