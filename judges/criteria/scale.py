"""Scales: the answers that a criterion allows, used for the prompt, the validation and the normalisation."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StrictInt, Tag, model_validator

from judges.criteria.problems import InconsistentError, Loc
from judges.values.interaction import Language

LANGUAGES: tuple[Language, ...] = ("en", "ru")

NOT_APPLICABLE = "not_applicable"
NOT_APPLICABLE_WORDS = frozenset({NOT_APPLICABLE, "not applicable", "неприменимо"})
"""Words for a criterion that does not apply, in upper or lower case."""

# Cyrillic letters that look like these Latin ones, at least as capitals.
_DRAWN_ALIKE = str.maketrans("авсеніјкморѕтух", "abcehijkmopstyx")

NOT_BLANK = r"\S"
Words = Annotated[str, Field(pattern=NOT_BLANK)]
# Strict: pydantic would otherwise accept texts and booleans as numbers.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Spec(BaseModel):
    """A part of a criterion as written in a file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy without cached properties: pydantic would copy their old values."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied


class LocalizedText(Spec):
    """A text in every supported language; a plain string stands for all of them."""

    en: Words
    ru: Words

    @model_validator(mode="before")
    @classmethod
    def _accept_plain_text(cls, data: Any) -> Any:
        return {"en": data, "ru": data} if isinstance(data, str) else data

    def of(self, language: Language) -> str:
        return self.ru if language == "ru" else self.en


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One answer of a discrete scale. The value is in the scale's own units; None for options without scores."""

    label: LocalizedText
    value: float | None
    description: LocalizedText | None = None

    def has_label(self, text: str, language: Language) -> bool:
        return _fold(self.label.of(language)) == _fold(text)

    def has_similar_label(self, text: str) -> bool:
        """Whether a label in any language looks like this text, with Latin and Cyrillic lookalikes mixed up."""
        return any(_fold_lookalikes(self.label.of(language)) == _fold_lookalikes(text) for language in LANGUAGES)


class _Scale(Spec):
    """The common base of the four kinds."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Answers in their declared order; empty for a range."""
        return ()

    @cached_property
    def bounds(self) -> tuple[float, float] | None:
        """Smallest and largest value; None for options without scores."""
        values = [choice.value for choice in self.choices if choice.value is not None]
        return (min(values), max(values)) if values else None

    def find(self, label: str, language: Language) -> Choice | None:
        """Return the answer with this label, ignoring case; if languages clash, `language` decides.

        If no label matches, the only label that looks similar counts.
        """
        for label_language in sorted(LANGUAGES, key=lambda other: other != language):
            for choice in self.choices:
                if choice.has_label(label, label_language):
                    return choice
        similar = [choice for choice in self.choices if choice.has_similar_label(label)]
        return similar[0] if len(similar) == 1 else None


def _duplicate_labels(key: str, labels: Sequence[LocalizedText]) -> Iterator[tuple[Loc, str]]:
    """Yield the labels that occur twice in one language, ignoring case."""
    for index, label in enumerate(labels):
        before = [(language, earlier.of(language)) for earlier in labels[:index] for language in LANGUAGES]
        same = [text for language, text in before if _fold(text) == _fold(label.of(language))]
        if same:
            yield (key, index, "label"), f"must be distinct; {same[0]!r} is listed twice"


@lru_cache(maxsize=4096)
def _fold(label: str) -> str:
    """Normalize a label for comparison: composed, with single spaces, in lower case, and «е» for «ё»."""
    return " ".join(unicodedata.normalize("NFC", label).split()).casefold().replace("ё", "е")


@lru_cache(maxsize=4096)
def _fold_lookalikes(label: str) -> str:
    """Fold lookalike letters, except in a single letter: «В» may be the third letter of its alphabet, not a "B"."""
    folded = _fold(label)
    return folded.translate(_DRAWN_ALIKE) if len(folded) > 1 else folded


def means_not_applicable(label: str) -> bool:
    return _fold(label) in NOT_APPLICABLE_WORDS


def _raise_problems(problems: Sequence[tuple[Loc, str]]) -> None:
    if problems:
        raise InconsistentError(problems)


class Level(Spec):
    value: Annotated[StrictInt, Field(ge=-1_000_000, le=1_000_000)]
    label: LocalizedText
    description: LocalizedText


