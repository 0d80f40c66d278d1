"""An endpoint for benchmarks: a process of its own that gives every judge a valid verdict after a fixed time.

It parses just enough of a request to find its end and the labels to choose from, so that it needs a small part of the
time that the caller needs, and is not what is measured.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

_NOT_A_LEVEL = "not_applicable"


class RunningEndpoint(NamedTuple):
    """Where it is, and the process whose time can be measured."""

    base_url: str
    pid: int


@cache
def build_reply(labels: bytes) -> bytes:
    """Build the HTTP response that chooses the last of these labels; they are a list in JSON."""
    label = [label for label in json.loads(labels) if label != _NOT_A_LEVEL][-1]
    content = json.dumps({"explanation": "It says at once what was asked.", "verdict": label})
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 400, "completion_tokens": 20}
    body = json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class FastEndpoint(asyncio.Protocol):
    """One connection: answers each POST, which names its labels in the last `enum` of its JSON schema."""

    seconds = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._read = bytearray()

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._read[:end]).lower()
            size = end + 4 + int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(self._read) < size:
                return
            start = self._read.index(b"[", self._read.rfind(b'"enum"', end, size))
            labels = bytes(self._read[start : self._read.index(b"]", start) + 1])
            del self._read[:size]
            self._loop.call_later(self.seconds, self._transport.write, build_reply(labels))


async def serve(seconds: float) -> None:
    FastEndpoint.seconds = seconds
    server = await asyncio.get_running_loop().create_server(FastEndpoint, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until whoever started it is gone


@contextmanager
def fast_endpoint(seconds: float) -> Iterator[RunningEndpoint]:
    """Run the endpoint for the length of the block; it answers after `seconds`."""
    command = [sys.executable, __file__, str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield RunningEndpoint(f"http://127.0.0.1:{int(process.stdout.readline())}/v1", process.pid)
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
