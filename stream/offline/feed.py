"""The feed: rows that are still to be judged, read ahead by a thread, so that a slow file holds up no judge."""

import queue
import threading
from typing import NamedTuple, Self

from stream.offline.journal import Past, digest_number
from stream.offline.judging import digest_of
from stream.offline.rows import FileError, Row, Rows

# Rows may be of a megabyte each: few enough to hold, and enough for a moment.
_AHEAD = 128
_LOOK_SECONDS = 0.1


class Item(NamedTuple):
    """A row, and how much of the file is read with it."""

    row: Row
    position: float


class Feed:
    """From `with` to the end of the block, the rows of a file up to a limit, without those that are finished."""

    def __init__(self, rows: Rows, past: Past, limit: int | None, gone: threading.Event) -> None:
        """`gone` is set when nobody wants what comes any more, which also ends a wait for it."""
        self._rows, self._past, self._limit, self._gone = rows, past, limit, gone
        self._ahead: queue.Queue[Item | Exception | None] = queue.Queue(_AHEAD)
        self._thread = threading.Thread(target=self._read, name="rows", daemon=True)
        self.ended = False
        """Nothing comes any more."""
        self.failure: Exception | None = None
        """What ended it before the end of the file."""
        self.taken = 0
        self.position = 0.0
        """How much of the file was read before anything was to be judged."""
        self.seen = 0
        """Rows that were read, finished ones among them."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._gone.set()
        self._thread.join()

    def take(self, most: int = 1) -> list[Item]:
        """Rows that are there, at most so many."""
        items: list[Item] = []
        while len(items) < most and not self.ended:
            try:
                item = self._ahead.get_nowait()
            except queue.Empty:
                break
            if isinstance(item, Item):
                items.append(item)
                continue
            self.ended, self.failure = True, item
        self.taken += len(items)
        return items

    def _read(self) -> None:
        try:
            for row in self._rows:
                if self._limit is not None and row.number > self._limit:
                    break
                self.seen += 1
                if self._is_finished(row):
                    self.position = self._rows.position
                elif not self._put(Item(row, self._rows.position)):
                    return
            self._put(None)
        except Exception as error:
            self._put(error)

    def _is_finished(self, row: Row) -> bool:
        digest = self._past.digest(row.number)
        if digest is None:
            return False
        if digest != digest_number(digest_of(row)):
            raise FileError(
                f"row {row.number} is not the row that was judged under this number; use another --output, or "
                "--restart to throw those results away"
            )
        return True

    def _put(self, item: Item | Exception | None) -> bool:
        """False where nobody wants it."""
        while not self._gone.is_set():
            try:
                self._ahead.put(item, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return True
        return False
