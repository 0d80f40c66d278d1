"""The panel: combining verdicts, quorum, reserves, families, broken judges, and ties that go to the worse."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.composite import MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.evaluator import Evaluator
from judges.judge import Judge
from judges.models import OpenAIModel
from judges.panel import Panel, Vote, is_certainly_worst, safety_choice, seats
from judges.panel.cascade import Cascade
from judges.panel.tally import Combine
from judges.runtime.stopwatch import Stopwatch
from judges.scripted import Answer, ScriptedJudge
from judges.values.evaluation import Dimension, JudgeVerdict, Reason, Samples, Status
from judges.values.interaction import Case
from tests.parts.endpoints.simulated_endpoint import run_virtually
from tests.parts.patience import until

RAG = load_catalogue("rag")
HARM, CLARITY, GROUNDED = RAG["harmfulness"], RAG["clarity"], RAG["groundedness"]
FAILED = Reason.INVALID_OUTPUT
ABSTAINED = None

CASE = Case(id="id-1", fields={"question": "q", "answer": "a", "history": (), "contexts": ("c",)}, language="en")


def criterion(scale: dict[str, Any], **more: Any) -> Criterion:
    return Criterion.model_validate({"name": "aspect", "title": "t", "question": "?", "scale": scale, **more})


def levels(top: int, **more: Any) -> Criterion:
    declared = [{"value": value, "label": f"level {value}", "description": "…"} for value in range(top + 1)]
    return criterion({"levels": declared}, **more)


PASS_OR_FAIL = criterion({"binary": {"passes": "good", "fails": "bad"}})
GRADE = criterion({"range": {"min": 0, "max": 10}})
FAULTS = criterion({"range": {"min": 0, "max": 10}}, higher_is="worse")
TOPIC = criterion({"options": [{"label": {"en": "sport", "ru": "спорт"}}, {"label": "politics"}, {"label": "art"}]})
TONE = criterion(
    {"options": [{"label": "kind", "score": 5}, {"label": "cold", "score": 1}, {"label": "rude", "score": 0}]}
)


def saying(name: str, answer: Answer, **more: Any) -> ScriptedJudge:
    return ScriptedJudge(lambda _case, _criterion: answer, name, **more)


def hanging(name: str) -> ScriptedJudge:
    return saying(name, None, delay_seconds=60)


class Raising(ScriptedJudge):
    """Violates the contract of judges: it raises."""

    def __init__(self, name: str, error: BaseException) -> None:
        super().__init__(lambda _case, _criterion: 1, name)
        self._error = error

    async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        raise self._error


def jury(*answers: Answer) -> tuple[ScriptedJudge, ...]:
    return tuple(saying(f"judge-{index}", answer) for index, answer in enumerate(answers))


def assess(judges: Sequence[Judge], on: Criterion, *, case: Case = CASE, **options: Any) -> Dimension:
    return asyncio.run(Panel(judges=tuple(judges), **options).assess(case, on))


def find(answers: Sequence[Answer], on: Criterion = PASS_OR_FAIL, **options: Any) -> Dimension:
    return assess(jury(*answers), on, **options)


# Combining


def test_one_judge_passes_and_one_fails_is_a_mean_of_one_half() -> None:
    assert find([1, 0]).score == 0.5


def test_two_judges_pass_and_three_fail_is_a_mean_of_two_fifths() -> None:
    assert find([1, 1, 0, 0, 0]).score == 0.4


@pytest.mark.parametrize(
    ("combine", "score", "level"),
    [
        ("mean", 0.5, 1),
        ("median", 0.25, 1),
        ("min", 0.0, 0),
        ("max", 1.0, 4),
        ("majority", 0.25, 1),
        ("weighted", 0.5, 1),
    ],
)
def test_rules_of_combination(combine: Combine, score: float, level: int) -> None:
    """The level is that of the deciding verdict, the value is the score on the criterion's own scale."""
    dimension = find([0, 1, 1, 4, 4], CLARITY, combine=combine)
    assert (dimension.score, dimension.value) == (score, 4 * score)
    assert (dimension.level, dimension.option) == (level, CLARITY.scale.choices[level].label.en)


def mean_verdict(score: float, label: str, value: float) -> JudgeVerdict:
    """Return the verdict of a judge whose score is the mean of its samples."""
    samples = Samples(requested=3, valid=3)
    return JudgeVerdict(judge="a", status=Status.SCORED, score=score, option=label, value=value, samples=samples)


@pytest.mark.parametrize(
    ("combine", "on", "answers", "expected"),
    [
        ("min", FAULTS, [2, 9], (None, 9.0, 0.1)),
        ("max", FAULTS, [2, 9], (None, 2.0, 0.8)),
        ("median", FAULTS, [2, 4, 9, 10], (None, 6.5, 0.35)),
        ("min", TONE, ["kind", "kind", "rude"], ("rude", 0.0, 0.0)),
        ("max", TONE, ["rude", "rude", "kind"], ("kind", 5.0, 1.0)),
        ("median", TONE, ["rude", "kind"], ("rude", 2.5, 0.5)),
        # The lower score decides, although its option is the better one.
        ("min", TONE, [mean_verdict(0.3, "cold", 1), mean_verdict(0.4, "rude", 0)], ("cold", 1.0, 0.3)),
    ],
)
def test_the_verdict_that_decides_the_score_decides_the_option_too(
    combine: Combine, on: Criterion, answers: Sequence[Answer], expected: tuple[str | None, float, float]
) -> None:
    dimension = find(answers, on, combine=combine)
    assert (dimension.option, dimension.value, dimension.score) == (*expected[:2], pytest.approx(expected[2]))


@pytest.mark.parametrize("combine", get_args(Combine))
@pytest.mark.parametrize(
    ("answers", "vote", "level"),
    [
        ([2, 2, 0], "majority", 2),
        ([2, 2, 0], "any", 0),
        ([2, 0, 0], "majority", 0),
        ([2, 2, 1, 0], "majority", 1),
        ([2, 2, 1], "any", 1),
        ([2, 2, 2], "any", 2),
    ],
)
def test_score_level_and_option_of_the_safety_dimension_are_those_of_the_vote(
    combine: Combine, answers: Sequence[Answer], vote: Vote, level: int
) -> None:
    panel = Panel(judges=jury(*answers), combine=combine)
    dimension = asyncio.run(panel.assess(CASE, HARM, safety_vote=vote))
    assert (dimension.level, dimension.score, dimension.value) == (level, level / 2, level)
    assert dimension.option == HARM.scale.choices[level].label.en
    voted = safety_choice(HARM, dimension, vote)
    assert voted is not None
    assert voted.value == level


def test_the_mean_of_one_judges_samples_is_not_the_score_of_the_safety_dimension() -> None:
    samples = Samples(requested=3, valid=3)
    mean_of_samples = JudgeVerdict(judge="a", status=Status.SCORED, score=2 / 3, level=2, value=4 / 3, samples=samples)
    assert (find([mean_of_samples], HARM).score, find([mean_of_samples], CLARITY).score) == (1.0, 2 / 3)


def test_a_panel_of_one_finds_what_its_judge_found() -> None:
    mean = {"score": 5 / 12, "level": 2, "option": "average", "value": 5 / 3}
    own_verdict = JudgeVerdict(judge="a", status=Status.SCORED, samples=Samples(requested=3, valid=3), **mean)
    dimension = find([own_verdict], CLARITY)
    assert {name: getattr(dimension, name) for name in mean} == mean


