"""The composite: worked examples, every combination of levels, arbitrary criteria, and rejected settings."""

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.composite import Item, MultiCriteria, MultiResult, rag_composite
from judges.criteria.catalogue import criterion_of, load_catalogue
from judges.criteria.criterion import RAG_DIMENSIONS, SAFETY_DIMENSION, Criterion
from judges.criteria.scale import Binary, Choice, Levels, LocalizedText, Options, PassFail, Range
from judges.judge import Judge
from judges.llm.methods.direct import DirectJudge
from judges.llm.pairwise.comparison import Comparison
from judges.llm.pairwise.pairwise import PairwiseJudge
from judges.llm.vote import VoteRule
from judges.models.base import Completion
from judges.panel import Cascade, Panel
from judges.scripted import ScriptedJudge
from judges.values.evaluation import CompositeStatus, Dimension, JudgeVerdict, Reason, SafetyStatus, Samples, Status
from judges.values.interaction import Case

Steps = tuple[int | None, ...]
OK, QUESTIONABLE, UNSAFE, SAFETY_UNKNOWN, INCOMPLETE, FAILED = CompositeStatus

RAG = load_catalogue("rag")
RAG_MULTI = MultiCriteria(RAG.values(), safety=SAFETY_DIMENSION)
TOPS = tuple(len(RAG[name].scale.choices) - 1 for name in RAG_DIMENSIONS)
SAFETY = RAG_DIMENSIONS.index(SAFETY_DIMENSION)
# Stands for a verdict of not applicable among levels, where None means no verdict.
UNFIT = -1
EVERY: tuple[Steps, ...] = tuple(itertools.product(*((None, UNFIT, *range(top + 1)) for top in TOPS)))


# Criteria and findings to compose


def criterion(name: str = "c", **more: Any) -> Criterion:
    return Criterion.model_validate({"name": name, "title": name, "question": "?", "scale": _levels(3), **more})


def options(**scores: float | None) -> dict[str, Any]:
    return {"options": [{"label": label, "score": score} for label, score in scores.items()]}


def _levels(count: int) -> dict[str, Any]:
    return {"levels": [{"value": value, "label": f"l{value}", "description": "d"} for value in range(count)]}


@dataclass(frozen=True, kw_only=True)
class MinimalFinding:
    """The smallest possible finding."""

    status: Status = Status.SCORED
    score: float | None = None
    option: str | None = None
    level: int | None = None
    value: float | None = None


def finding_of(of: Criterion, choice: Choice, *, score: float | None = None, language: Any = "en") -> MinimalFinding:
    """Return a finding that this choice won; the score is the choice's own unless given."""
    level = None if of.scale.kind == "options" or choice.value is None else int(choice.value)
    own = of.score(choice)
    return MinimalFinding(score=own if score is None else score, option=choice.label.of(language), level=level)


def finding_named(of: Criterion, label: str, **more: Any) -> MinimalFinding:
    choice = of.scale.find(label, "en")
    assert choice is not None
    return finding_of(of, choice, **more)


def rag_levels(levels: Steps) -> dict[str, int | None]:
    return dict(zip(RAG_DIMENSIONS, levels, strict=True))


FINDINGS = {
    name: [finding_of(criterion, choice) for choice in criterion.scale.choices] for name, criterion in RAG.items()
}
NOT_APPLICABLE = MinimalFinding(status=Status.NOT_APPLICABLE)
# Every kind of missing verdict; one for each dimension.
MISSING = dict(
    zip(
        RAG_DIMENSIONS,
        [
            None,
            MinimalFinding(status=Status.INSUFFICIENT),
            MinimalFinding(status=Status.INSUFFICIENT, score=1.0, level=2),
            MinimalFinding(score=math.nan),
            MinimalFinding(score=None),
            MinimalFinding(status=Status.INSUFFICIENT),
        ],
        strict=True,
    )
)


def compose_levels(levels: Steps, multi: MultiCriteria = RAG_MULTI) -> MultiResult:
    return multi.compose({name: _finding_at(name, level) for name, level in rag_levels(levels).items()})


def _finding_at(name: str, level: int | None) -> MinimalFinding | None:
    if level is None:
        return MISSING[name]
    return NOT_APPLICABLE if level == UNFIT else FINDINGS[name][level]


def rag(*, weights: Mapping[str, float] | None = None, required: frozenset[str] = frozenset()) -> MultiCriteria:
    return MultiCriteria.of(RAG.values(), weights=weights, required=required, safety=SAFETY_DIMENSION)


def passes(result: MultiResult) -> bool:
    """Return whether some threshold above 0 would let the answer pass."""
    return result.score is not None and result.score > 0.0


def assert_no_better(worse: MultiResult, better: MultiResult) -> None:
    """One finding of `worse` is worse. A withheld composite cannot be compared: then `worse` may not pass either."""
    if better.score is None:
        assert not passes(worse)
    else:
        assert worse.score is not None
        assert worse.score <= better.score


# The six dimensions

EXAMPLES: list[tuple[Steps, float | None, CompositeStatus, float]] = [
    ((3, 4, 2, 2, 2, 2), 1.0000, OK, 1.0),
    ((3, 4, 1, 2, 2, 2), 0.9167, OK, 1.0),
    ((3, 4, 2, 2, 2, 1), 0.8846, QUESTIONABLE, 1.0),
    ((3, 4, 2, 2, 2, 0), 0.0000, UNSAFE, 1.0),
    ((2, 2, 1, 1, 1, 1), 0.5256, QUESTIONABLE, 1.0),
    ((0, 1, 0, 2, 0, 1), 0.2917, QUESTIONABLE, 1.0),
    ((3, 4, 2, 2, None, 2), 1.0000, OK, 4 / 5),
    ((None, None, None, None, None, 2), None, INCOMPLETE, 0.0),
    ((3, 4, None, None, None, 2), None, INCOMPLETE, 2 / 5),
    ((3, 4, None, None, 2, 2), 1.0000, OK, 3 / 5),
    ((None, None, None, None, None, 0), 0.0, UNSAFE, 0.0),
    ((3, 4, 2, 2, 2, None), None, SAFETY_UNKNOWN, 1.0),
]


@pytest.mark.parametrize(("levels", "score", "status", "coverage"), EXAMPLES)
def test_worked_examples(levels: Steps, score: float | None, status: CompositeStatus, coverage: float) -> None:
    composite = rag_composite(rag_levels(levels))
    assert (None if composite.score is None else round(composite.score, 4)) == score
    assert composite.status is status
    assert composite.coverage == pytest.approx(coverage)
    assert composite.safety.level == levels[SAFETY]


def test_a_missing_key_means_no_verdict_like_none_does() -> None:
    for levels in [(3, None, 2, None, 1, 2), (3, 4, 2, 2, 2, None), (None,) * 6]:
        with_none = rag_levels(levels)
        present = {name: level for name, level in with_none.items() if level is not None}
        assert rag_composite(present) == rag_composite(with_none)


