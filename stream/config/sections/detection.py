"""The section `detection`: which series are watched for drops, and how often an alert may be false."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, ValidationInfo, field_validator

from judges.criteria.problems import Loc, unknown
from sinks.base import COMPOSITE
from sinks.metrics.detection import GOOD_SHARE
from stream.config.section import CriterionName, Label, Section, check_by_loader, refuse_repeats
from stream.config.sections.observability import AppName

# A target is above the margin, and below the best mean.
Mean = Annotated[FiniteFloat, Field(gt=0.0, le=0.9999)]
Alpha = Annotated[FiniteFloat, Field(ge=1e-9, le=0.5)]
Targets = Mapping[CriterionName, Mean]


class VersionsConfig(Section):
    """Comparison of two models that answer the same traffic."""

    name: Label = Field(description="Name of the comparison in alerts.")
    app: AppName | None = Field(default=None, description="App to compare the models in; null: every app, separately.")
    a: str = Field(min_length=1, max_length=256, description="The model that may be worse.")
    b: str = Field(min_length=1, max_length=256, description="The model to compare it with.")
    margin: FiniteFloat = Field(
        default=0.02, ge=0, le=0.9, description="How much lower the mean composite of `a` must be to raise an alert."
    )

    @field_validator("b")
    @classmethod
    def _refuse_same_model(cls, value: str, info: ValidationInfo) -> str:
        if value == info.data.get("a"):
            raise ValueError("must differ from a")
        return value


class CanariesConfig(Section):
    """Canaries: records judged repeatedly to detect changes in the judges."""

    file: str = Field(
        min_length=1, max_length=4096, description="File with the canary records, as JSON Lines; relative to this file."
    )
    every_minutes: FiniteFloat = Field(
        default=60.0, ge=0.05, le=43_200, description="Period in minutes in which each canary is judged once."
    )
    stability: FiniteFloat = Field(
        default=0.985,
        ge=0.5,
        le=0.9999,
        description="Share of verdicts that unchanged judges are expected to repeat.",
    )

    guard_scores: int = Field(
        default=300,
        ge=0,
        le=1_000_000,
        description=(
            "Live scores after a quality alert for which its attribution waits for the scores of labelled canaries."
        ),
    )

    _has_canaries = field_validator("file")(check_by_loader("detection.canaries.file"))


class DetectionConfig(Section):
    """Detection of quality drops, with a bound on false alarms that holds however often you check."""

    enabled: bool = Field(default=True, description="Whether the monitor detects quality drops.")
    alpha: Alpha = Field(default=0.01, description="Expected false alarms per series and period, at most.")
    period_days: FiniteFloat = Field(default=30.0, ge=0.01, le=3650, description="Length of the period, in days.")
    margin: FiniteFloat = Field(
        default=0.05,
        gt=0,
        le=0.5,
        description="Clear an alert when the mean is above its target less this with confidence.",
    )
    targets: Targets = Field(
        default={},
        description="Alert below these means of dimensions, or of `composite`; other targets are learnt.",
        examples=[{"composite": 0.85, "groundedness": 0.9}],
    )
    apps: Mapping[AppName, Targets] = Field(
        default={},
        description="Apps with their own targets.",
        examples=[{"checkout-bot": {"groundedness": 0.95}}],
    )
    reference_scores: int = Field(
        default=1000, ge=20, le=1_000_000, description="Minimum number of scores to learn a target from."
    )
    tolerance: FiniteFloat = Field(
        default=0.02, ge=0, le=0.9, description="Drop below the learnt target that is still tolerated."
    )
    by: tuple[Literal["model", "tenant"], ...] = Field(
        default=(), max_length=2, description="Also watch the composite per model or tenant of an app."
    )
    top: int = Field(
        default=10,
        ge=1,
        le=100,
        description="Maximum number of models or tenants watched per app, first come, first served.",
    )
    versions: tuple[VersionsConfig, ...] = Field(
        default=(),
        max_length=20,
        description="Pairs of models to compare on the same traffic.",
        examples=[[{"name": "new-model", "app": "support-bot", "a": "model-2", "b": "model-1"}]],
    )
    canaries: CanariesConfig | None = Field(
        default=None, description="Canary records that reveal changes in the judges; null: none."
    )

    @field_validator("by")
    @classmethod
    def _refuse_duplicates(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        refuse_repeats("must list each label once", value)
        return value

    @field_validator("versions")
    @classmethod
    def _refuse_same_names(cls, value: tuple[VersionsConfig, ...]) -> tuple[VersionsConfig, ...]:
        refuse_repeats("comparisons must have different names", (pair.name for pair in value))
        return value

    @field_validator("targets")
    @classmethod
    def _check_targets(cls, value: Targets, info: ValidationInfo) -> Targets:
        _refuse_low(value.values(), info.data.get("margin"))
        return value

    @field_validator("apps")
    @classmethod
    def _check_app_targets(cls, value: Mapping[str, Targets], info: ValidationInfo) -> Mapping[str, Targets]:
        _refuse_low((target for targets in value.values() for target in targets.values()), info.data.get("margin"))
        return value

    def target(self, app: str, dimension: str) -> float | None:
        """Return the target of a mean, or None if it is learnt."""
        return self.apps.get(app, {}).get(dimension, self.targets.get(dimension))

    def find_unknown_criteria(self, criteria: Iterable[str]) -> Iterator[tuple[Loc, str]]:
        """Find targets for criteria that are not judged."""
        valid = [*criteria, COMPOSITE]
        named: list[tuple[Loc, Any]] = [(("targets", name), name) for name in self.targets]
        named += [(("apps", app, name), name) for app, targets in self.apps.items() for name in targets]
        for place, name in named:
            if name == GOOD_SHARE:
                yield place, "must not be set here: the target for the share of good answers comes from `objectives`"
            elif name not in valid:
                yield place, unknown("criterion", name, valid)


def _refuse_low(targets: Iterable[float], margin: float | None) -> None:
    lowest = min(targets, default=1.0)
    if margin is not None and lowest <= margin:
        raise ValueError(f"targets must be above detection.margin ({margin:g}); {lowest:g} is not")
