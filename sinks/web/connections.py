"""Connections: accepting them, at most a fixed number at once, whatever their clients do."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Protocol, cast

from sinks.web.limits import Limits

log = logging.getLogger(__name__)

# Without free file descriptors, accept again when some are closed; connections have a small share of them.
_RETRY_SECONDS = 1.0
# The last bytes of a client need a few turns of the event loop to reach its request's handler.
_SETTLE_SECONDS = 0.1
# Aborted connections need two turns of the event loop.
_CLOSE_SECONDS = 1.0

_current: ContextVar["Connection"] = ContextVar("connection")


def current_connection() -> "Connection":
    """Return the connection whose request is being handled."""
    return _current.get()


class Body(Protocol):
    """The end of a request's body; aiohttp's `StreamReader` implements it."""

    def is_eof(self) -> bool: ...
    def feed_eof(self) -> None: ...


class Connection(asyncio.Protocol):
    """Stands between a socket and aiohttp's handler for it, and tracks whose turn it is: the client's or ours.

    A client may close its side after a request and still gets its reply; aiohttp alone would drop it.
    """

    def __init__(self, handler: asyncio.Protocol, on_lost: Callable[["Connection"], None]) -> None:
        self._handler = handler
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._is_tls = False
        self._body: Body | None = None
        self._is_answering = False
        self._has_client_ended = False
        self.opening: asyncio.Task[object] | None = None
        """For TLS, this waits for the client."""
        self.is_aborted = False
        self.is_body_cut_short = False
        """Whether the client ended before the body that was being read."""
        self.waiting_since: float | None = self._loop.time()
        """Start of the client's turn, or of the wait for a thread; None while the request is computed."""

    def abort(self) -> None:
        """Close the socket without waiting for the client."""
        self.is_aborted = True
        if self._transport is not None:
            self._transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    # Turns, as the application takes them

    def begin_request(self, body: Body) -> None:
        self._is_answering = True
        self._body = body
        self.waiting_since = self._loop.time()
        if self._has_client_ended:
            self._end_body()

    def begin_waiting(self) -> None:
        """Begin to wait for a thread. Like slow clients, clients of a slow page may be dropped for others."""
        self._body = None
        self.waiting_since = self._loop.time()

    def begin_computing(self) -> None:
        """Begin to compute; raises `ConnectionError` if the client is gone and would not read the reply."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the client disconnected")
        self.waiting_since = None

    def begin_writing(self) -> None:
        self._body = None
        self.waiting_since = self._loop.time()

    def end_request(self) -> None:
        self._is_answering = False
        self._body = None
        self.waiting_since = self._loop.time()
        if self._has_client_ended:
            self._close_when_settled()

    # Events, as asyncio reports them

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        # A reply counts as written when the network has all of it: with a buffer in between, a client that does not
        # read would keep a closed connection open.
        self._transport.set_write_buffer_limits(high=1 if self._is_tls else 0)  # with 0, TLS would pause at 0 bytes
        # aiohttp's tasks for this connection are created in the next line, and inherit the variable.
        _current.set(self)
        self._handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._handler.data_received(data)

    def eof_received(self) -> bool:
        """Return whether the connection stays open, which it never does with TLS."""
        if self._is_tls:
            return False
        self._has_client_ended = True
        self._end_body()
        self._close_when_settled()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost(self)
        self._handler.connection_lost(exc)

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

    def _end_body(self) -> None:
        if self._body is not None and not self._body.is_eof():
            self.is_body_cut_short = True
            self._body.feed_eof()

    def _close_when_settled(self) -> None:
        self._loop.call_later(_SETTLE_SECONDS, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if self._transport is not None and not self._is_answering:
            self._transport.close()


class Connections:
    """Accepts connections. When there are too many, the one that has waited longest is dropped.

    So clients that are slow on purpose only block each other, and not ordinary clients. Only a request that is being
    computed keeps its connection, and routes compute few at once.
    """

    def __init__(self, limits: Limits, tls: ssl.SSLContext | None) -> None:
        self._limits = limits
        self._limit = limits.connection_limit()
        self._tls = tls
        self._open: set[Connection] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    async def accept(self, listener: socket.socket, make_handler: Callable[[], asyncio.Protocol]) -> None:
        """Accept connections until cancelled."""
        while True:
            await _wait_for_client(listener)
            try:
                # Not by `sock_accept` of the loop: cancelled at the wrong moment, it would lose the socket.
                connected, _address = listener.accept()
                connected.setblocking(False)
            except (BlockingIOError, ConnectionError):  # the client left before it was accepted
                continue
            except OSError as error:
                log.warning("cannot accept connections: %s", error.strerror)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if not self._has_room() and not self._abort_slowest():
                connected.close()
                continue
            self._open_connection(connected, Connection(make_handler(), self._forget))
            # An aborted connection closes its socket in the next turn of the loop.
            await asyncio.sleep(0)

    async def close(self) -> None:
        """End all connections at once."""
        for connection in [*self._open]:
            connection.abort()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._is_empty.wait()

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        if not self._open:
            self._is_empty.set()

    def _has_room(self) -> bool:
        return sum(not connection.is_aborted for connection in self._open) < self._limit

    def _abort_slowest(self) -> bool:
        """Abort the connection that has waited longest; return whether there was one."""
        waiting = [
            (connection.waiting_since, connection)
            for connection in self._open
            if connection.waiting_since is not None and not connection.is_aborted
        ]
        if not waiting:
            return False
        _, slowest = min(waiting, key=lambda pair: pair[0])
        slowest.abort()
        return True

    def _open_connection(self, connected: socket.socket, connection: Connection) -> None:
        def check(opening: "asyncio.Task[object]") -> None:
            if opening.cancelled() or (error := opening.exception()) is not None:
                log.debug("a connection closed early: %s", "aborted" if opening.cancelled() else error)
                self._forget(connection)
                connected.close()

        self._open.add(connection)
        self._is_empty.clear()
        handshake = self._limits.handshake_seconds if self._tls is not None else None
        connection.opening = asyncio.create_task(
            asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                connected,
                ssl=self._tls,
                ssl_handshake_timeout=handshake,
                ssl_shutdown_timeout=handshake,
            )
        )
        connection.opening.add_done_callback(check)


async def _wait_for_client(listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(listener, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(listener)
