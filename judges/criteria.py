"""Criteria: what is asked of an answer, on which scale, and the catalogue that ships with the package."""

import functools
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Annotated, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from judges.interaction import Language

RAG_DIMENSIONS = ("answer_relevance", "clarity", "completeness", "conciseness", "groundedness", "harmfulness")
SAFETY_DIMENSION = "harmfulness"


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Text(_Spec):
    """One wording in every language the package speaks."""

    en: str
    ru: str

    def of(self, language: Language) -> str:
        return self.ru if language == "ru" else self.en


class Level(_Spec):
    value: int
    label: Text
    description: Text


class Levels(_Spec):
    """Ordered levels, each with a label and a description; the same values serve prompt, validation and score."""

    kind: Literal["levels"] = "levels"
    levels: Annotated[tuple[Level, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        values = [level.value for level in self.levels]
        if values != sorted(set(values)):
            raise ValueError(f"levels must have distinct values in rising order, not {values}")
        for language in ("en", "ru"):
            labels = [level.label.of(language).casefold() for level in self.levels]
            if len(set(labels)) != len(labels):
                raise ValueError(f"levels must have distinct labels, not {labels}")
        return self

    @property
    def values(self) -> tuple[int, ...]:
        return tuple(level.value for level in self.levels)

    def label(self, value: int, language: Language) -> str:
        return next(level.label.of(language) for level in self.levels if level.value == value)


class Criterion(_Spec):
    """One question put to a judge about one field of a case."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    title: Text
    question: Text
    """What the judge decides, in one sentence."""

    ignore: Text
    """What belongs to other criteria and must not move this verdict."""

    scale: Levels
    to_evaluate: str = "answer"
    context: tuple[str, ...] | None = None
    """Fields shown beside the one under evaluation; None means all others, an empty list none."""

    higher_is: Literal["better", "worse"] = "better"
    not_applicable: Text | None = None
    """When the judge may say that the criterion does not apply; None means it always applies."""

    needs: tuple[str, ...] = ()
    """Fields without which the criterion does not apply, decided before any judge is asked."""

    def normalise(self, value: int) -> float:
        """The level on 0 (worst) to 1 (best), whichever way the scale runs."""
        low, high = self.scale.values[0], self.scale.values[-1]
        if value not in self.scale.values:
            raise ValueError(f"{self.name}: {value} is not a level ({self.scale.values})")
        share = (value - low) / (high - low)
        return share if self.higher_is == "better" else 1.0 - share


@functools.cache
def load_catalogue(name: str = "rag") -> Mapping[str, Criterion]:
    """The criteria of one shipped catalogue, by name, in their published order. Read once in a process."""
    text = resources.files("judges").joinpath(f"catalogue/{name}.yaml").read_text(encoding="utf-8")
    criteria = [Criterion.model_validate(item) for item in yaml.safe_load(text)["criteria"]]
    return MappingProxyType({criterion.name: criterion for criterion in criteria})
