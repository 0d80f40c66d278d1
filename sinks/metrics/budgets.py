"""Metrics of budgets: the workers' spending from their shares, which add up to the whole."""

from collections.abc import Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge

from sinks.metrics import names


class BudgetStanding(NamedTuple):
    """How a budget stands, as far as one process has it."""

    window: str
    app: str
    """Empty for what all apps share."""

    spent_usd: float
    """Also what is kept for calls under way."""

    limit_usd: float


class BudgetMetrics:
    """Made when there is something to tell: who has no budgets sees nothing of it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["app", "window"]
        self._spent = Gauge(
            names.BUDGET_SPENT_USD,
            "Cost of judging in the current hour or day, including reservations for calls, within this process's "
            "share.",
            labels,
            registry=registry,
        )
        self._limit = Gauge(
            names.BUDGET_LIMIT_USD,
            "Budget for judging per hour or day: this process's share.",
            labels,
            registry=registry,
        )
        self._refused = Counter(
            names.BUDGET_REFUSED_CALLS,
            "Calls not made because a budget was used up.",
            registry=registry,
        )
        self._excess = Counter(
            names.BUDGET_EXCESS_USD, "Cost of calls beyond their reserved maximum.", registry=registry
        )
        self._told = 0, 0.0

    def tell(self, standing: Sequence[BudgetStanding], *, refused: int, excess_usd: float) -> None:
        """How the budgets stand now; the other two are sums since the start, which only grow."""
        for gauge in (self._spent, self._limit):
            gauge.clear()  # with the last partition a process has no share any more
        for each in standing:
            self._spent.labels(each.app, each.window).set(each.spent_usd)
            self._limit.labels(each.app, each.window).set(each.limit_usd)
        self._refused.inc(refused - self._told[0])
        self._excess.inc(max(0.0, excess_usd - self._told[1]))
        self._told = refused, excess_usd
