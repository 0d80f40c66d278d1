"""Shared parts of the benchmarks: the command line, topics and records on a broker, and the memory of a process.

Every benchmark has two forms. The full form measures, and fails if a promise is not kept. The short form is for the
tests: with `--short` the same code runs on little data. It checks results that must be correct for any amount of data,
but no promise about speed or statistics: those need the full amount and an idle machine.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from confluent_kafka import Producer

from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.kafka.topics import plan_topics
from tests.parts.kafka import KafkaBroker


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """Build the command line of a benchmark: its docstring is the help, and all have the option `--short`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="run on little data within seconds, and check no promise about speed or statistics",
    )
    return parser


def skip_without(part: str, missing: str | None) -> None:
    """End the benchmark with success if a real part that it needs is missing."""
    if missing:
        print(f"not measured, because it needs a real {part}: {missing}")
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
    """Write records, each a key and a value, as fast as the broker accepts them."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.kbytes": 262_144})
    for key, value in records:
        while True:
            try:
                producer.produce(topic, key=key, value=value)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def read_memory(field: Literal["VmRSS", "VmHWM"]) -> float:
    """Return the current (VmRSS) or peak (VmHWM) memory of this process in MiB.

    The peak that getrusage reports includes memory of the parent from before this program started.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) / 1024
