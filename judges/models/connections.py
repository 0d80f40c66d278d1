"""Connections to one endpoint for many calls at once: one address, no redirects, no cookies, bounded responses.

The calls use httpx's transports and not its client, which takes extra time and would look for proxies and passwords in
the environment. Addresses without TLS use our own transport (`plain_http`), all others that of httpx, which also speaks
HTTP/2. Each pool of httpx is small: for every request, httpcore looks at all connections of a pool, or at every pair of
them. With hundreds in one pool, it spends more time on them than on the calls.
"""

import asyncio
import importlib
import logging
import ssl
import sys
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol, Self, cast

import httpx

from judges.models.plain_http import PlainTransport
from judges.runtime.sync import is_cancelled

MAX_RESPONSE_BYTES = 4 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024

# Without TLS, one connection per transport; with TLS, the calls that share an HTTP/2 connection.
_CALLS_PER_TRANSPORT = {"http": 1, "https": 8}
_IDLE_SECONDS = 30.0
_ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})
# zlib's number for "detect whether it is gzip or deflate".
_ANY_HEADER = 32 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response; a body that is too long is cut shortly after the limit."""

    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


@dataclass(slots=True)
class _Exchange:
    read: bool = False
    """Whether the body is read, and only cleanup is left."""


@dataclass(slots=True, kw_only=True)
class _Lane:
    transport: httpx.AsyncBaseTransport
    loop: asyncio.AbstractEventLoop
    calls: int = 0
    used_at: float = 0.0
    opening: asyncio.Lock | None = None
    """Only for connections that begin with a TLS handshake."""


class EndpointConnections:
    """Opens transports as they are needed, inside the running loop, and keeps their connections for the next calls."""

    def __init__(
        self,
        url: httpx.URL,
        *,
        headers: Mapping[str, str],
        connect_seconds: float,
        read_seconds: float | None,
        proxy: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = url
        self._headers = httpx.Headers({"Host": url.netloc.decode("ascii"), **headers}).raw
        self._timeouts = {"connect": connect_seconds, "read": read_seconds, "write": read_seconds, "pool": None}
        self._tls = _tls_for(url)
        self._proxy = None if proxy is None else _proxy_at(httpx.URL(proxy))
        self._shakes_hands = url.scheme == "https" or (proxy is not None and httpx.URL(proxy).scheme == "https")
        self._transport = transport
        self._is_plain = url.scheme == "http" and proxy is None and transport is None
        # A transport that the caller passes is the only one, and takes all calls.
        self._room = _CALLS_PER_TRANSPORT[url.scheme] if transport is None else sys.maxsize
        self._lanes: list[_Lane] = []
        self._free: list[_Lane] = []
        """Lanes with room for another call; the most recently used one is last and is used first."""

        self._under_way: set[asyncio.Task[Answer]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        _look_for_sniffio_once()

    async def post(self, content: bytes) -> Answer:
        """Post the content and return the answer; raise httpx's errors.

        A cancellation aborts the exchange, but never its cleanup. httpcore shields it only from cancellation by anyio,
        and a connection that it cannot return to its pool is neither used again nor closed. Our own transport cleans up
        without waiting, so a cancellation cannot interrupt it.
        """
        self._enter(asyncio.get_running_loop())
        exchange = _Exchange()
        if self._is_plain:
            return await self._exchange(content, exchange)
        work = asyncio.create_task(self._exchange(content, exchange))
        self._under_way.add(work)
        work.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if not is_cancelled():
                raise httpx.ReadError("the client closed the connection") from None
            if not exchange.read:
                work.cancel()
            await asyncio.wait([work])
            raise

    async def _exchange(self, content: bytes, exchange: _Exchange) -> Answer:
        lane = self._take_lane()
        try:
            response = await self._response(lane, content)
            try:
                body = await _read(response, MAX_RESPONSE_BYTES if response.is_success else MAX_ERROR_BYTES, exchange)
                _give_up_if_more_arrived(response)
            finally:
                await response.aclose()
        finally:
            self._give_back(lane)
        await self._close_one_idle()
        return Answer(status=response.status_code, headers=response.headers, body=body)

    async def _response(self, lane: _Lane, content: bytes) -> httpx.Response:
        # With a stream, httpx adds no headers; checking which to add would take longer than everything else.
        headers = [*self._headers, (b"Content-Length", b"%d" % len(content))]
        request = httpx.Request(
            "POST",
            self._url,
            headers=headers,
            stream=httpx.ByteStream(content),
            extensions={"timeout": self._timeouts},
        )
        if lane.opening is None:
            return await lane.transport.handle_async_request(request)
        async with _Opening(lane.opening) as opening:
            request.extensions["trace"] = opening.trace
            return await lane.transport.handle_async_request(request)

    async def aclose(self) -> None:
        lanes, under_way, loop = self._lanes, list(self._under_way), self._loop
        self._enter(None)
        if loop is not asyncio.get_running_loop():
            return
        # httpcore would not close connections that are being opened.
        for work in under_way:
            work.cancel()
        if under_way:
            await asyncio.wait(under_way)
        for lane in lanes:
            await lane.transport.aclose()

    def _enter(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Forget the connections of another loop: after it has ended, they can be neither used nor closed."""
        if self._loop is not loop:
            self._lanes, self._free, self._under_way, self._loop = [], [], set(), loop

    def _take_lane(self) -> _Lane:
        if not self._free:
            lane = self._new_lane(asyncio.get_running_loop())
            self._lanes.append(lane)
            self._free.append(lane)
        lane = self._free[-1]
        lane.calls += 1
        if lane.calls == self._room:
            self._free.pop()
        return lane

    def _new_lane(self, loop: asyncio.AbstractEventLoop) -> _Lane:
        if self._transport is not None:
            return _Lane(transport=self._transport, loop=loop)
        return _Lane(transport=self._new_transport(), loop=loop, opening=asyncio.Lock() if self._shakes_hands else None)

    def _give_back(self, lane: _Lane) -> None:
        if lane.calls == self._room and lane.loop is self._loop:
            self._free.append(lane)
        lane.calls -= 1
        lane.used_at = lane.loop.time()

    async def _close_one_idle(self) -> None:
        """Close the connection that is idle for longest: otherwise one that the endpoint has closed would stay here."""
        oldest = self._free[0] if len(self._free) > 1 else None
        if oldest is not None and not oldest.calls and oldest.loop.time() - oldest.used_at > _IDLE_SECONDS:
            self._free.remove(oldest)
            self._lanes.remove(oldest)
            # An unused connection may fail to close; the current call already has its answer.
            with suppress(Exception):
                await oldest.transport.aclose()

    def _new_transport(self) -> httpx.AsyncBaseTransport:
        if self._is_plain:
            return PlainTransport()
        return httpx.AsyncHTTPTransport(
            verify=self._tls,
            trust_env=False,
            http2=self._url.scheme == "https",  # if the endpoint offers it
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=self._room),
            proxy=self._proxy,
        )


