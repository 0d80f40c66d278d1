"""Lists dead letters with their bytes, newest first, and moves selected ones back to their source topics."""

import logging
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus

from sinks.page.backend import BackendError, LetterPlace, LettersPage, ReplayOutcome, ShownLetter, SkippedLetter
from sinks.topics.headers import ERROR_MESSAGE
from stream.config.model import Config
from stream.errors import FencedError, StageError
from stream.jobs.replay import Replay, ReplayRequest
from stream.kafka.record import Record, read_record
from stream.kafka.topic_scan import TopicScan
from stream.page.letter_index import LetterIndex, ListedLetter
from stream.records.headers import Position, source_of

log = logging.getLogger(__name__)

_SHOWN_BYTES = 4096
_GONE = "this dead letter is no longer on the topic"


class DeadLetters:
    """Implements `sinks.page.backend.DeadLetterShelf`."""

    def __init__(self, config: Config, index: LetterIndex) -> None:
        self._config, self._index = config, index
        # Two replays would fence each other.
        self._replaying = threading.Lock()

    def list_letters(self, *, cursor: str | None, limit: int) -> LettersPage:
        listed = self._index.read()
        end = len(listed.letters) if cursor is None else _place_of(listed.letters, _read_cursor(cursor))
        chosen = listed.letters[max(0, end - limit) : end][::-1]
        records = self._read_records(chosen)
        letters = [
            _show(letter, records[letter.position], is_replayed=letter.position in listed.replayed)
            for letter in chosen
            if letter.position in records
        ]
        return LettersPage(letters=letters, next_cursor=_write_cursor(chosen[-1]) if end > limit else None)

    def replay(self, places: Sequence[LetterPlace], *, who: str) -> ReplayOutcome:
        wanted = {(place.partition, place.offset) for place in places}
        unknown = dict.fromkeys(wanted - self._index.read(is_new=True).positions, _GONE)
        with self._replaying:
            moved, skipped = self._move(frozenset(wanted - unknown.keys()))
        log.info("%s replayed %d dead letters from the page", who, moved)
        self._index.read(is_new=True)
        return ReplayOutcome(replayed=moved, skipped=[*_list_skipped({**skipped, **unknown})])

    def _move(self, places: frozenset[Position]) -> tuple[int, Mapping[Position, str]]:
        if not places:
            return 0, {}
        job, moved = Replay(self._config, ReplayRequest(places=places)), 0
        try:
            survey = job.take_over()
            for number in job.move(survey):
                moved = number
        except FencedError as error:
            raise BackendError(f"{error}; this replay moved {moved} letters", HTTPStatus.CONFLICT) from error
        except StageError as error:
            raise BackendError(f"{error}; {moved} letters were moved") from error
        finally:
            job.close()
        return moved, survey.skipped

    def _read_records(self, letters: Sequence[ListedLetter]) -> dict[Position, Record]:
        offsets: dict[int, list[int]] = {}
        for letter in letters:
            offsets.setdefault(letter.partition, []).append(letter.offset)
        ranges = {number: range(min(listed), max(listed) + 1) for number, listed in offsets.items()}
        wanted = {letter.position for letter in letters}
        records = {}
        try:
            with TopicScan(self._config.kafka, self._config.topics.deadletter) as scan:
                for message in scan.read_within(ranges) if ranges else ():
                    record = read_record(message)
                    if (position := (record.partition.number, record.offset)) in wanted:
                        records[position] = record
        except StageError as error:
            raise BackendError(str(error)) from error
        return records


def _show(letter: ListedLetter, record: Record, *, is_replayed: bool) -> ShownLetter:
    headers, value = dict(record.headers), record.value or b""
    return ShownLetter(
        place=LetterPlace(partition=letter.partition, offset=letter.offset),
        failed_at=datetime.fromtimestamp(letter.at_ms / 1000, UTC),
        stage=letter.heap.stage,
        reason=letter.heap.reason,
        message=(headers.get(ERROR_MESSAGE) or b"").decode("utf-8", "replace"),
        source=str(source_of(headers) or "unknown"),
        value=value[:_SHOWN_BYTES],
        size=len(value),
        is_replayed=is_replayed,
    )


def _list_skipped(reasons: Mapping[Position, str]) -> Iterator[SkippedLetter]:
    for (partition, offset), why in sorted(reasons.items()):
        yield SkippedLetter(place=LetterPlace(partition=partition, offset=offset), why=why)


# Cursors: the sort key of the last letter of a page


def _write_cursor(letter: ListedLetter) -> str:
    return urlsafe_b64encode(b"%d.%d.%d" % letter[:3]).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[int, ...]:
    try:
        key = tuple(map(int, urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).split(b".")))
    except ValueError:
        key = ()
    if len(key) != 3:
        raise BackendError("the cursor is not valid", HTTPStatus.BAD_REQUEST)
    return key


def _place_of(letters: Iterable[ListedLetter], key: tuple[int, ...]) -> int:
    return bisect_left([letter[:3] for letter in letters], key)
