"""The state of the flow in front of an endpoint, for operators."""

from collections.abc import Mapping
from dataclasses import dataclass

from judges.models.flow.failures import FailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowState:
    """A snapshot; failures are counted since the start."""

    limit: int
    """Current limit on attempts in flight."""

    rate: float
    """Current limit on attempts per second; infinite while no limit is known."""

    in_flight: int
    waiting: int
    failures: Mapping[FailureKind, int]
    """Failed attempts by kind; a kind that did not occur is 0."""
