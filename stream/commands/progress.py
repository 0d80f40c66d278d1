"""A progress bar with count and rate on a terminal; nothing where there is none."""

import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

# Drawing more often costs more than sending does.
_DRAW_SECONDS = 0.1


class Meter:
    """Shows how far a command is, on standard error, from `with` to the end of the block."""

    def __init__(self, label: str, total: float | None) -> None:
        console = Console(stderr=True)
        columns = [TextColumn("{task.fields[records]:,} records"), TextColumn("{task.fields[rate]:,.0f}/s")]
        bar = [BarColumn(), TaskProgressColumn()] if total else []
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            *bar,
            *columns,
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task(label, total=total, records=0, rate=0.0)
        self._started = time.monotonic()
        self._drawn_at = 0.0

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        self._progress.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._progress.stop()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def show(self, *, done: float, records: int) -> None:
        """`done` of the total is behind us, and so many records."""
        seconds = self.seconds
        if seconds - self._drawn_at >= _DRAW_SECONDS:
            self._drawn_at = seconds
            self._progress.update(self._task, completed=done, records=records, rate=records / seconds)
