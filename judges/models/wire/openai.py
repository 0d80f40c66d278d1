"""OpenAI's chat completions, in the dialects of compatible services."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from judges.models.base import Completion
from judges.models.wire.base import LIKELIHOODS, REPLY, Feature, ModelRequest
from judges.models.wire.reading import (
    call_inputs,
    count,
    finish_reason,
    has_refusal,
    join_inputs_and_text,
    section,
    text,
    text_parts,
    tokens,
)

EVERYTHING: frozenset[Feature] = frozenset(
    {"schema", "tool", "json", "likelihoods", "seed", "temperature", "max_tokens"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIWire:
    """Dialects differ in their features, in `seed_key` and in `key_header`."""

    name: ClassVar[str] = "openai"
    path: ClassVar[str] = "/chat/completions"
    forbidden_endings: ClassVar[tuple[str, ...]] = ("/chat/completions",)
    max_temperature: ClassVar[float] = 2.0

    features: frozenset[Feature] = EVERYTHING
    seed_key: str = "seed"
    key_header: str = "Authorization"

    def headers(self, api_key: str | None) -> Mapping[str, str]:
        if api_key is None:
            return {}
        return {self.key_header: f"Bearer {api_key}" if self.key_header == "Authorization" else api_key}

    def body(self, request: ModelRequest) -> dict[str, object]:
        limit = "max_tokens" if request.old_limit else "max_completion_tokens"
        body: dict[str, object] = {
            "model": request.model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            limit: request.max_tokens,
        }
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.seed is not None:
            body[self.seed_key] = request.seed
        if request.likelihoods:
            body |= {"logprobs": True, "top_logprobs": LIKELIHOODS}
        return body | _shape(request)

    def completion(self, answer: object) -> Completion | None:
        choices = answer.get("choices") if isinstance(answer, dict) else None
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            return None
        usage = section(answer, "usage")
        refused = bool(message.get("refusal")) or has_refusal(message.get("content"))
        return Completion(
            text=_message_text(message),
            prompt_tokens=count(usage.get("prompt_tokens")),
            completion_tokens=count(usage.get("completion_tokens")),
            cached_tokens=count(section(usage, "prompt_tokens_details").get("cached_tokens")),
            finish_reason=finish_reason(choice.get("finish_reason"), refused=refused),
            tokens=tuple(tokens(section(choice, "logprobs").get("content"))),
        )


def _shape(request: ModelRequest) -> dict[str, object]:
    if request.form == "schema":
        json_schema = {"name": REPLY, "schema": request.schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": json_schema}}
    if request.form == "tool":
        function = {"name": REPLY, "parameters": request.schema}
        return {
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": REPLY}},
        }
    return {"response_format": {"type": "json_object"}} if request.form == "json" else {}


def _message_text(message: Mapping[str, object]) -> str | None:
    """Return the input of the tool, or else the content, which may come in parts; never the reasoning."""
    content = message.get("content")
    content_text = (text_parts(content) or "") if isinstance(content, list) else text(content)
    return join_inputs_and_text(call_inputs(message), content_text)
