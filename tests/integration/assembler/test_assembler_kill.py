"""An assembler that is killed again and again writes every interaction once; only a real broker shows it."""

import random
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer

from benchmarks.span_data import MadeSpan, encode, make_trace, trace_id_of
from tests.integration.assembler.forking import run_assembler
from tests.integration.forked import fork_stage
from tests.integration.pipeline import read_all, read_json, wait_until
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience

TRACES, KILLS = 20_000, 20
PARTITIONS = 4
SPANS_PER_RECORD = 50
# The root span of every so many comes later, so that the committed offset stays behind finished traces.
LONG = 400
# Traces side by side: their spans are shuffled over the records.
WINDOW = 200


class SpanFeed:
    """Writes the spans of traces, shuffled over records without keys."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self._topic, self._lots = topic, random.Random(11)
        self._published = 0
        self._later: list[MadeSpan] = []

    def publish(self, number: int) -> None:
        later, self._later = self._later, []
        for begin in range(self._published, self._published + number, WINDOW):
            spans = [span for place in range(begin, begin + WINDOW) for span in make_trace(place, passages=["Goods."])]
            roots = [span for span in spans if not span.parent_id and int.from_bytes(span.trace_id, "big") % LONG == 0]
            self._later += roots
            spans = [span for span in spans if span not in roots] if roots else spans
            self._lots.shuffle(spans)
            self._write(spans)
        self._write(later)
        self._published += number
        assert self._producer.flush(60 * patience()) == 0

    def finish(self) -> None:
        self._write(self._later)
        assert self._producer.flush(60 * patience()) == 0

    def _write(self, spans: list[MadeSpan]) -> None:
        for place in range(0, len(spans), SPANS_PER_RECORD):
            self._producer.produce(self._topic, encode(spans[place : place + SPANS_PER_RECORD]))
            self._producer.poll(0)


@pytest.mark.slow
def test_every_trace_becomes_one_interaction_over_twenty_kills(real_kafka: KafkaBroker, tmp_path: Path) -> None:
    """Killed while it finishes traces, each time with more to read; in the end there is one interaction for each."""
    topics = {name: f"assembler.kill.{name}" for name in ("interactions", "spans", "traces", "deadletter")}
    source = "assembler.kill.otlp"
    real_kafka.create_topics(*topics.values(), source, partitions=PARTITIONS)
    otlp = {"topics": [source], "group": "assembler-kill", "instance": "one", "quiet_seconds": 4}
    path = tmp_path / "streamjury.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "kafka": {"bootstrap": real_kafka.bootstrap},
                "topics": topics,
                "sampling": {"rate": 1.0},
                "input": {"otlp": otlp},
            }
        )
    )
    feed, lots = SpanFeed(real_kafka.bootstrap, source), random.Random(3)

    def finished() -> int:
        return len(read_all(real_kafka.bootstrap, topics["traces"], wait=False))

    left: list[int] = []
    with fork_stage(run_assembler, path, tmp_path / "assembler.log") as assembler:
        for kill in range(KILLS):
            feed.publish(TRACES // KILLS)
            before = finished()
            assembler.start()
            wait_until(lambda: finished() > before, seconds=60, what="it finishes traces")  # noqa: B023 - at once
            time.sleep(lots.uniform(0.0, 0.4))
            assembler.kill()
            left.append(TRACES // KILLS * (kill + 1) - finished())
        feed.finish()
        assembler.start()
        wait_until(lambda: finished() >= TRACES, seconds=90, what=lambda: f"all traces are finished ({finished()})")
        time.sleep(1)
    ids = Counter(message.key() for message in read_all(real_kafka.bootstrap, topics["interactions"]))
    wanted = {trace_id_of(number).hex().encode() for number in range(TRACES)}
    lost, twice = wanted - ids.keys(), [name for name, number in ids.items() if number > 1]
    with_open_traces = sum(map(bool, left))
    print(f"{TRACES} traces, {KILLS} kills, {with_open_traces} of them with traces left to finish")
    assert (len(lost), len(twice), len(ids)) == (0, 0, TRACES)
    assert {record["answer"] for record in read_json(real_kafka.bootstrap, topics["interactions"])} == {
        "You have 30 days from delivery."
    }
    assert finished() == TRACES
    assert read_all(real_kafka.bootstrap, topics["deadletter"]) == []
    assert with_open_traces >= KILLS // 2
