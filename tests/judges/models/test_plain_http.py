"""Our transport without TLS reads what httpx reads, fails where httpx fails, and leaves no connection behind."""

import asyncio
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from typing import TypeVar

import httpx
import pytest

from judges.models.plain_http import PlainTransport
from tests.parts.patience import patience, until

R = TypeVar("R")

BODY = b'{"verdict": "clear"}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n5;part=1\r\n" + BODY[:5] + b"\r\nf\r\n" + BODY[5:] + b"\r\n0\r\n\r\n"

ANSWERS = {
    "with a length": HEAD + LENGTH + b"\r\n" + BODY,
    "in chunks": HEAD + CHUNKED,
    "in chunks with a trailer": HEAD + CHUNKED[:-2] + b"Checked: yes\r\n\r\n",
    "up to the end of the connection": HEAD + b"Connection: close\r\n\r\n" + BODY,
    "of HTTP/1.0": b"HTTP/1.0 200 OK\r\n" + LENGTH + b"\r\n" + BODY,
    "after early hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + HEAD + LENGTH + b"\r\n" + BODY,
    "an error": b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\n" + LENGTH + b"\r\n" + BODY,
    "without a body": b"HTTP/1.1 204 No Content\r\n\r\n",
    "without a reason": b"HTTP/1.1 200\r\n" + LENGTH + b"\r\n" + BODY,
    "with a header twice": HEAD + b"X-Limit: a\r\nX-Limit: b\r\n" + LENGTH + b"\r\n" + BODY,
}
BROKEN = {
    "nothing": b"",
    "not HTTP": b"\x00\xffthis is not HTTP\r\n\r\n",
    "half a head": HEAD,
    "half a body": HEAD + LENGTH + b"\r\n" + BODY[:7],
    "half a chunk": HEAD + CHUNKED[:40],
    "two lengths": HEAD + LENGTH + b"Content-Length: 3\r\n\r\n" + BODY,
    "a length that is none": HEAD + b"Content-Length: -1\r\n\r\n" + BODY,
    "a chunk of no size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a head without end": HEAD + b"X-Long: " + b"a" * 200_000,
}


