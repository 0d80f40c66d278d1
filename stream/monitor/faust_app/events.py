"""Events of Faust as records of ours."""

from typing import Any

from faust.types.events import EventT

from stream.kafka.offsets import Partition
from stream.kafka.record import Record


def record_of(event: EventT[Any]) -> Record:
    """The record that an event of a raw topic is about, with the bytes that it had."""
    message = event.message
    return Record(
        partition=Partition(message.topic, message.partition),
        offset=message.offset,
        key=message.key,
        value=message.value,
        headers=tuple(message.headers or ()),
    )
