"""The judge kind `ollama`: a model on an Ollama server, through Ollama's own API."""

from typing import ClassVar, Literal

from pydantic import Field

from judges.models.endpoint import EndpointModel, ModelOptions
from judges.models.providers import OLLAMA_URL, OllamaModel
from judges.models.wire.base import Wire
from judges.models.wire.ollama import OllamaWire
from stream.config.judge_kinds.model import ModelJudgeConfig


class OllamaJudgeConfig(ModelJudgeConfig):
    """A model on an Ollama server, through Ollama's native API."""

    wire: ClassVar[Wire] = OllamaWire()
    example: ClassVar[str] = OLLAMA_URL

    kind: Literal["ollama"] = Field(default="ollama", description="Judge kind: Ollama's native API.")
    base_url: str | None = Field(
        default=None,
        max_length=2048,
        description=f"Server URL, up to but without /api/chat; null: {OLLAMA_URL}.",
    )

    @property
    def address(self) -> str:
        return self.base_url or OLLAMA_URL

    def build_model(self, options: ModelOptions) -> EndpointModel:
        return OllamaModel(self.model, base_url=self.address, **options)
