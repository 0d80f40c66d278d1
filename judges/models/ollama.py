"""A chat model behind Ollama's own API."""

from typing import Unpack

from judges.models.endpoint import EndpointModel, ModelOptions
from judges.models.wire.ollama import OllamaWire

OLLAMA_URL = "http://localhost:11434"


class OllamaModel(EndpointModel):
    def __init__(self, model: str, *, base_url: str = OLLAMA_URL, **options: Unpack[ModelOptions]) -> None:
        super().__init__(model, wire=OllamaWire(), base_url=base_url, **options)
