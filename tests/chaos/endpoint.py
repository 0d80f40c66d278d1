"""A judge endpoint that fails sometimes, can be stopped, and counts its answers: python -m tests.chaos.endpoint

It is a separate process, so that its work does not slow the harness. It prints its port; `Endpoint` controls it.
"""

import argparse
import asyncio
import contextlib
import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.request import Request, urlopen

from tests.parts import child
from tests.parts.patience import patience

LATENCY_SECONDS = (0.05, 0.25)
HANG_SECONDS = 2.0
_CALL_SECONDS = 10.0
_ID = re.compile(r"\brec-\d{7}\b")

Answer = tuple[int, bytes] | None
"""Status and body; None closes the connection without an answer."""


@dataclass(slots=True, kw_only=True)
class Judge:
    """Answers requests, and counts good answers by interaction and criterion."""

    lots: random.Random
    error_rate: float = 0.0
    down: bool = False
    answered: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    async def answer(self, body: Mapping[str, Any]) -> Answer:
        if self.down:
            self.faults["outage"] += 1
            return None
        await asyncio.sleep(self.lots.uniform(*LATENCY_SECONDS))
        if self.lots.random() < self.error_rate:
            name = self.lots.choice(list(_FAULTS))
            self.faults[name] += 1
            if name == "hang":
                await asyncio.sleep(HANG_SECONDS)
            return _FAULTS[name]
        labels = body["response_format"]["json_schema"]["schema"]["properties"]["verdict"]["enum"]
        label = next(option for option in reversed(labels) if option != "not_applicable")
        match = _ID.search(" ".join(message["content"] for message in body["messages"]))
        assert match is not None, "the prompt has no interaction id"
        # The two criteria have different labels.
        self.answered[match.group(), label] += 1
        return 200, _completion(json.dumps({"explanation": "Because it is so.", "verdict": label}))

    def command(self, body: Mapping[str, Any]) -> None:
        self.error_rate = float(body.get("error_rate", self.error_rate))
        self.down = bool(body.get("down", self.down))

    def counts(self) -> Mapping[str, Any]:
        answered = [[record, label, count] for (record, label), count in self.answered.items()]
        return {"answered": answered, "faults": dict(self.faults)}


def _completion(text: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()


_FAULTS: Mapping[str, Answer] = {
    "500": (500, b'{"error": {"message": "it broke"}}'),
    "503": (503, b"<html><body>overloaded</body></html>"),
    "429": (429, b'{"error": {"message": "slow down"}}'),
    "no verdict": (200, _completion("Well, that depends.")),
    "garbage": (200, b"\x00\xff this is no completion"),
    "hang": None,
}


# The server: as much of HTTP as the clients use


async def serve(judge: Judge, announce: Callable[[int], None]) -> None:
    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await _exchange(judge, reader, writer):
                pass
        writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, backlog=512)
    announce(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _exchange(judge: Judge, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Handle one request; return False when the connection is over."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = re.search(r"content-length: *(\d+)", head)
    body = await reader.readexactly(int(length[1]) if length else 0)
    path = head.split(" ", 2)[1]
    if path == "/counts":
        answer: Answer = 200, json.dumps(judge.counts()).encode()
    elif path == "/command":
        judge.command(json.loads(body))
        answer = 200, b"{}"
    else:
        answer = await judge.answer(json.loads(body))
    if answer is None:
        return False
    status, text = answer
    writer.write(f"HTTP/1.1 {status} As told\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
    await writer.drain()
    return True


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seed", type=int, default=0)
    judge = Judge(lots=random.Random(arguments.parse_args().seed))
    asyncio.run(serve(judge, lambda port: print(port, flush=True)))


# The endpoint as the harness controls it


class Endpoint:
    """The endpoint's process, for a `with` block."""

    def __init__(self, *, seed: int, log: Path) -> None:
        self._seed, self._log = seed, log
        self._process: subprocess.Popen[str] | None = None
        self._port = 0

    def __enter__(self) -> Self:
        command = [sys.executable, str(child.__file__), sys.executable, "-m", "tests.chaos.endpoint"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--seed", str(self._seed)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the endpoint did not start: {self._log.read_text()}")
        self._port = int(line)
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def command(self, **settings: float | bool) -> None:
        self._ask("command", json.dumps(settings).encode())

    def counts(self) -> tuple[Counter[tuple[str, str]], Mapping[str, int]]:
        """Return the good answers by interaction and verdict (which names the criterion), and the faults by kind."""
        counts = self._ask("counts", None)
        return Counter({(record, label): count for record, label, count in counts["answered"]}), counts["faults"]

    def _ask(self, path: str, body: bytes | None) -> dict[str, Any]:
        request = Request(f"http://127.0.0.1:{self._port}/{path}", data=body)
        with urlopen(request, timeout=_CALL_SECONDS * patience()) as response:
            reply: dict[str, Any] = json.loads(response.read())
        return reply


if __name__ == "__main__":
    main()
