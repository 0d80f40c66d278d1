"""The settings of the page, from the configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from judges.composite import MultiCriteria
from judges.panel import Vote


class Objective(NamedTuple):
    """The objective of an app."""

    good_score: float
    """Lowest composite that counts as good."""
    target: float
    """Target share of good answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingLimit:
    """A limit on the cost of judging; None: no limit."""

    per_hour_usd: float | None = None
    per_day_usd: float | None = None

    def over(self, duration: timedelta) -> float | None:
        """Return the most that these limits allow for a time range; None if there is no limit."""
        limits = (
            (self.per_hour_usd, timedelta(hours=1)),
            (self.per_day_usd, timedelta(days=1)),
        )
        # The whole limit of a period may be spent in a range that is shorter than the period.
        return min((usd * max(1.0, duration / period) for usd, period in limits if usd is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentEvaluator:
    """The configured evaluator: the only one whose weights are known."""

    fingerprint: str
    multi: MultiCriteria
    safety_vote: Vote


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    version: str
    evaluator: CurrentEvaluator
    objective: Callable[[str], Objective]
    """By the name of the app."""
    min_effective: float = 30.0
    """Effective sample size below which an app has not enough data."""
    floors: Mapping[str, float] = field(default_factory=dict)
    """Lowest acceptable means, by criterion or `composite`."""
    judge_failures: float = 0.2
    """Share of failed verdicts above which a judge counts as down."""
    budgets: Mapping[str, SpendingLimit] = field(default_factory=dict)
    """By app."""
    total_budget: SpendingLimit = field(default_factory=SpendingLimit)
    trace_url: str | None = None
    """URL of a trace, with the placeholder `{trace_id}`."""