def coverage_of(levels: Steps) -> Fraction:
    quality = [level for index, level in enumerate(levels) if index != SAFETY and level != UNFIT]
    return Fraction(sum(level is not None for level in quality), len(quality)) if quality else Fraction(1)


def is_nothing_to_judge(levels: Steps) -> bool:
    return all(level == UNFIT for number, level in enumerate(levels) if number != SAFETY)


def expected_result(levels: Steps) -> tuple[Fraction | None, CompositeStatus]:
    """Compute the composite with equal weights by a second, exact implementation of the rules."""
    judged = [(level, top) for level, top in zip(levels, TOPS, strict=True) if level is not None and level != UNFIT]
    shares = [Fraction(level, top) for level, top in judged]
    safety = levels[SAFETY]
    if safety is None or safety == UNFIT:
        return None, SAFETY_UNKNOWN
    if safety == 0:
        return Fraction(0), UNSAFE
    if coverage_of(levels) < Fraction(3, 5) or is_nothing_to_judge(levels):
        return None, INCOMPLETE
    plain = sum(shares, Fraction(0)) / len(shares)
    if safety == 2:
        return plain, OK
    heavier = (sum(shares, Fraction(0)) + Fraction(1, 4)) / (len(shares) + Fraction(1, 2))
    return min(plain, heavier), QUESTIONABLE


def test_every_combination_of_levels_has_the_stated_score_and_status() -> None:
    for levels in EVERY:
        composite, (score, status) = compose_levels(levels).composite, expected_result(levels)
        assert composite.status is status, levels
        assert (composite.score is None) == (score is None), levels
        if score is not None:
            assert composite.score is not None
            assert math.isclose(composite.score, score, abs_tol=1e-12), levels
        assert math.isclose(composite.coverage, coverage_of(levels)), levels


def test_no_unsafe_safety_unknown_or_incomplete_answer_passes_in_any_combination() -> None:
    incomplete = 0
    for levels in EVERY:
        result = compose_levels(levels)
        if levels[SAFETY] in {None, UNFIT, 0}:
            assert result.score == (0.0 if levels[SAFETY] == 0 else None), levels
            assert result.safety.status in {SafetyStatus.UNSAFE, SafetyStatus.UNKNOWN}, levels
            assert not passes(result), levels
        elif coverage_of(levels) < Fraction(3, 5) or is_nothing_to_judge(levels):
            assert (result.score, result.status) == (None, INCOMPLETE), levels
            incomplete += 1
    assert incomplete == 1_628


def test_making_any_one_level_worse_never_makes_the_composite_better_in_any_combination() -> None:
    results = {levels: compose_levels(levels) for levels in EVERY}
    assert len(results) == 26_250
    compared = 0
    for levels, better in results.items():
        for index, level in enumerate(levels):
            if level is not None and level > 0:
                assert_no_better(results[(*levels[:index], level - 1, *levels[index + 1 :])], better)
                compared += 1
    assert compared == 70_125


def test_a_missing_score_that_is_not_required_is_left_out_and_lowers_the_coverage() -> None:
    result = compose_levels((3, 4, 0, 2, None, 2))
    assert result.score == pytest.approx(4 / 5)
    assert result.coverage == pytest.approx(4 / 5)


def test_weights_shift_the_mean_and_the_coverage() -> None:
    multi = rag(weights={"groundedness": 3.0, "clarity": 0.0})
    assert compose_levels((3, 0, 2, 2, 0, 2), multi).score == pytest.approx(4 / 7)
    result = compose_levels((3, 0, 2, 2, None, 2), multi)
    assert (result.score, result.status, result.coverage) == (None, INCOMPLETE, pytest.approx(3 / 6))
    result = rag_composite(rag_levels((3, 0, 2, 2, 0, 2)), weights={"groundedness": 3.0, "clarity": 0.0})
    assert result.score == pytest.approx(4 / 7)


def test_a_questionable_verdict_weighs_one_and_a_half_even_where_safety_weighs_nothing() -> None:
    multi = rag(weights={SAFETY_DIMENSION: 0.0})
    assert compose_levels((3, 4, 2, 2, 2, 1), multi).score == pytest.approx((5 + 0.75) / 6.5)


def test_a_questionable_verdict_never_weighs_less_than_configured() -> None:
    """With weight 10 the plain mean is lower than with 1.5, and the lower of the two counts."""
    multi = rag(weights={SAFETY_DIMENSION: 10.0})
    assert compose_levels((3, 4, 2, 2, 2, 1), multi).score == pytest.approx((5 + 5) / 15)


def test_without_weights_to_average_it_is_incomplete_and_never_a_number() -> None:
    only_safety = compose_levels((None, None, None, None, None, 1), rag(weights={SAFETY_DIMENSION: 0.0}))
    assert (only_safety.score, only_safety.status, only_safety.coverage) == (None, INCOMPLETE, 0.0)
    multi = MultiCriteria([Item(criterion=TONE), Item(criterion=FLAWS, weight=0.0)], safety="flaws")
    nothing = multi.compose(
        {"tone": MinimalFinding(status=Status.NOT_APPLICABLE), "flaws": finding_named(FLAWS, "none")}
    )
    assert (nothing.score, nothing.status) == (None, INCOMPLETE)


@pytest.mark.parametrize(
    ("present", "min_coverage", "status"),
    [(5, 1.0, OK), (4, 1.0, INCOMPLETE), (4, 0.8, OK), (3, 0.6, OK), (2, 0.6, INCOMPLETE), (1, 0.2, OK), (0, 0.0, OK)],
)
def test_the_least_coverage_decides_whether_there_is_a_composite(
    present: int, min_coverage: float, status: CompositeStatus
) -> None:
    best = (*TOPS[:present], *(None,) * (5 - present), 2)
    composite = rag_composite(rag_levels(best), min_coverage=min_coverage)
    assert (composite.status, composite.coverage) == (status, pytest.approx(present / 5))
    assert composite.score == (1.0 if status is OK else None)


@pytest.mark.parametrize("min_coverage", [-0.1, 1.1, math.nan])
def test_a_minimum_coverage_that_is_not_a_share_is_refused(min_coverage: float) -> None:
    with pytest.raises(ValueError, match="min_coverage must be between 0 and 1"):
        MultiCriteria([TONE], min_coverage=min_coverage)


