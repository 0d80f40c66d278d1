"""A chat-completions endpoint on a real socket that fails by script, for many clients at once; and a plain client.

One thread with a separate event loop serves all clients, so that hundreds of connections cost little.
"""

import asyncio
import itertools
import json
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Self, cast

import httpx

from judges.models.errors import ModelError, ModelProtocolError, ModelRefused, ModelTimeout, ModelUnavailable

HUGE_BYTES = 100 * 1024 * 1024
PROMPT_TOKENS, COMPLETION_TOKENS = 100, 10
"""Token counts that every completion reports."""


class Fault(Enum):
    """Ways in which an answer fails; a number is its HTTP status."""

    NONE = "nothing is wrong"
    THROTTLED = 429
    ERROR = 500
    OVERLOADED = 503
    BAD_REQUEST = 400
    UNAUTHORISED = 401
    UNPAID = 402
    FORBIDDEN = 403
    NOT_FOUND = 404
    RESET = "the connection is reset instead of answering"
    HANG_UP = "the connection is closed instead of answering"
    HALF = "the connection is closed in the middle of the body"
    SHORT = "the connection is closed before the end of the body, but after all that matters of it"
    SLOW_LORIS = "the body comes byte by byte and never ends"
    WRONG_TYPE = "a page instead of JSON"
    NOT_AN_ANSWER = "JSON that is no completion"
    NO_VERDICT = "a completion that does not say what was asked for"
    UNSUPPORTED = "what the request asks for is not supported"
    HUGE = "a body of 100 MB"
    GARBAGE = "bytes that are not HTTP"
    SILENCE = "no answer, and the connection stays open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The answer to one request."""

    fault: Fault = Fault.NONE
    seconds: float = 0.0
    """Delay before the answer."""

    retry_after: float | None = None


_CONNECTION_STAYS = frozenset({Fault.WRONG_TYPE, Fault.NOT_AN_ANSWER, Fault.NO_VERDICT, Fault.UNSUPPORTED})


class Limit:
    """Admits `per_second` answers per second, refilling evenly up to `burst`; refused requests use nothing up."""

    def __init__(self, per_second: float, *, burst: float = 1.0, retry_after: float | None = None) -> None:
        self._per_second, self._burst, self._level = per_second, burst, burst
        self._at = time.monotonic()
        self.retry_after = retry_after

    def takes(self) -> bool:
        now = time.monotonic()
        self._level = min(self._burst, self._level + (now - self._at) * self._per_second)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True


class WindowLimit(Limit):
    """Admits `per_second` answers in every second of the clock."""

    def __init__(self, per_second: float, *, retry_after: float | None = None) -> None:
        super().__init__(per_second, retry_after=retry_after)
        self._window, self._taken = 0, 0

    def takes(self) -> bool:
        window = int(time.monotonic())
        if window != self._window:
            self._window, self._taken = window, 0
        self._taken += 1
        return self._taken <= self._per_second


class Script:
    """The answers that one client gets, and the requests it sent.

    Every correct answer has a unique number, and `says` turns it into a text. A faulty answer is correct apart from its
    fault, and carries the text of number 0, which answers no request.
    """

    def __init__(
        self, base_url: str, respond: Callable[[int], Step], *, limit: Limit | None, says: Callable[[int], str]
    ) -> None:
        self.base_url = base_url
        self.respond = respond
        self.limit = limit
        self.says = says
        self.seen: Counter[Fault] = Counter()
        self.answers: set[int] = set()
        self.open = 0
        """Open connections that have sent a request."""

        self.answering = 0
        """Open connections that wait for an answer, or for the rest of one."""

        self.watched = b""
        """Bytes that no request may contain."""

        self.leaked = 0
        """Requests that contained them."""

    @property
    def requests(self) -> int:
        return self.seen.total()

    def step(self, body: bytes) -> Step:
        self.leaked += bool(self.watched) and self.watched in body
        if self.limit is not None and not self.limit.takes():
            step = Step(fault=Fault.THROTTLED, retry_after=self.limit.retry_after)
        else:
            step = self.respond(self.requests)
        self.seen[step.fault] += 1
        return step


