"""Services with OpenAI's API: their addresses and their dialects of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from judges.models.wire.openai import EVERYTHING, OpenAIWire

PresetName = Literal["openai", "vllm", "llamacpp", "ollama", "mistral", "openrouter", "azure"]

PRESET_NAMES: tuple[PresetName, ...] = get_args(PresetName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """`provider` is the service's name in OpenTelemetry; without `base_url` the address differs by customer."""

    provider: str
    base_url: str | None = None
    wire: OpenAIWire = field(default_factory=OpenAIWire)


# All models of OpenAI accept max_completion_tokens; reasoning models refuse max_tokens.
_NEW_LIMIT = EVERYTHING - {"max_tokens"}

PRESETS: Mapping[PresetName, Preset] = {
    "openai": Preset(provider="openai", base_url="https://api.openai.com/v1", wire=OpenAIWire(features=_NEW_LIMIT)),
    "vllm": Preset(provider="vllm", base_url="http://localhost:8000/v1"),
    "llamacpp": Preset(provider="llamacpp", base_url="http://localhost:8080/v1"),
    # It accepts tools, but cannot force the model to use one.
    "ollama": Preset(
        provider="ollama", base_url="http://localhost:11434/v1", wire=OpenAIWire(features=EVERYTHING - {"tool"})
    ),
    "mistral": Preset(
        provider="mistral_ai",
        base_url="https://api.mistral.ai/v1",
        wire=OpenAIWire(features=EVERYTHING - {"likelihoods"}, seed_key="random_seed"),
    ),
    "openrouter": Preset(provider="openrouter", base_url="https://openrouter.ai/api/v1"),
    "azure": Preset(provider="azure.ai.openai", wire=OpenAIWire(features=_NEW_LIMIT, key_header="api-key")),
}


def preset_of(name: str | None) -> Preset:
    """Return the preset of that name; for None, the settings that suit any endpoint with this API."""
    if name is None:
        return Preset(provider="openai")
    for preset_name, preset in PRESETS.items():
        if preset_name == name:
            return preset
    raise ValueError(f"preset must be one of {', '.join(PRESET_NAMES)}, not {name!r}")
