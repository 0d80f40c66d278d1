"""Measures `streamjury evaluate` with the local judge: rows per second and memory, for files of several sizes.

Every size runs in a separate process. The ratio compares with the evaluator alone in one process, times the number of
processes, with the same rows in the same run, because the rates depend on the machine.

    PYTHONPATH=. python benchmarks/bench_offline.py 10000 50000
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser, read_memory
from benchmarks.evaluator_alone import generate_values, measure_evaluator
from sinks.reports import write_reports
from stream.config.judge_kinds.local import LocalJudgeConfig
from stream.config.model import Config
from stream.config.sections.judges import JudgesConfig
from stream.jobs.evaluate import EvaluateRequest, evaluate
from stream.service.processes.cores import cores

SIZES, SHORT_SIZES = (10_000, 50_000, 100_000), (100,)
ALONE_ROWS = 3_000
PROCESSES = cores()
LOCAL = JudgesConfig(panel=(LocalJudgeConfig(),))


def write_rows(path: Path, count: int) -> None:
    with path.open("wb") as file:
        file.writelines(value + b"\n" for value in generate_values(count))


def run_alone(path: str, folder: str) -> None:
    """Evaluate one file in this process, and print the measurements as JSON."""
    started = time.perf_counter()
    outcome = evaluate(Config(judges=LOCAL), EvaluateRequest(file=path, folder=Path(folder)))
    judged = time.perf_counter()
    memory = read_memory("VmHWM")
    write_reports(outcome.results, Path(folder))
    measured = {
        "rows": outcome.judged,
        "seconds": judged - started,
        "report_seconds": time.perf_counter() - judged,
        "memory": memory,
        "judge_memory": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        "report_memory": read_memory("VmHWM"),
    }
    print(json.dumps(measured))


def measure_file(path: Path, folder: Path) -> dict[str, float]:
    """Evaluate one file in a new process, and return its measurements."""
    command = [sys.executable, __file__, "--one", str(path), str(folder)]
    return dict(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def measure_size(folder: Path, size: int) -> tuple[str, ...]:
    """Measure a file of this many rows, and return a row of the table."""
    path = folder / f"{size}.jsonl"
    write_rows(path, size)
    with path.open("rb") as file:
        alone = measure_evaluator(list(islice(file, ALONE_ROWS)))
    measured = measure_file(path, folder / f"{size}-results")
    if measured["rows"] != size:
        sys.exit(f"{measured['rows']:,.0f} of {size:,} rows were judged")
    rate = size / measured["seconds"]
    print(f"{size:,} rows: {rate:,.0f}/s; the evaluator alone {alone:,.0f}/s in one process", file=sys.stderr)
    return (
        f"{size:,}",
        f"{rate:,.0f}",
        f"{rate / (alone * PROCESSES):.2f}",
        f"{measured['memory']:,.0f}",
        f"{measured['judge_memory']:,.0f}",
        f"{size / measured['report_seconds']:,.0f}",
        f"{measured['report_memory']:,.0f}",
    )


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("sizes", type=int, nargs="*", help="rows of each file (default: 10,000, 50,000 and 100,000)")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_alone(*options.one)
        return
    columns = ("rows", "rows/s", "ratio", "MiB here", "MiB a judge", "reports, rows/s", "MiB with reports")
    table = Table(*columns, title=f"the local judge, {PROCESSES} processes, six dimensions")
    with tempfile.TemporaryDirectory() as folder:
        for size in options.sizes or (SHORT_SIZES if options.short else SIZES):
            table.add_row(*measure_size(Path(folder), size))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