def in_turn(steps: Sequence[Step]) -> Callable[[int], Step]:
    """Return one step per request, starting over after the last one."""
    return lambda number: steps[number % len(steps)]


class FaultyEndpoint:
    """A context manager around the server; `script` adds a client's script under a separate address."""

    def __init__(self, *, certificate: tuple[Path, Path] | None = None, handshake_seconds: float = 0.0) -> None:
        self._tls = None
        self._handshake_seconds = handshake_seconds
        if certificate is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(*certificate)
        self._scripts: dict[str, Script] = {}
        self._numbers = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._started, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = 0
        self.accepted = 0
        self.open = 0
        """Open connections."""

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def script(
        self,
        respond: Callable[[int], Step] | Sequence[Step],
        *,
        limit: Limit | None = None,
        says: Callable[[int], str] = str,
    ) -> Script:
        name = str(len(self._scripts))
        scheme = "http" if self._tls is None else "https"
        steps = respond if callable(respond) else in_turn(respond)
        base_url = f"{scheme}://127.0.0.1:{self.port}/{name}/v1"
        self._scripts[name] = Script(base_url, steps, limit=limit, says=says)
        return self._scripts[name]

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop.set_exception_handler(lambda _loop, _context: None)  # failed handshakes are part of the tests
        # TLS starts after the connection is counted, so that one that never completes its handshake counts as open.
        server = await asyncio.start_server(self._handle_connection, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.open += 1
        try:
            if self._tls is not None:
                await self._shake_hands(writer, self._tls)
            await self._serve_client(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client disconnected
        finally:
            self.open -= 1
            writer.close()

    async def _shake_hands(self, writer: asyncio.StreamWriter, tls: ssl.SSLContext) -> None:
        if self._handshake_seconds:
            # Bytes from the client are part of the handshake and must not be read here.
            cast(asyncio.Transport, writer.transport).pause_reading()
            await asyncio.sleep(self._handshake_seconds)
        await writer.start_tls(tls)

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script, body = await self._request(reader)
        script.open += 1
        try:
            while await self._count_and_answer(script, body, _Answer(script, reader, writer)):
                _, body = await self._request(reader)
        finally:
            script.open -= 1

    async def _count_and_answer(self, script: Script, body: bytes, answer: "_Answer") -> bool:
        script.answering += 1
        try:
            return await self._answer(script, body, answer)
        finally:
            script.answering -= 1

    async def _request(self, reader: asyncio.StreamReader) -> tuple[Script, bytes]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = head.partition("content-length:")[2].partition("\r\n")[0]
        body = await reader.readexactly(int(length or 0))
        return self._scripts[head.split(" ")[1].split("/")[1]], body

    async def _answer(self, script: Script, body: bytes, answer: "_Answer") -> bool:
        """Answer one request; return whether the connection can be used again."""
        step = script.step(body)
        if step.seconds:
            await asyncio.sleep(step.seconds)
        if step.fault is Fault.NONE:
            number = next(self._numbers)
            script.answers.add(number)
            await answer.send(200, _completion(script.says(number)))
            return True
        if isinstance(step.fault.value, int):
            await answer.refuse(step.fault.value, f"no, {step.fault.value}", retry_after=step.retry_after)
            return True
        await answer.fail(step.fault)
        return step.fault in _CONNECTION_STAYS


class _Answer:
    def __init__(self, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._looks_right = _completion(script.says(0))
        self._reader = reader
        self._writer = writer

    async def send(
        self, status: int, body: bytes, *, kind: str = "application/json", retry_after: float | None = None
    ) -> None:
        self._head(status, len(body), kind=kind, retry_after=retry_after)
        self._writer.write(body)
        await self._writer.drain()

    async def refuse(self, status: int, message: str, *, retry_after: float | None = None) -> None:
        body = {**json.loads(self._looks_right), "error": {"message": message, "code": status}}
        await self.send(status, json.dumps(body).encode(), retry_after=retry_after)

    async def fail(self, fault: Fault) -> None:
        if fault is Fault.UNSUPPORTED:
            await self.refuse(400, "response_format is not supported")
        elif fault is Fault.RESET:
            # Closing with a zero linger time sends RST instead of FIN.
            connection = self._writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._writer.transport.abort()
        elif fault is Fault.GARBAGE:
            self._writer.write(b"\x00\xffthis is not HTTP\r\n\r\n")
        elif fault is Fault.SILENCE:
            await self._drip_until_disconnect(b"", 0.02)
        elif fault is not Fault.HANG_UP:
            await self._send_invalid_answer(fault)

    async def _send_invalid_answer(self, fault: Fault) -> None:
        looks_right = self._looks_right
        if fault is Fault.HALF:
            self._head(200, len(looks_right))
            self._writer.write(looks_right[:-7])
        elif fault is Fault.SHORT:
            self._head(200, len(looks_right) + 7)
            self._writer.write(looks_right)
        elif fault is Fault.SLOW_LORIS:
            self._head(200, HUGE_BYTES)
            self._writer.write(looks_right)
            await self._drip_until_disconnect(b" ", 0.02)
        elif fault is Fault.WRONG_TYPE:
            await self.send(200, b"<!doctype html><pre>" + looks_right + b"</pre>", kind="text/html")
        elif fault is Fault.NOT_AN_ANSWER:
            await self.send(200, b'{"object": "list", "data": [' + looks_right + b"]}")
        elif fault is Fault.NO_VERDICT:
            await self.send(200, _completion("That depends on how one sees it."))
        elif fault is Fault.HUGE:
            self._head(200, HUGE_BYTES)
            self._writer.write(looks_right)
            await self._send_spaces(HUGE_BYTES - len(looks_right))

    def _head(
        self, status: int, length: int, *, kind: str = "application/json", retry_after: float | None = None
    ) -> None:
        wait = "" if retry_after is None else f"Retry-After: {retry_after:g}\r\n"
        lines = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{wait}\r\n"
        self._writer.write(lines.encode())

    async def _send_spaces(self, count: int) -> None:
        chunk = b" " * 65536
        while count > 0:
            self._writer.write(chunk[:count])
            count -= len(chunk)
            await self._writer.drain()

    async def _drip_until_disconnect(self, drop: bytes, seconds: float) -> None:
        while not self._reader.at_eof() and not self._writer.transport.is_closing():
            self._writer.write(drop)
            await asyncio.sleep(seconds)


def _completion(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": COMPLETION_TOKENS}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"object": "chat.completion", "usage": usage, "choices": [choice]}).encode()


class PlainClient:
    """Makes single attempts, with its own connections and the errors of a model."""

    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None, most_bytes: int = 65536) -> None:
        self._url = f"{script.base_url}/chat/completions"
        self._most_bytes = most_bytes
        self._tls = tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._clients: dict[int, httpx.AsyncClient] = {}
        self._asking = 0

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def ask(self) -> int:
        """Return the number in the endpoint's answer."""
        try:
            self._asking += 1
            response, body = await self._post(self._client())
        except httpx.TimeoutException as error:
            raise ModelTimeout(str(error)) from error
        except httpx.TransportError as error:
            raise ModelUnavailable(f"{type(error).__name__} {error}".strip()) from error
        finally:
            self._asking -= 1
        if not response.is_success:
            raise _failure(response)
        try:
            return int(json.loads(body)["choices"][0]["message"]["content"])
        except (ValueError, KeyError) as error:
            raise ModelProtocolError("not a completion") from error

    def _client(self) -> httpx.AsyncClient:
        """Return one of several clients, as httpcore is slow with many connections in one pool."""
        lane = self._asking // 8
        if lane not in self._clients:
            self._clients[lane] = httpx.AsyncClient(verify=self._tls, timeout=None, trust_env=False)
        return self._clients[lane]

    async def _post(self, client: httpx.AsyncClient) -> tuple[httpx.Response, bytes]:
        body = bytearray()
        async with client.stream("POST", self._url, content=b'{"messages": []}') as response:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > self._most_bytes:
                    raise ModelProtocolError("answered with too many bytes")
        return response, bytes(body)


def _failure(response: httpx.Response) -> ModelError:
    status, message = response.status_code, f"answered {response.status_code}"
    if status != 429 and status < 500:
        return ModelRefused(message, status=status)
    after = response.headers.get("retry-after")
    error = ModelUnavailable(message, retry_after=None if after is None else float(after))
    vars(error)["status"] = status
    return error
