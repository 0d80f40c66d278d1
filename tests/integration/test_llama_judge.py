"""The direct judge on a real llama.cpp server: a very small model, judged by its honesty and not by its taste."""

import asyncio

import pytest

from judges.criteria import load_catalogue
from judges.direct import DirectJudge
from judges.evaluation import JudgeVerdict, Reason, Samples, Status
from judges.interaction import Case, Context, Interaction, case_of
from judges.models import OpenAIModel
from tests.parts.llama import LlamaServer

pytestmark = pytest.mark.xdist_group("llama")

CATALOGUE = load_catalogue()
ENGLISH = case_of(
    Interaction(
        id="en",
        question="How long is the warranty?",
        answer="The warranty lasts two years.",
        contexts=(Context(text="All products come with a two-year warranty."),),
    )
)
RUSSIAN = case_of(
    Interaction(
        id="ru",
        question="Какой срок гарантии?",
        answer="Гарантия действует два года.",
        contexts=(Context(text="На все товары даётся гарантия два года."),),
    )
)


def verdicts(server: LlamaServer, case: Case, *, structured: bool, max_tokens: int) -> dict[str, JudgeVerdict]:
    """Every criterion of the catalogue, asked at once and without repairs."""

    async def ask() -> list[JudgeVerdict]:
        model = OpenAIModel(
            "smollm2-135m",
            base_url=server.base_url,
            structured=structured,
            max_tokens=max_tokens,
            timeout_seconds=200,
        )
        judge = DirectJudge(model, repairs=0)
        try:
            return await asyncio.gather(*(judge.judge(case, criterion) for criterion in CATALOGUE.values()))
        finally:
            await judge.aclose()

    return dict(zip(CATALOGUE, asyncio.run(ask()), strict=True))


def check(name: str, verdict: JudgeVerdict, case: Case) -> None:
    """A verdict on the scale, or no number and the reason why not."""
    assert verdict.tokens is not None
    assert verdict.tokens.prompt > 100
    assert verdict.tokens.completion > 0
    if verdict.status is Status.INSUFFICIENT:
        assert (verdict.reason, verdict.samples) == (Reason.INVALID_OUTPUT, Samples(requested=1, invalid=1))
        assert verdict.detail
        assert (verdict.score, verdict.level, verdict.option) == (None, None, None)
        return
    assert verdict.samples == Samples(requested=1, valid=1)
    if verdict.status is Status.SCORED:
        assert verdict.level is not None
        assert verdict.score == CATALOGUE[name].normalise(verdict.level)
        assert verdict.option == CATALOGUE[name].scale.label(verdict.level, case.language)
    else:
        assert CATALOGUE[name].not_applicable is not None
        assert verdict.score is None


@pytest.mark.parametrize("case", [ENGLISH, RUSSIAN], ids=["en", "ru"])
def test_constrained_by_the_schema_it_gives_verdicts(llama_server: LlamaServer, case: Case) -> None:
    """Only an explanation that runs into the token limit can spoil one."""
    found = verdicts(llama_server, case, structured=True, max_tokens=80)
    for name, verdict in found.items():
        check(name, verdict, case)
        assert verdict.reason is None or "token limit" in (verdict.detail or "")
    assert any(verdict.samples.valid for verdict in found.values())


@pytest.mark.parametrize("case", [ENGLISH, RUSSIAN], ids=["en", "ru"])
def test_left_free_it_gives_verdicts_or_says_why_not(llama_server: LlamaServer, case: Case) -> None:
    """So small a model hardly ever writes the JSON by itself: what it does write must not become a number."""
    for name, verdict in verdicts(llama_server, case, structured=False, max_tokens=16).items():
        check(name, verdict, case)
