"""The contract of a judge kind: one configuration section that answers every question about its judges.

A kind is a subclass of `JudgeSection` with a `kind` of its own and a `build`. The other methods have defaults for a
judge that only computes; a kind overrides those that are different for its judges.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field

from judges.cache import VerdictStore
from judges.criteria.criterion import Criterion
from judges.judge import Judge
from judges.models.base import ChatMessage
from judges.models.flow import Flow, FlowLimits
from judges.models.prices import ModelPrice
from judges.models.redaction import Redactor
from judges.values.interaction import Case
from stream.config.judge_kinds.limits import EndpointLimitsConfig
from stream.config.patterns import JUDGE
from stream.config.section import Section
from stream.config.walk import DISCRIMINATOR

JudgeName = Annotated[str, Field(pattern=JUDGE)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModel:
    """The model that a judge asks: which one, where, and at what price."""

    name: str
    provider: str
    """The service by its name in OpenTelemetry's conventions, where they have one."""

    address: str
    limits: EndpointLimitsConfig
    price: ModelPrice | None
    """`None` where no price is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCalls:
    """Calls of a model with the same prompt."""

    prompt: Sequence[ChatMessage]
    max_tokens: int
    """Longest answer by one criterion."""

    number: int
    answers: int = 1
    """Criteria that one call asks about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedParts:
    """The parts that all judges of a panel share."""

    redactor: Redactor
    verdicts: VerdictStore | None
    """Where verdicts are kept for reuse; `None` without a cache."""

    flows: dict[str, Flow] = field(default_factory=dict)
    """Flow control by the address of the endpoint."""

    def flow_of(self, model: AskedModel) -> Flow:
        """Returns the flow control in front of the model's endpoint."""
        if model.address not in self.flows:
            limits = FlowLimits(**model.limits.model_dump())
            self.flows[model.address] = Flow(limits, name=urlsplit(model.address).netloc)
        return self.flows[model.address]


def _require_kind(schema: dict[str, Any]) -> None:
    schema["required"] = [DISCRIMINATOR, *schema.get("required", [])]


class JudgeSection(Section):
    """What all judges share: Python may leave out the kind, a file may not.

    Three keys mean the same in every kind that has them. A secret is called `api_key`, so that it is refused in a file.
    `seed` and `temperature` can be overridden for one run of `streamjury evaluate`.
    """

    model_config = ConfigDict(json_schema_extra=_require_kind)

    kind: str = Field(description="Judge kind.")
    name: JudgeName = Field(description="Name under which verdicts are published.")

    @abstractmethod
    def build(self, shared: SharedParts) -> Judge:
        """Builds the judge; raises InconsistentError, with places below this section, where that is not possible."""

    @property
    def asked_model(self) -> AskedModel | None:
        """The model that the judge asks, or None: then it costs nothing and needs no network."""
        return None

    @property
    def longest_call_seconds(self) -> float | None:
        """The longest time for one call, which `timeout_seconds` sets; None for a judge that makes no calls."""
        return None

    @property
    def runs_in_processes(self) -> bool:
        """Whether several processes may each have a copy of the judge.

        A judge that asks a model must not be copied: every copy would use up the limits of the endpoint on its own.
        """
        return self.asked_model is None

    def divided(self, parts: int, place: int) -> Self:
        """Returns the judge of one of several processes, whose limits are a share of these; `place` counts from 0."""
        return self

    @property
    def only_criteria(self) -> tuple[str, ...] | None:
        """The criteria that the judge is restricted to, as its key `criteria` has them; None: all it can judge."""
        return None

    @property
    def relative_cost(self) -> float:
        """The cost of a verdict for comparison with other judges: the cheapest is asked first when money is short."""
        return 0.0

    def expected_calls(self, case: Case, criteria: Collection[Criterion]) -> Iterator[ExpectedCalls]:
        """Lists the calls of its model for one case if none has to be repeated."""
        return iter(())
