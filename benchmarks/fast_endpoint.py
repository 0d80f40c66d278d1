"""An endpoint in a separate process that answers every call with the best verdict, immediately or after a fixed time.

It needs a small part of the processor time of its caller, so it hardly affects the measurement.

PYTHONPATH=. python -m benchmarks.fast_endpoint --seconds 0.2
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple


class RunningEndpoint(NamedTuple):
    """The address of the endpoint, and the process whose time can be measured."""

    base_url: str
    pid: int


@lru_cache
def make_response(labels: bytes) -> bytes:
    """Return the HTTP response with the last of the labels that a request's schema allows."""
    label = [label for label in json.loads(labels) if label != "not_applicable"][-1]
    explanation = "The answer says what was asked, in plain words that follow from the passages."
    message = {"role": "assistant", "content": json.dumps({"explanation": explanation, "verdict": label})}
    usage = {"prompt_tokens": 1500, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 0}}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    body = json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def labels_in(body: bytes) -> bytes:
    """Return the list of labels in the schema of a request, which follows the prompt."""
    start = body.index(b"[", body.rindex(b'"enum"'))
    return body[start : body.index(b"]", start) + 1]


class FastEndpoint(asyncio.Protocol):
    """Answers any POST; parses just enough HTTP to find where a request ends."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._read = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._read[:end]).lower()
            whole = end + 4 + int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(self._read) < whole:
                return
            response = make_response(labels_in(bytes(self._read[end + 4 : whole])))
            del self._read[:whole]
            if self._seconds:
                asyncio.get_running_loop().call_later(self._seconds, self._transport.write, response)
            else:
                self._transport.write(response)


async def serve(seconds: float) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: FastEndpoint(seconds), "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until the parent process ends


@contextmanager
def run_endpoint(seconds: float) -> Iterator[RunningEndpoint]:
    """Run the endpoint for the duration of the block; it answers after `seconds`."""
    command = [sys.executable, "-m", "benchmarks.fast_endpoint", "--seconds", str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield RunningEndpoint(f"http://127.0.0.1:{int(process.stdout.readline())}/v1", process.pid)
        finally:
            process.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.0)
    asyncio.run(serve(parser.parse_args().seconds))
