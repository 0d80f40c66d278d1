"""The web server of a process, in its own thread."""

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Self

from sinks.web.limits import Limits
from sinks.web.routes import Route

if TYPE_CHECKING:
    from sinks.web.application import Application

log = logging.getLogger(__name__)

# Connections that wait to be accepted while the loop is busy; the kernel holds them, not our file descriptors.
_BACKLOG = 128
# Beyond the time for requests in flight: the thread only has to close sockets.
_JOIN_SECONDS = 5.0


class _Running(NamedTuple):
    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event


class WebServer:
    """Serves routes from `start` to `stop`, or for the length of a `with` block.

    Its event loop has its own thread, so that a stage that blocks does not stall it. With a token, every route with
    `needs_token` asks for it, and so does every page that does not exist. With a certificate, it serves TLS only.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        *,
        index: str,
        host: str,
        port: int,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Configure the server. Port 0 takes a free one; `index` is the page at `/` and for unknown pages."""
        self._routes = routes
        self._index = index
        self._host = host
        self._port = port
        self._token = token
        self._tls = tls
        self._limits = limits or Limits()
        self._address: tuple[str, int] | None = None
        self._running: _Running | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The address it listens on, known once it has started."""
        if self._address is None:
            raise RuntimeError("the web server has not started")
        host, port = self._address
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def start(self) -> None:
        """Bind the port and serve; raises `OSError` if the port cannot be bound."""
        from sinks.web.application import Application  # noqa: PLC0415 - loads aiohttp, which only a server needs

        application = Application(self._routes, index=self._index, token=self._token, limits=self._limits)
        listener = _listen(self._host, self._port)
        host, port = listener.getsockname()[:2]
        self._address = str(host), int(port)
        started: Future[_Running] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(listener, application, started), name="web", daemon=True
        )
        self._thread.start()
        self._running = started.result()

    def stop(self) -> None:
        """Finish the requests in flight, for a short time, and close the port."""
        if self._running is None or self._thread is None:
            return
        with suppress(RuntimeError):  # the loop has ended by itself, with an error in the log
            self._running.loop.call_soon_threadsafe(self._running.stop.set)
        self._thread.join(2 * self._limits.stop_seconds + _JOIN_SECONDS)
        self._running = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _run(self, listener: socket.socket, application: "Application", started: "Future[_Running]") -> None:
        from sinks.web.application import serve  # noqa: PLC0415 - as above

        async def main() -> None:
            stop = asyncio.Event()
            started.set_result(_Running(asyncio.get_running_loop(), stop))
            await serve(listener, application, tls=self._tls, stop=stop)

        try:
            asyncio.run(main())
        except BaseException as error:  # raised in `start`, or logged if that has returned
            listener.close()
            if started.done():
                log.exception("the web server ended")
            else:
                started.set_exception(error)


def _listen(host: str, port: int) -> socket.socket:
    """Open a listening socket without looking up the host's name, which can take seconds without a network."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
