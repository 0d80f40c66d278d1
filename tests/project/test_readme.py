"""The examples of the README and of the pages it links to are valid."""

import json
from pathlib import Path

import pytest

from judges import Interaction
from judges.criteria.catalogue import CATALOGUES, load_catalogue
from stream.service.setup.config_file import load
from tests.parts.documents import pages
from tests.parts.documents.pages import ROOT

JUDGES = "docs/guides/judges.md"


def blocks(language: str, page: str = "README.md") -> list[str]:
    """Return the code blocks in a language."""
    return [block.code for block in pages.blocks(ROOT / page, language)]


def test_the_configuration_example_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "streamjury.yaml"
    file.write_text(blocks("yaml")[0])
    config = load(file, {"VLLM_API_KEY": "k"})
    assert config.judges.panel[0].name == "llama-70b"
    assert config.sampling.rate == 0.05


def test_the_example_of_criteria_and_a_cascade_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the custom criterion from the page about judges."""
    monkeypatch.chdir(tmp_path)
    own = next(code for code in blocks("yaml", "docs/judges.md") if "brand_voice" in code)
    (tmp_path / "my-criteria.yaml").write_text(own)
    (tmp_path / "streamjury.yaml").write_text(next(code for code in blocks("yaml", JUDGES) if "brand_voice" in code))
    config = load(tmp_path / "streamjury.yaml", {})
    assert config.criteria.use[-1] == "brand_voice"
    assert config.judges.cascade is not None
    assert config.judges.quorum == 1, "with two judges, more than half would be both"


def test_the_example_of_sampling_rules_is_valid(tmp_path: Path) -> None:
    example = next(code for code in blocks("yaml", "docs/sampling.md") if "load-tests" in code)
    (tmp_path / "streamjury.yaml").write_text(example)
    assert [rule.name for rule in load(tmp_path / "streamjury.yaml", {}).sampling.rules] == [
        "load-tests",
        "checkout",
        "slow",
    ]


def test_it_counts_the_criteria_right() -> None:
    shipped = sum(len(load_catalogue(name)) for name in CATALOGUES)
    assert f"the {shipped} criteria that ship" in (ROOT / JUDGES).read_text(encoding="utf-8")


def test_the_interaction_example_is_valid() -> None:
    [record] = blocks("json")
    assert Interaction.model_validate(json.loads(record)).contexts
