"""The input of a comparison: a case, and the answers to compare by name."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

from judges.criteria.criterion import Criterion
from judges.runtime.batch import as_case
from judges.values.interaction import Case, Interaction, Language, case_of

Answers = Mapping[str, str] | Sequence[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Answers to compare, by name or numbered from 1, and what they answer."""

    answers: Answers
    _: KW_ONLY
    fields: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    id: str | None = None
    language: Language | None = None
    """None: detected from the texts."""


ComparisonLike = Comparison | Mapping[str, object] | Interaction
"""A mapping has its answers under `answers`, next to its fields. For an interaction, its candidates are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """An instance in the form that is judged: the field under evaluation of its case holds all answers, sorted."""

    case: Case
    answers: Mapping[str, str]

    def display_order(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the order in which a contest shows its answers; it depends on the texts, not on the caller's order."""
        seed = json.dumps([dict(self.case.fields), sorted(self.answers[name] for name in names)], sort_keys=True)

        def lot(name: str) -> tuple[str, str]:
            return hashlib.sha256(json.dumps([seed, self.answers[name]]).encode()).hexdigest(), name

        return tuple(sorted(names, key=lot))

    def twins(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the answers whose text another one has too, by name, with the name of the one that is shown for them.

        Which one is shown depends on the texts and names, not on the caller's order.
        """
        first: dict[str, str] = {}
        ordered_names = sorted(names, key=lambda name: (self.answers[name], name))
        owner = {name: first.setdefault(self.answers[name].strip(), name) for name in ordered_names}
        return {name: twin for name, twin in owner.items() if name != twin}


def record_id(instance: object, number: int) -> str:
    """Return the instance's own id, or its number if it has none."""
    own = instance.id if isinstance(instance, Comparison | Interaction) else None
    return f"#{number}" if own is None else str(own)


def match_of(instance: object, criterion: Criterion, number: int) -> Match:
    if isinstance(instance, Interaction):
        answers = _answers_by_name([(candidate.name, candidate.answer) for candidate in instance.candidates])
        case = case_of(instance)
        return Match(
            case=replace(case, fields={**case.fields, **_field_with_answers(answers, criterion)}), answers=answers
        )
    comparison = instance if isinstance(instance, Comparison) else _comparison(instance)
    if not isinstance(comparison.fields, Mapping):
        raise TypeError(f"fields must be a mapping, not {type(comparison.fields).__name__}")
    answers = _answers_by_name(_pairs(comparison.answers))
    case = as_case({**comparison.fields, **_field_with_answers(answers, criterion)}, criterion.to_evaluate, number)
    case = replace(case, id=record_id(comparison, number), language=comparison.language or case.language)
    return Match(case=case, answers=answers)


def _comparison(instance: object) -> Comparison:
    if not isinstance(instance, Mapping):
        kind = type(instance).__name__
        raise TypeError(f"an instance is a Comparison, a mapping with `answers` or an interaction, not {kind}")
    if "answers" not in instance:
        raise ValueError("there are no `answers` to compare")
    fields = {name: value for name, value in instance.items() if name != "answers"}
    return Comparison(instance["answers"], fields=fields)


def _pairs(answers: object) -> list[tuple[object, object]]:
    if isinstance(answers, Mapping):
        return list(answers.items())
    if isinstance(answers, Sequence) and not isinstance(answers, str | bytes):
        return [(str(number), text) for number, text in enumerate(answers, 1)]
    raise TypeError(f"answers must be a list of texts or texts by name, not {type(answers).__name__}")


def _answers_by_name(pairs: Sequence[tuple[object, object]]) -> dict[str, str]:
    answers: dict[str, str] = {}
    for name, text in pairs:
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(f"answers must be texts by name, but {name!r} is {type(text).__name__}")
        if name in answers:
            raise ValueError(f"answers need distinct names, but {name!r} occurs twice")
        answers[name] = text
    if len(answers) < 2:
        raise ValueError(f"a comparison needs two or more answers, not {len(answers)}")
    return answers


def _field_with_answers(answers: Mapping[str, str], criterion: Criterion) -> dict[str, tuple[str, ...]]:
    return {criterion.to_evaluate: tuple(sorted(answers.values()))}
