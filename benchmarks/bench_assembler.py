"""Measures the assembler: spans per second of one process on real Kafka, and its memory with many open traces.

Traces have three spans, as an OpenInference instrumentation writes them, on a topic with trace ids as keys. The second
measurement reads traces without root spans, which stay open.

    PYTHONPATH=. python benchmarks/bench_assembler.py
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from benchmarks.common import argument_parser, create_topics, skip_without, write_records
from benchmarks.span_data import SPANS_PER_TRACE, encode, make_trace, trace_id_of
from sinks.metrics import AssemblerMetrics, PipelineMetrics
from stream.assembler.stage import Assembler
from stream.config.model import Config
from stream.kafka import consume_produce
from stream.service.service import relax_collector
from tests.parts.kafka import KafkaBroker, why_unavailable
from tests.parts.patience import patience

SPANS_PER_SECOND = 20_000
MEMORY_MIB = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblerLoad:
    """The number of traces of each measurement."""

    traces: int
    open_traces: int


FULL = AssemblerLoad(traces=100_000, open_traces=100_000)
SHORT = AssemblerLoad(traces=1_000, open_traces=500)


def make_config(bootstrap: str, name: str) -> Config:
    return Config.model_validate(
        {
            "kafka": {"bootstrap": bootstrap},
            "sampling": {"rate": 1.0},
            "topics": {"interactions": f"{name}.interactions", "traces": f"{name}.traces", "partitions": 4},
            "input": {
                "otlp": {
                    "topics": [f"{name}.otlp"],
                    "keyed": True,
                    "group": name,
                    "quiet_seconds": 0.5,
                    "max_seconds": 3600,
                    "max_traces": 1_000_000,
                }
            },
        }
    )


def records(number: int, *, with_root: bool) -> Iterator[tuple[str, bytes]]:
    """Yield two records for each trace: the steps, and the root."""
    *steps, root = make_trace(0)
    values = [encode(steps), encode([root])] if with_root else [encode(steps)]
    for place in range(number):
        trace_id = trace_id_of(place)
        for value in values:
            yield trace_id.hex(), value.replace(root.trace_id, trace_id)


def processor_seconds() -> float:
    """Return the processor time of this process, without this thread, which only reads metrics and waits."""
    return time.process_time() - time.thread_time()


def memory_mib() -> float:
    """Return the resident memory of this process now."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - read as it is
        return int(file.read().split()[1]) * 4096 / 2**20


def measure(bootstrap: str, name: str, traces: int, is_open: bool) -> dict[str, float]:
    """Run an assembler until all traces are finished, or open."""
    relax_collector()
    registry, stop = CollectorRegistry(), threading.Event()
    config = make_config(bootstrap, name)
    stage = Assembler(config, PipelineMetrics(registry), AssemblerMetrics(registry))
    thread = threading.Thread(target=stage.run, args=(stop,), daemon=True)
    thread.start()
    # From here on it reads; the results come later, so the first of them is not the beginning of the work.
    wait_until(lambda: stage.pulse.assigned, thread)
    began, processor_began = time.monotonic(), processor_seconds()
    metric, labels = (
        ("streamjury_assembler_open_traces", {}) if is_open else ("streamjury_assembler_traces_total", ASSEMBLED)
    )
    wait_until(lambda: (registry.get_sample_value(metric, labels) or 0) >= traces, thread)
    seconds, processor = time.monotonic() - began, processor_seconds() - processor_began
    memory = memory_mib()
    stop.set()
    thread.join()
    spans = traces * (SPANS_PER_TRACE - is_open)
    return {"spans": spans, "seconds": seconds, "processor": processor, "memory": memory, "traces": traces}


def wait_until(condition: Callable[[], bool], thread: threading.Thread) -> None:
    while not condition():
        time.sleep(0.02)
        assert thread.is_alive()


ASSEMBLED = {"outcome": "assembled"}


def measure_in_process(bootstrap: str, name: str, traces: int, is_open: bool) -> dict[str, float]:
    arguments = [sys.executable, "-m", "benchmarks.bench_assembler", "--measure"]
    arguments.append(json.dumps([bootstrap, name, traces, is_open]))
    done = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def run(broker: KafkaBroker, size: AssemblerLoad) -> tuple[dict[str, float], dict[str, float]]:
    create_topics(broker, *(make_config(broker.bootstrap, name) for name in ("speed", "memory")))
    for name, traces, with_root in (("speed", size.traces, True), ("memory", size.open_traces, False)):
        write_records(broker.bootstrap, f"{name}.otlp", records(traces, with_root=with_root))
    speed = measure_in_process(broker.bootstrap, "speed", size.traces, False)
    memory = measure_in_process(broker.bootstrap, "memory", size.open_traces, True)
    return speed, memory


def main() -> None:
    parser: argparse.ArgumentParser = argument_parser(__doc__)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        # A new broker on a busy machine takes long to be ready for transactions. This process does not import
        # tests.parts.limits, and with it all stages, because it measures its own memory.
        consume_produce._STARTUP_SECONDS *= patience(at_most=5.0)
        given: list[Any] = json.loads(arguments.measure)
        print(json.dumps(measure(*given)))
        return
    skip_without("Kafka", why_unavailable())
    with KafkaBroker() as broker:
        speed, memory = run(broker, SHORT if arguments.short else FULL)
    by_clock = speed["spans"] / max(speed["seconds"], 1e-9)
    by_processor = speed["spans"] / max(speed["processor"], 1e-9)
    print("| measured | traces | result | promise |")
    print("| --- | --- | --- | --- |")
    print(f"| spans/s of processor time | {speed['traces']:,.0f} | {by_processor:,.0f} | {SPANS_PER_SECOND:,} |")
    print(f"| spans/s by the clock | {speed['traces']:,.0f} | {by_clock:,.0f} | |")
    print(f"| MiB with open traces | {memory['traces']:,.0f} | {memory['memory']:,.0f} | {MEMORY_MIB} |")
    if not arguments.short:
        assert by_processor >= SPANS_PER_SECOND, "too slow"
        assert memory["memory"] <= MEMORY_MIB, "too much memory"


if __name__ == "__main__":
    main()
