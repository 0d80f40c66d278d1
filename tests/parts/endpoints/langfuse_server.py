"""Langfuse's ingestion endpoint on a real socket: it checks every request by the public description, and can fail."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

DESCRIPTION = Path(__file__).parents[1] / "documents" / "langfuse_openapi.yaml"
PATH = "/api/public/ingestion"
PUBLIC_KEY, SECRET_KEY = "pk-lf-1", "sk-lf-geheim"
MAX_BYTES = 3_500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How the server answers a request."""

    status: int = 207
    """Anything but 207 is answered without taking a score."""

    seconds: float = 0.0
    """Delay before the answer."""

    is_lost: bool = False
    """Whether the scores are taken, but the connection is closed without an answer."""

    headers: dict[str, str] = field(default_factory=dict)
    refuse: Callable[[dict[str, Any]], int | None] = lambda _body: None
    """Returns the status of a score that is not taken."""

    quote: Callable[[dict[str, Any]], str | None] = lambda _body: None
    """Returns the error that a score causes, if any: then no score of the request is taken."""


@dataclass(slots=True)
class LangfuseServer:
    """The scores that the server has taken, and the requests that broke the rules of its description."""

    url: str = ""
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Scores by id: one that comes again is an update, as in Langfuse."""
    times_taken: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    requests: int = 0
    answers: Callable[[int], Answer] = lambda _number: Answer()
    """Returns the answer to the request of this number, from 0."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def of_trace(self, trace_id: str) -> dict[str, Any]:
        return {body["name"]: body["value"] for body in self.scores.values() if body["traceId"] == trace_id}

    def take(self, events: list[dict[str, Any]], refuse: Callable[[dict[str, Any]], int | None]) -> dict[str, Any]:
        """Take scores, and return the outcome of each."""
        outcomes: dict[str, Any] = {"successes": [], "errors": []}
        with self.lock:
            for event in events:
                body = event["body"]
                if (status := refuse(body)) is not None:
                    outcomes["errors"].append({"id": event["id"], "status": status, "message": "no, thank you"})
                    continue
                before = self.scores.setdefault(body["id"], body)
                if before != body:
                    self.problems.append(f"score {body['id']} came again with other contents")
                self.times_taken[body["id"]] = self.times_taken.get(body["id"], 0) + 1
                outcomes["successes"].append({"id": event["id"], "status": 201})
        return outcomes


@contextmanager
def langfuse_server() -> Iterator[LangfuseServer]:
    langfuse = LangfuseServer()
    check = _request_checker()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            with langfuse.lock:
                number, langfuse.requests = langfuse.requests, langfuse.requests + 1
            answer = langfuse.answers(number)
            threading.Event().wait(answer.seconds)
            problems = check(self, data)
            langfuse.problems += problems
            if problems:
                self._reply(400, {"message": problems[0]}, {})
            elif words := _first_quotation(json.loads(data)["batch"], answer.quote):
                errors = [{"id": event["id"], "status": 400, "message": words} for event in json.loads(data)["batch"]]
                body = {"successes": [], "errors": errors} if answer.status == 207 else {"message": words}
                self._reply(answer.status, body, answer.headers)
            elif answer.status != 207:
                self._reply(answer.status, {"message": "injected"}, answer.headers)
            else:
                outcomes = langfuse.take(json.loads(data)["batch"], answer.refuse)
                if answer.is_lost:
                    self.close_connection = True
                else:
                    self._reply(207, outcomes, {})

        def _reply(self, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {
                "content-type": "application/json",
                "content-length": str(len(data)),
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_arguments: object) -> None:
            """A client that was killed is expected."""

    with Server(("127.0.0.1", 0), Handler) as server:
        langfuse.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield langfuse
        finally:
            server.shutdown()
            thread.join()


def _first_quotation(events: list[dict[str, Any]], quote: Callable[[dict[str, Any]], str | None]) -> str | None:
    return next((words for event in events if (words := quote(event["body"]))), None)


def _request_checker() -> Callable[[BaseHTTPRequestHandler, bytes], list[str]]:
    """Return a function that lists where a request differs from the description."""
    description = yaml.safe_load(DESCRIPTION.read_text(encoding="utf-8"))
    operation = description["paths"][PATH]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    validator = Draft202012Validator({**schema, "components": description["components"]})
    authorization = f"Basic {base64.b64encode(f'{PUBLIC_KEY}:{SECRET_KEY}'.encode()).decode()}"

    def check(request: BaseHTTPRequestHandler, data: bytes) -> list[str]:
        problems = [f"path {request.path}"] if request.path != PATH else []
        if request.headers["authorization"] != authorization:
            problems.append("wrong authorization")
        if request.headers["content-type"] != "application/json":
            problems.append(f"content type {request.headers['content-type']}")
        if len(data) > MAX_BYTES:
            problems.append(f"{len(data)} bytes")
        document = json.loads(data)
        problems += [error.message for error in validator.iter_errors(document)]
        return problems or _prose_problems(document["batch"])

    return check


def _prose_problems(events: list[dict[str, Any]]) -> list[str]:
    """Check the rules that the description states in words."""
    problems = ["two events of one id in a request"] if len({event["id"] for event in events}) < len(events) else []
    for event in events:
        body, kind = event["body"], event["body"].get("dataType")
        if isinstance(body["value"], str) != (kind in {"CATEGORICAL", "TEXT"}):
            problems.append(f"{body['value']!r} is not {kind}")
        if "traceId" not in body or ("observationId" in body and not body["traceId"]):
            problems.append("a score without a trace")
        datetime.fromisoformat(event["timestamp"])
    return problems
