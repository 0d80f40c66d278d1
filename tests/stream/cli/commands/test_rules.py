"""`streamjury rules`: the file on standard output or at a path, and notes beside it."""

import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stream.cli.main import main
from stream.config.model import Config
from tests.parts.rules import rules_of

NOTE = "note: StreamjuryCostBudgetNearlyUsed is left out: alerts.cost_per_day_usd is not set\n"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.upper().startswith("STREAMJURY")]:
        monkeypatch.delenv(name)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["rules", *arguments])


def test_standard_output_is_the_file_and_nothing_else() -> None:
    result = run()
    assert result.exit_code == 0
    assert result.stdout == rules_of(Config()).text()
    assert result.stderr == NOTE


def test_the_configuration_decides() -> None:
    Path("mine.yaml").write_text("objectives: {target: 0.99}\nalerts: {cost_per_day_usd: 5}\n")
    result = run("--config", "mine.yaml")
    assert (
        result.stdout
        == rules_of(Config.model_validate({"objectives": {"target": 0.99}, "alerts": {"cost_per_day_usd": 5}})).text()
    )
    assert result.stderr == ""


def test_an_alert_that_can_never_fire_is_reported() -> None:
    Path("streamjury.yaml").write_text("objectives: {target: 0.9}\n")
    assert "note: StreamjuryQualityDrop over 1h is left out" in run().stderr


def test_a_file_is_written_whole_readable_for_others_and_replaces_the_old_one() -> None:
    path = Path("rules.yml")
    path.write_text("old")
    result = run("--output", "rules.yml")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{NOTE}wrote rules.yml\n"
    assert path.read_text(encoding="utf-8") == rules_of(Config()).text()
    assert [file.name for file in Path().iterdir()] == ["rules.yml"]
    umask = os.umask(0o022)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary_files() -> None:
    Path("rules.yml").mkdir()
    result = run("-o", "rules.yml")
    assert result.exit_code != 0
    assert "rules.yml" in result.stderr
    assert run("-o", "nowhere/rules.yml").stderr.endswith(
        "Error: cannot write nowhere/rules.yml: No such file or directory\n"
    )
    assert [file.name for file in Path().iterdir()] == ["rules.yml"]


def test_an_invalid_configuration_exits_with_2() -> None:
    Path("streamjury.yaml").write_text("objectives: {target: 2}\n")
    result = run()
    assert result.exit_code == 2
    assert "objectives.target" in result.stderr


def test_the_help_says_how_prometheus_gets_the_file() -> None:
    text = run("--help").stdout
    assert "rule_files:" in text
    assert "job_name: streamjury" in text
    assert "promtool check rules" in text
