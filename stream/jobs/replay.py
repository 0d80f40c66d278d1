"""The replay: moves dead letters back to their source topics, each once, however often it is interrupted.

A letter stays on its topic. The transaction that moves it also writes a mark to that topic:
1. fence any other replay, which aborts its open transaction,
2. read all letters and all marks, up to the current end of the topic,
3. move the letters without a mark, in transactions of some hundred, each with the marks of its letters.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import NamedTuple

from confluent_kafka import Message as KafkaMessage

from sinks.base import Message, our_headers
from sinks.topics.headers import (
    ATTEMPTS,
    ERROR_PREFIX,
    ERROR_STAGE,
    ERROR_TYPE,
    FAILED_AT,
    REPLAYED_AT,
    REPLAYED_OFFSET,
    REPLAYED_PARTITION,
    REPLAYED_TO,
    RETRY_AT,
    SCHEMA_VERSION,
    SOURCE_PREFIX,
    VALUE_TRUNCATED_FROM,
)
from stream.config.model import Config
from stream.errors import RecordError, StageError
from stream.kafka.producers.exclusive import ExclusiveProducer
from stream.kafka.producers.oversize import RefusedError
from stream.kafka.record import Record, check_moment, read_record
from stream.kafka.topic_scan import TopicScan
from stream.records.body import BodyReader
from stream.records.encodings.decoder import REGISTRY_SECONDS, make_decoder
from stream.records.headers import HeadersByName, Position, is_mark, marked_letter, source_of

_BATCH_RECORDS = 300
# Letters may have many megabytes; the client holds a batch in memory until it is sent.
_BATCH_BYTES = 8 * 1024 * 1024
# Headers that are removed from a letter when it is moved back.
_DROPPED = (SCHEMA_VERSION, ERROR_PREFIX, SOURCE_PREFIX, ATTEMPTS, FAILED_AT, RETRY_AT)
# Any writer to the topic may set the time of a record: one after the year 9999 is no date.
_LATEST_MS = 253_402_300_799_000


# Which letters


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """Filters for the letters to move; an empty filter matches all."""

    reasons: tuple[str, ...] = ()
    """Shell patterns of error types; one of them must match."""
    stage: str | None = None
    app: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None
    places: frozenset[Position] | None = None
    """Only these letters; None: all that match."""


class Heap(NamedTuple):
    """Letters of one reason and stage."""

    reason: str
    stage: str


@dataclass(slots=True, kw_only=True)
class ReplaySurvey:
    """The contents of the dead-letter topic for a replay."""

    wanted: dict[Position, Heap] = field(default_factory=dict)
    """The letters to move."""
    oldest: dict[Heap, datetime] = field(default_factory=dict)
    newest: dict[Heap, datetime] = field(default_factory=dict)
    moved_before: int = 0
    cut_short: int = 0
    """Letters that were truncated on the dead-letter topic."""
    homeless: int = 0
    """Letters from other topics than the configured interactions and work queue."""
    skipped: dict[Position, str] = field(default_factory=dict)
    """Of chosen places: why each of the others is not moved, in words."""

    @property
    def heaps(self) -> Counter[Heap]:
        return Counter(self.wanted.values())


def heap_of(headers: HeadersByName) -> Heap:
    """Return the reason and the stage of a dead letter."""
    reason, stage = ((headers.get(name) or b"").decode("utf-8", "replace") for name in (ERROR_TYPE, ERROR_STAGE))
    return Heap(reason or "unknown", stage or "unknown")


def failure_time(headers: HeadersByName, written_ms: int) -> datetime:
    """Return when a letter was dead-lettered; if its headers do not say, when it was written."""
    try:
        moment = datetime.fromisoformat((headers.get(FAILED_AT) or b"").decode())
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        check_moment(moment)
    except (ValueError, RecordError):
        return datetime.fromtimestamp(min(max(0, written_ms), _LATEST_MS) / 1000, UTC)
    return moment


class _Letter(NamedTuple):
    position: Position
    heap: Heap
    failed_at: datetime
    cut_short: bool
    homeless: bool
    has_key: bool


class Replay:
    """One replay of the configured dead-letter topic."""

    def __init__(self, config: Config, request: ReplayRequest) -> None:
        self._config, self._request = config, request
        self._topic = config.topics.deadletter
        self._decoder = None if request.app is None else make_decoder(config, patience=REGISTRY_SECONDS)
        self._body = BodyReader(config.input)
        self._app = self._body.field_getter("app")
        self._writer: ExclusiveProducer | None = None

    def survey(self) -> ReplaySurvey:
        """Return what would be moved now, without changes."""
        letters: list[_Letter] = []
        marked: set[Position] = set()
        places = self._request.places
        with TopicScan(self._config.kafka, self._topic, whole=True) as scan:
            if places is None:
                self._take(scan.read(), letters, marked)
            else:
                # A mark follows its letter in the same partition; earlier versions wrote it by the letter's key.
                self._take(scan.read_from(_first_offsets(places)), letters, marked)
                if not all(letter.has_key for letter in letters):
                    self._take(scan.read(), [], marked)
        return self._summarise(letters, marked)

    def _take(self, messages: Iterable[KafkaMessage], letters: list[_Letter], marked: set[Position]) -> None:
        """Add the letters and the places of the marks among these records."""
        for message in messages:
            record = read_record(message)
            headers = dict(record.headers)
            if not is_mark(headers):
                letters += self._letter(record, headers, message.timestamp()[1])
            elif (position := marked_letter(headers)) is not None:
                marked.add(position)

    def take_over(self) -> ReplaySurvey:
        """Fence every other replay, then survey the letters to move."""
        name = f"streamjury-replay-{self._topic}"
        self._writer = ExclusiveProducer(self._config.kafka, name, work="replay of this topic", done="moved")  # 1
        return self.survey()  # 2

    def move(self, survey: ReplaySurvey) -> Iterator[int]:
        """Move the surveyed letters; yield the number of moved letters after every transaction."""
        moved, writer = 0, self._writer
        assert writer is not None, "take_over comes first"
        for batch in _batches(map(self._move, self._records(survey.wanted))):  # 3
            try:
                writer.commit(batch.messages)
            except RefusedError as error:
                raise StageError(f"{error}, or exclude these dead letters with --reason") from error
            moved += batch.letters
            yield moved

    def close(self) -> None:
        """End the producer of a replay that took over; a process that goes on calls it."""
        if self._writer is not None:
            self._writer.close()

    def _records(self, wanted: Mapping[Position, Heap]) -> Iterator[Record]:
        remaining = len(wanted)
        with TopicScan(self._config.kafka, self._topic) as scan:
            for message in scan.read_from(_first_offsets(wanted)) if remaining else ():
                if (message.partition() or 0, message.offset() or 0) in wanted:
                    yield read_record(message)
                    remaining -= 1
                    if not remaining:
                        return

    def _letter(self, record: Record, headers: HeadersByName, written_ms: int) -> Iterator[_Letter]:
        places = self._request.places
        if places is not None and (record.partition.number, record.offset) not in places:
            return
        heap, failed_at = heap_of(headers), failure_time(headers, written_ms)
        if not self._matches(heap, failed_at) or not self._is_of_app(record):
            return
        yield _Letter(
            (record.partition.number, record.offset),
            heap,
            failed_at,
            cut_short=VALUE_TRUNCATED_FROM in headers,
            homeless=self._home(headers) is None,
            has_key=record.key is not None,
        )

    def _matches(self, heap: Heap, failed_at: datetime) -> bool:
        request = self._request
        if request.reasons and not any(fnmatchcase(heap.reason, pattern) for pattern in request.reasons):
            return False
        if request.stage is not None and heap.stage != request.stage:
            return False
        return not (
            (request.since is not None and failed_at < request.since)
            or (request.until is not None and failed_at >= request.until)
        )

    def _is_of_app(self, record: Record) -> bool:
        if self._request.app is None:
            return True
        try:
            return self._app(self._body.read(self._json_value(record))) == self._request.app
        except RecordError:
            return False

    def _json_value(self, record: Record) -> bytes | None:
        """Return the value of a letter as JSON: records of the input topic keep their encoding."""
        if self._decoder is None or self._home(dict(record.headers)) != self._config.topics.interactions:
            return record.value
        return self._decoder.decode(record.value, record.headers)

    def _home(self, headers: HeadersByName) -> str | None:
        """Return the topic for a letter; letters of the retry and overflow topics go to the work queue."""
        topics, source = self._config.topics, source_of(headers)
        if source is None:
            return None
        if source.topic == topics.overflow or source.topic.startswith(f"{topics.retry}."):
            return topics.sampled
        return source.topic if source.topic in {topics.interactions, topics.sampled} else None

    def _summarise(self, letters: Sequence[_Letter], marked: set[Position]) -> ReplaySurvey:
        survey = ReplaySurvey()
        for letter in letters:
            if letter.position in marked:
                survey.moved_before += 1
            elif letter.cut_short:
                survey.cut_short += 1
            elif letter.homeless:
                survey.homeless += 1
            elif self._request.limit is None or len(survey.wanted) < self._request.limit:
                heap, failed_at = letter.heap, letter.failed_at
                survey.wanted[letter.position] = heap
                survey.oldest[heap] = min(failed_at, survey.oldest.get(heap, failed_at))
                survey.newest[heap] = max(failed_at, survey.newest.get(heap, failed_at))
        if self._request.places is not None:
            survey.skipped = self._explain_skipped(letters, marked, survey.wanted)
        return survey

    def _explain_skipped(
        self, letters: Sequence[_Letter], marked: set[Position], wanted: Collection[Position]
    ) -> dict[Position, str]:
        by_position = {letter.position: letter for letter in letters}
        reasons = {}
        for place in sorted(self._request.places or ()):
            letter = by_position.get(place)
            if place in wanted:
                continue
            if letter is None:
                reasons[place] = "no such dead letter on the topic any more"
            elif place in marked:
                reasons[place] = "replayed before"
            elif letter.cut_short:
                reasons[place] = "truncated on the dead-letter topic because of its size"
            else:
                reasons[place] = "it did not come from a topic that replay can move records to"
        return reasons

    def _move(self, record: Record) -> tuple[Message, Message]:
        """Return the original record of a letter, and the mark that it was moved."""
        home = self._home(dict(record.headers))
        assert home is not None
        headers = tuple(header for header in record.headers if not header[0].startswith(_DROPPED))
        mark = {
            REPLAYED_PARTITION: str(record.partition.number),
            REPLAYED_OFFSET: str(record.offset),
            REPLAYED_AT: datetime.now(UTC).isoformat(),
            REPLAYED_TO: home,
        }
        return (
            Message(topic=home, key=record.key, value=record.value, headers=headers),
            Message(
                topic=self._topic,
                key=record.key,
                value=None,
                headers=our_headers(mark),
                partition=record.partition.number,
            ),
        )


def _first_offsets(places: Iterable[Position]) -> dict[int, int]:
    """Return the first of the offsets in each partition."""
    first: dict[int, int] = {}
    for partition, offset in places:
        first[partition] = min(offset, first.get(partition, offset))
    return first


# Moving


@dataclass(slots=True)
class _ReplayBatch:
    messages: list[Message] = field(default_factory=list)
    letters: int = 0
    size: int = 0

    def add(self, moved: Message, mark: Message) -> None:
        self.messages += (moved, mark)
        self.letters += 1
        self.size += len(moved.value or b"")

    @property
    def full(self) -> bool:
        return self.letters >= _BATCH_RECORDS or self.size >= _BATCH_BYTES


def _batches(pairs: Iterable[tuple[Message, Message]]) -> Iterator[_ReplayBatch]:
    batch = _ReplayBatch()
    for moved, mark in pairs:
        batch.add(moved, mark)
        if batch.full:
            yield batch
            batch = _ReplayBatch()
    if batch.letters:
        yield batch
