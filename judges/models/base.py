"""The contract of a chat model: messages in, one completion out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    role: Literal["system", "user", "assistant"]
    content: str
    is_redacted: bool = False
    """Whether personal data and secrets are already replaced, so that the model need not redact the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token of a completion and its alternatives: each text with the logarithm of its probability."""

    text: str
    likelihoods: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The reply of a model, without its reasoning. `None` marks a value that the endpoint did not report."""

    text: str | None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    """Prompt tokens that the endpoint had in a cache."""

    finish_reason: str | None = None
    tokens: tuple[Token, ...] = ()
    """The tokens, if they were requested and the endpoint returns them."""

    retries: int = 0
    """Calls that failed before this one."""

    redacted: Mapping[str, int] = field(default_factory=dict)
    """Number of redacted values, by kind."""

    cost_usd: float | None = None
    """The cost of the call; `None` if the price or the number of tokens is unknown."""


class ChatModel(Protocol):
    """Completes a conversation; raises only `ModelError`, apart from cancellation."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str:
        """Everything that can change the completions, as one line without secrets."""
        ...

    @property
    def paused(self) -> str | None:
        """The reason why calls are paused, or None."""
        ...

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        schema: Mapping[str, object] | None,
        sample: int | None = None,
        likelihoods: bool = False,
        answers: int = 1,
    ) -> Completion:
        """Return one completion; with a schema, request JSON that conforms to it.

        `sample` numbers the samples of a judge that takes several, so that they differ; None means the only sample.
        `answers` is the number of answers in one completion; its length limit is multiplied by it.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections; the model cannot be called afterwards."""
        ...
