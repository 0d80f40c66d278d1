"""The criteria of generation with a scripted judge and with a model, in both languages."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from judges.composite import MultiCriteria
from judges.criteria.catalogue import find_criterion, load_catalogue
from judges.criteria.criterion import Criterion
from judges.evaluator import Evaluator, Submission
from judges.llm.methods.direct import DirectJudge
from judges.llm.prompts.direct import direct_messages
from judges.llm.prompts.together import together_messages
from judges.models import OpenAIModel
from judges.panel import Panel
from judges.scripted import ScriptedJudge
from judges.values.diagnosis import RefusalOutcome, refusal_outcome
from judges.values.evaluation import JudgeVerdict, Sampling, Status
from judges.values.interaction import CONTEXT_IDS, Case, Context, Interaction, Turn, case_of
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, verdict_response

NAMES = ("refusal", "citation_accuracy", "language_match", "no_contradiction")
CRITERIA = [find_criterion(name) for name in NAMES]
ENGLISH = Interaction(
    id="en",
    question="How long is the warranty?",
    answer="I do not know (kb-1).",
    history=(Turn(role="assistant", text="The warranty is two years."),),
    contexts=(Context(id="kb-1", text="The warranty is two years."), Context(text="We are open on Sunday.")),
)
RUSSIAN = Interaction(
    id="ru",
    question="Какой срок гарантии?",
    answer="Я не знаю (kb-1).",
    history=(Turn(role="assistant", text="Гарантия действует два года."),),
    contexts=(Context(id="kb-1", text="Гарантия действует два года."), Context(text="Мы открыты в воскресенье.")),
)
LANGUAGES = pytest.mark.parametrize("interaction", [ENGLISH, RUSSIAN], ids=["en", "ru"])


@pytest.fixture(scope="module")
def endpoint() -> Iterator[JudgeEndpoint]:
    with JudgeEndpoint() as endpoint:
        yield endpoint


@LANGUAGES
@pytest.mark.parametrize("criterion", CRITERIA, ids=NAMES)
def test_a_model_judges_it_in_the_language_of_the_texts(
    endpoint: JudgeEndpoint, interaction: Interaction, criterion: Criterion
) -> None:
    case = case_of(interaction)
    worst, best = criterion.scale.choices[0], criterion.scale.choices[-1]
    for choice in (worst, best):
        response = verdict_response(choice.label.of(case.language))
        endpoint.respond = partial(answer, response)
        found = ask(endpoint, case, criterion)
        assert (found.option, found.label) == (choice.label.en, choice.label.of(case.language))
        assert found.score == (0.0 if choice is worst else 1.0)


def answer(response: Response, _body: Body) -> Response:
    return response


def ask(endpoint: JudgeEndpoint, case: Case, criterion: Criterion) -> JudgeVerdict:
    async def judge() -> JudgeVerdict:
        subject = DirectJudge(OpenAIModel("m", base_url=endpoint.base_url))
        try:
            return await subject.judge(case, criterion)
        finally:
            await subject.aclose()

    return asyncio.run(judge())


@LANGUAGES
def test_a_scripted_judge_decides_whether_a_refusal_is_justified(interaction: Interaction) -> None:
    sufficiency = find_criterion("context_sufficiency")
    rag = load_catalogue("rag")
    script = {name: criterion.scale.choices[-1].label.en for name, criterion in rag.items()}
    script |= dict(zip(NAMES, ("refusal", "wrong", "pass", "fail"), strict=True))
    for option, outcome in (("no", RefusalOutcome.JUSTIFIED), ("yes", RefusalOutcome.UNJUSTIFIED)):
        judge = ScriptedJudge({**script, "context_sufficiency": option})
        multi = MultiCriteria([*rag.values(), sufficiency, *CRITERIA])
        evaluator = Evaluator(multi, Panel(judges=(judge,)), version="0")
        submission = Submission(interaction=interaction, sampling=Sampling())
        evaluation = asyncio.run(evaluator.evaluate(submission, deadline=None, on_unsafe=lambda _: None))
        assert refusal_outcome(evaluation) is outcome
        assert [evaluation.dimensions[name].score for name in NAMES] == [0.0, 0.0, 1.0, 0.0]


def test_without_history_or_contexts_the_criteria_about_them_do_not_apply() -> None:
    bare = case_of(ENGLISH.model_copy(update={"history": (), "contexts": ()}))
    judge = ScriptedJudge(dict(zip(NAMES, ("refusal", "wrong", "pass", "fail"), strict=True)))
    statuses = [asyncio.run(judge.judge(bare, criterion)).status for criterion in CRITERIA]
    assert statuses == [Status.SCORED, Status.NOT_APPLICABLE, Status.SCORED, Status.NOT_APPLICABLE]


# Ids of contexts in prompts


def prompts(case: Case, criteria: Sequence[Criterion]) -> str:
    return json.dumps([message.content for item in criteria for message in direct_messages(case, item)])


@LANGUAGES
def test_the_ids_of_contexts_are_shown_for_citations_and_nothing_else(interaction: Interaction) -> None:
    case = case_of(interaction.model_copy(update={"answer": "No."}))
    assert case.items(CONTEXT_IDS) == ("kb-1", "")
    citations = find_criterion("citation_accuracy")
    assert "kb-1" in prompts(case, [citations])
    others = [*load_catalogue("rag").values(), Criterion.of("Is it polite?")]
    assert "kb-1" not in prompts(case, others)
    assert "kb-1" in str(together_messages(case, [others[-1], citations]))
    assert "kb-1" not in str(together_messages(case, others))


def test_ids_of_contexts_leave_the_other_prompts_as_they_were() -> None:
    nameless = case_of(ENGLISH.model_copy(update={"contexts": (Context(text="a"), Context(text="b"))}))
    named = case_of(ENGLISH.model_copy(update={"contexts": (Context(id="x", text="a"), Context(id="y", text="b"))}))
    assert CONTEXT_IDS not in nameless.fields
    others = [*load_catalogue("rag").values(), Criterion.of("Is it polite?")]
    assert prompts(nameless, others) == prompts(named, others)


def test_without_ids_citations_are_judged_by_their_numbers() -> None:
    nameless = case_of(ENGLISH.model_copy(update={"contexts": (Context(text="The warranty is two years."),)}))
    assert find_criterion("citation_accuracy").missing(nameless) == ()
