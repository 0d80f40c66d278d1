"""Retries: where a record waits whose judges failed, for how long, and when it becomes a dead letter."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sinks.base import Message, our_headers
from sinks.topics.headers import (
    ATTEMPTS,
    ERROR_MESSAGE,
    ERROR_TYPE,
    KEPT,
    NOTICED,
    RETRY_AT,
    SCHEMA_VERSION,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TOPIC,
)
from stream.config.model import Config
from stream.config.sections.budgets import MIN_KEEP
from stream.kafka.offsets import Partition
from stream.kafka.record import Record
from stream.records.identity import UNKNOWN_CONTENT

_YES = "1"
# What a record gets on its way through the topics of this module, beside what it came with.
_OURS = frozenset(
    {
        SCHEMA_VERSION,
        ATTEMPTS,
        RETRY_AT,
        KEPT,
        NOTICED,
        SOURCE_TOPIC,
        SOURCE_PARTITION,
        SOURCE_OFFSET,
        ERROR_TYPE,
        ERROR_MESSAGE,
    }
)


class Arrival(NamedTuple):
    """A record in a worker's hands: how it is committed, what it was at first, and when it may be judged."""

    record: Record
    origin: Record
    """As it was on the work queue: with the headers it had and at the place where it was."""

    attempts: int
    due_at: float
    """In Unix time; 0 for at once."""

    kept: float = 1.0
    """The smallest probability with which it was kept when money was short."""

    noticed: bool = False
    """Whether an earlier attempt sent a safety notice."""

    content: str = UNKNOWN_CONTENT
    """The digest of what is judged, once the record was read."""

    logged_id: str | None = None
    """The id that the interaction was logged with, where it is judged under another."""


class Retries:
    """The topics where records wait, one for each waiting time: in each of them the first is due first."""

    def __init__(self, config: Config) -> None:
        self._seconds = config.worker.retry_seconds
        self.topics = config.retry_topics
        self._waits = dict(zip(self.topics, self._seconds, strict=True))
        self.overflow = config.topics.overflow

    def arrived(self, record: Record) -> Arrival:
        """What is known of a record that was read from the work queue or one of our topics."""
        if record.partition.topic not in {*self.topics, self.overflow}:
            return Arrival(record, record, 0, 0.0)
        said = {name: (value or b"").decode(errors="replace") for name, value in record.headers if name in _OURS}
        kept = tuple(header for header in record.headers if header[0] not in _OURS)
        place, offset = _source(said, record)
        origin = record._replace(partition=place, offset=offset, headers=kept)
        attempts, due = _whole(said.get(ATTEMPTS), 0), self._due_at(said.get(RETRY_AT), record)
        return Arrival(record, origin, attempts, due, _share(said.get(KEPT)), noticed=said.get(NOTICED) == _YES)

    def _due_at(self, text: str | None, record: Record) -> float:
        """The time in the header, and no later than the topic's own wait from when the record was written, or from now.

        All behind the record wait too: counted from now alone, records that are read later would wait once more.
        """
        now = time.time()
        written_at = now if record.written_at is None else min(record.written_at, now)
        return min(_unix_time(text), written_at + self._waits.get(record.partition.topic, 0.0))

    def parked(self, arrival: Arrival, *, error: str, message: str) -> Message | None:
        """The record on the topic where it waits next; None when it has waited often enough."""
        if arrival.attempts >= len(self.topics):
            return None
        due = datetime.now(UTC) + timedelta(seconds=self._seconds[arrival.attempts])
        said = {
            ATTEMPTS: str(arrival.attempts + 1),
            RETRY_AT: due.isoformat(),
            ERROR_TYPE: error,
            ERROR_MESSAGE: message,
        }
        return _moved(arrival, self.topics[arrival.attempts], said)

    def deferred(self, arrival: Arrival) -> Message:
        """The record on the topic of those whose app has more than its share."""
        return _moved(arrival, self.overflow, {})


def _moved(arrival: Arrival, topic: str, said: Mapping[str, str]) -> Message:
    """The record on a partition of the number it has here: whoever has one of them has the others."""
    origin, number = arrival.origin, arrival.record.partition.number
    source = {
        SOURCE_TOPIC: origin.partition.topic,
        SOURCE_PARTITION: str(origin.partition.number),
        SOURCE_OFFSET: str(origin.offset),
        **({} if arrival.kept == 1.0 else {KEPT: repr(arrival.kept)}),
        **({NOTICED: _YES} if arrival.noticed else {}),
    }
    # What a stranger wrote into our headers would be believed from here on.
    kept = [header for header in origin.headers if header[0] not in _OURS]
    headers = (*kept, *our_headers({**said, **source}))
    return Message(topic=topic, key=origin.key, value=origin.value, headers=headers, partition=number)


def _source(said: Mapping[str, str], record: Record) -> tuple[Partition, int]:
    """Where a record was at first; one that somebody else put on our topic began there."""
    partition, offset = _whole(said.get(SOURCE_PARTITION), -1), _whole(said.get(SOURCE_OFFSET), -1)
    if not said.get(SOURCE_TOPIC) or partition < 0 or offset < 0:
        return record.partition, record.offset
    return Partition(said[SOURCE_TOPIC], partition), offset


def _whole(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else otherwise


def _share(text: str | None) -> float:
    try:
        found = float(text or 1.0)
    except ValueError:
        return 1.0
    return found if MIN_KEEP <= found <= 1.0 else 1.0


def _unix_time(text: str | None) -> float:
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return 0.0
    return found.timestamp() if found.tzinfo is not None else 0.0
