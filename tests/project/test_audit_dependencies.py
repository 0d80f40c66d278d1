"""The dependency audit fails on a vulnerability, and a failed query does not look like a pass."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.project.audit_dependencies import main, report

ROOT = Path(__file__).parents[2]

FINE = {"name": "rich", "version": "15.0.0", "vulns": []}
VULNERABLE = {"name": "x", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}
UNKNOWN = {"name": "y", "skip_reason": "not found"}


def test_a_vulnerability_fails_the_audit_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([FINE, VULNERABLE, UNKNOWN]) == 1
    assert "x 1: PYSEC-1, fixed in 2" in capsys.readouterr().err


def test_packages_without_one_pass_and_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([FINE, UNKNOWN]) == 0
    assert "no known vulnerability in 1 of 2 packages" in capsys.readouterr().out


def test_an_index_that_knows_nothing_is_a_skip_and_not_a_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([UNKNOWN]) == 0
    assert capsys.readouterr().out.startswith("dependency audit skipped:")


def test_the_development_tools_bring_pip_audit_in_a_pinned_version() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    assert [tool for tool in tools if tool.startswith("pip-audit")]
    assert re.search(r"^pip[_-]audit==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)


def test_without_a_network_the_audit_is_skipped_and_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")
    # pip-audit reads answers from pip's cache, which could have this one.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("rich==15.0.0\n")
    assert main(constraints) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("dependency audit skipped:")
    assert "not installed" not in printed
