"""Limits of the web server: slow clients, many clients, large requests and slow handlers, over real sockets."""

import logging
import re
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest

from sinks.web.connections import Connection
from sinks.web.limits import Limits
from sinks.web.routes import Reply, Request, Route
from sinks.web.server import WebServer
from tests.parts import local_http
from tests.parts.at_once import AtOnce
from tests.parts.patience import patience
from tests.sinks.web.asking import ask, connect, is_closed, page, read_all, serve, slow_clients

HALF_A_HEAD = b"GET /quick HTTP/1.1\r\nHost: x\r\nX-Slow: "
HALF_A_BODY = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf"


def echo(request: Request) -> Reply:
    return Reply(body=request.body)


ECHO = Route(method="POST", path="/echo", handler=echo, max_body_bytes=1000)


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Return whether the condition became true in time."""
    end = time.monotonic() + seconds * patience()
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


class TestManyClients:
    @pytest.mark.parametrize("sent", [b"", HALF_A_HEAD, HALF_A_BODY], ids=["nothing", "head", "body"])
    def test_hundreds_of_slow_clients_block_no_other_client(self, sent: bytes) -> None:
        with serve(page("/quick"), ECHO) as server, slow_clients(server, 300, sent):
            for _ in range(20):
                assert ask(server, "/quick").text == "quick\n"

    def test_clients_beyond_the_limit_replace_the_longest_waiting_ones(self) -> None:
        with (
            serve(page("/quick"), limits=Limits(connections=10)) as server,
            slow_clients(server, 25, HALF_A_HEAD) as clients,
        ):
            assert until(lambda: sum(map(is_closed, clients)) == 15)
            assert [is_closed(client) for client in clients] == [True] * 15 + [False] * 10

    def test_a_client_whose_request_is_computed_is_not_replaced(self) -> None:
        begun, release = threading.Event(), threading.Event()

        def slow(_request: Request) -> Reply:
            begun.set()
            release.wait(10 * patience())
            return Reply(body=b"worth waiting\n")

        with serve(page("/slow", slow), limits=Limits(connections=3)) as server, connect(server) as patient:
            patient.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert begun.wait(5 * patience())
            with slow_clients(server, 10) as clients:
                assert until(lambda: sum(map(is_closed, clients)) == 8)
                release.set()
                assert read_all(patient).endswith(b"worth waiting\n")

    def test_clients_that_wait_for_a_slow_page_block_no_other_client(self) -> None:
        """They take all connections: one request is computed, and the others wait for its thread."""
        begun, release = threading.Event(), threading.Event()

        def slow(_request: Request) -> Reply:
            begun.set()
            release.wait(10 * patience())
            return Reply(body=b"worth waiting\n")

        request = b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        with (
            serve(page("/slow", slow, max_threads=1), page("/quick"), limits=Limits(connections=4)) as server,
            connect(server) as first,
        ):
            first.sendall(request)
            assert begun.wait(5 * patience())
            with slow_clients(server, 10, request) as clients:
                assert until(lambda: sum(map(is_closed, clients)) == 7)
                for _ in range(10):
                    assert ask(server, "/quick").text == "quick\n"
                release.set()
            assert read_all(first).endswith(b"worth waiting\n")

    def test_no_page_is_computed_for_disconnected_clients(self) -> None:
        begun, release = threading.Event(), threading.Event()
        computed: list[str] = []

        def slow(request: Request) -> Reply:
            begun.set()
            release.wait(10 * patience())
            computed.append(request.query["client"][0])
            return Reply()

        with serve(page("/slow", slow, max_threads=1)) as server, connect(server) as first:
            first.sendall(b"GET /slow?client=first HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert begun.wait(5 * patience())
            with slow_clients(server, 20, b"GET /slow?client=gone HTTP/1.1\r\nHost: x\r\n\r\n") as clients:
                for client in clients:  # a reset, unlike a client that closes its side and still reads
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                time.sleep(0.2)
            time.sleep(0.2)
            release.set()
            read_all(first)
            assert ask(server, "/slow?client=last").status_code == 200
        assert computed == ["first", "last"]

    def test_with_all_connections_at_work_a_new_one_is_closed(self) -> None:
        begun, release = threading.Event(), threading.Event()

        def slow(_request: Request) -> Reply:
            begun.set()
            release.wait(10 * patience())
            return Reply()

        with serve(page("/slow", slow), limits=Limits(connections=1)) as server, connect(server) as first:
            first.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert begun.wait(5 * patience())
            with connect(server) as second:
                assert read_all(second) == b""
            release.set()
            assert b" 200 OK" in read_all(first)

    def test_the_limit_leaves_most_of_the_open_files_to_the_rest_of_the_process(self) -> None:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
            assert Limits().connection_limit() == 50
            assert Limits(connections=20).connection_limit() == 20
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert Limits().connection_limit() == min(128, before[0] // 4 if before[0] > 0 else 128)

    def test_500_slow_clients_do_not_take_the_files_of_a_process_that_may_open_64(self) -> None:
        """The process can open its own files and answers while the clients hold on."""
        with low_on_files(64) as (process, url):
            host, port = httpx.URL(url).host, httpx.URL(url).port
            clients = [socket.create_connection((host, port), timeout=10 * patience()) for _ in range(500)]
            try:
                for client in clients:
                    client.sendall(HALF_A_HEAD)
                for _ in range(5):
                    assert local_http.get(f"{url}/files", timeout=10 * patience()).text == "20"
            finally:
                for client in clients:
                    client.close()
            assert process.poll() is None

    def test_a_process_that_is_out_of_files_accepts_clients_again_when_it_has_some(self) -> None:
        with (
            low_on_files(64) as (_process, url),
            local_http.client(base_url=url, timeout=20 * patience()) as first,
        ):
            assert int(first.get("/hold").text) > 20
            with ThreadPoolExecutor() as pool:
                second = pool.submit(httpx.get, f"{url}/files", trust_env=False, timeout=20 * patience())
                assert second.result().text == "20"


PROGRAM = """
import resource, sys, tempfile, threading
resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))
from sinks.web.routes import Reply, Route
from sinks.web.server import WebServer