class _Stream(Protocol):
    async def aclose(self) -> None: ...


class _Opening:
    """Follows a request until it has a connection; only one request at a time opens one.

    httpcore 1.0 leaks a connection if a cancellation arrives during its TLS handshake. The connection stays open, so it
    is closed here. Another request that waits for the same handshake would then open a connection outside its pool, so
    no request may wait there.
    """

    def __init__(self, turn: asyncio.Lock) -> None:
        self._turn: asyncio.Lock | None = turn
        self._stream: _Stream | None = None
        self._shaking_hands = False

    async def __aenter__(self) -> Self:
        assert self._turn is not None
        await self._turn.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._next_turn()
        if self._stream is not None and self._shaking_hands:
            # The request has already failed for another reason.
            with suppress(Exception):
                await self._stream.aclose()

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Receive from httpcore every step of the request, and of the one that opens a tunnel through a proxy."""
        step = event.partition(".")[2]
        if step == "connect_tcp.complete":
            self._stream = info["return_value"]
        elif step == "start_tls.started":
            self._shaking_hands = True
        elif step == "start_tls.complete":
            self._shaking_hands = False
        elif step == "send_request_headers.started" and info["request"].method != b"CONNECT":
            self._next_turn()

    def _next_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.release()


async def _read(response: httpx.Response, limit: int, exchange: _Exchange) -> bytes:
    """Return the body; of one longer than `limit`, the first `limit` bytes and a few more."""
    body = bytearray()
    # An async generator, despite its annotation: closed here, it cannot outlive the connection.
    async with aclosing(
        cast(AsyncGenerator[bytes, None], aiter(cast(httpx.AsyncByteStream, response.stream)))
    ) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > limit:
                break
        exchange.read = True
    encoding = response.headers.get("content-encoding", "").lower()
    return _decompress(body, limit) if encoding in _ENCODINGS else bytes(body)


def _give_up_if_more_arrived(response: httpx.Response) -> None:
    """Make httpcore close a connection on which more than the response arrived.

    The extra data would be taken for the response to the next request. httpcore itself notices data that arrives later.
    No library gives access to this state of HTTP/1.1 and TLS; only the attributes here and below are private.
    """
    state: Any = response.stream
    for attribute in ("_httpcore_stream", "_stream", "_connection", "_h11_state"):
        state = getattr(state, attribute, None)
    if state is not None and (state.trailing_data[0] or _has_undelivered_tls_data(response)):
        state.send_failed()


def _has_undelivered_tls_data(response: httpx.Response) -> bool:
    """Return whether data has left the socket that TLS has not decrypted yet, since one read may take two responses.

    Through a proxy with TLS, there are two layers of TLS, and the data may be in either.
    """
    layer: Any = getattr(response.extensions.get("network_stream"), "_stream", None)
    while layer is not None:
        encrypted = getattr(layer, "_read_bio", None)
        if encrypted is not None and encrypted.pending:
            return True
        layer = getattr(layer, "transport_stream", None)
    return False


def _decompress(body: bytearray, limit: int) -> bytes:
    """Decompress a body that an endpoint compressed without being asked, up to the same limit."""
    try:
        return zlib.decompressobj(wbits=_ANY_HEADER).decompress(body, limit + 1)
    except zlib.error:
        return bytes(body)


def _look_for_sniffio_once() -> None:
    """Mark a missing sniffio as missing: httpcore tries to import it for every call, a third of httpcore's time."""
    if find_spec("sniffio") is None:
        sys.modules["sniffio"] = None  # type: ignore[assignment] # the import system's mark for "not installed"


def _proxy_at(url: httpx.URL) -> httpx.Proxy:
    return httpx.Proxy(url, ssl_context=_tls_for(url) if url.scheme == "https" else None)


def _tls_for(url: httpx.URL) -> ssl.SSLContext:
    """Create the TLS context before the calls, because reading the certificates would block a running event loop.

    An address without TLS gets a context without certificates, which costs nothing.
    """
    if url.scheme != "https":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    importlib.import_module("h2.connection")  # imported early for the same reason
    # hpack logs the headers that it compresses, including the key.
    for name in ("hpack.hpack", "hpack.table"):
        logging.getLogger(name).addFilter(_is_warning)
    return httpx.create_ssl_context()


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING
