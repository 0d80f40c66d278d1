"""The short form of every benchmark runs, so that `make bench` still works when the program has changed."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.parts import kafka, llama, postgres
from tests.parts.patience import patience
from tests.parts.program import start_script
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


def run_short(benchmark: str, folder: Path, *options: str) -> str:
    """Run the short form of a benchmark to its end, and return what it printed."""
    output = folder / "printed"
    process = start_script(ROOT / f"benchmarks/{benchmark}.py", "--short", *options, output=output)
    process.join(SECONDS * patience())
    if process.is_alive():
        process.kill()
        process.join()
    printed = output.read_text(encoding="utf-8")
    assert process.exitcode == 0, f"{process.exitcode}: {printed[-3000:]}"
    return printed


def with_its_part(benchmark: str) -> object:
    marks = [pytest.mark.xdist_group(PARTS[benchmark][0])] if benchmark in PARTS else []
    return pytest.param(benchmark, marks=marks, id=benchmark)


@pytest.mark.parametrize("benchmark", [with_its_part(benchmark) for benchmark in BENCHMARKS])
@pytest.mark.slow
def test_the_short_form_runs_through_and_prints_its_table(benchmark: str, tmp_path: Path) -> None:
    if benchmark in PARTS and (reason := PARTS[benchmark][1]()):
        unavailable(reason)
    printed = run_short(benchmark, tmp_path)
    assert ROW.search(printed), f"no table in:\n{printed[-3000:]}"


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_the_docstring_is_the_help_and_begins_with_the_measured_quantity(benchmark: str) -> None:
    docstring = ast.get_docstring(ast.parse((ROOT / "benchmarks" / f"{benchmark}.py").read_text()))
    assert docstring is not None
    assert docstring.startswith("Measures ")


def test_every_benchmark_with_a_real_part_exists() -> None:
    assert PARTS.keys() <= set(BENCHMARKS)
