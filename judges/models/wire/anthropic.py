"""Anthropic's Messages: a separate system prompt, a required token limit, and JSON as the input of a forced tool."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from judges.models.base import Completion
from judges.models.wire.base import REPLY, Feature, ModelRequest
from judges.models.wire.reading import (
    as_json,
    count,
    finish_reason,
    has_refusal,
    join_inputs_and_text,
    section,
    text_parts,
)

# Anthropic's stop reasons as the finish reasons that judges distinguish.
_ENDINGS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
_VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicWire:
    name: ClassVar[str] = "anthropic"
    path: ClassVar[str] = "/v1/messages"
    forbidden_endings: ClassVar[tuple[str, ...]] = ("/v1/messages", "/v1")
    max_temperature: ClassVar[float] = 1.0
    features: ClassVar[frozenset[Feature]] = frozenset({"tool", "temperature", "max_tokens"})

    def headers(self, api_key: str | None) -> Mapping[str, str]:
        headers = {"anthropic-version": _VERSION}
        return headers if api_key is None else {**headers, "x-api-key": api_key}

    def body(self, request: ModelRequest) -> dict[str, object]:
        # The API refuses an empty message.
        messages = [message for message in request.messages if message.content.strip()]
        system = "\n\n".join(message.content for message in messages if message.role == "system")
        body: dict[str, object] = {
            "model": request.model,
            "max_tokens": request.max_tokens,
            "messages": [
                {"role": message.role, "content": message.content} for message in messages if message.role != "system"
            ],
        }
        if system:
            body["system"] = system
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.form == "tool":
            tool = {"name": REPLY, "description": "Takes the reply.", "input_schema": request.schema}
            body |= {"tools": [tool], "tool_choice": {"type": "tool", "name": REPLY}}
        return body

    def completion(self, answer: object) -> Completion | None:
        content = answer.get("content") if isinstance(answer, dict) else None
        if not isinstance(answer, dict) or not isinstance(content, list):
            return None
        usage, ending = section(answer, "usage"), finish_reason(answer.get("stop_reason"), refused=has_refusal(content))
        return Completion(
            text=join_inputs_and_text(_tool_inputs(content), text_parts(content)),
            prompt_tokens=_prompt_tokens(usage),
            completion_tokens=count(usage.get("output_tokens")),
            cached_tokens=count(usage.get("cache_read_input_tokens")),
            finish_reason=None if ending is None else _ENDINGS.get(ending, ending),
        )


def _tool_inputs(content: list[object]) -> list[str]:
    calls = [block for block in content if isinstance(block, dict) and block.get("type") == "tool_use"]
    return [as_json(call["input"]) for call in calls if call.get("input") is not None]


def _prompt_tokens(usage: Mapping[str, object]) -> int | None:
    """Return all prompt tokens; the API counts those read from or written to the cache separately."""
    uncached = count(usage.get("input_tokens"))
    if uncached is None:
        return None
    cached = (usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens"))
    return uncached + sum(count(tokens) or 0 for tokens in cached)
