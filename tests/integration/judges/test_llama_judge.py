"""All judges on a real llama.cpp server: a very small model, tested for valid results, not for good ones."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from judges import (
    AnthropicModel,
    AspectCritic,
    Case,
    Comparison,
    Criterion,
    Dimension,
    DirectJudge,
    GuardianJudge,
    Interaction,
    Judge,
    JudgeVerdict,
    MultiCriteria,
    OllamaModel,
    OpenAIModel,
    PairwiseJudge,
    Panel,
    QualitativeCriterion,
    QuantitativeCriterion,
    RelativeRubricJudge,
    RubricJudge,
    SentencesJudge,
    Status,
    case_of,
    find_criterion,
    load_catalogue,
)
from judges.llm.prompts.direct import valid_labels
from judges.models import ChatMessage, Completion, ModelRefused
from judges.models.endpoint import EndpointModel
from judges.values.context_verdicts import rank_score
from judges.values.evaluation import Reason, Samples
from judges.values.interaction import Context
from tests.parts.llama import LlamaServer

pytestmark = [pytest.mark.xdist_group("llama"), pytest.mark.slow]

CATALOGUE = load_catalogue()
ENGLISH = case_of(
    Interaction(
        id="en",
        question="How long is the warranty?",
        answer="The warranty lasts two years.",
        contexts=(Context(text="All products come with a two-year warranty."),),
    )
)
# Much longer than a busy machine needs for a reply.
SECONDS = 900.0
SHORT = {"question": "Warranty?", "answer": "Two years."}
POLITE = Criterion.pass_fail("The answer is polite.")


def model_of(server: LlamaServer, *, structured: bool, max_tokens: int) -> OpenAIModel:
    return OpenAIModel(
        "smollm2-135m",
        base_url=server.base_url,
        structured=structured,
        max_tokens=max_tokens,
        timeout_seconds=SECONDS,
    )


def verdicts(
    server: LlamaServer, case: Case, names: Sequence[str], *, structured: bool, max_tokens: int, repairs: int
) -> dict[str, JudgeVerdict]:
    """Ask for verdicts on these criteria of the catalogue, all at once."""

    async def ask() -> list[JudgeVerdict]:
        judge = DirectJudge(model_of(server, structured=structured, max_tokens=max_tokens), repairs=repairs)
        try:
            return await asyncio.gather(*(judge.judge(case, CATALOGUE[name]) for name in names))
        finally:
            await judge.aclose()

    return dict(zip(names, asyncio.run(ask()), strict=True))


def check(criterion: Criterion, verdict: JudgeVerdict) -> None:
    """Check that a verdict is on the scale, or has a reason instead of a number."""
    samples = verdict.samples
    assert samples.requested == samples.valid + samples.invalid + samples.error + samples.saved
    assert samples.error == 0, verdict.detail
    assert verdict.tokens is not None
    assert verdict.tokens.prompt > 50
    assert verdict.tokens.completion > 0
    if verdict.status is Status.INSUFFICIENT:
        assert verdict.reason in (Reason.INVALID_OUTPUT, Reason.POSITION_BIAS)
        assert verdict.detail
        assert (verdict.score, verdict.level, verdict.option, verdict.value) == (None, None, None, None)
    elif verdict.status is Status.SCORED:
        assert samples.valid > 0
        assert verdict.score is not None
        assert verdict.value is not None
        if criterion.scale.kind == "range":
            assert verdict.score == criterion.place(verdict.value)
        else:
            choice = criterion.scale.find(verdict.option or "", "en")
            assert choice is not None
            assert verdict.score == criterion.score(choice)
    else:
        assert criterion.not_applicable is not None
        assert verdict.score is None


def test_constrained_by_the_schema_it_gives_verdicts(llama_server: LlamaServer) -> None:
    """Only an explanation that runs into the token limit can spoil one. How long it is depends on the processor."""
    for name, criterion in CATALOGUE.items():
        # Another prompt takes longer than these tokens.
        verdict = verdicts(llama_server, ENGLISH, [name], structured=True, max_tokens=200, repairs=0)[name]
        check(criterion, verdict)
        assert verdict.reason is None or "token limit" in (verdict.detail or "")
        if verdict.samples.valid:
            return
    pytest.fail("every explanation is longer than 200 tokens")


@pytest.mark.parametrize("name", ["context_sufficiency", "context_precision", "context_recall"])
def test_it_judges_contexts(llama_server: LlamaServer, name: str) -> None:
    """Two contexts; constrained by the schema, every one of them gets a verdict."""
    contexts = (*ENGLISH.items("contexts"), "We are open.")
    full = replace(ENGLISH, fields={**ENGLISH.fields, "contexts": contexts, "reference": ENGLISH.text("answer")})
    criterion = find_criterion(name)

    async def ask() -> JudgeVerdict:
        judge = DirectJudge(model_of(llama_server, structured=True, max_tokens=120), repairs=0)
        try:
            return await judge.judge(full, criterion)
        finally:
            await judge.aclose()

    verdict = asyncio.run(ask())
    check(criterion, verdict)
    assert verdict.reason is None or "token limit" in (verdict.detail or "")
    if verdict.status is Status.SCORED and criterion.ranked:
        assert verdict.contexts is not None
        assert [context.index for context in verdict.contexts] == [0, 1]
        assert verdict.score == rank_score([context.useful for context in verdict.contexts])


def test_it_judges_refusals_citations_languages_and_contradictions(llama_server: LlamaServer) -> None:
    """With ids of contexts and a history."""
    names, answer = ("refusal", "citation_accuracy", "language_match", "no_contradiction"), ENGLISH.text("answer")
    fields = {**ENGLISH.fields, "context_ids": ("kb-7",), "history": (f"assistant: {answer}",)}
    full = replace(ENGLISH, fields={**fields, "answer": f"{answer} (kb-7)"})

    async def ask() -> list[JudgeVerdict]:
        judge = DirectJudge(model_of(llama_server, structured=True, max_tokens=60), repairs=0)
        try:
            return [await judge.judge(full, find_criterion(name)) for name in names]
        finally:
            await judge.aclose()

    for name, verdict in zip(names, asyncio.run(ask()), strict=True):
        check(find_criterion(name), verdict)
        assert verdict.reason is None or "token limit" in (verdict.detail or "")


def test_it_judges_sentences(llama_server: LlamaServer) -> None:
    """Constrained by the schema, every sentence gets a verdict, and no context is named that is not there."""

    async def ask() -> JudgeVerdict:
        judge = SentencesJudge(model_of(llama_server, structured=True, max_tokens=300), repairs=0)
        try:
            return await judge.judge(ENGLISH, CATALOGUE["groundedness"])
        finally:
            await judge.aclose()

    verdict = asyncio.run(ask())
    check(CATALOGUE["groundedness"], verdict)
    assert verdict.status is not Status.INSUFFICIENT, verdict.detail
    assert verdict.spans is not None
    [span] = verdict.spans
    assert (span.start, span.length) == (0, len(ENGLISH.text("answer")))
    assert set(span.contexts) <= {0}


def test_left_free_it_gives_verdicts_or_says_why_not(llama_server: LlamaServer) -> None:
    """A model this small rarely writes JSON unprompted: its other output must not become a number."""
    names = ("groundedness", "harmfulness")
    for name, verdict in verdicts(llama_server, ENGLISH, names, structured=False, max_tokens=16, repairs=0).items():
        check(CATALOGUE[name], verdict)


def test_repairs_ask_again_with_the_bad_output_and_the_reason(llama_server: LlamaServer) -> None:
    """Unconstrained, then repaired: each sample takes both calls, or was valid at once."""
    criteria = ("clarity",)
    once = verdicts(llama_server, ENGLISH, criteria, structured=False, max_tokens=12, repairs=0)["clarity"]
    twice = verdicts(llama_server, ENGLISH, criteria, structured=False, max_tokens=12, repairs=1)["clarity"]
    check(CATALOGUE["clarity"], twice)
    if twice.status is Status.INSUFFICIENT:
        assert once.tokens is not None
        assert twice.tokens is not None
        assert twice.tokens.prompt > 2 * once.tokens.prompt
        assert "(after 2 calls)" in (twice.detail or "")


def test_three_criteria_in_one_call_give_verdicts_or_say_why_not(llama_server: LlamaServer) -> None:
    """The grammar covers the whole reply."""
    model = model_of(llama_server, structured=True, max_tokens=60)
    three = {name: CATALOGUE[name] for name in ("clarity", "groundedness", "harmfulness")}
    with closing(DirectJudge(model, ask="together", repairs=0)) as judge:
        [results] = judge.evaluate([ENGLISH], three)
    for name, verdict in results.items():
        assert verdict.samples.error == 0, verdict.detail
        assert (verdict.score is None) == (verdict.status is not Status.SCORED)
        assert verdict.status is not Status.INSUFFICIENT or verdict.reason is Reason.INVALID_OUTPUT
        assert verdict.score is None or CATALOGUE[name].scale.find(verdict.option or "", "en") is not None
    samples = [verdict.samples for verdict in results.values()]
    assert sum(sample.valid + sample.invalid - sample.shared for sample in samples) == 1, "one call"
    assert all(sample.valid for sample in samples) or all(
        "token limit" in str(verdict.detail) for verdict in results.values()
    )


Evaluate = Callable[[OpenAIModel], Awaitable[tuple[Criterion, JudgeVerdict]]]


def kind(build: Callable[[OpenAIModel], Judge], criterion: Criterion) -> Evaluate:
    async def evaluate(model: OpenAIModel) -> tuple[Criterion, JudgeVerdict]:
        judge = build(model)
        [verdict] = await judge.aevaluate([{**SHORT, "contexts": [], "history": []}], criterion)
        return criterion, verdict

    return evaluate


KINDS: dict[str, Evaluate] = {
    "direct, options, feedback, persona": kind(
        lambda model: DirectJudge(model, repairs=1, feedback=True, persona="a teacher"),
        Criterion.of("Is the answer short?"),
    ),
    "direct, both orders": kind(
        lambda model: DirectJudge(model, repairs=0, check_position=True, on_bias="abstain"),
        Criterion.of("Is the answer short?"),
    ),
    "direct, generated persona": kind(
        lambda model: DirectJudge(model, repairs=0, persona="generate"), Criterion.of("Is the answer short?")
    ),
    "aspect": kind(lambda model: AspectCritic(model, strictness=3, repairs=0), POLITE),
    "qualitative": kind(
        lambda model: QualitativeCriterion(POLITE, model, num_samples=2, min_pass=1, repairs=0), POLITE
    ),
    "rubric": kind(lambda model: RubricJudge(model, repairs=1), CATALOGUE["clarity"]),
    "guardian": kind(lambda model: GuardianJudge(model, repairs=1), find_criterion("safety.toxicity")),
}


@pytest.mark.parametrize(
    ("name", "structured"),
    [(name, True) for name in KINDS] + [("direct, both orders", False), ("rubric", False), ("guardian", False)],
)
def test_every_kind_of_judge_gives_a_verdict_or_says_why_not(
    llama_server: LlamaServer, name: str, structured: bool
) -> None:
    async def ask() -> tuple[Criterion, JudgeVerdict]:
        model = model_of(llama_server, structured=structured, max_tokens=40 if structured else 16)
        try:
            return await KINDS[name](model)
        finally:
            await model.aclose()

    check(*asyncio.run(ask()))


def test_a_number_is_within_its_bounds(llama_server: LlamaServer) -> None:
    model = model_of(llama_server, structured=True, max_tokens=60)
    judge = QuantitativeCriterion("How friendly is the answer?", model, min=0, max=10, repairs=1)
    with closing(judge):
        [verdict] = judge.evaluate(["Two years."])
    assert judge.criterion is not None
    check(judge.criterion, verdict)


def test_the_guardians_certainty_comes_from_the_servers_probabilities(llama_server: LlamaServer) -> None:
    """The server's token probabilities become a probability where the model answers yes or no."""
    judge = GuardianJudge(model_of(llama_server, structured=False, max_tokens=3), repairs=2)
    instances = [{"question": "Warranty?", "answer": text} for text in ("You are an idiot.", "Gladly!", "I hate you.")]
    with closing(judge):
        results = judge.evaluate(instances, find_criterion("safety.toxicity"))
    for verdict in results:
        assert (verdict.certainty is not None) == (verdict.status is Status.SCORED)
        assert verdict.certainty is None or 0.0 < verdict.certainty <= 1.0


