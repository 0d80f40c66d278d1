"""The latest dead letters: positions, reasons, times, and whether they were replayed. Their bytes stay on the topic."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from confluent_kafka import Message as KafkaMessage

from sinks.page.backend import ReasonCount
from stream.config.model import Config
from stream.jobs.replay import Heap, failure_time, heap_of
from stream.kafka.record import read_record
from stream.kafka.topic_scan import TopicScan
from stream.page.refreshed import RefreshedValue
from stream.records.headers import Position, is_mark, marked_letter

_REFRESH_SECONDS = 3.0
# Number of records that are read at first, and of letters that are kept in memory: about ten megabytes.
MOST_LETTERS = 20_000


class ListedLetter(NamedTuple):
    """A dead letter without its bytes; sorts by time."""

    at_ms: int
    partition: int
    offset: int
    heap: Heap

    @property
    def position(self) -> Position:
        return self.partition, self.offset


@dataclass(frozen=True, kw_only=True)
class LetterList:
    """The dead letters on the topic, at most the latest `MOST_LETTERS`."""

    letters: Sequence[ListedLetter]
    """Oldest first."""
    replayed: frozenset[Position]

    @cached_property
    def positions(self) -> frozenset[Position]:
        return frozenset(letter.position for letter in self.letters)

    @cached_property
    def unreplayed(self) -> int:
        return len(self.positions - self.replayed)

    @cached_property
    def by_reason(self) -> Sequence[ReasonCount]:
        """Numbers of letters that were not replayed, by reason; the most frequent reason comes first."""
        counts = Counter(letter.heap for letter in self.letters if letter.position not in self.replayed)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return [ReasonCount(stage=heap.stage, reason=heap.reason, records=count) for heap, count in ordered]


class LetterIndex:
    """Follows the dead-letter topic while it is in use."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._scan: TopicScan | None = None
        self._letters: dict[Position, ListedLetter] = {}
        self._replayed: set[Position] = set()
        self._refreshed = RefreshedValue(self._refresh, seconds=_REFRESH_SECONDS, name="the dead letters")

    def read(self, *, is_new: bool = False) -> LetterList:
        """Return the letters as read a few seconds ago; with `is_new`, as they are now."""
        return self._refreshed.wait(is_new=is_new)

    def close(self) -> None:
        if self._refreshed.close():
            self._close_scan()

    def _refresh(self) -> LetterList:
        try:
            return self._read_new()
        except BaseException:
            # After an error the position is unknown: start again.
            self._close_scan()
            raise

    def _read_new(self) -> LetterList:
        scan, is_first = self._scan, self._scan is None
        if scan is None:
            scan = self._scan = TopicScan(self._config.kafka, self._config.topics.deadletter)
            self._letters, self._replayed = {}, set()
        ranges = scan.ranges()
        share = MOST_LETTERS // max(1, len(ranges))
        latest = {
            number: range(max(offsets.start, offsets.stop - share), offsets.stop) for number, offsets in ranges.items()
        }
        for message in scan.read_within(latest) if is_first else scan.read():
            self._take(message)
        existing = [letter for letter in self._letters.values() if letter.offset >= ranges[letter.partition].start]
        ordered = sorted(existing)[-MOST_LETTERS:]
        self._letters = {letter.position: letter for letter in ordered}
        self._replayed &= self._letters.keys()
        return LetterList(letters=ordered, replayed=frozenset(self._replayed))

    def _take(self, message: KafkaMessage) -> None:
        record = read_record(message)
        headers = dict(record.headers)
        if is_mark(headers):
            position = marked_letter(headers)
            if position is not None:
                self._replayed.add(position)
            return
        at_ms = int(failure_time(headers, message.timestamp()[1]).timestamp() * 1000)
        letter = ListedLetter(at_ms, record.partition.number, record.offset, heap_of(headers))
        self._letters[letter.position] = letter

    def _close_scan(self) -> None:
        scan, self._scan = self._scan, None
        if scan is not None:
            scan.close()
