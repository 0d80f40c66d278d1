"""The section `budgets`: limits on the cost of judging."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, get_args

from pydantic import Field, FiniteFloat, ValidationInfo, field_validator

from judges.criteria.problems import InconsistentError, Loc
from stream.config.section import Rate, Section, check_by_loader
from stream.config.sections.observability import AppName

MAX_APPS = 64
MAX_USD = 1e9
# With less, the judged records would tell too little.
MIN_KEEP = 1 / 16
"""The smallest share of the records that is still judged while money is short."""

SavingStep = Literal["samples", "reserves", "cascade", "sampling"]


class AppBudgetConfig(Section):
    """Spending limits for judging one app's interactions."""

    per_hour_usd: FiniteFloat | None = Field(
        default=None, gt=0, le=MAX_USD, description="Per UTC hour; null: the global limit applies."
    )
    per_day_usd: FiniteFloat | None = Field(
        default=None, gt=0, le=MAX_USD, description="Per UTC day; null: the global limit applies."
    )

    @field_validator("per_day_usd")
    @classmethod
    def _check_day_limit(cls, value: float | None, info: ValidationInfo) -> float | None:
        return _require_hour_limit(value, info)


class MeasureConfig(Section):
    """One saving, and when it applies."""

    step: SavingStep = Field(
        description="samples: take one sample; reserves: ask none; cascade: cheap judges first; sampling: judge fewer "
        "records."
    )
    below: FiniteFloat = Field(
        gt=0, le=1, description="Applied while less than this share of the hourly or daily budget is left."
    )


class BudgetsConfig(Section):
    """Spending limits for the judges of all workers together. Every judge needs a price."""

    per_hour_usd: FiniteFloat | None = Field(
        default=None, gt=0, le=MAX_USD, description="Per UTC hour; null: no limit."
    )
    per_day_usd: FiniteFloat | None = Field(default=None, gt=0, le=MAX_USD, description="Per UTC day; null: no limit.")
    apps: Mapping[AppName, AppBudgetConfig] = Field(
        default={},
        max_length=MAX_APPS,
        description="Apps with their own budget, within the global one.",
        examples=[{"checkout-bot": {"per_hour_usd": 2.0, "per_day_usd": 20.0}}],
    )
    safety_share: Rate = Field(
        default=0.2,
        description="Share of every budget reserved for the safety lane, if there is one; it can use the rest as well.",
    )
    degrade: tuple[MeasureConfig, ...] = Field(
        default=(
            MeasureConfig(step="samples", below=0.4),
            MeasureConfig(step="reserves", below=0.3),
            MeasureConfig(step="cascade", below=0.2),
            MeasureConfig(step="sampling", below=0.1),
        ),
        max_length=len(get_args(SavingStep)),
        description="Savings to apply as the budget runs low, in this order; the safety lane is exempt.",
    )

    @field_validator("per_day_usd")
    @classmethod
    def _check_day_limit(cls, value: float | None, info: ValidationInfo) -> float | None:
        return _require_hour_limit(value, info)

    @field_validator("apps")
    @classmethod
    def _check_app_limits(
        cls, value: Mapping[str, AppBudgetConfig], info: ValidationInfo
    ) -> Mapping[str, AppBudgetConfig]:
        problems: list[tuple[Loc, str]] = []
        for name, own in value.items():
            if own.per_hour_usd is None and own.per_day_usd is None:
                problems.append(((name,), "must set an hourly or a daily limit"))
            for key, of_all in ((key, info.data.get(key)) for key in ("per_hour_usd", "per_day_usd")):
                limit = getattr(own, key)
                if limit is not None and of_all is not None and limit > of_all:
                    problems.append(((name, key), f"must be at most budgets.{key} ({of_all:g}), the global limit"))
            day, hour = info.data.get("per_day_usd"), own.per_hour_usd
            if own.per_day_usd is None and day is not None and hour is not None and hour > day:
                problems.append(
                    ((name, "per_hour_usd"), f"must be at most budgets.per_day_usd ({day:g}), the global limit")
                )
        if problems:
            raise InconsistentError(problems)
        return value

    _fit_into_offsets = field_validator("apps")(check_by_loader("budgets.apps"))

    @field_validator("degrade")
    @classmethod
    def _check_order(cls, value: tuple[MeasureConfig, ...]) -> tuple[MeasureConfig, ...]:
        problems: list[tuple[Loc, str]] = []
        for place, measure in enumerate(value):
            if measure.step in {earlier.step for earlier in value[:place]}:
                problems.append(((place, "step"), "is listed twice"))
            if place and measure.below > value[place - 1].below:
                problems.append(
                    ((place, "below"), f"must be at most that of the previous step ({value[place - 1].below:g})")
                )
        if problems:
            raise InconsistentError(problems)
        return value

    @property
    def has_limits(self) -> bool:
        """Whether anything limits spending."""
        return self.per_hour_usd is not None or self.per_day_usd is not None or bool(self.apps)

    @property
    def thins(self) -> bool:
        """Whether records may be left out when the money runs low."""
        return self.has_limits and any(measure.step == "sampling" for measure in self.degrade)

    def find_unpriced(self, judges: Iterable[tuple[Loc, bool]]) -> Iterator[tuple[Loc, str]]:
        """Find judges without a price if there is a budget: the cost of their calls would be unknown.

        `judges` has the place of each judge that asks a model, and whether its price is known.
        """
        for loc, priced in judges if self.has_limits else ():
            if not priced:
                yield (
                    (*loc, "price"),
                    "is required because a budget is set and the price of this model at this endpoint is unknown; for "
                    "a model you host, use {prompt: 0, completion: 0}",
                )


def _require_hour_limit(per_day_usd: float | None, info: ValidationInfo) -> float | None:
    per_hour_usd = info.data.get("per_hour_usd")
    if per_day_usd is not None and per_hour_usd is not None and per_hour_usd > per_day_usd:
        raise ValueError(
            f"is less than per_hour_usd ({per_hour_usd:g}), which could never be spent: raise it, or lower or remove "
            "per_hour_usd"
        )
    return per_day_usd
