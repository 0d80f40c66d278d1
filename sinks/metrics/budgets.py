"""Metrics of budgets: the workers' spending from their shares, which add up to the whole."""

from collections.abc import Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge

from sinks.metrics import names


class BudgetStanding(NamedTuple):
    """The state of one process's share of a budget."""

    window: str
    app: str
    """Empty for the budget of all apps."""

    spent_usd: float
    """Includes reservations for calls in flight."""

    limit_usd: float


class BudgetMetrics:
    """Created with the first budget: without budgets there are no such series."""

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
        self._shown = 0, 0.0

    def show(self, standing: Sequence[BudgetStanding], *, refused: int, excess_usd: float) -> None:
        """Show the state of the budgets; the other two are sums since the start, which only grow."""
        for gauge in (self._spent, self._limit):
            gauge.clear()  # a process without partitions has no share
        for budget in standing:
            self._spent.labels(budget.app, budget.window).set(budget.spent_usd)
            self._limit.labels(budget.app, budget.window).set(budget.limit_usd)
        self._refused.inc(refused - self._shown[0])
        self._excess.inc(max(0.0, excess_usd - self._shown[1]))
        self._shown = refused, excess_usd
