"""The record sender's look at a topic, before the monitor starts."""

from threading import Event

import pytest

from stream.config.model import Config
from stream.errors import StageError
from stream.monitor import record_sender
from stream.monitor.record_sender import RecordSender


def test_a_broker_that_does_not_answer_is_not_a_missing_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_sender, "_TOPIC_SECONDS", 0.0)
    monkeypatch.setattr(record_sender, "_CALL_SECONDS", 0.1)
    sender = RecordSender(Config.model_validate({"kafka": {"bootstrap": "127.0.0.1:1"}}))
    with pytest.raises(StageError, match=r"^cannot use Kafka at 127\.0\.0\.1:1 \(.*\); is it running\?$"):
        sender.count_partitions("rag.scores", Event())
