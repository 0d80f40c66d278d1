"""A chat-model endpoint on a real socket that answers, stalls, fails or breaks off as a test asks."""

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

Body = dict[str, Any]

PATHS = ("/v1/chat/completions", "/v1/messages", "/api/chat")
"""Paths of OpenAI's, Anthropic's and Ollama's chat APIs."""


class Fault(Enum):
    """Ways to break an answer below HTTP."""

    RESET = "the connection is reset instead of answering"
    HANG_UP = "the connection is closed instead of answering"
    HALF = "the connection is closed in the middle of the body"
    GARBAGE = "bytes that are not HTTP"
    TRICKLE = "the body comes so slowly that it never ends"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    fault: Fault | None = None


Respond = Callable[[Body], Response]


def json_response(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    typed = {"Content-Type": "application/json", **(headers or {})}
    return Response(status=status, body=json.dumps(value).encode(), headers=typed)


def chat_response(text: str | None, *, finish_reason: str = "stop", **message: object) -> Response:
    """Return a completion with this text; further keywords become fields of the message."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, **message},
        "finish_reason": finish_reason,
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return json_response({"object": "chat.completion", "choices": [choice], "usage": usage})


def verdict_response(label: str | Mapping[str, bool], explanation: str = "Because it is so.") -> Response:
    """Return a verdict: a label, or true or false for each of the numbered items."""
    return chat_response(json.dumps({"explanation": explanation, "verdict": label}, ensure_ascii=False))


def error_response(status: int, message: str = "no", *, retry_after: str | None = None) -> Response:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return json_response({"error": {"message": message, "code": status}}, status=status, headers=headers)


def html_page(status: int = 200) -> Response:
    page = b"<!doctype html><html><body><h1>Welcome to the gateway</h1></body></html>"
    return Response(status=status, body=page, headers={"Content-Type": "text/html"})


def huge_response(size: int) -> Response:
    return Response(body=b'{"choices": [' + b" " * size + b"]}", headers={"Content-Type": "application/json"})


def broken(fault: Fault) -> Response:
    return replace(verdict_response("clear"), fault=fault)


def delayed(response: Response, seconds: float) -> Response:
    return replace(response, delay=seconds)


def best_verdict(body: Body) -> Response:
    """Return a valid answer to any criterion: the last label that the request's schema allows, or all items useful."""
    verdict = body["response_format"]["json_schema"]["schema"]["properties"]["verdict"]
    if verdict["type"] == "object":
        return verdict_response(dict.fromkeys(verdict["required"], True))
    labels = [label for label in verdict["enum"] if label != "not_applicable"]
    return verdict_response(labels[-1])


def slow_where(marker: str, seconds: float, respond: Respond = best_verdict) -> Respond:
    """Delay the answer if the conversation contains the marker."""

    def slow(body: Body) -> Response:
        marked = any(marker in (message["content"] or "") for message in body["messages"])
        return delayed(respond(body), seconds) if marked else respond(body)

    return slow


def in_turn(*responses: Response) -> Respond:
    """Return one response per request, then repeat the last one."""
    remaining, lock = list(responses), threading.Lock()

    def next_response(_: Body) -> Response:
        with lock:
            return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    return next_response


class JudgeEndpoint:
    """A context manager around a server on the loopback; `respond` runs in the connection's own thread.

    `calls` holds the parsed request bodies, `headers` their headers and `paths` their paths, in the order in
    which they were read. With a certificate and its key, it speaks TLS.
    `hung_up` counts the clients that left during the delay of their answer. An exception in `respond` is answered with
    status 500 and raised again at the end of the block.
    """

    def __init__(
        self, respond: Respond = best_verdict, *, port: int = 0, certificate: tuple[Path, Path] | None = None
    ) -> None:
        self.respond = respond
        self._lock = threading.Lock()
        self._calls: list[Body] = []
        self._headers: list[dict[str, str]] = []
        self._paths: list[str] = []
        self._hung_up = 0
        self._errors: list[Exception] = []
        self._server = _Server(("127.0.0.1", port), self, certificate)
        self._scheme = "http" if certificate is None else "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.hang_up_all()
        self._server.server_close()
        if self._errors and kind is None:
            raise self._errors[0]

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"

    @property
    def address(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def calls(self) -> list[Body]:
        with self._lock:
            return list(self._calls)

    @property
    def headers(self) -> list[dict[str, str]]:
        with self._lock:
            return list(self._headers)

    @property
    def paths(self) -> list[str]:
        with self._lock:
            return list(self._paths)

    @property
    def hung_up(self) -> int:
        with self._lock:
            return self._hung_up

    @property
    def connections(self) -> int:
        """Return the number of accepted connections: fewer than calls when they are kept alive."""
        return self._server.accepted

    def record(self, path: str, body: Body, headers: Mapping[str, str]) -> None:
        with self._lock:
            self._paths.append(path)
            self._calls.append(body)
            self._headers.append({key.lower(): value for key, value in headers.items()})

    def response_to(self, body: Body) -> Response:
        try:
            return self.respond(body)
        except Exception as error:
            with self._lock:
                self._errors.append(error)
            return error_response(500, repr(error))

    def note_hang_up(self) -> None:
        with self._lock:
            self._hung_up += 1


class _Server(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = False  # joined by server_close, so that no socket outlives a test

    def __init__(
        self, address: tuple[str, int], endpoint: JudgeEndpoint, certificate: tuple[Path, Path] | None
    ) -> None:
        super().__init__(address, _Handler)
        if certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(*certificate)
            # The connection's own thread does the handshake, as a client may break it off.
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.endpoint = endpoint
        self.accepted = 0
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self.accepted += 1
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def hang_up_all(self) -> None:
        """Wake every thread that waits for a client or for the end of a delay."""
        with self._open_lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect; they are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        body = json.loads(self.rfile.read(length))
        self.server.endpoint.record(self.path, body, dict(self.headers.items()))
        if not self.path.endswith(PATHS):
            self._send(error_response(404, f"no such path {self.path}"))
            return
        response = self.server.endpoint.response_to(body)
        if response.delay and self._client_leaves_within(response.delay):
            self.server.endpoint.note_hang_up()
            self.close_connection = True
        elif response.fault is not None:
            self._break(response, response.fault)
        else:
            self._send(response)

    def _client_leaves_within(self, seconds: float) -> bool:
        self.connection.settimeout(seconds)
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return False
        except OSError:
            return True
        finally:
            self.connection.settimeout(None)

    def _send(self, response: Response, size: int | None = None) -> None:
        self.send_response(response.status)
        for key, value in {**response.headers, "Content-Length": str(len(response.body))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(response.body[:size])

    def _break(self, response: Response, fault: Fault) -> None:
        self.close_connection = True
        if fault is Fault.RESET:
            # Closing with a zero linger time sends RST instead of FIN.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif fault is Fault.HALF:
            self._send(response, len(response.body) // 2)
        elif fault is Fault.TRICKLE:
            self._send(replace(response, body=response.body + b" " * 100_000), 0)
            while not self._client_leaves_within(0.02):
                self.wfile.write(b" ")
        elif fault is Fault.GARBAGE:
            self.wfile.write(b"\x00\xffthis is not HTTP\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Log no requests."""
