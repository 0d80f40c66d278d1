"""Runs the instrumented pipelines with a scripted model: services that Streamjury did not write."""

import itertools
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, json_response
from tests.parts.patience import patience

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".cache" / "instrumented" / "bin" / "python"

QUESTION = "How long do I have to return goods?"
ANSWER = "You have 30 days from delivery."
PASSAGES = {
    "kb-7": "Goods can be returned within 30 days of delivery.",
    "kb-8": "Refunds are paid to the original card within 5 working days.",
    "kb-9": "The shop in Basel is open from 9 to 18 h on working days.",
}
"""As in pipelines.py, which has its own environment."""
FRAMEWORKS = ("langchain", "llama_index")
SHAPES = ("plain", "reranked")
CONVENTIONS = ("openinference", "openllmetry", "opentelemetry")

_SECONDS = 120.0


class Run(NamedTuple):
    """One pipeline under one instrumentation."""

    framework: str
    shape: str
    convention: str

    @property
    def name(self) -> str:
        return "-".join(self)


ALL = (
    *(Run(*names) for names in itertools.product(FRAMEWORKS, SHAPES, CONVENTIONS)),
    # The service itself records the texts of the passages.
    Run("langchain", "traced", "opentelemetry"),
)


def expected_record(run: Run) -> dict[str, Any] | None:
    """Return the interaction of a run without its id and times, or None if its spans have no answer.

    LangChain's instrumentations record neither ids nor scores of passages, LlamaIndex' do. OpenTelemetry's own record
    no text of a passage, and none for the model and the query engine of LlamaIndex.
    """
    record: dict[str, Any] = {"app": "shop-bot", "model": "atlas-mini", "question": QUESTION, "answer": ANSWER}
    if run.framework == "langchain":
        record["tags"] = {"session": "session-1"}
    if run.convention != "opentelemetry" or run.shape == "traced":
        record["contexts"] = _contexts(run)
    elif run.framework == "llama_index":
        return None
    return record


def _contexts(run: Run) -> list[dict[str, Any]]:
    scores = {"kb-8": 9.0, "kb-7": 7.0} if run.shape == "reranked" else {"kb-7": 0.9, "kb-8": 0.8, "kb-9": 0.7}
    if run.framework == "langchain":
        return [{"text": PASSAGES[key]} for key in scores]
    return [{"text": PASSAGES[key], "id": key, "score": score} for key, score in scores.items()]


def why_unavailable() -> str | None:
    """Return how to get the environment of the pipelines if it is missing."""
    return None if (PYTHON.parents[1] / ".installed").exists() else "no instrumented pipelines: run `make instrumented`"


def answer_from_script(body: Body) -> Response:
    """Give the same answer to every question."""
    choice = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    completion = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"]}
    return json_response({**completion, "choices": [choice], "usage": usage})


def run_pipelines(otlp_url: str, runs: Sequence[Run] = ALL) -> dict[Run, str]:
    """Run each pipeline once, wait until its spans are exported, and return the trace ids."""
    with JudgeEndpoint(answer_from_script) as model:
        assignment = {"model_url": model.base_url, "otlp_url": otlp_url, "question": QUESTION, "runs": runs}
        process = subprocess.run(
            [PYTHON, Path(__file__).with_name("pipelines.py"), json.dumps(assignment)],
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS * patience(),
        )
    assert process.returncode == 0, f"{process.stdout}\n{process.stderr[-6000:]}"
    results = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    assert {result["answer"] for result in results} == {ANSWER}
    return {Run(*result["run"]): result["trace_id"] for result in results}
