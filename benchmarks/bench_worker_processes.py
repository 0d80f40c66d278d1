"""Measures a worker of two processes against one of a single process, on an endpoint that is never the limit.

    streamjury worker [--processes 2] ── an endpoint that answers after 20 ms with a canned verdict
            └── embedded broker, the same number of records on every partition

The two take turns, each on a new broker with the same number of records per process and six calls per record. The
worker's metrics give the rates, between a fifth and nine tenths of the records. Promised on idle cores: a ratio of 1.8.

Broker, endpoint and supervisor need processor time, too. With two cores they take it from the second process, so the
table also has the ratio by processor time: the ratio if the processes had two cores to themselves.

    PYTHONPATH=. python benchmarks/bench_worker_processes.py
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import httpx
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser, create_topics
from benchmarks.evaluator_alone import generate_values
from benchmarks.fast_endpoint import RunningEndpoint, run_endpoint
from sinks.metrics import Outcome, Stage, names
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker

RECORDS, SHORT_RECORDS = 1_500, 60
"""Records per process, so that both forms of the worker take equally long."""
ROUNDS, SHORT_ROUNDS = 3, 1
PROCESSES = (1, 2)
WANTED_RATIO = 1.8
LATENCY_SECONDS = 0.02
PARTITIONS = 4
"""The number of partitions of a topic of the embedded broker."""
START_SECONDS, LOOK_SECONDS = 180.0, 0.25
COUNT_SECONDS = 1.0
"""Time between counts: each one takes processor time from the worker."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSnapshot:
    """Records finished, and processor seconds used, at one moment."""

    clock: float
    records: int
    worker_cpu: float
    endpoint_cpu: float
    broker_cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRates:
    """Rates between two snapshots. Cores are processor seconds per second."""

    records: float
    cpu_ms: float
    """Processor time of the worker for one record."""
    worker_cores: float
    endpoint_cores: float
    broker_cores: float


def rates_between(first: WorkerSnapshot, last: WorkerSnapshot) -> WorkerRates:
    seconds, records = last.clock - first.clock, last.records - first.records
    worker = last.worker_cpu - first.worker_cpu
    return WorkerRates(
        records=records / seconds,
        cpu_ms=1000 * worker / records,
        worker_cores=worker / seconds,
        endpoint_cores=(last.endpoint_cpu - first.endpoint_cpu) / seconds,
        broker_cores=(last.broker_cpu - first.broker_cpu) / seconds,
    )


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the processor time that processes have used so far, with all their threads."""
    stats = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids)
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / _TICKS


class RunningWorker:
    """`streamjury worker` with a number of processes."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path, processes: int) -> None:
        self._process, self._log, self._processes = process, log, processes
        self._client = httpx.Client(trust_env=False, timeout=60)
        self.url = self._find(r"metrics and health at (\S+)", 1)[0]
        self.pids = [process.pid] if processes == 1 else [*map(int, self._find(r"has the process id (\d+)", processes))]
        while not self._client.get(f"{self.url}/readyz").is_success:
            self._wait()

    def count(self) -> int:
        """Return the records that all processes have finished."""
        page = self._client.get(f"{self.url}/metrics", params={"name[]": names.RECORDS}).text
        wanted = (f'stage="{Stage.WORKER}"', f'outcome="{Outcome.CONSUMED}"')
        return sum(int(float(line.split()[-1])) for line in page.splitlines() if all(part in line for part in wanted))

    def _find(self, pattern: str, least: int) -> list[str]:
        deadline = time.monotonic() + START_SECONDS
        while len(matches := re.findall(pattern, self._log.read_text())) < least:
            if time.monotonic() > deadline:
                raise SystemExit(f"the worker did not start:\n{self._log.read_text()}")
            self._wait()
        return matches

    def _wait(self) -> None:
        if self._process.poll() is not None:
            raise SystemExit(f"the worker ended:\n{self._log.read_text()}")
        time.sleep(LOOK_SECONDS)


