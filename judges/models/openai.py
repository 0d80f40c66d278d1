"""A chat model behind any endpoint that speaks OpenAI's chat completions."""

from typing import Unpack

from judges.models.endpoint import EndpointModel, ModelOptions
from judges.models.presets import PresetName, preset_of


class OpenAIModel(EndpointModel):
    """`preset` names a service: it has the address, where there is one for all, and knows the service's dialect."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        preset: PresetName | None = None,
        **options: Unpack[ModelOptions],
    ) -> None:
        known = preset_of(preset)
        address = known.base_url if base_url is None else base_url
        if address is None:
            raise ValueError(f"base_url is required{f' with the preset {preset}' if preset else ' without a preset'}")
        super().__init__(model, wire=known.wire, base_url=address, **options)
