"""PromQL results, computed by promtool."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from tests.parts.promtool import run


def check(
    folder: Path,
    series: Sequence[Mapping[str, str]],
    expected: Mapping[str, tuple[str, float]],
    *,
    at: str,
    interval: str = "1m",
    rules: str = "groups: []\n",
) -> None:
    """Check the labels and values of expressions at a time; promtool compares exactly, to the last bit."""
    queries = [
        {
            "expr": f"abs(({expr}) - {value!r}) < bool 1e-9",
            "eval_time": at,
            "exp_samples": [{"labels": labels, "value": 1}],
        }
        for expr, (labels, value) in expected.items()
    ]
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": interval,
        "tests": [{"interval": interval, "input_series": list(series), "promql_expr_test": queries}],
    }
    (folder / "rules.yml").write_text(rules)
    (folder / "test.yml").write_text(yaml.safe_dump(test))
    process = run("promtool", "test", "rules", "test.yml", cwd=folder)
    assert process.returncode == 0, process.stdout + process.stderr
