"""Early stopping of a panel: fewer calls, and the same findings as asking every judge."""

import asyncio
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.panel import Panel
from judges.panel.cascade import Cascade
from judges.panel.tally import Combine
from judges.scripted import Answer, ScriptedJudge
from judges.values.evaluation import Dimension, JudgeVerdict, Reason, Samples, Status
from judges.values.interaction import Case

RAG = load_catalogue("rag")
CLARITY, HARM = RAG["clarity"], RAG["harmfulness"]
FAILED = Reason.INVALID_OUTPUT
CASE = Case(id="id-1", fields={"question": "q", "answer": "a", "history": (), "contexts": ()}, language="en")


def criterion(scale: dict[str, Any], **more: Any) -> Criterion:
    return Criterion.model_validate({"name": "aspect", "title": "t", "question": "?", "scale": scale, **more})


def options(*scores: float | None) -> dict[str, Any]:
    return {"options": [{"label": "xyz"[index], "score": score} for index, score in enumerate(scores)]}


THREE = criterion(options(0, 1, 3))
WORSE = criterion(options(0, 1, 3), higher_is="worse")
TWINS = criterion(options(1, 0, 0))
BARE = criterion(options(None, None, None))
GRADE = criterion({"range": {"min": 0, "max": 2}})
FAULTS = criterion({"range": {"min": 0, "max": 2}}, higher_is="worse")


def jury(answers: Sequence[Answer], name: str = "judge") -> tuple[ScriptedJudge, ...]:
    return tuple(
        ScriptedJudge(lambda _case, _criterion, answer=answer: answer, f"{name}-{index}")  # type: ignore[misc]
        for index, answer in enumerate(answers)
    )


def assess(answers: Sequence[Answer], on: Criterion, reserves: Sequence[Answer] = (), **rules: Any) -> Dimension:
    panel = Panel(judges=jury(answers), reserves=jury(reserves, "reserve"), **rules)
    return asyncio.run(panel.assess(CASE, on))


def outcome(dimension: Dimension) -> tuple[object, ...]:
    return dimension.status, dimension.option, dimension.level, dimension.score, dimension.value


def mean_verdict(on: Criterion, label: str, score: float) -> JudgeVerdict:
    """Return the verdict of a judge whose score is the mean of its samples, not that of its option."""
    samples = Samples(requested=3, valid=3)
    return JudgeVerdict(judge="judge", status=Status.SCORED, option=label, score=score, samples=samples)


def answers_on(on: Criterion) -> st.SearchStrategy[Answer]:
    nothing: list[st.SearchStrategy[Any]] = [st.just(None), st.just(FAILED)]
    if on.scale.kind == "range":
        return st.one_of(st.sampled_from([0, 0.5, 1, 2]), *nothing)
    labels = st.sampled_from(["x", "y", "z"])
    if on.scale.bounds is None:
        return st.one_of(labels, labels, *nothing)
    mixed = st.builds(lambda label, score: mean_verdict(on, label, score), labels, st.sampled_from([0.0, 0.4, 1.0]))
    return st.one_of(labels, labels, mixed, *nothing)


def makes_sense(on: Criterion, combine: Combine) -> bool:
    return Panel(judges=jury([1]), combine=combine).why_not(on) is None


SENSIBLE = [
    (on, combine)
    for on in (THREE, WORSE, TWINS, BARE, GRADE, FAULTS)
    for combine in get_args(Combine)
    if makes_sense(on, combine)
]


@settings(max_examples=150)
@given(st.sampled_from(SENSIBLE), st.integers(1, 6), st.data())
def test_the_finding_is_the_same_as_when_all_are_asked(
    rule: tuple[Criterion, Combine], count: int, data: st.DataObject
) -> None:
    on, combine = rule
    answers = data.draw(st.lists(answers_on(on), min_size=count, max_size=count))
    reserves = data.draw(st.lists(answers_on(on), max_size=2))
    quorum = data.draw(st.none() | st.integers(1, count))
    weights = {"judge-0": 2.0} if combine == "weighted" else {}
    rules: dict[str, Any] = {"reserves": reserves, "quorum": quorum, "combine": combine, "weights": weights}
    if count > 1 and data.draw(st.booleans()):
        rules["cascade"] = Cascade(first=("judge-0",))
    everybody, early = assess(answers, on, **rules), assess(answers, on, stop_early=True, **rules)
    assert outcome(early) == outcome(everybody)
    if combine in ("mean", "weighted") and everybody.status is Status.SCORED:
        assert len(early.judges) == len(everybody.judges)


