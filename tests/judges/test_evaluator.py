"""The evaluator: deadlines, notices that do not wait, and names that stay the same for the same work."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from judges.composite import CompositeRule
from judges.criteria import RAG_DIMENSIONS, SAFETY_DIMENSION, Criterion, load_catalogue
from judges.evaluation import (
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
from judges.evaluator import Evaluator, Submission
from judges.interaction import Case, Interaction
from judges.panel import Panel

RAG = load_catalogue("rag")
BEST = {name: criterion.scale.values[-1] for name, criterion in RAG.items()}
Answer = Callable[[Case, Criterion], Awaitable[JudgeVerdict]]


class ScriptedJudge:
    def __init__(self, answer: Answer, *, name: str = "scripted", identity: str = "scripted v1") -> None:
        self.name = name
        self.identity = identity
        self._answer = answer
        self.closed = False

    async def judge(self, case: Case, criterion: Criterion) -> JudgeVerdict:
        return await self._answer(case, criterion)

    async def aclose(self) -> None:
        self.closed = True


def verdict(criterion: Criterion, level: int, **more: Any) -> JudgeVerdict:
    return JudgeVerdict(
        judge="scripted",
        status=Status.SCORED,
        score=criterion.normalise(level),
        level=level,
        samples=Samples(requested=1, valid=1),
        **more,
    )


def levels(**given: int) -> Answer:
    """The best level everywhere, but for those given."""

    async def answer(_case: Case, criterion: Criterion) -> JudgeVerdict:
        return verdict(criterion, given.get(criterion.name, BEST[criterion.name]))

    return answer


def evaluator(*answers: Answer, **options: Any) -> Evaluator:
    judges = tuple(ScriptedJudge(answer, name=f"judge-{at}") for at, answer in enumerate(answers or (levels(),)))
    return Evaluator(RAG, Panel(judges=judges), **{"rule": CompositeRule(), "version": "1.2.3", **options})


def submission(**fields: Any) -> Submission:
    document = {"id": "id-1", "question": "Why?", "answer": "So.", "contexts": [{"text": "Because."}], **fields}
    return Submission(interaction=Interaction.model_validate(document), sampling=Sampling(probability=0.25, rule="r"))


async def evaluate(
    subject: Evaluator, given: Submission | None = None, *, deadline: float = 5.0
) -> tuple[Evaluation, list[SafetyNotice]]:
    notices: list[SafetyNotice] = []
    result = await subject.evaluate(given or submission(), deadline=deadline, on_unsafe=notices.append)
    assert asyncio.all_tasks() == {asyncio.current_task()}, "tasks were left behind"
    return result, notices


def run(
    subject: Evaluator, given: Submission | None = None, *, deadline: float = 5.0
) -> tuple[Evaluation, list[SafetyNotice]]:
    return asyncio.run(evaluate(subject, given, deadline=deadline))


# What an evaluation says


def test_an_evaluation_carries_what_is_known_about_its_interaction() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    tags = {"regime": "healthy", "n": 3, "flag": True}
    given = submission(app="shop", tenant="acme", model="m", tags=tags, traceparent=trace)
    before = datetime.now(UTC)
    found, _ = run(evaluator(), Submission(interaction=given.interaction, sampling=given.sampling, truncated=("x",)))
    assert (found.interaction_id, found.app, found.tenant, found.model) == ("id-1", "shop", "acme", "m")
    assert (found.tags, found.traceparent, found.truncated) == (tags, trace, ("x",))
    assert found.sampling == Sampling(probability=0.25, rule="r", lane="main")
    assert found.evaluator.criteria == RAG_DIMENSIONS
    assert (found.evaluator.judges, found.evaluator.version) == (("judge-0",), "1.2.3")
    assert before <= found.evaluated_at <= datetime.now(UTC)
    assert tuple(found.dimensions) == RAG_DIMENSIONS
    assert (found.composite.score, found.composite.status) == (1.0, CompositeStatus.OK)
    assert found.latency_ms > 0


def test_scores_of_the_panel_become_the_composite() -> None:
    found, _ = run(evaluator(levels(clarity=0, harmfulness=1), levels(clarity=4, harmfulness=2)))
    assert found.dimensions["clarity"].score == 0.5
    # Two judges differ on safety: the vote is the worse level, 1, and weighs 1.5 with the panel's mean of 0.75.
    assert found.composite.safety.level == 1
    assert found.composite.score == pytest.approx(min(5.25 / 6, (4.5 + 1.5 * 0.75) / 6.5))


def test_without_contexts_groundedness_does_not_apply_and_coverage_says_so() -> None:
    found, _ = run(evaluator(), submission(contexts=[]))
    assert found.dimensions["groundedness"].status is Status.NOT_APPLICABLE
    assert found.composite.status is CompositeStatus.OK
    assert found.composite.coverage == pytest.approx(5 / 6)


def test_cost_is_the_sum_of_what_is_known_and_absent_when_nothing_is() -> None:
    async def costly(_case: Case, criterion: Criterion) -> JudgeVerdict:
        return verdict(criterion, BEST[criterion.name], cost_usd=0.5 if criterion.name == "clarity" else None)

    assert run(evaluator(costly, levels()))[0].cost_usd == 0.5
    assert run(evaluator())[0].cost_usd is None


@pytest.mark.parametrize(
    ("chars", "answer", "excerpt"),
    [(10, "short", "short"), (5, "short", "short"), (4, "short", "sho…"), (9, "two\n\n  words", "two words")],
)
def test_an_excerpt_is_flat_and_short(chars: int, answer: str, excerpt: str) -> None:
    found, _ = run(evaluator(excerpt_chars=chars), submission(answer=answer))
    assert found.excerpt is not None
    assert found.excerpt.answer == excerpt


def test_no_excerpt_is_kept_where_none_is_wanted() -> None:
    assert run(evaluator(excerpt_chars=0))[0].excerpt is None


@pytest.mark.parametrize(("language", "spoken"), [("auto", "ru"), ("en", "en"), ("ru", "ru")])
def test_the_language_follows_the_interaction_unless_it_is_fixed(language: str, spoken: str) -> None:
    heard: set[str] = set()

    async def answer(case: Case, criterion: Criterion) -> JudgeVerdict:
        heard.add(case.language)
        return verdict(criterion, BEST[criterion.name])

    run(evaluator(answer, language=language), submission(question="Почему?", answer="Потому."))
    assert heard == {spoken}


def test_a_rule_about_something_that_is_no_criterion_is_refused() -> None:
    with pytest.raises(ValueError, match="groundednes'"):
        evaluator(rule=CompositeRule(required=frozenset({"groundednes"})))
    with pytest.raises(ValueError, match="clarty"):
        evaluator(rule=CompositeRule(weights={"clarty": 2.0}))


def test_closing_an_evaluator_closes_its_judges() -> None:
    judge = ScriptedJudge(levels())
    asyncio.run(Evaluator(RAG, Panel(judges=(judge,)), rule=CompositeRule(), version="1").aclose())
    assert judge.closed


# The deadline


def hanging_on(*names: str, ended: list[str]) -> Answer:
    async def answer(_case: Case, criterion: Criterion) -> JudgeVerdict:
        if criterion.name in names:
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(criterion.name)
        return verdict(criterion, BEST[criterion.name])

    return answer


def test_what_is_not_decided_by_the_deadline_is_unscored_and_nothing_is_left_running() -> None:
    ended: list[str] = []
    started = time.monotonic()
    found, notices = run(evaluator(hanging_on(*RAG_DIMENSIONS, ended=ended)), deadline=0.05)
    assert time.monotonic() - started < 5
    for dimension in found.dimensions.values():
        assert (dimension.status, dimension.reason) == (Status.INSUFFICIENT, Reason.TIMEOUT)
        assert dimension.score is None
    assert sorted(ended) == sorted(RAG_DIMENSIONS)
    assert (found.composite.score, found.composite.status) == (None, CompositeStatus.SAFETY_UNKNOWN)
    assert notices == []


def test_what_was_decided_by_the_deadline_counts() -> None:
    ended: list[str] = []
    found, _ = run(evaluator(hanging_on("clarity", ended=ended)), deadline=0.5)
    assert found.dimensions["clarity"].reason is Reason.TIMEOUT
    assert all(each.status is Status.SCORED for name, each in found.dimensions.items() if name != "clarity")
    assert found.composite.status is CompositeStatus.OK
    assert found.composite.coverage == pytest.approx(5 / 6)
    assert ended == ["clarity"]


def test_a_deadline_that_has_passed_leaves_everything_that_has_to_wait_unscored() -> None:
    found, _ = run(evaluator(hanging_on(*RAG_DIMENSIONS, ended=[])), deadline=0.0)
    assert {each.reason for each in found.dimensions.values()} == {Reason.TIMEOUT}


def test_a_notice_that_cannot_be_sent_fails_the_evaluation_and_is_not_lost() -> None:
    """Whoever judged must hear of it: an evaluation without its notice would look complete."""

    async def harmful(_case: Case, criterion: Criterion) -> JudgeVerdict:
        return verdict(criterion, 0 if criterion.name == SAFETY_DIMENSION else BEST[criterion.name])

    def refuse(_notice: SafetyNotice) -> None:
        raise ConnectionError("away")

    with pytest.raises(ConnectionError):
        asyncio.run(evaluator(harmful).evaluate(submission(), deadline=5, on_unsafe=refuse))


def test_cancelling_an_evaluation_cancels_its_judges() -> None:
    ended: list[str] = []

    async def cancelled() -> None:
        task = asyncio.create_task(evaluate(evaluator(hanging_on(*RAG_DIMENSIONS, ended=ended)), deadline=60))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(cancelled())
    assert sorted(ended) == sorted(RAG_DIMENSIONS)


def test_a_cancellation_that_a_judge_lets_escape_is_an_unscored_dimension_and_not_a_lost_record() -> None:
    async def answer(_case: Case, criterion: Criterion) -> JudgeVerdict:
        if criterion.name == "clarity":
            raise asyncio.CancelledError
        return verdict(criterion, BEST[criterion.name])

    found, _ = run(evaluator(answer))
    assert found.dimensions["clarity"].reason is Reason.UNAVAILABLE
    assert found.composite.coverage == pytest.approx(5 / 6)


# Safety notices


def test_an_unsafe_notice_is_sent_while_other_dimensions_are_still_open() -> None:
    """The other verdicts wait for the notice: were it sent last, they would run into the deadline."""

    async def noticed() -> tuple[Evaluation, list[SafetyNotice]]:
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

    found, notices = asyncio.run(noticed())
    assert all(dimension.status is Status.SCORED for dimension in found.dimensions.values())
    assert (found.composite.score, found.composite.status) == (0.0, CompositeStatus.UNSAFE)
    [notice] = notices
    assert notice.evaluation_id == found.evaluation_id
    assert notice.safety.status is SafetyStatus.UNSAFE
    assert notice.dimension == found.dimensions["harmfulness"]
    assert notice.noticed_at <= found.evaluated_at


def test_a_notice_is_sent_even_if_everything_else_misses_the_deadline() -> None:
    ended: list[str] = []
    hanging = hanging_on(*(name for name in RAG_DIMENSIONS if name != "harmfulness"), ended=ended)

    async def answer(case: Case, criterion: Criterion) -> JudgeVerdict:
        return verdict(criterion, 0) if criterion.name == "harmfulness" else await hanging(case, criterion)

    found, notices = run(evaluator(answer), deadline=0.5)
    assert len(notices) == 1
    assert found.composite.status is CompositeStatus.UNSAFE


def test_notice_and_evaluation_say_the_same_about_their_interaction() -> None:
    given = submission(app="shop", tenant="acme", model="m", tags={"k": 1}, traceparent="00-a-b-01")
    found, [notice] = run(evaluator(levels(harmfulness=0), excerpt_chars=20), given)
    shared = SafetyNotice.model_fields.keys() & Evaluation.model_fields.keys()
    assert {name: getattr(notice, name) for name in shared} == {name: getattr(found, name) for name in shared}
    assert shared >= {"evaluation_id", "interaction_id", "app", "tenant", "model", "tags", "sampling", "excerpt"}


@pytest.mark.parametrize("level", [1, 2])
def test_no_notice_is_sent_for_what_is_not_unsafe(level: int) -> None:
    assert run(evaluator(levels(harmfulness=level)))[1] == []


def test_the_safety_vote_decides_about_the_notice() -> None:
    judges = (levels(harmfulness=0), levels(), levels())
    found, notices = run(evaluator(*judges, safety_vote="majority"))
    assert (notices, found.composite.status) == ([], CompositeStatus.OK)
    found, notices = run(evaluator(*judges, safety_vote="any"))
    assert (len(notices), found.composite.status) == (1, CompositeStatus.UNSAFE)
    assert found.composite.safety.level == notices[0].safety.level == 0


def test_criteria_without_safety_are_never_safe() -> None:
    subject = Evaluator(
        {"clarity": RAG["clarity"]}, Panel(judges=(ScriptedJudge(levels()),)), rule=CompositeRule(), version="1"
    )
    assert run(subject)[0].composite.status is CompositeStatus.SAFETY_UNKNOWN


# Names


def fingerprint(
    criteria: Mapping[str, Criterion] = RAG,
    *,
    judges: tuple[tuple[str, str], ...] = (("a", "model-1 t=0"), ("b", "model-2 t=0")),
    panel: Mapping[str, Any] | None = None,
    **options: Any,
) -> str:
    asked = tuple(ScriptedJudge(levels(), name=name, identity=identity) for name, identity in judges)
    basis = {"rule": CompositeRule(), "version": "1"}
    return Evaluator(criteria, Panel(judges=asked, **(panel or {})), **{**basis, **options}).info.fingerprint


def reworded() -> Mapping[str, Criterion]:
    level = RAG["clarity"].scale.levels[0]
    changed = level.model_copy(update={"description": level.description.model_copy(update={"ru": "Иначе."})})
    scale = RAG["clarity"].scale.model_copy(update={"levels": (changed, *RAG["clarity"].scale.levels[1:])})
    return {**RAG, "clarity": RAG["clarity"].model_copy(update={"scale": scale})}


DIFFERENT: Mapping[str, Callable[[], str]] = {
    "a wording": lambda: fingerprint(reworded()),
    "a dimension less": lambda: fingerprint({name: each for name, each in RAG.items() if name != "clarity"}),
    "a weight": lambda: fingerprint(rule=CompositeRule(weights={"clarity": 2.0})),
    "another weight": lambda: fingerprint(rule=CompositeRule(weights={"conciseness": 2.0})),
    "a required dimension": lambda: fingerprint(rule=CompositeRule(required=frozenset({"clarity"}))),
    "another required one": lambda: fingerprint(rule=CompositeRule(required=frozenset({"groundedness"}))),
    "a judge's identity": lambda: fingerprint(judges=(("a", "model-1 t=0"), ("b", "model-2 t=1"))),
    "a judge's name": lambda: fingerprint(judges=(("a", "model-1 t=0"), ("c", "model-2 t=0"))),
    "a judge less": lambda: fingerprint(judges=(("a", "model-1 t=0"),)),
    "the rule of combination": lambda: fingerprint(panel={"combine": "min"}),
    "the quorum": lambda: fingerprint(panel={"quorum": 1}),
    "the safety vote": lambda: fingerprint(safety_vote="any"),
    "the language": lambda: fingerprint(language="ru"),
}


@pytest.mark.parametrize("change", DIFFERENT)
def test_a_fingerprint_changes_with_whatever_can_change_a_result(change: str) -> None:
    assert DIFFERENT[change]() != fingerprint()


def test_different_changes_have_different_fingerprints() -> None:
    assert len({make() for make in DIFFERENT.values()}) == len(DIFFERENT)


@pytest.mark.parametrize(
    "options",
    [
        {"version": "2"},
        {"excerpt_chars": 500},
        {"rule": CompositeRule(weights={"clarity": 1.0})},
        {"rule": CompositeRule(weights={"clarity": 1})},
        {"panel": {"quorum": 2}},
        {"panel": {"combine": "mean"}},
        {"safety_vote": "majority"},
    ],
    ids=str,
)
def test_a_fingerprint_stays_with_whatever_cannot(options: dict[str, Any]) -> None:
    assert fingerprint(**options) == fingerprint()


def test_the_order_in_which_weights_are_written_does_not_matter() -> None:
    one = CompositeRule(weights={"clarity": 2.0, "groundedness": 3.0})
    other = CompositeRule(weights={"groundedness": 3.0, "clarity": 2.0})
    assert fingerprint(rule=one) == fingerprint(rule=other)


IN_ANOTHER_PROCESS = """
from judges.composite import CompositeRule
from judges.criteria import load_catalogue
from judges.evaluator import Evaluator
from judges.panel import Panel

class Judge:
    name, identity = "a", "model-1 t=0"

rule = CompositeRule(weights={"clarity": 2.0}, required=frozenset({"clarity", "groundedness", "harmfulness"}))
print(Evaluator(load_catalogue("rag"), Panel(judges=(Judge(),)), rule=rule, version="1").info.fingerprint)
"""


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    names = frozenset({"harmfulness", "groundedness", "clarity"})
    here = fingerprint(judges=(("a", "model-1 t=0"),), rule=CompositeRule(weights={"clarity": 2.0}, required=names))
    for seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", IN_ANOTHER_PROCESS], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == here


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
def test_evaluation_ids_are_fixed_for_ever(interaction_id: str, golden: str) -> None:
    assert evaluation_id(interaction_id, "0123456789abcdef") == golden


def test_the_same_work_has_the_same_name_and_other_work_another() -> None:
    first, again = run(evaluator())[0], run(evaluator())[0]
    assert first.evaluation_id == again.evaluation_id == evaluation_id("id-1", first.evaluator.fingerprint)
    assert run(evaluator(), submission(id="id-2"))[0].evaluation_id != first.evaluation_id
    assert run(evaluator(safety_vote="any"))[0].evaluation_id != first.evaluation_id
