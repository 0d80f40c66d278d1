"""The section `detection`: which series are watched for drops, and how often an alert may be false."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, ValidationInfo, field_validator

from judges.criteria.problems import Loc, unknown
from sinks.base import COMPOSITE
from sinks.metrics.detection import GOOD_SHARE
from stream.config.section import CriterionName, Label, Section, checked_by_loader, refuse_repeats
from stream.config.sections.observability import AppName

# A target is above the margin, and below the best there is.
Mean = Annotated[FiniteFloat, Field(gt=0.0, le=0.9999)]
Alpha = Annotated[FiniteFloat, Field(ge=1e-9, le=0.5)]
Targets = Mapping[CriterionName, Mean]


class VersionsConfig(Section):
    """Two models that answer the same traffic: is one of them worse."""

    name: Label = Field(description="What the comparison is called in alerts.")
    app: AppName | None = Field(default=None, description="The app whose answers are compared; null: each by itself.")
    a: str = Field(min_length=1, max_length=256, description="The model that may be worse.")
    b: str = Field(min_length=1, max_length=256, description="The model that it is compared with.")
    margin: FiniteFloat = Field(
        default=0.02, ge=0, le=0.9, description="By how much the mean composite of `a` has to be lower for an alert."
    )

    @field_validator("b")
    @classmethod
    def _another(cls, value: str, info: ValidationInfo) -> str:
        if value == info.data.get("a"):
            raise ValueError("must be another model than a")
        return value


class CanariesConfig(Section):
    """Records that are judged again and again, to see whether the judges have changed."""

    file: str = Field(
        min_length=1, max_length=4096, description="The records, as JSON Lines; looked for beside this file."
    )
    every_minutes: FiniteFloat = Field(
        default=60.0, ge=0.05, le=43_200, description="Minutes in which each canary is judged once."
    )
    stability: FiniteFloat = Field(
        default=0.985,
        ge=0.5,
        le=0.9999,
        description="Share of the verdicts that judges which have not changed give again.",
    )

    _has_canaries = field_validator("file")(checked_by_loader("detection.canaries.file"))


class DetectionConfig(Section):
    """Drops of quality, found with a bound on false alarms that holds however often one looks."""

    enabled: bool = Field(default=True, description="Whether the monitor watches for drops.")
    alpha: Alpha = Field(
        default=0.01, description="At most so many false alarms are expected of each series in a period."
    )
    period_days: FiniteFloat = Field(default=30.0, ge=0.01, le=3650, description="The period, in days.")
    margin: FiniteFloat = Field(
        default=0.05, gt=0, le=0.5, description="An alarm ends when the mean is surely above its target less this."
    )
    targets: Targets = Field(
        default={},
        description="Means of dimensions, or of `composite`, below which there is an alarm; others are learnt.",
        examples=[{"composite": 0.85, "groundedness": 0.9}],
    )
    apps: Mapping[AppName, Targets] = Field(
        default={},
        description="Apps with targets of their own.",
        examples=[{"checkout-bot": {"groundedness": 0.95}}],
    )
    reference_scores: int = Field(
        default=1000, ge=20, le=1_000_000, description="Scores that a target is learnt from, at least."
    )
    tolerance: FiniteFloat = Field(
        default=0.02, ge=0, le=0.9, description="So far below what was learnt nothing is an alarm yet."
    )
    by: tuple[Literal["model", "tenant"], ...] = Field(
        default=(), max_length=2, description="Watch the composite of each model, or tenant, of an app too."
    )
    top: int = Field(
        default=10, ge=1, le=100, description="Models, or tenants, of an app that are watched; those that come first."
    )
    versions: tuple[VersionsConfig, ...] = Field(
        default=(),
        max_length=20,
        description="Models that are compared with each other in the same traffic.",
        examples=[[{"name": "new-model", "app": "support-bot", "a": "model-2", "b": "model-1"}]],
    )
    canaries: CanariesConfig | None = Field(
        default=None, description="Records that show whether the judges have changed; null: none."
    )

    @field_validator("by")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        refuse_repeats("must name each once", value)
        return value

    @field_validator("versions")
    @classmethod
    def _different_names(cls, value: tuple[VersionsConfig, ...]) -> tuple[VersionsConfig, ...]:
        refuse_repeats("comparisons must have different names", (each.name for each in value))
        return value

    @field_validator("targets")
    @classmethod
    def _above_the_margin(cls, value: Targets, info: ValidationInfo) -> Targets:
        _refuse_low(value.values(), info.data.get("margin"))
        return value

    @field_validator("apps")
    @classmethod
    def _all_above_the_margin(cls, value: Mapping[str, Targets], info: ValidationInfo) -> Mapping[str, Targets]:
        _refuse_low((target for targets in value.values() for target in targets.values()), info.data.get("margin"))
        return value

    def target(self, app: str, dimension: str) -> float | None:
        """What a mean is to be at least; None where it is learnt."""
        return self.apps.get(app, {}).get(dimension, self.targets.get(dimension))

    def strangers(self, criteria: Iterable[str]) -> Iterator[tuple[Loc, str]]:
        """Targets of what is not judged."""
        known = [*criteria, COMPOSITE]
        named: list[tuple[Loc, Any]] = [(("targets", name), name) for name in self.targets]
        named += [(("apps", app, name), name) for app, targets in self.apps.items() for name in targets]
        for place, name in named:
            if name == GOOD_SHARE:
                yield place, "the target of the share of good answers is that of `objectives`"
            elif name not in known:
                yield place, unknown("criterion", name, known)


def _refuse_low(targets: Iterable[float], margin: float | None) -> None:
    lowest = min(targets, default=1.0)
    if margin is not None and lowest <= margin:
        raise ValueError(f"targets must be above detection.margin ({margin:g}); {lowest:g} is not")
