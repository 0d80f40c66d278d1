"""A chat model behind an endpoint that speaks Anthropic's Messages."""

from typing import Unpack

from judges.models.endpoint import EndpointModel, ModelOptions
from judges.models.wire.anthropic import AnthropicWire

ANTHROPIC_URL = "https://api.anthropic.com"


class AnthropicModel(EndpointModel):
    """Has no seed and no probabilities; temperatures are 0 to 1."""

    def __init__(self, model: str, *, base_url: str = ANTHROPIC_URL, **options: Unpack[ModelOptions]) -> None:
        super().__init__(model, wire=AnthropicWire(), base_url=base_url, **options)
