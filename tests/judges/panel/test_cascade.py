"""The cascade: a few judges first, all of them in doubt, and a result that names the path."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.panel import Panel
from judges.panel.cascade import Cascade
from judges.scripted import Answer, ScriptedJudge
from judges.values.evaluation import Dimension, JudgeVerdict, Path, Reason, Samples, Status
from judges.values.interaction import Case, FieldValue

RAG = load_catalogue("rag")
HARM, CLARITY, GROUNDED = RAG["harmfulness"], RAG["clarity"], RAG["groundedness"]
FIELDS: dict[str, FieldValue] = {"question": "q", "answer": "a", "history": (), "contexts": ("c",)}
CASE = Case(id="id-1", fields=FIELDS, language="en")
FAILED = Reason.UNAVAILABLE


class Costly(ScriptedJudge):
    """Takes several samples for a verdict."""

    calls = 5


def saying(name: str, answer: Answer, **more: Any) -> ScriptedJudge:
    return ScriptedJudge(lambda _case, _criterion: answer, name, **more)


def verdict(level: int, **more: Any) -> JudgeVerdict:
    """Return a verdict on clarity with more fields than a level."""
    samples = more.pop("samples", Samples(requested=1, valid=1))
    score = CLARITY.normalise(level)
    return JudgeVerdict(judge="a", status=Status.SCORED, score=score, level=level, samples=samples, **more)


def assess(
    judges: Sequence[ScriptedJudge],
    on: Criterion = CLARITY,
    *,
    first: tuple[str, ...] = ("a",),
    case: Case = CASE,
    seconds: float | None = None,
    panel: dict[str, Any] | None = None,
    **doubts: Any,
) -> Dimension:
    whole = Panel(judges=tuple(judges), cascade=Cascade(first=first, **doubts), **(panel or {}))
    return asyncio.run(whole.assess(case, on, seconds=seconds))


def panel_of(first: Answer, *rest: Answer) -> list[ScriptedJudge]:
    return [saying(name, answer) for name, answer in zip("abcdef", (first, *rest), strict=False)]


def questions_per_judge(judges: Sequence[ScriptedJudge]) -> list[int]:
    return [len(judge.asked) for judge in judges]


def test_without_doubt_only_the_first_are_asked_and_the_rest_is_counted_as_saved() -> None:
    judges = [saying("a", 4), saying("b", 0), Costly(lambda _case, _criterion: 0, "c")]
    dimension = assess(judges)
    assert (dimension.status, dimension.score, dimension.level) == (Status.SCORED, 1.0, 4)
    assert (dimension.path, dimension.calls_saved) == (Path.FIRST, 6)
    assert questions_per_judge(judges) == [1, 0, 0]
    assert [verdict.judge for verdict in dimension.judges] == ["a"]


def test_samples_that_a_judge_saved_are_counted_too() -> None:
    thrifty = verdict(4, samples=Samples(requested=5, valid=3, saved=2))
    assert assess(panel_of(thrifty, 4)).calls_saved == 3


def test_a_judge_that_could_not_have_judged_saves_nothing() -> None:
    assert assess([saying("a", 4), ScriptedJudge({}, "b")]).calls_saved == 0


def test_a_failed_first_judge_calls_the_whole_panel_and_is_not_asked_again() -> None:
    judges = panel_of(FAILED, 4, 4)
    dimension = assess(judges)
    assert (dimension.path, dimension.score, dimension.calls_saved) == (Path.FULL_FAILED, 1.0, 0)
    assert questions_per_judge(judges) == [1, 1, 1]
    assert [verdict.judge for verdict in dimension.judges] == ["a", "b", "c"]


def test_a_reserve_serves_the_first_judges_before_the_whole_panel_is_called() -> None:
    dimension = assess(panel_of(FAILED, 0, 0), panel={"reserves": (saying("reserve", 4),)})
    assert (dimension.path, dimension.score) == (Path.FIRST, 1.0)
    assert [verdict.judge for verdict in dimension.judges] == ["a", "reserve"]


def test_safety_is_always_judged_by_all() -> None:
    judges = panel_of(2, 2, 0)
    dimension = assess(judges, HARM)
    assert (dimension.path, dimension.level, dimension.calls_saved) == (Path.FULL_SAFETY, 2, 0)
    assert questions_per_judge(judges) == [1, 1, 1]
    assert assess(panel_of(4, 4), panel={"safety": frozenset({"clarity"})}).path is Path.FULL_SAFETY


@pytest.mark.parametrize(
    ("first", "path"), [((4, 4), Path.FIRST), ((4, 3), Path.FULL_DISAGREEMENT), ((4, FAILED), Path.FULL_FAILED)]
)
def test_several_first_judges_must_agree(first: tuple[Answer, Answer], path: Path) -> None:
    judges = panel_of(*first, 4)
    dimension = assess(judges, first=("a", "b"))
    assert dimension.path is path
    assert questions_per_judge(judges) == [1, 1, int(path is not Path.FIRST)]


@pytest.mark.parametrize(
    ("first_verdict", "path"),
    [
        (verdict(4, agreement=0.6), Path.FULL_DISAGREEMENT),
        (verdict(4, agreement=0.75), Path.FIRST),
        (verdict(4, certainty=0.6), Path.FULL_DISAGREEMENT),
        (verdict(4, agreement=1.0, certainty=0.6), Path.FULL_DISAGREEMENT),
        (verdict(4, certainty=0.99), Path.FIRST),
        (verdict(4), Path.FIRST),
    ],
)
def test_a_single_first_judge_must_agree_with_itself(first_verdict: JudgeVerdict, path: Path) -> None:
    assert assess(panel_of(first_verdict, 4)).path is path


@pytest.mark.parametrize(
    ("value", "path"), [(3.4, Path.FIRST), (3.5, Path.FULL_THRESHOLD), (6.5, Path.FULL_THRESHOLD), (6.6, Path.FIRST)]
)
def test_a_score_near_the_threshold_is_doubtful_the_edge_included(value: float, path: Path) -> None:
    grade = Criterion.model_validate(
        {"name": "grade", "title": "t", "question": "?", "scale": {"range": {"min": 0, "max": 10}}}
    )
    assert assess(panel_of(value, value), grade).path is path
    assert assess(panel_of(value, value), grade, threshold=None).path is Path.FIRST


def test_not_applicable_from_the_first_judge_is_final() -> None:
    judges = panel_of(None, 2)
    dimension = assess(judges, GROUNDED)
    assert (dimension.status, dimension.path) == (Status.NOT_APPLICABLE, Path.FIRST)
    assert questions_per_judge(judges) == [1, 0]


def test_options_without_scores_have_no_threshold() -> None:
    topic = Criterion.model_validate(
        {"name": "topic", "title": "t", "question": "?", "scale": {"options": [{"label": "x"}, {"label": "y"}]}}
    )
    dimension = assess(panel_of("x", "y"), topic, panel={"combine": "majority"})
    assert (dimension.path, dimension.option) == (Path.FIRST, "x")


def test_the_first_judges_count_in_the_full_panel_in_their_own_seats() -> None:
    judges = panel_of(0, 2, 0)
    dimension = assess(judges, first=("b",))
    assert dimension.path is Path.FULL_THRESHOLD
    assert [verdict.judge for verdict in dimension.judges] == ["a", "b", "c"]
    assert dimension.score == pytest.approx(0.5 / 3)
    assert [judge.asked[0].reverse for judge in judges] == [False, True, False]


def test_the_quorum_of_the_first_is_their_own_and_that_of_the_panel_the_panels() -> None:
    assert assess(panel_of(4, FAILED, FAILED), panel={"quorum": 3}).status is Status.SCORED
    assert assess(panel_of(2, FAILED, FAILED), panel={"quorum": 3}).status is Status.INSUFFICIENT


def test_a_first_judge_of_the_authors_family_leaves_the_panel_to_the_others() -> None:
    judges = [saying("a", 4, family="qwen"), saying("b", 4), saying("c", 4)]
    case = Case(id="id-1", fields=FIELDS, language="en", author="qwen2.5:7b")
    dimension = assess(judges, case=case, panel={"exclude_family": True})
    assert (dimension.path, dimension.excluded) == (Path.FULL_UNABLE, ("a",))
    assert questions_per_judge(judges) == [0, 1, 1]


def test_one_deadline_covers_both_steps_and_judges_not_asked_in_time_are_not_counted_as_saved() -> None:
    judges = [saying("a", 4, delay_seconds=60), saying("b", 4), saying("c", 4)]
    dimension = assess(judges, seconds=0.05)
    assert (dimension.status, dimension.reason) == (Status.INSUFFICIENT, Reason.TIMEOUT)
    assert [verdict.samples.requested for verdict in dimension.judges] == [1, 0, 0]
    assert (questions_per_judge(judges), dimension.calls_saved) == ([1, 0, 0], 0)


def test_without_a_cascade_there_is_no_path() -> None:
    assert asyncio.run(Panel(judges=(saying("a", 4),)).assess(CASE, CLARITY)).path is None


def test_effective_votes_are_those_of_the_whole_panel() -> None:
    levels = iter([2] * 40 + [4])
    first = ScriptedJudge(lambda _case, _criterion: next(levels), "a")
    panel = Panel(judges=(first, saying("b", 2)), cascade=Cascade(first=("a",)))

    async def run() -> list[Dimension]:
        return [await panel.assess(CASE, CLARITY) for _ in range(41)]

    *full, last = asyncio.run(run())
    assert (full[-1].path, full[-1].effective_votes) == (Path.FULL_THRESHOLD, 1.0)
    assert (last.path, last.effective_votes) == (Path.FIRST, None)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"first": ()}, "first must name one or more"),
        ({"first": ("a", "a")}, "each once"),
        ({"first": "ab"}, "first must name one or more"),
        ({"first": ("a",), "min_agreement": 1.5}, "min_agreement must be between 0 and 1"),
        ({"first": ("a",), "threshold": -0.1}, "threshold must be between 0 and 1"),
        ({"first": ("a",), "margin": float("nan")}, "margin must be between 0 and 1"),
    ],
)
def test_a_senseless_cascade_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Cascade(**options)


def test_the_first_must_be_some_of_the_panel() -> None:
    with pytest.raises(ValueError, match=r"names \['z'\], which are not judges of the panel \(a, b\)"):
        assess(panel_of(4, 4), first=("z",))
    with pytest.raises(ValueError, match="no judges are left"):
        assess(panel_of(4, 4), first=("a", "b"))
