"""Ollama's own chat: one answer without streaming, and a JSON schema as its format."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from judges.models.base import Completion
from judges.models.wire.base import LIKELIHOODS, Feature, ModelRequest
from judges.models.wire.reading import call_inputs, count, finish_reason, join_inputs_and_text, text, tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaWire:
    name: ClassVar[str] = "ollama"
    path: ClassVar[str] = "/api/chat"
    forbidden_endings: ClassVar[tuple[str, ...]] = ("/api/chat", "/api", "/v1")
    max_temperature: ClassVar[float] = 2.0
    # The API cannot force a model to use a tool.
    features: ClassVar[frozenset[Feature]] = frozenset(
        {"schema", "json", "likelihoods", "seed", "temperature", "max_tokens"}
    )

    def headers(self, api_key: str | None) -> Mapping[str, str]:
        return {} if api_key is None else {"Authorization": f"Bearer {api_key}"}

    def body(self, request: ModelRequest) -> dict[str, object]:
        options: dict[str, object] = {"num_predict": request.max_tokens}
        if request.temperature is not None:
            options["temperature"] = request.temperature
        if request.seed is not None:
            options["seed"] = request.seed
        body: dict[str, object] = {
            "model": request.model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "stream": False,
            "options": options,
        }
        if request.form is not None:
            body["format"] = request.schema if request.form == "schema" else "json"
        if request.likelihoods:
            body |= {"logprobs": True, "top_logprobs": LIKELIHOODS}
        return body

    def completion(self, answer: object) -> Completion | None:
        message = answer.get("message") if isinstance(answer, dict) else None
        if not isinstance(answer, dict) or not isinstance(message, dict):
            return None
        return Completion(
            text=join_inputs_and_text(call_inputs(message), text(message.get("content"))),
            prompt_tokens=count(answer.get("prompt_eval_count")),
            completion_tokens=count(answer.get("eval_count")),
            finish_reason=finish_reason(answer.get("done_reason")),
            tokens=tuple(tokens(answer.get("logprobs"))),
        )
