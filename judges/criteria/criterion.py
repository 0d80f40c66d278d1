"""A criterion: a question about a text, its scale, and the fields of a case that are shown for it."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from judges.criteria.problems import InconsistentError, Loc
from judges.criteria.scale import (
    PASS_FAIL,
    YES_NO,
    Choice,
    LocalizedText,
    Number,
    Range,
    Scale,
    Spec,
    means_not_applicable,
)
from judges.values.interaction import Case, FieldValue

RAG_DIMENSIONS = ("answer_relevance", "clarity", "completeness", "conciseness", "groundedness", "harmfulness")
SAFETY_DIMENSION = "harmfulness"

CRITERION_NAME = r"^[a-z][a-z0-9_]{0,63}$"
_MAX_NAME_CHARS = 64
_MAX_NAME_WORDS_CHARS = 40
# A question of which a name keeps everything that matters.
_PLAIN = re.compile(r"[A-Za-z0-9 ,]+[?.!]?")
_LETTERS = dict(zip("абвгдеёзийклмнопрстуфхыэ", "abvgdeeziyklmnoprstufhye", strict=True))
_LATIN = str.maketrans(
    _LETTERS | {"ж": "zh", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ю": "yu", "я": "ya", "ъ": "", "ь": ""}
)
FieldName = Annotated[str, Field(min_length=1, max_length=128)]


class WorkedExample(Spec):
    """A case with the verdict that it deserves, shown to the judge before its task."""

    fields: Mapping[FieldName, FieldValue]
    verdict: Number | str
    explanation: LocalizedText | None = None


class Criterion(Spec):
    """One question put to a judge about one field of a case."""

    name: Annotated[str, Field(pattern=CRITERION_NAME)]
    title: LocalizedText
    question: LocalizedText
    """What the judge decides, in one sentence."""

    ignore: LocalizedText | None = None
    """What belongs to other criteria and must not move this verdict."""

    scale: Scale
    to_evaluate: FieldName = "answer"
    context: tuple[FieldName, ...] | None = None
    """Fields shown beside the one under evaluation; None means all others, an empty list none."""

    higher_is: Literal["better", "worse"] = "better"
    not_applicable: LocalizedText | None = None
    """When the judge may say that the criterion does not apply; None means it always applies."""

    needs: tuple[FieldName, ...] = ()
    """Fields without which, or with which empty, the criterion does not apply: decided before any judge is asked."""

    needs_whole: tuple[FieldName, ...] = ()
    """Fields of which everything counts: where one was cut to fit a limit, a verdict below the best is none, because
    what was cut might have justified a better one."""

    risk: LocalizedText | None = None
    """The failure as a statement that is true or not, for judges that look for risks."""

    safety: bool = False
    """Whether it is about safety: in a composite that names no other criterion for that, it overrides the rest."""

    examples: tuple[WorkedExample, ...] = ()

    @classmethod
    def of(cls, question: "Criterion | str") -> "Criterion":
        """A plain question becomes a criterion that is answered by yes, which is good, or no."""
        return question if isinstance(question, Criterion) else cls.asking(question, YES_NO)

    @classmethod
    def pass_fail(cls, check: "Criterion | str") -> "Criterion":
        """A check in plain words becomes a criterion that is passed or failed."""
        return check if isinstance(check, Criterion) else cls.asking(check, PASS_FAIL)

    @classmethod
    def asking(cls, question: str, scale: Scale) -> "Criterion":
        """A criterion of one question in plain words, about the answer, beside all other fields."""
        if not question.strip():
            raise ValueError("a criterion needs a question, not an empty text")
        text = LocalizedText.model_validate(question.strip())
        return cls(name=_name_of(question), title=text, question=text, scale=scale)

    def called(self, name: str) -> "Criterion":
        """The same criterion under another name, which is written as names are."""
        words = "_".join(re.findall(r"[a-z0-9]+", _in_latin_letters(name)))[:_MAX_NAME_CHARS].strip("_")
        if not words[:1].isalpha():
            raise ValueError(f"name must start with a letter, not {name!r}")
        return self.model_copy(update={"name": words})

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        found = [*self._fields_at_odds(), *self._labels_at_odds(), *self._direction_at_odds()]
        found += self._examples_at_odds()
        if found:
            raise InconsistentError(found)
        return self

    def _fields_at_odds(self) -> Iterator[tuple[Loc, str]]:
        for key, names in (("context", self.context or ()), ("needs", self.needs), ("needs_whole", self.needs_whole)):
            if len(set(names)) != len(names):
                yield (key,), "must name each field once"
        if self.to_evaluate in (self.context or ()):
            yield ("context",), f"must not repeat {self.to_evaluate!r}, the field under evaluation"

    def _labels_at_odds(self) -> Iterator[tuple[Loc, str]]:
        for index, choice in enumerate(self.scale.choices if self.not_applicable else ()):
            label = next((each for each in (choice.label.en, choice.label.ru) if means_not_applicable(each)), None)
            if label is not None:
                place = ("scale", self.scale.kind, index, "label")
                yield place, f"must not be {label!r}, which `not_applicable` reserves"

    def _direction_at_odds(self) -> Iterator[tuple[Loc, str]]:
        if self.safety and not self.worst_first:
            yield (
                ("safety",),
                "must be left out: a safety criterion needs levels, pass/fail, or options with scores",
            )
        if self.higher_is == "worse" and self.scale.kind == "binary":
            yield ("higher_is",), "must be 'better': a pass is better than a fail; for a yes that is bad, use options"
        elif self.higher_is == "worse" and self.scale.bounds is None:
            yield ("higher_is",), "must be left out: options without scores have no direction"

    def _examples_at_odds(self) -> Iterator[tuple[Loc, str]]:
        for index, example in enumerate(self.examples):
            if self.to_evaluate not in example.fields:
                yield ("examples", index, "fields"), f"must have {self.to_evaluate!r}, the field under evaluation"
            wrong = self._wrong_verdict(example.verdict)
            if wrong:
                yield ("examples", index, "verdict"), wrong

    def _wrong_verdict(self, verdict: float | str) -> str | None:
        if not isinstance(self.scale, Range):
            labels = ", ".join(repr(choice.label.en) for choice in self.scale.choices)
            known = isinstance(verdict, str) and self.scale.find(verdict, "en") is not None
            return None if known else f"must be one of the labels {labels}, not {verdict!r}"
        low, high = self.scale.bounds
        known = not isinstance(verdict, str) and low <= verdict <= high
        return None if known else f"must be a number from {low:g} to {high:g}, not {verdict!r}"

    @cached_property
    def worst_first(self) -> tuple[Choice, ...]:
        """The choices from worst to best; empty for a range and for options without scores."""
        scored = [choice for choice in self.scale.choices if choice.value is not None]
        return tuple(sorted(scored, key=lambda choice: (choice.value or 0.0) * self._sign))

    @property
    def _sign(self) -> int:
        return 1 if self.higher_is == "better" else -1

    def normalise(self, value: float) -> float:
        """A value of the scale on 0 (worst) to 1 (best), whichever way the scale runs."""
        if self.scale.choices and self.scale.bounds and not any(choice.value == value for choice in self.scale.choices):
            values = tuple(choice.value for choice in self.scale.choices)
            raise ValueError(f"{self.name}: {value} is not a level ({values})")
        return self.place(value)

    def place(self, value: float) -> float:
        """Where a value between the scale's bounds, such as a mean of levels, stands on 0 (worst) to 1 (best)."""
        if self.scale.bounds is None:
            raise ValueError(f"{self.name}: options without scores have no values")
        low, high = self.scale.bounds
        if not low <= value <= high:
            raise ValueError(f"{self.name}: {value} is not between {low:g} and {high:g}")
        share = (value - low) / (high - low)
        return share if self.higher_is == "better" else 1.0 - share

    def score(self, choice: Choice) -> float | None:
        """The choice on 0 to 1; None for an option without a score."""
        return None if choice.value is None else self.normalise(choice.value)

    def level(self, choice: Choice | None) -> int | None:
        """The number of a level, or of pass and fail; options and ranges have none."""
        if choice is None or choice.value is None or self.scale.kind not in ("levels", "binary"):
            return None
        return int(choice.value)

    def choice(self, level: int | None, option: str | None) -> Choice | None:
        """The choice that a finding names by its level or else by its option; None on a range, and off the scale.

        An option is an English label. A label in another language will do where it is no other choice's English one.
        """
        if level is not None and self.scale.kind in ("levels", "binary"):
            return self._by_level.get(level)
        return None if option is None else self.scale.find(option, "en")

    @cached_property
    def _by_level(self) -> Mapping[float | None, Choice]:
        return {choice.value: choice for choice in self.scale.choices}

    @cached_property
    def _required(self) -> tuple[str, ...]:
        return (self.to_evaluate, *(name for name in self.context or () if name != "history"))

    def missing(self, case: Case) -> tuple[str, ...]:
        """The fields that this criterion shows and the case does not have.

        A case without a history is one at the start of a conversation, and lacks nothing.
        """
        return tuple([name for name in self._required if name not in case.fields])

    def unmet(self, case: Case) -> tuple[str, ...]:
        """The fields without which the criterion does not apply and which are not there, or empty."""
        return tuple([name for name in self.needs if not case.text(name).strip()])


def _name_of(question: str) -> str:
    """A name to read: the words of the question; with a digest where these do not tell it from every other question.

    No shipped criterion begins like it.
    """
    latin = _in_latin_letters(question)
    words = "_".join(re.findall(r"[a-z0-9]+", latin))
    short = words[:_MAX_NAME_WORDS_CHARS].strip("_")
    if words and short == words and _PLAIN.fullmatch(question.strip()):
        return f"q_{short}"
    digest = hashlib.sha256(question.encode("utf-8", "replace")).hexdigest()[:8]
    return f"q_{short}_{digest}" if short else f"q_{digest}"


def _in_latin_letters(text: str) -> str:
    return text.lower().translate(_LATIN)
