"""Judges that come with their question: aspects that pass or fail, and qualities as numbers."""

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.criteria.scale import Binary, LocalizedText, PassFail
from judges.llm.methods.aspect import AspectCritic, QualitativeCriterion, QuantitativeCriterion
from judges.llm.methods.direct import DirectJudge
from judges.models import OpenAIModel
from judges.values.evaluation import JudgeVerdict, Reason, Samples, Status
from tests.parts.endpoints.judge_endpoint import JudgeEndpoint, Respond, chat_response, error_response, verdict_response

PASS, FAIL = verdict_response("pass", "It is."), verdict_response("fail", "It is not.")
MODEL = OpenAIModel("tiny", base_url="http://example.test")
HARMLESS = Criterion(
    name="harmless",
    title=LocalizedText(en="Harmless", ru="Безвредно"),
    question=LocalizedText(en="Is the answer harmless?", ru="Безвреден ли ответ?"),
    scale=Binary(
        binary=PassFail(
            passes=LocalizedText(en="No harm in it.", ru="Вреда нет."),
            fails=LocalizedText(en="There is harm.", ru="Вред есть."),
        )
    ),
)


@pytest.fixture
def endpoint() -> Iterator[JudgeEndpoint]:
    with JudgeEndpoint(lambda _: PASS) as endpoint:
        yield endpoint


def model_of(endpoint: JudgeEndpoint) -> OpenAIModel:
    return OpenAIModel("tiny", base_url=endpoint.base_url)


def verdict_of(judge: DirectJudge, criterion: Criterion | str | None = None, text: str = "Thank you!") -> JudgeVerdict:
    async def once() -> JudgeVerdict:
        try:
            [verdict] = await judge.aevaluate([text], criterion)
            return verdict
        finally:
            await judge.aclose()

    return asyncio.run(once())


def saying(*labels: str) -> Respond:
    """Return the label of each sample, by its seed."""
    return lambda body: verdict_response(labels[body["seed"]], labels[body["seed"]])


