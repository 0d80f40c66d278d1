"""Measures the sampler's records per second, against a bare `consume()` loop and a bare Faust agent on real Kafka.

Records have 2 KiB, and 5 % are sampled. Every reader is a separate process on one core; the broker has all cores. The
readers take turns for some rounds, because the speed of a machine varies over time. The table shows each reader's
median round. In each round two samplers, with a core and a topic each, also run at the same time.

    make bench-sampler
"""

import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from uuid import uuid4

import faust
from confluent_kafka import Consumer
from prometheus_client import CollectorRegistry
from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser, create_topics, read_memory, skip_without, write_records
from sinks.metrics import Outcome, PipelineMetrics, SamplingMetrics, Stage
from stream.config.model import Config
from stream.sampler.stage import Sampler
from stream.service.service import relax_collector
from tests.parts.kafka import KafkaBroker, why_unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSize:
    """The number of rounds and of records; Faust reads fewer, because it is slower."""

    rounds: int
    records: int
    faust_records: int


FULL = LoadSize(rounds=5, records=400_000, faust_records=20_000)
# More records than one batch, or the clock would start after all are read.
SHORT = LoadSize(rounds=1, records=25_000, faust_records=500)
PARTITIONS = 4
RATE = 0.05
INTERACTIONS = ("rag.interactions", "rag.interactions.2")
BODY_RULES = [
    {"name": "shop", "match": {"app": ["shop"], "tags": {"release": {"regex": "^2026"}}}, "rate": RATE},
    {"name": "slow", "match": {"body": {"latency_ms": {"min": 1000}}}, "rate": 0.2},
]


Measurement = Mapping[str, float]
"""One reader in one round: its records, processor seconds, peak memory in MiB, and when it began and ended."""


def make_value(number: int) -> bytes:
    record = {
        "id": f"id-{number:010}",
        "app": ("docs", "shop")[number % 2],
        "model": "atlas-mini",
        "question": "How long may I return goods that I bought in a shop? " * 3,
        "contexts": [
            {"id": f"kb-{place}", "text": "Goods can be returned within thirty days. " * 8} for place in range(4)
        ],
        "answer": "You may return them within thirty days, with the receipt. " * 3,
        "tags": {"release": "2026-11", "channel": "web"},
        "latency_ms": number % 900,
    }
    return json.dumps(record).encode().ljust(2048)


def make_records(count: int) -> Iterator[tuple[str, bytes]]:
    values = [make_value(number) for number in range(1000)]
    for number in range(count):
        yield f"id-{number:010}", values[number % 1000]


# The readers, each in a separate process


def measure(batches: Iterator[int], records: int) -> Measurement:
    """Read this many records; the clock starts after the first batch, which does not count."""
    first = read = next(batches)
    clock = Clock()
    while read < records:
        read += next(batches)
    return clock.stop(read - first)


class Clock:
    """Times a reader from the clock's creation."""

    def __init__(self) -> None:
        self._cpu, self._began = time.process_time(), time.monotonic()

    def stop(self, records: int) -> Measurement:
        cpu, ended = time.process_time() - self._cpu, time.monotonic()
        return {"records": records, "began": self._began, "ended": ended, "cpu": cpu, "rss": read_memory("VmHWM")}


def read_bare(bootstrap: str, group: str, topic: str) -> Iterator[int]:
    """Yield the sizes of the batches that a bare consumer reads."""
    options = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    as_the_sampler = {"queued.max.messages.kbytes": 65_536, "fetch.queue.backoff.ms": 10}
    consumer = Consumer({**options, **as_the_sampler, "enable.auto.commit": False})
    consumer.subscribe([topic])
    while True:
        count = len(consumer.consume(20_000, 0.1))
        if count:
            yield count


def make_config(bootstrap: str, topic: str, group: str = "bench", **sampling: Any) -> Config:
    return Config.model_validate(
        {
            "kafka": {"bootstrap": bootstrap},
            "topics": {"interactions": topic, "partitions": PARTITIONS},
            "sampler": {"group": group, "instance": group},
            "sampling": {"rate": RATE, **sampling},
        }
    )


def run_sampler(bootstrap: str, group: str, topic: str, **sampling: Any) -> Iterator[int]:
    """Yield the sizes of the batches that a sampler reads, decides and publishes."""
    config = make_config(bootstrap, topic, group, **sampling)
    relax_collector()  # as `streamjury sampler` does
    registry = CollectorRegistry()
    metrics = PipelineMetrics(registry)
    stage = Sampler(config, metrics, SamplingMetrics(registry))
    stage.pulse.start()
    before = 0
    while True:
        stage.step()
        now = metrics.read_count(Stage.SAMPLER, Outcome.CONSUMED)
        if now > before:
            yield now - before
            before = now