@contextmanager
def run_worker(bootstrap: str, base_url: str, processes: int) -> Iterator[RunningWorker]:
    judge = {"kind": "openai", "name": "judge", "model": "m", "base_url": base_url}
    # No cache: the demo's traffic repeats its texts, and every verdict should need a call.
    config = {
        "criteria": {"use": ["rag"]},
        "judges": {"panel": [judge], "cache": {"entries": 0}},
        "http": {"port": 0},
        "sampling": {"salt": "bench"},
    }
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "worker.json", Path(folder) / "worker.log"
        path.write_text(json.dumps(config))
        command = ["-m", "stream.cli.main", "worker", "--config", str(path), "--processes", str(processes)]
        environ = {**os.environ, "STREAMJURY__KAFKA__BOOTSTRAP": bootstrap}
        with log.open("wb") as output:
            process = subprocess.Popen([sys.executable, *command], env=environ, stdout=output, stderr=output)
        try:
            yield RunningWorker(process, log, processes)
            process.terminate()
            if process.wait(START_SECONDS):
                raise SystemExit(f"the worker failed:\n{log.read_text()}")
        finally:
            process.kill()
            process.wait()


def write_evenly(bootstrap: str, topic: str, values: Iterable[bytes]) -> None:
    """Write the same number of records to each partition, so that all processes have the same load."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, key=json.loads(value)["id"], value=value, partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush()


def measure(endpoint: RunningEndpoint, processes: int, records: int) -> WorkerRates:
    """Return the rates of a worker while it judges the records."""
    with EmbeddedBroker() as broker:
        create_topics(broker, Config())
        with run_worker(broker.bootstrap, endpoint.base_url, processes) as worker:

            def look_until(finished: float) -> WorkerSnapshot:
                while (count := worker.count()) < finished:
                    time.sleep(COUNT_SECONDS * min(1.0, records / RECORDS))
                return WorkerSnapshot(
                    clock=time.perf_counter(),
                    records=count,
                    worker_cpu=cpu_seconds(worker.pids),
                    endpoint_cpu=cpu_seconds([endpoint.pid]),
                    broker_cpu=cpu_seconds([broker.pid]),
                )

            start = look_until(0)
            write_evenly(broker.bootstrap, Config().topics.sampled, generate_values(records))
            first, last = look_until(0.2 * records), look_until(0.9 * records)
            if first.records == last.records:  # a busy machine judged the few records of the short form between looks
                first = start
            look_until(records)
            if worker.count() != records:
                raise SystemExit(f"{worker.count()} of {records} records were counted")
    return rates_between(first, last)


def report(rounds: list[dict[int, WorkerRates]], title: str) -> float:
    """Print the medians, and return the ratio on the clock."""
    columns = ("processes", "records/s", "CPU ms a record", "cores: worker", "endpoint", "broker")
    table = Table(*columns, title=title)
    for processes in PROCESSES:
        measured = [rates[processes] for rates in rounds]
        fields = ("records", "cpu_ms", "worker_cores", "endpoint_cores", "broker_cores")
        figures = [median(getattr(rates, name) for rates in measured) for name in fields]
        table.add_row(str(processes), f"{figures[0]:,.0f}", *(f"{figure:.2f}" for figure in figures[1:]))
    one, two = PROCESSES
    clock = median(rates[two].records / rates[one].records for rates in rounds)
    by_cpu = median(two * rates[one].cpu_ms / rates[two].cpu_ms for rates in rounds)
    table.add_row(f"ratio (wanted: {WANTED_RATIO})", f"{clock:.2f}")
    table.add_row("ratio by processor time", f"{by_cpu:.2f}")
    Console(width=110).print(table)
    return clock


def main() -> int:
    options = argument_parser(__doc__).parse_args()
    records, count = (SHORT_RECORDS, SHORT_ROUNDS) if options.short else (RECORDS, ROUNDS)
    with run_endpoint(LATENCY_SECONDS) as endpoint:
        rounds = [
            {processes: measure(endpoint, processes, processes * records) for processes in PROCESSES}
            for _ in range(count)
        ]
    title = f"{count} rounds, {records:,} records for each process, six calls a record, {os.cpu_count()} cores"
    ratio = report(rounds, title)
    return 0 if options.short or ratio >= WANTED_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
