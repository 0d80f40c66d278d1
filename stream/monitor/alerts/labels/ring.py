"""A ring of the latest entries, in chunks that are stored one by one: a new entry changes only the newest chunk.

Entries are numbered. A new chunk takes the place of the oldest one, which is forgotten as a whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

Entry = TypeVar("Entry")

CHUNK_ENTRIES = 100
CHUNKS = 200
"""Chunks of a ring; the newest one may not be full."""


class RingChunk(NamedTuple, Generic[Entry]):
    """A chunk as it is stored."""

    first: int
    """Number of its first entry."""
    version: int
    """Number of changes of the ring when it was stored."""
    entries: Sequence[Entry]

    @property
    def place(self) -> int:
        return self.first // CHUNK_ENTRIES % CHUNKS


class Ring(Generic[Entry]):
    """The latest entries by number."""

    def __init__(self) -> None:
        self._chunks: dict[int, list[Entry]] = {}
        self._next = 0
        self._version = 0
        self._changed: dict[int, None] = {}

    def append(self, entry: Entry) -> tuple[int, list[tuple[int, Entry]]]:
        """Add an entry; return its number, and the entries that were forgotten for it, with their numbers."""
        number, self._next = self._next, self._next + 1
        chunk = number // CHUNK_ENTRIES
        oldest = chunk - CHUNKS
        forgotten = [] if chunk in self._chunks else self._chunks.pop(oldest, [])
        self._chunks.setdefault(chunk, []).append(entry)
        self._mark(chunk)
        return number, list(enumerate(forgotten, start=oldest * CHUNK_ENTRIES))

    def replace(self, number: int, entry: Entry) -> None:
        chunk, place = divmod(number, CHUNK_ENTRIES)
        self._chunks[chunk][place] = entry
        self._mark(chunk)

    def __getitem__(self, number: int) -> Entry:
        chunk, place = divmod(number, CHUNK_ENTRIES)
        return self._chunks[chunk][place]

    def __iter__(self) -> Iterator[tuple[int, Entry]]:
        """Yield the entries with their numbers, the oldest first."""
        for chunk, entries in self._chunks.items():
            yield from enumerate(entries, start=chunk * CHUNK_ENTRIES)

    def take_changes(self) -> Iterator[RingChunk[Entry]]:
        """Yield the chunks that have changed since the last call."""
        changed, self._changed = self._changed, {}
        for chunk in changed:
            if chunk in self._chunks:  # not forgotten meanwhile
                yield RingChunk(chunk * CHUNK_ENTRIES, self._version, self._chunks[chunk])

    def restore(self, chunks: Iterable[RingChunk[Entry]]) -> None:
        """Resume from stored chunks, in any order."""
        ordered = sorted(chunks, key=lambda chunk: chunk.first)
        newest = ordered[-1].first if ordered else 0
        for chunk in ordered:
            if chunk.first > newest - CHUNKS * CHUNK_ENTRIES:
                self._chunks[chunk.first // CHUNK_ENTRIES] = list(chunk.entries)
                self._next = chunk.first + len(chunk.entries)
                self._version = max(self._version, chunk.version)

    def _mark(self, chunk: int) -> None:
        self._changed[chunk] = None
        self._version += 1
