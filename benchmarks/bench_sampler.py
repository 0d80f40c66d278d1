"""The sampler beside a bare `consume()` loop and a bare Faust agent, on one real Kafka broker, in one run.

Records of 2 KiB, 5 % sampled. Every reader is a process of its own on one core; the broker has the others. The rates
depend on the machine, and with few cores on how much of them the broker takes; the ratios are what counts.

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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import faust
from confluent_kafka import Consumer, Producer
from prometheus_client import CollectorRegistry
from rich.console import Console
from rich.table import Table

from sinks.metrics import Outcome, PipelineMetrics, SamplingMetrics, Stage
from stream.config import Config
from stream.sampler import Sampler
from tests.parts.kafka import KafkaBroker, why_unavailable

RECORDS = 400_000
FAUST_RECORDS = 40_000
PARTITIONS = 4
RATE = 0.05
TOPICS = ("rag.interactions", "rag.sampled", "rag.deadletter")
BODY_RULES = [
    {"name": "shop", "match": {"app": ["shop"], "tags": {"release": {"regex": "^2026"}}}, "rate": RATE},
    {"name": "slow", "match": {"body": {"latency_ms": {"min": 1000}}}, "rate": 0.2},
]


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


def fill(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.kbytes": 262_144})
    values = [value(number) for number in range(1000)]
    for number in range(RECORDS):
        while True:
            try:
                producer.produce("rag.interactions", key=f"id-{number:010}", value=values[number % 1000])
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


# What is measured, each in a process of its own


def measured(read: Iterator[int], records: int) -> Mapping[str, float]:
    """Reads from the first records on to the last; what was read before the clock started does not count."""
    first = seen = next(read)
    before, started = os.times(), time.perf_counter()
    while seen < records:
        seen += next(read)
    seconds, after = time.perf_counter() - started, os.times()
    cpu = after.user + after.system - before.user - before.system
    return {
        "records": seen - first,
        "seconds": seconds,
        "cpu": cpu,
        "rss": peak_rss(),
    }


def peak_rss() -> float:
    """In MiB, of this program alone: what getrusage tells includes the parent's share before the program began."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def bare(bootstrap: str, group: str) -> Iterator[int]:
    options = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    same = {"queued.max.messages.kbytes": 65_536, "fetch.queue.backoff.ms": 10}
    consumer = Consumer({**options, **same, "enable.auto.commit": False})
    consumer.subscribe(["rag.interactions"])
    while True:
        count = len(consumer.consume(20_000, 0.1))
        if count:
            yield count


def sampler(bootstrap: str, group: str, sampling: Mapping[str, Any]) -> Iterator[int]:
    config = Config.model_validate(
        {"kafka": {"bootstrap": bootstrap}, "sampler": {"group": group, "instance": group}, "sampling": sampling}
    )
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


def faust_agent(bootstrap: str, group: str) -> Mapping[str, float]:
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
    topic = app.topic("rag.interactions", value_type=bytes, value_serializer="raw", key_serializer="raw")
    seen, begun, enough = [0], asyncio.Event(), asyncio.Event()

    @app.agent(topic)
    async def count(stream: faust.Stream[bytes]) -> None:
        async for _value in stream:
            seen[0] += 1
            if seen[0] == 1:
                begun.set()
            elif seen[0] == FAUST_RECORDS:
                enough.set()

    async def run() -> Mapping[str, float]:
        await app.start()
        await begun.wait()
        before, started, first = os.times(), time.perf_counter(), seen[0]
        await enough.wait()
        seconds, after = time.perf_counter() - started, os.times()
        cpu = after.user + after.system - before.user - before.system
        # Without an awaited stop, Faust's threads keep the loop from ending.
        await asyncio.wait_for(app.stop(), 30)
        return {"records": seen[0] - first, "seconds": seconds, "cpu": cpu, "rss": peak_rss()}

    return asyncio.run(run())


KINDS: Mapping[str, Callable[[str, str, int], Mapping[str, float]]] = {
    "bare": lambda bootstrap, group, records: measured(bare(bootstrap, group), records),
    "key": lambda bootstrap, group, records: measured(sampler(bootstrap, group, {"rate": RATE}), records),
    "body": lambda bootstrap, group, records: measured(
        sampler(bootstrap, group, {"rate": RATE, "rules": BODY_RULES}), records
    ),
    "faust": lambda bootstrap, group, _records: faust_agent(bootstrap, group),
}


def start(kind: str, bootstrap: str, group: str, records: int, core: int) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", kind, bootstrap, group, str(records), str(core)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def result(child: subprocess.Popen[str]) -> dict[str, float]:
    output, _ = child.communicate(timeout=180)
    if child.returncode or not output:
        sys.exit(f"a reader failed: {' '.join(map(str, child.args))}")
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found


def child(kind: str, bootstrap: str, group: str, records: str, core: str) -> None:
    os.sched_setaffinity(0, {int(core)})
    print(json.dumps(KINDS[kind](bootstrap, group, int(records))), flush=True)
    os._exit(0)  # what is measured is measured; leaving the group in good order takes seconds


def main() -> None:
    missing = why_unavailable()
    if missing:
        print(f"not measured, for it needs a real broker: {missing}")
        return
    cores = sorted(os.sched_getaffinity(0))
    with KafkaBroker(for_speed=True) as broker:
        broker.create_topics(*TOPICS, partitions=PARTITIONS)
        print(f"writing {RECORDS:,} records of 2 KiB …", flush=True)
        fill(broker.bootstrap)
        found: dict[str, Mapping[str, float]] = {}
        for kind in ("bare", "key", "body", "faust"):
            found[kind] = result(start(kind, broker.bootstrap, kind, RECORDS, cores[-1]))
    report(found, len(cores))


def report(found: Mapping[str, Mapping[str, float]], cores: int) -> None:
    titles = {
        "bare": "bare consume()",
        "key": "sampler, key only",
        "body": "sampler, body rules",
        "faust": "bare Faust agent",
    }
    rates = {kind: each["records"] / each["seconds"] for kind, each in found.items()}
    columns = ("reader", "records/s", "MB/s", "CPU s per million", "CPU share", "peak RSS MiB", "of bare")
    table = Table(*columns, title=f"2 KiB records, {RATE:.0%} sampled, real Kafka, {cores} cores in all")
    for kind, each in found.items():
        table.add_row(
            titles[kind],
            f"{rates[kind]:,.0f}",
            f"{rates[kind] * 2048 / 1e6:,.0f}",
            f"{each['cpu'] / each['records'] * 1e6:.2f}",
            f"{each['cpu'] / each['seconds']:.0%}",
            f"{each['rss']:.0f}",
            f"{rates[kind] / rates['bare']:.2f}",
        )
    Console().print(table)
    print(f"sampler, key only: {rates['key'] / rates['faust']:.0f} times a bare Faust agent")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--child", nargs=5)
    given = arguments.parse_args()
    child(*given.child) if given.child else main()