def open_files(_request):
    files = [tempfile.TemporaryFile() for _ in range(20)]
    for file in files:
        file.close()
    return Reply(body=str(len(files)).encode())

held = []

def hold(_request):
    try:
        while True:
            held.append(tempfile.TemporaryFile())
    except OSError:
        return Reply(body=str(len(held)).encode())
    finally:
        threading.Timer(2, release).start()

def release():
    while held:
        held.pop().close()

pages = {{"/files": open_files, "/hold": hold}}
routes = [Route(method="GET", path=path, handler=handler) for path, handler in pages.items()]
with WebServer(routes, index="", host="127.0.0.1", port=0) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def low_on_files(files: int) -> "Running":
    return Running(PROGRAM.format(files=files))


class Running:
    """A program in a separate process, and the address that it prints first."""

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> tuple["subprocess.Popen[str]", str]:
        assert self._process.stdout is not None
        return self._process, self._process.stdout.readline().strip()

    def __exit__(self, *_error: object) -> None:
        self._process.communicate(timeout=20 * patience())


class TestSlowClients:
    @pytest.mark.parametrize("sent", [b"", HALF_A_HEAD], ids=["nothing", "head"])
    def test_a_request_whose_headers_do_not_arrive_is_abandoned(self, sent: bytes) -> None:
        with serve(page("/quick"), limits=Limits(idle_seconds=0.3)) as server:
            begun = time.monotonic()
            with connect(server) as client:
                client.sendall(sent)
                assert read_all(client) == b""
                assert 0.2 < time.monotonic() - begun < 5 * patience()

    def test_a_client_that_sends_single_bytes_gains_no_time(self) -> None:
        with serve(page("/quick"), limits=Limits(idle_seconds=0.5)) as server:
            begun = time.monotonic()
            with connect(server) as client:
                client.sendall(HALF_A_HEAD)
                while not is_closed(client) and time.monotonic() - begun < 10 * patience():
                    with suppress(ConnectionError):
                        client.sendall(b"x")
                    time.sleep(0.05)
                assert 0.4 < time.monotonic() - begun < 5 * patience()

    def test_an_idle_connection_is_kept_for_the_next_request_and_then_closed(self) -> None:
        request = b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n"
        with serve(page("/quick")) as server, connect(server) as client:
            for _ in range(3):
                client.sendall(request)
                assert client.recv(1000).endswith(b"quick\n")
        with serve(page("/quick"), limits=Limits(idle_seconds=0.5 * patience())) as server, connect(server) as client:
            begun = time.monotonic()
            client.sendall(request)
            assert read_all(client).endswith(b"quick\n")
            assert 0.3 < time.monotonic() - begun < 5 * patience()

    def test_a_body_that_does_not_arrive_is_refused_and_the_connection_closed(self) -> None:
        limits = Limits(body_seconds=0.3, linger_seconds=0.3)
        with serve(ECHO, limits=limits) as server, connect(server) as client:
            client.sendall(HALF_A_BODY)
            reply = read_all(client)
        assert b" 408 " in reply
        assert reply.endswith(b"the body did not arrive within 0.3 seconds\n")

    def test_a_client_that_does_not_read_its_reply_is_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The reply is larger than the kernel's buffers of both sides."""
        cut_off, lose = threading.Event(), Connection.connection_lost

        def lose_and_report(connection: Connection, error: Exception | None) -> None:
            lose(connection, error)
            cut_off.set()

        def large(_request: Request) -> Reply:
            return Reply(body=bytes(50_000_000))

        # The client sees no end before it has read what the kernel holds.
        monkeypatch.setattr(Connection, "connection_lost", lose_and_report)
        with serve(page("/large", large), limits=Limits(write_seconds=0.5)) as server, connect(server) as client:
            client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            assert cut_off.wait(10 * patience())
            assert len(read_all(client)) < 50_000_000

    def test_a_client_that_leaves_before_its_reply_harms_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        begun, release = threading.Event(), threading.Event()

        def slow(_request: Request) -> Reply:
            begun.set()
            release.wait(10 * patience())
            return Reply(body=bytes(1_000_000))

        with serve(page("/slow", slow), page("/quick")) as server:
            with connect(server) as client:
                client.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
                assert begun.wait(5 * patience())
            release.set()
            assert ask(server, "/quick").status_code == 200
        assert not [
            record for record in caplog.records if record.levelno > logging.DEBUG and "httpx" not in record.name
        ]

    def test_a_client_that_closes_its_side_after_the_request_gets_its_reply(self) -> None:
        def slow(_request: Request) -> Reply:
            time.sleep(0.3)
            return Reply(body=b"still here\n")

        with serve(page("/slow", slow)) as server, connect(server) as client:
            client.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            begun = time.monotonic()
            reply = read_all(client)
        assert b"still here\n" in reply
        assert reply.endswith(b"pages: /quick /slow\n")
        assert time.monotonic() - begun < 5 * patience()


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    with serve(ECHO, page("/quick")) as running:
        yield running


