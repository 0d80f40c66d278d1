"""HTTP/1.1 without TLS on one connection at a time, as a transport of httpx.

Endpoints on a private network get the most calls, and httpx's own transport takes several times the processor time of
the exchange itself: for its pool, its locks, and cancel scopes around every step. Here asyncio moves the bytes, h11
writes and reads the messages, and one connection serves one call after the other. If a call ends early, its connection
is closed immediately and without waiting, so that a cancellation cannot leak one.
"""

import asyncio
import select
import socket
from collections.abc import AsyncIterator
from typing import Any

import h11
import httpx

# As in httpx's own transport.
_MAX_HEAD_BYTES = 100 * 1024
_UNSOLICITED = "the endpoint sent data without a request"


class PlainTransport(httpx.AsyncBaseTransport):
    """Keeps its connection for the next request, and opens another one if the endpoint has closed it or sent more.

    It handles one request at a time, in the event loop of its first request. The read timeout starts with sending, so
    it also covers an endpoint that does not accept the request.
    """

    def __init__(self) -> None:
        self._connection: _Connection | None = None
        self._opening: asyncio.Timeout | None = None
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request and return its response; raise httpx's errors."""
        timeouts: dict[str, float | None] = request.extensions.get("timeout", {})
        content = b"".join([part async for part in _body_parts(request)])
        connection = self._connection
        if connection is None or not connection.can_send():
            connection = self._connection = await self._open(request.url, timeouts.get("connect"))
        try:
            return await connection.exchange(request, content, timeouts.get("read"))
        except BaseException:
            connection.close("the call was aborted")
            raise

    async def aclose(self) -> None:
        """Close the connection; a request in flight fails."""
        self._closed = True
        if self._opening is not None:
            self._opening.reschedule(asyncio.get_running_loop().time())
        if self._connection is not None:
            self._connection.close("the client closed the connection")

    async def _open(self, url: httpx.URL, seconds: float | None) -> "_Connection":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds) as self._opening:
                # Several addresses of a host are tried one after the other: asyncio's race between them (happy
                # eyeballs) leaks a connection if its caller is cancelled.
                _, connection = await loop.create_connection(_Connection, url.host, url.port or 80)
        except TimeoutError:
            if self._closed:
                raise httpx.ConnectError("the client closed the connection") from None
            raise httpx.ConnectTimeout("no connection before the timeout") from None
        except (OSError, UnicodeError) as error:
            raise httpx.ConnectError(str(error)) from error
        finally:
            self._opening = None
        return connection


class _Connection(asyncio.Protocol):
    """One connection, and the state of the exchange on it."""

    def __init__(self) -> None:
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._failure: httpx.TransportError | None = None
        self._unread = select.poll()
        """Finds data that has arrived, but that the event loop has not read yet."""

        self._is_idle = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        connection: socket.socket = transport.get_extra_info("socket")
        self._unread.register(connection.fileno(), select.POLLIN)

    def can_send(self) -> bool:
        """Return whether it accepts a request; close it if data has arrived that answers none."""
        if self._is_idle and self._unread.poll(0):
            self.close(_UNSOLICITED)
        return self._is_idle

    def data_received(self, data: bytes) -> None:
        if self._is_idle:
            # It would be taken for the answer to the next request.
            self.close(_UNSOLICITED)
            return
        self._state.receive_data(data)
        self._wake()

    def eof_received(self) -> None:
        self._is_idle = False
        self._state.receive_data(b"")
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_idle = False
        if self._failure is None and error is not None:
            self._failure = httpx.ReadError(str(error))
        self._wake()

    def close(self, reason: str) -> None:
        """Close the connection immediately; a request in flight fails with the reason."""
        self._is_idle = False
        self._failure = self._failure or httpx.ReadError(reason)
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    async def exchange(self, request: httpx.Request, content: bytes, seconds: float | None) -> httpx.Response:
        """Send a request and return its response once the status and the headers have arrived."""
        assert self._transport is not None
        self._is_idle = False
        self._transport.write(self._encode(request, content))
        while isinstance(event := await self.next_event(seconds), h11.InformationalResponse):
            pass
        if not isinstance(event, h11.Response):
            raise httpx.RemoteProtocolError(f"received {type(event).__name__} instead of a response")
        return httpx.Response(
            event.status_code, headers=event.headers.raw_items(), stream=_Body(self, seconds), request=request
        )

    def _encode(self, request: httpx.Request, content: bytes) -> bytes:
        try:
            head = h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
            events = (head, h11.Data(data=content), h11.EndOfMessage())
            return b"".join([self._state.send(event) or b"" for event in events])
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error)) from error

    async def next_event(self, seconds: float | None) -> Any:
        """Return the next part of the response; wait at most this many seconds for each piece of data."""
        while True:
            try:
                event = self._state.next_event()
            except h11.RemoteProtocolError as error:
                raise self._failure or httpx.RemoteProtocolError(str(error)) from error
            if event is not h11.NEED_DATA:
                return event
            if self._failure is not None:
                raise self._failure
            await self._wait(seconds)

    async def _wait(self, seconds: float | None) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            if seconds is None:
                await self._waiter
                return
            async with asyncio.timeout(seconds):
                await self._waiter
        except TimeoutError:
            raise httpx.ReadTimeout("no data before the timeout") from None
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def finish(self) -> None:
        """Keep the connection if the response was read to the end and both sides are done; otherwise close it."""
        state = self._state
        is_done = state.our_state is h11.DONE and state.their_state is h11.DONE
        if is_done and not state.trailing_data[0] and self._failure is None:
            state.start_next_cycle()
            self._is_idle = True
        else:
            self.close("the response was not read to the end")


class _Body(httpx.AsyncByteStream):
    def __init__(self, connection: _Connection, seconds: float | None) -> None:
        self._connection = connection
        self._seconds = seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while isinstance(event := await self._connection.next_event(self._seconds), h11.Data):
            yield bytes(event.data)

    async def aclose(self) -> None:
        self._connection.finish()


def _body_parts(request: httpx.Request) -> AsyncIterator[bytes]:
    assert isinstance(request.stream, httpx.AsyncByteStream)
    return aiter(request.stream)
