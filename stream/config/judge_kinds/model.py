"""The base of all judge kinds that ask a model. A kind adds its API, its address and its client."""

from abc import abstractmethod
from collections.abc import Collection, Iterator
from typing import Literal, Self

from pydantic import Field, field_validator

from judges.cache import CachedJudge
from judges.criteria.criterion import Criterion
from judges.judge import Judge
from judges.models.endpoint import EndpointModel, ModelOptions
from judges.models.prices import ModelPrice, find_price
from judges.values.interaction import Case
from stream.config.judge_kinds.base import AskedModel, ExpectedCalls, SharedParts
from stream.config.judge_kinds.endpoint import EndpointSection
from stream.config.judge_kinds.limits import EndpointLimitsConfig, PriceConfig
from stream.config.judge_kinds.method import MethodSection

# Prompts are several times as long as completions.
_PROMPT_TO_COMPLETION = 10


class ModelJudgeConfig(MethodSection, EndpointSection):
    """The base of all judges that ask a model; in the docs, the keys of the last base class come first."""

    price: PriceConfig | None = Field(
        default=None,
        description="Token prices; null: from the built-in price table, if it lists the model and the endpoint is not "
        "on a private network.",
    )
    limits: EndpointLimitsConfig = Field(
        default_factory=EndpointLimitsConfig, description="Rate limits of its endpoint, shared by all its judges."
    )
    redact: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Redact personal data and secrets in prompts; auto: unless the endpoint is on a private network.",
    )

    @field_validator("sampling_temperature")
    @classmethod
    def _check_sampling_temperature(cls, value: float) -> float | None:
        return cls._refuse_too_hot(value)

    @abstractmethod
    def build_model(self, options: ModelOptions) -> EndpointModel:
        """Build the client of its API."""

    def build(self, shared: SharedParts) -> Judge:
        redacts = self.redact == "always" or (self.redact == "auto" and not self.is_private)
        options: ModelOptions = {
            **self.endpoint_options(),
            "sampling_temperature": self.sampling_temperature,
            "redactor": shared.redactor if redacts else None,
            "flow": shared.flow_of(self.asked_model),
            "price": self.known_price,
        }
        judge = self.judge_with(self.build_model(options))
        return judge if shared.verdicts is None else CachedJudge(judge, shared.verdicts)

    def divide_limits(self, parts: int, place: int) -> Self:
        return self.model_copy(update={"limits": self.limits.divide_limits(parts, place)})

    @property
    def asked_model(self) -> AskedModel:
        return AskedModel(
            name=self.model,
            provider=self.provider,
            address=self.address,
            limits=self.limits,
            price=self.known_price,
        )

    @property
    def longest_call_seconds(self) -> float:
        return self.timeout_seconds

    @property
    def known_price(self) -> ModelPrice | None:
        """The price of its tokens, if known; only the operator knows the price of a self-hosted model."""
        if self.price is not None:
            return ModelPrice(**self.price.model_dump())
        return None if self.is_private else find_price(self.model)

    @property
    def relative_cost(self) -> float:
        price = self.known_price
        if price is None:
            return 0.0
        return (_PROMPT_TO_COMPLETION * price.prompt + price.completion) * self.samples * self.steps

    def expected_calls(self, case: Case, criteria: Collection[Criterion]) -> Iterator[ExpectedCalls]:
        for prompt, group in self.prompts(case, criteria):
            yield ExpectedCalls(
                prompt=prompt, max_tokens=self.max_tokens, number=self.calls_per_prompt, answers=len(group)
            )
