"""A record as it comes from the client, read no further than it is asked for."""

from confluent_kafka import Message as KafkaMessage

from sinks.base import Headers
from stream.records import Record, read_record
from stream.rules import Facts


class Incoming(Facts):
    """A record that is read whole when that is asked for, and once: the client breaks on reading bad headers twice."""

    __slots__ = ("_message", "_record")

    def __init__(self, message: KafkaMessage) -> None:
        Facts.__init__(self, message.key(), message.value(), message.timestamp()[1])
        self._message = message
        self._record: Record | None = None

    @property
    def record(self) -> Record:
        if self._record is None:
            self._record = read_record(self._message)
        return self._record

    def headers(self) -> Headers:
        return self.record.headers
