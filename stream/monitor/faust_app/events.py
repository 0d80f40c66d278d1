"""Events of Faust as records of ours."""

from typing import Any

from faust.types.events import EventT

from stream.kafka.offsets import Partition
from stream.kafka.record import Record


def record_of(event: EventT[Any]) -> Record:
    """Return the record of an event of a raw topic, with its original bytes."""
    message = event.message
    return Record(
        partition=Partition(message.topic, message.partition),
        offset=message.offset,
        key=message.key,
        value=message.value,
        headers=tuple(message.headers or ()),
    )