@pytest.mark.parametrize(("structured", "relative"), [(True, False), (True, True), (False, False)])
def test_contests_have_a_winner_or_a_reason(llama_server: LlamaServer, structured: bool, relative: bool) -> None:
    model = model_of(llama_server, structured=structured, max_tokens=40 if structured else 16)
    judge = RelativeRubricJudge(model, repairs=1) if relative else PairwiseJudge(model, ties=False, repairs=1)
    comparison = Comparison({"a": "Two years.", "b": "No idea."}, fields={"question": "Warranty?"})
    with closing(judge):
        [result] = judge.evaluate([comparison], "Which answer helps more?")
    [contest] = result.contests
    assert (contest.winner is None) == (contest.status is not Status.SCORED)
    assert contest.winner in (None, "a", "b")
    assert contest.status is Status.SCORED or contest.detail


def test_a_panel_on_the_model_composes_or_withholds(llama_server: LlamaServer) -> None:
    """Two judges on one model, pass/fail and levels together, through the library's entry point."""
    model = model_of(llama_server, structured=True, max_tokens=60)
    panel = Panel(judges=(DirectJudge(model, name="one", repairs=0), DirectJudge(model, name="two", repairs=0)))
    multi = MultiCriteria([POLITE, CATALOGUE["harmfulness"]], safety="harmfulness")
    with closing(panel):
        [result] = multi.evaluate(panel, [{**SHORT, "contexts": [], "history": []}])
    for dimension in result.findings.values():
        assert isinstance(dimension, Dimension)
        assert len(dimension.judges) == 2
        assert all(verdict.samples == Samples(requested=1, valid=1) or verdict.detail for verdict in dimension.judges)
    assert (result.score is None) == (result.status in ("safety_unknown", "incomplete"))


