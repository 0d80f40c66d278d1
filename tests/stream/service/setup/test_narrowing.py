"""A configuration made narrower: what is left goes together, and what is said about the rest is forgotten."""

from typing import Any

import pytest

from stream.config.judge_kinds.model import ModelJudgeConfig
from stream.config.model import Config
from stream.jobs.evaluate import narrow_config
from stream.service.setup.config_file import ConfigError
from stream.service.setup.evaluator import build_evaluator


def model(name: str, **more: object) -> dict[str, object]:
    return {"kind": "openai", "name": name, "model": name, "base_url": "http://127.0.0.1:1/v1", "api_key": "k", **more}


def config(**sections: Any) -> Config:
    return Config.model_validate(sections)


THREE = {"panel": [model("a"), model("b"), {"kind": "local"}], "reserves": [model("c")]}


def problems(error: ConfigError) -> list[str]:
    return [str(problem) for problem in error.problems]


def test_with_nothing_asked_for_it_is_the_same() -> None:
    whole = config(judges=THREE, composite={"weights": {"clarity": 2.0}})
    assert narrow_config(whole) == whole


def test_only_the_named_criteria_are_judged_and_that_for_safety() -> None:
    found = narrow_config(config(), criteria=["clarity", "rag.groundedness"])
    assert build_evaluator(found).info.criteria == ("clarity", "groundedness", "harmfulness")
    assert narrow_config(config(), criteria=["harmfulness"]).criteria.use == ("rag.harmfulness",)
    assert narrow_config(config(), criteria=["rag"]).criteria.use == ("rag",)


def test_a_published_name_means_its_criterion_though_another_catalogue_has_one_of_that_name() -> None:
    panel = {"panel": [model("a")]}
    found = narrow_config(config(criteria={"use": ["rag", "aspects"]}, judges=panel), criteria=["conciseness"])
    assert found.criteria.use == ("rag.conciseness", "rag.harmfulness")
    found = narrow_config(config(criteria={"use": ["rag", "aspects"]}, judges=panel), criteria=["aspects.conciseness"])
    assert found.criteria.use == ("aspects.conciseness", "rag.harmfulness")


def test_what_is_said_about_other_criteria_is_forgotten() -> None:
    weights, required = {"clarity": 2.0, "conciseness": 0.5}, ["groundedness"]
    composite = {"weights": weights, "required": required, "thresholds": {"clarity": 0.5}}
    panel = [model("a"), model("b", criteria=["groundedness"]), model("c", criteria=["clarity", "groundedness"])]
    whole = config(composite=composite, judges={"panel": panel, "combine": "weighted", "weights": {"b": 2.0}})
    found = narrow_config(whole, criteria=["clarity"])
    assert found.composite.weights == {"clarity": 2.0}
    assert found.composite.required == ()
    assert found.composite.thresholds == {"clarity": 0.5}
    assert [judge.name for judge in found.judges.panel] == ["a", "c"]
    assert found.judges.weights == {}


@pytest.mark.parametrize(
    ("criteria", "weights", "judged_by_b"),
    [
        (["aspects.conciseness"], {"conciseness": 3.0}, ("conciseness",)),
        (["rag.conciseness"], {"conciseness": 2.0}, None),
        (["rag", "aspects.conciseness"], {"conciseness": 2.0, "aspects.conciseness": 3.0}, ("aspects.conciseness",)),
    ],
)
def test_what_is_said_about_a_criterion_follows_it_where_its_short_name_is_free(
    criteria: list[str], weights: dict[str, float], judged_by_b: tuple[str, ...] | None
) -> None:
    panel = [model("a"), model("b", criteria=["aspects.conciseness"])]
    composite = {"weights": {"conciseness": 2.0, "aspects.conciseness": 3.0}}
    whole = config(criteria={"use": ["rag", "aspects"]}, composite=composite, judges={"panel": panel})
    found = narrow_config(whole, criteria=criteria)
    assert found.composite.weights == weights
    kept = {judge.name: judge.only_criteria for judge in found.judges.panel}
    assert kept == {"a": None} | ({} if judged_by_b is None else {"b": judged_by_b})
    assert set(weights) <= set(build_evaluator(found).info.criteria)


def test_only_the_named_judges_judge_and_nobody_stands_in_for_them() -> None:
    whole = config(judges={**THREE, "combine": "weighted", "weights": {"a": 2.0, "b": 3.0}, "quorum": 3})
    found = narrow_config(whole, judges=["c", "a"]).judges
    assert [judge.name for judge in found.panel] == ["a", "c"]
    assert (found.reserves, dict(found.weights), found.quorum) == ((), {"a": 2.0}, 2)


@pytest.mark.parametrize(
    ("names", "first"), [(["a", "b", "local"], ("a",)), (["a", "b"], ("a",)), (["b", "local"], None), (["a"], None)]
)
def test_a_cascade_stays_where_it_leaves_somebody_out(names: list[str], first: tuple[str, ...] | None) -> None:
    found = narrow_config(config(judges={**THREE, "cascade": {"first": ["a"]}}), judges=names).judges.cascade
    assert (None if found is None else found.first) == first


def test_seed_and_temperature_are_those_of_all_models() -> None:
    found = narrow_config(config(judges=THREE), seed=7, temperature=0.5).judges
    models = [judge for judge in (*found.panel, *found.reserves) if isinstance(judge, ModelJudgeConfig)]
    assert [(judge.seed, judge.temperature) for judge in models] == [(7, 0.5)] * 3
    assert [judge.api_key.get_secret_value() for judge in models if judge.api_key] == ["k"] * 3
    assert narrow_config(config(judges=THREE), temperature=0.0) == config(judges=THREE)


def test_names_that_nobody_has_are_told_with_those_that_were_meant() -> None:
    with pytest.raises(ConfigError) as caught:
        narrow_config(config(judges=THREE), judges=["a", "lokal"])
    assert problems(caught.value) == ["--judge lokal: unknown judge; did you mean 'local'?"]
    with pytest.raises(ConfigError) as caught:
        narrow_config(config(), criteria=["clarity", "groundednes"])
    assert problems(caught.value) == ["--criteria groundednes: unknown criterion; did you mean 'groundedness'?"]


def test_what_a_judge_cannot_do_is_told_at_its_key() -> None:
    panel = [{"kind": "anthropic", "name": "a", "model": "m", "api_key": "k-secret"}]
    with pytest.raises(ConfigError) as caught:
        narrow_config(config(judges={"panel": panel}), temperature=1.5)
    assert problems(caught.value) == ["judges.panel[0].temperature: must be at most 1 for this API, not 1.5"]
    only = config(judges={"panel": [{"kind": "local"}, model("a")]}, criteria={"use": ["rag", "factuality"]})
    with pytest.raises(ConfigError) as caught:
        narrow_config(only, judges=["local"])
    assert "factuality would never get a verdict" in problems(caught.value)[0]