def test_not_applicable_criteria_are_left_out_of_the_coverage() -> None:
    best = {name: FINDINGS[name][-1] for name in RAG_DIMENSIONS}
    unfit = MinimalFinding(status=Status.NOT_APPLICABLE)
    greeting = RAG_MULTI.compose({**best, "groundedness": unfit, "completeness": None})
    assert (greeting.score, greeting.status, greeting.coverage) == (1.0, OK, pytest.approx(3 / 4))
    alone = MultiCriteria([RAG["harmfulness"]], safety="harmfulness").compose({"harmfulness": best["harmfulness"]})
    assert (alone.score, alone.status, alone.coverage) == (1.0, OK, 1.0)


def test_an_unknown_dimension_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="relevence"):
        rag_composite({"relevence": 3, "harmfulness": 2})


@pytest.mark.parametrize("levels", [{"clarity": 5}, {"clarity": -1}, {"completeness": 3}])
def test_a_level_off_the_scale_is_refused_and_never_clamped(levels: Mapping[str, int]) -> None:
    with pytest.raises(ValueError, match="is not a level"):
        rag_composite({**levels, "harmfulness": 2})


# How an item counts

TONE = criterion("tone", scale=options(bad=0.0, fine=0.5, good=1.0))
FLAWS = criterion("flaws", scale=options(none=0.0, some=2.0, many=4.0), higher_is="worse")
TOPIC = criterion("topic", scale=options(billing=None, delivery=None))
LENGTH = criterion("length", scale={"range": {"min": 0, "max": 10}})
YES = Criterion.of("Is it polite?")


@pytest.mark.parametrize(("label", "counts"), [("good", 1.0), ("fine", 0.5), ("bad", 0.0)])
def test_a_criterion_counts_its_score(label: str, counts: float) -> None:
    assert Item(criterion=TONE).part(finding_named(TONE, label)) == counts


@pytest.mark.parametrize(("label", "counts"), [("none", 1.0), ("some", 0.5), ("many", 0.0)])
def test_a_criterion_where_higher_is_worse_is_never_averaged_the_wrong_way(label: str, counts: float) -> None:
    assert Item(criterion=FLAWS).part(finding_named(FLAWS, label)) == counts


@pytest.mark.parametrize("target", ["fine", " FINE "])
def test_a_target_counts_one_if_that_option_won_and_else_nothing(target: str) -> None:
    item = Item(criterion=TONE, target_option=target)
    assert [item.part(finding_named(TONE, label)) for label in ("bad", "fine", "good")] == [0.0, 1.0, 0.0]


def test_a_target_may_be_named_in_either_language_whatever_the_finding_speaks() -> None:
    won = [finding_of(YES, YES.scale.choices[0], language=language) for language in ("en", "ru")]
    for target in ("Yes", "Да"):
        item = Item(criterion=YES, target_option=target)
        assert [item.part(finding) for finding in won] == [1.0, 1.0]
        assert item.part(MinimalFinding(score=0.0, option="Нет")) == 0.0


def test_options_without_scores_count_by_their_target() -> None:
    item = Item(criterion=TOPIC, target_option="billing")
    assert item.part(MinimalFinding(option="billing")) == 1.0
    assert item.part(MinimalFinding(option="delivery")) == 0.0


@pytest.mark.parametrize(("score", "counts"), [(0.49, 0.0), (0.5, 0.0), (0.51, 1.0)])
def test_a_threshold_counts_one_only_above_it(score: float, counts: float) -> None:
    assert Item(criterion=LENGTH, threshold=0.5).part(MinimalFinding(score=score)) == counts


def test_a_threshold_compares_the_normalised_score_where_higher_is_worse() -> None:
    item = Item(criterion=FLAWS, threshold=0.6)
    assert [item.part(finding_named(FLAWS, label)) for label in ("none", "some", "many")] == [1.0, 0.0, 0.0]


def test_without_normalisation_values_count_as_they_are_and_the_criterion_is_not_changed() -> None:
    grade = criterion("grade", scale=options(low=1.0, mid=2.0, top=5.0))
    before = grade.model_dump()
    result = MultiCriteria([Item(criterion=grade, normalize=False), LENGTH]).compose(
        {"grade": finding_named(grade, "mid"), "length": MinimalFinding(score=0.5)}
    )
    assert result.score == pytest.approx((2.0 + 0.5) / 2)
    assert grade.model_dump() == before
    # The mean of two judges, low and top.
    assert Item(criterion=grade, normalize=False).part(finding_named(grade, "low", score=0.5)) == 3.0


@pytest.mark.parametrize(
    "finding",
    [
        None,
        MinimalFinding(status=Status.INSUFFICIENT, score=1.0, option="good"),
        MinimalFinding(score=None, option="excellent"),
        MinimalFinding(score=math.nan, option="excellent"),
        MinimalFinding(score=math.inf, option="excellent"),
        MinimalFinding(score=1.5, option="excellent"),
    ],
    ids=str,
)
@pytest.mark.parametrize("settings", [{}, {"threshold": 0.5}, {"target_option": "good"}], ids=str)
def test_a_finding_without_a_verdict_counts_nothing_and_meets_nothing(
    finding: MinimalFinding | None, settings: dict[str, Any]
) -> None:
    item = Item(criterion=TONE, required=True, **settings)
    assert (item.part(finding), item.met(finding)) == (None, None)
    result = MultiCriteria([item, LENGTH]).compose({"tone": finding, "length": MinimalFinding(score=1.0)})
    assert (result.score, result.status, result.coverage, result.failed) == (None, INCOMPLETE, 0.5, ())


# Required criteria


@pytest.mark.parametrize("settings", [{}, {"threshold": 0.5}, {"target_option": "good"}, {"weight": 0.0}], ids=str)
def test_a_required_criterion_that_does_not_apply_is_neither_missing_nor_failed(settings: dict[str, Any]) -> None:
    item = Item(criterion=TONE, required=True, **settings)
    unfit = MinimalFinding(status=Status.NOT_APPLICABLE, score=1.0, option="good")
    assert (item.part(unfit), item.met(unfit)) == (None, None)
    result = MultiCriteria([item, LENGTH]).compose({"tone": unfit, "length": MinimalFinding(score=0.5)})
    assert (result.score, result.status, result.coverage, result.failed) == (0.5, OK, 1.0, ())


def compose_required(settings: Mapping[str, Any], finding: MinimalFinding | None, of: Criterion = TONE) -> MultiResult:
    multi = MultiCriteria([Item(criterion=of, required=True, **settings), LENGTH])
    return multi.compose({of.name: finding, "length": MinimalFinding(score=0.5)})


@pytest.mark.parametrize(
    ("settings", "label", "met"),
    [
        ({}, "good", True),
        ({}, "fine", False),
        ({"target_option": "fine"}, "fine", True),
        ({"target_option": "fine"}, "good", False),
        ({"threshold": 0.4}, "fine", True),
        ({"threshold": 0.5}, "fine", False),
        ({"weight": 0.0}, "good", True),
        ({"weight": 0.0}, "fine", False),
    ],
    ids=str,
)
def test_a_required_criterion_that_is_not_met_makes_the_composite_zero(
    settings: dict[str, Any], label: str, met: bool
) -> None:
    result = compose_required(settings, finding_named(TONE, label))
    assert result.status is (OK if met else FAILED)
    assert result.failed == (() if met else ("tone",))
    assert passes(result) is met
    assert result.score == 0.0 or met


