"""A sampler that is killed repeatedly forwards every chosen record exactly once; only a real broker can show it."""

import json
import random
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer

from stream.records.decision import Cohort
from tests.integration.pipeline import StageProcess, read_all, wait_until
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience

RECORDS, SECONDS = 200_000, 70.0
KILLS = 20
RATE = 0.05
NAMES = ("one", "other")
# The broker is shared with other tests.
TOPICS = {name: f"kill.{name}" for name in ("interactions", "sampled", "deadletter")}


class Feed:
    """Writes all records at a steady rate, so that every kill finds the sampler busy."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.ids = [f"id-{number:06d}" for number in range(RECORDS)]
        self._thread.start()

    def _run(self) -> None:
        started, body = time.monotonic(), {"question": "Why?", "answer": "So."}
        for number, record_id in enumerate(self.ids):
            self._producer.produce(TOPICS["interactions"], key=record_id, value=json.dumps({"id": record_id, **body}))
            if number % 200 == 0:
                self._producer.poll(0)
                time.sleep(max(0.0, started + SECONDS * number / RECORDS - time.monotonic()))
        assert self._producer.flush(30 * patience()) == 0

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()


def sampler(broker: KafkaBroker, folder: Path, name: str) -> StageProcess:
    config = folder / f"{name}.yaml"
    stage = {"group": "kill-sampler", "instance": name, "batch": 2000}
    config.write_text(yaml.safe_dump({"topics": TOPICS, "sampling": {"rate": RATE}, "sampler": stage}))
    return StageProcess("sampler", bootstrap=broker.bootstrap, log=folder / f"{name}.log", config=config)


def count_forwarded(broker: KafkaBroker) -> Counter[str]:
    """Count the ids on the work queue, as a reader of committed records sees them."""
    return Counter((message.key() or b"").decode() for message in read_all(broker.bootstrap, TOPICS["sampled"]))


@pytest.mark.slow
def test_every_chosen_record_is_forwarded_exactly_once_over_twenty_kills(
    real_kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Two samplers with different names; one of them is killed and restarted, twenty times."""
    real_kafka.create_topics(*TOPICS.values(), partitions=4)
    lots = random.Random(4)
    running = {name: sampler(real_kafka, tmp_path, name).__enter__() for name in NAMES}
    kills = 0
    try:
        for name in NAMES:
            wait_until(partial(running[name].has_logged, "assigned"), seconds=30, what=f"sampler {name} joins")
        feed = Feed(real_kafka.bootstrap)
        while kills < KILLS:
            assert feed.running, f"the feed was over after {kills} kills"
            name = lots.choice(NAMES)
            running[name].kill()
            kills += 1
            running[name] = sampler(real_kafka, tmp_path, name).__enter__()
            time.sleep(lots.uniform(0.5, 3.5))
        feed.join()
        draw = Cohort("streamjury").draw
        chosen = {record_id for record_id in feed.ids if draw(record_id) < RATE}
        wait_until(
            lambda: set(count_forwarded(real_kafka)) >= chosen, seconds=60, what="all chosen records are forwarded"
        )
        counts = count_forwarded(real_kafka)
    finally:
        for process in running.values():
            process.__exit__()
    print(f"{RECORDS} records, {kills} kills: {len(chosen)} chosen, {sum(counts.values())} forwarded")
    assert counts == Counter(chosen)