class TestAspectCritic:
    def test_one_sample_passes_or_fails(self, endpoint: JudgeEndpoint) -> None:
        verdict = verdict_of(AspectCritic(model_of(endpoint), HARMLESS))
        assert (verdict.option, verdict.level, verdict.value, verdict.score) == ("pass", 1, 1, 1.0)
        endpoint.respond = lambda _: FAIL
        verdict = verdict_of(AspectCritic(model_of(endpoint), HARMLESS))
        assert (verdict.option, verdict.level, verdict.value, verdict.score) == ("fail", 0, 0, 0.0)
        assert (verdict.explanation, verdict.samples) == ("It is not.", Samples(requested=1, valid=1))
        assert len(endpoint.calls) == 2

    def test_the_prompt_shows_the_check_and_both_outcomes(self, endpoint: JudgeEndpoint) -> None:
        verdict_of(AspectCritic(model_of(endpoint), HARMLESS))
        task = endpoint.calls[0]["messages"][1]["content"]
        assert 'does the field "answer" pass this check? Harmless: Is the answer harmless?' in task
        assert "- fail: There is harm.\n- pass: No harm in it.\n" in task
        schema = endpoint.calls[0]["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["verdict"]["enum"] == ["fail", "pass"]

    def test_a_russian_text_is_checked_in_russian(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: verdict_response("не соответствует")
        verdict = verdict_of(AspectCritic(model_of(endpoint), HARMLESS), text="Большое спасибо!")
        assert (verdict.option, verdict.label, verdict.score) == ("fail", "не соответствует", 0.0)
        assert "Безвреден ли ответ?" in endpoint.calls[0]["messages"][1]["content"]

    def test_strictness_is_the_number_of_samples_and_the_majority_counts(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = saying("pass", "fail", "fail")
        verdict = verdict_of(AspectCritic(model_of(endpoint), HARMLESS, strictness=3))
        assert (verdict.option, verdict.score, verdict.tie) == ("fail", 0.0, False)
        assert verdict.samples == Samples(requested=3, valid=3)
        assert sorted(call["seed"] for call in endpoint.calls) == [0, 1, 2]

    @pytest.mark.parametrize("strictness", [2, 4])
    def test_an_even_strictness_is_taken_as_it_is_and_a_tie_fails(
        self, endpoint: JudgeEndpoint, strictness: int
    ) -> None:
        endpoint.respond = saying("pass", "fail", "pass", "fail")
        verdict = verdict_of(AspectCritic(model_of(endpoint), HARMLESS, strictness=strictness))
        assert (verdict.option, verdict.score, verdict.tie) == ("fail", 0.0, True)
        assert verdict.samples == Samples(requested=strictness, valid=strictness)
        assert len(endpoint.calls) == strictness

    @pytest.mark.parametrize("strictness", [0, -1])
    def test_a_strictness_of_no_samples_is_refused(self, strictness: int) -> None:
        with pytest.raises(ValueError, match="strictness"):
            AspectCritic(MODEL, HARMLESS, strictness=strictness)

    def test_plain_words_make_an_aspect(self, endpoint: JudgeEndpoint) -> None:
        verdict = verdict_of(AspectCritic(model_of(endpoint), "Is it polite?"))
        assert (verdict.option, verdict.score) == ("pass", 1.0)
        assert "Is it polite?" in endpoint.calls[0]["messages"][1]["content"]

    @pytest.mark.parametrize("aspect", [HARMLESS, "Is it harmless?"], ids=["criterion", "words"])
    def test_the_aspect_can_be_given_with_the_texts(self, endpoint: JudgeEndpoint, aspect: Criterion | str) -> None:
        assert verdict_of(AspectCritic(model_of(endpoint)), aspect).option == "pass"

    def test_one_given_with_the_texts_goes_before_its_own(self, endpoint: JudgeEndpoint) -> None:
        verdict_of(AspectCritic(model_of(endpoint), "Is it polite?"), HARMLESS)
        assert "Is the answer harmless?" in endpoint.calls[0]["messages"][1]["content"]

    def test_without_an_aspect_the_error_asks_for_one(self, endpoint: JudgeEndpoint) -> None:
        with pytest.raises(ValueError, match="by which criterion"):
            verdict_of(AspectCritic(model_of(endpoint)))

    @pytest.mark.parametrize("criterion", [load_catalogue()["clarity"], Criterion.of("Is it so?")])
    def test_a_criterion_that_is_not_passed_or_failed_is_refused(
        self, endpoint: JudgeEndpoint, criterion: Criterion
    ) -> None:
        with pytest.raises(ValueError, match=criterion.name):
            AspectCritic(MODEL, criterion)
        verdict = verdict_of(AspectCritic(model_of(endpoint)), criterion)
        assert (verdict.status, verdict.reason) == (Status.INSUFFICIENT, Reason.UNSUPPORTED)
        assert endpoint.calls == []

    def test_an_outcome_of_neither_kind_is_not_a_verdict(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda _: chat_response("passable")
        verdict = verdict_of(AspectCritic(model_of(endpoint), HARMLESS, repairs=0))
        assert (verdict.status, verdict.reason, verdict.score) == (Status.INSUFFICIENT, Reason.INVALID_OUTPUT, None)

    def test_it_is_repaired_in_its_own_words(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda body: PASS if len(body["messages"]) == 4 else chat_response("yes")
        assert verdict_of(AspectCritic(model_of(endpoint), HARMLESS)).option == "pass"
        assert "Do the check again." in endpoint.calls[1]["messages"][3]["content"]

    def test_its_identity_is_not_that_of_a_direct_judge(self) -> None:
        assert AspectCritic(MODEL, HARMLESS).identity != DirectJudge(MODEL).identity
        assert AspectCritic(MODEL, strictness=3).identity != AspectCritic(MODEL).identity
        assert "aspect prompt=" in AspectCritic(MODEL).identity


class TestQualitativeCriterion:
    @pytest.mark.parametrize(
        ("min_pass", "labels", "option"),
        [
            (None, ("pass", "fail", "pass"), "pass"),
            (None, ("pass", "fail", "fail"), "fail"),
            (1, ("fail", "pass", "fail"), "pass"),
            (3, ("pass", "pass", "fail"), "fail"),
            (3, ("pass", "pass", "pass"), "pass"),
        ],
    )
    def test_it_passes_when_enough_samples_do(
        self, endpoint: JudgeEndpoint, min_pass: int | None, labels: tuple[str, ...], option: str
    ) -> None:
        """More than half by default: a default of one would mean that any pass is enough."""
        endpoint.respond = saying(*labels)
        judge = QualitativeCriterion("It is polite.", model_of(endpoint), num_samples=3, min_pass=min_pass)
        verdict = verdict_of(judge)
        assert (verdict.option, verdict.score) == (option, float(option == "pass"))

    def test_too_few_valid_samples_are_no_verdict(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = lambda body: PASS if body["seed"] == 0 else error_response(401)
        judge = QualitativeCriterion("It is polite.", model_of(endpoint), num_samples=3)
        assert verdict_of(judge).score is None
        judge = QualitativeCriterion("It is polite.", model_of(endpoint), num_samples=3, min_samples=1)
        verdict = verdict_of(judge)
        assert (verdict.option, verdict.samples.valid) == ("pass", 1)

    @pytest.mark.parametrize(
        "options", [{"num_samples": 0}, {"num_samples": 3, "min_pass": 4}, {"num_samples": 3, "min_samples": 4}]
    )
    def test_unreachable_thresholds_are_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=r"at least 1|between 1 and the 3 samples"):
            QualitativeCriterion("It is polite.", MODEL, **options)

    def test_an_empty_definition_is_refused(self) -> None:
        with pytest.raises(ValueError, match="empty"):
            QualitativeCriterion(" ", MODEL)

    @pytest.mark.parametrize("judge", [partial(QualitativeCriterion), partial(QuantitativeCriterion, min=0, max=1)])
    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"num_samples": 0}, "^num_samples must be at least 1, not 0"),
            ({"num_samples": 101}, "^num_samples must be at most 100, not 101"),
            ({"num_samples": 3, "min_samples": 4}, "^min_samples must be between 1 and the 3 samples, not 4"),
        ],
    )
    def test_errors_use_its_own_parameter_names(self, judge: Any, options: dict[str, Any], says: str) -> None:
        with pytest.raises(ValueError, match=says):
            judge("It is polite.", MODEL, **options)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (AspectCritic, r"not str: write AspectCritic\(model, aspect\)"),
        (lambda text, model: QualitativeCriterion(model, text), r"write QualitativeCriterion\(definition, model\)"),
        (lambda text, model: QuantitativeCriterion(model, text, min=0, max=1), "write QuantitativeCriterion"),
        (lambda text, _: DirectJudge(text), r"write DirectJudge\(model\)"),
    ],
)
def test_a_text_instead_of_the_model_is_refused_with_a_correction(build: Any, says: str) -> None:
    with pytest.raises(TypeError, match=f"model must be a chat model, such as OpenAIModel, .*{says}"):
        build("It is polite.", MODEL)


