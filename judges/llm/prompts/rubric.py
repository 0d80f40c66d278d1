"""The prompts of the Prometheus family: headings, their order and the form of the output are those of its training.

The headings and the form stay English in every language; the sentences between them follow the case.
"""

from collections.abc import Sequence
from typing import Literal

from judges.criteria.criterion import Criterion
from judges.llm.prompts.direct import described
from judges.llm.prompts.layout import again, boundary, fence, fenced, field_title, template, told
from judges.llm.prompts.pairwise import context_fields, letters, question_lines
from judges.models.base import ChatMessage
from judges.values.interaction import Case, Language

Grading = Literal["absolute", "relative"]
_REFERENCE = "reference"


def absolute_messages(case: Case, criterion: Criterion) -> list[ChatMessage]:
    """The task of scoring one response by five descriptions, of which the fifth is the best."""
    language, code = case.language, boundary(case.fields)
    question = criterion.question.of(language)
    ignore = "" if criterion.ignore is None else f" {criterion.ignore.of(language)}"
    scores = [f"Score {score}: {described(level, language)}" for score, level in enumerate(criterion.worst_first, 1)]
    sections = [
        ("###The instruction to evaluate:", _instruction(case, criterion, code)),
        ("###Response to evaluate:", fenced(case, [criterion.to_evaluate], code)),
        ("###Reference Answer (Score 5):", _reference(case, criterion, code)),
        ("###Score Rubrics:", "\n".join([f"[{question}{ignore}]", *scores])),
    ]
    return _message("absolute", sections, code, language)


def relative_messages(case: Case, texts: Sequence[str], criterion: Criterion) -> list[ChatMessage]:
    """The task of naming the better of two responses; the case holds both in the field under evaluation."""
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
    """What follows the task after an output that could not be used."""
    return again(
        output, template("rubric", language, f"repair_{grading}").substitute(reason=told(reason, language)), language
    )


def _message(
    grading: Grading, sections: Sequence[tuple[str, str | None]], code: str, language: Language
) -> list[ChatMessage]:
    given = [(heading, text) for heading, text in sections if text is not None]
    part = f"{grading}_with_reference" if len(given) == len(sections) else grading
    description = template("rubric", language, part).substitute(code=code)
    parts = [("###Task Description:", description), *given]
    text = "\n\n".join(f"{heading}\n{text}" for heading, text in parts)
    return [ChatMessage(role="user", content=f"{text}\n\n###Feedback: ")]


def _instruction(case: Case, criterion: Criterion, code: str) -> str:
    """The question with what is shown beside it."""
    names = [name for name in context_fields(case, criterion) if name != _REFERENCE]
    return fenced(case, names, code) or template("rubric", case.language, "nothing").template


def _reference(case: Case, criterion: Criterion, code: str) -> str | None:
    """The reference, where there is one and the criterion shows it."""
    shown = _REFERENCE in context_fields(case, criterion) and case.text(_REFERENCE).strip()
    return fenced(case, [_REFERENCE], code) if shown else None
