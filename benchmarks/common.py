"""Shared parts of the benchmarks: the command line, topics and records on a broker, and the baselines to compare with.

Every benchmark has two forms. The full form measures, and fails when a promise does not hold. The short form (`--short`)
runs the same code on little data, for the tests. It checks results that must be right for any amount of data, but no
promise about speed, memory or statistics: those need the full amount and an idle machine.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from confluent_kafka import Producer

from judges import Submission
from judges.evaluation import Sampling
from judges.models.spending import Purse
from stream.assembly import build_evaluator
from stream.commands.topics import plan_topics
from stream.config import Config
from stream.embedded import EmbeddedBroker
from stream.offsets import Partition
from stream.reading import InteractionReader
from stream.spending import Treasury
from stream.spending.limits import Budget, Budgets
from stream.traffic import generate, load_corpus, plan
from tests.parts.kafka import KafkaBroker

DEADLINE_SECONDS = 45.0
WARM_UP_RECORDS = 100


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """Build the command line of a benchmark: its docstring is the help, and `--short` is the option all have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="run on little data within seconds, and check no promise about speed, memory or statistics",
    )
    return parser


def skip_without(part: str, missing: str | None) -> None:
    """End the benchmark with success when a real part that it needs is missing."""
    if missing:
        print(f"not measured, for it needs a real {part}: {missing}")
        sys.exit()


def create_topics(broker: EmbeddedBroker | KafkaBroker, *configs: Config) -> None:
    """Create all topics that the configurations plan, as `streamjury topics create` would."""
    plans = {topic.name: topic for config in configs for topic in plan_topics(config)}
    if isinstance(broker, EmbeddedBroker):
        broker.make_topics(plans)
        return
    for topic in plans.values():
        broker.create_topics(topic.name, partitions=topic.partitions, config=topic.settings)


def write_records(bootstrap: str, topic: str, records: Iterable[tuple[str, bytes]]) -> None:
    """Write records, each a key and a value, as fast as the broker takes them."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.kbytes": 262_144})
    for key, value in records:
        while True:
            try:
                producer.produce(topic, key=key, value=value)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def generate_values(count: int) -> list[bytes]:
    """Generate interactions of a healthy service, as JSON."""
    traffic = generate(load_corpus(), plan("healthy", seconds=60), seed=1)
    now = datetime.now(UTC)
    return [traffic.record(number / 1_000, now).value for number in range(count)]


def measure_evaluator(values: Sequence[bytes]) -> float:
    """Return the records a second that the evaluator alone judges in one process, from JSON to JSON in memory."""
    config = Config()
    evaluator, reader = build_evaluator(config), InteractionReader(config.input)

    async def judge(records: Sequence[bytes]) -> None:
        for value in records:
            submission = Submission(interaction=reader.read(value).interaction, sampling=Sampling())
            evaluation = await evaluator.evaluate(submission, deadline=DEADLINE_SECONDS, on_unsafe=lambda _notice: None)
            evaluation.model_dump_json()

    async def measure() -> float:
        await judge(values[:WARM_UP_RECORDS])
        started = time.perf_counter()
        await judge(values)
        return len(values) / (time.perf_counter() - started)

    return asyncio.run(measure())


@asynccontextmanager
async def open_purse(commit_seconds: float) -> AsyncIterator[Purse]:
    """Open a worker's budget that never runs out, and commit it as often as a worker would."""
    everyone = Budget(per_hour_usd=1e6, per_day_usd=1e7)
    partition = Partition("sampled", 0)
    treasury = Treasury(Budgets(everyone=everyone, apps={}, safety_share=0.2), topic=partition.topic)
    treasury.assigned([partition])
    treasury.opened(partition, 0, "", partitions=1)

    async def commit() -> None:
        while True:
            treasury.committed(treasury.prepare({partition: 0}, lambda _: 0))
            await asyncio.sleep(commit_seconds)

    committing = asyncio.create_task(commit())
    try:
        purse = treasury.purse(partition, None, "main")
        assert purse is not None
        yield purse
    finally:
        committing.cancel()


def read_memory(field: Literal["VmRSS", "VmHWM"]) -> float:
    """Return the current (VmRSS) or peak (VmHWM) memory of this process in MiB.

    The peak that getrusage reports includes memory of the parent before this program was started.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) / 1024
