"""Prices: the cost of a call, the most it can cost, and a dated table of common models."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_CEILING, Decimal
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from judges.criteria.strict_yaml import read_file
from judges.models.base import ChatMessage

_TABLE = Path(__file__).with_name("prices.yaml")
# Suffix of a model's name that stands for one release of it.
_RELEASE = re.compile(r"[-@](?:latest|\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4})")
# One dollar per million tokens is a thousand nanodollars per token.
_NANODOLLARS = 1000
# Tokens that chat templates put around a message and before the answer.
_TOKENS_PER_MESSAGE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """US dollars per million tokens."""

    prompt: float
    completion: float
    cached: float | None = None
    """Rate of prompt tokens that the endpoint reports as cached; None: the same as the others."""

    def __post_init__(self) -> None:
        for name, rate in (("prompt", self.prompt), ("completion", self.completion), ("cached", self.cached or 0.0)):
            # Also refuses NaN, for which every comparison is false.
            if not 0 <= rate <= 1e6:
                raise ValueError(f"{name} must be a price between 0 and a million dollars")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice(Rates):
    """The price of a model. Amounts are whole nanodollars, rounded up."""

    above: tuple[int, Rates] | None = None
    """Other rates for calls with more prompt tokens than this."""
    as_of: date | None = None
    source: str = "configuration"

    def cost(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> int:
        """Return the cost of a call; `prompt_tokens` includes `cached_tokens`."""
        rates: Rates = self if self.above is None or prompt_tokens <= self.above[0] else self.above[1]
        cached = min(max(0, cached_tokens), prompt_tokens)
        cached_rate = rates.prompt if rates.cached is None else rates.cached
        parts = ((prompt_tokens - cached, rates.prompt), (cached, cached_rate), (completion_tokens, rates.completion))
        exact = sum((tokens * Decimal(repr(rate)) for tokens, rate in parts), Decimal(0)) * _NANODOLLARS
        return int(exact.to_integral_value(ROUND_CEILING))

    def most(self, prompt_tokens: int, max_tokens: int) -> int:
        """Return the maximum cost of a call with at most this many tokens, at the highest rates."""
        highest = ((max(rates.prompt, rates.cached or 0.0), rates.completion) for rates in self._rates())
        prices = (ModelPrice(prompt=prompt, completion=completion) for prompt, completion in highest)
        return max(price.cost(prompt_tokens, max_tokens) for price in prices)

    def _rates(self) -> Iterable[Rates]:
        return (self,) if self.above is None else (self, self.above[1])


def most_prompt_tokens(messages: Sequence[ChatMessage], schema: Mapping[str, object] | None = None) -> int:
    """Return an upper bound on the tokens of a prompt: a token is at least one byte, and the schema may be sent too."""
    texts = [message.content for message in messages]
    texts += [] if schema is None else [json.dumps(schema, ensure_ascii=False)]
    return sum(len(text.encode("utf-8", "replace")) for text in texts) + _TOKENS_PER_MESSAGE * (len(texts) + 1)


@cache
def load_prices() -> Mapping[str, ModelPrice]:
    """Return the shipped prices by model name."""
    data = read_file(_TABLE, _NoProblems())
    return MappingProxyType({name: _price(entry) for name, entry in data["prices"].items()})


def find_price(model: str) -> ModelPrice | None:
    """Return the shipped price of a model, or of the model that it is a release of (`gpt-4o-mini-2024-07-18`)."""
    prices = load_prices()
    if model in prices:
        return prices[model]
    names = [name for name in prices if model.startswith(name) and _RELEASE.fullmatch(model, len(name))]
    return prices[max(names, key=len)] if names else None


def _price(entry: Mapping[str, Any]) -> ModelPrice:
    rest = {name: value for name, value in entry.items() if name not in {"above", "as_of"}}
    above = dict(entry.get("above", {}))
    return ModelPrice(
        **rest,
        above=(above.pop("tokens"), Rates(**above)) if above else None,
        as_of=date.fromisoformat(entry["as_of"]),
    )


class _NoProblems:
    """Raises every problem of the table: the table is shipped, so a mistake in it is a bug."""

    def report(self, loc: object, message: str) -> None:
        raise ValueError(f"{_TABLE.name}: {loc}: {message}")

    report_unread = report
