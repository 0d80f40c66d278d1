"""The prompt for one verdict on one field: the case, then the task, then the form of the reply."""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from judges.criteria.criterion import Criterion, WorkedExample
from judges.criteria.scale import NOT_APPLICABLE, Choice
from judges.llm.prompts.layout import (
    blocks,
    boundary,
    field_title,
    reason_for_model,
    retry_messages,
    template,
    visible_fields,
)
from judges.models.base import ChatMessage
from judges.runtime.recent import ResultsByOwner
from judges.values.interaction import Case, Language


def direct_messages(
    case: Case,
    criterion: Criterion,
    *,
    judge: str = "direct",
    reverse: bool = False,
    feedback: bool = False,
    persona: str | None = None,
) -> list[ChatMessage]:
    """Return the messages that ask for a verdict on one field of a case by one criterion."""
    language, code = case.language, boundary(case.fields)
    user = template(judge, language, "user").substitute(
        _recent_words(criterion, _Wording(language, judge, reverse, feedback, persona)),
        code=code,
        data=blocks(case, visible_fields(case, criterion), code),
    )
    system = template(judge, language, "system").template
    return [ChatMessage(role="system", content=system), ChatMessage(role="user", content=user)]


class _Wording(NamedTuple):
    language: Language
    judge: str
    reverse: bool
    feedback: bool
    persona: str | None


def _words(criterion: Criterion, wording: _Wording) -> Mapping[str, str]:
    """Return the parts of the prompt that are the same for every case."""
    language, judge, reverse, feedback, persona = wording
    part = "reply_with_feedback" if feedback else "reply"
    return {
        "task": "\n".join(_task(criterion, language, judge, persona)),
        "verdicts": "\n".join(verdict_lines(criterion, language, reverse=reverse)),
        "reply": template(judge, language, part).substitute(verdict=verdict_form(criterion, language, judge)),
    }


_recent_words: ResultsByOwner[Criterion, Mapping[str, str]] = ResultsByOwner(_words)


def verdict_form(criterion: Criterion, language: Language, judge: str = "direct") -> str:
    """Return the form of a verdict in a reply."""
    if criterion.ranked:
        return template("direct", language, "items").template
    return template(judge, language, "number" if criterion.scale.kind == "range" else "verdict").template


def repair_messages(
    output: str | None,
    reason: str,
    criterion: Criterion,
    language: Language,
    *,
    judge: str = "direct",
    feedback: bool = False,
) -> list[ChatMessage]:
    """Return the messages that follow the task after an invalid output."""
    labels = [f'"{label}"' for label in valid_labels(criterion, language)]
    if criterion.scale.kind == "range":
        labels.insert(0, _number(criterion, language))
    part = "repair_with_feedback" if feedback else "repair"
    repair = template(judge, language, part).substitute(
        reason=reason_for_model(reason, language), labels=", ".join(labels)
    )
    return retry_messages(output, repair, language)


def valid_labels(criterion: Criterion, language: Language) -> tuple[str, ...]:
    """Return the labels that are valid verdicts, in the order of the scale."""
    labels = tuple(choice.label.of(language) for choice in criterion.scale.choices)
    return labels if criterion.not_applicable is None else (*labels, NOT_APPLICABLE)


def _task(criterion: Criterion, language: Language, judge: str, persona: str | None) -> Iterator[str]:
    if persona:
        yield template(judge, language, "persona").substitute(persona=persona)
    title, question = criterion.title.of(language), criterion.question.of(language)
    yield template(judge, language, "task").substitute(
        target=field_title(criterion.to_evaluate, language),
        question=question if title == question else f"{title}: {question}",
    )
    if criterion.ignore is not None:
        yield criterion.ignore.of(language)
    for example in criterion.examples:
        yield template(judge, language, "example").substitute(example=example_line(example, criterion, language))


def verdict_lines(criterion: Criterion, language: Language, *, reverse: bool) -> Iterator[str]:
    if criterion.ranked:
        yield from _item_lines(criterion, language)
    elif criterion.scale.kind == "range":
        yield f"- {_number(criterion, language)}"
    choices = criterion.scale.choices
    for choice in reversed(choices) if reverse else choices:
        yield f"- {describe_choice(choice, language)}"
    if criterion.not_applicable is not None:
        yield f"- {NOT_APPLICABLE}: {criterion.not_applicable.of(language)}"


def describe_choice(choice: Choice, language: Language) -> str:
    """Return a choice with its description."""
    label = choice.label.of(language)
    return label if choice.description is None else f"{label}: {choice.description.of(language)}"


def _item_lines(criterion: Criterion, language: Language) -> Iterator[str]:
    assert criterion.scale.kind == "range"
    bounds = criterion.scale.range
    for word, meaning in (("true", bounds.high), ("false", bounds.low)):
        yield f"- {word}" if meaning is None else f"- {word}: {meaning.of(language)}"


def _number(criterion: Criterion, language: Language) -> str:
    if criterion.scale.kind != "range":
        return ""
    if criterion.ranked:
        return template("direct", language, "each").template
    bounds = criterion.scale.range
    words = template("direct", language, "range").substitute(low=f"{bounds.min:g}", high=f"{bounds.max:g}")
    ends = [
        f"{number:g}: {meaning.of(language)}"
        for number, meaning in ((bounds.min, bounds.low), (bounds.max, bounds.high))
        if meaning is not None
    ]
    return f"{words} ({'; '.join(ends)})" if ends else words


def example_line(example: WorkedExample, criterion: Criterion, language: Language) -> str:
    verdict = example.verdict
    choice = criterion.scale.find(verdict, language) if isinstance(verdict, str) else None
    reply = {
        "explanation": example.explanation.of(language) if example.explanation else "…",
        "verdict": choice.label.of(language) if choice else verdict,
    }
    fields = {field_title(name, language): value for name, value in example.fields.items()}
    return f"{json.dumps(fields, ensure_ascii=False)} -> {json.dumps(reply, ensure_ascii=False)}"
