"""The limits of an endpoint and the price of a model, as the sections of all kinds that ask one have them."""

from typing import Literal

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
    rate: Literal["learn", "none"] = Field(
        default="learn",
        description="`learn`: find the rate and the number of calls at once above which the endpoint answers 429 or "
        "503, and stay below; `none`: learn neither, for an endpoint whose refusals mean nothing. Refused calls wait "
        "and are retried either way.",
    )
    retries: int = Field(default=2, ge=0, le=10, description="Further attempts of a call that failed and may pass.")
    hedge_seconds: FiniteFloat | None = Field(
        default=None, gt=0, le=600, description="Ask a second time after so long without an answer; null: never."
    )
