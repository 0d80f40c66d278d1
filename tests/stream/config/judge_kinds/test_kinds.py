"""Properties of every registered judge kind."""

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


def shared_parts() -> SharedParts:
    return SharedParts(redactor=Redactor((), {}), verdicts=None)


def test_every_kind_of_the_package_is_registered_once_under_a_unique_name() -> None:
    modules = [
        importlib.import_module(f"{judge_kinds.__name__}.{module_info.name}")
        for module_info in pkgutil.iter_modules(judge_kinds.__path__)
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
        judge = section(kind).build(shared_parts())
        try:
            assert judge.name == "one"
        finally:
            judge.close()

    def test_a_judge_that_asks_a_model_stays_in_one_process(self, kind: type[JudgeSection]) -> None:
        judge_config = section(kind)
        assert judge_config.runs_in_processes == (judge_config.asked_model is None)

    def test_the_judge_is_restricted_to_the_criteria_of_its_section(self, kind: type[JudgeSection]) -> None:
        judge_config = section(kind, criteria=("clarity",))
        judge = judge_config.build(shared_parts())
        try:
            assert judge.only == (None if judge_config.only_criteria is None else frozenset(judge_config.only_criteria))
        finally:
            judge.close()


def test_judges_of_one_endpoint_share_its_flow_and_others_do_not() -> None:
    parts = shared_parts()
    models = [
        section(OpenAIJudgeConfig),
        section(OllamaJudgeConfig),
        section(OpenAIJudgeConfig, base_url="http://[::1]:9"),
    ]
    flows = [parts.flow_of(model.asked_model) for model in models if model.asked_model is not None]
    assert flows[0] is flows[1]
    assert flows[0] is not flows[2]


@pytest.mark.parametrize(("kind", "name"), [("local", "local"), ("openai", None), ("nobody", None), ([], None)])
def test_only_some_kinds_have_a_default_name(kind: object, name: str | None) -> None:
    assert default_name(kind) == name


def test_the_local_judge_needs_no_model_and_costs_nothing() -> None:
    local = LocalJudgeConfig()
    assert (local.asked_model, local.runs_in_processes, local.only_criteria, local.relative_cost) == (
        None,
        True,
        None,
        0.0,
    )


# One call for several criteria


@pytest.mark.parametrize("kind", [kind for kind in JUDGE_KINDS if issubclass(kind, ModelJudgeConfig)])
def test_every_kind_that_asks_a_model_can_ask_together(kind: type[JudgeSection]) -> None:
    identities = set()
    for ask in ("single", "together", {"together": "quality"}):
        judge = section(kind, ask=ask).build(shared_parts())
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
def test_asking_together_is_refused_with_options_it_does_not_support(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        section(OpenAIJudgeConfig, **{"ask": "together", **keys})


@pytest.mark.parametrize(
    ("ask", "answers"), [("single", [1] * 6), ("together", [6]), ({"together": "quality"}, [1, 5])]
)
def test_the_expected_calls_match_the_way_of_asking(ask: object, answers: list[int]) -> None:
    case = case_of(Interaction(id="1", question="q", answer="a", contexts=(Context(text="c"),)))
    judge_config = section(OpenAIJudgeConfig, ask=ask)
    assert isinstance(judge_config, ModelJudgeConfig)
    calls = list(judge_config.expected_calls(case, load_catalogue("rag").values()))
    assert sorted(call.answers for call in calls) == answers
    assert {call.number for call in calls} == {1}
    assert all(call.prompt[1].content.startswith("Code: ") for call in calls)
