"""Prometheus's own tools: whether rules and configurations are right, and whether rules do what they should."""

import shutil
import subprocess
from pathlib import Path

from tests.parts.required import unavailable


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
    result = run("promtool", "check", "rules", "--lint=all", "--lint-fatal", file)
    return "" if result.returncode == 0 else result.stdout + result.stderr
