"""The short form of every benchmark runs, so that `make bench` still works when the program has changed."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.parts import kafka, llama, postgres
from tests.parts.patience import patience
from tests.parts.required import unavailable

ROOT = Path(__file__).parents[2]
BENCHMARKS = sorted(path.stem for path in (ROOT / "benchmarks").glob("bench_*.py"))
SECONDS = 120

# The real part that a benchmark starts: its xdist group, and why it may be missing. The group keeps it from running
# beside a test that uses the same part.
PARTS: dict[str, tuple[str, Callable[[], str | None]]] = {
    "bench_assembler": ("kafka", kafka.why_unavailable),
    "bench_archive": ("postgres", postgres.why_unavailable),
    "bench_backlog": ("kafka", kafka.why_unavailable),
    "bench_prefix_sharing": ("llama", llama.why_unavailable),
    "bench_sampler": ("kafka", kafka.why_unavailable),
    "bench_sentences": ("llama", llama.why_unavailable),
}
# A row of a table, in either of the two styles that the benchmarks print.
ROW = re.compile(r"^[│|] *[^\s│|-].*[│|]$", re.MULTILINE)


def run_short(benchmark: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, f"benchmarks/{benchmark}.py", "--short", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=SECONDS * patience(),
        check=False,
    )


def with_its_part(benchmark: str) -> object:
    marks = [pytest.mark.xdist_group(PARTS[benchmark][0])] if benchmark in PARTS else []
    return pytest.param(benchmark, marks=marks, id=benchmark)


@pytest.mark.parametrize("benchmark", [with_its_part(benchmark) for benchmark in BENCHMARKS])
@pytest.mark.slow
def test_the_short_form_runs_through_and_prints_its_table(benchmark: str) -> None:
    if benchmark in PARTS and (reason := PARTS[benchmark][1]()):
        unavailable(reason)
    process = run_short(benchmark)
    assert process.returncode == 0, (process.stdout + process.stderr)[-3000:]
    assert ROW.search(process.stdout), f"no table in:\n{process.stdout[-3000:]}"


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_the_docstring_is_the_help_and_begins_with_the_measured_quantity(benchmark: str) -> None:
    docstring = ast.get_docstring(ast.parse((ROOT / "benchmarks" / f"{benchmark}.py").read_text()))
    assert docstring is not None
    assert docstring.startswith("Measures ")


def test_every_benchmark_with_a_real_part_exists() -> None:
    assert PARTS.keys() <= set(BENCHMARKS)
