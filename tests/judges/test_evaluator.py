"""The evaluator: deadlines, notices that do not wait, and stable names for the same work."""

import asyncio
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.composite import Item, MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import RAG_DIMENSIONS, SAFETY_DIMENSION, Criterion
from judges.evaluator import Evaluator, Submission
from judges.judge import Judge
from judges.models.flow import Flow, FlowLimits
from judges.panel import Panel
from judges.shortfall import retry_reason
from judges.values.evaluation import (
    CompositeStatus,
    Evaluation,
    JudgeVerdict,
    Reason,
    SafetyNotice,
    SafetyStatus,
    Samples,
    Sampling,
    Status,
    evaluation_id,
)
from judges.values.interaction import Case, Interaction
from tests.parts.patience import patience, until

RAG = load_catalogue("rag")
BEST = {name: int(criterion.worst_first[-1].value or 0) for name, criterion in RAG.items()}
Answer = Callable[[Case, Criterion], Awaitable[JudgeVerdict]]


class ScriptedJudge(Judge):
    def __init__(self, answer: Answer, *, name: str = "scripted", identity: str = "scripted v1") -> None:
        self._name = name
        self._identity = identity
        self._answer = answer
        self.closed = False
        self.refuses: Mapping[str, str] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def identity(self) -> str:
        return self._identity

    def why_not(self, criterion: Criterion) -> str | None:
        return self.refuses.get(criterion.name)

    async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        return await self._answer(case, criterion)

    async def aclose(self) -> None:
        self.closed = True


def verdict(criterion: Criterion, level: int, **more: Any) -> JudgeVerdict:
    return JudgeVerdict(
        judge="scripted",
        status=Status.SCORED,
        score=criterion.normalise(level),
        level=level,
        option=next(choice.label.en for choice in criterion.scale.choices if choice.value == level),
        value=level,
        samples=Samples(requested=1, valid=1),
        **more,
    )


def levels(**level_by_name: int) -> Answer:
    """Answer with the best level everywhere, except for those given."""

    async def answer(_case: Case, criterion: Criterion) -> JudgeVerdict:
        return verdict(criterion, level_by_name.get(criterion.name, BEST[criterion.name]))

    return answer


def rag(items: Iterable[Item | Criterion] = tuple(RAG.values())) -> MultiCriteria:
    return MultiCriteria(items, safety=SAFETY_DIMENSION)


def evaluator(*answers: Answer, multi: MultiCriteria | None = None, **options: Any) -> Evaluator:
    judges = tuple(
        ScriptedJudge(answer, name=f"judge-{number}") for number, answer in enumerate(answers or (levels(),))
    )
    return Evaluator(multi or rag(), Panel(judges=judges), **{"version": "1.2.3", **options})


def submission(**fields: Any) -> Submission:
    document = {"id": "id-1", "question": "Why?", "answer": "So.", "contexts": [{"text": "Because."}], **fields}
    return Submission(interaction=Interaction.model_validate(document), sampling=Sampling(probability=0.25, rule="r"))


async def evaluate(
    subject: Evaluator, to_judge: Submission | None = None, *, deadline: float = 5.0
) -> tuple[Evaluation, list[SafetyNotice]]:
    notices: list[SafetyNotice] = []
    result = await subject.evaluate(to_judge or submission(), deadline=deadline, on_unsafe=notices.append)
    assert asyncio.all_tasks() == {asyncio.current_task()}, "tasks were left behind"
    return result, notices


def run(
    subject: Evaluator, to_judge: Submission | None = None, *, deadline: float = 5.0
) -> tuple[Evaluation, list[SafetyNotice]]:
    return asyncio.run(evaluate(subject, to_judge, deadline=deadline))


# Contents of an evaluation


def test_an_evaluation_carries_the_data_of_its_interaction() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    tags = {"regime": "healthy", "n": 3, "flag": True}
    to_judge = submission(app="shop", tenant="acme", model="m", tags=tags, traceparent=trace)
    before = datetime.now(UTC)
    evaluation, _ = run(
        evaluator(), Submission(interaction=to_judge.interaction, sampling=to_judge.sampling, truncated=("x",))
    )
    assert (evaluation.interaction_id, evaluation.app, evaluation.tenant, evaluation.model) == (
        "id-1",
        "shop",
        "acme",
        "m",
    )
    assert (evaluation.tags, evaluation.traceparent, evaluation.truncated) == (tags, trace, ("x",))
    assert evaluation.sampling == Sampling(probability=0.25, rule="r", lane="main")
    assert evaluation.evaluator.criteria == RAG_DIMENSIONS
    assert (evaluation.evaluator.judges, evaluation.evaluator.version) == (("judge-0",), "1.2.3")
    assert before <= evaluation.evaluated_at <= datetime.now(UTC)
    assert tuple(evaluation.dimensions) == RAG_DIMENSIONS
    assert (evaluation.composite.score, evaluation.composite.status) == (1.0, CompositeStatus.OK)
    assert evaluation.latency_ms > 0


def test_scores_of_the_panel_become_the_composite() -> None:
    evaluation, _ = run(evaluator(levels(clarity=0, harmfulness=1), levels(clarity=4, harmfulness=2)))
    assert evaluation.dimensions["clarity"].score == 0.5
    # Two judges differ on safety: the vote is the worse level, 1, and weighs 1.5 with the score of that level.
    assert evaluation.composite.safety.level == 1
    assert evaluation.composite.score == pytest.approx(min(5.0 / 6, (4.5 + 1.5 * 0.5) / 6.5))


def test_without_contexts_groundedness_does_not_apply_and_is_not_missing() -> None:
    evaluation, _ = run(evaluator(), submission(contexts=[]))
    assert evaluation.dimensions["groundedness"].status is Status.NOT_APPLICABLE
    assert evaluation.composite.status is CompositeStatus.OK
    assert evaluation.composite.coverage == 1.0


@pytest.mark.parametrize(
    ("truncated", "level_by_name", "lost"),
    [
        (("contexts[4:]",), {"groundedness": 1, "completeness": 0}, {"groundedness", "completeness"}),
        (("contexts[1].text",), {"groundedness": 0}, {"groundedness"}),
        (("answer",), {"completeness": 1}, {"completeness"}),
        (("contexts[4:]",), {}, set()),
        (("contexts[4:]",), {"clarity": 0, "answer_relevance": 0, "conciseness": 0, "harmfulness": 1}, set()),
        (("history[0].text", "contextual"), {"groundedness": 0, "completeness": 0}, set()),
        ((), {"groundedness": 0, "completeness": 0}, set()),
    ],
)
def test_a_verdict_below_the_best_on_truncated_texts_does_not_count(
    truncated: tuple[str, ...], level_by_name: dict[str, int], lost: set[str]
) -> None:
    evaluation, _ = run(evaluator(levels(**level_by_name)), replace(submission(), truncated=truncated))
    cut = {name for name, dimension in evaluation.dimensions.items() if dimension.reason is Reason.TRUNCATED}
    assert cut == lost
    for name in lost:
        dimension = evaluation.dimensions[name]
        assert dimension.status is Status.INSUFFICIENT
        empty = ("score", "level", "option", "label", "value", "spread", "agreement", "votes_cast")
        assert {name: getattr(dimension, name) for name in empty} == dict.fromkeys(empty)
        assert truncated[0] in (dimension.detail or "")
        assert dimension.judges[0].level == level_by_name[name]
    assert evaluation.composite.coverage == pytest.approx((5 - len(lost)) / 5)
    assert retry_reason(evaluation) is None


def test_a_panel_that_is_not_unanimous_about_the_best_has_no_verdict_where_texts_were_cut() -> None:
    """If 0.83 were kept and 0.5 dropped, a worse verdict would improve the composite."""
    subject = evaluator(levels(), levels(), levels(groundedness=1))
    evaluation, _ = run(subject, replace(submission(), truncated=("contexts[4:]",)))
    assert evaluation.dimensions["groundedness"].reason is Reason.TRUNCATED


def test_truncated_texts_are_not_retried_though_a_judge_was_unavailable() -> None:
    async def away(_case: Case, criterion: Criterion) -> JudgeVerdict:
        if criterion.name == "groundedness":
            raise RuntimeError("down")
        return verdict(criterion, BEST[criterion.name])

    bad = levels(groundedness=0)
    evaluation, _ = run(evaluator(bad, bad, away), replace(submission(), truncated=("contexts[4:]",)))
    assert evaluation.dimensions["groundedness"].reason is Reason.TRUNCATED
    assert retry_reason(evaluation) is None
    evaluation, _ = run(evaluator(bad, away, away), replace(submission(), truncated=("contexts[4:]",)))
    assert retry_reason(evaluation) is not None


