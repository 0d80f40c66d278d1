"""The state of the flow in front of an endpoint, for operators."""

from collections.abc import Mapping
from dataclasses import dataclass

from judges.models.flow.failures import FailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowState:
    """A snapshot; the failures are counted from the start."""

    limit: int
    """Attempts that may be in flight at once, as far as is known."""

    rate: float
    """Attempts per second that the endpoint takes, as far as is known; infinite while no limit is known."""

    in_flight: int
    waiting: int
    failures: Mapping[FailureKind, int]
    """Failed attempts by kind; a kind that did not occur is 0."""