def test_a_required_criterion_is_met_by_the_winner_and_not_by_the_mean_of_the_votes() -> None:
    """Yes, No, Yes: yes has won, though the mean is below 1. No, Yes, No is not saved by its 0.333."""
    assert compose_required({}, MinimalFinding(score=2 / 3, option="Yes"), YES).status is OK
    assert compose_required({}, MinimalFinding(score=2 / 3, option="Да"), YES).score == pytest.approx((2 / 3 + 0.5) / 2)
    assert compose_required({}, MinimalFinding(score=1 / 3, option="No"), YES).status is FAILED
    clarity = RAG["clarity"]
    assert compose_required({}, finding_named(clarity, "very clear", score=0.75), clarity).status is OK


def test_every_option_with_the_best_score_is_a_best_one() -> None:
    kind = criterion("kind", scale=options(warm=1.0, polite=1.0, rude=0.0))
    assert [compose_required({}, finding_named(kind, label), kind).status for label in ("warm", "polite", "rude")] == [
        OK,
        OK,
        FAILED,
    ]


def test_the_best_option_is_the_lowest_where_higher_is_worse() -> None:
    assert compose_required({}, finding_named(FLAWS, "none"), FLAWS).status is OK
    assert compose_required({}, finding_named(FLAWS, "many"), FLAWS).status is FAILED


def test_the_best_of_a_range_is_its_full_score() -> None:
    multi = MultiCriteria([Item(criterion=LENGTH, required=True)])
    assert multi.compose({"length": MinimalFinding(score=1.0)}).status is OK
    assert multi.compose({"length": MinimalFinding(score=0.99)}).status is FAILED


def test_all_required_criteria_that_failed_are_named_and_missing_ones_are_not() -> None:
    multi = rag(required=frozenset({"clarity", "groundedness", "completeness"}))
    result = compose_levels((3, 1, 2, 2, 0, 2), multi)
    assert (result.status, result.failed) == (FAILED, ("clarity", "groundedness"))
    result = compose_levels((3, 1, None, 2, 0, 2), multi)
    assert (result.status, result.failed, result.score) == (INCOMPLETE, ("clarity", "groundedness"), None)


def test_the_first_that_applies_decides() -> None:
    """Unsafe, safety unknown, incomplete, failed, questionable, ok."""
    multi = rag(required=frozenset({"clarity", "groundedness"}))
    bad_and_missing, bad, good = (3, 0, 2, 2, None), (3, 0, 2, 2, 2), (3, 4, 2, 2, 2)
    cases = {
        (*bad_and_missing, 0): UNSAFE,
        (*bad_and_missing, None): SAFETY_UNKNOWN,
        (*bad_and_missing, 1): INCOMPLETE,
        (*bad, 0): UNSAFE,
        (*bad, None): SAFETY_UNKNOWN,
        (*bad, 1): FAILED,
        (*bad, 2): FAILED,
        (*good, 1): QUESTIONABLE,
        (*good, 2): OK,
    }
    assert {levels: compose_levels(levels, multi).status for levels in cases} == cases


# Safety of any criterion


def test_binary_safety_overrides_by_pass_and_fail() -> None:
    harmless = criterion("harmless", scale={"binary": {"passes": "p", "fails": "f"}})
    multi = MultiCriteria([TONE, harmless], safety="harmless")
    good = finding_named(TONE, "good")
    failed = multi.compose({"tone": good, "harmless": MinimalFinding(score=0.0, level=0, option="fail")})
    assert (failed.score, failed.status, failed.safety.level) == (0.0, UNSAFE, 0)
    passed = multi.compose({"tone": good, "harmless": MinimalFinding(score=1.0, level=1, option="pass")})
    assert (passed.score, passed.status, passed.safety.level) == (1.0, OK, 1)


@pytest.mark.parametrize(
    ("label", "score", "status", "safety"),
    [
        ("many", 0.0, UNSAFE, SafetyStatus.UNSAFE),
        ("some", min((1.0 + 0.5) / 2, (1.0 + 1.5 * 0.5) / 2.5), QUESTIONABLE, SafetyStatus.QUESTIONABLE),
        ("none", 1.0, OK, SafetyStatus.SAFE),
    ],
)
def test_options_decide_about_safety_by_their_order_whichever_way_they_run(
    label: str, score: float, status: CompositeStatus, safety: SafetyStatus
) -> None:
    multi = MultiCriteria([TONE, FLAWS], safety="flaws")
    result = multi.compose({"tone": finding_named(TONE, "good"), "flaws": finding_named(FLAWS, label)})
    assert result.score == pytest.approx(score)
    assert (result.status, result.safety.status, result.safety.level) == (status, safety, None)


def test_the_vote_on_safety_overrides_the_findings() -> None:
    flaws = FLAWS.worst_first[0]
    multi = MultiCriteria([TONE, FLAWS], safety="flaws")
    findings = {"tone": finding_named(TONE, "good"), "flaws": finding_named(FLAWS, "none")}
    assert multi.compose(findings, safety=flaws).status is UNSAFE
    assert multi.compose(findings, safety=None).status is SAFETY_UNKNOWN
    assert multi.compose({"tone": findings["tone"]}, safety=flaws).status is UNSAFE


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Item(criterion=TONE, threshold="0.5"), "tone: threshold must be a number, not '0.5'"),
        (lambda: Item(criterion=TONE, threshold=True), "tone: threshold must be a number, not true"),
        (lambda: Item(criterion=TONE, weight="2"), "tone: weight must be a number, not '2'"),
        (lambda: Item(criterion=TONE, weight=None), "tone: weight must be a number, not None"),
        (lambda: Item(criterion=TONE, target_option=1), "tone: target_option must be a text, not 1"),
        (lambda: Item(criterion=TONE, required="no"), "tone: required must be True or False, not 'no'"),
        (lambda: Item(criterion=TONE, normalize=0), "tone: normalize must be True or False, not 0"),
        (lambda: MultiCriteria.of([TONE], weights={"tone": "2"}), "tone: weight must be a number, not '2'"),
        (lambda: MultiCriteria([TONE], safety=True), "safety must be a text, not true"),
        (lambda: MultiCriteria([TONE], min_coverage="0.5"), "min_coverage must be a number, not '0.5'"),
        (lambda: MultiCriteria([TONE], min_coverage=True), "min_coverage must be a number, not true"),
        (lambda: rag_composite({}, min_coverage="x"), "min_coverage must be a number, not 'x'"),
        (
            lambda: Panel(judges=[ScriptedJudge({})], combine="weighted", weights=["m"]),
            "weights must map names of judges to numbers, not ['m']",
        ),
        (
            lambda: Panel(judges=[ScriptedJudge({})], cascade="m"),
            "cascade must be a Cascade, such as Cascade(first=('scripted',)), not 'm'",
        ),
        (
            lambda: Panel(judges=[ScriptedJudge({})], safety="harmfulness"),
            "safety must be a set of names, not the text 'harmfulness'",
        ),
        (
            lambda: DirectJudge(_Named(), check_position="no"),
            "check_position must be True or False, not 'no'",
        ),
        (
            lambda: DirectJudge(_Named(), feedback="no"),
            "feedback must be True or False, not 'no'",
        ),
        (
            lambda: DirectJudge(_Named(), keep_prompt=1),
            "keep_prompt must be True or False, not 1",
        ),
        (lambda: Panel(judges=[ScriptedJudge({})], quorum="1"), "quorum must be a whole number, not '1'"),
        (lambda: Panel(judges=[ScriptedJudge({})], stop_early="no"), "stop_early must be True or False, not 'no'"),
        (
            lambda: Panel(judges=[ScriptedJudge({})], combine="weighted", weights={"scripted": "1"}),
            "the weight of scripted must be a number, not '1'",
        ),
        (lambda: Cascade(first=("a",), threshold="0.5"), "threshold must be a number, not '0.5'"),
        (lambda: VoteRule(stop_early="no"), "stop_early must be True or False, not 'no'"),
    ],
)
def test_a_wrong_type_is_refused_with_its_field(build: Any, says: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(says)}$"):
        build()


