"""A proxy in front of a real broker that fails as a broker does: it goes away, and when it is back, lists no brokers.

A real broker answers so until the controller admits it again, but only now and then for long enough to be asked.
"""

import asyncio
import contextlib
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

T = TypeVar("T")

_METADATA = 3
# From this version on, lengths have a variable size.
_FIRST_VERSION = 9
_NUMBER, _REQUEST = struct.Struct(">i"), struct.Struct(">hhi")
# In an answer with metadata: the number of the request, an empty list of tags, and the time to wait.
_BROKERS_AT = 4 + 1 + 4


class KafkaProxy:
    """Passes everything on, and names itself in the place of the broker."""

    def __init__(self, bootstrap: str) -> None:
        self._host, _, port = bootstrap.rpartition(":")
        self._port, self._own_port = int(port), 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kafka proxy", daemon=True)
        self._connections: set[asyncio.Task[None]] = set()
        self._is_away = False
        self.hides_brokers = False
        self.answers_without_brokers = 0
        self.bootstrap = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._wait(asyncio.start_server(self._serve, self._host, 0))
        self._own_port = self._server.sockets[0].getsockname()[1]
        self.bootstrap = f"{self._host}:{self._own_port}"
        return self

    def __exit__(self, *_error: object) -> None:
        self._wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def go_away(self) -> None:
        """Close all connections, and accept none."""
        self._is_away = True
        self._wait(self._close_connections())

    def come_back(self) -> None:
        self._is_away = False

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _close(self) -> None:
        self._server.close()
        await self._close_connections()

    async def _close_connections(self) -> None:
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._connect(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(_close_writer, writer)
            if self._is_away:
                return
            broker_reader, broker_writer = await asyncio.open_connection(self._host, self._port)
            stack.push_async_callback(_close_writer, broker_writer)
            versions: dict[int, int] = {}
            # Either side may end the connection.
            with contextlib.suppress(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass_requests(reader, broker_writer, versions))
                    group.create_task(self._pass_answers(broker_reader, writer, versions))

    async def _pass_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, versions: dict[int, int]
    ) -> None:
        """Pass on requests, and note the version of those for metadata by their number."""
        while True:
            request = await _read_frame(reader)
            kind, version, number = _REQUEST.unpack_from(request)
            if kind == _METADATA:
                versions[number] = version
            writer.write(_NUMBER.pack(len(request)) + request)

    async def _pass_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, versions: dict[int, int]
    ) -> None:
        host = self._host.encode()
        while True:
            answer = await _read_frame(reader)
            answer = answer.replace(host + _NUMBER.pack(self._port), host + _NUMBER.pack(self._own_port))
            version = versions.pop(_NUMBER.unpack_from(answer)[0], None)
            if version is not None and self.hides_brokers:
                assert version >= _FIRST_VERSION
                answer = _without_brokers(answer)
                self.answers_without_brokers += 1
            writer.write(_NUMBER.pack(len(answer)) + answer)


async def _close_writer(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = _NUMBER.unpack(await reader.readexactly(_NUMBER.size))
    return await reader.readexactly(size)


def _without_brokers(answer: bytes) -> bytes:
    """Cut the brokers out of an answer: each is a number, a host, a port, a rack and a list of tags.

    A length is one more than that of the text or list, and 0 for none.
    """
    brokers, place = answer[_BROKERS_AT] - 1, _BROKERS_AT + 1
    for _ in range(brokers):
        place += _NUMBER.size
        place += answer[place]
        place += _NUMBER.size
        place += max(1, answer[place])
        assert answer[place] == 0, "tags are not expected"
        place += 1
    return answer[:_BROKERS_AT] + b"\x01" + answer[place:]
