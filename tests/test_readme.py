"""The README shows what the code does: its examples run and its table of metrics is complete."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from judges import Interaction
from sinks.metrics import PipelineMetrics, ScoreMetrics
from stream.configfile import load

README = (Path(__file__).parents[1] / "README.md").read_text()


def block(language: str) -> str:
    """The one code block of a language."""
    [found] = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_configuration_example_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "streamjury.yaml"
    file.write_text(block("yaml"))
    config = load(file, {"VLLM_API_KEY": "k"})
    assert config.judges.panel[0].name == "llama-70b"
    assert config.sampling.rate == 0.05


def test_the_interaction_example_is_valid() -> None:
    assert Interaction.model_validate(json.loads(block("json"))).contexts


def test_the_library_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    code = block("python")
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == code.split("# ")[-1].strip()


def test_the_table_of_metrics_is_the_registry() -> None:
    registry = CollectorRegistry()
    PipelineMetrics(registry)
    ScoreMetrics(registry)
    served = {
        f"{family.name}_total" if family.type == "counter" else family.name: family.type
        for family in registry.collect()
    }
    rows = re.findall(r"^\| `(streamjury_\w+)` \| (\w+) \|", README, re.MULTILINE)
    assert dict(rows) == served
