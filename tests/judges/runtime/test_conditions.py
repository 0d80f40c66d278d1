"""Conditions: work that is left out to save money, and work that never is."""

import asyncio
from typing import Any

import pytest

from judges.cache import CachedJudge, MemoryStore
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.judge import Judge
from judges.llm.methods.aspect import AspectCritic
from judges.llm.methods.direct import DirectJudge
from judges.models.providers import OpenAIModel
from judges.panel import Panel
from judges.panel.cascade import Cascade
from judges.runtime.conditions import NO_SAVINGS, Conditions, Savings, current_conditions, judging_under
from judges.scripted import Answer, ScriptedJudge
from judges.values.evaluation import Dimension, Path, Reason, Status
from judges.values.interaction import Case
from tests.parts.endpoints.judge_endpoint import JudgeEndpoint

RAG = load_catalogue("rag")
CLARITY, HARM = RAG["clarity"], RAG["harmfulness"]
CASE = Case(id="1", fields={"question": "q", "answer": "a", "history": (), "contexts": ("c",)}, language="en")
CHEAP_FIRST = Cascade(first=("a",))


def saying(name: str, answer: Answer) -> ScriptedJudge:
    return ScriptedJudge(lambda _case, _criterion: answer, name)


def assess(savings: Savings, *judges: Judge, on: Criterion = CLARITY, **options: Any) -> Dimension:
    async def run() -> Dimension:
        with judging_under(Conditions(savings=savings)):
            return await Panel(judges=judges, **options).assess(CASE, on)

    return asyncio.run(run())


def judges_asked(dimension: Dimension) -> list[str]:
    return [verdict.judge for verdict in dimension.judges]


def test_it_is_bound_for_tasks_that_begin_inside_and_for_nothing_else() -> None:
    async def observe() -> tuple[Savings, Savings]:
        async def look() -> Savings:
            return current_conditions().savings

        with judging_under(Conditions(savings=Savings(samples=True))):
            task = asyncio.create_task(look())
        return await task, current_conditions().savings

    assert asyncio.run(observe()) == (Savings(samples=True), NO_SAVINGS)
    assert (NO_SAVINGS.names, Savings(samples=True, cascade=True).names) == ((), ("samples", "cascade"))


@pytest.mark.parametrize(
    ("savings", "criterion", "heard"),
    [
        (NO_SAVINGS, CLARITY, ["a", "r"]),
        (Savings(reserves=True), CLARITY, ["a"]),
        (Savings(reserves=True), HARM, ["a", "r"]),
    ],
)
def test_without_reserves_a_failed_judge_is_replaced_only_for_safety(
    savings: Savings, criterion: Criterion, heard: list[str]
) -> None:
    failing = saying("a", Reason.UNAVAILABLE)
    dimension = assess(savings, failing, on=criterion, reserves=(saying("r", 2),))
    assert judges_asked(dimension) == heard
    assert (dimension.status is Status.SCORED) is (len(heard) == 2)


@pytest.mark.parametrize(
    ("savings", "criterion", "first", "path"),
    [
        (NO_SAVINGS, CLARITY, 4, None),
        (Savings(cascade=True), CLARITY, 4, Path.FIRST),
        (Savings(cascade=True), CLARITY, 2, Path.FULL_THRESHOLD),
        (Savings(cascade=True), HARM, 2, Path.FULL_SAFETY),
    ],
)
def test_a_panel_becomes_a_cascade_and_hears_all_in_doubt_and_about_safety(
    savings: Savings, criterion: Criterion, first: int, path: Path | None
) -> None:
    dimension = assess(savings, saying("a", first), saying("b", 1), on=criterion, frugal=CHEAP_FIRST)
    assert dimension.path == path
    assert judges_asked(dimension) == (["a"] if path is Path.FIRST else ["a", "b"])


def test_a_panel_with_a_cascade_keeps_its_own() -> None:
    dimension = assess(
        Savings(cascade=True), saying("a", 4), saying("b", 4), cascade=Cascade(first=("b",)), frugal=CHEAP_FIRST
    )
    assert judges_asked(dimension) == ["b"]


def test_possible_savings_do_not_change_the_judges() -> None:
    judges = (saying("a", 4), saying("b", 4))
    assert Panel(judges=judges).identity == Panel(judges=judges, frugal=CHEAP_FIRST).identity


@pytest.mark.parametrize("options", [{"samples": 5}, {"samples": 5, "min_valid": 5}])
def test_one_sample_is_taken_instead_of_several(options: dict[str, Any]) -> None:
    with JudgeEndpoint() as endpoint:
        verdict = judge_with(DirectJudge(OpenAIModel("m", base_url=endpoint.base_url), **options), CLARITY)
        assert len(endpoint.calls) == 1
        assert endpoint.calls[0]["temperature"] == 0.0, "as where one was wanted"
    assert verdict.status is Status.SCORED
    assert (verdict.samples.requested, verdict.samples.valid) == (1, 1)


def test_a_judge_that_needs_three_of_five_to_pass_needs_one_of_one() -> None:
    scale = {"binary": {"passes": "polite", "fails": "rude"}}
    polite = Criterion.model_validate({"name": "polite", "title": "t", "question": "Is it polite?", "scale": scale})
    with JudgeEndpoint() as endpoint:
        critic = AspectCritic(OpenAIModel("m", base_url=endpoint.base_url), strictness=5, min_pass=3)
        assert judge_with(critic, polite).score == 1.0
        assert len(endpoint.calls) == 1


def test_a_verdict_of_fewer_samples_is_not_cached_for_full_budgets() -> None:
    with JudgeEndpoint() as endpoint:
        model = OpenAIModel("m", base_url=endpoint.base_url)
        judge = CachedJudge(DirectJudge(model, samples=3), MemoryStore(10, 60.0))

        async def poor_then_rich_then_poor() -> list[tuple[int, bool]]:
            verdicts = []
            for savings in (Savings(samples=True), NO_SAVINGS, Savings(samples=True)):
                with judging_under(Conditions(savings=savings)):
                    verdict = await judge.judge(CASE, CLARITY)
                verdicts.append((verdict.samples.requested, verdict.cached))
            await judge.aclose()
            return verdicts

        assert asyncio.run(poor_then_rich_then_poor()) == [(1, False), (3, False), (3, True)]


def judge_with(judge: Judge, criterion: Criterion) -> Any:
    async def once() -> Any:
        with judging_under(Conditions(savings=Savings(samples=True))):
            verdict = await judge.judge(CASE, criterion)
        await judge.aclose()
        return verdict

    return asyncio.run(once())