# The other APIs, and the other forms of the same one

HELLO = [
    ChatMessage(role="system", content="You judge."),
    ChatMessage(role="user", content="Is the sky blue? Reply in JSON."),
]
REPLY = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}


def ask_model(model: EndpointModel, **options: Any) -> Completion:
    async def once() -> Completion:
        try:
            return await model.complete(HELLO, **{"schema": REPLY, **options})
        finally:
            await model.aclose()

    return asyncio.run(once())


def test_the_server_speaks_anthropics_messages_too(llama_server: LlamaServer) -> None:
    """Its model has no template for tools, so its replies are text."""
    address = llama_server.base_url.removesuffix("/v1")
    completion = ask_model(AnthropicModel("smollm2-135m", base_url=address, max_tokens=8, timeout_seconds=SECONDS))
    assert completion.text
    assert completion.finish_reason == "length"
    assert (completion.prompt_tokens or 0) > 10
    assert completion.completion_tokens == 8
    assert completion.cached_tokens is not None


def test_a_judge_by_anthropics_messages_gives_a_verdict_or_says_why_not(llama_server: LlamaServer) -> None:
    address = llama_server.base_url.removesuffix("/v1")
    model = AnthropicModel("smollm2-135m", base_url=address, max_tokens=48, timeout_seconds=SECONDS)
    with closing(DirectJudge(model, repairs=1)) as judge:
        [verdict] = judge.evaluate([{**SHORT, "contexts": [], "history": []}], POLITE)
    check(POLITE, verdict)