def test_cutting_never_hides_that_an_answer_is_unsafe() -> None:
    harm = RAG["harmfulness"].model_copy(update={"needs_whole": ("answer", "contexts")})
    multi = rag([*(criterion for name, criterion in RAG.items() if name != "harmfulness"), harm])
    evaluation, notices = run(
        evaluator(levels(harmfulness=0), multi=multi), replace(submission(), truncated=("answer",))
    )
    assert (evaluation.composite.status, evaluation.composite.score, len(notices)) == (CompositeStatus.UNSAFE, 0.0, 1)


def test_cost_is_the_sum_of_known_costs_and_absent_without_any() -> None:
    async def costly(_case: Case, criterion: Criterion) -> JudgeVerdict:
        return verdict(criterion, BEST[criterion.name], cost_usd=0.5 if criterion.name == "clarity" else None)

    assert run(evaluator(costly, levels()))[0].cost_usd == 0.5
    assert run(evaluator())[0].cost_usd is None


@pytest.mark.parametrize(
    ("chars", "answer", "excerpt"),
    [(10, "short", "short"), (5, "short", "short"), (4, "short", "sho…"), (9, "two\n\n  words", "two words")],
)
def test_an_excerpt_is_flat_and_short(chars: int, answer: str, excerpt: str) -> None:
    evaluation, _ = run(evaluator(excerpt_chars=chars), submission(answer=answer))
    assert evaluation.excerpt is not None
    assert evaluation.excerpt.answer == excerpt


def test_no_excerpt_is_kept_if_disabled() -> None:
    assert run(evaluator(excerpt_chars=0))[0].excerpt is None


@pytest.mark.parametrize(("language", "spoken"), [("auto", "ru"), ("en", "en"), ("ru", "ru")])
def test_the_language_follows_the_interaction_unless_it_is_fixed(language: str, spoken: str) -> None:
    heard: set[str] = set()

    async def answer(case: Case, criterion: Criterion) -> JudgeVerdict:
        heard.add(case.language)
        return verdict(criterion, BEST[criterion.name])

    run(evaluator(answer, language=language), submission(question="Почему?", answer="Потому."))
    assert heard == {spoken}


def test_a_criterion_that_no_judge_can_judge_is_refused_with_every_judges_reason() -> None:
    first, second = (ScriptedJudge(levels(), name=name) for name in ("first", "second"))
    first.refuses = {"clarity": "reads only numbers", "conciseness": "is terse"}
    second.refuses = {"clarity": "needs five levels"}
    with pytest.raises(ValueError, match=r"clarity.*first: reads only numbers; second: needs five levels\)$"):
        Evaluator(rag(), Panel(judges=(first, second)), version="1")


def test_a_criterion_that_too_few_judges_for_the_quorum_can_judge_is_refused() -> None:
    first, second = (ScriptedJudge(levels(), name=name) for name in ("first", "second"))
    first.refuses = {"conciseness": "is terse"}
    with pytest.raises(ValueError, match=r"^conciseness would never get a verdict: .*first: is terse\)$"):
        Evaluator(rag(), Panel(judges=(first, second), quorum=2), version="1")


def test_a_criterion_that_some_judge_can_judge_is_judged() -> None:
    first, second = (ScriptedJudge(levels(), name=name) for name in ("first", "second"))
    first.refuses = {"clarity": "reads only numbers"}
    subject = Evaluator(rag(), Panel(judges=(first, second)), version="1")
    assert run(subject)[0].dimensions["clarity"].status is Status.SCORED


def test_a_composite_that_cannot_be_published_is_refused() -> None:
    graded = [Item(criterion=criterion, normalize=criterion.name != "clarity") for criterion in RAG.values()]
    with pytest.raises(ValueError, match="clarity: normalize"):
        evaluator(multi=rag(graded))
    with pytest.raises(ValueError, match="no safety criterion is set"):
        evaluator(multi=MultiCriteria(RAG.values(), safety=None))


def test_a_required_dimension_that_is_not_the_best_fails_the_composite() -> None:
    multi = MultiCriteria.of(RAG.values(), required={"groundedness"}, safety=SAFETY_DIMENSION)
    evaluation, _ = run(evaluator(levels(groundedness=1), multi=multi))
    assert (evaluation.composite.score, evaluation.composite.status) == (0.0, CompositeStatus.FAILED)
    evaluation, _ = run(evaluator(levels(groundedness=1), levels(), levels(), multi=multi))
    assert (evaluation.composite.status, evaluation.dimensions["groundedness"].option) == (
        CompositeStatus.OK,
        "fully supported",
    )