def test_every_rule_of_combination_is_covered_here() -> None:
    assert set(get_args(Combine)) == {"mean", "median", "min", "max", "majority", "weighted"}


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match=r"combine must be one of mean, .*, not 'avg'"):
        find([1], combine="avg")


def test_the_median_of_an_even_count_is_the_mean_of_the_middle_two() -> None:
    dimension = find([0, 1, 3, 4], CLARITY, combine="median")
    assert (dimension.score, dimension.level) == (0.5, 1)


def test_a_judges_weight_counts_in_the_score_and_in_the_vote() -> None:
    dimension = find([0, 4, 4], CLARITY, combine="weighted", weights={"judge-0": 2.0})
    assert (dimension.score, dimension.level) == (0.5, 0)
    dimension = find([0, 4, 4], CLARITY, combine="weighted", weights={"judge-0": 0.5})
    assert (dimension.score, dimension.level) == (0.8, 4)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf"), 1e10])
def test_a_senseless_weight_is_refused_by_the_judges_name(weight: float) -> None:
    with pytest.raises(ValueError, match="judge-1"):
        find([1, 1], combine="weighted", weights={"judge-1": weight})


def test_weights_of_unknown_judges_and_unused_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="'judge-7', which is not a judge of the panel"):
        find([1, 1], combine="weighted", weights={"judge-7": 1.0})
    with pytest.raises(ValueError, match="require combine weighted, not mean"):
        find([1, 1], weights={"judge-0": 1.0})


def test_options_vote_by_their_scores_and_a_tie_goes_to_the_worse() -> None:
    dimension = find(["kind", "cold"], TONE)
    assert (dimension.option, dimension.level, dimension.value, dimension.score) == ("cold", None, 3, 0.6)
    assert find(["kind", "rude"], TONE, combine="majority").score == 0.0


def test_a_tie_on_a_scale_where_higher_is_worse_goes_to_the_higher() -> None:
    dimension = find([0, 3], levels(3, higher_is="worse"))
    assert (dimension.level, dimension.score) == (3, 0.5)


@pytest.mark.parametrize(
    ("combine", "on", "value", "score"),
    [
        ("mean", GRADE, 5.0, 0.5),
        ("median", GRADE, 4.0, 0.4),
        ("min", GRADE, 2.0, 0.2),
        ("max", GRADE, 9.0, 0.9),
        ("weighted", GRADE, 6.0, 0.6),
        ("min", FAULTS, 9.0, 0.1),
        ("max", FAULTS, 2.0, 0.8),
        ("mean", FAULTS, 5.0, 0.5),
    ],
)
def test_on_a_range_the_value_is_combined_like_the_score(
    combine: Combine, on: Criterion, value: float, score: float
) -> None:
    weights = {"judge-2": 2.0} if combine == "weighted" else {}
    dimension = find([2, 4, 9], on, combine=combine, weights=weights)
    assert (dimension.option, dimension.level, dimension.value) == (None, None, value)
    assert dimension.score == pytest.approx(score)


def test_the_mean_of_the_largest_numbers_does_not_overflow() -> None:
    huge = criterion({"range": {"min": 0, "max": 1.7e308}})
    assert find([1.7e308, 1.7e308], huge).value == 1.7e308
    assert find([1.7e308, 1.7e308], huge, combine="median").value == 1.7e308


@pytest.mark.parametrize(
    ("answers", "option"),
    [
        (["kind", "kind", "cold", "rude", "rude"], "rude"),
        (["kind", "kind", "cold", "cold", "rude"], "cold"),
        (["kind", "kind", "cold", "rude"], "kind"),
        (["kind", "cold"], "cold"),
    ],
)
def test_most_votes_win_without_a_majority_and_a_tie_goes_to_the_worse_of_the_tied(
    answers: Sequence[Answer], option: str
) -> None:
    assert find(answers, TONE, combine="majority").option == option


def test_options_without_scores_that_tie_have_no_winner() -> None:
    dimension = find(["sport", "sport", "art"], TOPIC, combine="majority")
    assert (dimension.status, dimension.option, dimension.score) == (Status.SCORED, "sport", None)
    assert (dimension.spread, dimension.agreement) == (None, 1 / 3)
    assert find(["sport", "sport", "art", "politics"], TOPIC, combine="majority").option == "sport"
    split = find(["sport", "sport", "art", "art", "politics"], TOPIC, combine="majority")
    assert (split.status, split.reason, split.option) == (Status.INSUFFICIENT, Reason.NO_MAJORITY, None)
    assert "2 for 'sport'" in (split.detail or "")
    assert find(["sport", "sport", FAILED], TOPIC, combine="majority").option == "sport"


@pytest.mark.parametrize(
    ("combine", "on", "problem"),
    [
        ("majority", GRADE, "numbers have no majority"),
        ("mean", TOPIC, "mean needs scores"),
        ("weighted", TOPIC, "weighted needs scores"),
    ],
)
def test_a_rule_that_does_not_fit_a_scale_is_refused_without_a_call(
    combine: Combine, on: Criterion, problem: str
) -> None:
    judges = jury(1, 1)
    assert problem in (Panel(judges=judges, combine=combine).why_not(on) or "")
    dimension = assess(judges, on, combine=combine)
    assert (dimension.status, dimension.reason) == (Status.INSUFFICIENT, Reason.UNSUPPORTED)
    assert problem in (dimension.detail or "")
    assert not any(judge.asked for judge in judges)


def test_a_panel_says_beforehand_when_too_few_of_its_judges_can_judge() -> None:
    able, unable = ScriptedJudge({"clarity": 1}, "able"), ScriptedJudge({}, "unable")
    assert "only 1 of the 2 required judges" in (Panel(judges=(able, unable), quorum=2).why_not(CLARITY) or "")
    assert "unable: the script has no answer" in (Panel(judges=(unable,)).why_not(CLARITY) or "")
    assert Panel(judges=(able, unable)).why_not(CLARITY) is None


def test_a_judge_that_does_not_judge_by_the_criterion_has_no_seat_and_is_not_missed() -> None:
    able, unable, restricted = ScriptedJudge({"clarity": 3}, "able"), ScriptedJudge({}, "unable"), saying("kept", 0)
    restricted.only = frozenset({"harmfulness"})
    dimension = assess([unable, able, restricted], CLARITY)
    assert (dimension.status, dimension.level, [verdict.judge for verdict in dimension.judges]) == (
        Status.SCORED,
        3,
        ["able"],
    )
    assert (unable.asked, restricted.asked, dimension.calls_saved) == ([], [], 0)


def test_a_criterion_that_no_judge_supports_is_unsupported() -> None:
    dimension = assess([ScriptedJudge({}, "unable")], CLARITY)
    assert (dimension.status, dimension.reason) == (Status.INSUFFICIENT, Reason.UNSUPPORTED)
    assert "the script has no answer" in (dimension.detail or "")


def test_spread_is_largest_minus_smallest_and_absent_for_one() -> None:
    assert find([1, 4, 2], CLARITY).spread == 0.75
    assert find([3, 3], CLARITY).spread == 0.0
    assert find([3], CLARITY).spread is None
    assert find([3, FAILED, FAILED], CLARITY, quorum=1).spread is None


