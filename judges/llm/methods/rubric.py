"""Judges for the Prometheus family of models, which grade by a rubric and end with `[RESULT]` and their verdict."""

import re
from collections.abc import Mapping, Sequence

from judges.criteria.criterion import Criterion
from judges.criteria.scale import Choice
from judges.llm.completion import Invalid, Parsed, Valid, is_refusal, publishable_text, quote, strip_reasoning
from judges.llm.model_judge import ModelJudge, OnBias, Task
from judges.llm.pairwise.pairwise import PairwiseJudge
from judges.llm.prompts.layout import prompt_hash
from judges.llm.prompts.pairwise import verdicts_on
from judges.llm.prompts.rubric import absolute_messages, relative_messages, repair_messages
from judges.llm.vote import Combine, ScoreFrom, VoteRule
from judges.models.base import ChatMessage, ChatModel, Completion
from judges.values.interaction import Case

_READING_VERSION = 1
"""Incremented when the same completion may be read differently than before."""

_SCORES = 5
_TAG = re.compile(r"\[result\]", re.IGNORECASE)
# The prompt shows the verdict in brackets, and the models often set it in bold; nothing else is allowed.
_VERDICT = re.compile(r"[\s:*_(]*([^\W_]+)[\s.,;!*_)`]*")
_HEADING = re.compile(r"\s*(?:###\s*)?feedback\s*:", re.IGNORECASE)
_QUOTES = ('"', "'", "“", "”", "«", "»", "‘", "’")
_WRAPPINGS = (('"', '"'), ("'", "'"), ("“", "”"), ("«", "»"))


class RubricJudge(ModelJudge):
    """Asks for a score from 1 to 5 by a rubric: the criterion has five levels, and score 5 is the best of them."""

    def __init__(
        self,
        model: ChatModel,
        *,
        name: str | None = None,
        repairs: int = 2,
        samples: int = 1,
        combine: Combine | None = None,
        min_valid: int | None = None,
        score_from: ScoreFrom = "winner",
        stop_early: bool = True,
        family: str | None = None,
    ) -> None:
        rule = VoteRule(
            samples=samples, combine=combine, min_valid=min_valid, score_from=score_from, stop_early=stop_early
        )
        super().__init__(model, name=name, repairs=repairs, rule=rule, family=family)
        self._prompt = prompt_hash(_absolute_probe)

    @property
    def method(self) -> str:
        return f"rubric prompt={self._prompt} reading={_READING_VERSION}"

    def why_not(self, criterion: Criterion) -> str | None:
        scale = criterion.scale
        if scale.kind != "levels":
            return f"a rubric needs five levels, but {criterion.name!r} has {scale.kind}"
        if len(scale.levels) != _SCORES:
            return f"a rubric needs exactly five levels, but {criterion.name!r} has {len(scale.levels)}"
        return super().why_not(criterion)

    async def task(self, case: Case, criterion: Criterion, *, reverse: bool) -> Task:
        """Ignores `reverse`: the models were trained on rising scores only."""
        scores = {str(score): level for score, level in enumerate(criterion.worst_first, 1)}

        def read(completion: Completion) -> Parsed:
            return read_result(completion.text, scores, "an integer from 1 to 5")

        def repair(output: str | None, reason: str) -> list[ChatMessage]:
            return repair_messages(output, reason, "absolute", case.language)

        return Task(messages=absolute_messages(case, criterion), read=read, repair=repair)


class RelativeRubricJudge(PairwiseJudge):
    """Asks which of two responses is better by a rubric, for any scale; no ties, and more than two go in pairs."""

    def __init__(
        self,
        model: ChatModel,
        *,
        name: str | None = None,
        check_position: bool = False,
        on_bias: OnBias = "keep",
        repairs: int = 2,
        family: str | None = None,
    ) -> None:
        super().__init__(
            model,
            name=name,
            mode="all_pairs",
            ties=False,
            check_position=check_position,
            on_bias=on_bias,
            repairs=repairs,
            family=family,
        )

    @property
    def method(self) -> str:
        return f"relative_rubric prompt={prompt_hash(_relative_probe)} reading={_READING_VERSION}"

    def task(self, case: Case, texts: Sequence[str], criterion: Criterion) -> Task:
        letters = {choice.label.en: choice for choice in verdicts_on(len(texts), ties=False).choices}

        def read(completion: Completion) -> Parsed:
            return read_result(completion.text, letters, "A or B")

        def repair(output: str | None, reason: str) -> list[ChatMessage]:
            return repair_messages(output, reason, "relative", case.language)

        return Task(messages=relative_messages(case, texts, criterion), read=read, repair=repair)


def read_result(text: str | None, verdicts: Mapping[str, Choice], expected: str) -> Parsed:
    """Read the verdict after the last `[RESULT]`, which must end the completion; the text before it is the feedback."""
    if text is None or not text.strip():
        return Invalid(reason="the output is empty")
    body = _unwrap(strip_reasoning(text).strip())
    names, start = _results(body)
    if not names:
        return Invalid(reason=_reason_for_none(body, expected))
    if len(set(names)) > 1:
        return Invalid(reason="the output ends with different results")
    if names[0] not in verdicts:
        return Invalid(reason=f"[RESULT] must be followed by {expected}, not by {quote(names[0])}")
    if body[:start].endswith(_QUOTES):
        return Invalid(reason="the [RESULT] is a quotation")
    heading = _HEADING.match(body)
    feedback = body[heading.end() if heading else 0 : start]
    return Valid(choice=verdicts[names[0]], value=verdicts[names[0]].value, explanation=publishable_text(feedback))


def _results(body: str) -> tuple[list[str], int]:
    """Return the verdicts at the end of the text, from the last backwards, and where the first of them begins.

    Results further up are quotations, or ideas that the model dropped: they belong to the feedback.
    """
    names: list[str] = []
    start = len(body)
    for tag in reversed(list(_TAG.finditer(body))):
        verdict = _VERDICT.fullmatch(body, tag.end(), start)
        if verdict is None:
            break
        names.append(verdict[1].upper())
        start = tag.start()
    return names, start


def _reason_for_none(body: str, expected: str) -> str:
    _, *after = _TAG.split(body)
    if after:
        return f"[RESULT] must be followed by {expected} and nothing else, not by {quote(after[-1].strip())}"
    return "the output is a refusal" if is_refusal(body) else "the output has no [RESULT]"


def _unwrap(body: str) -> str:
    """Remove quotation marks around the whole text: the prompt shows the form in such marks."""
    for opening, closing in _WRAPPINGS:
        if len(body) > 1 and body.startswith(opening) and body.endswith(closing):
            return body[1:-1]
    return body


def _absolute_probe(case: Case, criterion: Criterion) -> list[ChatMessage]:
    return absolute_messages(case, criterion) + repair_messages(None, "reason", "absolute", case.language)


def _relative_probe(case: Case, criterion: Criterion) -> list[ChatMessage]:
    return relative_messages(case, "ab", criterion) + repair_messages(None, "reason", "relative", case.language)
