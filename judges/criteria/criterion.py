"""A criterion: a question about a text, its scale, and the fields of a case that are shown for it."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

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
from judges.values.interaction import CONTEXT_IDS, Case, FieldValue

RAG_DIMENSIONS = ("answer_relevance", "clarity", "completeness", "conciseness", "groundedness", "harmfulness")
SAFETY_DIMENSION = "harmfulness"

# Fields that a case may lack: there is no history at the start of a conversation, and not all contexts have ids.
_OPTIONAL_FIELDS = frozenset({"history", CONTEXT_IDS})

CRITERION_NAME = r"^[a-z][a-z0-9_]{0,63}$"
_MAX_NAME_CHARS = 64
_MAX_NAME_WORDS_CHARS = 40
# Questions whose words are enough to tell them apart.
_PLAIN = re.compile(r"[A-Za-z0-9 ,]+[?.!]?")
_LETTERS = dict(zip("абвгдеёзийклмнопрстуфхыэ", "abvgdeeziyklmnoprstufhye", strict=True))
_LATIN = str.maketrans(
    _LETTERS | {"ж": "zh", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ю": "yu", "я": "ya", "ъ": "", "ь": ""}
)
FieldName = Annotated[str, Field(min_length=1, max_length=128)]


class WorkedExample(Spec):
    """A case with its correct verdict, shown to the judge before its task."""

    fields: Mapping[FieldName, FieldValue]
    verdict: Number | str
    explanation: LocalizedText | None = None


class Criterion(Spec):
    """One question to a judge about one field of a case."""

    name: Annotated[str, Field(pattern=CRITERION_NAME)]
    title: LocalizedText
    question: LocalizedText
    """The question that the judge decides, in one sentence."""

    ignore: LocalizedText | None = None
    """Aspects that belong to other criteria and must not influence this verdict."""

    scale: Scale
    to_evaluate: FieldName = "answer"
    context: tuple[FieldName, ...] | None = None
    """Fields shown next to the one under evaluation; None means all others, an empty list none."""

    higher_is: Literal["better", "worse"] = "better"
    not_applicable: LocalizedText | None = None
    """Condition under which the judge may say that the criterion does not apply; None: it always applies."""

    needs: tuple[FieldName, ...] = ()
    """Fields that must be present and not empty for the criterion to apply; checked before any judge is asked."""

    needs_whole: tuple[FieldName, ...] = ()
    """Fields that must be complete: if one was truncated, only the best verdict counts, because the missing part might
    have justified a better one."""

    risk: LocalizedText | None = None
    """The failure as a statement that is true or false, for judges that look for risks."""

    safety: bool = False
    """Whether it is about safety: it overrides the rest of a composite that names no other safety criterion."""

    ranked: bool = False
    """Whether each item of the field under evaluation gets its own verdict, useful or not, all in one call.

    The score is the mean precision at the ranks of the useful items, on a range from 0 to 1.
    """

    examples: tuple[WorkedExample, ...] = ()

    @model_serializer(mode="wrap")
    def _omit_unranked(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit `ranked` where it is not set, so that the fingerprints of other criteria stay the same."""
        data: dict[str, Any] = serialize(self)
        if not self.ranked:
            data.pop("ranked", None)
        return data

    @classmethod
    def of(cls, question: "Criterion | str") -> "Criterion":
        """Turn a plain question into a criterion that is answered by yes, which is good, or no."""
        return question if isinstance(question, Criterion) else cls.from_question(question, YES_NO)

    @classmethod
    def pass_fail(cls, check: "Criterion | str") -> "Criterion":
        """Turn a check in plain words into a pass/fail criterion."""
        return check if isinstance(check, Criterion) else cls.from_question(check, PASS_FAIL)

    @classmethod
    def from_question(cls, question: str, scale: Scale) -> "Criterion":
        """Create a criterion from a question in plain words about the answer, which shows all other fields."""
        if not question.strip():
            raise ValueError("a criterion needs a question, not an empty text")
        text = LocalizedText.model_validate(question.strip())
        return cls(name=_name_for(question), title=text, question=text, scale=scale)

    def with_name(self, name: str) -> "Criterion":
        """Return the same criterion under another name, converted to the form of names."""
        words = "_".join(re.findall(r"[a-z0-9]+", _to_latin_letters(name)))[:_MAX_NAME_CHARS].strip("_")
        if not words[:1].isalpha():
            raise ValueError(f"name must start with a letter, not {name!r}")
        return self.model_copy(update={"name": words})

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        problems = [*self._field_problems(), *self._label_problems(), *self._direction_problems()]
        problems += [*self._ranking_problems(), *self._example_problems()]
        if problems:
            raise InconsistentError(problems)
        return self

    def _field_problems(self) -> Iterator[tuple[Loc, str]]:
        for key, names in (("context", self.context or ()), ("needs", self.needs), ("needs_whole", self.needs_whole)):
            if len(set(names)) != len(names):
                yield (key,), "must name each field once"
        if self.to_evaluate in (self.context or ()):
            yield ("context",), f"must not repeat {self.to_evaluate!r}, the field under evaluation"

    def _label_problems(self) -> Iterator[tuple[Loc, str]]:
        for index, choice in enumerate(self.scale.choices if self.not_applicable else ()):
            label = next((text for text in (choice.label.en, choice.label.ru) if means_not_applicable(text)), None)
            if label is not None:
                place = ("scale", self.scale.kind, index, "label")
                yield place, f"must not be {label!r}, which `not_applicable` reserves"

    def _direction_problems(self) -> Iterator[tuple[Loc, str]]:
        if self.safety and not self.worst_first:
            yield (
                ("safety",),
                "must be left out: a safety criterion needs levels, pass/fail, or options with scores",
            )
        if self.higher_is == "worse" and self.scale.kind == "binary":
            yield ("higher_is",), "must be 'better': a pass is better than a fail; for a yes that is bad, use options"
        elif self.higher_is == "worse" and self.scale.bounds is None:
            yield ("higher_is",), "must be left out: options without scores have no direction"

    def _ranking_problems(self) -> Iterator[tuple[Loc, str]]:
        if not self.ranked:
            return
        if self.scale.kind != "range" or self.scale.bounds != (0.0, 1.0) or self.higher_is != "better":
            yield ("ranked",), "must be left out: it needs a range from 0 to 1, where higher is better"
        if self.not_applicable is not None:
            yield ("ranked",), "must be left out: it excludes `not_applicable`, because each item has its own verdict"
        if self.examples:
            yield ("ranked",), "must be left out: it excludes `examples`, which have one verdict each"

    def _example_problems(self) -> Iterator[tuple[Loc, str]]:
        for index, example in enumerate(self.examples):
            if self.to_evaluate not in example.fields:
                yield ("examples", index, "fields"), f"must have {self.to_evaluate!r}, the field under evaluation"
            problem = self._verdict_problem(example.verdict)
            if problem:
                yield ("examples", index, "verdict"), problem

    def _verdict_problem(self, verdict: float | str) -> str | None:
        if not isinstance(self.scale, Range):
            labels = ", ".join(repr(choice.label.en) for choice in self.scale.choices)
            is_valid = isinstance(verdict, str) and self.scale.find(verdict, "en") is not None
            return None if is_valid else f"must be one of the labels {labels}, not {verdict!r}"
        low, high = self.scale.bounds
        is_valid = not isinstance(verdict, str) and low <= verdict <= high
        return None if is_valid else f"must be a number from {low:g} to {high:g}, not {verdict!r}"

    @cached_property
    def worst_first(self) -> tuple[Choice, ...]:
        """Choices from worst to best; empty for a range and for options without scores."""
        scored = [choice for choice in self.scale.choices if choice.value is not None]
        return tuple(sorted(scored, key=lambda choice: (choice.value or 0.0) * self._sign))

    @property
    def _sign(self) -> int:
        return 1 if self.higher_is == "better" else -1

    def normalise(self, value: float) -> float:
        """Convert a value of the scale to 0 (worst) to 1 (best), whichever way the scale runs."""
        if self.scale.choices and self.scale.bounds and not any(choice.value == value for choice in self.scale.choices):
            values = tuple(choice.value for choice in self.scale.choices)
            raise ValueError(f"{self.name}: {value} is not a level ({values})")
        return self.place(value)

    def place(self, value: float) -> float:
        """Convert a value between the scale's bounds, such as a mean of levels, to 0 (worst) to 1 (best)."""
        if self.scale.bounds is None:
            raise ValueError(f"{self.name}: options without scores have no values")
        low, high = self.scale.bounds
        if not low <= value <= high:
            raise ValueError(f"{self.name}: {value} is not between {low:g} and {high:g}")
        share = (value - low) / (high - low)
        return share if self.higher_is == "better" else 1.0 - share

    def score(self, choice: Choice) -> float | None:
        """Return the score of the choice, 0 to 1; None for an option without a score."""
        return None if choice.value is None else self.normalise(choice.value)

    def level(self, choice: Choice | None) -> int | None:
        """Return the number of a level, or of pass and fail; options and ranges have none."""
        if choice is None or choice.value is None or self.scale.kind not in ("levels", "binary"):
            return None
        return int(choice.value)

    def choice(self, level: int | None, option: str | None) -> Choice | None:
        """Return the choice that a finding names by its level or else its option; None on a range and off the scale.

        An option is an English label. A label in another language also works unless it is another choice's English one.
        """
        if level is not None and self.scale.kind in ("levels", "binary"):
            return self._by_level.get(level)
        return None if option is None else self.scale.find(option, "en")

    @cached_property
    def _by_level(self) -> Mapping[float | None, Choice]:
        return {choice.value: choice for choice in self.scale.choices}

    @cached_property
    def _required(self) -> tuple[str, ...]:
        return (self.to_evaluate, *(name for name in self.context or () if name not in _OPTIONAL_FIELDS))

    def missing(self, case: Case) -> tuple[str, ...]:
        """Return the fields that this criterion shows but the case does not have.

        The history and the ids of contexts are optional.
        """
        return tuple([name for name in self._required if name not in case.fields])

    def fields_shown(self, case: Case) -> set[str]:
        """Return the fields that a judge sees: those listed in `context`, or else all but the ids of the contexts."""
        return set(case.fields) - {CONTEXT_IDS} if self.context is None else {self.to_evaluate, *self.context}

    def unmet(self, case: Case) -> tuple[str, ...]:
        """Return the fields that the criterion needs to apply and that are absent or empty."""
        return tuple([name for name in self.needs if not case.text(name).strip()])


def _name_for(question: str) -> str:
    """Return a readable name from the words of the question, with a digest if they do not identify the question.

    The prefix `q_` is not used by any shipped criterion.
    """
    latin = _to_latin_letters(question)
    words = "_".join(re.findall(r"[a-z0-9]+", latin))
    short = words[:_MAX_NAME_WORDS_CHARS].strip("_")
    if words and short == words and _PLAIN.fullmatch(question.strip()):
        return f"q_{short}"
    digest = hashlib.sha256(question.encode("utf-8", "replace")).hexdigest()[:8]
    return f"q_{short}_{digest}" if short else f"q_{digest}"


def _to_latin_letters(text: str) -> str:
    return text.lower().translate(_LATIN)
