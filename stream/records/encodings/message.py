"""A record of the input topic, decoded on first use."""

from collections.abc import Callable

from confluent_kafka import Message as KafkaMessage

from stream.kafka.record import whole_value
from stream.records.body import Body, BodyReader
from stream.records.encodings.decoder import Decoder
from stream.records.facts import LazyMessage


class EncodedMessage(LazyMessage):
    """A record that is decoded at most once, and only if its value is needed."""

    __slots__ = ("_decoder", "_json")

    def __init__(self, message: KafkaMessage, decoder: Decoder) -> None:
        LazyMessage.__init__(self, message)
        self._decoder = decoder
        self._json: bytes | None = None

    def json_value(self) -> bytes:
        if self._json is None:
            self._json = self._decoder.decode(whole_value(self.record), self.record.headers)
        return self._json

    def body(self, reader: BodyReader) -> Body:
        if self.body_as_read is None:
            self.body_as_read = reader.read(self.json_value())
        return self.body_as_read


def message_reader(decoder: Decoder | None) -> Callable[[KafkaMessage], LazyMessage]:
    """Return the function that wraps records of the input topic."""
    if decoder is None:
        return LazyMessage
    return lambda message: EncodedMessage(message, decoder)
