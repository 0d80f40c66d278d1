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
# What follows a model's name where it stands for one release of it.
_RELEASE = re.compile(r"[-@](?:latest|\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4})")
# A dollar for a million tokens is a thousand nanodollars for one.
_NANODOLLARS = 1000
# What chat templates put around a message and before the answer.
_TOKENS_PER_MESSAGE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """US dollars per million tokens."""

    prompt: float
    completion: float
    cached: float | None = None
    """Of those prompt tokens that the endpoint says it had in its cache; None: as the others."""

    def __post_init__(self) -> None:
        for name, rate in (("prompt", self.prompt), ("completion", self.completion), ("cached", self.cached or 0.0)):
            # Also refuses NaN, which is in no order.
            if not 0 <= rate <= 1e6:
                raise ValueError(f"{name} must be a price between 0 and a million dollars")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice(Rates):
    """What a model costs. Amounts are in whole nanodollars, and rounded up."""

    above: tuple[int, Rates] | None = None
    """Other rates for calls with more prompt tokens than this."""
    as_of: date | None = None
    source: str = "configuration"

    def cost(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> int:
        """What a call cost; `cached_tokens` are among the prompt's."""
        rates: Rates = self if self.above is None or prompt_tokens <= self.above[0] else self.above[1]
        cached = min(max(0, cached_tokens), prompt_tokens)
        of_cached = rates.prompt if rates.cached is None else rates.cached
        parts = ((prompt_tokens - cached, rates.prompt), (cached, of_cached), (completion_tokens, rates.completion))
        exact = sum((tokens * Decimal(repr(rate)) for tokens, rate in parts), Decimal(0)) * _NANODOLLARS
        return int(exact.to_integral_value(ROUND_CEILING))

    def most(self, prompt_tokens: int, max_tokens: int) -> int:
        """What a call with at most so many tokens can cost, at the dearest rates."""
        dearest = ((max(each.prompt, each.cached or 0.0), each.completion) for each in self._rates())
        prices = (ModelPrice(prompt=prompt, completion=completion) for prompt, completion in dearest)
        return max(price.cost(prompt_tokens, max_tokens) for price in prices)

    def _rates(self) -> Iterable[Rates]:
        return (self,) if self.above is None else (self, self.above[1])


def most_prompt_tokens(messages: Sequence[ChatMessage], schema: Mapping[str, object] | None = None) -> int:
    """A bound on the tokens of a prompt: a token stands for at least one byte, and the schema may be sent along."""
    texts = [message.content for message in messages]
    texts += [] if schema is None else [json.dumps(schema, ensure_ascii=False)]
    return sum(len(text.encode("utf-8", "replace")) for text in texts) + _TOKENS_PER_MESSAGE * (len(texts) + 1)


@cache
def known_prices() -> Mapping[str, ModelPrice]:
    """The prices that come with the program, by the names of models."""
    data = read_file(_TABLE, _NoProblems())
    return MappingProxyType({name: _price(entry) for name, entry in data["prices"].items()})


def known_price(model: str) -> ModelPrice | None:
    """The price of a model of this name, or of the one it is a release of (`gpt-4o-mini-2024-07-18`)."""
    prices = known_prices()
    if model in prices:
        return prices[model]
    found = [name for name in prices if model.startswith(name) and _RELEASE.fullmatch(model, len(name))]
    return prices[max(found, key=len)] if found else None


def _price(entry: Mapping[str, Any]) -> ModelPrice:
    rest = {name: value for name, value in entry.items() if name not in {"above", "as_of"}}
    above = dict(entry.get("above", {}))
    return ModelPrice(
        **rest,
        above=(above.pop("tokens"), Rates(**above)) if above else None,
        as_of=date.fromisoformat(entry["as_of"]),
    )


class _NoProblems:
    """The table is our own: what is wrong with it is a defect."""

    def report(self, loc: object, message: str) -> None:
        raise ValueError(f"{_TABLE.name}: {loc}: {message}")

    report_unread = report
