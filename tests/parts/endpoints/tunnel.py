"""A proxy that opens a tunnel to one port, whatever address its clients ask for."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_HEADER_BYTES = 5


@asynccontextmanager
async def tunnel_to(port: int, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Start the proxy, which itself speaks TLS with `tls`, and return its address."""

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        behind = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await asyncio.gather(_pass_on(reader, behind[1]), _pass_on(behind[0], writer))

    async with await asyncio.start_server(connect, "127.0.0.1", 0, ssl=tls) as server:
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on the records of TLS one by one, so that a proxy with TLS sends each in a record of its own."""
    with suppress(OSError, asyncio.IncompleteReadError):
        while True:
            header = await reader.readexactly(_HEADER_BYTES)
            writer.write(header + await reader.readexactly(int.from_bytes(header[3:])))
            await writer.drain()
    writer.close()
