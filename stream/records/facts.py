"""A record that is parsed only as far as a decision needs: its key, headers and body."""

from collections.abc import Mapping

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME
from confluent_kafka import Message as KafkaMessage

from sinks.base import Headers
from stream.kafka.record import Record, read_record, whole_value
from stream.records.body import Body, BodyReader


class LazyRecord:
    """One record for a decision: each part is read on first use only."""

    __slots__ = ("_by_name", "_headers", "at_ms", "body_as_read", "is_broker_time", "key", "value")

    def __init__(
        self,
        key: bytes | None,
        value: bytes | None,
        at_ms: int,
        headers: Headers = (),
        *,
        is_broker_time: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.at_ms = at_ms
        self.is_broker_time = is_broker_time
        """Whether the broker set the time; the producer could set any time."""
        self._headers = headers
        self._by_name: Mapping[str, bytes | None] | None = None
        self.body_as_read: Body | None = None
        """The body once it was read; None before."""

    def headers(self) -> Headers:
        """Return all headers; called at most once, when the first header is needed."""
        return self._headers

    def header(self, name: str) -> str | None:
        """Return the text of a header, the last of repeated ones, or None if it is missing or not text."""
        if self._by_name is None:
            self._by_name = dict(self.headers())
        value = self._by_name.get(name)
        try:
            return value.decode() if value is not None else None
        except UnicodeDecodeError:
            return None

    def json_value(self) -> bytes | None:
        """Return the value as JSON; raises RecordError if it cannot be read."""
        return self.value

    def body(self, reader: BodyReader) -> Body:
        if self.body_as_read is None:
            self.body_as_read = reader.read(self.value)
        return self.body_as_read


class LazyMessage(LazyRecord):
    """A record that is converted whole at most once: the client fails when bad headers are read twice."""

    __slots__ = ("_message", "_record")

    def __init__(self, message: KafkaMessage) -> None:
        kind, at_ms = message.timestamp()
        LazyRecord.__init__(
            self, message.key(), message.value(), at_ms, is_broker_time=kind == TIMESTAMP_LOG_APPEND_TIME
        )
        self._message = message
        self._record: Record | None = None

    @property
    def record(self) -> Record:
        if self._record is None:
            self._record = read_record(self._message)
        return self._record

    def headers(self) -> Headers:
        return self.record.headers

    def json_value(self) -> bytes | None:
        return whole_value(self.record)
