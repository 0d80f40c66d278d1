"""The judge in two steps: an assessment in free text first, then the choice of an option based on it."""

from dataclasses import replace

from judges.criteria.criterion import Criterion
from judges.llm.completion import Invalid, Valid, publishable_text, strip_reasoning
from judges.llm.methods.direct import DirectJudge
from judges.llm.model_judge import WITHHELD, Task
from judges.llm.prompts.two_step import JUDGE, assessment_repair, choice_messages
from judges.models.base import ChatMessage, Completion
from judges.values.interaction import Case

_READING_VERSION = 1
"""Incremented when the same assessment may be read differently than before."""


class TwoStepJudge(DirectJudge):
    """Lets the model reason in its own words before it sees the form of a verdict: two calls for each sample.

    Scales, samples, votes and the check of the order of options are as with `DirectJudge`. Both steps of a sample share
    the `repairs`. An assessment alone is never a verdict.
    """

    template = JUDGE

    @property
    def method(self) -> str:
        return f"{super().method} reading={_READING_VERSION}"

    async def task(self, case: Case, criterion: Criterion, *, reverse: bool) -> Task:
        choice = await super().task(case, criterion, reverse=reverse)

        def choose(assessment: Valid) -> Task:
            request = choice_messages(assessment.explanation, criterion, case.language, feedback=self._feedback)
            return replace(choice, messages=[*choice.messages, *request])

        def repair(output: str | None, reason: str) -> list[ChatMessage]:
            return assessment_repair(output, reason, case.language)

        return Task(messages=choice.messages, read=read_assessment, repair=repair, then=choose)

    def _probe(self, case: Case, criterion: Criterion) -> list[ChatMessage]:
        choice = choice_messages("assessment", criterion, case.language, feedback=self._feedback)
        return [*super()._probe(case, criterion), *choice, *assessment_repair(None, "reason", case.language)]


def read_assessment(completion: Completion) -> Valid | Invalid:
    """Read an assessment: any text without its reasoning, which the second step interprets."""
    text = publishable_text(strip_reasoning(completion.text or ""))
    if completion.finish_reason in WITHHELD:
        return Invalid(reason="the assessment was withheld")
    return Valid(explanation=text) if text else Invalid(reason="the assessment is empty")
