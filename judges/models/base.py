"""The contract of a chat model: messages in, one completion out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    role: Literal["system", "user", "assistant"]
    content: str
    is_redacted: bool = False
    """Whether personal data and secrets were replaced before it was written, so that no model looks for them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token of a completion, with what could have stood in its place: text to logarithm of its probability."""

    text: str
    likelihoods: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a model wrote, without its reasoning. `None` means that the endpoint did not say."""

    text: str | None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    """Those of the prompt's tokens that the endpoint had in a cache."""

    finish_reason: str | None = None
    tokens: tuple[Token, ...] = ()
    """The tokens, where they were asked for and the endpoint gives them."""

    retries: int = 0
    """Calls that failed before this one."""

    redacted: Mapping[str, int] = field(default_factory=dict)
    """How many values of each kind were kept from the endpoint."""

    cost_usd: float | None = None
    """What it cost; `None` where the prices or the tokens are not known."""


class ChatModel(Protocol):
    """Anything that completes a conversation; it raises `ModelError` and nothing else but cancellation."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str:
        """Everything that can change its completions, as one line without secrets."""
        ...

    @property
    def paused(self) -> str | None:
        """Why nothing is asked of it for now, or None."""
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
        """Asks once; with a schema, the endpoint is asked to constrain the text to JSON of that shape.

        `sample` numbers the samples of a judge that takes several, which are to differ; None means the only one.
        `answers` is the number of answers that one completion is to hold; it may be as many times as long.
        """
        ...

    async def aclose(self) -> None:
        """Lets go of connections; nothing is asked afterwards."""
        ...
