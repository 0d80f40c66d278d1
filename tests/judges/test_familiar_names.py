"""Features known from other libraries: callable judges, results with `passed` and `votes`, readable names."""

import json
import re
from collections.abc import Iterator

import pytest

from judges import (
    AspectCritic,
    Comparison,
    Criterion,
    DirectJudge,
    Interaction,
    JudgeVerdict,
    OpenAIModel,
    PairwiseJudge,
    Panel,
    ScriptedJudge,
    TwoStepJudge,
    find_criterion,
    load_catalogue,
)
from judges.criteria.catalogue import shipped_names
from judges.values.evaluation import Dimension, Samples, Status
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, chat_response, verdict_response

CLARITY = load_catalogue("rag")["clarity"]
RECORD = {"question": "Warranty?", "answer": "Two years."}


@pytest.fixture
def endpoint() -> Iterator[JudgeEndpoint]:
    with JudgeEndpoint(lambda _: verdict_response("pass")) as endpoint:
        yield endpoint


def model_of(endpoint: JudgeEndpoint) -> OpenAIModel:
    return OpenAIModel("tiny", base_url=endpoint.base_url)


# Judges are called


@pytest.mark.parametrize(
    "instance",
    ["Two years.", RECORD, Interaction(id="i", question="Warranty?", answer="Two years.")],
    ids=["text", "mapping", "interaction"],
)
def test_a_judge_is_called_with_one_instance_for_one_verdict(instance: str | dict[str, str] | Interaction) -> None:
    judge = ScriptedJudge(lambda _case, _criterion: "Yes")
    verdict = judge(instance, "Is it short?")
    assert isinstance(verdict, JudgeVerdict)
    assert verdict.option == "Yes"


def test_a_judge_is_called_with_a_list_for_a_list_as_evaluate_is() -> None:
    judge = ScriptedJudge({"clarity": "clear"})
    called = judge(instances=[RECORD, RECORD], criteria="rag.clarity")
    assert [verdict.option for verdict in called] == ["clear", "clear"]
    assert judge([], CLARITY) == []


def test_a_judge_with_its_own_question_needs_no_other(endpoint: JudgeEndpoint) -> None:
    judge = AspectCritic(model_of(endpoint), "Is it polite?")
    assert judge("Thank you!").passed is True
    judge.close()
    with pytest.raises(ValueError, match="say by which criterion"):
        ScriptedJudge({})("a")


def test_a_judge_of_pairs_is_called_too(endpoint: JudgeEndpoint) -> None:
    endpoint.respond = lambda _: verdict_response("A")
    judge = PairwiseJudge(model_of(endpoint))
    [result] = judge([Comparison(["good", "bad"], fields={"question": "q"})], "rag.clarity")
    assert len(result.answers) == 2
    judge.close()


# An aspect with the words of other libraries


def test_an_aspect_is_made_of_a_name_a_definition_and_an_llm(endpoint: JudgeEndpoint) -> None:
    judge = AspectCritic(name="polite_tone", definition="Is the answer polite?", llm=model_of(endpoint), strictness=3)
    assert judge.criterion is not None
    assert (judge.name, judge.criterion.name) == ("polite_tone", "polite_tone")
    verdict = judge("Thank you!")
    assert (verdict.judge, verdict.passed, verdict.samples.requested) == ("polite_tone", True, 3)
    assert "Is the answer polite?" in endpoint.calls[0]["messages"][1]["content"]
    judge.close()


def test_a_name_is_written_as_names_of_criteria_are(endpoint: JudgeEndpoint) -> None:
    judge = AspectCritic(name="Polite Tone!", definition="Is it polite?", llm=model_of(endpoint))
    assert judge.criterion is not None
    assert (judge.name, judge.criterion.name) == ("Polite Tone!", "polite_tone")
    with pytest.raises(ValueError, match="name must start with a letter, not '1st'"):
        AspectCritic(name="1st", definition="Is it polite?", llm=model_of(endpoint))


def test_two_words_for_the_same_parameter_are_refused(endpoint: JudgeEndpoint) -> None:
    model = model_of(endpoint)
    with pytest.raises(TypeError, match="model and llm mean the same"):
        AspectCritic(model, "Is it so?", llm=model)
    with pytest.raises(TypeError, match="aspect and definition mean the same"):
        AspectCritic(model, "Is it so?", definition="Is it so?")
    with pytest.raises(TypeError, match="model must be a chat model"):
        AspectCritic(definition="Is it so?")


# Results say passed, votes and prompt


@pytest.mark.parametrize(
    ("criterion", "label", "passed"),
    [
        ("aspects.coherence", "pass", True),
        ("aspects.coherence", "fail", False),
        ("rag.clarity", "very clear", True),
        ("rag.clarity", "clear", False),
        ("rag.clarity", "unclear", False),
        ("safety.toxicity", "No", True),
        ("safety.toxicity", "Yes", False),
        ("rag.groundedness", None, None),
    ],
)
def test_passed_is_the_best_verdict_and_unknown_without_one(
    criterion: str, label: str | None, passed: bool | None
) -> None:
    verdict = ScriptedJudge(lambda _case, _criterion: label)({**RECORD, "contexts": "c", "history": ""}, criterion)
    assert verdict.passed is passed


