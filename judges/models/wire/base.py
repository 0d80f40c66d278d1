"""The contract of an API: encodes a request as JSON, and reads a completion from the JSON of the answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from judges.models.base import ChatMessage, Completion

Feature = Literal["schema", "tool", "json", "likelihoods", "seed", "temperature", "max_tokens"]
"""Features that an endpoint may lack; without `max_tokens`, the limit has another name."""

FORMS: tuple[Feature, ...] = ("schema", "tool", "json")
"""The ways to request JSON, strongest first: constrained to a schema, as a tool's input, or of any shape."""

REPLY = "verdict"
"""The name of the reply's schema, for APIs that require one."""

# Alternatives requested per token, if an endpoint returns probabilities; OpenAI itself returns at most 20.
LIKELIHOODS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request to a model, without features that the endpoint is known to lack."""

    model: str
    messages: Sequence[ChatMessage]
    max_tokens: int
    temperature: float | None = None
    seed: int | None = None
    schema: Mapping[str, object] | None = None
    form: Feature | None = None
    """How the schema is requested; None: only by the text of the messages."""

    likelihoods: bool = False
    old_limit: bool = True
    """Whether the limit is sent as `max_tokens`."""

    def uses(self, feature: Feature) -> bool:
        """Return whether the request uses the feature, so that the endpoint could refuse it."""
        if feature in FORMS:
            return feature == self.form
        if feature == "likelihoods":
            return self.likelihoods
        if feature == "max_tokens":
            return self.old_limit
        return (self.seed if feature == "seed" else self.temperature) is not None


class Wire(Protocol):
    """An API; its only state is the settings of a dialect."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str:
        """The path that is appended to the address of an endpoint."""
        ...

    @property
    def forbidden_endings(self) -> tuple[str, ...]:
        """Endings that a base address must not have, because `path` is appended to it."""
        ...

    @property
    def features(self) -> frozenset[Feature]:
        """The features of the API according to its documentation."""
        ...

    @property
    def max_temperature(self) -> float:
        """The highest temperature that the API accepts."""
        ...

    def headers(self, api_key: str | None) -> Mapping[str, str]: ...

    def body(self, request: ModelRequest) -> dict[str, object]: ...

    def completion(self, answer: object) -> Completion | None:
        """Return the completion in an answer, or None if the answer does not belong to this API."""
        ...
