"""Measures the memory of a worker that works off a backlog of a million records, from the start to the end.

The records are tiny and the judge answers immediately, so only the worker's bookkeeping is measured. The broker is a
real Kafka, and the worker is a separate process. Promised: at most 500 MiB, and no growth in the second half.

    PYTHONPATH=. python benchmarks/bench_backlog.py --records 50000
"""

import argparse
import json
import logging
import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser, create_topics, read_memory, skip_without, write_records
from judges import Evaluator
from judges.composite import MultiCriteria
from judges.panel import Panel
from judges.scripted import ScriptedJudge
from sinks.metrics import Outcome, PipelineMetrics, Stage
from stream.config.criteria import compose_criteria
from stream.config.model import Config
from stream.service.service import relax_collector
from stream.service.setup.criteria_files import load_chosen_criteria
from stream.worker.stage import Worker
from tests.parts.kafka import KafkaBroker, why_unavailable

RECORDS, SHORT_RECORDS = 1_000_000, 1_000
PARTITIONS = 6
LIMIT_MIB = 500.0
GROWTH_LIMIT = 0.10
CRITERION = "rag.harmfulness"
# More than the defaults: the worker judges at most `run_ahead` records between two transactions, so with an instant
# judge the defaults would take most of an hour. Higher values need more memory, never less.
CONCURRENCY, RUN_AHEAD = 256, 4096

# The first mark excludes start-up: by then the worker has its connections, its code and its first full queues.
MARKS = {
    "at the start": 0.02,
    "at a quarter": 0.25,
    "in the middle": 0.5,
    "at three quarters": 0.75,
    "at the end": 1.0,
}
PEAK = "at its peak"
# The worker remembers a fixed number of finished evaluations. With fewer records than twice that, memory still grows.
FLAT_FROM = 600_000

_LOOK_SECONDS = 0.1


def make_config(bootstrap: str) -> Config:
    return Config.model_validate(
        {
            "kafka": {"bootstrap": bootstrap},
            "topics": {"partitions": PARTITIONS},
            "criteria": {"use": [CRITERION]},
            "worker": {"instance": "bench", "concurrency": CONCURRENCY, "run_ahead": RUN_AHEAD, "excerpt_chars": 0},
            "http": {"port": 0},
        }
    )


def tiny_records(count: int) -> Iterator[tuple[str, bytes]]:
    for number in range(count):
        key = f"id-{number:07}"
        yield key, json.dumps({"id": key, "question": "Why?", "answer": "So."}).encode()


# The worker's process


class _NoCalls(list):  # type: ignore[type-arg]
    """Keeps no calls: the scripted judge's record of a million calls is not the worker's memory."""

    def append(self, _call: object) -> None:
        pass


def make_evaluator(config: Config) -> Evaluator:
    """Build an evaluator whose judge gives every answer the best score at once."""
    multi: MultiCriteria = compose_criteria(load_chosen_criteria(config.criteria), config.composite)
    best = {
        name: max(choice.value or 0.0 for choice in criterion.scale.choices)
        for name, criterion in multi.criteria.items()
    }
    judge = ScriptedJudge(best)
    judge.asked = _NoCalls()
    return Evaluator(multi, Panel(judges=(judge,)), version="benchmark")


def run_worker(bootstrap: str, records: int) -> None:
    """Work off the backlog in this process, and print the measurements as one line of JSON."""
    logging.basicConfig(level=logging.ERROR)
    relax_collector()  # as `streamjury worker` does
    config, metrics, stop = make_config(bootstrap), PipelineMetrics(CollectorRegistry()), threading.Event()
    worker = Worker(config, make_evaluator(config), metrics)
    thread = threading.Thread(target=worker.run, args=(stop,), daemon=True)
    started = time.monotonic()
    thread.start()
    memory = dict(watch_memory(thread, metrics, records))
    seconds = time.monotonic() - started
    stop.set()
    thread.join()
    print(json.dumps({**memory, PEAK: read_memory("VmHWM"), "seconds": seconds}), flush=True)


def watch_memory(thread: threading.Thread, metrics: PipelineMetrics, records: int) -> Iterator[tuple[str, float]]:
    """Yield the memory in MiB at each mark of the backlog."""
    for mark, share in MARKS.items():
        while metrics.read_count(Stage.WORKER, Outcome.CONSUMED) < share * records:
            if not thread.is_alive():
                raise SystemExit("the worker ended")
            time.sleep(_LOOK_SECONDS)
        yield mark, read_memory("VmRSS")


# The broker and the report


def measure(records: int, *, short: bool) -> Mapping[str, float]:
    """Write the backlog to a real broker, and return the measurements of a worker that works it off."""
    with KafkaBroker(for_speed=not short) as broker:
        config = make_config(broker.bootstrap)
        create_topics(broker, config)
        print(f"writing {records:,} records to {config.topics.sampled} …", flush=True)
        write_records(broker.bootstrap, config.topics.sampled, tiny_records(records))
        command = [sys.executable, __file__, "--child", broker.bootstrap, "--records", str(records)]
        worker = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    measured: Mapping[str, float] = json.loads(worker.stdout.splitlines()[-1])
    return measured


def report(measured: Mapping[str, float], records: int) -> bool:
    """Print the measurements, and return whether all are within their limits."""
    growth = 100 * (measured["at the end"] / measured["in the middle"] - 1)
    growth_limit = 100 * GROWTH_LIMIT if records >= FLAT_FROM else math.inf
    rows = [(f"RSS {mark}, MiB", measured[mark], LIMIT_MIB) for mark in (*MARKS, PEAK)]
    rows.append(("growth from the middle to the end, %", growth, growth_limit))
    table = Table("measure", "figure", "limit", "ok", title=f"a backlog of {records:,} records, one worker")
    for measure_name, figure, limit in rows:
        shown_limit = "" if math.isinf(limit) else f"{limit:.0f}"
        table.add_row(measure_name, f"{figure:.1f}", shown_limit, "yes" if figure <= limit else "NO")
    table.add_row("records/s", f"{records / measured['seconds']:,.0f}", "", "")
    Console(width=100).print(table)
    return all(figure <= limit for _, figure, limit in rows)


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--records", type=int, help=f"size of the backlog (default: {RECORDS:,}, or {SHORT_RECORDS:,})")
    parser.add_argument("--child", metavar="BOOTSTRAP", help=argparse.SUPPRESS)
    options = parser.parse_args()
    records = options.records or (SHORT_RECORDS if options.short else RECORDS)
    if options.child:
        run_worker(options.child, records)
        return 0
    skip_without("broker", why_unavailable())
    return 0 if report(measure(records, short=options.short), records) else 1


if __name__ == "__main__":
    sys.exit(main())
