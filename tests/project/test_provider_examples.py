"""The configurations in docs/examples/providers: one for each provider, and each works unchanged."""

from pathlib import Path

import pytest

from judges.models.presets import PRESET_NAMES
from stream.service.setup.config_file import load
from stream.service.setup.evaluator import build_evaluator

FOLDER = Path(__file__).parents[2] / "docs/examples/providers"
FILES = sorted(FOLDER.glob("*.yaml"))
KEYS = ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MISTRAL_API_KEY", "OPENROUTER_API_KEY")


def test_every_provider_has_an_example() -> None:
    assert {file.stem for file in FILES} == {*PRESET_NAMES, "anthropic", "ollama"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_is_a_valid_configuration(file: Path) -> None:
    config = load(file, dict.fromkeys(KEYS, "secret"))
    [judge] = config.judges.panel
    assert judge.name in build_evaluator(config).judge_names
    assert "secret" not in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_its_first_lines_name_the_commands_for_it(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    for command in ("config check", "evaluate answers.csv", "run"):
        assert f"streamjury {command} -c {file.name}" in text
