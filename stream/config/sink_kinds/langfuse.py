"""The sink kind `langfuse`: scores on the traces in Langfuse."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from sinks.base import Sink, SinkError
from sinks.langfuse import LangfuseSettings, LangfuseSink, check_environment, check_host, check_key
from stream.config.section import Label
from stream.config.sections.observability import Address
from stream.config.sink_kinds.base import ConsumerSinkSection, SinkContext


class LangfuseSinkConfig(ConsumerSinkSection):
    """Langfuse: a score for every criterion and the composite, on the trace of the interaction."""

    kind: Literal["langfuse"] = Field(default="langfuse", description="Sink kind: Langfuse.")
    name: Label = Field(default="langfuse", description="Name in metrics and logs; unique among the sinks.")
    host: Address = Field(default="https://cloud.langfuse.com", description="Base URL of Langfuse.")
    public_key: SecretStr = Field(description="Public key of the project; write it as ${NAME}.")
    secret_key: SecretStr = Field(description="Secret key of the project; write it as ${NAME}.")
    environment: str | None = Field(default=None, description="Environment of the scores; null: Langfuse's default.")
    level: Literal["trace", "observation"] = Field(
        default="trace", description="Attach scores to the trace, or to the observation in the traceparent."
    )
    explanations: bool = Field(
        default=False, description="Include the judges' explanations as comments; they may quote user text."
    )

    @field_validator("host")
    @classmethod
    def _check_host(cls, value: str) -> str:
        with _words_only():
            check_host(value)
        return value

    @field_validator("public_key", "secret_key")
    @classmethod
    def _check_key(cls, value: SecretStr) -> SecretStr:
        with _words_only():
            check_key("", value.get_secret_value())
        return value

    @field_validator("environment")
    @classmethod
    def _check_environment(cls, value: str | None) -> str | None:
        with _words_only():
            if value is not None:
                check_environment(value)
        return value

    def make(self, context: SinkContext) -> Sink:
        settings = LangfuseSettings(
            name=self.name,
            host=self.host,
            public_key=self.public_key.get_secret_value(),
            secret_key=self.secret_key.get_secret_value(),
            environment=self.environment,
            level=self.level,
            explanations=self.explanations,
        )
        return LangfuseSink(settings)


@contextmanager
def _words_only() -> Iterator[None]:
    """The path of a problem already names the key."""
    try:
        yield
    except SinkError as error:
        raise ValueError(error.words) from None