@pytest.mark.parametrize("by_panel", [False, True])
def test_no_mean_of_samples_softens_a_verdict_about_safety(by_panel: bool) -> None:
    """Questionable, questionable, safe: the mean is 0.667, and the answer is questionable."""
    harm = RAG[SAFETY_DIMENSION]

    def says(_case: Case, _criterion: Criterion) -> JudgeVerdict:
        fields = {"option": "questionable", "level": 1, "score": 2 / 3, "value": 4 / 3}
        return JudgeVerdict(judge="j", status=Status.SCORED, samples=Samples(requested=3, valid=3), **fields)

    judge = ScriptedJudge(says)
    record = {"question": "Why?", "answer": "So.", "history": "", "contexts": ""}
    [result] = MultiCriteria([harm]).evaluate(Panel(judges=[judge]) if by_panel else judge, [record])
    finding = result.findings["harmfulness"]
    assert (finding.score, finding.level, finding.value) == (0.5, 1, 1)
    assert (result.score, result.status) == (0.5, QUESTIONABLE)


def test_where_no_criterion_of_quality_applies_safety_alone_makes_no_composite() -> None:
    findings: dict[str, MinimalFinding | None] = dict.fromkeys(RAG_DIMENSIONS, NOT_APPLICABLE)
    result = RAG_MULTI.compose({**findings, SAFETY_DIMENSION: FINDINGS[SAFETY_DIMENSION][2]})
    assert (result.score, result.status, result.coverage, result.passed) == (None, INCOMPLETE, 1.0, None)
    only_safety = MultiCriteria([RAG[SAFETY_DIMENSION]])
    result = only_safety.compose({SAFETY_DIMENSION: FINDINGS[SAFETY_DIMENSION][2]})
    assert (result.score, result.status, result.passed) == (1.0, OK, True)


def test_a_safety_verdict_of_another_scale_is_refused() -> None:
    multi = MultiCriteria([TONE, FLAWS], safety="flaws")
    with pytest.raises(ValueError, match=r"flaws: 'bad'"):
        multi.compose({}, safety=TONE.scale.choices[0])
    with pytest.raises(ValueError, match="no safety criterion is set"):
        MultiCriteria([TONE]).compose({}, safety=TONE.scale.choices[0])


def test_without_a_safety_criterion_nothing_overrides_and_safety_stays_unknown() -> None:
    result = MultiCriteria([TONE]).compose({"tone": finding_named(TONE, "bad")})
    assert (result.score, result.status, result.safety.status) == (0.0, OK, SafetyStatus.UNKNOWN)


def test_findings_on_something_else_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="tune"):
        MultiCriteria([TONE]).compose({"tune": finding_named(TONE, "bad")})


# Settings that are refused at the start


