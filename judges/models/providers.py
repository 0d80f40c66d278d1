"""Ready-made models for the endpoints that Streamjury knows: OpenAI-compatible ones, Anthropic and Ollama."""

from typing import Unpack

from judges.models.endpoint import EndpointModel, ModelOptions
from judges.models.presets import PresetName, preset_of
from judges.models.wire.anthropic import AnthropicWire
from judges.models.wire.ollama import OllamaWire


class OpenAIModel(EndpointModel):
    """A model of an OpenAI-compatible endpoint; `preset` names a service with a known dialect and mostly an address."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        preset: PresetName | None = None,
        **options: Unpack[ModelOptions],
    ) -> None:
        service = preset_of(preset)
        address = service.base_url if base_url is None else base_url
        if address is None:
            raise ValueError(f"base_url is required{f' with the preset {preset}' if preset else ' without a preset'}")
        super().__init__(model, wire=service.wire, base_url=address, **options)


ANTHROPIC_URL = "https://api.anthropic.com"


class AnthropicModel(EndpointModel):
    """A model of Anthropic: no seed, no token probabilities, temperatures from 0 to 1."""

    def __init__(self, model: str, *, base_url: str = ANTHROPIC_URL, **options: Unpack[ModelOptions]) -> None:
        super().__init__(model, wire=AnthropicWire(), base_url=base_url, **options)


OLLAMA_URL = "http://localhost:11434"


class OllamaModel(EndpointModel):
    def __init__(self, model: str, *, base_url: str = OLLAMA_URL, **options: Unpack[ModelOptions]) -> None:
        super().__init__(model, wire=OllamaWire(), base_url=base_url, **options)