def test_any_criterion_with_ordered_choices_can_decide_about_safety() -> None:
    flaws = Criterion.model_validate(
        {
            "name": "flaws",
            "title": "Flaws",
            "question": "?",
            "scale": {"options": [{"label": "none", "score": 0}, {"label": "fatal", "score": 9}]},
            "higher_is": "worse",
        }
    )

    async def answer(_case: Case, criterion: Criterion) -> JudgeVerdict:
        return verdict(criterion, 9).model_copy(update={"level": None})

    evaluation, [notice] = run(evaluator(answer, multi=MultiCriteria([flaws], safety="flaws")))
    assert (evaluation.composite.score, evaluation.composite.status) == (0.0, CompositeStatus.UNSAFE)
    assert (notice.safety.level, notice.safety.status) == (None, SafetyStatus.UNSAFE)
    assert notice.dimension.option == "fatal"


def test_criteria_that_show_the_most_are_asked_first_and_published_in_their_own_order() -> None:
    asked: list[str] = []

    async def answer(_case: Case, criterion: Criterion) -> JudgeVerdict:
        asked.append(criterion.name)
        return verdict(criterion, BEST[criterion.name])

    evaluation, _ = run(evaluator(answer))
    assert asked == ["completeness", "groundedness", "harmfulness", "answer_relevance", "clarity", "conciseness"]
    assert tuple(evaluation.dimensions) == evaluation.evaluator.criteria == RAG_DIMENSIONS


def test_closing_an_evaluator_closes_its_judges() -> None:
    judge = ScriptedJudge(levels())
    asyncio.run(Evaluator(rag(), Panel(judges=(judge,)), version="1").aclose())
    assert judge.closed


# The deadline


def hanging_on(*names: str, ended: list[str], begun: list[str] | None = None) -> Answer:
    async def answer(_case: Case, criterion: Criterion) -> JudgeVerdict:
        if criterion.name in names:
            if begun is not None:
                begun.append(criterion.name)
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(criterion.name)
        return verdict(criterion, BEST[criterion.name])

    return answer


def test_dimensions_undecided_at_the_deadline_are_unscored_and_nothing_is_left_running() -> None:
    ended: list[str] = []
    started = time.monotonic()
    evaluation, notices = run(evaluator(hanging_on(*RAG_DIMENSIONS, ended=ended)), deadline=0.05)
    assert time.monotonic() - started < 5 * patience()
    for dimension in evaluation.dimensions.values():
        assert (dimension.status, dimension.reason) == (Status.INSUFFICIENT, Reason.TIMEOUT)
        assert dimension.score is None
    assert sorted(ended) == sorted(RAG_DIMENSIONS)
    assert (evaluation.composite.score, evaluation.composite.status) == (None, CompositeStatus.SAFETY_UNKNOWN)
    assert notices == []


def test_dimensions_decided_by_the_deadline_count() -> None:
    ended: list[str] = []
    evaluation, _ = run(evaluator(hanging_on("clarity", ended=ended)), deadline=0.5 * patience())
    assert evaluation.dimensions["clarity"].reason is Reason.TIMEOUT
    assert all(
        dimension.status is Status.SCORED for name, dimension in evaluation.dimensions.items() if name != "clarity"
    )
    assert evaluation.composite.status is CompositeStatus.OK
    assert evaluation.composite.coverage == pytest.approx(4 / 5)
    assert ended == ["clarity"]


def test_a_deadline_that_has_passed_leaves_everything_that_has_to_wait_unscored() -> None:
    evaluation, _ = run(evaluator(hanging_on(*RAG_DIMENSIONS, ended=[])), deadline=0.0)
    assert {dimension.reason for dimension in evaluation.dimensions.values()} == {Reason.TIMEOUT}


class ComputingJudge(ScriptedJudge):
    waits = False


def computing(answer: Answer) -> Evaluator:
    return Evaluator(rag(), Panel(judges=(ComputingJudge(answer),)), version="1.2.3")


def test_a_judge_that_only_computes_is_asked_in_the_task_of_the_evaluation() -> None:
    tasks: set[object] = set()

    async def answer(_case: Case, criterion: Criterion) -> JudgeVerdict:
        tasks.update(asyncio.all_tasks())
        return verdict(criterion, 0 if criterion.name == SAFETY_DIMENSION else BEST[criterion.name])

    evaluation, notices = run(computing(answer))
    assert len(tasks) == 1
    assert tuple(evaluation.dimensions) == RAG_DIMENSIONS
    assert (evaluation.composite.status, len(notices)) == (CompositeStatus.UNSAFE, 1)


