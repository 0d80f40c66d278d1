"""Connections to an endpoint that sends more than it was asked for."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

from judges.models import ChatMessage, OpenAIModel
from tests.parts.certificates import Authority
from tests.parts.endpoints.tunnel import tunnel_to
from tests.parts.patience import patience

ASK = [ChatMessage(role="user", content="Is it so?")]


def http_response(text: str, *, chunked: bool) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = json.dumps({"choices": [choice]}).encode()
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    if chunked:
        return f"{head}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class TalkativeEndpoint:
    """Sends each answer, followed at once or a little later by an unsolicited one.

    `tls` is for connections with TLS, which carry the two answers in a record each.
    """

    def __init__(self, *, chunked: bool, seconds: float = 0.0, tls: ssl.SSLContext | None = None) -> None:
        self._chunked = chunked
        self._seconds = seconds
        self._tls = tls
        self.asked = 0
        self.connections = 0
        self._talks: list[asyncio.Task[None]] = []

    def begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._talks.append(asyncio.create_task(self.talk(reader, writer)))

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0]))
                self.asked += 1
                answers = [http_response(f"{kind} {self.asked}", chunked=self._chunked) for kind in ("asked", "more")]
                if self._seconds:
                    writer.write(answers[0])
                    await asyncio.sleep(self._seconds)
                    writer.write(answers[1])
                elif self._tls is not None:
                    for answer in answers:
                        writer.write(answer)
                else:
                    writer.write(b"".join(answers))
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def wait_for_end(self) -> None:
        """Wait until the client has closed the last connection."""
        _, open_talks = await asyncio.wait(self._talks[-1:], timeout=4 * patience(at_most=2.0))
        assert not open_talks, "the connection stays open"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self.begin, "127.0.0.1", 0, ssl=self._tls)
        scheme = "http" if self._tls is None else "https"
        try:
            yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        finally:
            server.close()
            await asyncio.gather(*self._talks)


async def three_answers(endpoint: TalkativeEndpoint, base_url: str, proxy: str | None = None) -> list[str | None]:
    """Ask three times, each time after the endpoint has lost its connection."""
    model = OpenAIModel("tiny", base_url=base_url, proxy=proxy)
    texts = []
    try:
        for _ in range(3):
            texts.append((await model.complete(ASK, schema=None)).text)
            await endpoint.wait_for_end()
    finally:
        await model.aclose()
    assert endpoint.connections == 3
    return texts


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("seconds", [0.0, 0.02])
def test_an_unsolicited_answer_is_not_taken_for_the_next_one(chunked: bool, seconds: float) -> None:
    async def converse() -> list[str | None]:
        endpoint = TalkativeEndpoint(chunked=chunked, seconds=seconds)
        async with endpoint.serving() as base_url:
            return await three_answers(endpoint, base_url)

    assert asyncio.run(converse()) == ["asked 1", "asked 2", "asked 3"]


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("proxy", [None, "http", "https"])
def test_an_unsolicited_answer_in_its_own_tls_record_is_not_taken_for_the_next_one(
    chunked: bool, proxy: str | None, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read takes both records from the socket. Behind a proxy with TLS, the second one waits in the outer TLS."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.sign("talkative"))

    async def converse() -> list[str | None]:
        endpoint = TalkativeEndpoint(chunked=chunked, tls=tls)
        async with AsyncExitStack() as stack:
            base_url = await stack.enter_async_context(endpoint.serving())
            port = int(base_url.rpartition(":")[2].partition("/")[0])
            if proxy is None:
                return await three_answers(endpoint, base_url)
            address = await stack.enter_async_context(tunnel_to(port, tls=tls if proxy == "https" else None))
            return await three_answers(endpoint, base_url, address)

    assert asyncio.run(converse()) == ["asked 1", "asked 2", "asked 3"]


@pytest.mark.parametrize("chunked", [True, False])
def test_an_unsolicited_answer_that_nobody_has_read_yet_is_not_taken_for_the_next_one(chunked: bool) -> None:
    connections = []

    async def answer(server: socket.socket, text: str) -> None:
        loop = asyncio.get_running_loop()
        connection, _ = await loop.sock_accept(server)
        connections.append(connection)
        await loop.sock_recv(connection, 65_536)
        await loop.sock_sendall(connection, http_response(text, chunked=chunked))

    async def converse() -> list[str | None]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.setblocking(False)
            model = OpenAIModel("tiny", base_url=f"http://127.0.0.1:{server.getsockname()[1]}/v1")
            answering = asyncio.create_task(answer(server, "asked 1"))
            first = await model.complete(ASK, schema=None)
            await answering
            answering = asyncio.create_task(answer(server, "asked 2"))
            # The event loop runs again only after the next request was sent.
            connections[0].sendall(http_response("more", chunked=chunked))
            second = await model.complete(ASK, schema=None)
            answering.cancel()
            await asyncio.wait([answering])
            await model.aclose()
        return [first.text, second.text]

    texts = asyncio.run(converse())
    for connection in connections:
        connection.close()
    assert texts == ["asked 1", "asked 2"]
