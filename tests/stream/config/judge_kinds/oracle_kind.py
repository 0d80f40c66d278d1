"""A judge kind added by a test, in one file: its judge, its configuration section and its factory."""

from collections.abc import Collection, Iterator
from typing import Literal

from pydantic import Field

from judges.criteria.criterion import Criterion
from judges.judge import Judge
from judges.models.base import ChatMessage
from judges.models.prices import ModelPrice
from judges.scripted import ScriptedJudge
from judges.values.evaluation import JudgeVerdict
from judges.values.interaction import Case
from stream.config.judge_kinds.base import AskedModel, ExpectedCalls, JudgeSection, SharedParts
from stream.config.judge_kinds.limits import EndpointLimitsConfig, PriceConfig

ADDRESS = "http://oracle.example:8443/v1"
PROMPT = "x" * 4000


class Oracle(ScriptedJudge):
    """A judge that gives every answer the best verdict."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(
            lambda _case, criterion: criterion.worst_first[-1].label.en if criterion.worst_first else 1.0, name
        )
        self._seed = seed

    @property
    def identity(self) -> str:
        return f"oracle seed={self._seed}"

    async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        verdict = await super().verdict(case, criterion, reverse=reverse)
        return verdict.model_copy(update={"explanation": "the oracle has spoken"})


class OracleJudgeConfig(JudgeSection):
    """An oracle: local and free, or behind an endpoint and for a fee."""

    kind: Literal["oracle"] = Field(default="oracle", description="Judge kind: an oracle.")
    seed: int = Field(default=0, ge=0, description="The seed of its dreams.")
    criteria: tuple[str, ...] | None = Field(default=None, description="The criteria it judges; null: all.")
    fee: PriceConfig | None = Field(default=None, description="What it costs; null: nothing.")
    shy: bool = Field(default=False, description="Whether there may be only one of it.")

    def build(self, shared: SharedParts) -> Judge:
        judge = Oracle(self.name, self.seed)
        judge.only = None if self.criteria is None else frozenset(self.criteria)
        return judge

    @property
    def asked_model(self) -> AskedModel | None:
        if self.fee is None:
            return None
        return AskedModel(
            name="pythia",
            provider="delphi",
            address=ADDRESS,
            limits=EndpointLimitsConfig(),
            price=ModelPrice(**self.fee.model_dump()),
        )

    @property
    def runs_in_processes(self) -> bool:
        return super().runs_in_processes and not self.shy

    @property
    def only_criteria(self) -> tuple[str, ...] | None:
        return self.criteria

    @property
    def relative_cost(self) -> float:
        return 0.0 if self.fee is None else self.fee.prompt

    def expected_calls(self, case: Case, criteria: Collection[Criterion]) -> Iterator[ExpectedCalls]:
        """Expect one call per case, with a prompt of a thousand tokens and an answer of two words."""
        yield ExpectedCalls(prompt=[ChatMessage(role="user", content=PROMPT)], max_tokens=2, number=1)