def test_between_evaluations_that_only_compute_others_have_their_turn() -> None:
    async def turns() -> list[str]:
        order: list[str] = []

        async def another() -> None:
            order.append("another")

        task = asyncio.create_task(another())
        for _ in range(2):
            await evaluate_alone(computing(levels()), order)
        await task
        return order

    async def evaluate_alone(subject: Evaluator, order: list[str]) -> None:
        await subject.evaluate(submission(), deadline=5.0, on_unsafe=print)
        order.append("evaluated")

    assert asyncio.run(turns()) == ["another", "evaluated", "evaluated"]


def test_a_judge_that_only_computes_is_not_asked_after_the_deadline() -> None:
    evaluation, _ = run(computing(levels()), deadline=0.0)
    assert {dimension.reason for dimension in evaluation.dimensions.values()} == {Reason.TIMEOUT}


def test_an_unsendable_notice_of_a_computing_judge_fails_the_evaluation_too() -> None:
    def refuse(_notice: SafetyNotice) -> None:
        raise ConnectionError("away")

    subject = computing(levels(**{SAFETY_DIMENSION: 0}))
    with pytest.raises(ConnectionError):
        asyncio.run(subject.evaluate(submission(), deadline=5, on_unsafe=refuse))


def test_a_notice_that_cannot_be_sent_fails_the_evaluation_and_is_not_lost() -> None:
    """The caller must get the error: an evaluation without its notice would look complete."""

    async def harmful(_case: Case, criterion: Criterion) -> JudgeVerdict:
        return verdict(criterion, 0 if criterion.name == SAFETY_DIMENSION else BEST[criterion.name])

    def refuse(_notice: SafetyNotice) -> None:
        raise ConnectionError("away")

    with pytest.raises(ConnectionError):
        asyncio.run(evaluator(harmful).evaluate(submission(), deadline=5, on_unsafe=refuse))


def test_cancelling_an_evaluation_cancels_its_judges() -> None:
    begun: list[str] = []
    ended: list[str] = []

    async def run_and_cancel() -> None:
        hanging = hanging_on(*RAG_DIMENSIONS, ended=ended, begun=begun)
        task = asyncio.create_task(evaluate(evaluator(hanging), deadline=60 * patience()))
        await until(lambda: len(begun) == len(RAG_DIMENSIONS))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run_and_cancel())
    assert sorted(ended) == sorted(RAG_DIMENSIONS)


def test_a_cancellation_that_a_judge_lets_escape_is_an_unscored_dimension_and_not_a_lost_record() -> None:
    async def answer(_case: Case, criterion: Criterion) -> JudgeVerdict:
        if criterion.name == "clarity":
            raise asyncio.CancelledError
        return verdict(criterion, BEST[criterion.name])

    evaluation, _ = run(evaluator(answer))
    assert evaluation.dimensions["clarity"].reason is Reason.UNAVAILABLE
    assert evaluation.composite.coverage == pytest.approx(4 / 5)


# Safety notices


def test_an_unsafe_notice_is_sent_while_other_dimensions_are_still_open() -> None:
    """The other verdicts wait for the notice: if it were sent last, they would miss the deadline."""

    async def wait_for_notice() -> tuple[Evaluation, list[SafetyNotice]]:
        gate = asyncio.Event()
        notices: list[SafetyNotice] = []

        async def answer(_case: Case, criterion: Criterion) -> JudgeVerdict:
            if criterion.name == "harmfulness":
                return verdict(criterion, 0, explanation="a threat")
            await gate.wait()
            return verdict(criterion, BEST[criterion.name])

        def on_unsafe(notice: SafetyNotice) -> None:
            notices.append(notice)
            gate.set()

        return await evaluator(answer).evaluate(submission(), deadline=5, on_unsafe=on_unsafe), notices

    evaluation, notices = asyncio.run(wait_for_notice())
    assert all(dimension.status is Status.SCORED for dimension in evaluation.dimensions.values())
    assert (evaluation.composite.score, evaluation.composite.status) == (0.0, CompositeStatus.UNSAFE)
    [notice] = notices
    assert notice.evaluation_id == evaluation.evaluation_id
    assert notice.safety.status is SafetyStatus.UNSAFE
    assert notice.dimension == evaluation.dimensions["harmfulness"]
    assert notice.noticed_at <= evaluation.evaluated_at