class Levels(_Scale):
    """Ordered levels, each with a label and a description."""

    kind: Literal["levels"] = "levels"
    levels: Annotated[tuple[Level, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        problems = list(_duplicate_labels("levels", [level.label for level in self.levels]))
        if list(self.values) != sorted(set(self.values)):
            problems.insert(0, (("levels",), f"must have distinct values in rising order, not {list(self.values)}"))
        _raise_problems(problems)
        return self

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        return tuple(
            Choice(label=level.label, value=level.value, description=level.description) for level in self.levels
        )

    @cached_property
    def values(self) -> tuple[int, ...]:
        return tuple(level.value for level in self.levels)

    def label(self, value: int, language: Language) -> str:
        return next(level.label.of(language) for level in self.levels if level.value == value)


class PassFail(Spec):
    passes: LocalizedText
    """Condition for a pass."""

    fails: LocalizedText
    """Condition for a fail."""


class Binary(_Scale):
    """Pass or fail."""

    kind: Literal["binary"] = "binary"
    binary: PassFail

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        return (
            Choice(label=LocalizedText(en="fail", ru="не соответствует"), value=0, description=self.binary.fails),
            Choice(label=LocalizedText(en="pass", ru="соответствует"), value=1, description=self.binary.passes),
        )


class Bounds(Spec):
    min: Number
    max: Number
    low: LocalizedText | None = None
    """Meaning of the smallest number."""

    high: LocalizedText | None = None
    """Meaning of the largest number."""

    @model_validator(mode="after")
    def _check_width(self) -> Self:
        if not self.min < self.max:
            raise ValueError(f"min must be below max, not {self.min:g} and {self.max:g}")
        if self.max - self.min == float("inf"):
            raise ValueError("min and max are too far apart")
        return self


class Range(_Scale):
    """A number between two bounds, both included."""

    kind: Literal["range"] = "range"
    range: Bounds

    @cached_property
    def bounds(self) -> tuple[float, float]:
        return self.range.min, self.range.max


class Option(Spec):
    label: LocalizedText
    score: Number | None = None
    description: LocalizedText | None = None


class Options(_Scale):
    """Named options: all with scores, or none."""

    kind: Literal["options"] = "options"
    options: Annotated[tuple[Option, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        problems = list(_duplicate_labels("options", [option.label for option in self.options]))
        problems += [(("options",), message) for message in self._score_problems()]
        _raise_problems(problems)
        return self

    def _score_problems(self) -> Iterator[str]:
        scores = [option.score for option in self.options if option.score is not None]
        if not scores:
            return
        if len(scores) != len(self.options):
            yield "must either all have a score, or none"
        elif min(scores) == max(scores):
            yield f"must not all have the same score ({scores[0]:g})"
        elif max(scores) - min(scores) == float("inf"):
            yield "must not have scores so far apart"

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        return tuple(
            Choice(label=option.label, value=option.score, description=option.description) for option in self.options
        )


SCALES = ("levels", "binary", "range", "options")


def _kind(data: Any) -> str | None:
    """Return the kind of scale that the keys indicate, if there is exactly one; `kind` itself is optional."""
    if isinstance(data, _Scale):
        return str(getattr(data, "kind", ""))
    keys = data.keys() if isinstance(data, dict) else ()
    kinds = [kind for kind in SCALES if kind in keys]
    return kinds[0] if len(kinds) == 1 else None


Scale = Annotated[
    Annotated[Levels, Tag("levels")]
    | Annotated[Binary, Tag("binary")]
    | Annotated[Range, Tag("range")]
    | Annotated[Options, Tag("options")],
    Discriminator(
        _kind,
        custom_error_type="scale",
        custom_error_message="must have exactly one of the keys levels, binary, range and options",
    ),
]

YES_NO = Options(
    options=(
        Option(label=LocalizedText(en="Yes", ru="Да"), score=1.0),
        Option(label=LocalizedText(en="No", ru="Нет"), score=0.0),
    )
)

PASS_FAIL = Binary(
    binary=PassFail(
        passes=LocalizedText(en="The check is met in full.", ru="Проверка пройдена полностью."),
        fails=LocalizedText(
            en="The check is not met, or only in part.", ru="Проверка не пройдена или пройдена частично."
        ),
    )
)
