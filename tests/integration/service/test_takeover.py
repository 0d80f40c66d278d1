"""Two processes with one instance name: the later one continues, and the earlier one ends with the reason."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sinks.base import Message
from sinks.metrics import Stage
from stream.errors import FencedError
from stream.kafka.producers.transactional import Transactions
from tests.integration.pipeline import StageProcess, produce_all, to_create, topic_names, wait_until
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience


@pytest.mark.parametrize("traffic", ["busy", "idle"])
@pytest.mark.parametrize("stage", [Stage.SAMPLER, Stage.WORKER])
@pytest.mark.slow
def test_a_fenced_instance_ends_with_its_reason(
    real_kafka: KafkaBroker, tmp_path: Path, stage: Stage, traffic: str
) -> None:
    """A busy process notices when it publishes, an idle one through its group."""
    prefix = f"takeover-{stage}-{traffic}"
    names = topic_names(prefix)
    real_kafka.create_topics(*to_create(names), partitions=2)
    topic = names["interactions" if stage is Stage.SAMPLER else "sampled"]
    path = tmp_path / "streamjury.yaml"
    section = {"group": prefix, "instance": "one"}
    path.write_text(json.dumps({"topics": names, "sampling": {"rate": 1.0}, stage.value: section}))
    with StageProcess(stage, bootstrap=real_kafka.bootstrap, log=tmp_path / "first.log", config=path) as first:
        wait_until(lambda: first.has_logged("assigned"), seconds=40, what="the first is at work")
        with StageProcess(stage, bootstrap=real_kafka.bootstrap, log=tmp_path / "second.log", config=path) as second:

            def first_ended() -> bool:
                if traffic == "busy":
                    record = {"id": "i", "question": "Is it open?", "answer": "It is open."}
                    produce_all(real_kafka.bootstrap, topic, [{"value": json.dumps(record).encode()}] * 20)
                return first.has_ended()

            wait_until(first_ended, seconds=40, what=lambda: f"the first ends: {first.log.read_text()}")
            wait_until(lambda: second.has_logged("assigned"), seconds=40, what="the second is at work")
            assert not second.has_ended()
    text = first.log.read_text()
    assert f"Error: {stage} failed: another process took over the instance name {prefix}-one (" in text
    assert f"{stage}.instance" in text
    assert "Traceback" not in text


def test_a_producer_that_loses_its_name_while_it_produces_does_not_take_it_back(real_kafka: KafkaBroker) -> None:
    """Its client notices in the background, and refuses the next record without the reason."""
    topic = "takeover-results"
    real_kafka.create_topics(topic)
    client = {"bootstrap.servers": real_kafka.bootstrap}
    first, second = (Transactions(client, "takeover-producer", topic=topic) for _ in range(2))
    first.start()
    record = Message(topic=topic, key=b"key", value=b"value")

    def records() -> Iterator[Message]:
        yield record
        second.start()
        deadline = time.monotonic() + 15  # before the broker aborts the transaction for its age
        while time.monotonic() < deadline:
            yield record
            time.sleep(0.02)

    endless: Any = records()
    with pytest.raises(FencedError, match="another process took over the instance name takeover-producer"):
        first.publish(endless, [], lambda: None)
    assert not first.spent
    second._producer.begin_transaction()
    second._producer.produce(topic, record.value)
    second._producer.commit_transaction(30 * patience())
