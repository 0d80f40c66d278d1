"""The prompts of the Prometheus family, with the headings, order and output form of its training data.

The headings and the form are always English; the sentences between them are in the language of the case.
"""

from collections.abc import Sequence
from typing import Literal

from judges.criteria.criterion import Criterion
from judges.llm.prompts.direct import describe_choice
from judges.llm.prompts.layout import (
    boundary,
    fence,
    fence_fields,
    field_title,
    reason_for_model,
    retry_messages,
    template,
)
from judges.llm.prompts.pairwise import context_fields, letters, question_lines
from judges.models.base import ChatMessage
from judges.values.interaction import Case, Language

Grading = Literal["absolute", "relative"]
_REFERENCE = "reference"


def absolute_messages(case: Case, criterion: Criterion) -> list[ChatMessage]:
    """Return the messages that ask for a score of one response by five descriptions, the fifth being the best."""
    language, code = case.language, boundary(case.fields)
    question = criterion.question.of(language)
    ignore = "" if criterion.ignore is None else f" {criterion.ignore.of(language)}"
    scores = [
        f"Score {score}: {describe_choice(level, language)}" for score, level in enumerate(criterion.worst_first, 1)
    ]
    sections = [
        ("###The instruction to evaluate:", _instruction(case, criterion, code)),
        ("###Response to evaluate:", fence_fields(case, [criterion.to_evaluate], code)),
        ("###Reference Answer (Score 5):", _reference(case, criterion, code)),
        ("###Score Rubrics:", "\n".join([f"[{question}{ignore}]", *scores])),
    ]
    return _message("absolute", sections, code, language)


def relative_messages(case: Case, texts: Sequence[str], criterion: Criterion) -> list[ChatMessage]:
    """Return the messages that ask for the better of two responses, which the field under evaluation holds."""
    language, code = case.language, boundary(case.fields)
    title = field_title(criterion.to_evaluate, language)
    question, *more = question_lines(criterion, language)
    responses = [
        (f"###Response {letter}:", fence(f"{title} {letter}", text, code, language))
        for letter, text in zip(letters(len(texts)), texts, strict=True)
    ]
    sections = [
        ("###Instruction:", _instruction(case, criterion, code)),
        *responses,
        ("###Reference Answer:", _reference(case, criterion, code)),
        ("###Score Rubric:", "\n".join([f"[{question}]", *more])),
    ]
    return _message("relative", sections, code, language)


def repair_messages(output: str | None, reason: str, grading: Grading, language: Language) -> list[ChatMessage]:
    """Return the messages that follow the task after an invalid output."""
    return retry_messages(
        output,
        template("rubric", language, f"repair_{grading}").substitute(reason=reason_for_model(reason, language)),
        language,
    )


def _message(
    grading: Grading, sections: Sequence[tuple[str, str | None]], code: str, language: Language
) -> list[ChatMessage]:
    present = [(heading, text) for heading, text in sections if text is not None]
    part = f"{grading}_with_reference" if len(present) == len(sections) else grading
    description = template("rubric", language, part).substitute(code=code)
    parts = [("###Task Description:", description), *present]
    text = "\n\n".join(f"{heading}\n{text}" for heading, text in parts)
    return [ChatMessage(role="user", content=f"{text}\n\n###Feedback: ")]


def _instruction(case: Case, criterion: Criterion, code: str) -> str:
    """Return the question and the other context fields."""
    names = [name for name in context_fields(case, criterion) if name != _REFERENCE]
    return fence_fields(case, names, code) or template("rubric", case.language, "nothing").template


def _reference(case: Case, criterion: Criterion, code: str) -> str | None:
    """Return the reference, if there is one and the criterion shows it."""
    is_shown = _REFERENCE in context_fields(case, criterion) and case.text(_REFERENCE).strip()
    return fence_fields(case, [_REFERENCE], code) if is_shown else None