@pytest.mark.parametrize(
    ("of", "settings", "says"),
    [
        *((TONE, {"weight": weight}, "weight") for weight in (-1.0, -1e-9, math.nan, math.inf, 1e300)),
        *((TONE, {"threshold": threshold}, "threshold") for threshold in (-0.01, 1.0, 1.01, math.nan, math.inf)),
        (TONE, {"threshold": 0.5, "target_option": "good"}, "exclude each other"),
        (TONE, {"target_option": "goood"}, "'goood'.*bad, fine, good"),
        (YES, {"target_option": "yep"}, "Yes, Да, Нет"),
        (LENGTH, {"target_option": "5"}, "a range has no options"),
        (TOPIC, {}, "only by a target_option"),
        (TOPIC, {"weight": 0.0, "required": True}, "only by a target_option"),
        (TOPIC, {"threshold": 0.5}, "options without scores"),
        (TONE, {"normalize": False, "threshold": 0.5}, "no meaning"),
        (TONE, {"normalize": False, "target_option": "good"}, "no meaning"),
        (FLAWS, {"normalize": False}, "higher is worse"),
        (criterion("huge", scale=options(a=0.0, b=1e300)), {"normalize": False}, "at most"),
        (
            criterion(
                "mixed", scale={"options": [{"label": {"en": "a", "ru": "b"}}, {"label": {"en": "b", "ru": "a"}}]}
            ),
            {"target_option": "a"},
            "another option's",
        ),
    ],
)
def test_an_item_that_makes_no_sense_is_refused_by_name(of: Criterion, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{of.name}: .*{says}"):
        Item(criterion=of, **settings)


@pytest.mark.parametrize("written", ["Is it polite?", "toxicity"])
def test_an_item_takes_a_question_or_the_name_of_a_shipped_criterion(written: Any) -> None:
    assert Item(criterion=written).criterion == criterion_of(written)
    with pytest.raises(TypeError, match="criterion must be a Criterion, a question"):
        Item(criterion=5)  # type: ignore[arg-type]


def test_a_mapping_of_criteria_or_items_means_its_values() -> None:
    assert MultiCriteria(RAG).criteria == RAG
    assert MultiCriteria.of(RAG).criteria == RAG
    assert list(MultiCriteria({"a": Item(criterion=TONE, weight=2.0), "b": "toxicity"}).items) == ["tone", "toxicity"]


@pytest.mark.parametrize("items", ["Is it polite?", TONE, Item(criterion=TONE), 5, None], ids=repr)
def test_one_item_instead_of_a_list_is_refused_with_a_correction(items: Any) -> None:
    with pytest.raises(TypeError, match=r"items must be a list or a mapping, .* write \[item\]"):
        MultiCriteria(items)


def test_all_problems_of_an_item_are_reported_at_once() -> None:
    with pytest.raises(ValueError, match=r"(?s)tone: .*weight.*threshold must.*exclude.*'x'"):
        Item(criterion=TONE, weight=-1, threshold=2, target_option="x")


def test_options_without_scores_may_stand_beside_the_composite_with_no_weight() -> None:
    multi = MultiCriteria([TONE, Item(criterion=TOPIC, weight=0.0)])
    result = multi.compose({"tone": finding_named(TONE, "good"), "topic": MinimalFinding(option="billing")})
    assert (result.score, result.coverage, result.findings["topic"].option) == (1.0, 1.0, "billing")


@pytest.mark.parametrize(
    ("items", "safety", "says"),
    [
        ([], None, "at least one criterion"),
        ([TONE, LENGTH, TONE], None, r"\['tone'\] occur more than once"),
        ([Item(criterion=TONE, weight=0.0), Item(criterion=LENGTH, weight=0.0)], None, "'tone', 'length'"),
        ([TONE], "harm", "the safety criterion 'harm' is not one of the criteria"),
        ([TONE, LENGTH], "length", "length cannot be the safety criterion"),
        ([TONE, Item(criterion=TOPIC, target_option="billing")], "topic", "topic cannot be the safety criterion"),
    ],
)
def test_criteria_that_make_no_composite_are_refused_by_name(items: list[Any], safety: str | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        MultiCriteria(items, safety=safety)


def test_raw_values_below_zero_are_refused_where_something_can_fail() -> None:
    """Otherwise the 0 of an unsafe answer would be better than a bad mean."""
    mood = Item(criterion=criterion("mood", scale=options(sad=-1.0, glad=1.0)), normalize=False)
    assert MultiCriteria([mood]).compose({"mood": MinimalFinding(score=0.0, option="sad")}).score == -1.0
    with pytest.raises(ValueError, match="mood: normalize"):
        MultiCriteria([mood, TONE], safety="tone")
    with pytest.raises(ValueError, match="mood: normalize"):
        MultiCriteria([replace(mood, required=True)])


def test_weights_and_requirements_on_unknown_criteria_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="groundednes'"):
        MultiCriteria.of(RAG.values(), required={"groundednes"})
    with pytest.raises(ValueError, match="clarty"):
        rag_composite({}, weights={"clarty": 2.0})


def test_a_plain_question_and_a_bare_criterion_are_items_of_weight_one() -> None:
    multi = MultiCriteria(["Is it polite?", TONE])
    assert list(multi.criteria) == [YES.name, "tone"]
    assert [item.weight for item in multi.items.values()] == [1.0, 1.0]


# Arbitrary criteria


def _text(draw: st.DrawFn, prefix: str) -> dict[str, str]:
    return {"en": f"{prefix} en", "ru": f"{prefix} ru"} if draw(st.booleans()) else {"en": prefix, "ru": prefix}


@st.composite
def discrete_scales(draw: st.DrawFn) -> Levels | Binary | Options:
    kind = draw(st.sampled_from(["levels", "binary", "options"]))
    if kind == "binary":
        return Binary(
            binary=PassFail(passes=LocalizedText.model_validate("p"), fails=LocalizedText.model_validate("f"))
        )
    if kind == "levels":
        values = sorted(draw(st.sets(st.integers(-5, 9), min_size=2, max_size=5)))
        levels = [{"value": value, "label": _text(draw, f"l{value}"), "description": "d"} for value in values]
        return Levels.model_validate({"levels": levels})
    scores = draw(
        st.lists(st.floats(-4, 4, width=16), min_size=2, max_size=4).filter(lambda values: len(set(values)) > 1)
    )
    named_options = [{"label": _text(draw, f"o{index}"), "score": score} for index, score in enumerate(scores)]
    return Options.model_validate({"options": named_options})


weights = st.one_of(st.sampled_from([0.0, 1.0, 2.0]), st.floats(min_value=1e-9, max_value=1e9), st.floats(1e-3, 4.0))


@st.composite
def items(draw: st.DrawFn, name: str, *, discrete: bool = False) -> Item:
    """Draw an item whose target, if any, is the best option: only then is missing it a worse finding."""
    scale: Levels | Binary | Options | Range = draw(discrete_scales())
    if not discrete and draw(st.integers(0, 4)) == 0:
        scale = Range.model_validate({"range": {"min": -1.0, "max": 3.0}})
    higher_is = "better" if scale.kind == "binary" else draw(st.sampled_from(["better", "worse"]))
    of = criterion(name, scale=scale, higher_is=higher_is)
    settings: dict[str, Any] = {"weight": draw(weights), "required": draw(st.integers(0, 3)) == 0}
    kind = draw(st.sampled_from(["score", "score", "threshold", "target"]))
    if kind == "threshold":
        settings["threshold"] = draw(st.floats(0.0, 1.0, exclude_max=True))
    elif kind == "target" and of.worst_first and len({c.value for c in of.worst_first[-2:]}) > 1:
        settings["target_option"] = of.worst_first[-1].label.of(draw(st.sampled_from(["en", "ru"])))
    elif higher_is == "better" and scale.bounds is not None and scale.bounds[0] >= 0:
        settings["normalize"] = draw(st.booleans())
    return Item(criterion=of, **settings)


@st.composite
def multis(draw: st.DrawFn) -> MultiCriteria:
    count = draw(st.integers(0, 4))
    listed = [draw(items("safe", discrete=True)), *(draw(items(f"c{index}")) for index in range(count))]
    if not any(item.weight for item in listed):
        listed[-1] = replace(listed[-1], weight=1.0)
    return MultiCriteria(draw(st.permutations(listed)), safety="safe")


def _finding(draw: st.DrawFn, of: Criterion) -> MinimalFinding | None:
    if draw(st.integers(0, 7)) == 0:
        return draw(
            st.sampled_from(
                [None, MinimalFinding(status=Status.INSUFFICIENT), MinimalFinding(status=Status.NOT_APPLICABLE)]
            )
        )
    if of.scale.kind == "range":
        return MinimalFinding(score=draw(st.floats(0.0, 1.0)))
    return finding_of(of, draw(st.sampled_from(of.scale.choices)), language=draw(st.sampled_from(["en", "ru"])))


@st.composite
def composites(draw: st.DrawFn) -> tuple[MultiCriteria, dict[str, MinimalFinding | None]]:
    multi = draw(multis())
    return multi, {name: _finding(draw, criterion) for name, criterion in multi.criteria.items()}


def one_worse(
    multi: MultiCriteria, findings: dict[str, MinimalFinding | None]
) -> Iterator[dict[str, MinimalFinding | None]]:
    """Yield each way to make one finding worse."""
    for name, finding in findings.items():
        if finding is None or finding.score is None:
            continue
        of = multi.criteria[name]
        if of.scale.kind == "range":
            yield {**findings, name: MinimalFinding(score=finding.score / 2)}
        for choice in of.scale.choices:
            score = of.score(choice)
            if score is not None and score < finding.score:
                yield {**findings, name: finding_of(of, choice)}


@given(composites())
def test_no_unsafe_or_safety_unknown_answer_passes_whatever_the_criteria(
    drawn: tuple[MultiCriteria, dict[str, MinimalFinding | None]],
) -> None:
    multi, findings = drawn
    safety = multi.criteria["safe"]
    result = multi.compose({**findings, "safe": finding_of(safety, safety.worst_first[0])})
    assert (result.score, result.status) == (0.0, UNSAFE)
    for silent in (None, MinimalFinding(status=Status.INSUFFICIENT), MinimalFinding(status=Status.NOT_APPLICABLE)):
        result = multi.compose({**findings, "safe": silent})
        assert (result.score, result.status) == (None, SAFETY_UNKNOWN)


@given(composites())
def test_worse_is_never_better_whatever_the_criteria(
    drawn: tuple[MultiCriteria, dict[str, MinimalFinding | None]],
) -> None:
    multi, findings = drawn
    better = multi.compose(findings)
    for worse in one_worse(multi, findings):
        assert_no_better(multi.compose(worse), better)


@given(composites(), st.data())
def test_worse_votes_and_worse_means_are_never_better(
    drawn: tuple[MultiCriteria, dict[str, MinimalFinding | None]], data: st.DataObject
) -> None:
    """In a panel the score is a mean and the safety verdict a vote: each can fall alone."""
    multi, findings = drawn
    safety = multi.criteria["safe"].worst_first
    vote = data.draw(st.integers(0, len(safety) - 1))
    shaken = {n: f and replace(f, score=f.score and data.draw(st.floats(0.0, f.score))) for n, f in findings.items()}
    better = multi.compose(findings, safety=safety[vote])
    assert_no_better(multi.compose(shaken, safety=safety[vote]), better)
    if vote:
        assert_no_better(multi.compose(findings, safety=safety[vote - 1]), better)


@given(composites())
def test_a_composite_is_finite_within_its_parts_and_independent_of_their_order(
    drawn: tuple[MultiCriteria, dict[str, MinimalFinding | None]],
) -> None:
    multi, findings = drawn
    result = multi.compose(findings)
    assert 0.0 <= result.coverage <= 1.0
    parts = [item.part(findings[name]) for name, item in multi.items.items()]
    present = [part for part in parts if part is not None]
    if result.status in {OK, QUESTIONABLE}:
        assert result.score is not None
        assert min(present) - 1e-9 <= result.score <= max(present) + 1e-9
    elif result.status in {UNSAFE, FAILED}:
        assert result.score == 0.0
    else:
        assert result.score is None
    again = MultiCriteria(reversed(list(multi.items.values())), safety="safe").compose(findings)
    assert (again.score, again.status, again.coverage) == (result.score, result.status, result.coverage)


@given(composites())
def test_a_required_finding_decides_also_where_it_weighs_nothing(
    drawn: tuple[MultiCriteria, dict[str, MinimalFinding | None]],
) -> None:
    multi, findings = drawn
    unfit = {
        name for name, finding in findings.items() if finding is not None and finding.status is Status.NOT_APPLICABLE
    }
    required = [item for name, item in multi.items.items() if item.required and name not in unfit]
    met = {item.criterion.name: item.met(findings[item.criterion.name]) for item in required}
    result = multi.compose(findings)
    assert result.failed == tuple(name for name, fulfilled in met.items() if fulfilled is False)
    if None in met.values():
        assert result.status in {UNSAFE, SAFETY_UNKNOWN, INCOMPLETE}
    elif result.failed:
        assert result.status in {UNSAFE, SAFETY_UNKNOWN, INCOMPLETE, FAILED}
    else:
        assert result.status is not FAILED


# Judging by several criteria


class Reader(Judge):
    """Reads its verdicts from the field under evaluation: `tone=good flaws=none`."""

    def __init__(self, name: str = "reader", shift: int = 0) -> None:
        self._name = name
        self._shift = shift
        self.asked: list[str] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def identity(self) -> str:
        return "reader v1"

    async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        self.asked.append(criterion.name)
        labels = dict(word.split("=") for word in case.text(criterion.to_evaluate).split())
        choice = criterion.scale.find(labels[criterion.name], "en")
        assert choice is not None
        worse = criterion.worst_first[max(0, criterion.worst_first.index(choice) - self._shift)]
        return JudgeVerdict(
            judge=self.name,
            status=Status.SCORED,
            score=criterion.score(worse),
            level=None if criterion.scale.kind == "options" else int(worse.value or 0),
            option=worse.label.of(case.language),
            value=worse.value,
            explanation=f"{self.name} read {worse.label.en}",
            samples=Samples(requested=1, valid=1),
        )


CLARITY = RAG["clarity"].model_copy(update={"context": ()})
HARM = RAG["harmfulness"].model_copy(update={"context": ()})
TEXTS = ["clarity=clear harmfulness=safe", "clarity=unclear harmfulness=questionable", "clarity=clear"]


def test_a_judge_evaluates_a_list_and_one_bad_instance_does_not_fail_the_rest() -> None:
    multi = MultiCriteria([CLARITY, HARM], safety="harmfulness")
    good, doubtful, silent, wrong = multi.evaluate(Reader(), [*TEXTS, 5])  # type: ignore[list-item]
    assert good.score == pytest.approx((0.75 + 1.0) / 2)
    assert doubtful.score == pytest.approx(min((0.25 + 0.5) / 2, (0.25 + 0.75) / 2.5))
    assert [result.status for result in (good, doubtful, silent, wrong)] == [
        OK,
        QUESTIONABLE,
        SAFETY_UNKNOWN,
        SAFETY_UNKNOWN,
    ]
    assert good.explanations == {"clarity": ("reader read clear",), "harmfulness": ("reader read safe",)}
    finding = wrong.findings["clarity"]
    assert isinstance(finding, Dimension)
    assert finding.reason is Reason.MISSING_FIELD
    assert "instance 3" in (finding.detail or "")


@pytest.mark.parametrize(
    ("items", "settings", "levels", "expected"),
    [
        (RAG, {}, {}, (OK, 1.0)),
        (RAG, {}, {"harmfulness": 0}, (UNSAFE, 0.0)),
        (RAG, {}, {"harmfulness": 1}, (QUESTIONABLE, pytest.approx(5.75 / 6.5))),
        (RAG, {}, {"harmfulness": None}, (SAFETY_UNKNOWN, None)),
        (RAG, {"safety": "harmfulness"}, {"harmfulness": 0}, (UNSAFE, 0.0)),
        (RAG, {"safety": None}, {"harmfulness": 0}, (OK, pytest.approx(5 / 6))),
        (RAG, {"safety": "clarity"}, {"clarity": 0}, (UNSAFE, 0.0)),
        (load_catalogue("aspects"), {}, {"harmlessness": 0}, (UNSAFE, 0.0)),
        ([CLARITY], {}, {"clarity": 0}, (OK, 0.0)),
    ],
)
def test_a_criterion_about_safety_brings_its_override_along(
    items: Any, settings: dict[str, Any], levels: dict[str, int | None], expected: tuple[CompositeStatus, float | None]
) -> None:
    for build in (MultiCriteria, MultiCriteria.of):
        multi = build(items, **settings)
        findings = {
            name: finding_of(criterion, choice)
            for name, criterion in multi.criteria.items()
            if (choice := criterion.choice(levels.get(name, int(criterion.worst_first[-1].value or 0)), None))
            is not None
        }
        result = multi.compose(findings)
        assert (result.status, result.score) == expected


def test_where_two_criteria_are_about_safety_one_must_be_named() -> None:
    both = ["rag.harmfulness", "aspects.harmlessness"]
    with pytest.raises(ValueError, match="harmfulness and harmlessness are both about safety; choose one"):
        MultiCriteria(both)
    assert MultiCriteria(both, safety="harmlessness").safety == "harmlessness"


@pytest.mark.parametrize(
    "fields",
    [
        {"level": 9, "score": 1.0},
        {"option": "brilliant", "score": 1.0},
        {"level": 4, "option": "unclear", "score": 1.0},
        {"level": 4},
        {"score": 1.0},
    ],
)
def test_verdicts_off_the_scale_are_refused_as_in_a_panel(fields: dict[str, Any]) -> None:
    verdict = JudgeVerdict(judge="own", status=Status.SCORED, samples=Samples(requested=1, valid=1), **fields)
    judge = ScriptedJudge({"clarity": verdict}, "own")
    findings = [MultiCriteria([CLARITY]).evaluate(judging, ["a"])[0] for judging in (judge, Panel(judges=[judge]))]
    for result in findings:
        assert (result.score, result.status, result.coverage) == (None, INCOMPLETE, 0.0)
        finding = result.findings["clarity"]
        assert isinstance(finding, JudgeVerdict | Dimension)
        assert finding.reason is Reason.INVALID_OUTPUT


class _Named:
    """A model that names the first answer."""

    name = identity = "named"
    paused = None

    async def complete(self, *_: Any, **__: Any) -> Completion:
        return Completion(text='{"explanation": "e", "verdict": "A"}')

    async def aclose(self) -> None: ...


RESULTS: list[Any] = [
    MultiCriteria([CLARITY]).evaluate(ScriptedJudge({"clarity": 3}), ["a"])[0],
    MultiCriteria([CLARITY]).evaluate(Panel(judges=[ScriptedJudge({"clarity": 3})]), ["a"])[0],
    MultiCriteria([HARM]).compose({"harmfulness": MinimalFinding(score=0.0, level=0)}),
    MultiCriteria([HARM]).compose({}),
    ScriptedJudge({"clarity": Reason.TIMEOUT}).evaluate(["a"], CLARITY)[0],
    Panel(judges=[ScriptedJudge({"clarity": 3})]).evaluate(["a"], CLARITY)[0],
    rag_composite({"harmfulness": 2, "clarity": 4}),
    PairwiseJudge(_Named()).evaluate([Comparison(["a", "b", "b"])], "Is it clear?")[0],
]


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_every_result_has_a_json_form(result: Any) -> None:
    document = json.loads(result.model_dump_json())
    assert document == json.loads(json.dumps(result.model_dump(mode="json")))
    assert document.keys() == result.model_dump().keys()
    if isinstance(result, MultiResult):
        assert document["status"] == result.status.value
        assert document["findings"].keys() == result.findings.keys()
        assert all(document["findings"][name]["score"] == finding.score for name, finding in result.findings.items())
    else:
        assert type(result).model_validate_json(result.model_dump_json()) == result


def test_a_panel_evaluates_with_its_vote_on_safety() -> None:
    multi = MultiCriteria([CLARITY, HARM], safety="harmfulness")
    panel = Panel(judges=(Reader("a"), Reader("b"), Reader("c", shift=2)))
    [by_majority] = multi.evaluate(panel, TEXTS[:1])
    assert by_majority.status is OK
    assert by_majority.score == pytest.approx(((0.75 + 0.75 + 0.25) / 3 + 1.0) / 2)
    assert by_majority.explanations["harmfulness"] == ("a read safe", "b read safe", "c read harmful")
    [by_any] = multi.evaluate(panel, TEXTS[:1], safety_vote="any")
    assert (by_any.status, by_any.score) == (UNSAFE, 0.0)


@pytest.mark.parametrize("options", [{"cascade": Cascade(first=("a",))}, {"stop_early": True, "combine": "max"}])
def test_all_judges_are_asked_about_safety_whatever_its_criterion_is_called(options: dict[str, Any]) -> None:
    """The panel needs no setting for it: the first judge passes an answer that the two others find unsafe."""
    harm = HARM.model_copy(update={"name": "threats"})
    panel = Panel(judges=(Reader("a"), Reader("b", shift=2), Reader("c", shift=2)), **options)
    [result] = MultiCriteria([CLARITY, harm], safety="threats").evaluate(panel, ["clarity=clear threats=safe"])
    assert (result.status, result.score) == (UNSAFE, 0.0)
    assert len(result.explanations["threats"]) == 3


def test_criteria_that_show_the_most_are_asked_first_and_reported_in_their_own_order() -> None:
    multi = MultiCriteria(
        [criterion("a", context=()), criterion("b", context=("q",)), criterion("c"), criterion("d", context=("q",))]
    )
    reader = Reader()
    [result] = multi.evaluate(reader, [{"answer": "a=l2 b=l2 c=l2 d=l2", "q": "?"}])
    assert reader.asked == ["c", "b", "d", "a"]
    assert list(result.findings) == ["a", "b", "c", "d"]
    assert result.score == 1.0


def test_evaluating_without_a_safety_criterion_overrides_nothing() -> None:
    [result] = MultiCriteria([CLARITY]).evaluate(Reader(), TEXTS[1:2])
    assert (result.score, result.status) == (0.25, OK)
    [result] = MultiCriteria([CLARITY]).evaluate(Panel(judges=(Reader(),)), TEXTS[1:2])
    assert (result.score, result.status) == (0.25, OK)
