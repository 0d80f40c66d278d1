"""The judge that compares two or more answers to one question, pair by pair or all at once.

aevaluate ── _compare ── _contest ── _ruling ── ask
a list       one instance  both orders  one order  repairs
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal

from judges.criteria.catalogue import criterion_of
from judges.criteria.criterion import Criterion
from judges.criteria.scale import Choice, Options
from judges.judge import missing_fields, unmet_needs
from judges.llm.completion import PARSER_VERSION, Invalid, Valid, VerdictError, parse_object, quote
from judges.llm.model_judge import Failed, OnBias, Poll, Task, ask, check_model, check_settings, reply_schema
from judges.llm.pairwise.comparison import Comparison, ComparisonLike, Match, match_of, record_id
from judges.llm.pairwise.contest import (
    Contest,
    PairwiseResult,
    Ruling,
    add_twins,
    conclude,
    settle,
    tie_identical_answers,
    unusable_result,
)
from judges.llm.prompts.layout import field_title, prompt_hash
from judges.llm.prompts.pairwise import TIE, letters, pairwise_messages, repair_messages, verdicts_on
from judges.llm.redacted_case import redact_case, redactor_of
from judges.models.base import ChatMessage, ChatModel, Completion
from judges.runtime.batch import check_batch
from judges.runtime.gather import gather_all
from judges.runtime.sync import wait_for
from judges.values.evaluation import Reason, Status
from judges.values.interaction import Case, Language
from judges.values.model_family import family_of

logger = logging.getLogger(__name__)

Mode = Literal["all_pairs", "all_at_once"]


class PairwiseJudge:
    """Asks a model which of several answers is best by a criterion, and asks again if it cannot read the reply.

    Answers with the same text are shown once. They tie; if ties are not allowed, a contest that they win together has
    no result.
    The order in which a contest shows its answers is pseudo-random and depends on the texts only: a model that favours
    the first position does not favour a position in the caller's list.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        name: str | None = None,
        mode: Mode = "all_pairs",
        ties: bool = True,
        check_position: bool = False,
        on_bias: OnBias = "keep",
        repairs: int = 2,
        family: str | None = None,
    ) -> None:
        if mode not in ("all_pairs", "all_at_once"):
            raise ValueError(f"mode must be all_pairs or all_at_once, not {mode!r}")
        check_model(model, f"{type(self).__name__}(model)")
        check_settings(repairs, on_bias)
        self._model = model
        self._name = name or model.name
        self._mode = mode
        self._ties = ties
        self._check_position = check_position
        self._on_bias: OnBias = on_bias
        self._repairs = repairs
        self._redactor = redactor_of(model)
        self.family = family or family_of(model.name)

    @property
    def name(self) -> str:
        return self._name

    @property
    def identity(self) -> str:
        """Everything that can change its verdicts, on one line."""
        position = f"check_position={self._on_bias}" if self._check_position else "check_position=no"
        rules = f"mode={self._mode} ties={self._ties} repairs={self._repairs} {position}"
        return f"{self.method} {rules} model=({self._model.identity})"

    @property
    def method(self) -> str:
        """The kind of judge, with the versions of its prompt and its parser."""
        return f"pairwise prompt={prompt_hash(self._probe)} parser={PARSER_VERSION}"

    def why_not(self, criterion: Criterion) -> str | None:
        """Return why this judge cannot compare by this criterion, or None."""
        return None

    async def aclose(self) -> None:
        await self._model.aclose()

    def close(self) -> None:
        """Like `aclose`, for code without an event loop."""
        wait_for(self.aclose())

    def task(self, case: Case, texts: Sequence[str], criterion: Criterion) -> Task:
        """Return the question that puts a contest to the model; a verdict is the letter of a text, or a tie."""
        verdicts = verdicts_on(len(texts), ties=self._ties)

        def read(completion: Completion) -> Valid | Invalid:
            return parse_object(completion.text, lambda verdict: _choice(verdict, verdicts, criterion, case.language))

        def repair(output: str | None, reason: str) -> list[ChatMessage]:
            return repair_messages(output, reason, verdicts, case.language)

        messages = pairwise_messages(case, texts, criterion, ties=self._ties)
        return Task(messages=messages, read=read, repair=repair, schema=_schema(verdicts, case.language))

    def evaluate(
        self, instances: Sequence[ComparisonLike], criterion: Criterion | str, *, concurrency: int = 16
    ) -> list[PairwiseResult]:
        """Like `aevaluate`, for code without an event loop, and for notebooks."""
        return wait_for(self.aevaluate(instances, criterion, concurrency=concurrency))

    def __call__(self, instances: Sequence[ComparisonLike], criteria: Criterion | str) -> list[PairwiseResult]:
        return self.evaluate(instances, criteria)

    async def aevaluate(
        self, instances: Sequence[ComparisonLike], criterion: Criterion | str, *, concurrency: int = 16
    ) -> list[PairwiseResult]:
        """Return one result per instance, in the same order, running up to `concurrency` contests at a time.

        The result of an instance that cannot be compared gives the reason.
        """
        # A comparison is a single instance, not a list.
        check_batch({} if isinstance(instances, Comparison) else instances, concurrency)
        chosen, slots = criterion_of(criterion), asyncio.Semaphore(concurrency)
        return await gather_all(
            [self._compare(number, instance, chosen, slots) for number, instance in enumerate(instances)]
        )

    async def _compare(
        self, number: int, instance: ComparisonLike, criterion: Criterion, slots: asyncio.Semaphore
    ) -> PairwiseResult:
        started = time.perf_counter()
        try:
            match = match_of(instance, criterion, number)
        except (TypeError, ValueError) as error:
            detail = f"instance {number}: {error}"
            return unusable_result(self._name, record_id(instance, number), Reason.MISSING_FIELD, detail)
        decided = self._decide_without_call(match, criterion)
        if decided is not None:
            return decided
        size = 2 if self._mode == "all_pairs" else len(match.answers)
        groups = combinations(match.answers, size)
        contests = await gather_all([self._contest(match, names, criterion, slots) for names in groups])
        result = conclude(self._name, match.case.id, tuple(match.answers), contests)
        return result.model_copy(update={"latency_ms": (time.perf_counter() - started) * 1000})

    def _decide_without_call(self, match: Match, criterion: Criterion) -> PairwiseResult | None:
        """Return the result of an instance that cannot be compared, or None if the model must be asked."""
        case, names = match.case, tuple(match.answers)
        reason = self.why_not(criterion)
        if reason is not None:
            return unusable_result(self._name, case.id, Reason.UNSUPPORTED, reason, names)
        unmet = unmet_needs(case, criterion)
        if unmet is not None:
            result = unusable_result(self._name, case.id, Reason.NOTHING_TO_JUDGE, unmet, names)
            return result.model_copy(update={"status": Status.NOT_APPLICABLE})
        missing = missing_fields(case, criterion)
        return unusable_result(self._name, case.id, Reason.MISSING_FIELD, missing, names) if missing else None

    async def _contest(
        self, match: Match, names: Sequence[str], criterion: Criterion, slots: asyncio.Semaphore
    ) -> Contest:
        """Ask which answer is best, and with `check_position` again in reverse order if the first reply is valid."""
        twins, poll = match.twins(names), Poll()
        shown_names = match.display_order([name for name in names if name not in twins])
        if len(shown_names) == 1:
            return tie_identical_answers(match.display_order(names), ties=self._ties)
        async with slots:
            rulings = [await self._ruling(match, shown_names, criterion, poll)]
            if self._check_position and rulings[0] is not None:
                rulings.append(await self._ruling(match, shown_names[::-1], criterion, poll))
        contest = settle(shown_names, rulings, poll, self._on_bias)
        return add_twins(contest, twins, ties=self._ties)

    async def _ruling(self, match: Match, names: tuple[str, ...], criterion: Criterion, poll: Poll) -> Ruling | None:
        try:
            task = self._build_task(match, names, criterion)
            outcome = await ask(self._model, task, poll, repairs=self._repairs)
        except Exception as error:
            # A defect fails this contest, not the whole batch.
            logger.exception("judge %s failed on record %s, criterion %s", self._name, match.case.id, criterion.name)
            outcome = Failed(reason=Reason.UNAVAILABLE, detail=f"the judge failed: {type(error).__name__}")
        poll.outcomes.append(outcome)
        if not isinstance(outcome, Valid) or outcome.choice is None:
            return None
        winner = dict(zip(letters(len(names)), names, strict=True)).get(outcome.choice.label.en)
        return Ruling(winner=winner, tied=() if winner is not None else names, explanation=outcome.explanation)

    def _build_task(self, match: Match, names: Sequence[str], criterion: Criterion) -> Task:
        texts = [match.answers[name] for name in names]
        if self._redactor is None:
            return self.task(match.case, texts, criterion)
        redacted = redact_case(match.case, self._redactor)
        return replace(self.task(redacted.case, redacted.texts(texts), criterion), is_redacted=True)

    def _probe(self, case: Case, criterion: Criterion) -> list[ChatMessage]:
        messages = [
            message for ties in (True, False) for message in pairwise_messages(case, "ab", criterion, ties=ties)
        ]
        return messages + repair_messages(None, "reason", verdicts_on(2, ties=True), case.language)


def _choice(verdict: object, verdicts: Options, criterion: Criterion, language: Language) -> Choice:
    """Return the verdict by its letter, alone or after the name of the field."""
    if not isinstance(verdict, str):
        raise VerdictError(f"the verdict must be one of the labels, not {quote(verdict)}")
    title, words = field_title(criterion.to_evaluate, language), verdict.strip()
    bare = words[len(title) :] if words.casefold().startswith(f"{title} ".casefold()) else words
    choice = verdicts.find(words, language) or verdicts.find(bare, language)
    if choice is None and words.casefold() in (TIE.en, TIE.ru):
        raise VerdictError("a tie is not allowed: one must be named")
    if choice is None:
        raise VerdictError(f"the verdict {quote(verdict)} is not one of the labels")
    return choice


def _schema(verdicts: Options, language: Language) -> Mapping[str, object]:
    return reply_schema({"type": "string", "enum": [choice.label.of(language) for choice in verdicts.choices]})
