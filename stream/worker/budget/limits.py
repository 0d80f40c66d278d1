"""Limits: the amounts that one partition may spend per hour and day, for all apps together and for single apps."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Self

from judges.models.spending import nanodollars
from stream.config.model import Config
from stream.config.sections.budgets import AppBudgetConfig, BudgetsConfig

MICRODOLLAR = 1000
"""In nanodollars. Limits and leases are whole microdollars, so that notes stay short."""

ALL_APPS = ""
"""The scope of the spending of all apps together."""


class Span(Enum):
    """The windows of budgets: hours and days of UTC, which Unix time divides evenly."""

    HOUR = 3600
    DAY = 86_400


class Caps(NamedTuple):
    """A share of a budget in nanodollars: the whole share, and the part that lanes other than safety may use."""

    whole: int
    main: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits per hour and per day in US dollars; None for no limit."""

    per_hour_usd: float | None = None
    per_day_usd: float | None = None

    @classmethod
    def of(cls, config: BudgetsConfig | AppBudgetConfig) -> Self:
        return cls(per_hour_usd=config.per_hour_usd, per_day_usd=config.per_day_usd)

    def within(self, span: Span) -> float | None:
        return self.per_hour_usd if span is Span.HOUR else self.per_day_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Everything that limits spending: one budget for all, others for some apps, and the share kept for safety."""

    everyone: Budget
    apps: Mapping[str, Budget]
    safety_share: float

    @classmethod
    def of(cls, config: Config) -> Self | None:
        """Return the budgets of a configuration, or None. Without a safety lane no share is kept for it."""
        budgets = config.budgets
        if not budgets.has_limits:
            return None
        apps = {name: Budget.of(app) for name, app in budgets.apps.items()}
        safety_share = 0.0 if config.sampling.safety is None else budgets.safety_share
        return cls(everyone=Budget.of(budgets), apps=apps, safety_share=safety_share)


Limits = Mapping[Span, Mapping[str, Caps]]
"""By span and scope (`ALL_APPS`, or an app's name); scopes without a limit are absent."""


def shares(budgets: Budgets, partition: int, partitions: int) -> Limits:
    """Return the limits of one partition. The shares of all partitions add up to at most the budget."""
    if not 0 <= partition < partitions:
        raise ValueError(f"no partition {partition} of {partitions}")
    scopes = {ALL_APPS: budgets.everyone, **budgets.apps}
    limits: dict[Span, dict[str, Caps]] = {}
    for span in Span:
        for scope, budget in scopes.items():
            usd = budget.within(span)
            if usd is not None:
                caps = _share(usd, budgets.safety_share, partition, partitions)
                limits.setdefault(span, {})[scope] = caps
    return limits


def _share(usd: float, safety_share: float, partition: int, partitions: int) -> Caps:
    micro = nanodollars(usd, up=False) // MICRODOLLAR
    # The remainder goes to some of the partitions, a microdollar each.
    whole = micro * (partition + 1) // partitions - micro * partition // partitions
    safety = min(whole, -int(-whole * safety_share // 1))
    return Caps(whole * MICRODOLLAR, (whole - safety) * MICRODOLLAR)
