"""The row feed: rows to judge, read ahead by a thread, so that a slow file does not hold up the judges."""

import queue
import threading
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple, Self

from stream.jobs.evaluate.journal import AWAY, Past, digest_number
from stream.jobs.evaluate.row_judge import digest_of
from stream.jobs.evaluate.rows import FileError, FileRow, Rows

# Rows may have a megabyte each: few enough to hold in memory, and enough for a moment.
_AHEAD = 128
_LOOK_SECONDS = 0.1


class FedRow(NamedTuple):
    """A row, and the position in the file after it."""

    row: FileRow
    position: float


def start_rows(rows: Rows, name: str) -> Iterator[FileRow]:
    """Read the first row at once and return an iterator over all; raises FileError if there is no row."""
    iterator = iter(rows)
    first = next(iterator, None)
    if first is None:
        raise FileError(f"{name}: no rows to judge")
    return chain((first,), iterator)


class Feed:
    """Reads the rows of a file up to a limit, without finished ones, until the end of the `with` block."""

    def __init__(
        self,
        rows: Rows,
        iterator: Iterator[FileRow],
        past: Past,
        limit: int | None,
        unwanted: threading.Event,
        *,
        away: str = AWAY,
    ) -> None:
        """Take the rows from `iterator`, made by `start_rows`.

        `unwanted` is set when no further rows are needed, which also ends a wait for them. `away` is advice for a row
        that differs from the judged one.
        """
        self._rows, self._iterator, self._past, self._limit, self._unwanted = rows, iterator, past, limit, unwanted
        self._away = away
        self._ahead: queue.Queue[FedRow | Exception | None] = queue.Queue(_AHEAD)
        self._thread = threading.Thread(target=self._read, name="rows", daemon=True)
        self.ended = False
        """Whether there are no further rows."""
        self.failure: Exception | None = None
        """The error that ended it before the end of the file."""
        self.taken = 0
        self.position = 0.0
        """The position in the file up to which all rows were finished before."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._unwanted.set()
        self._thread.join()

    def take(self, most: int = 1) -> list[FedRow]:
        """Return rows that are ready, at most `most`."""
        items: list[FedRow] = []
        while len(items) < most and not self.ended:
            try:
                item = self._ahead.get_nowait()
            except queue.Empty:
                break
            if isinstance(item, FedRow):
                items.append(item)
                continue
            self.ended, self.failure = True, item
        self.taken += len(items)
        return items

    def _read(self) -> None:
        try:
            for row in self._iterator:
                if self._limit is not None and row.number > self._limit:
                    break
                if self._is_finished(row):
                    self.position = self._rows.position
                elif not self._put(FedRow(row, self._rows.position)):
                    return
            self._put(None)
        except Exception as error:
            self._put(error)

    def _is_finished(self, row: FileRow) -> bool:
        digest = self._past.digest(row.number)
        if digest is None:
            return False
        if digest != digest_number(digest_of(row)):
            raise FileError(f"row {row.number} differs from the row judged under this number; {self._away}")
        return True

    def _put(self, item: FedRow | Exception | None) -> bool:
        """Queue an item; return False if it is not wanted any more."""
        while not self._unwanted.is_set():
            try:
                self._ahead.put(item, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return True
        return False