class Endpoint:
    """Answers every request with the same bytes, and closes the connection if nothing can follow them."""

    def __init__(self, answer: bytes | None, *, then_close: bool = False) -> None:
        self._answer = answer
        self._then_close = then_close
        self._open: set[asyncio.StreamWriter] = set()
        self._talks: list[asyncio.Task[None]] = []
        self.connections = 0
        self.requests: list[bytes] = []
        self.asked = asyncio.Event()
        self.base_url = ""

    @property
    def open(self) -> int:
        return len(self._open)

    def begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._talks.append(asyncio.create_task(self.talk(reader, writer)))

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(size))
                self.asked.set()
                if self._answer is not None:
                    writer.write(self._answer)
                    if self._then_close:
                        break
        self._open.discard(writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    def push(self, data: bytes) -> None:
        """Send data that no request asked for, at once."""
        for writer in self._open:
            writer.write(data)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Endpoint"]:
        server = await asyncio.start_server(self.begin, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        try:
            yield self
        finally:
            server.close()
            for writer in list(self._open):
                writer.transport.abort()
            await asyncio.gather(*self._talks)

    async def none_open(self) -> bool:
        await until(lambda: not self.open)
        return True


def request_to(url: str, content: bytes = b"{}", **timeouts: float | None) -> httpx.Request:
    everything = {"connect": 5.0, "read": None, "write": None, "pool": None, **timeouts}
    return httpx.Request("POST", url, content=content, extensions={"timeout": everything})


async def ask(transport: httpx.AsyncBaseTransport, request: httpx.Request) -> httpx.Response:
    response = await transport.handle_async_request(request)
    try:
        await response.aread()
    finally:
        await response.aclose()
    return response


def run(work: Callable[[PlainTransport], Awaitable[R]]) -> R:
    async def inside() -> R:
        transport = PlainTransport()
        try:
            return await work(transport)
        finally:
            await transport.aclose()

    return asyncio.run(inside())


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_read_as_httpx_reads_it(name: str) -> None:
    closes = name in ("up to the end of the connection", "of HTTP/1.0")

    async def converse(transport: PlainTransport) -> None:
        async with (
            Endpoint(ANSWERS[name], then_close=closes).serving() as endpoint,
            httpx.AsyncHTTPTransport() as other,
        ):
            for _ in range(3):
                ours, theirs = [await ask(client, request_to(endpoint.base_url)) for client in (transport, other)]
                assert ours.content == theirs.content == (b"" if ours.status_code == 204 else BODY)
                assert (ours.status_code, ours.headers.raw) == (theirs.status_code, theirs.headers.raw)
            assert endpoint.connections == (6 if closes else 2)
            assert len(set(endpoint.requests)) == 1

    run(converse)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_answer_is_an_error_as_of_httpx_and_the_next_call_gets_a_new_connection(name: str) -> None:
    async def converse(transport: PlainTransport) -> None:
        async with Endpoint(BROKEN[name], then_close=True).serving() as endpoint, httpx.AsyncHTTPTransport() as other:
            for client in (transport, other, transport):
                with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                    await ask(client, request_to(endpoint.base_url))
            assert endpoint.connections == 3
            assert await endpoint.none_open()

    run(converse)


def test_a_connection_that_the_endpoint_closed_meanwhile_is_not_used_again() -> None:
    async def converse(transport: PlainTransport) -> None:
        async with Endpoint(ANSWERS["with a length"], then_close=True).serving() as endpoint:
            for _ in range(3):
                assert (await ask(transport, request_to(endpoint.base_url))).content == BODY
                await endpoint.none_open()
                await asyncio.sleep(0.02)

    run(converse)


def test_an_answer_that_came_before_its_request_is_dropped_though_the_event_loop_has_not_read_it() -> None:
    async def converse(transport: PlainTransport) -> None:
        async with Endpoint(ANSWERS["with a length"]).serving() as endpoint:
            for connections in (1, 2, 3):
                assert (await ask(transport, request_to(endpoint.base_url))).content == BODY
                assert endpoint.connections == connections
                endpoint.push(ANSWERS["an error"].replace(BODY, b"forged".ljust(len(BODY))))
                wait_for_data(transport)

    run(converse)


def wait_for_data(transport: PlainTransport) -> None:
    """Wait, without running the event loop, until something has arrived on the connection."""
    assert transport._connection is not None
    assert transport._connection._transport is not None
    client = transport._connection._transport.get_extra_info("socket")
    assert select.select([client], [], [], 5 * patience())[0]


def test_a_long_request_arrives_whole() -> None:
    async def converse(transport: PlainTransport) -> None:
        content = b"0123456789" * 1_000_000
        async with Endpoint(ANSWERS["with a length"]).serving() as endpoint:
            await ask(transport, request_to(endpoint.base_url, content))
            assert endpoint.requests[0].endswith(b"\r\n\r\n" + content)

    run(converse)


@pytest.mark.parametrize("answer", [None, HEAD + LENGTH + b"\r\n" + BODY[:3]], ids=["for the head", "for the body"])
def test_a_call_that_is_cut_off_leaves_no_connection(answer: bytes | None) -> None:
    async def converse(transport: PlainTransport) -> None:
        async with Endpoint(answer).serving() as endpoint:
            task = asyncio.create_task(ask(transport, request_to(endpoint.base_url)))
            await endpoint.asked.wait()
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await endpoint.none_open()

    run(converse)


@pytest.mark.parametrize("answer", [None, HEAD + LENGTH + b"\r\n" + BODY[:3]], ids=["in the head", "in the body"])
def test_a_silence_that_is_too_long_is_a_timeout(answer: bytes | None) -> None:
    async def converse(transport: PlainTransport) -> None:
        async with Endpoint(answer).serving() as endpoint:
            with pytest.raises(httpx.ReadTimeout):
                await ask(transport, request_to(endpoint.base_url, read=0.05))
            assert await endpoint.none_open()

    run(converse)


def test_closing_ends_a_call_that_waits_for_its_answer() -> None:
    async def converse(transport: PlainTransport) -> None:
        async with Endpoint(None).serving() as endpoint:
            task = asyncio.create_task(ask(transport, request_to(endpoint.base_url)))
            await endpoint.asked.wait()
            await transport.aclose()
            with pytest.raises(httpx.ReadError, match="the client closed the connection"):
                await task
            assert await endpoint.none_open()

    run(converse)


def test_a_closed_port_is_a_connect_error() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    with pytest.raises(httpx.ConnectError):
        run(lambda transport: ask(transport, request_to(f"http://127.0.0.1:{port}/v1")))


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port with a full backlog, where connections are neither accepted nor refused."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=0)) as server:
        address = server.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for connection in waiting:
            connection.setblocking(False)
            with suppress(BlockingIOError):
                connection.connect(address)
        yield address[1]
        for connection in waiting:
            connection.close()


def test_a_slow_connection_is_a_connect_timeout(silent_port: int) -> None:
    with pytest.raises(httpx.ConnectTimeout):
        run(lambda transport: ask(transport, request_to(f"http://127.0.0.1:{silent_port}/v1", connect=0.1)))


def test_closing_ends_a_call_that_waits_for_its_connection(silent_port: int) -> None:
    async def converse(transport: PlainTransport) -> None:
        task = asyncio.create_task(ask(transport, request_to(f"http://127.0.0.1:{silent_port}/v1", connect=60.0)))
        await asyncio.sleep(0.1)
        await transport.aclose()
        with pytest.raises(httpx.ConnectError, match="the client closed the connection"):
            await asyncio.wait_for(task, 5 * patience())

    run(converse)
