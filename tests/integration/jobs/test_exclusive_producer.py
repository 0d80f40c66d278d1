"""A record that no broker accepts does not end the exclusive producer, and nothing of its transaction is published."""

import pytest

from sinks.base import Message
from stream.config.sections.kafka import KafkaConfig
from stream.kafka.producers import exclusive
from stream.kafka.producers.exclusive import ExclusiveProducer
from stream.kafka.producers.oversize import MAX_MESSAGE_BYTES, RefusedError
from tests.integration.pipeline import read_all, topic_names
from tests.parts.kafka import KafkaBroker


def test_a_record_that_the_client_refuses_aborts_its_transaction_only(
    real_kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusive, "MAX_MESSAGE_BYTES", 2000)
    topic = topic_names("exclusive")["evaluations"]
    real_kafka.create_topics(topic)
    small, large = (Message(topic=topic, key=None, value=value) for value in (b"small", b"x" * 5000))
    producer = ExclusiveProducer(KafkaConfig(bootstrap=real_kafka.bootstrap), "exclusive", work="test", done="sent")
    try:
        with pytest.raises(RefusedError, match="5000 bytes"):
            producer.commit([small, large])
        assert not read_all(real_kafka.bootstrap, topic)
        producer.commit([small])
    finally:
        producer.close()
    assert [message.value() for message in read_all(real_kafka.bootstrap, topic)] == [b"small"]


def test_the_largest_record_fits_into_a_request() -> None:
    """By default, brokers accept requests of 100 MiB."""
    assert MAX_MESSAGE_BYTES < 100 * 1024 * 1024