def test_agreement_is_the_share_of_pairs_that_found_the_same() -> None:
    assert find([3, 3, 1], CLARITY).agreement == pytest.approx(1 / 3)
    assert find([3, 3, 3], CLARITY).agreement == 1.0
    assert find([3, 3, FAILED], CLARITY).agreement == 1.0
    assert find([3], CLARITY).agreement is None


def test_agreement_on_a_range_is_how_near_the_pairs_are() -> None:
    assert find([2, 4, 9], GRADE).agreement == pytest.approx(1 - (0.2 + 0.5 + 0.7) / 3)


def test_every_verdict_is_published_in_the_order_of_the_panel() -> None:
    dimension = find([1, FAILED, 0], quorum=1)
    assert [verdict.judge for verdict in dimension.judges] == ["judge-0", "judge-1", "judge-2"]
    assert [verdict.status for verdict in dimension.judges] == [Status.SCORED, Status.INSUFFICIENT, Status.SCORED]


@pytest.mark.parametrize(("language", "label"), [("en", "questionable"), ("ru", "сомнительно")])
@pytest.mark.parametrize("vote", get_args(Vote))
def test_the_label_is_in_the_language_of_the_case_and_the_option_is_not(
    language: Literal["en", "ru"], label: str, vote: Vote
) -> None:
    case = Case(id="id-1", fields=CASE.fields, language=language)
    panel = Panel(judges=jury(1, 1, 2))
    dimension = asyncio.run(panel.assess(case, HARM, safety_vote=vote))
    assert (dimension.level, dimension.option, dimension.label) == (1, "questionable", label)
    assert [(verdict.option, verdict.label) for verdict in dimension.judges[:2]] == [("questionable", label)] * 2


@pytest.mark.parametrize(
    ("language", "option", "label"),
    [("ru", "спорт", "спорт"), ("ru", "sport", "спорт"), ("en", "спорт", "sport"), ("en", "SPORT", "sport")],
)
def test_a_custom_judge_may_use_a_label_of_either_language(
    language: Literal["en", "ru"], option: str, label: str
) -> None:
    case = Case(id="id-1", fields=CASE.fields, language=language)
    own_verdict = JudgeVerdict(judge="a", status=Status.SCORED, option=option, samples=Samples(requested=1, valid=1))
    dimension = find([own_verdict], TOPIC, case=case, combine="majority")
    for finding in (dimension, dimension.judges[0]):
        assert (finding.option, finding.label) == ("sport", label)


said_levels = st.lists(st.integers(min_value=0, max_value=4), min_size=1, max_size=7)
combines: st.SearchStrategy[Combine] = st.sampled_from(get_args(Combine))


def verdict(name: str, on: Criterion, level: int) -> JudgeVerdict:
    samples = Samples(requested=1, valid=1)
    return JudgeVerdict(judge=name, status=Status.SCORED, score=on.normalise(level), level=level, samples=samples)


def conclude_panel(levels_given: Sequence[int], combine: Combine) -> Dimension:
    weights = {f"judge-{index}": index + 0.5 for index in range(len(levels_given))} if combine == "weighted" else {}
    panel = Panel(judges=jury(*levels_given), combine=combine, weights=weights)
    return panel.conclude(
        CLARITY, [verdict(f"judge-{index}", CLARITY, level) for index, level in enumerate(levels_given)], CASE
    )


# With three choices or more, plurality is not monotone: [1, 1, 2, 2] gives 1, and [0, 1, 2, 2] gives 2.
monotone = combines.filter(lambda combine: combine != "majority")


@given(said_levels, st.data(), monotone)
def test_one_judge_becoming_stricter_raises_neither_score_nor_level(
    levels_given: list[int], data: st.DataObject, combine: Combine
) -> None:
    index = data.draw(st.integers(min_value=0, max_value=len(levels_given) - 1))
    stricter = [
        *levels_given[:index],
        data.draw(st.integers(min_value=0, max_value=levels_given[index])),
        *levels_given[index + 1 :],
    ]
    before, after = conclude_panel(levels_given, combine), conclude_panel(stricter, combine)
    assert before.score is not None
    assert after.score is not None
    assert before.level is not None
    assert after.level is not None
    assert after.score <= before.score
    assert after.level <= before.level


@given(st.lists(st.integers(0, 2), min_size=1, max_size=7), st.data(), combines, st.sampled_from(get_args(Vote)))
def test_one_judge_becoming_stricter_about_safety_never_raises_its_score(
    levels_given: list[int], data: st.DataObject, combine: Combine, vote: Vote
) -> None:
    index = data.draw(st.integers(min_value=0, max_value=len(levels_given) - 1))
    stricter = [
        *levels_given[:index],
        data.draw(st.integers(min_value=0, max_value=levels_given[index])),
        *levels_given[index + 1 :],
    ]
    panel = Panel(judges=jury(*levels_given), combine=combine)

    def conclude(chosen_levels: Sequence[int]) -> Dimension:
        verdicts = [verdict(f"judge-{index}", HARM, level) for index, level in enumerate(chosen_levels)]
        return panel.conclude(HARM, verdicts, CASE, safety_vote=vote)

    before, after = conclude(levels_given), conclude(stricter)
    assert before.score is not None
    assert after.score is not None
    assert after.score <= before.score


@given(said_levels, combines)
def test_a_panel_score_lies_between_its_judges(levels_given: list[int], combine: Combine) -> None:
    score = conclude_panel(levels_given, combine).score
    assert score is not None
    assert min(levels_given) / 4 <= score <= max(levels_given) / 4


@given(said_levels)
def test_the_voted_level_was_given_by_a_judge_and_half_say_it_or_worse(levels_given: list[int]) -> None:
    level = conclude_panel(levels_given, "mean").level
    assert level in levels_given
    assert 2 * sum(vote <= level for vote in levels_given) >= len(levels_given)
    assert 2 * sum(vote < level for vote in levels_given) < len(levels_given)


@pytest.mark.parametrize(
    ("levels_given", "level"),
    [([2], 2), ([0, 2], 0), ([2, 2, 0], 2), ([0, 0, 2, 2], 0), ([1, 1, 2, 2], 1), ([0, 0, 1, 1, 2], 1), ([0, 1, 2], 1)],
)
def test_the_majority_wins_and_a_tie_goes_to_the_worse(levels_given: list[int], level: int) -> None:
    assert conclude_panel(levels_given, "mean").level == conclude_panel(levels_given[::-1], "mean").level == level


# Quorum


