"""What PromQL makes of series, computed by promtool."""

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
    """Expressions have these labels and values at a time; promtool's own comparison is exact to the last bit."""
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
    done = run("promtool", "test", "rules", "test.yml", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
