"""The judge kind `openai`: a model behind any endpoint that speaks OpenAI's chat completions."""

from typing import ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from judges.models.endpoint import EndpointModel, ModelOptions
from judges.models.presets import PRESETS, PresetName, preset_of
from judges.models.providers import OpenAIModel
from judges.models.wire.base import Wire
from judges.models.wire.openai import OpenAIWire
from stream.config.judge_kinds.base import JudgeSection
from stream.config.judge_kinds.model import ModelJudgeConfig


class _PresetSection(JudgeSection):
    """A separate base, because later bases are validated first: the preset may provide the address."""

    preset: PresetName | None = Field(
        default=None,
        description="Service preset for its URL and API dialect; null: any compatible endpoint, no assumptions.",
    )


class OpenAIJudgeConfig(ModelJudgeConfig, _PresetSection):
    """A model behind an endpoint with the OpenAI chat API."""

    wire: ClassVar[Wire] = OpenAIWire()
    example: ClassVar[str] = "https://api.openai.com/v1"

    kind: Literal["openai"] = Field(default="openai", description="Judge kind: any OpenAI-compatible chat endpoint.")
    base_url: str | None = Field(
        default=None,
        max_length=2048,
        description="Endpoint URL, up to but without /chat/completions; null: that of the preset.",
    )

    @field_validator("base_url")
    @classmethod
    def _require_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and "preset" in info.data and _address_of(info.data["preset"]) is None:
            raise ValueError(
                "is required unless a preset (other than azure) provides it; for OpenAI itself, set preset: openai"
            )
        return value

    @property
    def address(self) -> str:
        return self.base_url or _address_of(self.preset) or ""

    @property
    def provider(self) -> str:
        return preset_of(self.preset).provider

    def build_model(self, options: ModelOptions) -> EndpointModel:
        return OpenAIModel(self.model, base_url=self.base_url, preset=self.preset, **options)


def _address_of(preset: PresetName | None) -> str | None:
    return None if preset is None else PRESETS[preset].base_url
