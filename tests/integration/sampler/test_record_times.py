"""Caps on a real broker, where producers choose record times unless the topic says otherwise."""

import json
import time

import pytest

from sinks.metrics import Outcome, Stage
from stream.config.model import Config
from stream.records.facts import LazyMessage
from stream.service.service import Service
from tests.integration.pipeline import produce_all, read_all, to_create, topic_names, wait_until
from tests.parts.kafka import KafkaBroker

RECORDS = 200
MINUTE_MS = 60_000


@pytest.mark.parametrize(("timestamps", "most"), [("CreateTime", 13), ("LogAppendTime", 2)])
def test_records_with_timestamps_a_minute_apart_do_not_escape_a_cap(
    real_kafka: KafkaBroker, timestamps: str, most: int
) -> None:
    """Producer times count for up to ten minutes back, broker times always."""
    topics = topic_names(f"times-{timestamps}")
    first, *others = to_create(topics)
    assert first == topics["interactions"]
    real_kafka.create_topics(first, config={"message.timestamp.type": timestamps})
    real_kafka.create_topics(*others)
    now, body = int(time.time() * 1000), {"question": "q", "answer": "a"}
    produce_all(
        real_kafka.bootstrap,
        first,
        (
            {"key": f"{index}", "value": json.dumps({"id": f"{index}", **body}), "timestamp": now - index * MINUTE_MS}
            for index in range(RECORDS)
        ),
    )
    config = Config.model_validate(
        {
            "kafka": {"bootstrap": real_kafka.bootstrap},
            "topics": topics,
            "sampler": {"group": f"times-{timestamps}"},
            "sampling": {"rate": 1.0, "max_per_minute": 1},
            "http": {"port": 0},
        }
    )
    with Service(config, [Stage.SAMPLER]) as service:
        count = service.metrics.read_count
        wait_until(lambda: count(Stage.SAMPLER, Outcome.CONSUMED) == RECORDS, seconds=40, what="all records")
        assert 1 <= count(Stage.SAMPLER, Outcome.SAMPLED) <= most
    broker_times = {LazyMessage(message).is_broker_time for message in read_all(real_kafka.bootstrap, first)}
    assert broker_times == {timestamps == "LogAppendTime"}