@pytest.mark.parametrize(
    ("answers", "quorum", "status"),
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
def test_a_score_needs_a_quorum_of_judges(answers: list[Answer], quorum: int | None, status: Status) -> None:
    dimension = find(answers, quorum=quorum)
    assert dimension.status is status
    assert (dimension.score is None) == (dimension.level is None) == (status is not Status.SCORED)
    assert (dimension.detail is None) == (status is Status.SCORED)


def test_failed_judges_do_not_count_as_zero() -> None:
    assert find([1, 1, FAILED]).score == 1.0


def test_a_shared_reason_is_named_and_several_are_a_missed_quorum() -> None:
    assert find([FAILED, FAILED]).reason is Reason.INVALID_OUTPUT
    assert find([1, FAILED]).reason is Reason.INVALID_OUTPUT
    assert find([FAILED, RuntimeError("down")]).reason is Reason.QUORUM
    assert find([1, RuntimeError("down"), FAILED, ABSTAINED]).reason is Reason.QUORUM


@pytest.mark.parametrize("quorum", [0, -1, 3])
def test_a_quorum_that_no_panel_can_mean_is_refused(quorum: int) -> None:
    with pytest.raises(ValueError, match="quorum must be between 1 and the 2 judges"):
        Panel(judges=jury(1, 1), quorum=quorum)


def test_a_panel_needs_judges_with_distinct_names() -> None:
    with pytest.raises(ValueError, match="at least one judge"):
        Panel(judges=())
    with pytest.raises(ValueError, match="distinct names"):
        Panel(judges=(saying("a", 1), saying("a", 0)))
    with pytest.raises(ValueError, match="distinct names"):
        Panel(judges=(saying("a", 1),), reserves=(saying("a", 0),))


# Not applicable, and decisions before any call


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ([ABSTAINED], Status.NOT_APPLICABLE),
        ([ABSTAINED, ABSTAINED, 2], Status.NOT_APPLICABLE),
        ([ABSTAINED, ABSTAINED, FAILED], Status.NOT_APPLICABLE),
        ([ABSTAINED, 2, 2], Status.SCORED),
        ([ABSTAINED, FAILED, 2], Status.SCORED),
        ([ABSTAINED, 2], Status.SCORED),
        ([ABSTAINED, FAILED, FAILED], Status.INSUFFICIENT),
        ([ABSTAINED, FAILED, FAILED, 2], Status.INSUFFICIENT),
        ([ABSTAINED, ABSTAINED, FAILED, 2], Status.NOT_APPLICABLE),
    ],
)
def test_not_applicable_counts_towards_the_quorum_and_is_the_finding_where_most_say_so(
    answers: list[Answer], status: Status
) -> None:
    dimension = find(answers, GROUNDED)
    assert dimension.status is status
    assert (dimension.score is not None) == (status is Status.SCORED)
    assert len(dimension.judges) == len(answers)


@pytest.mark.parametrize("contexts", [(), ("",), (" \n", "\t")])
def test_without_the_fields_it_needs_a_criterion_does_not_apply_and_no_judge_is_asked(
    contexts: tuple[str, ...],
) -> None:
    judge = saying("a", 2)
    case = Case(id="id-1", fields={"question": "q", "answer": "a", "contexts": contexts}, language="en")
    dimension = assess([judge], GROUNDED, case=case)
    assert (dimension.status, dimension.reason) == (Status.NOT_APPLICABLE, Reason.NOTHING_TO_JUDGE)
    assert judge.asked == []


def test_an_absent_field_that_is_needed_is_not_an_error() -> None:
    case = Case(id="id-1", fields={"question": "q", "answer": "a"}, language="en")
    assert find([2], GROUNDED, case=case).status is Status.NOT_APPLICABLE


def test_a_field_that_is_shown_and_missing_is_named_before_any_judge_is_asked() -> None:
    judge = saying("a", 2)
    dimension = assess([judge], CLARITY, case=Case(id="id-9", fields={"answer": "a"}, language="en"))
    assert (dimension.status, dimension.reason) == (Status.INSUFFICIENT, Reason.MISSING_FIELD)
    assert "record id-9 has no field 'question'" in (dimension.detail or "")
    assert judge.asked == []


# Judges that break their contract


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("no power"),
        TimeoutError(),
        KeyError("x"),
        asyncio.CancelledError("escaped from a client"),
    ],
)
def test_a_judge_that_raises_has_no_verdict_and_the_others_still_do(error: BaseException) -> None:
    dimension = assess([saying("a", 1), Raising("b", error), saying("c", 1)], PASS_OR_FAIL)
    assert (dimension.status, dimension.score) == (Status.SCORED, 1.0)
    broken = dimension.judges[1]
    assert (broken.status, broken.reason, broken.score) == (Status.INSUFFICIENT, Reason.UNAVAILABLE, None)
    assert broken.samples == Samples(requested=1, error=1)
    assert type(error).__name__ in (broken.detail or "")
    dimension.model_dump_json()  # whatever was raised, the result can be published


def test_a_judge_that_returns_no_verdict_at_all_is_broken_too() -> None:
    class Silent(ScriptedJudge):
        async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
            return None  # type: ignore[return-value]

    silent = Silent(lambda _case, _criterion: 1, "b")
    dimension = assess([saying("a", 1), silent, saying("c", 1)], PASS_OR_FAIL)
    assert (dimension.score, dimension.judges[1].reason) == (1.0, Reason.UNAVAILABLE)


@pytest.mark.parametrize(
    ("on", "claim"),
    [
        (PASS_OR_FAIL, {}),
        (PASS_OR_FAIL, {"level": 1}),
        (PASS_OR_FAIL, {"score": 0.5}),
        (PASS_OR_FAIL, {"score": 1.0, "level": 7}),
        (PASS_OR_FAIL, {"score": 1.0, "level": -1}),
        (PASS_OR_FAIL, {"score": 1.0, "level": 1, "option": "fail"}),
        (PASS_OR_FAIL, {"score": 1.0, "level": 1, "option": "superb"}),
        (GRADE, {"score": 0.5}),
        (GRADE, {"score": 1.0, "value": 10.5}),
        (GRADE, {"value": 5.0}),
        (TONE, {"score": 1.0, "option": "lovely"}),
        (TONE, {"option": "kind"}),
    ],
    ids=str,
)
def test_a_verdict_that_is_scored_and_not_on_the_scale_does_not_vote(on: Criterion, claim: dict[str, Any]) -> None:
    samples = Samples(requested=2, valid=1, invalid=1)
    broken = JudgeVerdict(judge="b", status=Status.SCORED, samples=samples, cost_usd=0.5, **claim)
    best = 10 if on is GRADE else on.worst_first[-1].label.en
    dimension = assess([saying("a", best), saying("b", broken), saying("c", best)], on)
    assert dimension.score == 1.0
    refused = dimension.judges[1]
    assert (refused.status, refused.reason) == (Status.INSUFFICIENT, Reason.INVALID_OUTPUT)
    assert (refused.score, refused.level, refused.option, refused.value) == (None, None, None, None)
    assert refused.samples == Samples(requested=2, invalid=2)
    assert refused.cost_usd == 0.5  # it was paid for all the same


def test_an_unknown_option_without_scores_does_not_vote() -> None:
    broken = JudgeVerdict(judge="b", status=Status.SCORED, option="music", samples=Samples(requested=1, valid=1))
    dimension = find(["sport", broken, "sport"], TOPIC, combine="majority")
    assert (dimension.option, dimension.judges[1].reason) == ("sport", Reason.INVALID_OUTPUT)


def test_a_label_of_the_other_language_is_understood() -> None:
    other = JudgeVerdict(judge="b", status=Status.SCORED, option="Спорт", samples=Samples(requested=1, valid=1))
    assert find([other], TOPIC, combine="majority").option == "sport"


# Judges that bring their own question


class Critic(ScriptedJudge):
    """A judge with its own question."""

    def __init__(self, name: str, question: Criterion) -> None:
        super().__init__(lambda _case, _criterion: 1, name)
        self.criterion = question


POLITE, SHORT = (Criterion.pass_fail(text) for text in ("Is it polite?", "Is it short?"))
TEXT = {"answer": "a", "question": "q"}


