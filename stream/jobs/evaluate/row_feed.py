"""The row feed: rows still to be judged, read ahead by a thread, so that a slow file holds up no judge."""

import queue
import threading
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple, Self

from stream.jobs.evaluate.journal import AWAY, Past, digest_number
from stream.jobs.evaluate.row_judge import digest_of
from stream.jobs.evaluate.rows import FileError, FileRow, Rows

# Rows may be of a megabyte each: few enough to hold, and enough for a moment.
_AHEAD = 128
_LOOK_SECONDS = 0.1


class FedRow(NamedTuple):
    """A row, and how much of the file is read with it."""

    row: FileRow
    position: float


def begun(rows: Rows, name: str) -> Iterator[FileRow]:
    """The rows, the first of which is read at once; raises FileError where there is none."""
    each = iter(rows)
    first = next(each, None)
    if first is None:
        raise FileError(f"{name}: no rows to judge")
    return chain((first,), each)


class Feed:
    """From `with` to the end of the block, the rows of a file up to a limit, without those that are finished."""

    def __init__(
        self,
        rows: Rows,
        each: Iterator[FileRow],
        past: Past,
        limit: int | None,
        gone: threading.Event,
        *,
        away: str = AWAY,
    ) -> None:
        """`each` are the rows as `begun` has them.

        `gone` is set when nobody wants what comes any more, which also ends a wait for it. `away` is what to do where
        a row is not the one that was judged.
        """
        self._rows, self._each, self._past, self._limit, self._gone = rows, each, past, limit, gone
        self._away = away
        self._ahead: queue.Queue[FedRow | Exception | None] = queue.Queue(_AHEAD)
        self._thread = threading.Thread(target=self._read, name="rows", daemon=True)
        self.ended = False
        """Nothing comes any more."""
        self.failure: Exception | None = None
        """What ended it before the end of the file."""
        self.taken = 0
        self.position = 0.0
        """How much of the file was read before anything was to be judged."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._gone.set()
        self._thread.join()

    def take(self, most: int = 1) -> list[FedRow]:
        """Rows that are there, at most so many."""
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
            for row in self._each:
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
        """False where nobody wants it."""
        while not self._gone.is_set():
            try:
                self._ahead.put(item, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return True
        return False
