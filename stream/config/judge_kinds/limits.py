"""The limits of an endpoint and the price of a model, in the sections of all kinds that ask a model."""

from typing import Literal, Self

from pydantic import Field, FiniteFloat

from stream.config.section import Section


class PriceConfig(Section):
    """Token prices of a model, in US dollars per million tokens."""

    prompt: FiniteFloat = Field(ge=0, le=1e6, description="Per million prompt tokens.")
    completion: FiniteFloat = Field(ge=0, le=1e6, description="Per million completion tokens.")
    cached: FiniteFloat | None = Field(
        default=None,
        ge=0,
        le=1e6,
        description="Per million prompt tokens read from the endpoint's cache; null: same as prompt.",
    )


class EndpointLimitsConfig(Section):
    """Rate limits of an endpoint; within them, the client adapts to what the endpoint can handle."""

    concurrency: int = Field(default=64, ge=1, le=4096, description="Maximum concurrent calls.")
    requests_per_minute: FiniteFloat | None = Field(
        default=None, gt=0, le=1e9, description="Maximum calls per minute; null: no limit."
    )
    tokens_per_minute: FiniteFloat | None = Field(
        default=None, gt=0, le=1e12, description="Maximum tokens per minute; null: no limit."
    )
    rate: Literal["learn", "none"] = Field(
        default="learn",
        description="`learn`: find the rate and the number of calls at once above which the endpoint answers 429 or "
        "503, and stay below; `none`: learn neither, for an endpoint whose refusals mean nothing. Refused calls wait "
        "and are retried either way.",
    )
    retries: int = Field(default=2, ge=0, le=10, description="Retries of a call after a transient failure.")
    hedge_seconds: FiniteFloat | None = Field(
        default=None,
        gt=0,
        le=600,
        description="Send a second request if there is no answer after this long; null: never.",
    )

    def divide_limits(self, parts: int, place: int) -> Self:
        """Return one of `parts` shares that add up to these limits; `place` counts from 0."""
        per_minute = {
            name: None if limit is None else limit / parts
            for name, limit in (
                ("requests_per_minute", self.requests_per_minute),
                ("tokens_per_minute", self.tokens_per_minute),
            )
        }
        return self.model_copy(update={"concurrency": divide(self.concurrency, parts, place), **per_minute})


def divide(total: int, parts: int, place: int) -> int:
    """Return one of the parts, which differ by at most 1 and add up to the total."""
    return total // parts + (place < total % parts)