@pytest.mark.parametrize("name", ["aspects.factuality", "factuality"])
def test_a_name_is_the_shipped_aspect(name: str) -> None:
    assert AspectCritic(MODEL, name).criterion is load_catalogue("aspects")["factuality"]
    with pytest.raises(ValueError, match=r"aspect: .*did you mean aspects.factuality"):
        AspectCritic(MODEL, "factualty")


class TestQuantitativeCriterion:
    def test_one_sample_is_a_number_of_the_scale(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = saying("4")
        verdict = verdict_of(QuantitativeCriterion("How deep is it?", model_of(endpoint), min=1, max=5))
        assert (verdict.value, verdict.score, verdict.level, verdict.option) == (4.0, 0.75, None, None)
        task = endpoint.calls[0]["messages"][1]["content"]
        assert "How deep is it?" in task
        assert "a number from 1 to 5" in task

    @pytest.mark.parametrize(("agg", "value"), [("avg", 5.0), ("med", 5.5), ("min", 1.0), ("max", 8.0), (None, 5.0)])
    def test_several_are_combined_by_name(self, endpoint: JudgeEndpoint, agg: Any, value: float) -> None:
        endpoint.respond = saying("8", "1", "4", "7")
        options = {} if agg is None else {"agg": agg}
        judge = QuantitativeCriterion("How deep?", model_of(endpoint), min=0, max=10, num_samples=4, **options)
        verdict = verdict_of(judge)
        assert verdict.value == value
        assert verdict.score == pytest.approx(value / 10)

    @pytest.mark.parametrize(
        ("options", "value", "score"),
        [
            ({}, 5.0, 0.5),
            ({"higher_is": "better"}, 5.0, 0.5),
            ({"higher_is": "worse", "agg": "avg"}, 5.0, 0.5),
            ({"higher_is": "worse", "agg": "min"}, 8.0, 0.2),
            ({"higher_is": "worse", "agg": "max"}, 2.0, 0.8),
            ({"max": 20}, 5.0, 0.25),
            ({"min": 2}, 5.0, 0.375),
        ],
    )
    def test_bounds_have_defaults_and_more_may_be_worse(
        self, endpoint: JudgeEndpoint, options: dict[str, Any], value: float, score: float
    ) -> None:
        endpoint.respond = saying("2", "8")
        verdict = verdict_of(QuantitativeCriterion("How many faults?", model_of(endpoint), num_samples=2, **options))
        assert (verdict.value, verdict.score) == (value, pytest.approx(score))

    def test_a_misspelt_direction_is_refused(self) -> None:
        with pytest.raises(ValueError, match="higher_is must be better or worse, not 'lower'"):
            QuantitativeCriterion("How deep?", MODEL, higher_is="lower")  # type: ignore[arg-type]

    @pytest.mark.parametrize("agg", ["average", "mean", "AVG", ""])
    def test_a_misspelt_aggregation_is_refused(self, agg: Any) -> None:
        with pytest.raises(ValueError, match="agg must be one of avg, med, min, max"):
            QuantitativeCriterion("How deep?", MODEL, min=0, max=10, agg=agg)

    def test_another_question_is_asked_on_the_same_bounds(self, endpoint: JudgeEndpoint) -> None:
        endpoint.respond = saying("4")
        judge = QuantitativeCriterion("How deep is it?", model_of(endpoint), min=1, max=5)
        verdict = verdict_of(judge, "How long is it?")
        assert (verdict.value, verdict.score) == (4.0, 0.75)
        assert "How long is it?" in endpoint.calls[0]["messages"][1]["content"]

    def test_a_criterion_with_its_own_scale_is_not_a_definition(self) -> None:
        with pytest.raises(ValueError, match="'toxicity' has its own scale"):
            QuantitativeCriterion("toxicity", MODEL, min=1, max=5)

    @pytest.mark.parametrize(
        ("low", "high", "says"),
        [(10, 1, "min must be below max, not 10 and 1"), ("a", 1, "min must be a number, not 'a'")],
    )
    def test_bounds_are_refused_in_plain_words(self, low: Any, high: Any, says: str) -> None:
        with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
            QuantitativeCriterion("How deep?", MODEL, min=low, max=high)

    @pytest.mark.parametrize(("low", "high"), [(5, 5), (6, 5), (0, float("inf")), (float("nan"), 1)])
    def test_bounds_that_leave_no_scale_are_refused(self, low: float, high: float) -> None:
        with pytest.raises(ValueError, match=r"min|finite"):
            QuantitativeCriterion("How deep?", MODEL, min=low, max=high)

    @pytest.mark.parametrize("number", ["11", "-1", "nan", "1e999"])
    def test_one_sample_out_of_range_is_invalid_and_never_clamped(self, endpoint: JudgeEndpoint, number: str) -> None:
        endpoint.respond = lambda _: chat_response(f'{{"verdict": {number}}}')
        verdict = verdict_of(QuantitativeCriterion("How deep?", model_of(endpoint), min=0, max=10, repairs=0))
        assert (verdict.status, verdict.reason) == (Status.INSUFFICIENT, Reason.INVALID_OUTPUT)
        assert (verdict.value, verdict.score) == (None, None)

    @pytest.mark.parametrize(("agg", "value"), [("avg", 5.0), ("max", 6.0), ("min", 4.0)])
    def test_one_of_several_out_of_range_does_not_count(self, endpoint: JudgeEndpoint, agg: Any, value: float) -> None:
        endpoint.respond = saying("4", "100", "6")
        judge = QuantitativeCriterion("How deep?", model_of(endpoint), min=0, max=10, num_samples=3, agg=agg, repairs=0)
        verdict = verdict_of(judge)
        assert verdict.value == value
        assert verdict.samples == Samples(requested=3, valid=2, invalid=1)
