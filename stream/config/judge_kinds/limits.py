"""The limits of an endpoint and the price of a model, as the sections of all kinds that ask one have them."""

from typing import Self

from pydantic import Field, FiniteFloat

from stream.config.section import Section


class PriceConfig(Section):
    """What a model costs, in US dollars per million tokens."""

    prompt: FiniteFloat = Field(ge=0, le=1e6, description="A million tokens that are sent.")
    completion: FiniteFloat = Field(ge=0, le=1e6, description="A million tokens that are written.")
    cached: FiniteFloat | None = Field(
        default=None,
        ge=0,
        le=1e6,
        description="A million of the tokens sent that the endpoint had in its cache; null: as the others.",
    )


class EndpointLimitsConfig(Section):
    """How much an endpoint is asked; within this, what it takes is found out."""

    concurrency: int = Field(default=64, ge=1, le=4096, description="Calls at once, at most.")
    requests_per_minute: FiniteFloat | None = Field(
        default=None, gt=0, le=1e9, description="Calls a minute; null: any."
    )
    tokens_per_minute: FiniteFloat | None = Field(
        default=None, gt=0, le=1e12, description="Tokens a minute; null: any."
    )
    retries: int = Field(default=2, ge=0, le=10, description="Further attempts of a call that failed and may pass.")
    hedge_seconds: FiniteFloat | None = Field(
        default=None, gt=0, le=600, description="Ask a second time after so long without an answer; null: never."
    )

    def divided(self, parts: int, place: int) -> Self:
        """Returns one of `parts` shares that add up to these limits; `place` counts from 0."""
        per_minute = {
            name: None if limit is None else limit / parts
            for name, limit in (
                ("requests_per_minute", self.requests_per_minute),
                ("tokens_per_minute", self.tokens_per_minute),
            )
        }
        return self.model_copy(update={"concurrency": divide(self.concurrency, parts, place), **per_minute})


def divide(total: int, parts: int, place: int) -> int:
    """Returns one of the parts, which differ by 1 at most and add up to the total."""
    return total // parts + (place < total % parts)
