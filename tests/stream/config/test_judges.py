"""Problems of judges, criteria and composite that cannot work as configured, all reported at once."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judges.models.prices import ModelPrice, find_price
from stream.config.model import Config
from stream.config.sections.judges import JudgesConfig
from stream.service.setup.config_file import ConfigError, load
from stream.worker.budget.limits import Budgets

GPT = {"kind": "openai", "name": "gpt", "model": "m", "base_url": "http://localhost/v1"}
LOCAL = {"kind": "local"}
OWN = "criteria: [{name: brand, title: Brand, question: 'Is the brand named?', scale: {range: {min: 0, max: 10}}}]\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "streamjury.yaml"


def read(file: Path, content: Any, environ: Mapping[str, str] | None = None) -> Config:
    file.write_text(json.dumps(content))
    return load(file, environ or {})


def problems(file: Path, content: Any, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        read(file, content, environ)
    return {problem.path: problem.message for problem in caught.value.problems}


def test_a_threshold_that_no_score_exceeds_is_refused(file: Path) -> None:
    reported = problems(file, {"composite": {"thresholds": {"clarity": 1.0}}})
    assert reported == {"composite.thresholds.clarity": "must be below 1, the highest possible score, not 1.0"}
    assert read(file, {"composite": {"thresholds": {"clarity": 0.99}}}).composite.thresholds == {"clarity": 0.99}


@pytest.mark.parametrize("ending", ["/chat/completions", "/chat/completions/", "/Chat/Completions"])
def test_an_address_that_includes_the_api_path_is_refused(file: Path, ending: str) -> None:
    judge = {**GPT, "base_url": f"http://localhost/v1{ending}"}
    reported = problems(file, {"judges": {"panel": [judge]}})
    assert list(reported) == ["judges.panel[0].base_url"]
    assert "must end before /chat/completions" in reported["judges.panel[0].base_url"]


def test_three_judges_or_more_are_combined_by_median_unless_a_rule_is_configured(file: Path) -> None:
    panel = [LOCAL, GPT, {**GPT, "name": "second"}, {**GPT, "name": "third"}]
    defaults = [read(file, {"judges": {"panel": panel[:count]}}).judges.combine_rule for count in (1, 2, 3, 4)]
    assert defaults == ["mean", "mean", "median", "median"]
    for rule in ("mean", "median", "min", "max", "majority", "weighted"):
        for count in (2, 3):
            judges = {"panel": panel[:count], "combine": rule}
            assert read(file, {"judges": judges}).judges.combine_rule == rule
    assert read(file, {"judges": {"panel": panel[:3], "stop_early": True}}).judges.stop_early
    # Reserves replace judges; they do not make the panel larger.
    reserved = {"panel": panel[:2], "reserves": panel[2:]}
    assert read(file, {"judges": reserved}).judges.combine_rule == "mean"


@pytest.mark.parametrize("rule", [{}, {"combine": "mean"}, {"combine": "weighted"}])
def test_stopping_early_is_refused_if_it_has_no_effect(file: Path, rule: dict[str, str]) -> None:
    panel = {"panel": [LOCAL, GPT], "stop_early": True}
    assert "has no effect with 'combine: " in problems(file, {"judges": {**panel, **rule}})["judges.stop_early"]
    assert read(file, {"judges": {**panel, "combine": "median"}}).judges.stop_early


# One problem hides no other


def test_a_problem_in_another_section_does_not_hide_a_criterion_without_a_judge(file: Path) -> None:
    content = {"http": {"port": -1}, "kafka": {"options": {"sasl.password": "${NOT_SET}"}}}
    reported = problems(file, {**content, "criteria": {"use": ["rag", "writing.empathy"]}})
    assert reported.keys() == {"http.port", "kafka.options['sasl.password']", "judges.panel"}
    assert "empathy would never get a verdict" in reported["judges.panel"]


def test_a_judge_with_a_problem_does_not_hide_wrong_names_and_composites(file: Path) -> None:
    judges = {
        "panel": [{**GPT, "samples": 0}, LOCAL],
        "combine": "weighted",
        "weights": {"gtp": 2},
        "quorum": 3,
        "cascade": {"first": ["gtp"]},
    }
    composite = {"weights": {"clarity": -1, "clarty": 1}, "thresholds": {"clarity": 1}}
    assert problems(file, {"judges": judges, "composite": composite}).keys() == {
        "judges.panel[0].samples",
        "judges.weights.gtp",
        "judges.quorum",
        "judges.cascade.first[0]",
        "composite.weights.clarity",
        "composite.weights.clarty",
        "composite.thresholds.clarity",
    }


def test_an_invalid_judge_causes_no_further_problems(file: Path) -> None:
    """No local judge can judge empathy, but the one with the problem could."""
    content = {"criteria": {"use": ["rag", "writing.empathy"]}, "judges": {"panel": [{**GPT, "samples": 0}]}}
    assert list(problems(file, content)) == ["judges.panel[0].samples"]


def test_an_unset_api_key_does_not_hide_a_criterion_without_a_judge(file: Path) -> None:
    panel = [{**GPT, "api_key": "${NOT_SET}", "criteria": ["clarity"]}]
    assert problems(file, {"judges": {"panel": panel}}).keys() == {"judges.panel[0].api_key", "judges.panel"}


# Files of criteria


def test_files_are_relative_to_the_configuration_file(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "my.yaml").write_text(OWN)
    (elsewhere / "env.yaml").write_text(OWN)
    monkeypatch.chdir(elsewhere)
    judges = {"judges": {"panel": [GPT]}}
    config = read(file, {"criteria": {"files": ["my.yaml"], "use": ["rag", "brand"]}, **judges})
    assert config.criteria.files == (str(tmp_path / "my.yaml"),)
    missing = problems(file, {"criteria": {"files": ["none.yaml"]}})["criteria.files[0]"]
    assert missing.startswith(f"{tmp_path / 'none.yaml'}: ")
    variables = {"STREAMJURY__CRITERIA__FILES__0": "env.yaml", "STREAMJURY__CRITERIA__USE": "[rag, brand]"}
    assert read(file, judges, variables).criteria.files == ("env.yaml",), (
        "a path from a variable is relative to the working directory"
    )


def test_without_a_safety_lane_no_budget_is_reserved_for_it() -> None:
    content = {"budgets": {"per_day_usd": 10}}
    plain, with_safety = Config.model_validate(content), Config.model_validate({**content, "sampling": {"safety": {}}})
    without_lane, with_lane = Budgets.of(plain), Budgets.of(with_safety)
    assert without_lane is not None
    assert with_lane is not None
    assert (without_lane.safety_share, with_lane.safety_share) == (0.0, 0.2)
    assert Budgets.of(Config()) is None


class TestPrices:
    """The price of a judge: as configured, or from the price table, except for self-hosted models."""

    def price(self, **keys: Any) -> ModelPrice | None:
        judge = {"kind": "openai", "name": "gpt", "model": "gpt-4o-mini", "base_url": "https://api.openai.com/v1"}
        [(_, model)] = JudgesConfig.model_validate({"panel": [{**judge, **keys}]}).list_models()
        return model.price

    def test_a_common_model_has_a_price(self) -> None:
        assert self.price() == find_price("gpt-4o-mini") is not None
        assert self.price(model="gpt-4o-mini-2024-07-18") == find_price("gpt-4o-mini")

    def test_a_configured_price_takes_precedence_over_the_table(self) -> None:
        configured = {"prompt": 1.0, "completion": 2.0, "cached": 0.5}
        assert self.price(price=configured) == ModelPrice(prompt=1.0, completion=2.0, cached=0.5)

    @pytest.mark.parametrize("address", ["http://localhost:8000/v1", "http://10.1.2.3/v1", "http://vllm:8000/v1"])
    def test_a_self_hosted_model_has_no_known_price(self, address: str) -> None:
        assert self.price(base_url=address) is None

    def test_an_unknown_model_has_no_price(self) -> None:
        assert self.price(model="gpt-4o-mini-of-mine") is None
