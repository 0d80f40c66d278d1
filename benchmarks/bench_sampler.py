"""The sampler beside a bare `consume()` loop and a bare Faust agent, on one real Kafka broker, in one run.

Records of 2 KiB, 5 % sampled. Every reader is a process of its own on one core, and the broker is on all. The readers
take turns for some rounds, for machines have faster and slower minutes; shown is each reader's middle round, and what
it is of the others'. In each round two samplers, a core and a topic each, also run at once.

    make bench-sampler
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import faust
from confluent_kafka import Consumer, Producer
from prometheus_client import CollectorRegistry
from rich.console import Console
from rich.table import Table

from sinks.metrics import Outcome, PipelineMetrics, SamplingMetrics, Stage
from stream.config import Config
from stream.sampler import Sampler
from stream.service import relax_collector
from tests.parts.kafka import KafkaBroker, why_unavailable

ROUNDS = 5
RECORDS = 400_000
FAUST_RECORDS = 20_000
PARTITIONS = 4
RATE = 0.05
INTERACTIONS = ("rag.interactions", "rag.interactions.2")
OUTPUT = ("rag.sampled", "rag.deadletter")
BODY_RULES = [
    {"name": "shop", "match": {"app": ["shop"], "tags": {"release": {"regex": "^2026"}}}, "rate": RATE},
    {"name": "slow", "match": {"body": {"latency_ms": {"min": 1000}}}, "rate": 0.2},
]


Found = Mapping[str, float]
"""What was measured of one reader."""


def value(number: int) -> bytes:
    record = {
        "id": f"id-{number:010}",
        "app": ("docs", "shop")[number % 2],
        "model": "atlas-mini",
        "question": "How long may I return goods that I bought in a shop? " * 3,
        "contexts": [{"id": f"kb-{at}", "text": "Goods can be returned within thirty days. " * 8} for at in range(4)],
        "answer": "You may return them within thirty days, with the receipt. " * 3,
        "tags": {"release": "2026-11", "channel": "web"},
        "latency_ms": number % 900,
    }
    return json.dumps(record).encode().ljust(2048)


def fill(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.kbytes": 262_144})
    values = [value(number) for number in range(1000)]
    for number in range(RECORDS):
        while True:
            try:
                producer.produce(topic, key=f"id-{number:010}", value=values[number % 1000])
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


# What is measured, each in a process of its own


def measured(read: Iterator[int], records: int) -> Found:
    """Reads from the first records on to the last; what was read before the clock started does not count."""
    first = seen = next(read)
    clock = Clock()
    while seen < records:
        seen += next(read)
    return clock.stopped(seen - first)


class Clock:
    """Times a reader from when it is made."""

    def __init__(self) -> None:
        self._cpu, self._began = time.process_time(), time.monotonic()

    def stopped(self, records: int) -> Found:
        cpu, ended = time.process_time() - self._cpu, time.monotonic()
        return {"records": records, "began": self._began, "ended": ended, "cpu": cpu, "rss": peak_rss()}


def peak_rss() -> float:
    """In MiB, of this program alone: what getrusage tells includes the parent's share before the program began."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def bare(bootstrap: str, group: str, topic: str) -> Iterator[int]:
    options = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    same = {"queued.max.messages.kbytes": 65_536, "fetch.queue.backoff.ms": 10}
    consumer = Consumer({**options, **same, "enable.auto.commit": False})
    consumer.subscribe([topic])
    while True:
        count = len(consumer.consume(20_000, 0.1))
        if count:
            yield count


def sampler(bootstrap: str, group: str, topic: str, **sampling: Any) -> Iterator[int]:
    config = Config.model_validate(
        {
            "kafka": {"bootstrap": bootstrap},
            "topics": {"interactions": topic},
            "sampler": {"group": group, "instance": group},
            "sampling": {"rate": RATE, **sampling},
        }
    )
    relax_collector()  # as `streamjury sampler` does
    registry = CollectorRegistry()
    metrics = PipelineMetrics(registry)
    stage = Sampler(config, metrics, SamplingMetrics(registry))
    stage.pulse.start()
    done = 0
    while True:
        stage.step()
        now = metrics.counted(Stage.SAMPLER, Outcome.CONSUMED)
        if now > done:
            yield now - done
            done = now


def faust_agent(bootstrap: str, group: str, topic: str) -> Found:
    folder = tempfile.mkdtemp()
    app = faust.App(
        group,
        broker=f"kafka://{bootstrap}",
        store="memory://",
        datadir=folder,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        consumer_auto_offset_reset="earliest",
        loghandlers=[],
    )
    source = app.topic(topic, value_type=bytes, value_serializer="raw", key_serializer="raw")
    seen, begun, enough = [0], asyncio.Event(), asyncio.Event()

    @app.agent(source)
    async def count(stream: faust.Stream[bytes]) -> None:
        async for _value in stream:
            seen[0] += 1
            if seen[0] == 1:
                begun.set()
            elif seen[0] == FAUST_RECORDS:
                enough.set()

    async def run() -> Found:
        await app.start()
        await begun.wait()
        clock, first = Clock(), seen[0]
        await enough.wait()
        found = clock.stopped(seen[0] - first)
        # Without an awaited stop, Faust's threads keep the loop from ending.
        await asyncio.wait_for(app.stop(), 30)
        return found

    return asyncio.run(run())


def bare_relaxed(bootstrap: str, group: str, topic: str) -> Iterator[int]:
    relax_collector()
    yield from bare(bootstrap, group, topic)


