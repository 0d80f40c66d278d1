"""What is said about judges, criteria and composite that cannot work as they are written, all of it at once."""

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
    found = problems(file, {"composite": {"thresholds": {"clarity": 1.0}}})
    assert found == {"composite.thresholds.clarity": "must be below 1, the highest possible score, not 1.0"}
    assert read(file, {"composite": {"thresholds": {"clarity": 0.99}}}).composite.thresholds == {"clarity": 0.99}


@pytest.mark.parametrize("ending", ["/chat/completions", "/chat/completions/", "/Chat/Completions"])
def test_an_address_with_what_is_added_to_it_is_refused(file: Path, ending: str) -> None:
    judge = {**GPT, "base_url": f"http://localhost/v1{ending}"}
    found = problems(file, {"judges": {"panel": [judge]}})
    assert list(found) == ["judges.panel[0].base_url"]
    assert "must end before /chat/completions" in found["judges.panel[0].base_url"]


@pytest.mark.parametrize("rule", [{}, {"combine": "mean"}, {"combine": "weighted"}])
def test_stopping_early_is_refused_where_it_does_nothing(file: Path, rule: dict[str, str]) -> None:
    panel = {"panel": [LOCAL, GPT], "stop_early": True}
    assert "has no effect with 'combine: " in problems(file, {"judges": {**panel, **rule}})["judges.stop_early"]
    assert read(file, {"judges": {**panel, "combine": "median"}}).judges.stop_early


# One problem hides no other


def test_a_problem_of_another_section_hides_nothing_about_who_can_judge(file: Path) -> None:
    content = {"http": {"port": -1}, "kafka": {"options": {"sasl.password": "${NOT_SET}"}}}
    found = problems(file, {**content, "criteria": {"use": ["rag", "writing.empathy"]}})
    assert found.keys() == {"http.port", "kafka.options['sasl.password']", "judges.panel"}
    assert "empathy would never get a verdict" in found["judges.panel"]


def test_a_judge_with_a_problem_hides_nothing_about_names_and_composite(file: Path) -> None:
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


def test_what_stands_in_for_a_wrong_judge_makes_no_problems_of_its_own(file: Path) -> None:
    """No local judge can judge by empathy, but the one with the problem could."""
    content = {"criteria": {"use": ["rag", "writing.empathy"]}, "judges": {"panel": [{**GPT, "samples": 0}]}}
    assert list(problems(file, content)) == ["judges.panel[0].samples"]


def test_a_key_that_is_not_set_hides_nothing_about_who_can_judge(file: Path) -> None:
    panel = [{**GPT, "api_key": "${NOT_SET}", "criteria": ["clarity"]}]
    assert problems(file, {"judges": {"panel": panel}}).keys() == {"judges.panel[0].api_key", "judges.panel"}


# Files of criteria


def test_files_are_looked_for_beside_the_configuration(
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
    assert read(file, judges, variables).criteria.files == ("env.yaml",), "a variable has no file to be beside"


def test_without_a_safety_lane_nothing_of_a_budget_is_kept_for_it() -> None:
    content = {"budgets": {"per_day_usd": 10}}
    alone, beside = Config.model_validate(content), Config.model_validate({**content, "sampling": {"safety": {}}})
    without_lane, with_lane = Budgets.of(alone), Budgets.of(beside)
    assert without_lane is not None
    assert with_lane is not None
    assert (without_lane.safety_share, with_lane.safety_share) == (0.0, 0.2)
    assert Budgets.of(Config()) is None


class TestPrices:
    """What a judge costs: as written, else as the table has it, but not where somebody serves the model himself."""

    def price(self, **keys: Any) -> ModelPrice | None:
        judge = {"kind": "openai", "name": "gpt", "model": "gpt-4o-mini", "base_url": "https://api.openai.com/v1"}
        [(_, model)] = JudgesConfig.model_validate({"panel": [{**judge, **keys}]}).list_models()
        return model.price

    def test_a_common_model_has_a_price(self) -> None:
        assert self.price() == find_price("gpt-4o-mini") is not None
        assert self.price(model="gpt-4o-mini-2024-07-18") == find_price("gpt-4o-mini")

    def test_what_is_written_counts_before_the_table(self) -> None:
        written = {"prompt": 1.0, "completion": 2.0, "cached": 0.5}
        assert self.price(price=written) == ModelPrice(prompt=1.0, completion=2.0, cached=0.5)

    @pytest.mark.parametrize("address", ["http://localhost:8000/v1", "http://10.1.2.3/v1", "http://vllm:8000/v1"])
    def test_a_model_of_ones_own_has_none_that_is_known(self, address: str) -> None:
        assert self.price(base_url=address) is None

    def test_an_unknown_model_has_none(self) -> None:
        assert self.price(model="gpt-4o-mini-of-mine") is None
