"""After a broker outage the stages resume by themselves, and nothing is lost or published twice."""

import json
from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from sinks.metrics import Outcome, Stage
from stream.config.model import Config
from stream.kafka.producers import transactional
from stream.service.service import Service
from tests.integration.pipeline import JUDGING, produce_all, read_json, to_create, topic_names, wait_until
from tests.parts import kafka
from tests.parts.patience import patience


def interactions(first: int, count: int) -> list[dict[str, Any]]:
    numbers = range(first, first + count)
    values = [{"id": f"i-{number}", "question": "Is it open?", "answer": "It is open."} for number in numbers]
    return [{"value": json.dumps(value).encode()} for value in values]


@pytest.mark.slow
def test_the_stages_resume_after_a_broker_outage(own_kafka: kafka.KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records arrive before and after; the client's own call for offsets would wait forever for the old broker."""
    monkeypatch.setattr(transactional, "_HANG_SECONDS", 2.0 * patience())
    own_kafka.create_topics(*to_create(topic_names("rag")))
    config = Config.model_validate(
        {"kafka": {"bootstrap": own_kafka.bootstrap}, "sampling": {"rate": 1.0}, "http": {"port": 0}}
    )
    with Service(config, JUDGING) as service:

        def has_seen(count: int) -> bool:
            service.check()
            return service.metrics.read_count(Stage.MONITOR, Outcome.SEEN) == count

        produce_all(own_kafka.bootstrap, "rag.interactions", interactions(0, 20))
        wait_until(lambda: has_seen(20), seconds=30, what="all are judged before")
        own_kafka.stop()
        wait_until(lambda: not service.health.ready().ok, seconds=20, what="not ready")
        assert service.health.alive().ok
        own_kafka.start()
        produce_all(own_kafka.bootstrap, "rag.interactions", interactions(20, 20))
        wait_until(lambda: has_seen(40), seconds=60, what="all are judged after")
    judged_ids = [evaluation["interaction_id"] for evaluation in read_json(own_kafka.bootstrap, "rag.evaluations")]
    assert sorted(judged_ids) == sorted(f"i-{number}" for number in range(40))


@pytest.mark.slow
def test_a_commit_whose_answer_was_lost_is_not_published_again(
    real_kafka: kafka.KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third commit succeeds and its answer is lost, as when the broker dies in between."""
    commits = count(1)
    commit = transactional.Transactions._commit

    def forgetful(self: transactional.Transactions) -> None:
        commit(self)
        if next(commits) % 3 == 0:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the answer is lost"))

    monkeypatch.setattr(transactional.Transactions, "_commit", forgetful)
    topics = topic_names("doubt")
    real_kafka.create_topics(*to_create(topics), partitions=2)
    produce_all(real_kafka.bootstrap, topics["interactions"], interactions(0, 200))
    config = Config.model_validate(
        {
            "kafka": {"bootstrap": real_kafka.bootstrap},
            "sampling": {"rate": 1.0},
            "http": {"port": 0},
            "sampler": {"batch": 20},
            "topics": topics,
        }
    )
    with Service(config, [Stage.SAMPLER, Stage.WORKER]) as service:

        def evaluated_ids() -> list[str]:
            service.check()
            return [
                evaluation["interaction_id"] for evaluation in read_json(real_kafka.bootstrap, topics["evaluations"])
            ]

        wait_until(lambda: len(set(evaluated_ids())) == 200, seconds=60, what="all are judged")
        assert len(evaluated_ids()) == 200
    assert next(commits) > 10
    assert len(read_json(real_kafka.bootstrap, topics["sampled"])) == 200
