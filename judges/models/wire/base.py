"""The contract of an API: a request as the JSON that it takes, a completion out of the JSON that it answers with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from judges.models.base import ChatMessage, Completion

Feature = Literal["schema", "tool", "json", "likelihoods", "seed", "temperature", "max_tokens"]
"""What an endpoint may or may not do; without `max_tokens` it knows the limit under another name."""

FORMS: tuple[Feature, ...] = ("schema", "tool", "json")
"""The ways to ask for JSON, strongest first: constrained to a schema, as a tool's input, or of any shape."""

REPLY = "verdict"
"""What the reply is called where an API wants a name for its shape."""

# What is asked of endpoints that give probabilities; the most that OpenAI's own gives is 20.
LIKELIHOODS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a model, with nothing in it that the endpoint is known not to do."""

    model: str
    messages: Sequence[ChatMessage]
    max_tokens: int
    temperature: float | None = None
    seed: int | None = None
    schema: Mapping[str, object] | None = None
    form: Feature | None = None
    """How the schema is asked for; None leaves it to the words of the messages."""

    likelihoods: bool = False
    old_limit: bool = True
    """Whether `max_tokens` goes by that name."""

    def uses(self, feature: Feature) -> bool:
        """Whether the endpoint could find fault with it."""
        if feature in FORMS:
            return feature == self.form
        if feature == "likelihoods":
            return self.likelihoods
        if feature == "max_tokens":
            return self.old_limit
        return (self.seed if feature == "seed" else self.temperature) is not None


class Wire(Protocol):
    """An API; it holds nothing but what tells its dialects apart."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str:
        """What is added to the address of an endpoint."""
        ...

    @property
    def no_endings(self) -> tuple[str, ...]:
        """What an address ends with when somebody wrote too much of it."""
        ...

    @property
    def features(self) -> frozenset[Feature]:
        """What it can do, as far as its documentation says."""
        ...

    @property
    def hottest(self) -> float:
        """The highest temperature that it takes."""
        ...

    def headers(self, api_key: str | None) -> Mapping[str, str]: ...

    def body(self, request: ModelRequest) -> dict[str, object]: ...

    def completion(self, answer: object) -> Completion | None:
        """What the model wrote, None where the answer is not of this API."""
        ...