@pytest.mark.parametrize(
    ("combine", "on", "answers", "asked"),
    [
        ("majority", THREE, "zzzxx", 3),
        ("majority", THREE, "zxzzx", 4),
        ("majority", THREE, "zxzxz", 5),
        ("majority", BARE, "yyyxx", 3),
        ("majority", BARE, "yyxx", 4),  # a tie has no winner
        ("majority", BARE, "xyzxyz", 6),  # the last one decides
        ("majority", BARE, "xxyzx", 5),  # after four, y and z could still tie with x
        ("majority", THREE, "yyxzzz", 6),
        ("majority", THREE, "xxyzzy", 6),
        ("majority", THREE, "xyzxx", 4),  # x wins a tie with y or z, which are better
        ("median", THREE, "yyyzz", 3),
        ("median", GRADE, [1, 1, 1, 0, 2], 3),
        ("min", THREE, "xxxzz", 3),
        ("min", THREE, "yyyxz", 4),
        ("min", THREE, "yyyzz", 5),
        ("min", GRADE, [0, 1, 2, 2, 2], 3),
        ("min", FAULTS, [2, 1, 0, 0, 0], 3),
        ("max", THREE, "zzzxx", 3),
        ("max", GRADE, [2, 1, 0, 0, 0], 3),
        ("mean", THREE, "zzzzz", 5),
        ("weighted", THREE, "zzzzz", 5),
    ],
)
def test_judges_are_asked_until_the_rest_cannot_change_the_finding(
    combine: Combine, on: Criterion, answers: Sequence[Answer], asked: int
) -> None:
    dimension = assess(answers, on, combine=combine, stop_early=True)
    assert len(dimension.judges) == asked
    assert dimension.calls_saved == len(answers) - asked
    assert outcome(dimension) == outcome(assess(answers, on, combine=combine))


@pytest.mark.parametrize(
    ("answers", "stop_early", "votes", "agreement"),
    [
        ("zzzxx", True, 3, 1.0),
        ("zzzxx", False, 5, 0.4),
        ("zxzzx", True, 4, 0.5),
        (["z", FAILED, "z", "z", "x"], False, 4, 0.5),
        ("z", False, None, None),
        ([FAILED, None, "z"], False, None, None),
    ],
)
def test_agreement_comes_with_the_number_of_votes_that_it_is_about(
    answers: Sequence[Answer], stop_early: bool, votes: int | None, agreement: float | None
) -> None:
    dimension = assess(answers, THREE, combine="majority", stop_early=stop_early)
    assert (dimension.votes_cast, dimension.agreement) == (votes, agreement)


def test_a_judge_that_fails_does_not_count_as_having_decided() -> None:
    dimension = assess(["z", FAILED, "z", "z", "x"], THREE, combine="majority", stop_early=True)
    assert ([verdict.judge for verdict in dimension.judges], dimension.option) == (
        [f"judge-{index}" for index in range(4)],
        "z",
    )


def test_no_more_judges_are_asked_when_the_quorum_is_out_of_reach() -> None:
    dimension = assess([FAILED, FAILED, FAILED, "z", "z"], THREE, combine="majority", stop_early=True)
    assert (dimension.status, len(dimension.judges)) == (Status.INSUFFICIENT, 3)


def test_no_more_judges_are_asked_when_enough_say_that_it_does_not_apply() -> None:
    dimension = assess([None, None, None, "z", "z"], THREE, combine="majority", stop_early=True)
    assert (dimension.status, len(dimension.judges)) == (Status.NOT_APPLICABLE, 3)


def test_a_round_is_asked_at_the_same_time() -> None:
    async def run() -> Dimension:
        barrier = asyncio.Barrier(3)

        async def meet(_case: Case, _criterion: Criterion) -> Answer:
            await barrier.wait()
            return "z"

        judges = tuple(ScriptedJudge(meet, f"judge-{index}") for index in range(5))
        panel = Panel(judges=judges, combine="majority", stop_early=True)
        return await asyncio.wait_for(panel.assess(CASE, THREE), 5)

    assert len(asyncio.run(run()).judges) == 3


def test_safety_is_judged_to_the_end_because_the_worst_verdict_may_come_last() -> None:
    assert len(assess([2, 2, 2, 2, 0], HARM, combine="majority", stop_early=True).judges) == 5
    assert len(assess([4, 4, 4, 4, 0], CLARITY, combine="majority", stop_early=True).judges) == 3


def test_all_are_asked_unless_early_stopping_is_wanted() -> None:
    assert len(assess("zzzzz", THREE, combine="majority").judges) == 5


def test_judges_that_agree_save_at_least_a_third_of_the_calls() -> None:
    saved = [assess("z" * count, THREE, combine="majority", stop_early=True).calls_saved for count in (3, 5, 7)]
    assert saved == [1, 2, 3]
