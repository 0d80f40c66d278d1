"""The prompt for the verdicts of several criteria in one reply: the case, then every criterion, then the form."""

from collections.abc import Iterator, Sequence

from judges.criteria.criterion import Criterion
from judges.llm.prompts.direct import example_line, verdict_form, verdict_lines
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
from judges.values.interaction import Case, Language

JUDGE = "together"


def together_messages(
    case: Case,
    criteria: Sequence[Criterion],
    *,
    reverse: bool = False,
    feedback: bool = False,
    persona: str | None = None,
) -> list[ChatMessage]:
    """Return the messages that ask for verdicts on one field of a case by several criteria, in this order.

    The prompt begins like that of the criterion that shows the most fields, so that an endpoint with a prefix cache has
    this prefix if a criterion is asked about alone afterwards.
    """
    language, code = case.language, boundary(case.fields)
    user = template(JUDGE, language, "user").substitute(
        code=code,
        data=blocks(case, _fields_of_all(case, criteria), code),
        task="\n".join(_task(criteria[0].to_evaluate, persona, language)),
        criteria="\n\n".join("\n".join(_criterion(case, criterion, reverse=reverse)) for criterion in criteria),
        reply=_reply(criteria, language, feedback=feedback),
    )
    system = template("direct", language, "system").template
    return [ChatMessage(role="system", content=system), ChatMessage(role="user", content=user)]


def together_repair(
    output: str | None, reason: str, criteria: Sequence[Criterion], language: Language, *, feedback: bool = False
) -> list[ChatMessage]:
    """Return the messages that follow the task after an output without any usable part."""
    part = "repair_with_feedback" if feedback else "repair"
    names = ", ".join(f'"{criterion.name}"' for criterion in criteria)
    repair = template(JUDGE, language, part).substitute(reason=reason_for_model(reason, language), names=names)
    return retry_messages(output, repair, language)


def _fields_of_all(case: Case, criteria: Sequence[Criterion]) -> tuple[str, ...]:
    """Return the fields that any of the criteria shows, in the usual order."""
    every = set[str]().union(*(criterion.fields_shown(case) for criterion in criteria)) - {criteria[0].to_evaluate}
    return visible_fields(case, criteria[0].model_copy(update={"context": tuple(every)}))


def _task(field: str, persona: str | None, language: Language) -> Iterator[str]:
    if persona:
        yield template(JUDGE, language, "persona").substitute(persona=persona)
    yield template(JUDGE, language, "task").substitute(target=field_title(field, language))


def _criterion(case: Case, criterion: Criterion, *, reverse: bool) -> Iterator[str]:
    language = case.language
    title, question = criterion.title.of(language), criterion.question.of(language)
    yield template(JUDGE, language, "criterion").substitute(
        name=criterion.name,
        fields=", ".join(field_title(name, language) for name in visible_fields(case, criterion)),
        question=question if title == question else f"{title}: {question}",
    )
    if criterion.ignore is not None:
        yield criterion.ignore.of(language)
    for example in criterion.examples:
        yield template(JUDGE, language, "example").substitute(example=example_line(example, criterion, language))
    yield template(JUDGE, language, "verdicts").substitute(name=criterion.name)
    yield from verdict_lines(criterion, language, reverse=reverse)


def _reply(criteria: Sequence[Criterion], language: Language, *, feedback: bool) -> str:
    part = template(JUDGE, language, "part_with_feedback" if feedback else "part")
    parts = [
        f'"{criterion.name}": {part.substitute(verdict=verdict_form(criterion, language))}' for criterion in criteria
    ]
    return template(JUDGE, language, "reply").substitute(parts=",\n".join(parts))
