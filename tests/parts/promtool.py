"""Prometheus's own tools: they check rules and configurations, and run unit tests of rules."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.parts.patience import patience
from tests.parts.required import unavailable


class Check(NamedTuple):
    """Expected values of an expression at a time, by labels."""

    expr: str
    at: str
    samples: Mapping[str, float]


def run(program: str, *arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a tool and return its output; without the tool the test is skipped or fails."""
    if shutil.which(program) is None:
        package = "prometheus" if program == "promtool" else "prometheus-alertmanager"
        unavailable(f"no {program}: install it (Debian: {package})")
    # It lives for seconds: less garbage collection, and a quarter less processor time.
    environ = {**os.environ, "GOGC": "800"}
    return subprocess.run(
        [program, *arguments],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120 * patience(),
        check=False,
    )


def problems_of_rules(folder: Path, text: str) -> str:
    """Return the complaints of `promtool check rules` about a rule file; empty if it is valid."""
    file = folder / "rules.yml"
    file.write_text(text, encoding="utf-8")
    return _problems("check", "rules", "--lint=all", "--lint-fatal", file)


def problems_of_expressions(folder: Path, expressions: Iterable[str]) -> str:
    """Return the errors of standalone expressions; empty if they are valid."""
    rules = [{"record": f"expression:{number}", "expr": expr} for number, expr in enumerate(expressions)]
    return problems_of_rules(folder, yaml.safe_dump({"groups": [{"name": "expressions", "rules": rules}]}))


def failures_of(file: Path) -> str:
    """Return the failures of a unit test file; empty if it passes."""
    return _problems("test", "rules", file)


def differences(folder: Path, series: Mapping[str, str], checks: Iterable[Check], rules: Sequence[Path] = ()) -> str:
    """Return the expressions whose samples differ from the expected ones, given one input sample a minute."""
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": check.expr,
                "eval_time": check.at,
                "exp_samples": [{"labels": labels, "value": value} for labels, value in check.samples.items()],
            }
            for check in checks
        ],
    }
    file = folder / "test.yml"
    content = {"rule_files": [str(path) for path in rules], "evaluation_interval": "1m", "tests": [test]}
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return failures_of(file)


def _problems(*arguments: str | Path) -> str:
    result = run("promtool", *arguments)
    return "" if result.returncode == 0 else result.stdout + result.stderr