def read_bare_relaxed(bootstrap: str, group: str, topic: str) -> Iterator[int]:
    """Yield the batches of a bare consumer with the garbage collector of the sampler."""
    relax_collector()
    yield from read_bare(bootstrap, group, topic)


def make_faust_app(bootstrap: str, group: str) -> faust.App:
    return faust.App(
        group,
        broker=f"kafka://{bootstrap}",
        store="memory://",
        datadir=tempfile.mkdtemp(),
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        consumer_auto_offset_reset="earliest",
        loghandlers=[],
    )


def measure_faust(bootstrap: str, group: str, topic: str, *, records: int) -> Measurement:
    """Measure a Faust agent that only counts."""
    app = make_faust_app(bootstrap, group)
    source = app.topic(topic, value_type=bytes, value_serializer="raw", key_serializer="raw")
    measured: asyncio.Queue[Measurement] = asyncio.Queue()

    @app.agent(source)  # type: ignore[untyped-decorator]
    async def count(stream: faust.Stream[bytes]) -> None:
        read = 0
        async for _value in stream:
            read += 1
            if read == 1:
                clock = Clock()
            elif read == records:
                measured.put_nowait(clock.stop(read - 1))

    async def run() -> Measurement:
        await app.start()
        measurement = await measured.get()
        # Without an awaited stop, Faust's threads keep the loop from ending.
        await asyncio.wait_for(app.stop(), 30)
        return measurement

    return asyncio.run(run())


KINDS: Mapping[str, Callable[[LoadSize, str, str, str], Measurement]] = {
    "bare consume()": lambda size, *where: measure(read_bare(*where), size.records),
    "bare, collector relaxed": lambda size, *where: measure(read_bare_relaxed(*where), size.records),
    "sampler, key only": lambda size, *where: measure(run_sampler(*where), size.records),
    "sampler, body rules": lambda size, *where: measure(run_sampler(*where, rules=BODY_RULES), size.records),
    "bare Faust agent": lambda size, *where: measure_faust(*where, records=size.faust_records),
}
BARE, _, KEY, BODY, FAUST = KINDS
PAIR = "two samplers"
# Promised of the samplers: shares of a bare loop's rate, a multiple of Faust's, and memory in MiB.
LEAST_BY_KEY, LEAST_BY_BODY, LEAST_TIMES_FAUST, MOST_RSS = 0.7, 0.3, 20, 300

PROCESSES = multiprocessing.get_context("forkserver")


def run_reader(pipe: Connection, size: LoadSize, kind: str, where: Sequence[str], core: int) -> None:
    """Measure one reader in this process, and send the measurement."""
    os.sched_setaffinity(0, {core})
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stderr.fileno())
    pipe.send(KINDS[kind](size, *where))
    os._exit(0)  # leaving the consumer group cleanly would take seconds


# The rounds


class Reader:
    """A reader in a separate process, on one core."""

    def __init__(self, kind: str, bootstrap: str, core: int, topic: str, size: LoadSize) -> None:
        self._name = f"{kind} on {topic}"
        self._pipe, theirs = PROCESSES.Pipe()
        where = (bootstrap, f"group-{uuid4().hex}", topic)
        PROCESSES.Process(target=run_reader, args=(theirs, size, kind, where, core), daemon=True).start()
        theirs.close()

    def result(self) -> Measurement:
        try:
            if self._pipe.poll(180):
                measurement: Measurement = self._pipe.recv()
                return measurement
        except EOFError:
            pass
        sys.exit(f"a reader failed: {self._name}")


def run_round(bootstrap: str, cores: Sequence[int], size: LoadSize) -> dict[str, Sequence[Measurement]]:
    """Measure every kind of reader alone, then two samplers at the same time."""
    measured: dict[str, Sequence[Measurement]] = {
        kind: [Reader(kind, bootstrap, cores[-1], INTERACTIONS[0], size).result()] for kind in KINDS
    }
    pair_cores = (cores[-1], cores[-2 % len(cores)])
    pair = [Reader(KEY, bootstrap, core, topic, size) for core, topic in zip(pair_cores, INTERACTIONS, strict=True)]
    return {**measured, PAIR: [reader.result() for reader in pair]}


