"""The panel: combining verdicts, quorum, broken judges, and votes that go to the worse."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.criteria import Criterion, load_catalogue
from judges.evaluation import Dimension, JudgeVerdict, Reason, Samples, Status
from judges.interaction import Case
from judges.judge import unscored
from judges.panel import Combine, Panel, Vote, safety_level, vote

RAG = load_catalogue("rag")
HARM, CLARITY, GROUNDED = RAG["harmfulness"], RAG["clarity"], RAG["groundedness"]
FAILED: Literal["failed"] = "failed"
ABSTAINED: Literal["abstained"] = "abstained"
Said = int | Literal["failed", "abstained"]

CASE = Case(id="id-1", fields={"question": "q", "answer": "a", "contexts": ("c",)}, language="en")


def wording(words: str) -> dict[str, str]:
    return {"en": words, "ru": f"по-русски: {words}"}


def criterion(higher_is: str = "better", top: int = 1) -> Criterion:
    levels = [
        {"value": value, "label": wording(f"level {value}"), "description": wording("…")} for value in range(top + 1)
    ]
    words = wording("words")
    return Criterion.model_validate(
        {
            "name": "aspect",
            "title": words,
            "question": words,
            "ignore": words,
            "scale": {"levels": levels},
            "higher_is": higher_is,
        }
    )


PASS_OR_FAIL = criterion()


class ScriptedJudge:
    """Answers by a function of the criterion."""

    identity = "scripted"

    def __init__(self, name: str, answer: Callable[[Criterion], Awaitable[JudgeVerdict]]) -> None:
        self.name = name
        self._answer = answer
        self.asked = 0
        self.closed = False

    async def judge(self, _case: Case, criterion: Criterion) -> JudgeVerdict:
        self.asked += 1
        return await self._answer(criterion)

    async def aclose(self) -> None:
        self.closed = True


def verdict(name: str, criterion: Criterion, said: Said) -> JudgeVerdict:
    if said == FAILED:
        return unscored(name, Reason.INVALID_OUTPUT, "no JSON", samples=Samples(requested=1, invalid=1))
    if said == ABSTAINED:
        return JudgeVerdict(judge=name, status=Status.NOT_APPLICABLE, samples=Samples(requested=1, valid=1))
    return JudgeVerdict(
        judge=name,
        status=Status.SCORED,
        score=criterion.normalise(said),
        level=said,
        samples=Samples(requested=1, valid=1),
    )


def saying(name: str, said: Said) -> ScriptedJudge:
    async def answer(criterion: Criterion) -> JudgeVerdict:
        return verdict(name, criterion, said)

    return ScriptedJudge(name, answer)


def raising(name: str, error: BaseException) -> ScriptedJudge:
    async def answer(_criterion: Criterion) -> JudgeVerdict:
        raise error

    return ScriptedJudge(name, answer)


def assess(judges: Sequence[ScriptedJudge], on: Criterion, *, case: Case = CASE, **options: Any) -> Dimension:
    return asyncio.run(Panel(judges=tuple(judges), **options).assess(case, on))


def found(said: Sequence[Said], on: Criterion = PASS_OR_FAIL, **options: Any) -> Dimension:
    return assess([saying(f"judge-{at}", each) for at, each in enumerate(said)], on, **options)


# Combining


def test_one_judge_passes_and_one_fails_is_a_mean_of_one_half() -> None:
    assert found([1, 0]).score == 0.5


def test_two_judges_pass_and_three_fail_is_a_mean_of_two_fifths() -> None:
    assert found([1, 1, 0, 0, 0]).score == 0.4


@pytest.mark.parametrize(("combine", "score"), [("mean", 0.5), ("median", 0.25), ("min", 0.0), ("max", 1.0)])
def test_rules_of_combination(combine: Combine, score: float) -> None:
    assert found([0, 1, 1, 4, 4], CLARITY, combine=combine).score == score


def test_every_rule_of_combination_is_covered_here() -> None:
    assert set(get_args(Combine)) == {"mean", "median", "min", "max"}


def test_the_median_of_an_even_count_is_the_mean_of_the_middle_two() -> None:
    assert found([0, 1, 3, 4], CLARITY, combine="median").score == 0.5


def test_spread_is_largest_minus_smallest_and_absent_for_one() -> None:
    assert found([1, 4, 2], CLARITY).spread == 0.75
    assert found([3, 3], CLARITY).spread == 0.0
    assert found([3], CLARITY).spread is None
    assert found([3, FAILED, FAILED], CLARITY, quorum=1).spread is None


def test_every_verdict_is_published_in_the_order_of_the_panel() -> None:
    dimension = found([1, FAILED, 0], quorum=1)
    assert [each.judge for each in dimension.judges] == ["judge-0", "judge-1", "judge-2"]
    assert [each.status for each in dimension.judges] == [Status.SCORED, Status.INSUFFICIENT, Status.SCORED]


@pytest.mark.parametrize(("language", "option"), [("en", "questionable"), ("ru", "сомнительно")])
def test_the_option_is_the_label_of_the_voted_level_in_the_language_of_the_case(
    language: Literal["en", "ru"], option: str
) -> None:
    case = Case(id="id-1", fields=CASE.fields, language=language)
    dimension = found([0, 1, 2], HARM, case=case)
    assert (dimension.level, dimension.option) == (1, option)


said_levels = st.lists(st.integers(min_value=0, max_value=4), min_size=1, max_size=7)
combines: st.SearchStrategy[Combine] = st.sampled_from(get_args(Combine))


def concluded(levels: Sequence[int], combine: Combine) -> Dimension:
    panel = Panel(judges=tuple(saying(f"judge-{at}", level) for at, level in enumerate(levels)), combine=combine)
    return panel.conclude(CLARITY, [verdict(f"judge-{at}", CLARITY, level) for at, level in enumerate(levels)], CASE)


@given(said_levels, st.data(), combines)
def test_one_judge_becoming_stricter_raises_neither_score_nor_level(
    levels: list[int], data: st.DataObject, combine: Combine
) -> None:
    at = data.draw(st.integers(min_value=0, max_value=len(levels) - 1))
    stricter = [*levels[:at], data.draw(st.integers(min_value=0, max_value=levels[at])), *levels[at + 1 :]]
    before, after = concluded(levels, combine), concluded(stricter, combine)
    assert before.score is not None
    assert after.score is not None
    assert before.level is not None
    assert after.level is not None
    assert after.score <= before.score
    assert after.level <= before.level


@given(said_levels, combines)
def test_a_panel_score_lies_between_its_judges(levels: list[int], combine: Combine) -> None:
    score = concluded(levels, combine).score
    assert score is not None
    assert min(levels) / 4 <= score <= max(levels) / 4


# Quorum


@pytest.mark.parametrize(
    ("said", "quorum", "status"),
    [
        ([1, 1, FAILED], None, Status.SCORED),
        ([1, FAILED, FAILED], None, Status.INSUFFICIENT),
        ([1, FAILED, FAILED], 1, Status.SCORED),
        ([1, 1, FAILED], 3, Status.INSUFFICIENT),
        ([1, FAILED], None, Status.INSUFFICIENT),
        ([1, 1, FAILED, FAILED], None, Status.INSUFFICIENT),
        ([FAILED], None, Status.INSUFFICIENT),
    ],
)
def test_a_score_needs_a_quorum_of_judges(said: list[Said], quorum: int | None, status: Status) -> None:
    dimension = found(said, quorum=quorum)
    assert dimension.status is status
    assert (dimension.score is None) == (dimension.level is None) == (status is not Status.SCORED)


def test_failed_judges_do_not_count_as_zero() -> None:
    assert found([1, 1, FAILED]).score == 1.0


def test_a_shared_reason_is_named_and_several_are_a_missed_quorum() -> None:
    assert found([FAILED, FAILED]).reason is Reason.INVALID_OUTPUT
    assert found([1, FAILED]).reason is Reason.INVALID_OUTPUT
    mixed = assess([saying("a", FAILED), raising("b", RuntimeError("down"))], PASS_OR_FAIL)
    assert mixed.reason is Reason.QUORUM
    assert found([1, ABSTAINED]).reason is Reason.QUORUM


@pytest.mark.parametrize("quorum", [0, -1, 3])
def test_a_quorum_that_no_panel_can_mean_is_refused(quorum: int) -> None:
    with pytest.raises(ValueError, match="quorum must be between 1 and the 2 judges"):
        Panel(judges=(saying("a", 1), saying("b", 1)), quorum=quorum)


def test_a_panel_needs_judges_with_distinct_names() -> None:
    with pytest.raises(ValueError, match="at least one judge"):
        Panel(judges=())
    with pytest.raises(ValueError, match="distinct names"):
        Panel(judges=(saying("a", 1), saying("a", 0)))


# Not applicable


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ([ABSTAINED], Status.NOT_APPLICABLE),
        ([ABSTAINED, ABSTAINED, 2], Status.NOT_APPLICABLE),
        ([ABSTAINED, 2, 2], Status.SCORED),
        ([ABSTAINED, FAILED, 2], Status.INSUFFICIENT),
        ([ABSTAINED, 2], Status.INSUFFICIENT),
    ],
)
def test_not_applicable_needs_as_many_judges_as_a_score(said: list[Said], status: Status) -> None:
    dimension = found(said, GROUNDED)
    assert dimension.status is status
    assert (dimension.score is not None) == (status is Status.SCORED)
    assert len(dimension.judges) == len(said)


@pytest.mark.parametrize("contexts", [(), ("",), (" \n", "\t")])
def test_without_what_it_needs_a_criterion_does_not_apply_and_no_judge_is_asked(contexts: tuple[str, ...]) -> None:
    judge = saying("a", 2)
    case = Case(id="id-1", fields={"question": "q", "answer": "a", "contexts": contexts}, language="en")
    dimension = assess([judge], GROUNDED, case=case)
    assert (dimension.status, dimension.reason) == (Status.NOT_APPLICABLE, Reason.NOTHING_TO_JUDGE)
    assert judge.asked == 0


def test_an_absent_field_that_is_needed_is_no_error() -> None:
    case = Case(id="id-1", fields={"question": "q", "answer": "a"}, language="en")
    assert found([2], GROUNDED, case=case).status is Status.NOT_APPLICABLE


# Judges that break their contract


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("no power"),
        TimeoutError(),
        KeyError("x"),
        asyncio.CancelledError("escaped from a client"),
        ValueError("half a pair: \ud83d"),
    ],
)
def test_a_judge_that_raises_has_no_verdict_and_the_others_still_do(error: BaseException) -> None:
    dimension = assess([saying("a", 1), raising("b", error), saying("c", 1)], PASS_OR_FAIL)
    assert (dimension.status, dimension.score) == (Status.SCORED, 1.0)
    broken = dimension.judges[1]
    assert (broken.status, broken.reason, broken.score) == (Status.INSUFFICIENT, Reason.UNAVAILABLE, None)
    assert broken.samples == Samples(requested=1, error=1)
    assert type(error).__name__ in (broken.detail or "")
    dimension.model_dump_json()  # whatever was raised, the result can be published


@pytest.mark.parametrize(("score", "level"), [(None, None), (None, 1), (0.5, None), (1.0, 7), (1.0, -1)], ids=str)
def test_a_verdict_that_is_scored_and_not_on_the_scale_does_not_vote(score: float | None, level: int | None) -> None:
    async def answer(_criterion: Criterion) -> JudgeVerdict:
        return JudgeVerdict(
            judge="b", status=Status.SCORED, score=score, level=level, samples=Samples(requested=1, valid=1)
        )

    dimension = assess([saying("a", 1), ScriptedJudge("b", answer), saying("c", 1)], PASS_OR_FAIL)
    assert (dimension.score, dimension.level) == (1.0, 1)
    assert (dimension.judges[1].status, dimension.judges[1].reason) == (Status.INSUFFICIENT, Reason.INVALID_OUTPUT)
    assert dimension.judges[1].samples == Samples(requested=1, invalid=1)


def test_judges_are_asked_at_the_same_time() -> None:
    async def run() -> Dimension:
        barrier = asyncio.Barrier(3)

        def meeting(name: str) -> ScriptedJudge:
            async def answer(criterion: Criterion) -> JudgeVerdict:
                await barrier.wait()
                return verdict(name, criterion, 1)

            return ScriptedJudge(name, answer)

        panel = Panel(judges=tuple(meeting(name) for name in "abc"))
        return await asyncio.wait_for(panel.assess(CASE, PASS_OR_FAIL), 5)

    assert asyncio.run(run()).score == 1.0


def test_cancelling_an_assessment_cancels_its_judges() -> None:
    ended: list[str] = []

    def hanging(name: str) -> ScriptedJudge:
        async def answer(_criterion: Criterion) -> JudgeVerdict:
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(name)
            raise AssertionError

        return ScriptedJudge(name, answer)

    async def run() -> None:
        task = asyncio.create_task(Panel(judges=(hanging("a"), hanging("b"))).assess(CASE, PASS_OR_FAIL))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert sorted(ended) == ["a", "b"]


def test_closing_a_panel_closes_its_judges() -> None:
    judges = (saying("a", 1), saying("b", 1))
    asyncio.run(Panel(judges=judges).aclose())
    assert all(judge.closed for judge in judges)


# Votes

votes = st.lists(st.integers(min_value=0, max_value=4), min_size=1, max_size=9)


@pytest.mark.parametrize(
    ("levels", "level"),
    [
        ([2], 2),
        ([0, 2], 0),
        ([2, 2, 0], 2),
        ([0, 0, 2], 0),
        ([0, 0, 2, 2], 0),
        ([0, 1, 2], 1),
        ([1, 1, 2, 2], 1),
        ([0, 0, 1, 1, 2], 1),
        ([0, 0, 1, 1, 1], 1),
    ],
)
def test_the_majority_wins_and_a_tie_goes_to_the_worse(levels: list[int], level: int) -> None:
    assert vote(levels) == level
    assert vote(list(reversed(levels))) == level


@given(votes, st.data())
def test_lowering_any_one_vote_never_raises_the_result(levels: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(min_value=0, max_value=len(levels) - 1))
    lower = data.draw(st.integers(min_value=0, max_value=levels[at]))
    assert vote([*levels[:at], lower, *levels[at + 1 :]]) <= vote(levels)


@given(votes)
def test_a_strict_majority_is_the_result(levels: list[int]) -> None:
    for level in set(levels):
        if 2 * levels.count(level) > len(levels):
            assert vote(levels) == level


@given(votes)
def test_the_result_was_given_by_a_judge_and_half_say_it_or_worse(levels: list[int]) -> None:
    result = vote(levels)
    assert result in levels
    assert 2 * sum(level <= result for level in levels) >= len(levels)
    assert 2 * sum(level < result for level in levels) < len(levels)


@given(votes)
def test_where_higher_is_worse_the_vote_is_mirrored(levels: list[int]) -> None:
    assert vote(levels, worst_first=False) == -vote([-level for level in levels])


def test_a_tie_on_a_scale_where_higher_is_worse_goes_to_the_higher() -> None:
    dimension = found([0, 3], criterion("worse", top=3))
    assert (dimension.level, dimension.score) == (3, 0.5)


@pytest.mark.parametrize(
    ("said", "rule", "level"),
    [
        ([2, 2, 0], "majority", 2),
        ([2, 2, 0], "any", 0),
        ([2, 2, 1], "any", 1),
        ([2, 0], "majority", 0),
        ([2, 2, 2], "any", 2),
        ([2, 2, FAILED], "any", 2),
        ([0, 2, FAILED], "any", 0),
        ([2, FAILED, FAILED], "majority", None),
        ([2, FAILED, FAILED], "any", None),
        ([FAILED], "any", None),
        ([ABSTAINED], "majority", None),
    ],
)
def test_the_safety_level_is_the_majority_or_with_any_the_worst_one_judge_gave(
    said: list[Said], rule: Vote, level: int | None
) -> None:
    assert safety_level(found(said, HARM), rule) == level


def test_no_safety_dimension_is_no_safety_level() -> None:
    assert safety_level(None, "majority") is None
    assert safety_level(None, "any") is None


def test_a_judge_that_hangs_costs_only_its_own_vote() -> None:
    """Two of three have said it is harmful: the third cannot undo that by saying nothing."""

    async def never(_criterion: Criterion) -> JudgeVerdict:
        await asyncio.sleep(60)
        raise AssertionError

    judges = (saying("a", 0), saying("b", 0), ScriptedJudge("c", never))
    dimension = asyncio.run(Panel(judges=judges).assess(CASE, PASS_OR_FAIL, seconds=0.2))
    assert dimension.status is Status.SCORED
    assert dimension.level == 0
    assert [verdict.reason for verdict in dimension.judges] == [None, None, Reason.TIMEOUT]


@pytest.mark.parametrize(("said", "level"), [((0, FAILED, FAILED), 0), ((1, FAILED, FAILED), None)])
def test_with_any_one_harmful_verdict_is_enough_without_a_quorum_and_a_good_one_is_not(
    said: tuple[Any, ...], level: int | None
) -> None:
    dimension = assess([saying(f"judge-{at}", each) for at, each in enumerate(said)], PASS_OR_FAIL)
    assert dimension.status is Status.INSUFFICIENT
    assert safety_level(dimension, "any") == level
    assert safety_level(dimension, "majority") is None