def test_judges_are_asked_the_question_that_they_bring_along() -> None:
    polite, short, any_judge = Critic("polite", POLITE), Critic("short", SHORT), saying("any", 1)
    [dimensions] = Panel(judges=[polite, short, any_judge]).evaluate([TEXT], [POLITE, SHORT])
    judges = {name: [verdict.judge for verdict in dimension.judges] for name, dimension in dimensions.items()}
    assert judges == {POLITE.name: ["polite", "any"], SHORT.name: ["short", "any"]}
    assert {question.criterion for question in polite.asked} == {POLITE.name}


@pytest.mark.parametrize(
    "ask",
    [
        lambda critic: Panel(judges=[critic]).evaluate([TEXT], CLARITY),
        lambda critic: Panel(judges=[critic]).evaluate([TEXT], "Is it polite?"),  # the same words on another scale
        lambda critic: Panel(judges=[saying("any", 1)], reserves=[critic]).evaluate([TEXT], [SHORT]),
        lambda critic: MultiCriteria([SHORT]).evaluate(Panel(judges=[critic, saying("any", 1)]), [TEXT]),
        lambda critic: MultiCriteria([SHORT]).evaluate(critic, [TEXT]),
        lambda critic: MultiCriteria([SHORT, POLITE]).evaluate(critic, [TEXT]),
        lambda critic: Evaluator(MultiCriteria([HARM]), Panel(judges=[saying("any", 1), critic]), version="1"),
    ],
)
def test_another_question_is_refused_with_the_judge_and_its_own(ask: Callable[[Judge], object]) -> None:
    critic = Critic("critic", POLITE)
    with pytest.raises(ValueError, match=r"critic.*its own question, 'Is it polite\?'"):
        ask(critic)
    assert critic.asked == []


def test_a_judge_alone_may_be_given_another_question() -> None:
    [verdict] = Critic("critic", POLITE).evaluate([TEXT], SHORT)
    assert verdict.option == "pass"
    assert MultiCriteria([POLITE]).evaluate(Critic("critic", POLITE), [TEXT])[0].score == 1.0


# Asking


def test_judges_are_asked_at_the_same_time() -> None:
    async def run() -> Dimension:
        barrier = asyncio.Barrier(3)

        async def meet(_case: Case, _criterion: Criterion) -> Answer:
            await barrier.wait()
            return 1

        panel = Panel(judges=tuple(ScriptedJudge(meet, name) for name in "abc"))
        return await asyncio.wait_for(panel.assess(CASE, PASS_OR_FAIL), 5)

    assert asyncio.run(run()).score == 1.0


def test_every_second_seat_sees_the_options_in_reverse_and_a_reserve_takes_the_order_of_its_seat() -> None:
    judges, reserve = jury(1, FAILED, 1, 1), saying("reserve", 1)
    for _ in range(2):
        assess(judges, PASS_OR_FAIL, reserves=(reserve,))
    assert [[asked.reverse for asked in judge.asked] for judge in judges] == [[False] * 2, [True] * 2] * 2
    assert [asked.reverse for asked in reserve.asked] == [True, True]


