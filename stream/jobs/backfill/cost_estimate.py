"""The cost estimate: the approximate cost of judging some interactions, and its basis."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from judges.models.prices import ModelPrice
from judges.models.spending import dollars
from judges.values.interaction import Interaction, case_of
from stream.config.judge_kinds.base import ExpectedCalls
from stream.config.model import Config
from stream.config.sections.judges import JudgeConfig
from stream.service.setup.criteria_files import load_chosen_criteria

# The average of English; a Cyrillic letter has two bytes, and its words have about twice as many tokens.
_BYTES_PER_TOKEN = 4
# An explanation of a few sentences and the verdict.
_WRITTEN_TOKENS = 120
_SAMPLE = 200
# With fewer evaluations, the texts give a better estimate than the mean.
_ENOUGH = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """An approximate cost in US dollars; None if no price is known."""

    usd: float | None
    basis: str
    unpriced: tuple[str, ...] = ()
    """Judges without a known price: their cost comes on top."""


@dataclass(slots=True)
class Paid:
    """The known cost of existing evaluations with one fingerprint."""

    evaluations: int = 0
    usd: float = 0.0

    def add(self, usd: float | None) -> None:
        if usd is not None:
            self.evaluations += 1
            self.usd += usd


@dataclass(slots=True)
class SystematicSample:
    """Every n-th item of a sequence of unknown length; n doubles whenever there are too many."""

    kept: list[Interaction] = field(default_factory=list)
    seen: int = 0
    _step: int = 1

    def add(self, interaction: Interaction) -> None:
        if self.seen % self._step == 0:
            self.kept.append(interaction)
            if len(self.kept) > _SAMPLE:
                self.kept = self.kept[::2]
                self._step *= 2
        self.seen += 1


def estimate(config: Config, sample: SystematicSample, paid: Paid) -> CostEstimate:
    """Estimate the cost of judging everything that the sample represents."""
    asking = [(judge, judge.asked_model) for judge in config.judges.panel if judge.asked_model is not None]
    if not asking:
        return CostEstimate(usd=0.0, basis="no judge uses a model")
    unpriced = tuple(judge.name for judge, model in asking if model.price is None)
    if paid.evaluations >= _ENOUGH:
        basis = f"the mean of {paid.evaluations:,} evaluations with this fingerprint"
        return CostEstimate(usd=sample.seen * paid.usd / paid.evaluations, basis=basis, unpriced=unpriced)
    priced = [(judge, model.price) for judge, model in asking if model.price is not None]
    if not priced:
        return CostEstimate(usd=None, basis="no judge has a price", unpriced=unpriced)
    return CostEstimate(
        usd=_estimate_from_texts(config, sample, priced),
        basis=_describe_basis(len(sample.kept), priced),
        unpriced=unpriced,
    )


def _estimate_from_texts(
    config: Config, sample: SystematicSample, priced: Sequence[tuple[JudgeConfig, ModelPrice]]
) -> float:
    criteria = load_chosen_criteria(config.criteria).values()
    language = None if config.judges.language == "auto" else config.judges.language
    cases = [case_of(interaction, language) for interaction in sample.kept]
    nano = sum(
        price.cost(_prompt_tokens(calls), min(_WRITTEN_TOKENS, calls.max_tokens) * calls.answers) * calls.number
        for judge, price in priced
        for case in cases
        for calls in judge.expected_calls(case, criteria)
    )
    return dollars(nano) * sample.seen / max(1, len(cases))


def _prompt_tokens(calls: ExpectedCalls) -> int:
    """Estimate the tokens of one prompt, rounded up."""
    size = sum(len(message.content.encode("utf-8", "replace")) for message in calls.prompt)
    return -(-size // _BYTES_PER_TOKEN)


def _describe_basis(texts: int, priced: Sequence[tuple[JudgeConfig, ModelPrice]]) -> str:
    prices = ", ".join(f"{judge.name} {_describe_price(price)}" for judge, price in priced)
    return (
        f"the prompts for {texts:,} of the records at {_BYTES_PER_TOKEN} bytes per token, and {_WRITTEN_TOKENS} "
        f"completion tokens each; without repairs, retries or reserves; USD per million tokens: {prices}"
    )


def _describe_price(price: ModelPrice) -> str:
    dated = f" as of {price.as_of}" if price.as_of is not None else ""
    return f"{price.prompt:g} prompt and {price.completion:g} completion ({price.source}{dated})"
