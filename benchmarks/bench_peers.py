"""Measures Streamjury beside ragas, deepeval and mlflow: the same rows, three similar criteria, one endpoint process.

Each tool runs in a separate interpreter (`make peers` installs them into .cache/peers), driven by its script in
benchmarks/peers with 64 concurrent calls. Tools that are not installed are listed, and the others are measured. The
tables are Markdown for docs/comparison.md, which explains them.

    PYTHONPATH=. python benchmarks/bench_peers.py --rows 200
"""

import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from benchmarks.common import argument_parser
from benchmarks.peers.endpoint import Behaviour

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "benchmarks/peers"
PEERS = ROOT / ".cache/peers"
VERSIONS = SCRIPTS / "versions.txt"
STREAMJURY = "streamjury"
TOOLS = (STREAMJURY, "ragas", "deepeval", "mlflow")
CRITERIA = 3
ROWS, SHORT_ROWS = 200, 4
SHORT_SCENARIOS = ("fixed", "faults")
LIMIT_SECONDS, SHORT_LIMIT_SECONDS = 900.0, 100.0

FIXED, TOKENS, FAULTS = "fixed", "tokens", "faults"
SCENARIOS: Mapping[str, Behaviour] = {
    FIXED: Behaviour(),
    # About a 70B model on a few GPUs: it reads 10,000 prompt tokens a second, and writes 100.
    TOKENS: Behaviour(fixed_seconds=0.02, uncached_token_seconds=0.0001, output_token_seconds=0.01),
    FAULTS: Behaviour(throttled=0.025, failed=0.02, unreadable=0.02, slow=0.005),
}
# Telemetry of a tool, and any other request that leaves this machine, is refused immediately.
QUIET: Mapping[str, str] = {
    "DO_NOT_TRACK": "1",
    "RAGAS_DO_NOT_TRACK": "true",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "ERROR_REPORTING": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRun:
    """One tool in one scenario."""

    tool: str
    rows: int
    tally: Mapping[str, Any]
    scores: Mapping[str, Mapping[str, float | None]]
    cost: Mapping[str, float] | None
    problem: str | None = None
    """The reason if there is no result at all."""

    @property
    def requests(self) -> int:
        return int(self.tally["requests"] + self.tally["embeddings"])

    @property
    def missing_scores(self) -> int:
        present = sum(score is not None for scores in self.scores.values() for score in scores.values())
        return self.rows * CRITERIA - present

    @property
    def lost_rows(self) -> int:
        """Count the rows that lack one of their scores."""
        whole = [scores for scores in self.scores.values() if len(scores) == CRITERIA and None not in scores.values()]
        return self.rows - len(whole)

    def count_changed_scores(self, healthy: "PeerRun") -> int:
        """Count the scores that differ from those of the run without faults, because of a fault."""
        return sum(
            score is not None and expected is not None and score != expected
            for row, scores in self.scores.items()
            for name, score in scores.items()
            for expected in [healthy.scores.get(row, {}).get(name)]
        )


# The rows

PRODUCTS = ("dishwasher", "kettle", "heat pump", "washing machine", "oven", "freezer", "cooker hood", "dryer")
PARTS = ("door seal", "pump", "inlet hose", "control panel", "filter", "thermostat", "power cable", "hinge")
PASSAGE_SENTENCES, PASSAGES = 9, 4


def make_sentence(lots: random.Random, product: str) -> str:
    part, months, price, day = lots.choice(PARTS), lots.randint(3, 60), lots.randint(9, 400), lots.randint(1, 28)
    return lots.choice(
        (
            f"The {part} of the {product} is covered for {months} months from the day of purchase.",
            f"A visit of the technician for the {part} costs {price} euros when the fault is not covered.",
            f"Clean the {part} every {day} days, and never with a pressure washer or with solvents.",
            f"Orders of a new {part} for the {product} that arrive before day {day} are sent in the same month.",
        )
    )


def make_row(number: int) -> dict[str, object]:
    """Make a row of about 900 tokens whose text occurs in no other row."""
    lots = random.Random(number)
    product = f"{lots.choice(PRODUCTS)} {lots.randint(100, 9999)}"
    passages = [
        f"Document {number}-{passage}. " + " ".join(make_sentence(lots, product) for _ in range(PASSAGE_SENTENCES))
        for passage in range(PASSAGES)
    ]
    return {
        "id": f"row-{number}",
        "question": f"How long is the {lots.choice(PARTS)} of my {product} covered in order {number}, and who pays?",
        "answer": " ".join(lots.choice(passages).split(". ")[1:5]) + ".",
        "contexts": [{"text": passage} for passage in passages],
    }


# Running the tools


@contextmanager
def start_endpoint() -> Iterator[str]:
    command = [sys.executable, str(SCRIPTS / "endpoint.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def find_interpreters(tools: Sequence[str], folder: Path) -> dict[str, Path]:
    """Return the interpreters of the tools that are installed, and print which tools are not."""
    installed = [tool for tool in tools if tool == STREAMJURY or (folder / tool / ".installed").exists()]
    if missing := [tool for tool in tools if tool not in installed]:
        print(f"not measured, because `make peers` has not installed them: {', '.join(missing)}\n")
    return {tool: Path(sys.executable) if tool == STREAMJURY else folder / tool / "bin/python" for tool in installed}


def run_tool(
    tool: str, interpreter: Path, scenario: Behaviour, rows: Path, address: str, limit_seconds: float
) -> PeerRun:
    """Run a tool over the rows in a new process and an empty folder, and collect its scores and costs."""
    httpx.put(f"{address}/scenario", json=asdict(scenario)).raise_for_status()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        results = Path(folder) / "results.jsonl"
        script = SCRIPTS / f"run_{tool}.py"
        command = [str(interpreter), str(script), str(rows), str(results), f"{address}/v1"]
        environment = {**QUIET, "PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8"}
        problem = run_process(command, Path(folder), environment, limit_seconds)
        lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    return PeerRun(
        tool=tool,
        rows=len(rows.read_text().splitlines()),
        tally=httpx.get(f"{address}/tally").json(),
        scores={line["id"]: line["scores"] for line in lines[:-1]},
        cost=lines[-1] if lines else None,
        problem=problem,
    )


def run_process(command: Sequence[str], folder: Path, environment: Mapping[str, str], limit: float) -> str | None:
    """Run a command, and return the reason if it failed."""
    log = folder / "log.txt"
    with log.open("wb") as output:
        try:
            process = subprocess.run(
                command, cwd=folder, env=environment, stdout=output, stderr=output, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return f"not finished after {limit:g} s"
    if process.returncode == 0:
        return None
    text = log.read_text(errors="replace")
    print(text[-3000:], file=sys.stderr)
    return f"failed: {(text.strip().splitlines() or ['no output'])[-1][:120]}"


# The report


def write_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"| {' | '.join(columns)} |")
    print(f"| {' | '.join('---' for _ in columns)} |")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print(flush=True)


def describe_speed(run: PeerRun, own_rate: float | None) -> tuple[str, ...]:
    if run.cost is None:
        return (run.tool, run.problem or "no result", *("–",) * (len(SPEED_COLUMNS) - 2))
    rate, calls = run.rows / run.cost["seconds"], max(1, run.requests)
    return (
        run.tool,
        f"{rate:.2f}",
        "–" if own_rate is None else f"{rate / own_rate:.2f}",
        f"{run.requests / run.rows:.1f}",
        *(f"{run.tally[f'{kind}_tokens'] / run.rows:,.0f}" for kind in ("prompt", "uncached", "output")),
        str(run.tally["most_in_flight"]),
        f"{1000 * run.cost['processor_seconds'] / calls:.1f}",
        f"{run.cost['start_processor_seconds']:.1f}",
        f"{run.cost['peak_mib']:,.0f}",
    )


SPEED_COLUMNS = (
    "tool",
    "records/s",
    "relative to Streamjury",
    "requests per record",
    "prompt tokens per record",
    "of which uncached",
    "output tokens per record",
    "peak concurrent requests",
    "CPU ms per request",
    "CPU s to start",
    "peak MiB",
)


def report_speed(name: str, runs: Sequence[PeerRun]) -> None:
    print(f"### {name}\n")
    own = next((run for run in runs if run.tool == STREAMJURY and run.cost), None)
    own_rate = own.rows / own.cost["seconds"] if own and own.cost else None
    write_table(SPEED_COLUMNS, [describe_speed(run, own_rate) for run in runs])


def report_faults(runs: Sequence[PeerRun], healthy: Mapping[str, PeerRun]) -> None:
    columns = ("tool", "faults met", "rows lost", "scores missing", "scores changed by faults", "outcome")
    rows = [
        (
            run.tool,
            f"{sum(run.tally['faults'].values())} of {run.tally['requests']}",
            f"{run.lost_rows} of {run.rows}",
            f"{run.missing_scores} of {run.rows * CRITERIA}",
            str(run.count_changed_scores(healthy[run.tool])) if run.tool in healthy else "–",
            run.problem or "completed",
        )
        for run in runs
    ]
    write_table(columns, rows)


def describe_machine(tools: Sequence[str]) -> str:
    lines = (line.split() for line in VERSIONS.read_text().splitlines() if not line.startswith("#"))
    versions = [package for tool, package, *_ in lines if tool.rstrip(":") in tools]
    memory = int(re.search(r"MemTotal: *(\d+)", Path("/proc/meminfo").read_text())[1]) / 2**20  # type: ignore[index]
    conditions = (
        f"{datetime.now(UTC):%Y-%m-%d}",
        f"{os.cpu_count()} cores",
        f"{memory:.0f} GiB",
        f"load average {os.getloadavg()[0]:.1f} at the start",
        f"Python {platform.python_version()}",
        *versions,
    )
    return ", ".join(conditions)


def report_losses(runs: Sequence[PeerRun], *, fail: bool) -> None:
    """Report the tools that lose scores without a fault; on few rows, the script or the endpoint is then wrong."""
    for run in runs:
        if run.problem or run.missing_scores:
            message = f"{run.tool}: {run.problem or f'{run.missing_scores} scores missing'} without a fault"
            if fail or run.tool == STREAMJURY:
                sys.exit(message)
            print(f"{message}\n")


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", type=int, help=f"default: {ROWS}")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS)
    parser.add_argument("--scenarios", nargs="+", choices=[*SCENARIOS], help="default: all; with --short, two")
    parser.add_argument("--limit-seconds", type=float, help="give a tool up after this long in one scenario")
    parser.add_argument("--peers", type=Path, default=PEERS, help="folder of the environments that `make peers` makes")
    options = parser.parse_args()
    count = options.rows or (SHORT_ROWS if options.short else ROWS)
    limit = options.limit_seconds or (SHORT_LIMIT_SECONDS if options.short else LIMIT_SECONDS)
    scenarios = options.scenarios or (SHORT_SCENARIOS if options.short else [*SCENARIOS])
    interpreters = find_interpreters(options.tools, options.peers)
    print(f"{count} rows, {describe_machine([*interpreters])}\n", flush=True)
    healthy: dict[str, PeerRun] = {}
    with tempfile.TemporaryDirectory() as folder, start_endpoint() as address:
        rows = Path(folder) / "rows.jsonl"
        rows.write_text("".join(json.dumps(make_row(number)) + "\n" for number in range(count)))
        for name in scenarios:
            runs = []
            for tool, interpreter in interpreters.items():
                print(f"{name}: {tool} …", file=sys.stderr, flush=True)
                runs.append(run_tool(tool, interpreter, SCENARIOS[name], rows, address, limit))
            report_speed(name, runs)
            if name == FAULTS:
                report_faults(runs, healthy)
            else:
                report_losses(runs, fail=options.short)
                healthy |= {run.tool: run for run in runs}


if __name__ == "__main__":
    main()
