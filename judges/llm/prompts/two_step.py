"""The prompts of the second of two steps: the choice of a verdict after an assessment in free words."""

from judges.criteria.criterion import Criterion
from judges.llm.prompts.layout import again, inert, template, told
from judges.models.base import ChatMessage
from judges.values.interaction import Language

JUDGE = "two_step"


def choice_messages(
    assessment: str, criterion: Criterion, language: Language, *, feedback: bool = False
) -> list[ChatMessage]:
    """What follows the first step: the assessment as the model's own words, and the request to choose."""
    part = "choose_with_feedback" if feedback else "choose"
    verdict = template(JUDGE, language, "number" if criterion.scale.kind == "range" else "verdict").template
    request = template(JUDGE, language, part).substitute(verdict=verdict)
    return [ChatMessage(role="assistant", content=inert(assessment)), ChatMessage(role="user", content=request)]


def assessment_repair(output: str | None, reason: str, language: Language) -> list[ChatMessage]:
    """What follows the first step after an assessment that could not be used."""
    request = template(JUDGE, language, "repair_assessment").substitute(reason=told(reason, language))
    return again(output, request, language)