class TestSizes:
    def test_a_body_at_the_limit_is_read_and_one_beyond_it_is_refused(self, server: WebServer) -> None:
        assert ask(server, "/echo", "POST", content=b"x" * 1000).text == "x" * 1000
        refused = ask(server, "/echo", "POST", content=b"x" * 1001)
        assert (refused.status_code, refused.text) == (413, "request body too large; the limit is 1000 bytes\n")

    @pytest.mark.parametrize(("number", "status"), [(10, 200), (11, 413)])
    def test_the_limit_is_for_chunked_bodies_too(self, server: WebServer, number: int, status: int) -> None:
        assert ask(server, "/echo", "POST", content=(b"x" * 100 for _ in range(number))).status_code == status

    def test_a_client_that_sends_a_refused_body_to_its_end_reads_the_reply(self, server: WebServer) -> None:
        assert ask(server, "/echo", "POST", content=bytes(5_000_000)).status_code == 413

    def test_a_chunked_body_that_breaks_off_is_refused(self, server: WebServer) -> None:
        with connect(server) as client:
            client.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            client.shutdown(socket.SHUT_WR)
            reply = read_all(client)
        assert b" 400 " in reply
        assert reply.endswith(b"request body ends after 5 of unknown bytes\n")

    def test_an_invalid_chunk_is_refused(self, server: WebServer) -> None:
        with connect(server) as client:
            client.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n")
            assert b" 400 " in read_all(client)

    def test_a_compressed_body_is_not_unpacked(self, server: WebServer) -> None:
        reply = ask(server, "/echo", "POST", content=b"not gzip", headers={"Content-Encoding": "gzip"})
        assert reply.content == b"not gzip"

    def test_the_body_of_a_request_that_needs_none_is_discarded(self, server: WebServer) -> None:
        assert ask(server, "/quick", "GET", content=b"x" * 100_000).text == "quick\n"

    @pytest.mark.parametrize(
        "headers",
        [
            pytest.param({"X-Large": "x" * 8200}, id="one too long"),
            pytest.param({f"X-{number}": "x" for number in range(100)}, id="too many"),
        ],
    )
    def test_headers_beyond_the_limit_are_refused(self, server: WebServer, headers: dict[str, str]) -> None:
        assert ask(server, "/quick", headers=headers).status_code == 400
        assert ask(server, "/quick").status_code == 200

    def test_a_path_beyond_the_limit_is_refused(self, server: WebServer) -> None:
        assert ask(server, f"/{'x' * 9000}").status_code == 400


