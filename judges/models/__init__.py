"""Chat models that a judge can ask: the contract in `base`, the errors in `errors`, one file per kind of endpoint."""

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