KINDS: Mapping[str, Callable[[str, str, str], Found]] = {
    "bare consume()": lambda *where: measured(bare(*where), RECORDS),
    "bare, collector relaxed": lambda *where: measured(bare_relaxed(*where), RECORDS),
    "sampler, key only": lambda *where: measured(sampler(*where), RECORDS),
    "sampler, body rules": lambda *where: measured(sampler(*where, rules=BODY_RULES), RECORDS),
    "bare Faust agent": faust_agent,
}
BARE, _, KEY, BODY, FAUST = KINDS
PAIR = "two samplers"
# Promised of the samplers, as parts of what a bare loop reads, times what Faust reads, and memory in MiB.
LEAST_BY_KEY, LEAST_BY_BODY, LEAST_TIMES_FAUST, MOST_RSS = 0.7, 0.3, 20, 300


def start(kind: str, bootstrap: str, core: int, topic: str = INTERACTIONS[0]) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", kind, bootstrap, f"group-{uuid4().hex}", topic, str(core)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def result(child: subprocess.Popen[str]) -> Found:
    output, _ = child.communicate(timeout=180)
    if child.returncode or not output:
        sys.exit(f"a reader failed: {' '.join(map(str, child.args))}")
    found: Found = json.loads(output.splitlines()[-1])
    return found


def child(kind: str, bootstrap: str, group: str, topic: str, core: str) -> None:
    os.sched_setaffinity(0, {int(core)})
    print(json.dumps(KINDS[kind](bootstrap, group, topic)), flush=True)
    os._exit(0)  # what is measured is measured; leaving the group in good order takes seconds


def main() -> None:
    missing = why_unavailable()
    if missing:
        print(f"not measured, for it needs a real broker: {missing}")
        return
    cores = sorted(os.sched_getaffinity(0))
    with KafkaBroker(for_speed=True) as broker:
        broker.create_topics(*INTERACTIONS, *OUTPUT, partitions=PARTITIONS)
        for topic in INTERACTIONS:
            print(f"writing {RECORDS:,} records of 2 KiB to {topic} …", flush=True)
            fill(broker.bootstrap, topic)
        rounds: dict[str, list[Sequence[Found]]] = {kind: [] for kind in (*KINDS, PAIR)}
        for number in range(ROUNDS):
            print(f"round {number + 1} of {ROUNDS} …", flush=True)
            for kind in KINDS:
                rounds[kind].append([result(start(kind, broker.bootstrap, cores[-1]))])
            pair = [start(KEY, broker.bootstrap, cores[-at % len(cores)], INTERACTIONS[at - 1]) for at in (1, 2)]
            rounds[PAIR].append([result(child) for child in pair])
    report(rounds, len(cores))


# What is told of it


def rate(*found: Found) -> float:
    """Records a second, of readers together: from when the first began to when the last ended."""
    seconds = max(each["ended"] for each in found) - min(each["began"] for each in found)
    return sum(each["records"] for each in found) / seconds


def middle(rounds: Sequence[Sequence[Found]]) -> Sequence[Found]:
    return sorted(rounds, key=lambda found: rate(*found))[len(rounds) // 2]


def report(rounds: Mapping[str, Sequence[Sequence[Found]]], cores: int) -> None:
    shown = {kind: middle(found)[0] for kind, found in rounds.items() if kind != PAIR}
    columns = ("reader", "records/s", "MB/s", "CPU s/10⁶", "peak RSS MiB", "of bare")
    table = Table(*columns, title=f"2 KiB records, {RATE:.0%} sampled, real Kafka, {cores} cores in all")
    for kind, each in shown.items():
        table.add_row(
            kind,
            f"{rate(each):,.0f}",
            f"{rate(each) * 2048 / 1e6:,.0f}",
            f"{each['cpu'] / each['records'] * 1e6:.2f}",
            f"{max(found['rss'] for (found,) in rounds[kind]):.0f}",
            f"{rate(each) / rate(shown[BARE]):.2f}",
        )
    Console(width=100).print(table)
    pair = middle(rounds[PAIR])
    share = sum(each["cpu"] / (each["ended"] - each["began"]) for each in pair) / len(pair)
    print(f"two samplers at once: {rate(*pair) / rate(shown[KEY]):.2f} times one, with {share:.0%} of a core each")
    broken = []
    for promise, found, kept in promises(rounds):
        print(f"{'met' if kept else 'NOT MET'}: {promise} ({found})")
        if not kept:
            broken.append(promise)
    if broken:
        sys.exit(f"the sampler is not what it should be: {'; '.join(broken)}")


def promises(rounds: Mapping[str, Sequence[Sequence[Found]]]) -> Iterator[tuple[str, str, bool]]:
    """What is promised, what was found, and whether that is as good."""
    speed = {kind: rate(*middle(rounds[kind])) for kind in (BARE, KEY, BODY, FAUST)}
    for kind, least, other in ((KEY, LEAST_BY_KEY, BARE), (BODY, LEAST_BY_BODY, BARE), (KEY, LEAST_TIMES_FAUST, FAUST)):
        times = speed[kind] / speed[other]
        yield f"{kind}: at least {least:g} times {other}", f"{times:.2f}", times >= least
    rss = max(found["rss"] for kind in (KEY, BODY, PAIR) for each in rounds[kind] for found in each)
    yield f"samplers: at most {MOST_RSS} MiB at their peak", f"{rss:.0f}", rss <= MOST_RSS


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--child", nargs=5)
    given = arguments.parse_args()
    child(*given.child) if given.child else main()