def test_cancelling_an_assessment_cancels_its_judges() -> None:
    begun: list[str] = []
    ended: list[str] = []

    async def hang(_case: Case, _criterion: Criterion) -> Answer:
        begun.append("begun")
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("ended")
        raise AssertionError

    async def run() -> None:
        panel = Panel(judges=(ScriptedJudge(hang, "a"), ScriptedJudge(hang, "b")))
        task = asyncio.create_task(panel.assess(CASE, PASS_OR_FAIL))
        await until(lambda: len(begun) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert ended == ["ended", "ended"]


def test_closing_a_panel_closes_its_judges_and_reserves() -> None:
    judges, reserve = jury(1, 1), saying("reserve", 1)
    panel = Panel(judges=judges, reserves=(reserve,))
    assert panel.members == (*judges, reserve)
    asyncio.run(panel.aclose())
    assert all(judge.closed for judge in (*judges, reserve))


@pytest.fixture
def virtual_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels measure their deadlines by the clock of the event loop, as `run_virtually` needs it."""
    monkeypatch.setattr(seats, "Stopwatch", lambda: Stopwatch(lambda: asyncio.get_running_loop().time()))


@pytest.mark.usefixtures("virtual_deadlines")
def test_a_judge_that_hangs_costs_only_its_own_vote() -> None:
    """Two of three have called it harmful: the third cannot undo that by not answering."""
    panel = Panel(judges=(saying("a", 0), saying("b", 0), hanging("c")))
    dimension = run_virtually(panel.assess(CASE, HARM, seconds=5))
    assert (dimension.status, dimension.level) == (Status.SCORED, 0)
    assert [verdict.reason for verdict in dimension.judges] == [None, None, Reason.TIMEOUT]


def test_a_judge_that_hangs_owes_all_the_samples_it_was_asked_for() -> None:
    class Costly(ScriptedJudge):
        calls = 5

    slow = Costly(lambda _case, _criterion: 1, "slow", delay_seconds=60)
    dimension = asyncio.run(Panel(judges=(slow,)).assess(CASE, PASS_OR_FAIL, seconds=0.05))
    assert dimension.judges[0].samples == Samples(requested=5, error=5)


@pytest.mark.usefixtures("virtual_deadlines")
def test_one_deadline_covers_the_reserves_too() -> None:
    async def fail_late(_case: Case, _criterion: Criterion) -> Answer:
        await asyncio.sleep(2)
        return FAILED

    async def run() -> tuple[Dimension, float]:
        started = asyncio.get_running_loop().time()
        panel = Panel(judges=(ScriptedJudge(fail_late, "a"),), reserves=(hanging("reserve"),))
        dimension = await panel.assess(CASE, PASS_OR_FAIL, seconds=5)
        return dimension, asyncio.get_running_loop().time() - started

    dimension, took = run_virtually(run())
    assert [(verdict.judge, verdict.reason) for verdict in dimension.judges] == [
        ("a", Reason.INVALID_OUTPUT),
        ("reserve", Reason.TIMEOUT),
    ]
    assert took == pytest.approx(5)


def computing(name: str, answer: Answer) -> ScriptedJudge:
    """Return a judge that declares that it never waits."""
    judge = saying(name, answer)
    judge.waits = False
    return judge


def test_judges_that_only_compute_are_heard_in_the_order_of_their_seats_without_tasks() -> None:
    heard: list[list[str]] = []
    tasks: list[int] = []

    def look(verdicts: tuple[JudgeVerdict, ...]) -> None:
        heard.append([verdict.judge for verdict in verdicts])
        tasks.append(len(asyncio.all_tasks()))

    panel = Panel(judges=(computing("a", FAILED), computing("b", 1)), reserves=(computing("reserve", 0),))
    dimension = asyncio.run(panel.assess(CASE, PASS_OR_FAIL, seconds=5, on_verdict=look))
    assert heard == [["a"], ["a", "reserve"], ["a", "reserve", "b"]]
    assert (tasks, dimension.score) == ([1, 1, 1], 0.5)
    assert not panel.waits


@given(st.lists(st.sampled_from([0, 1, ABSTAINED, FAILED]), min_size=1, max_size=4))
def test_a_panel_finds_the_same_whether_its_judges_can_be_waited_for_or_not(answers: list[Answer]) -> None:
    of_clocks = {"asked_at", "latency_ms"}
    waited, computed = (
        assess(
            [make(f"judge-{index}", answer) for index, answer in enumerate(answers)],
            PASS_OR_FAIL,
            reserves=[make("reserve", 1)],
        )
        for make in (saying, computing)
    )
    assert waited.model_dump(exclude={"judges": {"__all__": of_clocks}}) == computed.model_dump(
        exclude={"judges": {"__all__": of_clocks}}
    )


def test_a_reserve_that_waits_has_a_deadline_behind_a_judge_that_only_computes() -> None:
    panel = Panel(judges=(computing("a", FAILED),), reserves=(hanging("reserve"),))
    dimension = asyncio.run(panel.assess(CASE, PASS_OR_FAIL, seconds=0.05))
    assert [verdict.reason for verdict in dimension.judges] == [Reason.INVALID_OUTPUT, Reason.TIMEOUT]
    assert panel.waits


@pytest.mark.parametrize("make", [saying, computing])
def test_an_error_of_a_verdict_callback_ends_the_assessment_of_any_judge(
    make: Callable[[str, Answer], ScriptedJudge],
) -> None:
    def refuse(_verdicts: tuple[JudgeVerdict, ...]) -> None:
        raise ConnectionError("the notice cannot be sent")

    with pytest.raises(ConnectionError, match="notice"):
        asyncio.run(Panel(judges=(make("a", 1),)).assess(CASE, PASS_OR_FAIL, on_verdict=refuse))


def test_without_any_time_no_judge_is_asked() -> None:
    judge = saying("a", 1)
    dimension = asyncio.run(Panel(judges=(judge,)).assess(CASE, PASS_OR_FAIL, seconds=0))
    assert (dimension.status, dimension.reason) == (Status.INSUFFICIENT, Reason.TIMEOUT)
    assert dimension.judges[0].samples == Samples(requested=0)
    assert (judge.asked, dimension.calls_saved) == ([], 0)


def test_verdicts_are_shown_as_they_come_in() -> None:
    heard: list[list[str]] = []
    judges = (saying("slow", 1, delay_seconds=0.05), saying("broken", FAILED), saying("quick", 0))
    panel = Panel(judges=judges, reserves=(saying("reserve", 1, delay_seconds=0.1),))

    def look(verdicts: tuple[JudgeVerdict, ...]) -> None:
        heard.append([verdict.judge for verdict in verdicts])

    asyncio.run(panel.assess(CASE, PASS_OR_FAIL, on_verdict=look))
    assert heard == [
        ["broken"],
        ["broken", "quick"],
        ["slow", "broken", "quick"],
        ["slow", "broken", "reserve", "quick"],
    ]


def test_an_error_of_a_verdict_callback_ends_the_assessment_and_its_judges() -> None:
    ended: list[str] = []

    async def hang(_case: Case, _criterion: Criterion) -> Answer:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("ended")
        raise AssertionError

    def refuse(_verdicts: tuple[JudgeVerdict, ...]) -> None:
        raise ConnectionError("the notice cannot be sent")

    async def run() -> None:
        panel = Panel(judges=(ScriptedJudge(hang, "a"), saying("b", 1), saying("c", 1)))
        with pytest.raises(ConnectionError, match="notice"):
            await panel.assess(CASE, PASS_OR_FAIL, on_verdict=refuse)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    assert ended == ["ended"]


def test_a_judge_that_does_not_end_is_abandoned() -> None:
    async def stubborn(_case: Case, _criterion: Criterion) -> Answer:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return 1
        raise AssertionError

    heard: list[tuple[JudgeVerdict, ...]] = []
    reserve = saying("reserve", 1)
    panel = Panel(judges=(ScriptedJudge(stubborn, "a"),), reserves=(reserve,))
    dimension = asyncio.run(panel.assess(CASE, PASS_OR_FAIL, seconds=0.05, on_verdict=heard.append))
    assert [verdict.reason for verdict in dimension.judges] == [Reason.TIMEOUT]
    assert (heard, reserve.asked) == ([], [])


# Reserves


def test_a_failed_judge_is_replaced_and_both_verdicts_are_published() -> None:
    dimension = find([1, FAILED, 0], reserves=(saying("reserve", 1),))
    assert [verdict.judge for verdict in dimension.judges] == ["judge-0", "judge-1", "reserve", "judge-2"]
    assert dimension.score == pytest.approx(2 / 3)


@pytest.mark.parametrize("failure", [FAILED, Reason.TIMEOUT, Reason.UNSUPPORTED, RuntimeError("down")], ids=repr)
def test_whatever_the_failure_the_seat_goes_to_a_reserve(failure: Answer) -> None:
    assert find([failure], reserves=(saying("reserve", 1),)).score == 1.0


def test_a_reserve_that_fails_is_replaced_by_the_next_as_long_as_there_are_any() -> None:
    reserves = (saying("r1", FAILED), saying("r2", 1), saying("r3", 0))
    dimension = find([FAILED, 1], reserves=reserves)
    assert [verdict.judge for verdict in dimension.judges] == ["judge-0", "r1", "r2", "judge-1"]
    assert (dimension.status, dimension.score) == (Status.SCORED, 1.0)
    assert reserves[2].asked == []


def test_a_reserve_serves_once_and_without_reserves_the_failure_stands() -> None:
    dimension = find([FAILED, FAILED, 1], reserves=(saying("reserve", 1),))
    assert [verdict.judge for verdict in dimension.judges] == ["judge-0", "reserve", "judge-1", "judge-2"]
    assert dimension.status is Status.SCORED
    assert find([FAILED, FAILED, FAILED], reserves=(saying("reserve", 1),)).status is Status.INSUFFICIENT


def test_a_judge_that_abstains_is_not_replaced() -> None:
    reserve = saying("reserve", 1)
    assert find([ABSTAINED], GROUNDED, reserves=(reserve,)).status is Status.NOT_APPLICABLE
    assert reserve.asked == []


def test_a_reserve_has_its_own_weight() -> None:
    weights = {"reserve": 3.0}
    dimension = find([FAILED, 0], reserves=(saying("reserve", 1),), combine="weighted", weights=weights)
    assert dimension.score == 0.75


# Families

BY_LLAMA = Case(id="id-1", fields=CASE.fields, language="en", author="meta-llama/Llama-3.3-70B-Instruct")


def relatives(*members: tuple[str, Answer, str | None]) -> tuple[ScriptedJudge, ...]:
    return tuple(saying(name, answer, family=family) for name, answer, family in members)


def test_relatives_of_the_author_are_left_out_and_named() -> None:
    judges = relatives(("a", 0, "llama"), ("b", 1, "qwen"), ("c", 1, None))
    dimension = assess(judges, PASS_OR_FAIL, case=BY_LLAMA, exclude_family=True)
    assert (dimension.score, dimension.excluded) == (1.0, ("a",))
    assert [verdict.judge for verdict in dimension.judges] == ["b", "c"]
    assert judges[0].asked == []


def test_without_the_setting_or_the_authors_family_no_judge_is_excluded() -> None:
    judges = relatives(("a", 0, "llama"), ("b", 1, None))
    assert assess(judges, PASS_OR_FAIL, case=BY_LLAMA).excluded == ()
    unknown = Case(id="id-1", fields=CASE.fields, language="en", author="acme-1")
    assert assess(judges, PASS_OR_FAIL, case=unknown, exclude_family=True).excluded == ()
    assert assess(judges, PASS_OR_FAIL, case=CASE, exclude_family=True).excluded == ()


def test_the_seat_of_a_relative_goes_to_a_reserve_of_another_family_in_the_order_of_the_seat() -> None:
    judges = relatives(("a", 1, "qwen"), ("b", 0, "llama"))
    reserves = relatives(("r1", 0, "llama"), ("r2", 1, "gpt"))
    dimension = assess(judges, PASS_OR_FAIL, case=BY_LLAMA, exclude_family=True, reserves=reserves)
    assert [verdict.judge for verdict in dimension.judges] == ["a", "r2"]
    assert (dimension.score, dimension.excluded) == (1.0, ("b",))
    assert [asked.reverse for asked in reserves[1].asked] == [True]
    assert reserves[0].asked == []


def test_a_relative_is_not_a_reserve_for_a_failed_judge_either() -> None:
    reserves = relatives(("r1", 0, "llama"))
    dimension = assess(jury(FAILED), PASS_OR_FAIL, case=BY_LLAMA, exclude_family=True, reserves=reserves)
    assert (dimension.status, reserves[0].asked) == (Status.INSUFFICIENT, [])


def test_the_quorum_that_is_not_given_follows_the_seats_that_remain() -> None:
    judges = relatives(("a", 0, "llama"), ("b", 0, "llama"), ("c", 1, "qwen"))
    assert assess(judges, PASS_OR_FAIL, case=BY_LLAMA, exclude_family=True).status is Status.SCORED
    fixed = assess(judges, PASS_OR_FAIL, case=BY_LLAMA, exclude_family=True, quorum=2)
    assert (fixed.status, fixed.reason) == (Status.INSUFFICIENT, Reason.QUORUM)
    panel = Panel(judges=judges, exclude_family=True)
    assert panel.conclude(PASS_OR_FAIL, [verdict("c", PASS_OR_FAIL, 1)], BY_LLAMA).status is Status.SCORED
    assert panel.conclude(PASS_OR_FAIL, [verdict("c", PASS_OR_FAIL, 1)], CASE).status is Status.INSUFFICIENT


def test_where_all_are_relatives_there_is_no_verdict_and_the_reason_says_so() -> None:
    judges = relatives(("a", 0, "llama"), ("b", 0, "llama"))
    dimension = assess(judges, PASS_OR_FAIL, case=BY_LLAMA, exclude_family=True)
    assert (dimension.status, dimension.reason) == (Status.INSUFFICIENT, Reason.SAME_FAMILY)
    assert dimension.excluded == ("a", "b")


# Effective votes


def repeatedly(panel: Panel, on: Criterion, times: int) -> list[float | None]:
    async def run() -> list[float | None]:
        return [(await panel.assess(CASE, on)).effective_votes for _ in range(times)]

    return asyncio.run(run())


def test_clones_are_found_to_be_one_vote_once_enough_was_seen() -> None:
    votes = repeatedly(Panel(judges=jury(3, 3)), CLARITY, 31)
    assert votes == [None] * 29 + [1.0] * 2


def test_judges_that_differ_independently_count_as_two_and_each_criterion_for_itself() -> None:
    numbers = iter(range(1000))
    wavering = ScriptedJudge(lambda _case, _criterion: next(numbers) % 2, "wavering")
    panel = Panel(judges=(wavering, saying("steady", 1)))
    assert repeatedly(panel, PASS_OR_FAIL, 30)[-1] == 2.0
    assert repeatedly(panel, levels(1).model_copy(update={"name": "other"}), 1) == [None]


def test_cases_that_not_all_judges_scored_are_not_counted_and_one_judge_has_no_number() -> None:
    assert repeatedly(Panel(judges=jury(3, 3, FAILED)), CLARITY, 40)[-1] is None
    assert repeatedly(Panel(judges=jury(3, FAILED), reserves=(saying("r", 3),)), CLARITY, 40)[-1] is None
    assert repeatedly(Panel(judges=jury(3)), CLARITY, 40)[-1] is None


# Identity


def test_all_that_can_change_findings_is_in_the_identity() -> None:
    first, second, third = jury(1, 1, 0)
    cascade = Cascade(first=("judge-0",))
    panels = [
        Panel(judges=(first, second)),
        Panel(judges=(second, first)),
        Panel(judges=(first, second), reserves=(third,)),
        Panel(judges=(first, second), combine="min"),
        Panel(judges=(first, second), quorum=1),
        Panel(judges=(first, second), combine="weighted"),
        Panel(judges=(first, second), combine="weighted", weights={"judge-0": 2.0}),
        Panel(judges=(first, second), exclude_family=True),
        Panel(judges=(first, second), exclude_family=True, quorum=2),
        Panel(judges=(first, second), cascade=cascade),
        Panel(judges=(first, second), cascade=Cascade(first=("judge-0",), margin=0.2)),
        Panel(judges=(first, second), stop_early=True),
    ]
    identities = [json.dumps(panel.identity, sort_keys=True) for panel in panels]
    assert len(set(identities)) == len(panels)


def test_panels_that_find_the_same_have_the_same_identity() -> None:
    judges = jury(1, 1, 0)
    assert Panel(judges=judges).identity == Panel(judges=judges, quorum=2).identity


# Lists of instances


def test_lists_come_back_in_order_and_one_bad_instance_does_not_fail_the_others() -> None:
    def by_length(case: Case, _criterion: Criterion) -> Answer:
        return "Yes" if len(case.text("answer")) > 3 else "No"

    panel = Panel(judges=(ScriptedJudge(by_length, "a"), ScriptedJudge(by_length, "b")))
    bad: Any = 7
    good, wrong, short = panel.evaluate(["a long text", bad, "no"], "Is it long?")
    assert (good.option, short.option) == ("Yes", "No")
    assert (wrong.status, wrong.reason) == (Status.INSUFFICIENT, Reason.MISSING_FIELD)
    assert "instance 1" in (wrong.detail or "")


def test_several_criteria_give_findings_by_name_waiting_or_not() -> None:
    panel = Panel(judges=jury(1, 1))
    fields = {"question": "q", "answer": "a", "contexts": ["c"]}
    [dimensions] = panel.evaluate([fields], [CLARITY, GROUNDED])
    assert {name: dimension.level for name, dimension in dimensions.items()} == {"clarity": 1, "groundedness": 1}
    [same] = asyncio.run(panel.aevaluate([fields], [CLARITY, GROUNDED], concurrency=1))
    assert same.keys() == dimensions.keys()
    [one] = asyncio.run(panel.aevaluate([fields], CLARITY))
    assert one.level == 1


def test_a_mapping_of_criteria_and_names_of_shipped_ones_are_understood() -> None:
    panel = Panel(judges=jury(1, 1))
    fields = {"question": "q", "answer": "a"}
    [dimensions] = panel.evaluate([fields], {"any key": CLARITY})
    [named] = panel.evaluate([fields], "rag.clarity")
    assert (dimensions["clarity"].level, named.level) == (1, 1)


def test_judges_in_a_list_are_judges_in_a_tuple() -> None:
    panel = Panel(judges=list(jury(1, 1)), reserves=[saying("spare", 1)])
    assert [judge.name for judge in panel.members] == ["judge-0", "judge-1", "spare"]
    assert isinstance(panel.judges, tuple)
    [finding] = panel.evaluate([{"question": "q", "answer": "a"}], CLARITY)
    assert finding.level == 1


@pytest.mark.parametrize(
    ("judges", "says"),
    [
        (saying("a", 1), "judges must be a list of judges, not ScriptedJudge"),
        (
            [saying("a", 1), OpenAIModel("m", base_url="http://x.test")],
            r"judges\[1\] must be a judge.*DirectJudge\(model\)",
        ),
        ("ab", "judges must be a list of judges, not str"),
    ],
)
def test_a_value_that_is_not_a_judge_is_refused_by_its_place(judges: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        Panel(judges=judges)


def test_questions_in_plain_words_can_stand_in_a_list_too() -> None:
    panel = Panel(judges=(saying("a", "Yes"),))
    questions: list[Any] = ["Is it long?", Criterion.of("Is it kind?")]
    [dimensions] = panel.evaluate(["a long text"], questions)
    assert list(dimensions) == [Criterion.of(question).name for question in questions]
    assert [question.score for question in dimensions.values()] == [1.0, 1.0]


# Safety


def safety_value(dimension: Dimension | None, rule: Vote, on: Criterion = HARM) -> float | None:
    choice = safety_choice(on, dimension, rule)
    return None if choice is None else choice.value


@pytest.mark.parametrize(
    ("answers", "rule", "level"),
    [
        ([2, 2, 0], "majority", 2),
        ([2, 2, 0], "any", 0),
        ([2, 2, 1], "any", 1),
        ([2, 0], "majority", 0),
        ([2, 2, 2], "any", 2),
        ([2, 2, FAILED], "any", 2),
        ([0, 2, FAILED], "any", 0),
        ([0, FAILED, FAILED], "any", 0),
        ([0, FAILED, FAILED], "majority", None),
        ([1, FAILED, FAILED], "any", None),
        ([2, FAILED, FAILED], "majority", None),
        ([2, FAILED, FAILED], "any", None),
        ([FAILED], "any", None),
        ([ABSTAINED], "majority", None),
    ],
)
def test_safety_is_as_voted_or_with_any_the_worst_one_judge_gave(
    answers: list[Answer], rule: Vote, level: int | None
) -> None:
    """With `any` one worst verdict is enough if the quorum was missed; a good one is not."""
    assert safety_value(find(answers, HARM), rule) == level


def test_without_a_safety_dimension_there_is_no_safety_choice() -> None:
    assert safety_choice(HARM, None, "majority") is None
    assert safety_choice(HARM, None, "any") is None


def test_safety_can_be_judged_by_options_but_not_on_a_scale_without_a_worst() -> None:
    assert safety_value(find(["kind", "rude", "kind"], TONE), "any", TONE) == 0
    assert safety_value(find(["kind", "rude", "kind"], TONE), "majority", TONE) == 5
    topic = find(["art", "art"], TOPIC, combine="majority")
    assert safety_choice(TOPIC, topic, "any") is None
    assert safety_choice(GRADE, find([1, 2], GRADE), "majority") is None


def test_of_several_equally_bad_options_each_is_the_worst() -> None:
    bad = criterion({"options": [{"label": "x", "score": 0}, {"label": "y", "score": 0}, {"label": "z", "score": 1}]})
    dimension = find(["y", FAILED, FAILED], bad)
    assert safety_choice(bad, dimension, "any") == bad.scale.choices[1]
    assert is_certainly_worst(bad, dimension.judges, 3, "any")


@pytest.mark.parametrize(
    ("levels_given", "seats", "rule", "needed", "sure"),
    [
        ([0], 3, "any", None, True),
        ([2, 1], 3, "any", None, False),
        ([], 3, "any", None, False),
        ([0], 1, "majority", None, True),
        ([0], 2, "majority", None, False),  # the other may fail, and one of two is no quorum
        ([0], 2, "majority", 1, True),
        ([0, 2], 2, "majority", None, True),
        ([0, 0], 3, "majority", None, True),
        ([0, 0], 3, "majority", 3, False),
        ([0, 2], 3, "majority", None, False),
        ([0, 0], 4, "majority", None, False),
        ([0, 0, 2], 4, "majority", None, True),
        ([0, 0], 5, "majority", None, False),
    ],
)
def test_the_worst_is_certain_when_no_open_seat_can_change_it(
    levels_given: list[int], seats: int, rule: Vote, needed: int | None, sure: bool
) -> None:
    verdicts = [verdict(f"judge-{index}", HARM, level) for index, level in enumerate(levels_given)]
    assert is_certainly_worst(HARM, verdicts, seats, rule, needed=needed) is sure


answers = st.sampled_from([0, 1, 2, FAILED, ABSTAINED])
rules: st.SearchStrategy[Vote] = st.sampled_from(["majority", "any"])


@given(st.lists(answers, min_size=1, max_size=5), st.lists(answers, max_size=2), st.data(), rules)
def test_a_verdict_that_was_certainly_the_worst_stays_the_worst(
    answers: list[Answer], reserve: list[Answer], data: st.DataObject, rule: Vote
) -> None:
    quorum = data.draw(st.none() | st.integers(1, len(answers)))
    combine: Combine = data.draw(st.sampled_from(["mean", "weighted"]))
    reserves = tuple(saying(f"reserve-{index}", other) for index, other in enumerate(reserve))
    names = [f"judge-{index}" for index in range(len(answers))] + [other.name for other in reserves]
    weights = {name: data.draw(st.sampled_from([0.5, 1.0, 3.0])) for name in names} if combine == "weighted" else {}
    panel = Panel(judges=jury(*answers), reserves=reserves, quorum=quorum, combine=combine, weights=weights)
    sure: list[bool] = []

    def look(verdicts: tuple[JudgeVerdict, ...]) -> None:
        sure.append(panel.is_certainly_worst(HARM, verdicts, rule))

    dimension = asyncio.run(panel.assess(CASE, HARM, on_verdict=look))
    assert sure == sorted(sure), "what was sure became doubtful"
    if any(sure):
        assert safety_value(dimension, rule) == 0


class Computing(ScriptedJudge):
    """Only computes, and need not be awaited."""

    waits = False


OFF_SCALE = JudgeVerdict(judge="a", status=Status.SCORED, score=1.0, level=9, samples=Samples(requested=1, valid=1))


@pytest.mark.parametrize("combine", get_args(Combine))
@pytest.mark.parametrize("answer", ["level 0", 2, ABSTAINED, FAILED, ValueError("broken"), OFF_SCALE])
@pytest.mark.parametrize("seconds", [None, 5.0, 0.0])
def test_a_judge_that_sits_alone_and_only_computes_is_heard_like_any_other(
    combine: Combine, answer: Answer, seconds: float | None
) -> None:
    aspect = levels(2, not_applicable="never")
    outcomes = []
    for judge in (Computing({"aspect": answer}, "a"), ScriptedJudge({"aspect": answer}, "a")):
        heard: list[tuple[JudgeVerdict, ...]] = []
        panel = Panel(judges=[judge], combine=combine)
        dimension = asyncio.run(panel.assess(CASE, aspect, seconds=seconds, on_verdict=heard.append))
        document = json.loads(dimension.model_dump_json())
        for verdict in document["judges"]:
            del verdict["asked_at"], verdict["latency_ms"]
        outcomes.append((document, len(heard)))
    assert outcomes[0] == outcomes[1]
