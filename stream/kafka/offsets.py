"""The offset tracker: which results may be published and which offsets committed, in whatever order work finishes."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

R = TypeVar("R")


class Partition(NamedTuple):
    topic: str
    number: int


class Place(NamedTuple):
    """The place of a record."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


def format_partitions(partitions: Iterable[Partition]) -> str:
    """Format partitions for people: `rag.sampled 0, 1; rag.retry.1 0`."""
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        by_topic.setdefault(partition.topic, []).append(partition.number)
    return "; ".join(f"{topic} {', '.join(map(str, numbers))}" for topic, numbers in by_topic.items()) or "none"


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to finish one record under one assignment of its partition."""

    partition: Partition
    generation: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(Generic[R]):
    """Finished results of one partition in offset order, and the offset to commit with them."""

    partition: Partition
    generation: int
    results: tuple[R, ...]
    next_offset: int


@dataclass(slots=True)
class _TrackedOffset(Generic[R]):
    offset: int
    result: R | None = None
    done: bool = False


@dataclass(slots=True)
class _Assigned(Generic[R]):
    generation: int
    shares: bool
    entries: deque[_TrackedOffset[R]] = field(default_factory=deque)
    by_offset: dict[int, _TrackedOffset[R]] = field(default_factory=dict)


class OffsetTracker(Generic[R]):
    """Releases results in offset order per partition, and only for the assignment they were started under.

    A crash repeats the records that were started and are not committed. They never exceed `cap`, which the assigned
    partitions share evenly, so that one slow record cannot hold up the others. Partitions that are mostly empty
    (`shares=False`) may use as much, without making the shares of others smaller.
    """

    def __init__(self, cap: int) -> None:
        if cap < 1:
            raise ValueError("the run-ahead cap must be at least 1")
        self._cap = cap
        self._generation = 0
        self._assigned: dict[Partition, _Assigned[R]] = {}

    @property
    def partitions(self) -> frozenset[Partition]:
        return frozenset(self._assigned)

    @property
    def outstanding(self) -> int:
        """Records started and not yet committed, over all partitions."""
        return self.count_uncommitted(self._assigned)

    def assign(self, partition: Partition, *, shares: bool = True) -> None:
        """Begin a new assignment; tickets of an older one are invalid from now on."""
        self._generation += 1
        self._assigned[partition] = _Assigned(self._generation, shares)

    def revoke(self, partition: Partition) -> None:
        """End the assignment and forget its uncommitted records."""
        self._assigned.pop(partition, None)

    def may_start(self, partition: Partition) -> bool:
        assigned = self._assigned.get(partition)
        if assigned is None or self.outstanding >= self._cap:
            return False
        sharing = sum(other.shares for other in self._assigned.values())
        return len(assigned.entries) < max(1, self._cap // max(1, sharing))

    def start(self, partition: Partition, offset: int) -> Ticket:
        """Register a record. Offsets of a partition must rise, as a broker delivers them."""
        assigned = self._assigned[partition]
        if assigned.entries and offset <= assigned.entries[-1].offset:
            raise ValueError(f"{partition}: offset {offset} after {assigned.entries[-1].offset}")
        entry: _TrackedOffset[R] = _TrackedOffset(offset)
        assigned.entries.append(entry)
        assigned.by_offset[offset] = entry
        return Ticket(partition, assigned.generation, offset)

    def finish(self, ticket: Ticket, result: R) -> bool:
        """Store a result; return False if the assignment of its ticket is over."""
        assigned = self._assigned.get(ticket.partition)
        if assigned is None or assigned.generation != ticket.generation:
            return False
        entry = assigned.by_offset[ticket.offset]
        if entry.done:
            raise ValueError(f"{ticket} finished twice")
        entry.result, entry.done = result, True
        return True

    def count_unfinished(self, partitions: Iterable[Partition]) -> int:
        """Count records of these partitions that were started and are not finished."""
        chosen = set(partitions) & self._assigned.keys()
        return sum(not entry.done for partition in chosen for entry in self._assigned[partition].entries)

    def count_uncommitted(self, partitions: Iterable[Partition]) -> int:
        """Count records of these partitions that were started, finished or not, and are not committed."""
        return sum(len(self._assigned[partition].entries) for partition in set(partitions) & self._assigned.keys())

    def oldest(self, partition: Partition) -> int | None:
        """Return the offset of the first uncommitted record of a partition, or None."""
        assigned = self._assigned.get(partition)
        return assigned.entries[0].offset if assigned is not None and assigned.entries else None

    def ready(self) -> list[Ready[R]]:
        """Return what may be committed now: per partition, everything before its oldest unfinished record."""
        return [
            Ready(partition=partition, generation=assigned.generation, results=results, next_offset=last + 1)
            for partition, assigned in self._assigned.items()
            for results, last in _finished_prefix(assigned.entries)
        ]

    def forget_committed(self, ready: Iterable[Ready[R]]) -> None:
        """Forget committed records, as far as their assignment is still valid."""
        for part in ready:
            assigned = self._assigned.get(part.partition)
            if assigned is None or assigned.generation != part.generation:
                continue
            while assigned.entries and assigned.entries[0].offset < part.next_offset:
                del assigned.by_offset[assigned.entries.popleft().offset]


def _finished_prefix(entries: Iterable[_TrackedOffset[R]]) -> Iterable[tuple[tuple[R, ...], int]]:
    """Yield the results before the first unfinished entry with their last offset, if there are any."""
    results: list[R] = []
    last = -1
    for entry in entries:
        if not entry.done:
            break
        assert entry.result is not None
        results.append(entry.result)
        last = entry.offset
    if results:
        yield tuple(results), last
