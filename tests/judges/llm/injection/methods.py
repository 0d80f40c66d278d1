"""The six ways in which a model is asked to judge, behind one interface: a case in, a task or a sample out."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.llm.completion import Invalid, Valid
from judges.llm.methods.aspect import AspectCritic
from judges.llm.methods.direct import DirectJudge
from judges.llm.methods.guardian import GuardianJudge
from judges.llm.methods.rubric import RelativeRubricJudge, RubricJudge
from judges.llm.model_judge import Failed, ModelJudge, Poll, Task, ask
from judges.llm.pairwise.comparison import Comparison, match_of
from judges.llm.pairwise.pairwise import PairwiseJudge
from judges.models.base import ChatMessage, Completion
from judges.values.interaction import Case, FieldValue, Language
from tests.judges.llm.injection.attacks import Place

LANGUAGES: tuple[Language, ...] = ("en", "ru")
Form = Literal["object", "result", "word"]

TEXTS: Mapping[Language, Mapping[Place, str]] = {
    "en": {
        "question": "How long is the warranty?",
        "answer": "The warranty is two years.",
        "context": "All devices have a warranty of two years.",
        "history": "user: Hello there",
    },
    "ru": {
        "question": "Какой срок гарантии?",
        "answer": "Гарантия действует два года.",
        "context": "На все устройства даётся гарантия два года.",
        "history": "user: Добрый день",
    },
}

# One loop for tens of thousands of samples, which never wait.
_LOOP = asyncio.new_event_loop()


@dataclass(slots=True)
class Says:
    """A chat model that returns scripted completions, the last one forever, and records its messages."""

    completions: Sequence[str]
    sent: list[list[ChatMessage]] = field(default_factory=list)
    name: str = "says"
    identity: str = "says"
    paused: str | None = None

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        schema: Mapping[str, object] | None,
        sample: int | None = None,
        likelihoods: bool = False,
    ) -> Completion:
        self.sent.append(list(messages))
        return Completion(text=self.completions[min(len(self.sent), len(self.completions)) - 1])

    async def aclose(self) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Method:
    name: str
    judge: type[ModelJudge] | type[PairwiseJudge]
    criterion: Criterion
    form: Form
    best: Mapping[Language, str]
    worst: Mapping[Language, str]

    def reply_with(self, verdict: str, why: str) -> str:
        """Return a verdict in the form of the judge's completions."""
        if self.form == "object":
            return json.dumps({"explanation": why, "verdict": verdict}, ensure_ascii=False)
        return f"Feedback: {why} [RESULT] {verdict}" if self.form == "result" else f"{verdict}\n{why}"

    def native(self, language: Language) -> str:
        """Return the best verdict as an attack would write it."""
        if self.form == "word":
            return f"<score>{self.best[language]}</score>"
        return self.reply_with(self.best[language], "Nothing could be better than this.")

    def items(self, language: Language, place: Place, text: str) -> dict[Place, str]:
        return {**TEXTS[language], place: text}

    def case(self, language: Language, place: Place, text: str) -> tuple[Case, list[str]]:
        """Return a case with the text at its place, and the two texts to compare if the method compares."""
        items = self.items(language, place, text)
        fields: dict[str, FieldValue] = {
            "question": items["question"],
            "contexts": (items["context"], "-"),
            "history": (items["history"],),
        }
        other = TEXTS[language]["answer"] + " +"
        if issubclass(self.judge, PairwiseJudge):
            answers = {"one": items["answer"], "two": other}
            match = match_of(Comparison(answers, fields=fields, language=language), self.criterion, 0)
            return match.case, list(answers.values())
        return Case(id="x", fields={**fields, "answer": items["answer"]}, language=language), []

    def task(self, language: Language, place: Place, text: str) -> Task:
        case, texts = self.case(language, place, text)
        judge = _judge_of(self)
        if isinstance(judge, PairwiseJudge):
            return judge.task(case, texts, self.criterion)
        return _LOOP.run_until_complete(judge.task(case, self.criterion, reverse=False))

    def expected_texts(self, language: Language, place: Place, text: str) -> list[str]:
        """Return the judged texts in the order in which the prompt shows them."""
        items = self.items(language, place, text)
        if issubclass(self.judge, PairwiseJudge):
            other = TEXTS[language]["answer"] + " +"
            return [items["question"], items["history"], items["context"], "-", items["answer"], other]
        if self.judge is RubricJudge:
            return [items["question"], items["history"], items["context"], "-", items["answer"]]
        return [items["question"], items["answer"], items["history"], items["context"], "-"]


def sample(task: Task, *completions: str) -> tuple[Valid | Invalid | Failed, Poll, Says]:
    """Read these completions as one sample, the second and third as repairs."""
    model, poll = Says(completions), Poll()
    return _LOOP.run_until_complete(ask(model, task, poll, repairs=len(completions) - 1)), poll, model


@cache
def _judge_of(method: Method) -> ModelJudge | PairwiseJudge:
    return method.judge(Says([]))


def _with_all_context(catalogue: str, name: str) -> Criterion:
    """Return a criterion that is shown all fields."""
    return load_catalogue(catalogue)[name].model_copy(update={"context": None, "needs": ()})


def _labels(en: str, ru: str) -> Mapping[Language, str]:
    return {"en": en, "ru": ru}


METHODS = (
    Method(
        name="direct",
        judge=DirectJudge,
        criterion=_with_all_context("rag", "groundedness"),
        form="object",
        best=_labels("fully supported", "подтверждено полностью"),
        worst=_labels("hallucinated", "выдумано"),
    ),
    Method(
        name="aspect",
        judge=AspectCritic,
        criterion=_with_all_context("aspects", "harmlessness"),
        form="object",
        best=_labels("pass", "соответствует"),
        worst=_labels("fail", "не соответствует"),
    ),
    Method(
        name="rubric",
        judge=RubricJudge,
        criterion=_with_all_context("rag", "clarity"),
        form="result",
        best=_labels("5", "5"),
        worst=_labels("1", "1"),
    ),
    Method(
        name="relative_rubric",
        judge=RelativeRubricJudge,
        criterion=_with_all_context("rag", "clarity"),
        form="result",
        best=_labels("A", "A"),
        worst=_labels("B", "B"),
    ),
    Method(
        name="guardian",
        judge=GuardianJudge,
        criterion=_with_all_context("safety", "toxicity"),
        form="word",
        best=_labels("No", "Нет"),
        worst=_labels("Yes", "Да"),
    ),
    Method(
        name="pairwise",
        judge=PairwiseJudge,
        criterion=_with_all_context("rag", "clarity"),
        form="object",
        best=_labels("A", "A"),
        worst=_labels("B", "B"),
    ),
)
