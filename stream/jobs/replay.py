"""The replay: moves dead letters back to where they came from, each once, however often it is interrupted.

A letter stays where it is; a mark on the same topic, written in the transaction that moves it, says that it was moved:
1. take the place of any other replay, whose transaction under way is undone by that,
2. read all letters and all marks, up to where the topic ends,
3. move the letters without a mark, in transactions of some hundred, each with the marks of what it moves.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import NamedTuple

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
from stream.kafka.producers.exclusive import ExclusiveProducer, RefusedError
from stream.kafka.record import Record, read_record
from stream.kafka.topic_scan import TopicScan
from stream.records.body import BodyReader
from stream.records.headers import HeadersByName, Position, is_mark, marked_letter, source_of

_BATCH_RECORDS = 300
# Letters may be of many megabytes; the client holds a batch until it is sent.
_BATCH_BYTES = 8 * 1024 * 1024
# Headers that a letter loses on its way back.
_DROPPED = (SCHEMA_VERSION, ERROR_PREFIX, SOURCE_PREFIX, ATTEMPTS, FAILED_AT, RETRY_AT)


# Which letters


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """Which letters to move; what is not said does not matter."""

    reasons: tuple[str, ...] = ()
    """Shell patterns of error types; one of them must match."""
    stage: str | None = None
    app: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None


class Heap(NamedTuple):
    """Letters of one reason and stage."""

    reason: str
    stage: str


@dataclass(slots=True, kw_only=True)
class ReplaySurvey:
    """What the dead-letter topic holds for a replay."""

    wanted: dict[Position, Heap] = field(default_factory=dict)
    """The letters to be moved."""
    oldest: dict[Heap, datetime] = field(default_factory=dict)
    newest: dict[Heap, datetime] = field(default_factory=dict)
    moved_before: int = 0
    cut_short: int = 0
    """Letters of which the dead-letter topic took only the beginning."""
    homeless: int = 0
    """Letters that come from neither the interactions nor the work queue of the configuration."""

    @property
    def heaps(self) -> Counter[Heap]:
        return Counter(self.wanted.values())


class _Letter(NamedTuple):
    at: Position
    heap: Heap
    failed_at: datetime
    cut_short: bool
    homeless: bool


class Replay:
    """One replay of the configured dead-letter topic."""

    def __init__(self, config: Config, wanted: ReplayRequest) -> None:
        self._config, self._wanted = config, wanted
        self._topic = config.topics.deadletter
        self._body = BodyReader(config.input)
        self._app = self._body.field_getter("app")

    def survey(self) -> ReplaySurvey:
        """What would be moved now; nothing is changed."""
        letters: list[_Letter] = []
        marked: set[Position] = set()
        with TopicScan(self._config.kafka, self._topic, whole=True) as scan:
            for message in scan.read():
                record = read_record(message)
                headers = dict(record.headers)
                if not is_mark(headers):
                    letters += self._letter(record, headers, message.timestamp()[1])
                elif (at := marked_letter(headers)) is not None:
                    marked.add(at)
        return self._surveyed(letters, marked)

    def take_over(self) -> ReplaySurvey:
        """Shuts out every other replay; what is found then is this one's to move."""
        name = f"streamjury-replay-{self._topic}"
        self._writer = ExclusiveProducer(self._config.kafka, name, work="replay of this topic", done="moved")  # 1
        return self.survey()  # 2

    def move(self, survey: ReplaySurvey) -> Iterator[int]:
        """Moves what was found when taking over; after every transaction, how many were moved so far."""
        moved = 0
        for batch in _batches(map(self._moved, self._records(survey.wanted))):  # 3
            try:
                self._writer.commit(batch.messages)
            except RefusedError as error:
                raise StageError(f"{error}, or exclude these dead letters with --reason") from error
            moved += batch.letters
            yield moved

    def _records(self, wanted: Mapping[Position, Heap]) -> Iterator[Record]:
        left = len(wanted)
        with TopicScan(self._config.kafka, self._topic) as scan:
            for message in scan.read() if left else ():
                if (message.partition() or 0, message.offset() or 0) in wanted:
                    yield read_record(message)
                    left -= 1
                    if not left:
                        return

    def _letter(self, record: Record, headers: HeadersByName, written_ms: int) -> Iterator[_Letter]:
        reason, stage = (_text(headers.get(name)) for name in (ERROR_TYPE, ERROR_STAGE))
        failed_at = _time(headers.get(FAILED_AT), written_ms)
        if not self._matches(reason, stage, failed_at) or not self._is_of_app(record):
            return
        yield _Letter(
            (record.partition.number, record.offset),
            Heap(reason, stage),
            failed_at,
            cut_short=VALUE_TRUNCATED_FROM in headers,
            homeless=self._home(headers) is None,
        )

    def _matches(self, reason: str, stage: str, failed_at: datetime) -> bool:
        wanted = self._wanted
        if wanted.reasons and not any(fnmatchcase(reason, pattern) for pattern in wanted.reasons):
            return False
        if wanted.stage is not None and stage != wanted.stage:
            return False
        return not (
            (wanted.since is not None and failed_at < wanted.since)
            or (wanted.until is not None and failed_at >= wanted.until)
        )

    def _is_of_app(self, record: Record) -> bool:
        if self._wanted.app is None:
            return True
        try:
            return self._app(self._body.read(record.value)) == self._wanted.app
        except RecordError:
            return False

    def _home(self, headers: HeadersByName) -> str | None:
        """The topic that a letter goes back to: the retry and overflow topics are side tracks of the work queue."""
        topics, source = self._config.topics, source_of(headers)
        if source is None:
            return None
        if source.topic == topics.overflow or source.topic.startswith(f"{topics.retry}."):
            return topics.sampled
        return source.topic if source.topic in {topics.interactions, topics.sampled} else None

    def _surveyed(self, letters: Sequence[_Letter], marked: set[Position]) -> ReplaySurvey:
        survey = ReplaySurvey()
        for letter in letters:
            if letter.at in marked:
                survey.moved_before += 1
            elif letter.cut_short:
                survey.cut_short += 1
            elif letter.homeless:
                survey.homeless += 1
            elif self._wanted.limit is None or len(survey.wanted) < self._wanted.limit:
                heap, at = letter.heap, letter.failed_at
                survey.wanted[letter.at] = heap
                survey.oldest[heap] = min(at, survey.oldest.get(heap, at))
                survey.newest[heap] = max(at, survey.newest.get(heap, at))
        return survey

    def _moved(self, record: Record) -> tuple[Message, Message]:
        """A letter as the record that it was, and the mark that it was moved."""
        home = self._home(dict(record.headers))
        assert home is not None
        kept = tuple(header for header in record.headers if not header[0].startswith(_DROPPED))
        mark = {
            REPLAYED_PARTITION: str(record.partition.number),
            REPLAYED_OFFSET: str(record.offset),
            REPLAYED_AT: datetime.now(UTC).isoformat(),
            REPLAYED_TO: home,
        }
        return (
            Message(topic=home, key=record.key, value=record.value, headers=kept),
            Message(
                topic=self._topic,
                key=record.key,
                value=None,
                headers=our_headers(mark),
            ),
        )


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


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace") or "unknown"


def _time(value: bytes | None, otherwise_ms: int) -> datetime:
    try:
        found = datetime.fromisoformat((value or b"").decode())
    except ValueError:
        return datetime.fromtimestamp(max(0, otherwise_ms) / 1000, UTC)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
