"""The LiteLLM recipe with the real package: every completion is one interaction on the topic when `flush` returns."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from stream.config.sections.input import InputConfig
from stream.kafka.embedded import EmbeddedBroker
from stream.records.reading import InteractionReader
from tests.integration.pipeline import read_all
from tests.parts.patience import patience
from tests.parts.required import unavailable

HERE = Path(__file__).parent
PYTHON = HERE.parents[2] / ".cache" / "recipes" / "litellm" / "bin" / "python"


def answer_to(question: str) -> dict[str, Any]:
    if question == "tool":
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"role": "assistant", "content": f"Answer to: {question}"}


class Endpoint(BaseHTTPRequestHandler):
    """Answers chat completions, whole or as a stream, and fails on request."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        content = body["messages"][-1]["content"]
        question = content if isinstance(content, str) else content[0]["text"]
        common = {"id": "x", "created": 1, "model": "test-model"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if question == "fail":
            self._reply(400, "application/json", json.dumps({"error": {"message": "no", "type": "bad"}}))
        elif body.get("stream"):
            parts = [{"role": "assistant", "content": "Answer "}, {"content": f"to: {question}"}, {}]
            events = [
                {
                    **common,
                    "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": part, "finish_reason": None if part else "stop"}],
                }
                for part in parts
            ]
            data = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
            self._reply(200, "text/event-stream", data + "data: [DONE]\n\n")
        else:
            choice = {"index": 0, "message": answer_to(question), "finish_reason": "stop"}
            reply = {**common, "object": "chat.completion", "choices": [choice], "usage": usage}
            self._reply(200, "application/json", json.dumps(reply))

    def _reply(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_arguments: object) -> None:
        pass


@contextmanager
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_every_completion_is_an_interaction(embedded_broker: EmbeddedBroker) -> None:
    if not (PYTHON.parents[1] / ".installed").exists():
        unavailable("the packages of the recipes are missing; run `make recipes`")
    with endpoint() as url:
        done = subprocess.run(
            [PYTHON, HERE / "litellm_calls.py", url, embedded_broker.bootstrap],
            env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=120 * patience(),
            check=False,
        )
    assert done.returncode == 0, done.stderr
    # A reply that calls a tool holds no answer.
    assert json.loads(done.stdout.splitlines()[-1]) == {"left": 0, "skipped": 1, "failed": 0}, done.stderr
    messages = read_all(embedded_broker.bootstrap, "rag.interactions")
    reader = InteractionReader(InputConfig())
    interactions = [reader.read(message.value()).interaction for message in messages]
    assert [message.key().decode() for message in messages] == [item.id for item in interactions]
    answers = {item.question: item.answer for item in interactions}
    asked = ("in parts", "stream", "async 0", "async 1", "async 2", "async stream")
    stuffed = "Answer to: stuffed prompt with contexts: How long?"
    assert answers == {"How long?": stuffed, **{text: f"Answer to: {text}" for text in asked}}
    assert len(interactions) == len(answers), "none twice"
    assert {(item.app, item.model) for item in interactions} == {("support-bot", "test-model")}
    with_contexts = next(item for item in interactions if item.question == "How long?")
    assert [context.id for context in with_contexts.contexts] == ["kb-7"]
    assert with_contexts.tags == {"release": "7"}
    with_history = next(item for item in interactions if item.question == "in parts")
    assert [(turn.role, turn.text) for turn in with_history.history] == [("user", "Hello"), ("assistant", "Hi")]
