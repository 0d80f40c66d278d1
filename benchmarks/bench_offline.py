"""What a file costs: rows judged per second by `streamjury evaluate` with the local judge, and the memory they take.

Every size runs in a process of its own. The ratio is to the evaluator alone in one process, times the processes, with
the same rows and in the same run: the rates depend on the machine.

    make bench
    PYTHONPATH=. .venv/bin/python benchmarks/bench_offline.py 10000 50000 100000
"""

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from judges import Submission
from judges.evaluation import Sampling
from sinks.reports import write_reports
from stream.assembly import build_evaluator
from stream.config import Config
from stream.offline import Request, evaluate
from stream.offline.run import cores
from stream.reading import InteractionReader
from stream.traffic import generate, load_corpus, plan

SIZES = (10_000, 50_000, 100_000)
BARE_ROWS = 3_000
DEADLINE = 45.0
PROCESSES = cores()


def write_rows(path: Path, count: int) -> None:
    traffic = generate(load_corpus(), plan("healthy", seconds=60), seed=1)
    now = datetime.now(UTC)
    with path.open("wb") as file:
        for number in range(count):
            file.write(traffic.record(number / 1_000, now).value + b"\n")


async def judge_bare(values: list[bytes]) -> None:
    config = Config()
    evaluator, reader = build_evaluator(config), InteractionReader(config.input)
    for value in values:
        submission = Submission(interaction=reader.read(value).interaction, sampling=Sampling())
        evaluation = await evaluator.evaluate(submission, deadline=DEADLINE, on_unsafe=lambda _notice: None)
        evaluation.model_dump_json()


def bare(path: Path) -> float:
    """Rows a second of the evaluator alone, reading and writing JSON in memory."""
    with path.open("rb") as file:
        values = [file.readline() for _ in range(BARE_ROWS)]
    asyncio.run(judge_bare(values[:100]))
    started = time.perf_counter()
    asyncio.run(judge_bare(values))
    return len(values) / (time.perf_counter() - started)


def megabytes(who: int) -> float:
    return resource.getrusage(who).ru_maxrss / 1024


def measure(path: str, folder: str) -> None:
    """One run, told as JSON; called in a process of its own."""
    started = time.perf_counter()
    outcome = evaluate(Config(), Request(file=path, folder=Path(folder)))
    judged = time.perf_counter()
    memory = megabytes(resource.RUSAGE_SELF)
    write_reports(outcome.results, Path(folder))
    figures = {
        "rows": outcome.judged,
        "seconds": judged - started,
        "report_seconds": time.perf_counter() - judged,
        "memory": memory,
        "judge_memory": megabytes(resource.RUSAGE_CHILDREN),
        "report_memory": megabytes(resource.RUSAGE_SELF),
    }
    print(json.dumps(figures))


def measured(path: Path, folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", str(path), str(folder)]
    return dict(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def main(sizes: tuple[int, ...]) -> None:
    table = Table(
        "rows",
        "rows/s",
        "ratio",
        "MiB here",
        "MiB a judge",
        "reports, rows/s",
        "MiB with reports",
        title=f"the local judge, {PROCESSES} processes, six dimensions",
    )
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            path = Path(folder) / f"{size}.jsonl"
            write_rows(path, size)
            alone = bare(path)
            found = measured(path, Path(folder) / f"{size}-results")
            rate = found["rows"] / found["seconds"]
            table.add_row(
                f"{size:,}",
                f"{rate:,.0f}",
                f"{rate / (alone * PROCESSES):.2f}",
                f"{found['memory']:,.0f}",
                f"{found['judge_memory']:,.0f}",
                f"{size / found['report_seconds']:,.0f}",
                f"{found['report_memory']:,.0f}",
            )
            Console(stderr=True).print(
                f"{size:,} rows: {rate:,.0f}/s; the evaluator alone {alone:,.0f}/s in one process"
            )
    Console().print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(*sys.argv[2:])
    else:
        main(tuple(map(int, sys.argv[1:])) or SIZES)