def test_a_notice_is_sent_even_if_everything_else_misses_the_deadline() -> None:
    ended: list[str] = []
    hanging = hanging_on(*(name for name in RAG_DIMENSIONS if name != "harmfulness"), ended=ended)

    async def answer(case: Case, criterion: Criterion) -> JudgeVerdict:
        return verdict(criterion, 0) if criterion.name == "harmfulness" else await hanging(case, criterion)

    evaluation, notices = run(evaluator(answer), deadline=0.5 * patience())
    assert len(notices) == 1
    assert evaluation.composite.status is CompositeStatus.UNSAFE


def test_notice_and_evaluation_say_the_same_about_their_interaction() -> None:
    to_judge = submission(app="shop", tenant="acme", model="m", tags={"k": 1}, traceparent="00-a-b-01")
    evaluation, [notice] = run(evaluator(levels(harmfulness=0), excerpt_chars=20), to_judge)
    shared = SafetyNotice.model_fields.keys() & Evaluation.model_fields.keys()
    assert {name: getattr(notice, name) for name in shared} == {name: getattr(evaluation, name) for name in shared}
    assert shared >= {"evaluation_id", "interaction_id", "app", "tenant", "model", "tags", "sampling", "excerpt"}


@pytest.mark.parametrize("level", [1, 2])
def test_no_notice_is_sent_for_answers_that_are_not_unsafe(level: int) -> None:
    assert run(evaluator(levels(harmfulness=level)))[1] == []


def test_the_safety_vote_decides_about_the_notice() -> None:
    judges = (levels(harmfulness=0), levels(), levels())
    evaluation, notices = run(evaluator(*judges, safety_vote="majority"))
    assert (notices, evaluation.composite.status) == ([], CompositeStatus.OK)
    evaluation, notices = run(evaluator(*judges, safety_vote="any"))
    assert (len(notices), evaluation.composite.status) == (1, CompositeStatus.UNSAFE)
    assert evaluation.composite.safety.level == notices[0].safety.level == 0


async def _collect_early_notices(*harm: int | None, **options: Any) -> tuple[list[SafetyNotice], Evaluation]:
    """Return the notices on these levels of harmfulness, in this order, while a last judge is still waiting."""
    gate = asyncio.Event()
    notices: list[SafetyNotice] = []
    answered: list[int] = []

    def saying(level: int | None, order: int) -> Answer:
        async def answer(_case: Case, criterion: Criterion) -> JudgeVerdict:
            if criterion.name != SAFETY_DIMENSION:
                return verdict(criterion, BEST[criterion.name])
            await asyncio.sleep(0.005 * order)
            answered.append(order)
            if level is None:
                raise ConnectionError("away")
            return verdict(criterion, level)

        return answer

    async def slow(_case: Case, criterion: Criterion) -> JudgeVerdict:
        if criterion.name == SAFETY_DIMENSION:
            await gate.wait()
        return verdict(criterion, BEST[criterion.name])

    subject = evaluator(*(saying(level, number) for number, level in enumerate(harm)), slow, **options)
    task = asyncio.create_task(subject.evaluate(submission(), deadline=60 * patience(), on_unsafe=notices.append))
    await until(lambda: len(answered) == len(harm))
    for _ in range(50):  # until the panel has seen the last of these answers
        await asyncio.sleep(0)
    early = list(notices)
    gate.set()
    evaluation = await task
    assert notices[: len(early)] == early
    assert len(notices) == (evaluation.composite.status is CompositeStatus.UNSAFE), "one notice of what is unsafe"
    return early, evaluation


@pytest.mark.parametrize(
    ("harm", "vote", "certain"),
    [
        ((0, 0), "majority", True),
        ((0, 2), "majority", False),
        ((2, 0), "majority", False),
        ((1, 1), "majority", False),
        ((2, 2), "majority", False),
        ((0, 2), "any", True),
        ((2, 0), "any", True),
        ((2, 1), "any", False),
        ((None, 0), "any", True),
    ],
)
def test_a_notice_goes_out_as_soon_as_no_open_judge_can_change_it_and_only_once(
    harm: tuple[int | None, ...], vote: str, certain: bool
) -> None:
    early, evaluation = asyncio.run(_collect_early_notices(*harm, safety_vote=vote))
    assert len(early) == certain
    if certain:
        [notice] = early
        assert (notice.safety.level, notice.safety.status) == (0, SafetyStatus.UNSAFE)
        assert len(notice.dimension.judges) < len(evaluation.dimensions[SAFETY_DIMENSION].judges)
        assert evaluation.composite.status is CompositeStatus.UNSAFE


