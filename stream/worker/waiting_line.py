"""The waiting line of a worker: records that were read and not yet started, by partition."""

import time
from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from stream.config.sections.input import InputConfig
from stream.errors import RecordError
from stream.kafka.offsets import Partition
from stream.kafka.record import Record
from stream.records.body import BodyReader, app_getter
from stream.worker.retries import Arrival, Retries

# Records and bytes of a partition that wait in memory before the partition is paused.
_RECORDS = 64
_BYTES = 8 * 1024 * 1024


class Waiting(NamedTuple):
    """A record in the line, and its app if that can be read."""

    arrival: Arrival
    app: str | None


class WaitingLine:
    """Keeps the order of each partition. Records of the retry topics wait here until they are due."""

    def __init__(self, retries: Retries, records: InputConfig) -> None:
        self._retries = retries
        self._lines: dict[Partition, deque[Waiting]] = {}
        self._bytes: dict[Partition, int] = {}
        self._body = BodyReader(records)
        self._app = app_getter(self._body)

    def open(self, partition: Partition) -> None:
        self._lines[partition], self._bytes[partition] = deque(), 0

    def close(self, partition: Partition) -> None:
        self._lines.pop(partition, None)
        self._bytes.pop(partition, None)

    def add(self, record: Record) -> Waiting:
        waiting = Waiting(self._retries.read_arrival(record), self._app_of(record))
        self._lines[record.partition].append(waiting)
        self._bytes[record.partition] += _size(record)
        return waiting

    def first(self, partition: Partition) -> Waiting | None:
        """Return the partition's next record if it is due."""
        line = self._lines.get(partition)
        return line[0] if line and line[0].arrival.due_at <= time.time() else None

    def take(self, partition: Partition) -> Waiting:
        waiting = self._lines[partition].popleft()
        self._bytes[partition] -= _size(waiting.arrival.record)
        return waiting

    def lanes(self) -> tuple[list[Partition], list[Partition]]:
        """Return the partitions with records, and separately those of the overflow topic, which come last."""
        busy = [partition for partition, line in self._lines.items() if line]
        last = [partition for partition in busy if partition.topic == self._retries.overflow]
        return [partition for partition in busy if partition not in last], last

    def count(self, topics: Collection[str]) -> int:
        """Count the waiting records of some topics."""
        return sum(len(line) for partition, line in self._lines.items() if partition.topic in topics)

    def full(self) -> set[Partition]:
        return {p for p, line in self._lines.items() if len(line) >= _RECORDS or self._bytes[p] >= _BYTES}

    def empty(self) -> set[Partition]:
        return {partition for partition, line in self._lines.items() if not line}

    def _app_of(self, record: Record) -> str | None:
        try:
            return self._app(self._body.read(record.value))
        except RecordError:
            return None


def _size(record: Record) -> int:
    return len(record.value or b"")
