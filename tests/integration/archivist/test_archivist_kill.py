"""An archivist that is killed again and again stores every evaluation once; only a real broker shows it."""

import json
import random
import time
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer
from sqlalchemy import distinct, func, select

from benchmarks.archive_data import make_answers
from sinks.archive.database import Database
from sinks.archive.tables import app_minutes, buckets, evaluations, positions, records, scores
from tests.integration.archivist.forking import run_archivist
from tests.integration.forked import fork_stage
from tests.integration.pipeline import wait_until
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience

EVALUATIONS, KILLS = 50_000, 20
PARTITIONS = 4
# Every so many, one is published again.
REPEATED = 10


class Feed:
    """Publishes small evaluations with ids of their own, and some of them twice."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self._topic = topic
        (answer,) = make_answers(1, judges=["local"])
        document = json.loads(answer.evaluation)
        document["dimensions"] = {"clarity": document["dimensions"]["clarity"]}
        document["sampling"] = {"probability": 0.5, "rule": "default", "lane": "main"}
        self._template = json.dumps(document).replace(answer.evaluation_id, "{id}")
        self._published = 0

    def publish(self, number: int) -> None:
        for place in range(self._published, self._published + number):
            for name in (place, place - 7) if place % REPEATED == 9 else (place,):
                key = f"evaluation-{name:06d}"
                self._producer.produce(self._topic, self._template.replace("{id}", key), key)
            if place % 500 == 0:
                self._producer.poll(0)
        self._published += number
        assert self._producer.flush(60 * patience()) == 0


def read_offsets(database: Database) -> int:
    with database.read() as connection:
        return int(connection.scalar(select(func.sum(positions.c.next_offset))) or 0)


@pytest.mark.slow
def test_every_evaluation_has_one_row_over_twenty_kills(
    real_kafka: KafkaBroker, archive_url: str, tmp_path: Path
) -> None:
    """Killed while it writes, each time with more to write; in the end rows and sums are those of one pass."""
    kind = archive_url.partition(":")[0]
    topics = {name: f"archive.kill.{kind}.{name}" for name in ("evaluations", "sampled", "alerts", "labels")}
    real_kafka.create_topics(*topics.values(), partitions=PARTITIONS)
    archive = {"url": archive_url, "group": f"archive-kill-{kind}", "instance": "one", "keep_days": None}
    path = tmp_path / "streamjury.yaml"
    path.write_text(
        yaml.safe_dump({"kafka": {"bootstrap": real_kafka.bootstrap}, "topics": topics, "archive": archive})
    )
    feed, lots = Feed(real_kafka.bootstrap, topics["evaluations"]), random.Random(3)
    stopped_at: list[int] = []
    with (
        Database(archive_url) as database,
        fork_stage(run_archivist, path, tmp_path / "archivist.log") as archivist,
    ):
        database.upgrade()
        for _kill in range(KILLS):
            feed.publish(EVALUATIONS // KILLS)
            before = read_offsets(database)
            archivist.start()
            wait_until(lambda: read_offsets(database) > before, seconds=30, what="it writes")  # noqa: B023 - at once
            time.sleep(lots.uniform(0.0, 0.3))
            archivist.kill()
            stopped_at.append(read_offsets(database))
        archivist.start()
        published = EVALUATIONS + EVALUATIONS // REPEATED
        wait_until(lambda: read_offsets(database) == published, seconds=60, what="it has written everything")
        with database.read() as connection:
            counts = connection.execute(select(func.count(), func.count(distinct(evaluations.c.id)))).one()
            assert tuple(counts) == (EVALUATIONS, EVALUATIONS)
            for table in (records, scores):
                assert connection.scalar(select(func.count()).select_from(table)) == EVALUATIONS
            assert connection.scalar(select(func.sum(app_minutes.c.n))) == EVALUATIONS
            sums = select(func.sum(buckets.c.n), func.sum(buckets.c.w)).where(buckets.c.series == "clarity")
            assert tuple(connection.execute(sums).one()) == (EVALUATIONS, 2.0 * EVALUATIONS)
    unfinished = sum(stopped < published * (place + 1) // KILLS for place, stopped in enumerate(stopped_at))
    print(f"{kind}: {EVALUATIONS} evaluations, {KILLS} kills, {unfinished} of them with records left to write")
    assert unfinished >= KILLS // 4
