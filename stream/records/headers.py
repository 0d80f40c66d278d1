"""Reads the headers of our records: the original place of a record, and the dead letter that a replay moved back.

The names are in `sinks.topics.headers`, because dead letters are written there.
"""

import re
from collections.abc import Container, Mapping

from sinks.topics.headers import (
    ERROR_TYPE,
    REPLAYED_OFFSET,
    REPLAYED_PARTITION,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TOPIC,
)
from stream.kafka.offsets import Place

HeadersByName = Mapping[str, bytes | None]
Position = tuple[int, int]
"""Partition and offset of a letter on its topic."""

# No offset has more digits.
_NUMBER = re.compile(rb"[0-9]{1,19}")


def is_mark(headers: Container[str]) -> bool:
    """Return whether a record of the dead-letter topic, by its header names, marks a letter that was moved back."""
    # A letter keeps all headers of its record, and always has an error type.
    return REPLAYED_PARTITION in headers and ERROR_TYPE not in headers


def marked_letter(headers: HeadersByName) -> Position | None:
    """Return the letter that a mark refers to."""
    partition, offset = (_number(headers.get(name)) for name in (REPLAYED_PARTITION, REPLAYED_OFFSET))
    return None if partition is None or offset is None else (partition, offset)


def source_of(headers: HeadersByName) -> Place | None:
    """Return the original place of a dead letter or a waiting record, if its headers have it."""
    topic = headers.get(SOURCE_TOPIC)
    partition, offset = (_number(headers.get(name)) for name in (SOURCE_PARTITION, SOURCE_OFFSET))
    if not topic or partition is None or offset is None:
        return None
    return Place(topic.decode("utf-8", "replace"), partition, offset)


def _number(value: bytes | None) -> int | None:
    return int(value) if value is not None and _NUMBER.fullmatch(value) else None
