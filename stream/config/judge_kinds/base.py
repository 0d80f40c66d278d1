"""The contract of a judge kind: one configuration section that answers every question about its judges.

A kind is a subclass of `JudgeSection` with its own `kind` and a `build`. The other methods have defaults for a
judge that only computes; a kind overrides those that differ.
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
    """The service's name in OpenTelemetry's conventions, if they have one."""

    address: str
    limits: EndpointLimitsConfig
    price: ModelPrice | None
    """None if no price is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCalls:
    """Calls of a model with the same prompt."""

    prompt: Sequence[ChatMessage]
    max_tokens: int
    """Longest answer for one criterion."""

    number: int
    answers: int = 1
    """Criteria per call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedParts:
    """The parts that all judges of a panel share."""

    redactor: Redactor
    verdicts: VerdictStore | None
    """The cache of verdicts; None without a cache."""

    flows: dict[str, Flow] = field(default_factory=dict)
    """Flow control by the address of the endpoint."""

    def flow_of(self, model: AskedModel) -> Flow:
        """Return the flow control in front of the model's endpoint."""
        if model.address not in self.flows:
            limits = FlowLimits(**model.limits.model_dump())
            self.flows[model.address] = Flow(limits, name=urlsplit(model.address).netloc)
        return self.flows[model.address]


def _require_kind(schema: dict[str, Any]) -> None:
    schema["required"] = [DISCRIMINATOR, *schema.get("required", [])]


class JudgeSection(Section):
    """The base of all judge sections. Python code may leave out the kind, a file may not.

    Three keys mean the same in every kind that has them. A secret is called `api_key`, so that it is refused in a file.
    `seed` and `temperature` can be overridden for one run of `streamjury evaluate`.
    """

    model_config = ConfigDict(json_schema_extra=_require_kind)

    kind: str = Field(description="Judge kind.")
    name: JudgeName = Field(description="Name under which verdicts are published.")

    @abstractmethod
    def build(self, shared: SharedParts) -> Judge:
        """Build the judge; raises InconsistentError, with places below this section, if that is not possible."""

    @property
    def asked_model(self) -> AskedModel | None:
        """The model that the judge asks, or None: then it costs nothing and needs no network."""
        return None

    @property
    def longest_call_seconds(self) -> float | None:
        """The longest time for one call, from `timeout_seconds`; None for a judge without calls."""
        return None

    @property
    def is_shipped(self) -> bool:
        """Whether it is one of the judges that the package ships: they were measured together."""
        return False

    @property
    def runs_in_processes(self) -> bool:
        """Whether several processes may each have a copy of the judge.

        A judge that asks a model must not be copied: every copy would use the whole limits of the endpoint.
        """
        return self.asked_model is None

    def divide_limits(self, parts: int, place: int) -> Self:
        """Return the judge for one of several processes, with a share of the limits; `place` counts from 0."""
        return self

    @property
    def only_criteria(self) -> tuple[str, ...] | None:
        """The criteria of its key `criteria`, to which the judge is restricted; None: all that it can judge."""
        return None

    @property
    def relative_cost(self) -> float:
        """The cost of a verdict for comparison with other judges: the cheapest is asked first when money is short."""
        return 0.0

    def missing_extra(self) -> str | None:
        """Return how to install the packages that the judge needs, if they are missing."""
        return None

    def expected_calls(self, case: Case, criteria: Collection[Criterion]) -> Iterator[ExpectedCalls]:
        """List the calls of its model for one case, without retries."""
        return iter(())
