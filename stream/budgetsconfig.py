"""The section of the configuration for what judging may cost."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from pydantic import Field, FiniteFloat, ValidationInfo, field_validator

from judges.problems import InconsistentError, Loc
from stream.observability import AppName
from stream.section import Rate, Section
from stream.spending.economy import Measure, Step
from stream.spending.limits import Budget, Budgets, shares
from stream.spending.note import MAX_BYTES, longest

MAX_APPS = 64
MAX_USD = 1e9


class AppBudgetConfig(Section):
    """What the judging of one app's interactions may cost."""

    per_hour_usd: FiniteFloat | None = Field(
        default=None, gt=0, le=MAX_USD, description="In an hour of UTC; null: as much as all may."
    )
    per_day_usd: FiniteFloat | None = Field(
        default=None, gt=0, le=MAX_USD, description="In a day of UTC; null: as much as all may."
    )

    @field_validator("per_day_usd")
    @classmethod
    def _holds_an_hour(cls, value: float | None, info: ValidationInfo) -> float | None:
        return _at_least_an_hour(value, info)

    @property
    def budget(self) -> Budget:
        return Budget(per_hour_usd=self.per_hour_usd, per_day_usd=self.per_day_usd)


class MeasureConfig(Section):
    """One thing to leave out, and from when on."""

    step: Literal["samples", "reserves", "cascade", "sampling"] = Field(
        description="samples: one instead of several; reserves: none; cascade: cheap judges first; "
        "sampling: fewer records."
    )
    below: FiniteFloat = Field(
        gt=0, le=1, description="Taken while less than this share of the hour's or day's budget is left."
    )


class BudgetsConfig(Section):
    """What the judges may cost, all workers together. Needs the price of every judge."""

    per_hour_usd: FiniteFloat | None = Field(
        default=None, gt=0, le=MAX_USD, description="In an hour of UTC; null: no limit."
    )
    per_day_usd: FiniteFloat | None = Field(
        default=None, gt=0, le=MAX_USD, description="In a day of UTC; null: no limit."
    )
    apps: Mapping[AppName, AppBudgetConfig] = Field(
        default={},
        max_length=MAX_APPS,
        description="Apps with a budget of their own, within that of all.",
        examples=[{"checkout-bot": {"per_hour_usd": 2.0, "per_day_usd": 20.0}}],
    )
    safety_share: Rate = Field(
        default=0.2,
        description="Share of every budget that only the safety lane, where there is one, may use, beside the rest.",
    )
    degrade: tuple[MeasureConfig, ...] = Field(
        default=(
            MeasureConfig(step="samples", below=0.4),
            MeasureConfig(step="reserves", below=0.3),
            MeasureConfig(step="cascade", below=0.2),
            MeasureConfig(step="sampling", below=0.1),
        ),
        max_length=len(Step),
        description="What to leave out as the money runs low, in this order; the safety lane is exempt.",
    )

    @field_validator("per_day_usd")
    @classmethod
    def _holds_an_hour(cls, value: float | None, info: ValidationInfo) -> float | None:
        return _at_least_an_hour(value, info)

    @field_validator("apps")
    @classmethod
    def _limited(cls, value: Mapping[str, AppBudgetConfig], info: ValidationInfo) -> Mapping[str, AppBudgetConfig]:
        found: list[tuple[Loc, str]] = []
        for name, own in value.items():
            if own.per_hour_usd is None and own.per_day_usd is None:
                found.append(((name,), "must limit the hour or the day"))
            for key, of_all in ((key, info.data.get(key)) for key in ("per_hour_usd", "per_day_usd")):
                wanted = getattr(own, key)
                if wanted is not None and of_all is not None and wanted > of_all:
                    found.append(((name, key), f"must be at most budgets.{key} ({of_all:g}), which all share"))
            day, hour = info.data.get("per_day_usd"), own.per_hour_usd
            if own.per_day_usd is None and day is not None and hour is not None and hour > day:
                found.append(
                    ((name, "per_hour_usd"), f"must be at most budgets.per_day_usd ({day:g}), which all share")
                )
        if found:
            raise InconsistentError(found)
        _refuse_long_notes(value, info)
        return value

    @field_validator("degrade")
    @classmethod
    def _in_order(cls, value: tuple[MeasureConfig, ...]) -> tuple[MeasureConfig, ...]:
        found: list[tuple[Loc, str]] = []
        for place, measure in enumerate(value):
            if measure.step in {earlier.step for earlier in value[:place]}:
                found.append(((place, "step"), "is there twice"))
            if place and measure.below > value[place - 1].below:
                found.append(
                    ((place, "below"), f"must be at most that of the step before ({value[place - 1].below:g})")
                )
        if found:
            raise InconsistentError(found)
        return value

    @property
    def budgets(self) -> Budgets | None:
        """What limits spending; None when nothing does."""
        everyone = Budget(per_hour_usd=self.per_hour_usd, per_day_usd=self.per_day_usd)
        if everyone == Budget() and not self.apps:
            return None
        apps = {name: own.budget for name, own in self.apps.items()}
        return Budgets(everyone=everyone, apps=apps, safety_share=self.safety_share)

    @property
    def measures(self) -> tuple[Measure, ...]:
        return tuple(Measure(step=Step(measure.step), below=measure.below) for measure in self.degrade)

    @property
    def thins(self) -> bool:
        """Whether records may be left out when the money runs low."""
        return self.budgets is not None and any(measure.step is Step.SAMPLING for measure in self.measures)

    def unpriced(self, judges: Iterable[tuple[Loc, bool]]) -> Iterator[tuple[Loc, str]]:
        """What is wrong when there is a budget and a judge has no price: nobody could tell what its calls cost.

        Of each judge that asks a model: where it is in the configuration, and whether its price is known.
        """
        for loc, priced in judges if self.budgets is not None else ():
            if not priced:
                yield (
                    (*loc, "price"),
                    "is required, because there is a budget, and no price of this model at this endpoint is known; "
                    "a model of your own costs {prompt: 0, completion: 0}",
                )


def _at_least_an_hour(per_day_usd: float | None, info: ValidationInfo) -> float | None:
    per_hour_usd = info.data.get("per_hour_usd")
    if per_day_usd is not None and per_hour_usd is not None and per_hour_usd > per_day_usd:
        raise ValueError(
            f"must be at least per_hour_usd ({per_hour_usd:g}), which could never be spent otherwise; raise it, or "
            "lower per_hour_usd or leave it out"
        )
    return per_day_usd


def _refuse_long_notes(apps: Mapping[str, AppBudgetConfig], info: ValidationInfo) -> None:
    """Kafka keeps only so much with an offset; a single partition has the largest amounts."""
    everyone = Budget(per_hour_usd=info.data.get("per_hour_usd"), per_day_usd=info.data.get("per_day_usd"))
    budgets = Budgets(everyone=everyone, apps={name: own.budget for name, own in apps.items()}, safety_share=0.0)
    size = longest(shares(budgets, 0, 1))
    if size > MAX_BYTES:
        raise ValueError(
            f"are too many: what they spend is kept with the offsets, and would take {size} of {MAX_BYTES} bytes; "
            "give fewer apps a budget of their own"
        )