def run_rounds(size: LoadSize, cores: Sequence[int]) -> dict[str, list[Sequence[Measurement]]]:
    """Measure all rounds on one broker."""
    rounds: dict[str, list[Sequence[Measurement]]] = {kind: [] for kind in (*KINDS, PAIR)}
    with KafkaBroker(for_speed=size is FULL) as broker:
        create_topics(broker, *(make_config(broker.bootstrap, topic) for topic in INTERACTIONS))
        for topic in INTERACTIONS:
            print(f"writing {size.records:,} records of 2 KiB to {topic} …", flush=True)
            write_records(broker.bootstrap, topic, make_records(size.records))
        for number in range(1, size.rounds + 1):
            print(f"round {number} of {size.rounds} …", flush=True)
            for kind, measurements in run_round(broker.bootstrap, cores, size).items():
                rounds[kind].append(measurements)
    return rounds


# The report


def rate(*readers: Measurement) -> float:
    """Return the joint records per second of readers, from the first start to the last end."""
    seconds = max(reader["ended"] for reader in readers) - min(reader["began"] for reader in readers)
    return sum(reader["records"] for reader in readers) / seconds


def median_round(rounds: Sequence[Sequence[Measurement]]) -> Sequence[Measurement]:
    return sorted(rounds, key=lambda readers: rate(*readers))[len(rounds) // 2]


def print_rates(rounds: Mapping[str, Sequence[Sequence[Measurement]]], cores: int) -> None:
    medians = {kind: median_round(rounds[kind])[0] for kind in rounds if kind != PAIR}
    columns = ("reader", "records/s", "MB/s", "CPU s/10⁶", "peak RSS MiB", "of bare")
    table = Table(*columns, title=f"2 KiB records, {RATE:.0%} sampled, real Kafka, {cores} cores in all")
    for kind, median in medians.items():
        table.add_row(
            kind,
            f"{rate(median):,.0f}",
            f"{rate(median) * 2048 / 1e6:,.0f}",
            f"{median['cpu'] / median['records'] * 1e6:.2f}",
            f"{max(reader['rss'] for (reader,) in rounds[kind]):.0f}",
            f"{rate(median) / rate(medians[BARE]):.2f}",
        )
    Console(width=100).print(table)
    pair = median_round(rounds[PAIR])
    share = sum(reader["cpu"] / (reader["ended"] - reader["began"]) for reader in pair) / len(pair)
    print(f"two samplers at once: {rate(*pair) / rate(medians[KEY]):.2f} times one, with {share:.0%} of a core each")


def report(rounds: Mapping[str, Sequence[Sequence[Measurement]]], cores: int) -> None:
    """Print the rates and the promises, and exit with an error if a promise is not met."""
    print_rates(rounds, cores)
    broken = []
    for promise, figure, is_met in check_promises(rounds):
        print(f"{'met' if is_met else 'NOT MET'}: {promise} ({figure})")
        if not is_met:
            broken.append(promise)
    if broken:
        sys.exit(f"the sampler is not what it should be: {'; '.join(broken)}")


def check_promises(rounds: Mapping[str, Sequence[Sequence[Measurement]]]) -> Iterator[tuple[str, str, bool]]:
    """Yield each promise, the measured figure, and whether the promise is met."""
    speed = {kind: rate(*median_round(rounds[kind])) for kind in (BARE, KEY, BODY, FAUST)}
    for kind, least, other in ((KEY, LEAST_BY_KEY, BARE), (BODY, LEAST_BY_BODY, BARE), (KEY, LEAST_TIMES_FAUST, FAUST)):
        times = speed[kind] / speed[other]
        yield f"{kind}: at least {least:g} times {other}", f"{times:.2f}", times >= least
    rss = max(reader["rss"] for kind in (KEY, BODY, PAIR) for readers in rounds[kind] for reader in readers)
    yield f"samplers: at most {MOST_RSS} MiB at their peak", f"{rss:.0f}", rss <= MOST_RSS


def main() -> None:
    options = argument_parser(__doc__).parse_args()
    size = SHORT if options.short else FULL
    skip_without("broker", why_unavailable())
    # Each process is a copy of one that has imported this module. Not at import: Python has one list for all contexts.
    PROCESSES.set_forkserver_preload(["benchmarks.bench_sampler"])
    cores = sorted(os.sched_getaffinity(0))
    rounds = run_rounds(size, cores)
    if options.short:
        print_rates(rounds, len(cores))
    else:
        report(rounds, len(cores))


if __name__ == "__main__":
    main()