def test_a_majority_that_passes_has_passed_whatever_its_mean_is(endpoint: JudgeEndpoint) -> None:
    labels = ("pass", "fail", "pass")
    endpoint.respond = lambda body: verdict_response(labels[body["seed"]])
    judge = AspectCritic(model_of(endpoint), "Is it so?", strictness=3, score_from="mean")
    verdict = judge("a")
    assert verdict.score == pytest.approx(2 / 3)
    assert verdict.passed is True
    assert verdict.votes == ("pass", "fail", "pass")
    judge.close()


def test_the_russian_words_for_pass_and_fail_are_known_too() -> None:
    scripted = ScriptedJudge(
        lambda case, _criterion: "соответствует" if "Да" in case.text("answer") else "не соответствует"
    )
    [yes, no] = scripted(["Да, можно.", "Нет, нельзя."], "aspects.coherence")
    assert (yes.passed, no.passed) == (True, False)


def test_votes_are_the_verdicts_of_the_valid_samples(endpoint: JudgeEndpoint) -> None:
    replies = ("clear", "no such label", "not_applicable")
    endpoint.respond = lambda body: verdict_response(replies[body["seed"]])
    perhaps = CLARITY.model_copy(update={"not_applicable": CLARITY.title})
    judge = DirectJudge(model_of(endpoint), samples=3, repairs=0, stop_early=False)
    assert judge(RECORD, perhaps).votes == ("clear", "not_applicable")
    judge.close()


def test_the_votes_are_those_of_the_first_order_where_both_are_asked(endpoint: JudgeEndpoint) -> None:
    endpoint.respond = lambda _body: verdict_response("clear")
    judge = DirectJudge(model_of(endpoint), check_position=True)
    assert judge(RECORD, CLARITY).votes == ("clear",)
    judge.close()


def test_one_sample_is_one_vote_and_no_sample_is_no_vote() -> None:
    assert JudgeVerdict(judge="j", status=Status.SCORED, option="a", samples=Samples(requested=1, valid=1)).votes == (
        "a",
    )
    assert JudgeVerdict(judge="j", status=Status.SCORED, value=2.5, samples=Samples(requested=1, valid=1)).votes == (
        2.5,
    )
    unfit = JudgeVerdict(judge="j", status=Status.NOT_APPLICABLE, samples=Samples(requested=1, valid=1))
    assert unfit.votes == ("not_applicable",)
    assert Dimension(status=Status.NOT_APPLICABLE, judges=(unfit,)).votes == {"j": "not_applicable"}
    assert JudgeVerdict(judge="j", status=Status.INSUFFICIENT, samples=Samples(requested=1, invalid=1)).votes == ()


def test_the_prompt_is_there_on_request_and_never_published(endpoint: JudgeEndpoint) -> None:
    endpoint.respond = lambda _: verdict_response("clear")
    plain, keeping = DirectJudge(model_of(endpoint)), DirectJudge(model_of(endpoint), keep_prompt=True)
    assert plain(RECORD, CLARITY).prompt is None
    verdict = keeping(RECORD, CLARITY)
    assert verdict.prompt == tuple((message["role"], message["content"]) for message in endpoint.calls[1]["messages"])
    assert "Two years." not in verdict.model_dump_json()
    assert plain.identity == keeping.identity
    plain.close()
    keeping.close()


def test_the_prompt_of_two_steps_is_the_first_one(endpoint: JudgeEndpoint) -> None:
    def respond(body: Body) -> Response:
        return verdict_response("clear") if "response_format" in body else chat_response("It is clear.")

    endpoint.respond = respond
    judge = TwoStepJudge(model_of(endpoint), keep_prompt=True)
    prompt = judge(RECORD, CLARITY).prompt
    assert prompt is not None
    assert [role for role, _text in prompt] == ["system", "user"]
    judge.close()


def test_a_panel_lists_the_vote_of_each_judge() -> None:
    judges = [
        ScriptedJudge({"clarity": "very clear"}, name="one"),
        ScriptedJudge({"clarity": "clear"}, name="two"),
        ScriptedJudge({"clarity": RuntimeError("no")}, name="three"),
    ]
    [dimension] = Panel(judges=judges).evaluate([RECORD], CLARITY)
    assert isinstance(dimension, Dimension)
    assert dimension.votes == {"one": "very clear", "two": "clear", "three": None}
    assert dimension.passed is False
    assert "votes" not in json.loads(dimension.model_dump_json())


# Names to read


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Is it polite?", "q_is_it_polite"),
        ("Is it polite", "q_is_it_polite"),
        ("Вежлив ли ответ?", r"q_vezhliv_li_otvet_[0-9a-f]{8}"),
        ("Is C++ used?", r"q_is_c_used_[0-9a-f]{8}"),
        ("Does the answer give all that was asked for in the question?", r"q_does_the_answer_[a-z_]+_[0-9a-f]{8}"),
        ("??", r"q_[0-9a-f]{8}"),
    ],
)
def test_a_question_is_named_by_its_words(question: str, name: str) -> None:
    assert re.fullmatch(name, Criterion.of(question).name)


def test_questions_that_differ_in_what_a_name_leaves_out_have_different_names() -> None:
    questions = [
        "Is C++ used?",
        "Is C used?",
        "Is C# used?",
        "Вежлив ли тон?",
        "Вежлив ли тон!",
        "Is 5 > 3?",
        "Is 5 < 3?",
    ]
    assert len({Criterion.of(question).name for question in questions}) == len(questions)


def test_no_question_takes_the_name_of_a_shipped_criterion() -> None:
    assert not [name for name in shipped_names().values() if name.startswith("q_")]
    assert Criterion.of("Harmfulness?").name != find_criterion("rag.harmfulness").name