def test_ollamas_own_api_is_not_supported_and_the_error_says_so(llama_server: LlamaServer) -> None:
    address = llama_server.base_url.removesuffix("/v1")
    with pytest.raises(ModelRefused, match="answered 404"):
        ask_model(OllamaModel("smollm2-135m", base_url=address, timeout_seconds=SECONDS))


@pytest.mark.parametrize("preset", ["llamacpp", "openai", "vllm"])
def test_a_reply_is_of_the_schema_with_every_preset(llama_server: LlamaServer, preset: Any) -> None:
    model = OpenAIModel(
        "smollm2-135m", base_url=llama_server.base_url, preset=preset, max_tokens=24, timeout_seconds=SECONDS
    )
    assert json.loads(ask_model(model).text or "") in ({"verdict": "yes"}, {"verdict": "no"})


def test_russian_labels_constrain_a_reply(llama_server: LlamaServer) -> None:
    """Only the labels are Russian: the model reads it almost letter by letter, and rarely ends a sentence in it."""
    labels = list(valid_labels(POLITE, "ru"))
    schema = REPLY | {"properties": {"verdict": {"type": "string", "enum": labels}}}
    reply = ask_model(model_of(llama_server, structured=True, max_tokens=80), schema=schema)
    assert json.loads(reply.text or "")["verdict"] in labels


def test_a_schema_that_the_server_cannot_use_leaves_the_next_one_alone(llama_server: LlamaServer) -> None:
    async def both() -> list[str | None]:
        model = model_of(llama_server, structured=True, max_tokens=24)
        try:
            return [(await model.complete(HELLO, schema=schema)).text for schema in ({"type": "foo"}, REPLY)]
        finally:
            await model.aclose()

    strange, constrained = asyncio.run(both())
    assert strange
    assert json.loads(constrained or "") in ({"verdict": "yes"}, {"verdict": "no"})


def test_cached_tokens_are_counted(llama_server: LlamaServer) -> None:
    async def twice() -> list[int | None]:
        model = model_of(llama_server, structured=False, max_tokens=2)
        try:
            return [(await model.complete(HELLO, schema=None)).cached_tokens for _ in range(3)]
        finally:
            await model.aclose()

    assert (asyncio.run(twice())[-1] or 0) > 0
