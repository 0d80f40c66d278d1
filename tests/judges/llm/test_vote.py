"""The vote of one judge's samples: its results, and when the remaining samples need not be requested."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.criteria.scale import Bounds, LocalizedText, Option, Options, Range
from judges.llm.completion import Valid
from judges.llm.vote import VoteOutcome, VoteRule, majority
from judges.values.combine import lower_median
from judges.values.evaluation import Reason

WORD = LocalizedText(en="word", ru="слово")


def probe(scale: Any, **more: Any) -> Criterion:
    return Criterion(name="probe", title=WORD, question=WORD, scale=scale, **more)


def options(*labels: str, scores: Sequence[float] | None = None, **more: Any) -> Criterion:
    values: Sequence[float | None] = scores or [None] * len(labels)
    listed = tuple(
        Option(label=LocalizedText(en=en, ru=en), score=score) for en, score in zip(labels, values, strict=True)
    )
    return probe(Options(options=listed), **more)


YES_NO = Criterion.of("Is it so?")
RUDE = YES_NO.model_copy(update={"higher_is": "worse"})
POLITE = Criterion.pass_fail("Is it polite?")
GROUNDEDNESS = load_catalogue()["groundedness"]
CLARITY = load_catalogue()["clarity"]
TONE = options("formal", "casual", "mixed")
GRADE = options("good", "fair", "poor", scores=(2, 1, 0))
TWINS = options("good", "fine", "poor", scores=(1, 1, 0))
TEN = probe(Range(range=Bounds(min=0, max=10)))
TENTH = probe(Range(range=Bounds(min=0, max=0.1)))
PENALTY = probe(Range(range=Bounds(min=0, max=10)), higher_is="worse")
PERHAPS = {"not_applicable": WORD}
NA = Valid()


def vote(criterion: Criterion, *values: str | float | None) -> list[Valid]:
    """Return valid answers by their English label or number; None means not applicable."""
    return [_answer(criterion, value) for value in values]


def _answer(criterion: Criterion, verdict: str | float | None) -> Valid:
    if verdict is None:
        return NA
    if isinstance(verdict, str):
        choice = criterion.scale.find(verdict, "en")
        assert choice is not None
        return Valid(choice=choice, value=choice.value)
    return Valid(value=verdict)


def find(criterion: Criterion, *verdicts: str | float | None, **rule: Any) -> VoteOutcome:
    result = VoteRule(**({"samples": len(verdicts)} | rule)).find(criterion, vote(criterion, *verdicts))
    assert isinstance(result, VoteOutcome), result
    return result


def none(criterion: Criterion, *verdicts: str | float | None, **rule: Any) -> Reason:
    reason = VoteRule(**({"samples": len(verdicts)} | rule)).find(criterion, vote(criterion, *verdicts))
    assert isinstance(reason, Reason), reason
    return reason


def outcome(result: VoteOutcome) -> tuple[str | None, float | None, bool]:
    return result.choice.label.en if result.choice else None, result.score, result.tie


class TestMajority:
    def test_the_winner_and_its_score_are_not_mixed_with_the_share_of_its_votes(self) -> None:
        assert outcome(find(YES_NO, "Yes", "No", "Yes")) == ("Yes", 1.0, False)

    def test_the_score_is_the_mean_of_the_votes_where_that_is_asked_for(self) -> None:
        result = find(YES_NO, "Yes", "No", "Yes", score_from="mean")
        assert result.choice == YES_NO.scale.find("Yes", "en")
        assert result.score == pytest.approx(2 / 3)
        assert result.value == 1.0

    @pytest.mark.parametrize("order", [("Yes", "No"), ("No", "Yes"), ("Yes", "Yes", "No", "No")])
    def test_a_tie_goes_to_the_worse_and_says_so(self, order: tuple[str, ...]) -> None:
        assert outcome(find(YES_NO, *order)) == ("No", 0.0, True)
        assert outcome(find(POLITE, *("pass" if label == "Yes" else "fail" for label in order))) == ("fail", 0.0, True)

    def test_the_worse_side_of_a_tie_is_yes_where_yes_is_bad(self) -> None:
        assert outcome(find(RUDE, "Yes", "No")) == ("Yes", 0.0, True)

    def test_it_is_the_default_for_aspects_and_options_only(self) -> None:
        rule = VoteRule(samples=3)
        defaults = {criterion: rule.combination(criterion) for criterion in (POLITE, YES_NO, TONE, CLARITY, TEN)}
        assert list(defaults.values()) == ["majority", "majority", "majority", "mean", "mean"]

    @pytest.mark.parametrize(
        ("labels", "expected"),
        [
            (("good", "good", "fair", "poor", "poor"), ("poor", 0.0, True)),
            (("good", "good", "fair", "fair", "poor"), ("fair", 0.5, True)),
            (("good", "good", "fair", "poor"), ("good", 1.0, False)),
            (("good", "fair", "poor"), ("poor", 0.0, True)),
        ],
    )
    def test_most_votes_win_without_a_majority_and_a_tie_goes_to_the_worse_of_the_tied(
        self, labels: tuple[str, ...], expected: tuple[str, float, bool]
    ) -> None:
        assert outcome(find(GRADE, *labels)) == expected

    def test_levels_can_be_voted_on_too(self) -> None:
        result = find(GROUNDEDNESS, "fully supported", "hallucinated", "fully supported", combine="majority")
        assert outcome(result) == ("fully supported", 1.0, False)

    def test_options_with_the_same_score_are_distinguished(self) -> None:
        assert outcome(find(TWINS, "fine", "fine", "good")) == ("fine", 1.0, False)

    def test_options_without_scores_have_a_winner_and_no_score(self) -> None:
        assert find(TONE, "casual", "mixed", "casual") == VoteOutcome(choice=TONE.scale.find("casual", "en"))

    @pytest.mark.parametrize("labels", [("formal", "casual"), ("formal", "casual", "mixed")])
    def test_options_without_scores_that_tie_have_no_winner(self, labels: tuple[str, ...]) -> None:
        assert none(TONE, *labels) is Reason.NO_MAJORITY

    def test_most_votes_win_among_options_without_scores(self) -> None:
        assert find(TONE, "formal", "formal", "casual", "mixed").choice == TONE.scale.find("formal", "en")

    def test_only_valid_samples_vote(self) -> None:
        """One of three is missing: the two that agree are all the votes."""
        assert outcome(find(YES_NO, "Yes", "Yes", samples=3)) == ("Yes", 1.0, False)
        assert outcome(find(YES_NO, "Yes", "No", samples=3)) == ("No", 0.0, True)


class TestMinPass:
    @pytest.mark.parametrize(
        ("min_pass", "passes", "option"),
        [(1, 1, "pass"), (1, 0, "fail"), (3, 3, "pass"), (3, 2, "fail"), (5, 5, "pass"), (5, 4, "fail")],
        ids=["any", "none", "majority", "minority", "unanimous", "all but one"],
    )
    def test_it_passes_with_enough_passing_samples(self, min_pass: int, passes: int, option: str) -> None:
        labels = ["pass"] * passes + ["fail"] * (5 - passes)
        assert outcome(find(POLITE, *labels, min_pass=min_pass)) == (option, float(option == "pass"), False)

    def test_without_it_more_than_half_must_pass(self) -> None:
        """A default of one would let a single pass among five decide."""
        assert outcome(find(POLITE, "pass", "fail", "fail", "fail", "fail")) == ("fail", 0.0, False)

    def test_failed_samples_are_not_fails(self) -> None:
        """Four of the five required samples pass: the missing one would decide, and its verdict is unknown."""
        assert none(POLITE, *["pass"] * 4, samples=5, min_pass=5) is Reason.QUORUM

    def test_a_fail_that_missing_samples_could_not_change_is_a_fail(self) -> None:
        assert outcome(find(POLITE, "pass", "pass", "pass", "fail", samples=5, min_pass=5)) == ("fail", 0.0, False)

    def test_a_pass_needs_enough_valid_samples_too(self) -> None:
        assert none(POLITE, "pass", "pass", samples=5, min_pass=1) is Reason.QUORUM

    def test_the_score_can_be_the_share_that_passed(self) -> None:
        assert find(POLITE, "pass", "fail", "fail", min_pass=1, score_from="mean").score == pytest.approx(1 / 3)


class TestNumbers:
    @pytest.mark.parametrize(
        ("combine", "value"), [("mean", 5.0), ("median", 5.5), ("min", 1.0), ("max", 8.0), (None, 5.0)]
    )
    def test_they_are_combined_by_name(self, combine: str | None, value: float) -> None:
        result = find(TEN, 8, 1, 4, 7, combine=combine)
        assert (result.choice, result.value) == (None, value)
        assert result.score == pytest.approx(value / 10)

    def test_the_median_of_an_odd_count_is_the_middle(self) -> None:
        assert find(TEN, 9, 1, 2, combine="median").value == 2

    def test_scores_run_down_where_higher_is_worse(self) -> None:
        assert find(PENALTY, 2, 4).score == pytest.approx(0.7)

    def test_levels_have_the_mean_for_a_score_and_the_level_that_half_say_or_worse(self) -> None:
        result = find(GROUNDEDNESS, "fully supported", "hallucinated", "fully supported", "partly supported")
        assert outcome(result) == ("partly supported", 0.625, False)
        assert result.value == pytest.approx(1.25)

    @pytest.mark.parametrize(("combine", "label"), [("min", "poor"), ("max", "good"), ("median", "poor")])
    def test_the_choice_of_an_extreme_is_the_one_that_has_it(self, combine: str, label: str) -> None:
        result = find(GRADE, "good", "poor", combine=combine)
        assert result.choice == GRADE.scale.find(label, "en")

    @pytest.mark.parametrize(
        ("criterion", "verdicts", "combine", "expected"),
        [
            (TEN, (2, 9), "min", (None, 2.0, 0.2)),
            (TEN, (2, 9), "max", (None, 9.0, 0.9)),
            (PENALTY, (2, 9), "min", (None, 9.0, 0.1)),
            (PENALTY, (2, 9), "max", (None, 2.0, 0.8)),
            (RUDE, ("Yes", "No", "No"), "min", ("Yes", 1.0, 0.0)),
            (RUDE, ("Yes", "No", "No"), "max", ("No", 0.0, 1.0)),
            (GROUNDEDNESS, ("fully supported", "fully supported", "hallucinated"), "min", ("hallucinated", 0.0, 0.0)),
            (TWINS, ("good", "fine", "poor"), "max", ("fine", 1.0, 1.0)),
        ],
    )
    def test_the_least_is_the_worst_whichever_way_the_scale_runs(
        self, criterion: Criterion, verdicts: Any, combine: str, expected: tuple[str | None, float, float]
    ) -> None:
        result = find(criterion, *verdicts, combine=combine)
        option = result.choice.label.en if result.choice else None
        assert (option, result.value, result.score) == (*expected[:2], pytest.approx(expected[2]))

    def test_rounding_never_carries_a_mean_out_of_its_scale(self) -> None:
        """The floating-point mean of three times 0.1 is a little more than 0.1."""
        assert find(TENTH, 0.1, 0.1, 0.1).score == 1.0

    @given(st.lists(st.floats(0, 10), min_size=1, max_size=9), st.sampled_from(["mean", "median", "min", "max"]))
    def test_the_result_lies_between_the_samples(self, numbers: list[float], combine: str) -> None:
        result = find(TEN, *numbers, combine=combine)
        assert result.value is not None
        assert min(numbers) <= result.value <= max(numbers)

    @pytest.mark.parametrize("combine", ["mean", "median"])
    def test_the_largest_numbers_do_not_overflow(self, combine: str) -> None:
        huge = probe(Range(range=Bounds(min=0, max=1.7e308)))
        assert find(huge, 1.7e308, 1.7e308, combine=combine).score == 1.0


class TestMinValid:
    @pytest.mark.parametrize(("samples", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
    def test_by_default_more_than_half_must_be_valid(self, samples: int, needed: int) -> None:
        assert VoteRule(samples=samples).needed == needed
        assert outcome(find(YES_NO, *["Yes"] * needed, samples=samples)) == ("Yes", 1.0, False)
        assert none(YES_NO, *["Yes"] * (needed - 1), samples=samples) is Reason.QUORUM

    def test_another_number_can_be_asked_for(self) -> None:
        assert find(TEN, 7, samples=5, min_valid=1).value == 7
        assert none(TEN, 7, 7, 7, 7, samples=5, min_valid=5) is Reason.QUORUM

    def test_samples_that_say_not_applicable_are_valid(self) -> None:
        assert find(GROUNDEDNESS, None, None, samples=3) == VoteOutcome()


class TestNotApplicable:
    def test_more_than_half_must_say_so(self) -> None:
        assert not find(GROUNDEDNESS, None, None, "hallucinated").applies
        assert find(GROUNDEDNESS, None, "hallucinated").applies

    def test_those_that_say_so_do_not_vote(self) -> None:
        assert find(GROUNDEDNESS, None, "fully supported", "fully supported").score == 1.0

    @pytest.mark.parametrize(
        ("verdicts", "samples", "min_pass", "expected"),
        [
            (("pass", "pass", None), 3, 3, ("pass", 1.0, False)),  # all that scored
            (("pass", "fail", None), 3, 3, ("fail", 0.0, False)),
            (("pass", "fail", None), 3, 2, ("fail", 0.0, False)),
            (("pass", "fail", None), 3, 1, ("pass", 1.0, False)),
            (("fail", "fail", None), 3, 1, ("fail", 0.0, False)),
            (("pass", None, None), 3, 1, (None, None, False)),  # most say not applicable
            (("pass", None), 2, 2, ("pass", 1.0, False)),
            (("pass", "pass", "fail", None), 5, 5, ("fail", 0.0, False)),  # whatever the missing one would be
        ],
    )
    def test_with_min_pass_those_who_scored_decide(
        self, verdicts: Any, samples: int, min_pass: int, expected: tuple[str | None, float | None, bool]
    ) -> None:
        polite = POLITE.model_copy(update=PERHAPS)
        assert outcome(find(polite, *verdicts, samples=samples, min_pass=min_pass)) == expected

    def test_with_min_pass_a_missing_sample_may_still_decide(self) -> None:
        polite = POLITE.model_copy(update=PERHAPS)
        assert none(polite, "pass", "pass", "pass", None, samples=5, min_pass=5) is Reason.QUORUM


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "named"),
        [
            ({"samples": 0}, "samples"),
            ({"combine": "average"}, "combine"),
            ({"score_from": "loser"}, "score_from"),
            ({"samples": 3, "min_pass": 0}, "min_pass"),
            ({"samples": 3, "min_pass": 4}, "min_pass"),
            ({"samples": 3, "min_valid": 0}, "min_valid"),
            ({"samples": 3, "min_valid": 4}, "min_valid"),
            ({"samples": 3, "min_pass": 2, "combine": "majority"}, "min_pass"),
        ],
    )
    def test_invalid_settings_are_refused_by_name(self, settings: dict[str, Any], named: str) -> None:
        with pytest.raises(ValueError, match=named):
            VoteRule(**settings)

    @pytest.mark.parametrize(
        ("settings", "criterion"),
        [
            ({"min_pass": 1}, CLARITY),
            ({"min_pass": 1}, YES_NO),
            ({"combine": "majority"}, TEN),
            ({"combine": "mean"}, TONE),
            ({"combine": "median"}, TONE),
        ],
    )
    def test_invalid_settings_for_a_criterion_are_reported_before_any_call(
        self, settings: dict[str, Any], criterion: Criterion
    ) -> None:
        assert criterion.name in (VoteRule(**settings).why_not(criterion) or "")

    @pytest.mark.parametrize("criterion", [POLITE, YES_NO, RUDE, GRADE, TONE, CLARITY, TEN])
    def test_the_defaults_serve_every_scale(self, criterion: Criterion) -> None:
        assert VoteRule().why_not(criterion) is None


# Every scale, with and without not applicable.
CRITERIA = [
    criterion.model_copy(update=more)
    for criterion in (POLITE, YES_NO, RUDE, GRADE, TWINS, TONE, CLARITY, TEN, PENALTY, TENTH)
    for more in ({}, PERHAPS)
]
NUMBERS = (0.0, 0.05, 0.1)


@st.composite
def rules(draw: st.DrawFn, criterion: Criterion, samples: int) -> VoteRule:
    count = st.none() | st.integers(1, samples)
    min_pass = draw(count) if criterion.scale.kind == "binary" else None
    combines = [None, "majority", "mean", "median", "min", "max"]
    rule = VoteRule(
        samples=samples,
        combine=None if min_pass else draw(st.sampled_from(combines)),
        min_pass=min_pass,
        min_valid=draw(count),
        score_from=draw(st.sampled_from(["winner", "mean"])),
    )
    assume(rule.why_not(criterion) is None)
    return rule


def valid_answers(criterion: Criterion) -> st.SearchStrategy[Valid]:
    numbers = [Valid(value=number) for number in NUMBERS] if criterion.scale.kind == "range" else []
    answers = [Valid(choice=choice, value=choice.value) for choice in criterion.scale.choices] + numbers
    return st.sampled_from(answers)


def any_outcomes(criterion: Criterion) -> st.SearchStrategy[Valid | None]:
    """Possible outcomes of one sample: a verdict, not applicable, or None for an invalid output or an error."""
    may_not_apply = st.just(NA) if criterion.not_applicable else st.nothing()
    return st.one_of(valid_answers(criterion), may_not_apply, st.none())


@st.composite
def ballots(draw: st.DrawFn) -> tuple[Criterion, VoteRule, list[Valid | None]]:
    criterion, samples = draw(st.sampled_from(CRITERIA)), draw(st.integers(1, 7))
    rule = draw(rules(criterion, samples))
    return criterion, rule, draw(st.lists(any_outcomes(criterion), min_size=samples, max_size=samples))


def count_requested(criterion: Criterion, rule: VoteRule, outcomes: Sequence[Valid | None]) -> int:
    """Count the samples requested when the outcomes come in this order."""
    asked = 0
    while wanted := rule.samples_to_request(criterion, valid(outcomes[:asked]), asked):
        asked += wanted
        assert asked <= rule.samples
    return asked


def valid(outcomes: Sequence[Valid | None]) -> list[Valid]:
    return [answer for answer in outcomes if answer is not None]


class TestStoppingEarly:
    @given(ballots())
    def test_it_ends_with_the_result_of_all_samples(
        self, ballot: tuple[Criterion, VoteRule, list[Valid | None]]
    ) -> None:
        criterion, rule, outcomes = ballot
        asked = count_requested(criterion, rule, outcomes)
        assert rule.find(criterion, valid(outcomes[:asked])) == rule.find(criterion, valid(outcomes))

    @given(ballots())
    def test_it_stops_only_if_no_remaining_sample_could_change_the_finding(
        self, ballot: tuple[Criterion, VoteRule, list[Valid | None]]
    ) -> None:
        """Against the worst remainders: all the same, for every choice, for not applicable and for failure."""
        criterion, rule, outcomes = ballot
        asked = count_requested(criterion, rule, outcomes)
        result = rule.find(criterion, valid(outcomes[:asked]))
        rests: list[Valid | None] = [None, *([NA] if criterion.not_applicable else [])]
        rests += [Valid(choice=choice, value=choice.value) for choice in criterion.scale.choices]
        rests += [Valid(value=number) for number in NUMBERS] if criterion.scale.kind == "range" else []
        for rest in rests:
            everything = [*outcomes[:asked], *[rest] * (rule.samples - asked)]
            assert rule.find(criterion, valid(everything)) == result

    @pytest.mark.parametrize(
        ("criterion", "rule"),
        [
            (YES_NO, VoteRule(samples=5)),
            (POLITE, VoteRule(samples=5)),
            (TONE, VoteRule(samples=5)),
            (POLITE, VoteRule(samples=5, min_pass=3)),
            (CLARITY, VoteRule(samples=5, combine="majority")),
            (CLARITY, VoteRule(samples=5, combine="median")),
            (TEN, VoteRule(samples=5, combine="median")),
        ],
    )
    def test_three_of_five_that_agree_are_enough(self, criterion: Criterion, rule: VoteRule) -> None:
        best = criterion.scale.choices[-1] if criterion.scale.choices else None
        agreeing = [Valid(choice=best, value=best.value if best else 7.0)] * 5
        assert rule.samples_to_request(criterion, [], 0) == 3
        assert count_requested(criterion, rule, agreeing) == 3

    def test_one_fail_ends_a_vote_that_must_be_unanimous(self) -> None:
        fail, passing = vote(POLITE, "fail", "pass")
        rule = VoteRule(samples=5, min_pass=5)
        assert count_requested(POLITE, rule, [fail, passing, passing, passing, passing]) == 3
        assert count_requested(POLITE, rule, [passing] * 5) == 5

    def test_nothing_more_is_asked_once_too_few_can_be_valid(self) -> None:
        assert count_requested(YES_NO, VoteRule(samples=5), [None] * 5) == 3
        assert count_requested(TEN, VoteRule(samples=5, min_valid=5), [None] * 5) == 5

    def test_a_mean_needs_every_sample(self) -> None:
        assert count_requested(TEN, VoteRule(samples=5), vote(TEN, 7, 7, 7, 7, 7)) == 5
        rule = VoteRule(samples=5, score_from="mean")
        assert count_requested(YES_NO, rule, vote(YES_NO, "Yes", "Yes", "Yes", "Yes", "Yes")) == 5

    def test_it_can_be_turned_off(self) -> None:
        rule = VoteRule(samples=5, stop_early=False)
        assert rule.samples_to_request(YES_NO, [], 0) == 5
        assert rule.samples_to_request(YES_NO, [], 5) == 0

    def test_an_invalid_sample_costs_one_more(self) -> None:
        yes = _answer(YES_NO, "Yes")
        assert count_requested(YES_NO, VoteRule(samples=5), [yes, None, yes, yes, yes]) == 4


@st.composite
def answers_with_one_worse(draw: st.DrawFn) -> tuple[Criterion, VoteRule, list[Valid], list[Valid]]:
    """Draw answers, and the same with one of them made worse."""
    criterion = draw(st.sampled_from([scored for scored in CRITERIA if scored.scale.bounds is not None]))
    before = draw(st.lists(valid_answers(criterion), min_size=1, max_size=7))
    missing = draw(st.integers(0, 2))
    rule = draw(rules(criterion, len(before) + missing))
    # With three choices or more, plurality is not monotone, as its docstring shows.
    assume(rule.combination(criterion) != "majority" or len(criterion.scale.choices) == 2 or rule.min_pass is not None)
    index, other = draw(st.integers(0, len(before) - 1)), draw(valid_answers(criterion))
    better, worse = before[index].value, other.value
    assert better is not None
    assert worse is not None
    assume(criterion.place(worse) <= criterion.place(better))
    return criterion, rule, before, [*before[:index], other, *before[index + 1 :]]


@pytest.mark.parametrize("settings", [{"samples": "3"}, {"samples": 1.5}, {"samples": 3, "min_valid": "2"}], ids=str)
def test_counts_that_are_not_whole_numbers_are_refused_by_name(settings: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"^{list(settings)[-1]} must be a whole number"):
        VoteRule(**settings)


def test_the_samples_of_one_verdict_are_limited() -> None:
    assert VoteRule(samples=100).needed == 51
    with pytest.raises(ValueError, match="samples must be at most 100, not 101"):
        VoteRule(samples=101)


class TestMonotone:
    @given(answers_with_one_worse())
    def test_a_sample_that_becomes_worse_never_improves_the_finding(
        self, change: tuple[Criterion, VoteRule, list[Valid], list[Valid]]
    ) -> None:
        criterion, rule, before, after = change
        earlier, then = rule.find(criterion, before), rule.find(criterion, after)
        if isinstance(earlier, Reason) or isinstance(then, Reason):
            # From a pass that is out of reach to a certain fail; never from a fail to a pass.
            assert isinstance(earlier, Reason) or earlier.choice == criterion.worst_first[-1]
            assert isinstance(then, Reason) or then.choice == criterion.worst_first[0]
            return
        assert earlier.score is not None
        assert then.score is not None
        assert then.score <= earlier.score
        if earlier.choice and then.choice:
            ranks = [criterion.score(choice) or 0.0 for choice in (then.choice, earlier.choice)]
            assert ranks[0] <= ranks[1]

    @given(st.lists(st.sampled_from(GRADE.scale.choices), min_size=1))
    def test_a_majority_is_also_the_lower_median(self, choices: list[Any]) -> None:
        won, _ = majority(choices, GRADE)
        assume(2 * choices.count(won) > len(choices))
        assert won == GRADE.worst_first[lower_median([GRADE.worst_first.index(choice) for choice in choices])]
