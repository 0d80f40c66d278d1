"""The dependency audit: a vulnerability fails it, and what could not be asked does not look like a pass."""

import pytest

from tests.project.audit_dependencies import told

FINE = {"name": "rich", "version": "15.0.0", "vulns": []}
VULNERABLE = {"name": "x", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}
UNKNOWN = {"name": "y", "skip_reason": "not found"}


def test_a_vulnerability_fails_the_audit_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert told([FINE, VULNERABLE, UNKNOWN]) == 1
    assert "x 1: PYSEC-1, fixed in 2" in capsys.readouterr().err


def test_packages_without_one_pass_and_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert told([FINE, UNKNOWN]) == 0
    assert "no known vulnerability in 1 of 2 packages" in capsys.readouterr().out


def test_an_index_that_knows_nothing_is_a_skip_and_not_a_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert told([UNKNOWN]) == 0
    assert capsys.readouterr().out.startswith("dependency audit skipped:")
