"""Retries: where and how long a record waits after its judges failed, and when it becomes a dead letter."""

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
# Headers that the retry and overflow topics add to a record.
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
    """A record that a worker has read: how it is committed, its original form, and when it may be judged."""

    record: Record
    origin: Record
    """The record as it was on the work queue, with its original headers, partition and offset."""

    attempts: int
    due_at: float
    """Unix time; 0: at once."""

    kept: float = 1.0
    """The smallest probability with which it was kept when money was short."""

    noticed: bool = False
    """Whether an earlier attempt sent a safety notice."""

    content: str = UNKNOWN_CONTENT
    """The digest of the content to judge, set once the record is read."""

    logged_id: str | None = None
    """The id that the interaction was logged with, if it is judged under another."""


class Retries:
    """The topics where records wait, one for each delay, so that in each topic the first record is due first."""

    def __init__(self, config: Config) -> None:
        self._seconds = config.worker.retry_seconds
        self.topics = config.retry_topics
        self._waits = dict(zip(self.topics, self._seconds, strict=True))
        self.overflow = config.topics.overflow

    def read_arrival(self, record: Record) -> Arrival:
        """Read the state of a record from the work queue, a retry topic or the overflow topic."""
        if record.partition.topic not in {*self.topics, self.overflow}:
            return Arrival(record, record, 0, 0.0)
        ours = {name: (value or b"").decode(errors="replace") for name, value in record.headers if name in _OURS}
        others = tuple(header for header in record.headers if header[0] not in _OURS)
        place, offset = _source(ours, record)
        origin = record._replace(partition=place, offset=offset, headers=others)
        attempts, due = _parse_count(ours.get(ATTEMPTS), 0), self._due_at(ours.get(RETRY_AT), record)
        return Arrival(record, origin, attempts, due, _parse_share(ours.get(KEPT)), noticed=ours.get(NOTICED) == _YES)

    def _due_at(self, text: str | None, record: Record) -> float:
        """Return the time in the header, but at most the topic's delay after the record was written, or after now.

        Records behind it wait too: counted from now alone, those that are read later would wait once more.
        """
        now = time.time()
        written_at = now if record.written_at is None else min(record.written_at, now)
        return min(_parse_unix_time(text), written_at + self._waits.get(record.partition.topic, 0.0))

    def park(self, arrival: Arrival, *, error: str, message: str) -> Message | None:
        """Return the record for the topic where it waits next, or None after the last attempt."""
        if arrival.attempts >= len(self.topics):
            return None
        due = datetime.now(UTC) + timedelta(seconds=self._seconds[arrival.attempts])
        ours = {
            ATTEMPTS: str(arrival.attempts + 1),
            RETRY_AT: due.isoformat(),
            ERROR_TYPE: error,
            ERROR_MESSAGE: message,
        }
        return _move(arrival, self.topics[arrival.attempts], ours)

    def defer(self, arrival: Arrival) -> Message:
        """Return the record for the overflow topic: its app exceeds its fair share."""
        return _move(arrival, self.overflow, {})


def _move(arrival: Arrival, topic: str, extra: Mapping[str, str]) -> Message:
    """Keep the partition number: a worker is assigned the same numbers of all its topics."""
    origin, number = arrival.origin, arrival.record.partition.number
    source = {
        SOURCE_TOPIC: origin.partition.topic,
        SOURCE_PARTITION: str(origin.partition.number),
        SOURCE_OFFSET: str(origin.offset),
        **({} if arrival.kept == 1.0 else {KEPT: repr(arrival.kept)}),
        **({NOTICED: _YES} if arrival.noticed else {}),
    }
    # Drop headers that another program wrote under our names: they would be trusted from here on.
    others = [header for header in origin.headers if header[0] not in _OURS]
    headers = (*others, *our_headers({**extra, **source}))
    return Message(topic=topic, key=origin.key, value=origin.value, headers=headers, partition=number)


def _source(ours: Mapping[str, str], record: Record) -> tuple[Partition, int]:
    """Return the original place of a record; one that another program put on our topic began there."""
    partition, offset = _parse_count(ours.get(SOURCE_PARTITION), -1), _parse_count(ours.get(SOURCE_OFFSET), -1)
    if not ours.get(SOURCE_TOPIC) or partition < 0 or offset < 0:
        return record.partition, record.offset
    return Partition(ours[SOURCE_TOPIC], partition), offset


def _parse_count(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else default


def _parse_share(text: str | None) -> float:
    try:
        share = float(text or 1.0)
    except ValueError:
        return 1.0
    return share if MIN_KEEP <= share <= 1.0 else 1.0


def _parse_unix_time(text: str | None) -> float:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return 0.0
    return moment.timestamp() if moment.tzinfo is not None else 0.0
