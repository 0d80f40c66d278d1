"""Finds a consumer that librdkafka has left without brokers for good, so that its owner opens a new one.

A broker that has just restarted may list no brokers, not even itself. librdkafka then forgets all that it knows, and
sometimes does not return to its bootstrap servers: https://github.com/confluentinc/librdkafka/issues/5301. Such a
consumer stays silent until the end of its process. No option prevents that. Clients that read no partitions are not
affected: producers, admin clients, and consumers that only ask for offsets.
"""

import logging
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from stream.config.sections.kafka import OptionValue

log = logging.getLogger(__name__)

# A consumer that only reconnects does so within librdkafka's longest pause, which is ten seconds.
_LOOK_SECONDS = 15.0
_CALL_SECONDS = 3.0


class StrandedCheck:
    """Asks for metadata through a consumer from time to time, and through a new client if there is no answer."""

    def __init__(self, options: Mapping[str, OptionValue], topic: str) -> None:
        """`options` are those of every client; `topic` is one that the consumer reads."""
        self._options, self._topic = {**options, "log_level": 0}, topic
        self._look_at = time.monotonic() + _LOOK_SECONDS

    def is_stranded(self, consumer: Consumer) -> bool:
        """Return whether only a new client reaches the broker. Call it often; it rarely looks."""
        if time.monotonic() < self._look_at:
            return False
        try:
            return not self._reaches_broker(consumer) and self._reaches_broker(AdminClient(self._options, logger=log))
        finally:
            self._look_at = time.monotonic() + _LOOK_SECONDS

    def _reaches_broker(self, client: Consumer | AdminClient) -> bool:
        try:
            client.list_topics(self._topic, _CALL_SECONDS)
        except KafkaException:
            return False
        return True
