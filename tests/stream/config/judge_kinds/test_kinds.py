"""What holds for every registered judge kind."""

import importlib
import inspect
import pkgutil
from typing import Any

import pytest
from pydantic import ValidationError

from judges.criteria.catalogue import load_catalogue
from judges.models.redaction import Redactor
from judges.values.interaction import Context, Interaction, case_of
from stream.config import judge_kinds
from stream.config.judge_kinds import JUDGE_KINDS, default_name
from stream.config.judge_kinds.base import JudgeSection, SharedParts
from stream.config.judge_kinds.local import LocalJudgeConfig
from stream.config.judge_kinds.model import ModelJudgeConfig
from stream.config.judge_kinds.ollama import OllamaJudgeConfig
from stream.config.judge_kinds.openai import OpenAIJudgeConfig
from stream.config.walk import kind_of

REQUIRED: dict[str, Any] = {"name": "one", "model": "some-model", "base_url": "http://127.0.0.1:9"}


def section(kind: type[JudgeSection], **keys: Any) -> JudgeSection:
    return kind(**{key: value for key, value in {**REQUIRED, **keys}.items() if key in kind.model_fields})


def shared() -> SharedParts:
    return SharedParts(redactor=Redactor((), {}), verdicts=None)


def test_every_kind_of_the_package_is_registered_once_under_a_name_of_its_own() -> None:
    modules = [
        importlib.import_module(f"{judge_kinds.__name__}.{each.name}")
        for each in pkgutil.iter_modules(judge_kinds.__path__)
    ]
    kinds = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, JudgeSection) and kind_of(value)
    }
    concrete = {kind for kind in kinds if not inspect.isabstract(kind)}
    assert concrete == set(JUDGE_KINDS)
    assert len({kind_of(kind) for kind in JUDGE_KINDS}) == len(JUDGE_KINDS)


@pytest.mark.parametrize("kind", JUDGE_KINDS)
class TestEveryKind:
    def test_it_builds_a_judge_of_its_name(self, kind: type[JudgeSection]) -> None:
        judge = section(kind).build(shared())
        try:
            assert judge.name == "one"
        finally:
            judge.close()

    def test_a_judge_that_asks_a_model_stays_in_one_process(self, kind: type[JudgeSection]) -> None:
        found = section(kind)
        assert found.runs_in_processes == (found.asked_model is None)

    def test_the_criteria_that_it_is_restricted_to_are_those_of_its_judge(self, kind: type[JudgeSection]) -> None:
        found = section(kind, criteria=("clarity",))
        judge = found.build(shared())
        try:
            assert judge.only == (None if found.only_criteria is None else frozenset(found.only_criteria))
        finally:
            judge.close()


def test_judges_of_one_endpoint_share_its_flow_and_others_do_not() -> None:
    parts = shared()
    models = [
        section(OpenAIJudgeConfig),
        section(OllamaJudgeConfig),
        section(OpenAIJudgeConfig, base_url="http://[::1]:9"),
    ]
    flows = [parts.flow_of(model.asked_model) for model in models if model.asked_model is not None]
    assert flows[0] is flows[1]
    assert flows[0] is not flows[2]


@pytest.mark.parametrize(("kind", "name"), [("local", "local"), ("openai", None), ("nobody", None), ([], None)])
def test_only_some_kinds_name_their_judges(kind: object, name: str | None) -> None:
    assert default_name(kind) == name


def test_a_judge_without_a_model_has_the_facts_of_one_that_only_computes() -> None:
    local = LocalJudgeConfig()
    assert (local.asked_model, local.runs_in_processes, local.only_criteria, local.relative_cost) == (
        None,
        True,
        None,
        0.0,
    )


# One call for several criteria


@pytest.mark.parametrize("kind", [kind for kind in JUDGE_KINDS if kind is not LocalJudgeConfig])
def test_every_kind_that_asks_a_model_can_ask_together(kind: type[JudgeSection]) -> None:
    identities = set()
    for ask in ("single", "together", {"together": "quality"}):
        judge = section(kind, ask=ask).build(shared())
        identities.add(judge.identity)
        judge.close()
    assert len(identities) == 3


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"method": "rubric"}, "only the method direct"),
        ({"method": "two_step"}, "only the method direct"),
        ({"persona": "generate"}, "for each criterion"),
        ({"ask": "both"}, "'single' or 'together'"),
        ({"ask": {"together": "safety"}}, "'quality'"),
        ({"ask": ["together"]}, "'single' or 'together'"),
    ],
)
def test_asking_together_where_that_means_nothing_is_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        section(OpenAIJudgeConfig, **{"ask": "together", **keys})


@pytest.mark.parametrize(
    ("ask", "answers"), [("single", [1] * 6), ("together", [6]), ({"together": "quality"}, [1, 5])]
)
def test_the_calls_to_expect_are_those_that_are_made(ask: object, answers: list[int]) -> None:
    case = case_of(Interaction(id="1", question="q", answer="a", contexts=(Context(text="c"),)))
    found = section(OpenAIJudgeConfig, ask=ask)
    assert isinstance(found, ModelJudgeConfig)
    calls = list(found.expected_calls(case, load_catalogue("rag").values()))
    assert sorted(each.answers for each in calls) == answers
    assert {each.number for each in calls} == {1}
    assert all(each.prompt[1].content.startswith("Code: ") for each in calls)
