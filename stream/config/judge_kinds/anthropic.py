"""The judge kind `anthropic`: a model behind an endpoint that speaks Anthropic's Messages."""

from typing import ClassVar, Literal

from pydantic import Field

from judges.models.endpoint import EndpointModel, ModelOptions
from judges.models.providers import ANTHROPIC_URL, AnthropicModel
from judges.models.wire.anthropic import AnthropicWire
from judges.models.wire.base import Wire
from stream.config.judge_kinds.model import ModelJudgeConfig


class AnthropicJudgeConfig(ModelJudgeConfig):
    """A model behind an endpoint with Anthropic's Messages API."""

    wire: ClassVar[Wire] = AnthropicWire()
    example: ClassVar[str] = ANTHROPIC_URL

    kind: Literal["anthropic"] = Field(default="anthropic", description="Judge kind: Anthropic's Messages API.")
    base_url: str | None = Field(
        default=None,
        max_length=2048,
        description=f"Endpoint URL, up to but without /v1/messages; null: {ANTHROPIC_URL}.",
    )

    @property
    def address(self) -> str:
        return self.base_url or ANTHROPIC_URL

    def build_model(self, options: ModelOptions) -> EndpointModel:
        return AnthropicModel(self.model, base_url=self.address, **options)