class TestSlowHandlers:
    def test_a_handler_that_takes_too_long_is_a_503_and_a_line_in_the_log(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        release = threading.Event()

        def slow(_request: Request) -> Reply:
            release.wait(10 * patience())
            return Reply()

        with serve(page("/slow", slow), limits=Limits(handler_seconds=0.2)) as server:
            reply = ask(server, "/slow?secret=1")
            release.set()
        assert (reply.status_code, reply.text) == (503, "no reply in time\n")
        [line] = [record.getMessage() for record in caplog.records if record.name.startswith("sinks")]
        assert line == "no reply to GET /slow within 0.2 s"

    def test_a_page_that_hangs_blocks_no_other_page_and_works_again_later(self) -> None:
        release, limit = threading.Event(), 2 * patience(at_most=3.0)

        def hanging(_request: Request) -> Reply:
            release.wait(30 * limit)
            return Reply(body=b"back\n")

        with serve(page("/slow", hanging), page("/quick"), limits=Limits(handler_seconds=limit)) as server:
            threads = [threading.Thread(target=ask, args=(server, "/slow")) for _ in range(10)]
            for thread in threads:
                thread.start()
            for _ in range(10):
                assert ask(server, "/quick").status_code == 200
            for thread in threads:
                thread.join()
            release.set()
            assert until(lambda: ask(server, "/slow").text == "back\n")

    def test_no_more_threads_than_allowed_compute_a_page(self) -> None:
        at_once, together = AtOnce(), threading.Barrier(3, timeout=30 * patience())

        def count(_request: Request) -> Reply:
            with at_once:
                together.wait()
            return Reply()

        with serve(page("/count", count, max_threads=3)) as server:
            threads = [threading.Thread(target=ask, args=(server, "/count")) for _ in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert at_once.most == 3

    def test_stopping_waits_for_a_request_in_flight_and_not_for_one_that_hangs(self) -> None:
        release, limit = threading.Event(), patience(at_most=4.0)
        begun_slow, begun_hanging = threading.Event(), threading.Event()
        replies: list[bytes] = []

        def slow(_request: Request) -> Reply:
            begun_slow.set()
            time.sleep(0.5)
            return Reply(body=b"finished\n")

        def hanging(_request: Request) -> Reply:
            begun_hanging.set()
            release.wait(60)
            return Reply()

        server = serve(
            page("/slow", slow), page("/hanging", hanging), limits=Limits(stop_seconds=limit, handler_seconds=60)
        )
        with server, connect(server) as first, connect(server) as second, connect(server):
            second.sendall(b"GET /hanging HTTP/1.1\r\nHost: x\r\n\r\n")
            assert begun_hanging.wait(10 * limit)
            first.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
            assert begun_slow.wait(10 * limit)
            begun = time.monotonic()
            server.stop()
            assert time.monotonic() - begun < 6 * limit
            replies = [read_all(first), read_all(second)]
        release.set()
        assert re.search(rb"finished\n$", replies[0])
        assert replies[1] == b""
