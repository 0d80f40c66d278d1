"""The criteria of the contexts with a scripted judge and with a model: in both languages, alone and in one call."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

import pytest

from judges.composite import MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.criteria.problems import InconsistentError
from judges.evaluator import Evaluator, Submission
from judges.llm.methods.aspect import AspectCritic
from judges.llm.methods.direct import DirectJudge
from judges.llm.methods.two_step import TwoStepJudge
from judges.llm.prompts.direct import direct_messages
from judges.llm.prompts.layout import reason_for_model
from judges.models import OpenAIModel
from judges.panel import Panel
from judges.scripted import ScriptedJudge
from judges.values.context_verdicts import context_verdicts, rank_score
from judges.values.evaluation import Evaluation, JudgeVerdict, Reason, Sampling, Status
from judges.values.interaction import Case, Context, Interaction, case_of
from tests.parts.endpoints.judge_endpoint import (
    Body,
    JudgeEndpoint,
    Response,
    best_verdict,
    chat_response,
    in_turn,
    verdict_response,
)

RAG, RETRIEVAL = load_catalogue("rag"), load_catalogue("retrieval")
SUFFICIENCY, PRECISION, RECALL = (RETRIEVAL[f"context_{name}"] for name in ("sufficiency", "precision", "recall"))
ENGLISH = Interaction(
    id="en",
    question="How long is the warranty?",
    answer="Two years.",
    contexts=(Context(text="The warranty is two years."), Context(text="We are open on Sunday.")),
    reference="Two years from the purchase.",
)
RUSSIAN = Interaction(
    id="ru",
    question="Какой срок гарантии?",
    answer="Два года.",
    contexts=(Context(text="Гарантия действует два года."), Context(text="Мы открыты в воскресенье.")),
    reference="Два года со дня покупки.",
)
LANGUAGES = pytest.mark.parametrize("interaction", [ENGLISH, RUSSIAN], ids=["en", "ru"])


@pytest.fixture
def endpoint() -> Iterator[JudgeEndpoint]:
    with JudgeEndpoint() as endpoint:
        yield endpoint


def judge(endpoint: JudgeEndpoint, case: Case, criterion: Criterion, **options: Any) -> JudgeVerdict:
    async def ask() -> JudgeVerdict:
        kind = options.pop("kind", DirectJudge)
        subject = kind(OpenAIModel("m", base_url=endpoint.base_url), **options)
        try:
            verdict: JudgeVerdict = await subject.judge(case, criterion)
            return verdict
        finally:
            await subject.aclose()

    return asyncio.run(ask())


def evaluate(panel: Panel, interaction: Interaction) -> Evaluation:
    multi = MultiCriteria([*RAG.values(), SUFFICIENCY, PRECISION, RECALL])
    evaluator = Evaluator(multi, panel, version="0")

    async def run() -> Evaluation:
        try:
            submission = Submission(interaction=interaction, sampling=Sampling())
            return await evaluator.evaluate(submission, deadline=None, on_unsafe=lambda _: None)
        finally:
            await evaluator.aclose()

    return asyncio.run(run())


SCRIPT: Mapping[str, str | float] = {
    **{name: criterion.scale.choices[-1].label.en for name, criterion in RAG.items()},
    "context_sufficiency": "partly",
    "context_precision": 0.5,
    "context_recall": "all",
}


@LANGUAGES
def test_a_scripted_judge_scores_the_contexts(interaction: Interaction) -> None:
    dimensions = evaluate(Panel(judges=(ScriptedJudge(SCRIPT),)), interaction).dimensions
    scores = [dimensions[name].score for name in ("context_sufficiency", "context_precision", "context_recall")]
    assert scores == [0.5, 0.5, 1.0]
    expected = {"en": "partly", "ru": "частично"}[interaction.id]
    assert (dimensions["context_sufficiency"].option, dimensions["context_sufficiency"].label) == ("partly", expected)


@LANGUAGES
def test_without_contexts_or_a_reference_the_criteria_do_not_apply(interaction: Interaction) -> None:
    judge = ScriptedJudge(SCRIPT)
    bare = evaluate(Panel(judges=(judge,)), interaction.model_copy(update={"contexts": ()}))
    assert {bare.dimensions[criterion.name].status for criterion in (SUFFICIENCY, PRECISION, RECALL)} == {
        Status.NOT_APPLICABLE
    }
    unknown = evaluate(Panel(judges=(judge,)), interaction.model_copy(update={"reference": None}))
    assert unknown.dimensions["context_recall"].status is Status.NOT_APPLICABLE
    assert unknown.dimensions["context_sufficiency"].score == 0.5


@LANGUAGES
@pytest.mark.parametrize("criterion", [SUFFICIENCY, RECALL], ids=lambda criterion: criterion.name)
def test_a_model_chooses_a_level(endpoint: JudgeEndpoint, interaction: Interaction, criterion: Criterion) -> None:
    verdict = judge(endpoint, case_of(interaction), criterion)
    assert (verdict.score, verdict.level, verdict.contexts) == (1.0, 2, None)


@LANGUAGES
def test_one_call_judges_every_context(endpoint: JudgeEndpoint, interaction: Interaction) -> None:
    endpoint.respond = in_turn(verdict_response({"1": False, "2": True}))
    verdict = judge(endpoint, case_of(interaction), PRECISION)
    assert (verdict.score, verdict.value, verdict.level, verdict.option) == (0.5, 0.5, None, None)
    assert verdict.contexts == context_verdicts([False, True])
    [call] = endpoint.calls
    schema = call["response_format"]["json_schema"]["schema"]["properties"]["verdict"]
    assert schema["required"] == ["1", "2"]
    assert schema["additionalProperties"] is False


@LANGUAGES
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"1": True}, "the verdict must have the numbers 1 to 2, each once"),
        ({"1": True, "2": True, "3": False}, "the verdict must have the numbers 1 to 2, each once"),
        ({"1": True, "2": "perhaps"}, 'the verdict on each number must be true or false, not "perhaps"'),
        ("useful", 'the verdict must be an object with true or false for each number, not "useful"'),
        (0.5, "the verdict must be an object with true or false for each number, not 0.5"),
    ],
)
def test_missing_and_invented_numbers_are_repaired(
    endpoint: JudgeEndpoint, interaction: Interaction, reply: object, reason: str
) -> None:
    bad = chat_response(json.dumps({"explanation": "So.", "verdict": reply}))
    endpoint.respond = in_turn(bad, verdict_response({"1": True, "2": False}))
    case = case_of(interaction)
    verdict = judge(endpoint, case, PRECISION)
    assert verdict.contexts == context_verdicts([True, False])
    assert verdict.samples.repairs == 1
    request = endpoint.calls[1]["messages"][-1]["content"]
    assert reason_for_model(reason, case.language) in request
    endpoint.respond = in_turn(bad)
    verdict = judge(endpoint, case, PRECISION, repairs=1)
    assert (verdict.status, verdict.reason, verdict.score) == (Status.INSUFFICIENT, Reason.INVALID_OUTPUT, None)
    assert verdict.contexts is None


def test_the_words_true_and_false_count(endpoint: JudgeEndpoint) -> None:
    reply = {"explanation": "So.", "verdict": {" 1": "True", "2 ": " false"}}
    endpoint.respond = in_turn(chat_response(json.dumps(reply)))
    assert judge(endpoint, case_of(ENGLISH), PRECISION).contexts == context_verdicts([True, False])


@LANGUAGES
def test_the_judge_in_two_steps_judges_every_context(endpoint: JudgeEndpoint, interaction: Interaction) -> None:
    endpoint.respond = in_turn(chat_response("The first one helps."), verdict_response({"1": True, "2": False}))
    verdict = judge(endpoint, case_of(interaction), PRECISION, kind=TwoStepJudge)
    assert verdict.contexts == context_verdicts([True, False])


@LANGUAGES
def test_together_the_criteria_of_the_contexts_share_a_call(endpoint: JudgeEndpoint, interaction: Interaction) -> None:
    def respond(body: Body) -> Response:
        parts = body["response_format"]["json_schema"]["schema"]["properties"]
        if "verdict" in parts:
            return best_verdict(body)
        verdicts = {
            name: part["properties"]["verdict"].get("enum", [{"1": True, "2": False}])[-1]
            for name, part in parts.items()
        }
        best = {name: "safe" if label == "not_applicable" else label for name, label in verdicts.items()}
        best |= {name: _best_level(part) for name, part in parts.items() if "enum" in part["properties"]["verdict"]}
        reply = {name: {"explanation": "So.", "verdict": label} for name, label in best.items()}
        return chat_response(json.dumps(reply, ensure_ascii=False))

    endpoint.respond = respond
    judges = (DirectJudge(OpenAIModel("m", base_url=endpoint.base_url), ask="together"),)
    evaluation = evaluate(Panel(judges=judges), interaction)
    assert len(endpoint.calls) == 2
    assert evaluation.dimensions["context_precision"].contexts == context_verdicts([True, False])
    assert {dimension.score for dimension in evaluation.dimensions.values()} == {1.0}


def _best_level(part: Mapping[str, Any]) -> str:
    labels = [label for label in part["properties"]["verdict"]["enum"] if label != "not_applicable"]
    return str(labels[-1])


def test_a_panel_publishes_the_verdicts_of_all_judges_and_their_majority() -> None:
    def of(name: str, *useful: bool) -> ScriptedJudge:
        score = rank_score(useful)
        verdict = JudgeVerdict(
            judge=name,
            status=Status.SCORED,
            score=score,
            value=score,
            contexts=context_verdicts(useful),
            samples={"requested": 1, "valid": 1},
        )
        return ScriptedJudge({"context_precision": verdict}, name=name)

    judges = (of("a", True, False), of("b", True, True), of("c", False, False))
    [dimension] = Panel(judges=judges).evaluate([case_of(ENGLISH)], PRECISION)
    assert dimension.contexts == context_verdicts([True, False])
    assert [verdict.contexts for verdict in dimension.judges] == [
        context_verdicts(useful) for useful in ([True, False], [True, True], [False, False])
    ]
    assert dimension.score == pytest.approx(2 / 3)


@LANGUAGES
def test_prompts_begin_like_those_of_groundedness(interaction: Interaction) -> None:
    case = case_of(interaction)
    texts = [direct_messages(case, criterion)[1].content for criterion in (RAG["groundedness"], SUFFICIENCY, PRECISION)]
    data = texts[0].rpartition("###")[0]
    shared = "".join(one for one, *_ in takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False)))
    assert shared.startswith(data)


def test_only_a_range_from_0_to_1_can_be_ranked() -> None:
    fields = {name: getattr(PRECISION, name) for name in Criterion.model_fields}
    for change in ({"scale": SUFFICIENCY.scale}, {"higher_is": "worse"}, {"not_applicable": SUFFICIENCY.title}):
        with pytest.raises(ValueError, match="ranked"):
            Criterion.model_validate({**fields, **change})
    assert "ranked" not in SUFFICIENCY.model_dump()
    assert PRECISION.model_dump()["ranked"] is True


def test_judges_with_another_form_refuse_to_rank() -> None:
    model = OpenAIModel("m", base_url="http://localhost:1/v1")
    assert AspectCritic(model).why_not(PRECISION) is not None
    assert issubclass(InconsistentError, ValueError)
