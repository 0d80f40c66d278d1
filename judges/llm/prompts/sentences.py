"""The prompt that asks for a verdict on each sentence of an answer."""

from collections.abc import Sequence

from judges.criteria.criterion import Criterion
from judges.llm.prompts.layout import (
    blocks,
    boundary,
    numbered_blocks,
    reason_for_model,
    retry_messages,
    template,
    visible_fields,
)
from judges.models.base import ChatMessage
from judges.values.interaction import Case, Language

JUDGE = "sentences"


def sentences_messages(case: Case, criterion: Criterion, sentences: Sequence[str]) -> list[ChatMessage]:
    """Return the messages; they begin like those of the direct judge, and the sentences follow the data.

    An endpoint with a prefix cache reads the data once for both.
    """
    language, code = case.language, boundary(case.fields)
    user = template(JUDGE, language, "user").substitute(
        code=code,
        data=blocks(case, visible_fields(case, criterion), code),
        sentences=numbered_blocks(template(JUDGE, language, "sentence").template, sentences, code, language),
        ignore="" if criterion.ignore is None else criterion.ignore.of(language),
        count=len(sentences),
    )
    system = template("direct", language, "system").template
    return [ChatMessage(role="system", content=system), ChatMessage(role="user", content=user)]


def sentences_repair(output: str | None, reason: str, code: str, count: int, language: Language) -> list[ChatMessage]:
    """Return the messages that follow the task after an invalid output."""
    request = template(JUDGE, language, "repair").substitute(
        reason=reason_for_model(reason, language), code=code, count=count
    )
    return retry_messages(output, request, language)