def test_an_early_notice_that_cannot_be_sent_fails_the_evaluation_at_once() -> None:
    async def hanging(_case: Case, _criterion: Criterion) -> JudgeVerdict:
        await asyncio.sleep(60)
        raise AssertionError

    def refuse(_notice: SafetyNotice) -> None:
        raise ConnectionError("away")

    async def run_and_fail() -> None:
        subject = evaluator(levels(harmfulness=0), hanging, safety_vote="any")
        with pytest.raises(ConnectionError):
            await subject.evaluate(submission(), deadline=30, on_unsafe=refuse)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "tasks were left behind"

    started = time.monotonic()
    asyncio.run(run_and_fail())
    assert time.monotonic() - started < 10 * patience()


# Names


def fingerprint(
    criteria: Mapping[str, Criterion] = RAG,
    *,
    judges: tuple[tuple[str, str], ...] = (("a", "model-1 t=0"), ("b", "model-2 t=0")),
    panel: Mapping[str, Any] | None = None,
    weights: Mapping[str, float] | None = None,
    required: Iterable[str] = (),
    safety: str = SAFETY_DIMENSION,
    clarity: Mapping[str, Any] | None = None,
    **options: Any,
) -> str:
    """Return the fingerprint of the six dimensions and two judges with these changes; `clarity` changes that item."""
    asked = tuple(ScriptedJudge(levels(), name=name, identity=identity) for name, identity in judges)
    multi = MultiCriteria.of(criteria.values(), weights=weights, required=frozenset(required), safety=safety)
    items = [replace(item, **clarity) if clarity and name == "clarity" else item for name, item in multi.items.items()]
    changed = MultiCriteria(items, safety=safety)
    return Evaluator(changed, Panel(judges=asked, **(panel or {})), **{"version": "1", **options}).info.fingerprint


def reword_criterion() -> Mapping[str, Criterion]:
    document = RAG["clarity"].model_dump()
    document["scale"]["levels"][0]["description"]["ru"] = "Иначе."
    return {**RAG, "clarity": Criterion.model_validate(document)}


DIFFERENT: Mapping[str, Callable[[], str]] = {
    "a wording": lambda: fingerprint(reword_criterion()),
    "a dimension less": lambda: fingerprint({name: criterion for name, criterion in RAG.items() if name != "clarity"}),
    "a weight": lambda: fingerprint(weights={"clarity": 2.0}),
    "another weight": lambda: fingerprint(weights={"conciseness": 2.0}),
    "a required dimension": lambda: fingerprint(required={"clarity"}),
    "another required one": lambda: fingerprint(required={"groundedness"}),
    "a target": lambda: fingerprint(clarity={"target_option": "clear"}),
    "another target": lambda: fingerprint(clarity={"target_option": "average"}),
    "a threshold": lambda: fingerprint(clarity={"threshold": 0.5}),
    "another threshold": lambda: fingerprint(clarity={"threshold": 0.6}),
    "who decides about safety": lambda: fingerprint(safety="groundedness"),
    "a judge's identity": lambda: fingerprint(judges=(("a", "model-1 t=0"), ("b", "model-2 t=1"))),
    "a judge's name": lambda: fingerprint(judges=(("a", "model-1 t=0"), ("c", "model-2 t=0"))),
    "a judge less": lambda: fingerprint(judges=(("a", "model-1 t=0"),)),
    "the rule of combination": lambda: fingerprint(panel={"combine": "min"}),
    "the quorum": lambda: fingerprint(panel={"quorum": 1}),
    "the safety vote": lambda: fingerprint(safety_vote="any"),
    "the language": lambda: fingerprint(language="ru"),
}


@pytest.mark.parametrize("change", DIFFERENT)
def test_a_fingerprint_changes_with_everything_that_can_change_a_result(change: str) -> None:
    assert DIFFERENT[change]() != fingerprint()


def test_different_changes_have_different_fingerprints() -> None:
    assert len({make() for make in DIFFERENT.values()}) == len(DIFFERENT)


@pytest.mark.parametrize(
    "options",
    [
        {"version": "2"},
        {"excerpt_chars": 500},
        {"weights": {"clarity": 1.0}},
        {"weights": {"clarity": 1}},
        {"criteria": dict(reversed(list(RAG.items())))},
        {"panel": {"quorum": 2}},
        {"panel": {"combine": "mean"}},
        {"safety_vote": "majority"},
    ],
    ids=str,
)
def test_a_fingerprint_ignores_everything_else(options: dict[str, Any]) -> None:
    assert fingerprint(**options) == fingerprint()


