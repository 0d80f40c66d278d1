"""Scales: the answers a criterion allows. One scale serves the prompt, the validation and the normalisation."""

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
"""What a judge may say, in any case, where a criterion does not apply."""

# Small Cyrillic letters whose capitals, at least, are drawn like these Latin ones.
_DRAWN_ALIKE = str.maketrans("авсеніјкморѕтух", "abcehijkmopstyx")

NOT_BLANK = r"\S"
Words = Annotated[str, Field(pattern=NOT_BLANK)]
# Not what pydantic takes for a number otherwise: texts, and truth values.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Spec(BaseModel):
    """A part of a criterion as it is written in a file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy that works out anew what follows from its fields; pydantic would carry over what was worked out."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied


class LocalizedText(Spec):
    """One wording in every language the package speaks; written as a plain string, it serves in all of them."""

    en: Words
    ru: Words

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any) -> Any:
        return {"en": data, "ru": data} if isinstance(data, str) else data

    def of(self, language: Language) -> str:
        return self.ru if language == "ru" else self.en


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One answer of a discrete scale. The value is on the scale's own terms, None where options carry no scores."""

    label: LocalizedText
    value: float | None
    description: LocalizedText | None = None

    def is_called(self, text: str, language: Language) -> bool:
        return _folded(self.label.of(language)) == _folded(text)

    def looks_called(self, text: str) -> bool:
        """Whether a label, in any language, is drawn like this text: with letters of Latin and Cyrillic mixed up."""
        return any(_drawn(self.label.of(language)) == _drawn(text) for language in LANGUAGES)


class _Scale(Spec):
    """What the four kinds have in common."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The answers in their declared order; none for a range."""
        return ()

    @cached_property
    def bounds(self) -> tuple[float, float] | None:
        """The smallest and the largest value; None where options carry no scores."""
        values = [choice.value for choice in self.choices if choice.value is not None]
        return (min(values), max(values)) if values else None

    def find(self, label: str, language: Language) -> Choice | None:
        """The answer of that name, whole and in any case; where languages clash, the one given decides.

        A name that no answer has may still be drawn like one, if it is drawn like no other.
        """
        for spoken in sorted(LANGUAGES, key=lambda each: each != language):
            for choice in self.choices:
                if choice.is_called(label, spoken):
                    return choice
        alike = [choice for choice in self.choices if choice.looks_called(label)]
        return alike[0] if len(alike) == 1 else None


def _same_labels(key: str, labels: Sequence[LocalizedText]) -> Iterator[tuple[Loc, str]]:
    """Labels are told apart in each language on its own, and without regard to case."""
    for index, label in enumerate(labels):
        before = [(language, each.of(language)) for each in labels[:index] for language in LANGUAGES]
        same = [text for language, text in before if _folded(text) == _folded(label.of(language))]
        if same:
            yield (key, index, "label"), f"must be distinct; {same[0]!r} is listed twice"


@lru_cache(maxsize=4096)
def _folded(label: str) -> str:
    """The label as a reader takes it: composed, with single spaces of one kind, in small letters, and «е» for «ё»."""
    return " ".join(unicodedata.normalize("NFC", label).split()).casefold().replace("ё", "е")


@lru_cache(maxsize=4096)
def _drawn(label: str) -> str:
    """A single letter stays itself: «В» may be meant as the third of its alphabet, and not as a "B"."""
    folded = _folded(label)
    return folded.translate(_DRAWN_ALIKE) if len(folded) > 1 else folded


def means_not_applicable(label: str) -> bool:
    return _folded(label) in NOT_APPLICABLE_WORDS


def _refuse(found: Sequence[tuple[Loc, str]]) -> None:
    if found:
        raise InconsistentError(found)


class Level(Spec):
    value: Annotated[StrictInt, Field(ge=-1_000_000, le=1_000_000)]
    label: LocalizedText
    description: LocalizedText


class Levels(_Scale):
    """Ordered levels, each with a label and a description."""

    kind: Literal["levels"] = "levels"
    levels: Annotated[tuple[Level, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        found = list(_same_labels("levels", [level.label for level in self.levels]))
        if list(self.values) != sorted(set(self.values)):
            found.insert(0, (("levels",), f"must have distinct values in rising order, not {list(self.values)}"))
        _refuse(found)
        return self

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        return tuple(Choice(label=each.label, value=each.value, description=each.description) for each in self.levels)

    @cached_property
    def values(self) -> tuple[int, ...]:
        return tuple(level.value for level in self.levels)

    def label(self, value: int, language: Language) -> str:
        return next(level.label.of(language) for level in self.levels if level.value == value)


class PassFail(Spec):
    passes: LocalizedText
    """When it passes."""

    fails: LocalizedText
    """When it fails."""


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
    """What the smallest number means."""

    high: LocalizedText | None = None
    """What the largest number means."""

    @model_validator(mode="after")
    def _wide(self) -> Self:
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
    def _sensible(self) -> Self:
        found = list(_same_labels("options", [option.label for option in self.options]))
        found += [(("options",), message) for message in self._wrong_scores()]
        _refuse(found)
        return self

    def _wrong_scores(self) -> Iterator[str]:
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
        return tuple(Choice(label=each.label, value=each.score, description=each.description) for each in self.options)


SCALES = ("levels", "binary", "range", "options")


def _kind(data: Any) -> str | None:
    """The scale that the keys speak of, if it is one; `kind` need not be written."""
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
