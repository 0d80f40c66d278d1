"""A worker before a backlog of a million sampled records: its memory at the start, in the middle and at the end.

The records are tiny and the judge answers at once, so that nothing but the worker's own bookkeeping is measured; the
broker is a real one, and the worker a process of its own.

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
from pathlib import Path

from confluent_kafka import Producer
from prometheus_client import CollectorRegistry
from rich.console import Console
from rich.table import Table

from judges import Evaluator
from judges.composite import MultiCriteria
from judges.panel import Panel
from judges.scripted import ScriptedJudge
from sinks.metrics import Outcome, PipelineMetrics, Stage
from stream.composition import composed
from stream.config import Config
from stream.criteria_files import chosen_criteria
from stream.service import relax_collector
from stream.worker import Worker
from tests.parts.kafka import KafkaBroker, why_unavailable

RECORDS = 1_000_000
PARTITIONS = 6
LIMIT_MIB = 500.0
GROWTH_LIMIT = 0.10
CRITERION = "rag.harmfulness"
# More than the defaults: between two transactions no more is judged than may run ahead, so that with an instant judge
# the defaults would take most of an hour. What is held in memory is more too, never less.
CONCURRENCY, RUN_AHEAD = 256, 4096

# At the start the worker has met what it keeps for good: connections, code, its first full queues.
PLACES = {
    "at the start": 0.02,
    "at a quarter": 0.25,
    "in the middle": 0.5,
    "at three quarters": 0.75,
    "at the end": 1.0,
}
# The worker remembers a fixed number of finished evaluations; with fewer records than twice that, it is still learning.
FLAT_FROM = 600_000

_LOOK_SECONDS = 0.1


def configuration(bootstrap: str) -> Config:
    return Config.model_validate(
        {
            "kafka": {"bootstrap": bootstrap},
            "topics": {"partitions": PARTITIONS},
            "criteria": {"use": [CRITERION]},
            "worker": {"instance": "bench", "concurrency": CONCURRENCY, "run_ahead": RUN_AHEAD, "excerpt_chars": 0},
            "http": {"port": 0},
        }
    )


def fill(bootstrap: str, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.kbytes": 262_144})
    for number in range(records):
        key = f"id-{number:07}"
        value = json.dumps({"id": key, "question": "Why?", "answer": "So."})
        while True:
            try:
                producer.produce(topic, key=key, value=value)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


# The worker's process


def evaluator(config: Config) -> Evaluator:
    multi: MultiCriteria = composed(chosen_criteria(config.criteria), config.composite)
    best = {name: max(each.value or 0.0 for each in found.scale.choices) for name, found in multi.criteria.items()}
    judge = ScriptedJudge(best)
    judge.asked = _Forgetful()
    return Evaluator(multi, Panel(judges=(judge,)), version="benchmark")


class _Forgetful(list):  # type: ignore[type-arg]
    """What the judge remembers of a million questions is not the worker's memory."""

    def append(self, _asked: object) -> None:
        pass


def child(bootstrap: str, records: int) -> None:
    """Works the backlog off, and prints what it saw as one line of JSON."""
    logging.basicConfig(level=logging.ERROR)
    relax_collector()  # as `streamjury worker` does
    config, metrics, stop = configuration(bootstrap), PipelineMetrics(CollectorRegistry()), threading.Event()
    worker = Worker(config, evaluator(config), metrics)
    thread = threading.Thread(target=worker.run, args=(stop,), daemon=True)
    started = time.monotonic()
    thread.start()
    seen = dict(watched(thread, metrics, records))
    seconds = time.monotonic() - started
    stop.set()
    thread.join()
    print(json.dumps({**seen, "at its peak": rss("VmHWM"), "seconds": seconds}), flush=True)


def watched(thread: threading.Thread, metrics: PipelineMetrics, records: int) -> Iterator[tuple[str, float]]:
    """The memory along the way."""
    for place, share in PLACES.items():
        while metrics.counted(Stage.WORKER, Outcome.CONSUMED) < share * records:
            if not thread.is_alive():
                raise SystemExit("the worker ended")
            time.sleep(_LOOK_SECONDS)
        yield place, rss("VmRSS")


def rss(which: str) -> float:
    """In MiB, of this program alone."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{which}:")[2].split()[0]) / 1024


# What is told of it


def report(found: Mapping[str, float], records: int) -> bool:
    growth = 100 * (found["at the end"] / found["in the middle"] - 1)
    flat = 100 * GROWTH_LIMIT if records >= FLAT_FROM else math.inf
    rows = [(f"RSS {place}, MiB", found[place], LIMIT_MIB) for place in (*PLACES, "at its peak")]
    rows.append(("growth from the middle to the end, %", growth, flat))
    table = Table("what", "figure", "limit", "ok", title=f"a backlog of {records:,} records, one worker")
    for what, figure, limit in rows:
        table.add_row(
            what, f"{figure:.1f}", "" if math.isinf(limit) else f"{limit:.0f}", "yes" if figure <= limit else "NO"
        )
    table.add_row("records/s", f"{records / found['seconds']:,.0f}", "", "")
    Console(width=100).print(table)
    return all(figure <= limit for _, figure, limit in rows)


def main(records: int) -> int:
    missing = why_unavailable()
    if missing:
        print(f"not measured, for it needs a real broker: {missing}")
        return 0
    with KafkaBroker(for_speed=True) as broker:
        topics = configuration(broker.bootstrap)
        names = topics.topics
        broker.create_topics(
            names.sampled,
            names.evaluations,
            names.critical,
            names.deadletter,
            names.overflow,
            *topics.retry_topics,
            partitions=PARTITIONS,
        )
        print(f"writing {records:,} records to {names.sampled} …", flush=True)
        fill(broker.bootstrap, names.sampled, records)
        command = [sys.executable, __file__, "--child", broker.bootstrap, "--records", str(records)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return 0 if report(json.loads(done.stdout.splitlines()[-1]), records) else 1


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--records", type=int, default=RECORDS)
    arguments.add_argument("--child", metavar="BOOTSTRAP", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.child:
        child(given.child, given.records)
    else:
        sys.exit(main(given.records))