def test_the_order_in_which_weights_are_written_does_not_matter() -> None:
    one = fingerprint(weights={"clarity": 2.0, "groundedness": 3.0})
    assert one == fingerprint(weights={"groundedness": 3.0, "clarity": 2.0}) != fingerprint()


def test_the_language_in_which_a_target_is_named_does_not_matter() -> None:
    assert fingerprint(clarity={"target_option": "clear"}) == fingerprint(clarity={"target_option": "Ясно "})


IN_ANOTHER_PROCESS = """
from judges.criteria.catalogue import load_catalogue
from judges.composite import MultiCriteria
from judges.evaluator import Evaluator
from judges.judge import Judge
from judges.panel import Panel
from judges.shortfall import retry_reason

class Silent(Judge):
    name, identity = "a", "model-1 t=0"

    async def verdict(self, case, criterion, *, reverse):
        raise NotImplementedError

required = frozenset({"clarity", "groundedness", "harmfulness"})
criteria = load_catalogue("rag").values()
multi = MultiCriteria.of(criteria, weights={"clarity": 2.0}, required=required, safety="harmfulness")
print(Evaluator(multi, Panel(judges=(Silent(),)), version="1").info.fingerprint)
"""


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    names = frozenset({"harmfulness", "groundedness", "clarity"})
    here = fingerprint(judges=(("a", "model-1 t=0"),), weights={"clarity": 2.0}, required=names)
    for seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        process = subprocess.run(
            [sys.executable, "-c", IN_ANOTHER_PROCESS], env=environment, capture_output=True, text=True, check=True
        )
        assert process.stdout.strip() == here


def test_a_fingerprint_is_16_hexadecimal_digits() -> None:
    assert len(fingerprint()) == 16
    int(fingerprint(), 16)


@pytest.mark.parametrize(
    ("interaction_id", "golden"),
    [
        ("id-1", "c2e67cc2-b971-5109-bf3a-bdb503097c50"),
        ("вопрос/1", "f7fac693-2e41-5a04-88d4-82baa5e706f1"),
    ],
)
def test_evaluation_ids_never_change(interaction_id: str, golden: str) -> None:
    assert evaluation_id(interaction_id, "0123456789abcdef") == golden


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_evaluation_ids_are_uuids_of_version_5(interaction_id: str) -> None:
    namespace = uuid.UUID("6f0d4e0a-54c9-5d0e-9b1c-3c3f3a6d8a51")
    assert evaluation_id(interaction_id, "0123") == str(uuid.uuid5(namespace, f"0123/{interaction_id}"))


def test_the_same_work_has_the_same_name_and_other_work_another() -> None:
    first, again = run(evaluator())[0], run(evaluator())[0]
    assert first.evaluation_id == again.evaluation_id == evaluation_id("id-1", first.evaluator.fingerprint)
    assert run(evaluator(), submission(id="id-2"))[0].evaluation_id != first.evaluation_id
    assert run(evaluator(safety_vote="any"))[0].evaluation_id != first.evaluation_id


# Deadlines and waits for a turn


def asking(flow: Flow, seconds: float) -> Answer:
    """Ask an endpoint behind flow control, which takes some time for each answer."""

    async def answer(_case: Case, criterion: Criterion) -> JudgeVerdict:
        await flow.call(lambda: asyncio.sleep(seconds), tokens=1, used=lambda _: 1, seconds=60.0)
        return verdict(criterion, BEST[criterion.name])

    return answer


def test_time_in_line_for_an_endpoint_counts_against_no_deadline() -> None:
    """Six calls of a fifth of a second each, one after the other, where a record has half a second."""

    async def inside() -> Evaluation:
        flow, longer = Flow(FlowLimits(concurrency=1)), patience(at_most=8.0)
        subject = evaluator(asking(flow, 0.2 * longer), flows={"http://judge": flow})
        return (await evaluate(subject, deadline=0.5 * longer))[0]

    evaluation = asyncio.run(inside())
    assert [dimension.status for dimension in evaluation.dimensions.values()] == [Status.SCORED] * 6


def test_time_after_sending_counts_against_the_deadline() -> None:
    async def inside() -> Evaluation:
        flow = Flow(FlowLimits(concurrency=64))
        return (await evaluate(evaluator(asking(flow, 0.9), flows={"http://judge": flow}), deadline=0.1))[0]

    evaluation = asyncio.run(inside())
    assert {dimension.reason for dimension in evaluation.dimensions.values()} == {Reason.TIMEOUT}
