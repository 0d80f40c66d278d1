"""Connections to one endpoint for many calls at once, as httpx clients that are each kept small.

httpcore looks at every pair of a pool's connections for every request: with hundreds in one pool it spends more time on
them than on the calls.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

_CALLS_PER_CLIENT = 8


@dataclass(slots=True, kw_only=True)
class _Lane:
    client: httpx.AsyncClient
    calls: int = 0


class Connections:
    """Opens clients as they are needed, inside the running loop, and keeps their connections for the next calls."""

    def __init__(
        self, *, headers: Mapping[str, str], tls: ssl.SSLContext, transport: httpx.AsyncBaseTransport | None
    ) -> None:
        self._headers = headers
        self._tls = tls
        self._transport = transport
        self._lanes: list[_Lane] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client with room for one more call."""
        lane = self._free_lane()
        lane.calls += 1
        try:
            yield lane.client
        finally:
            lane.calls -= 1

    async def aclose(self) -> None:
        lanes, self._lanes = self._lanes, []
        if self._loop is asyncio.get_running_loop():
            for lane in lanes:
                await lane.client.aclose()

    def _free_lane(self) -> _Lane:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Connections of a loop that has ended cannot be used, or even closed, in the next.
            self._lanes, self._loop = [], loop
        for lane in self._lanes:
            if lane.calls < _CALLS_PER_CLIENT:
                return lane
        self._lanes.append(_Lane(client=self._new_client()))
        return self._lanes[-1]

    def _new_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers=self._headers,
            verify=self._tls,
            timeout=None,  # noqa: S113 - the caller's deadline covers every step
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=_CALLS_PER_CLIENT),
            transport=self._transport,
            follow_redirects=False,
        )


def tls_for(url: httpx.URL) -> ssl.SSLContext:
    """Made ahead of the calls, because reading the certificates would hold up a running event loop.

    An address without TLS gets a context that trusts nobody, which costs nothing.
    """
    return httpx.create_ssl_context() if url.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
