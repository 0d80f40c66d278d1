"""Prometheus's own tools: whether rules and configurations are right, and whether rules do what they should."""

import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.parts.required import unavailable


class Check(NamedTuple):
    """What an expression should be at a moment: values by labels."""

    expr: str
    at: str
    samples: Mapping[str, float]


def run(program: str, *arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What a tool says to these arguments; the test ends where it is not installed."""
    if shutil.which(program) is None:
        package = "prometheus" if program == "promtool" else "prometheus-alertmanager"
        unavailable(f"no {program}: install it (Debian: {package})")
    return subprocess.run([program, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def problems_of_rules(folder: Path, text: str) -> str:
    """What `promtool check rules` has against a file of rules; empty when nothing."""
    file = folder / "rules.yml"
    file.write_text(text, encoding="utf-8")
    return _problems("check", "rules", "--lint=all", "--lint-fatal", file)


def problems_of_expressions(folder: Path, expressions: Iterable[str]) -> str:
    """What is wrong with expressions that belong to no rules; empty when nothing."""
    rules = [{"record": f"expression:{number}", "expr": expr} for number, expr in enumerate(expressions)]
    return problems_of_rules(folder, yaml.safe_dump({"groups": [{"name": "expressions", "rules": rules}]}))


def failures_of(file: Path) -> str:
    """What a file of unit tests found to be otherwise; empty when nothing."""
    return _problems("test", "rules", file)


def differences(folder: Path, series: Mapping[str, str], checks: Iterable[Check], rules: Sequence[Path] = ()) -> str:
    """Where expressions have other samples than they should, when these series come in once a minute."""
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
