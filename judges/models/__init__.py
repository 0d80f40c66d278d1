"""Chat models that a judge can ask.

- `base`: the contract of a chat model: messages in, one completion out
- `providers`: ready-made models: OpenAI-compatible, Anthropic and Ollama
- `presets`: known services with OpenAI's API
- `endpoint`: one model of one endpoint, whatever API it speaks
- `wire`: how each API writes requests and reads answers
- `connections`: HTTP connections to one endpoint, for many calls at once
- `plain_http`: HTTP/1.1 without TLS as a transport of httpx, at a fraction of its processor time
- `flow`: flow control in front of an endpoint: limits, retries, the circuit breaker
- `redaction`: replaces personal data and secrets before a prompt is sent
- `prices`: prices of models, with a dated table
- `spending`: reserves money before a call, and reports its cost afterwards
- `errors`: the errors of a model
"""

from judges.models.base import ChatMessage, ChatModel, Completion
from judges.models.errors import ModelError, ModelProtocolError, ModelRefused, ModelTimeout, ModelUnavailable
from judges.models.providers import AnthropicModel, OllamaModel, OpenAIModel

__all__ = [
    "AnthropicModel",
    "ChatMessage",
    "ChatModel",
    "Completion",
    "ModelError",
    "ModelProtocolError",
    "ModelRefused",
    "ModelTimeout",
    "ModelUnavailable",
    "OllamaModel",
    "OpenAIModel",
]
