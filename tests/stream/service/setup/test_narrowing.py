"""A narrowed configuration: the remaining parts fit together, and settings about the rest are dropped."""

from typing import Any

import pytest

from stream.config.judge_kinds.model import ModelJudgeConfig
from stream.config.model import Config
from stream.jobs.evaluate import narrow_config
from stream.service.setup.config_file import ConfigError
from stream.service.setup.evaluator import build_evaluator


def model(name: str, **keys: object) -> dict[str, object]:
    return {"kind": "openai", "name": name, "model": name, "base_url": "http://127.0.0.1:1/v1", "api_key": "k", **keys}


def config(**sections: Any) -> Config:
    return Config.model_validate(sections)


THREE = {"panel": [model("a"), model("b"), {"kind": "local"}], "reserves": [model("c")]}


def problems(error: ConfigError) -> list[str]:
    return [str(problem) for problem in error.problems]


def test_without_arguments_the_configuration_is_unchanged() -> None:
    whole = config(judges=THREE, composite={"weights": {"clarity": 2.0}})
    assert narrow_config(whole) == whole


def test_only_the_named_criteria_and_the_safety_criterion_are_judged() -> None:
    narrowed = narrow_config(config(), criteria=["clarity", "rag.groundedness"])
    assert build_evaluator(narrowed).info.criteria == ("clarity", "groundedness", "harmfulness")
    assert narrow_config(config(), criteria=["harmfulness"]).criteria.use == ("rag.harmfulness",)
    assert narrow_config(config(), criteria=["rag"]).criteria.use == ("rag",)


def test_a_published_name_means_its_criterion_even_if_another_catalogue_has_the_same_name() -> None:
    panel = {"panel": [model("a")]}
    narrowed = narrow_config(config(criteria={"use": ["rag", "aspects"]}, judges=panel), criteria=["conciseness"])
    assert narrowed.criteria.use == ("rag.conciseness", "rag.harmfulness")
    narrowed = narrow_config(
        config(criteria={"use": ["rag", "aspects"]}, judges=panel), criteria=["aspects.conciseness"]
    )
    assert narrowed.criteria.use == ("aspects.conciseness", "rag.harmfulness")


def test_settings_about_other_criteria_are_dropped() -> None:
    weights, required = {"clarity": 2.0, "conciseness": 0.5}, ["groundedness"]
    composite = {"weights": weights, "required": required, "thresholds": {"clarity": 0.5}}
    panel = [model("a"), model("b", criteria=["groundedness"]), model("c", criteria=["clarity", "groundedness"])]
    whole = config(composite=composite, judges={"panel": panel, "combine": "weighted", "weights": {"b": 2.0}})
    narrowed = narrow_config(whole, criteria=["clarity"])
    assert narrowed.composite.weights == {"clarity": 2.0}
    assert narrowed.composite.required == ()
    assert narrowed.composite.thresholds == {"clarity": 0.5}
    assert [judge.name for judge in narrowed.judges.panel] == ["a", "c"]
    assert narrowed.judges.weights == {}


@pytest.mark.parametrize(
    ("criteria", "weights", "judged_by_b"),
    [
        (["aspects.conciseness"], {"conciseness": 3.0}, ("conciseness",)),
        (["rag.conciseness"], {"conciseness": 2.0}, None),
        (["rag", "aspects.conciseness"], {"conciseness": 2.0, "aspects.conciseness": 3.0}, ("aspects.conciseness",)),
    ],
)
def test_settings_about_a_criterion_follow_it_to_its_short_name(
    criteria: list[str], weights: dict[str, float], judged_by_b: tuple[str, ...] | None
) -> None:
    panel = [model("a"), model("b", criteria=["aspects.conciseness"])]
    composite = {"weights": {"conciseness": 2.0, "aspects.conciseness": 3.0}}
    whole = config(criteria={"use": ["rag", "aspects"]}, composite=composite, judges={"panel": panel})
    narrowed = narrow_config(whole, criteria=criteria)
    assert narrowed.composite.weights == weights
    criteria_by_judge = {judge.name: judge.only_criteria for judge in narrowed.judges.panel}
    assert criteria_by_judge == {"a": None} | ({} if judged_by_b is None else {"b": judged_by_b})
    assert set(weights) <= set(build_evaluator(narrowed).info.criteria)


def test_only_the_named_judges_judge_without_reserves() -> None:
    whole = config(judges={**THREE, "combine": "weighted", "weights": {"a": 2.0, "b": 3.0}, "quorum": 3})
    judges = narrow_config(whole, judges=["c", "a"]).judges
    assert [judge.name for judge in judges.panel] == ["a", "c"]
    assert (judges.reserves, dict(judges.weights), judges.quorum) == ((), {"a": 2.0}, 2)


@pytest.mark.parametrize(
    ("names", "first"), [(["a", "b", "local"], ("a",)), (["a", "b"], ("a",)), (["b", "local"], None), (["a"], None)]
)
def test_a_cascade_is_kept_if_it_can_skip_a_judge(names: list[str], first: tuple[str, ...] | None) -> None:
    cascade = narrow_config(config(judges={**THREE, "cascade": {"first": ["a"]}}), judges=names).judges.cascade
    assert (None if cascade is None else cascade.first) == first


def test_seed_and_temperature_apply_to_all_models() -> None:
    judges = narrow_config(config(judges=THREE), seed=7, temperature=0.5).judges
    models = [judge for judge in (*judges.panel, *judges.reserves) if isinstance(judge, ModelJudgeConfig)]
    assert [(judge.seed, judge.temperature) for judge in models] == [(7, 0.5)] * 3
    assert [judge.api_key.get_secret_value() for judge in models if judge.api_key] == ["k"] * 3
    assert narrow_config(config(judges=THREE), temperature=0.0) == config(judges=THREE)


def test_unknown_names_are_reported_with_suggestions() -> None:
    with pytest.raises(ConfigError) as caught:
        narrow_config(config(judges=THREE), judges=["a", "lokal"])
    assert problems(caught.value) == ["--judge lokal: unknown judge; did you mean 'local'?"]
    with pytest.raises(ConfigError) as caught:
        narrow_config(config(), criteria=["clarity", "groundednes"])
    assert problems(caught.value) == ["--criteria groundednes: unknown criterion; did you mean 'groundedness'?"]


def test_options_that_a_judge_does_not_support_are_reported_at_their_key() -> None:
    panel = [{"kind": "anthropic", "name": "a", "model": "m", "api_key": "k-secret"}]
    with pytest.raises(ConfigError) as caught:
        narrow_config(config(judges={"panel": panel}), temperature=1.5)
    assert problems(caught.value) == ["judges.panel[0].temperature: must be at most 1 for this API, not 1.5"]
    only = config(judges={"panel": [{"kind": "local"}, model("a")]}, criteria={"use": ["rag", "factuality"]})
    with pytest.raises(ConfigError) as caught:
        narrow_config(only, judges=["local"])
    assert "factuality would never get a verdict" in problems(caught.value)[0]
