"""A judge that returns scripted verdicts, for tests of criteria, panels and pipelines without a model."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from judges.criteria.criterion import Criterion
from judges.criteria.scale import Choice
from judges.judge import Judge, unscored_verdict
from judges.values.evaluation import JudgeVerdict, Reason, Samples, Status
from judges.values.interaction import Case

Answer = str | float | None | Reason | Exception | JudgeVerdict
"""A label, a level or a number in the range. None: the criterion does not apply. A reason or an exception: the judge
fails with it. A whole verdict: returned unchanged, valid or not."""

Script = Mapping[str, Answer] | Callable[[Case, Criterion], Answer | Awaitable[Answer]]
"""Answers by the name of the criterion, or a function that returns them, synchronous or not."""


class Asked(NamedTuple):
    """A question to the judge."""

    case: str
    criterion: str
    reverse: bool


class ScriptedJudge(Judge):
    """Answers from a script, and records the questions.

    >>> [verdict] = ScriptedJudge({"polite": "Yes"}).evaluate(["Thank you!"], Criterion.of("Is it polite?").model_copy(
    ...     update={"name": "polite"}))
    >>> verdict.option, verdict.score
    ('Yes', 1.0)
    """

    def __init__(
        self, verdicts: Script, name: str = "scripted", delay_seconds: float = 0, *, family: str | None = None
    ) -> None:
        self._script = verdicts
        self._name = name
        self._delay_seconds = delay_seconds
        self.family = family
        self.asked: list[Asked] = []
        self.closed = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def identity(self) -> str:
        if callable(self._script):
            return f"scripted by {getattr(self._script, '__qualname__', type(self._script).__name__)}"
        return f"scripted {dict(self._script)!r}"

    def why_not(self, criterion: Criterion) -> str | None:
        if callable(self._script) or criterion.name in self._script:
            return None
        return f"the script has no answer on {criterion.name!r}, only on {', '.join(self._script) or 'nothing'}"

    async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        self.asked.append(Asked(case.id, criterion.name, reverse))
        if self._delay_seconds:
            await asyncio.sleep(self._delay_seconds)
        answer = await self._answer(case, criterion)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, JudgeVerdict):
            return answer
        if isinstance(answer, Reason):
            return self._fail(answer, "as the script says")
        if answer is None:
            return JudgeVerdict(judge=self._name, status=Status.NOT_APPLICABLE, samples=Samples(requested=1, valid=1))
        return self._score(answer, case, criterion)

    async def aclose(self) -> None:
        self.closed = True

    async def _answer(self, case: Case, criterion: Criterion) -> Answer:
        if not callable(self._script):
            return self._script[criterion.name]
        answer = self._script(case, criterion)
        return await answer if isinstance(answer, Awaitable) else answer

    def _score(self, answer: str | float, case: Case, criterion: Criterion) -> JudgeVerdict:
        """Turn the answer into a verdict, as a judge with a model would; an answer off the scale is invalid."""
        choice = _choice(answer, case, criterion)
        value = choice.value if choice else _number(answer, criterion)
        if choice is None and value is None:
            return self._fail(Reason.INVALID_OUTPUT, f"{answer!r} is not on the scale of {criterion.name!r}")
        return JudgeVerdict(
            judge=self._name,
            status=Status.SCORED,
            score=None if value is None else criterion.normalise(value),
            level=criterion.level(choice),
            option=choice.label.en if choice else None,
            label=choice.label.of(case.language) if choice else None,
            value=value,
            explanation="as the script says",
            samples=Samples(requested=1, valid=1),
        )

    def _fail(self, reason: Reason, detail: str) -> JudgeVerdict:
        invalid = reason is Reason.INVALID_OUTPUT
        samples = Samples(requested=1, invalid=int(invalid), error=int(not invalid))
        return unscored_verdict(self._name, reason, detail, samples=samples)


def _choice(answer: str | float, case: Case, criterion: Criterion) -> Choice | None:
    if isinstance(answer, str):
        return criterion.scale.find(answer, case.language)
    return next((choice for choice in criterion.scale.choices if choice.value == answer), None)


def _number(answer: str | float, criterion: Criterion) -> float | None:
    """Return the answer as a number in the range, or None."""
    if isinstance(answer, str) or criterion.scale.kind != "range" or criterion.scale.bounds is None:
        return None
    low, high = criterion.scale.bounds
    return float(answer) if low <= answer <= high else None
