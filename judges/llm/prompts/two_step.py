"""The prompts of the second of two steps: the choice of a verdict after an assessment in free text."""

from judges.criteria.criterion import Criterion
from judges.llm.prompts.direct import verdict_form
from judges.llm.prompts.layout import inert, reason_for_model, retry_messages, template
from judges.models.base import ChatMessage
from judges.values.interaction import Language

JUDGE = "two_step"


def choice_messages(
    assessment: str, criterion: Criterion, language: Language, *, feedback: bool = False
) -> list[ChatMessage]:
    """Return the messages that follow the first step: the assessment as a reply, and the request to choose."""
    part = "choose_with_feedback" if feedback else "choose"
    request = template(JUDGE, language, part).substitute(verdict=verdict_form(criterion, language, JUDGE))
    return [ChatMessage(role="assistant", content=inert(assessment)), ChatMessage(role="user", content=request)]


def assessment_repair(output: str | None, reason: str, language: Language) -> list[ChatMessage]:
    """Return the messages that follow the first step after an invalid assessment."""
    request = template(JUDGE, language, "repair_assessment").substitute(reason=reason_for_model(reason, language))
    return retry_messages(output, request, language)
