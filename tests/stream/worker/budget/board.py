"""The board: shared memory that survives a killed process, with the true time and every nanodollar spent."""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stream.worker.budget.limits import ALL_APPS, Span

SLOTS = 8
WINDOWS = 4
SCOPES = (ALL_APPS, "bot")
LANES = ("whole", "main")
_SPANS = tuple(Span)
_CELLS = len(_SPANS) * WINDOWS * len(SCOPES) * len(LANES)
_HEADER = 8
_PER_SLOT = 4
_SIZE = 8 * (_HEADER + SLOTS * (_PER_SLOT + _CELLS))


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpending:
    """The true spending of one window."""

    span: Span
    window: int
    scope: str
    lane: str
    nano: int


class Board:
    """Shared memory in which each process writes only to its own slot, so that no write is lost."""

    def __init__(self, path: Path, slot: int = 0) -> None:
        if not path.exists():
            path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SIZE)
        self._cells = memoryview(self._memory).cast("q")
        self._slot = slot
        self._own = _HEADER + slot * (_PER_SLOT + _CELLS)

    # The controller's part

    def clear(self, now: float) -> None:
        """Reset everything while no process works; windows are counted from this time on."""
        self._memory[:] = bytes(_SIZE)
        self.now = now
        self._cells[1] = int(now)

    @property
    def now(self) -> float:
        return self._cells[0] / 1e6

    @now.setter
    def now(self, value: float) -> None:
        self._cells[0] = int(value * 1e6)

    def list_spending(self) -> Iterator[WindowSpending]:
        """Yield the spending of every window that has any, over all slots."""
        for place in range(_CELLS):
            nano = sum(self._cells[self._start(slot) + _PER_SLOT + place] for slot in range(SLOTS))
            if nano:
                rest, lane = divmod(place, len(LANES))
                rest, scope = divmod(rest, len(SCOPES))
                span, window = divmod(rest, WINDOWS)
                yield WindowSpending(span=_SPANS[span], window=window, scope=SCOPES[scope], lane=LANES[lane], nano=nano)

    def turns(self, slot: int) -> int:
        """Return how often the process of a slot has committed, or had nothing to commit."""
        return self._cells[self._start(slot)]

    def calls(self) -> int:
        return sum(self._cells[self._start(slot) + 1] for slot in range(SLOTS))

    def in_flight(self, slot: int) -> int:
        return self._cells[self._start(slot) + 2]

    def clear_in_flight(self, slot: int) -> None:
        """Forget the calls in flight of a killed process."""
        self._cells[self._start(slot) + 2] = 0

    def _start(self, slot: int) -> int:
        return _HEADER + slot * (_PER_SLOT + _CELLS)

    # A process's part

    def turn(self) -> None:
        self._cells[self._own] += 1

    def start_call(self, timestamp: float, nano: int, *, app: str | None, safety: bool) -> None:
        """Count a call, whose price is owed from now on whatever happens to the caller."""
        self._cells[self._own + 1] += 1
        self._cells[self._own + 2] += 1
        scopes = (0, 1) if app == SCOPES[1] else (0,)
        for number, span in enumerate(_SPANS):
            window = int(timestamp // span.value) - self._cells[1] // span.value
            for scope in scopes:
                place = ((number * WINDOWS + window) * len(SCOPES) + scope) * len(LANES)
                self._cells[self._own + _PER_SLOT + place] += nano
                if not safety:
                    self._cells[self._own + _PER_SLOT + place + 1] += nano

    def end_call(self) -> None:
        self._cells[self._own + 2] -= 1
