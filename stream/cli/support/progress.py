"""Progress of a command on standard error: a bar on a terminal, otherwise an occasional line if requested."""

import time
from datetime import timedelta
from typing import Self

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

# Drawing more often costs more than sending does.
_DRAW_SECONDS = 0.1
# Between lines if there is no terminal.
_LINE_SECONDS = 5.0
# A smaller share is too little to estimate the remaining time.
_LEAST_SHARE = 0.001


class Meter:
    """Shows the progress of a command within the `with` block."""

    def __init__(self, label: str, total: float | None, *, unit: str = "records", lines: bool = False) -> None:
        """With `lines`, progress is also printed without a terminal."""
        console = Console(stderr=True)
        bar = [BarColumn(), TaskProgressColumn()] if total else []
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            *bar,
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._label, self._unit = label, unit
        self._total = total
        self._pause = _DRAW_SECONDS if console.is_terminal else _LINE_SECONDS
        self._silent = not (console.is_terminal or lines)
        self._task = self._progress.add_task(label, total=total, figures="")
        self._started = time.monotonic()
        self._shown_at = 0.0

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        self._progress.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._progress.stop()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def show(
        self, *, done: float, records: int, cost: float | None = None, before: float = 0.0, waiting: int | None = None
    ) -> None:
        """Show that `done` of the total is finished, of which `before` by an earlier run.

        `records` is the number of records of this run, and `cost` their cost in US dollars. If `waiting` is given,
        `records` were judged and `waiting` are in flight.
        """
        seconds = self.seconds
        if self._silent or seconds - self._shown_at < self._pause:
            return
        self._shown_at = seconds
        counted = f"{records:,} {self._unit}" if not waiting else f"{records:,} judged, {waiting:,} waiting"
        figures = [counted, f"{_rate(records / seconds)}/s"]
        if cost is not None:
            figures.append(f"${cost:,.2f}" if cost >= 1.0 else f"${cost:.4f}")
        seconds_left = self._seconds_left(done, before, seconds)
        if seconds_left is not None:
            figures.append(f"{timedelta(seconds=round(seconds_left))} left")
        self._progress.update(self._task, completed=done, figures=", ".join(figures))
        if self._progress.disable:
            click.echo(f"{self._label}: {', '.join(figures)}", err=True)

    def _seconds_left(self, done: float, before: float, seconds: float) -> float | None:
        """Estimate the remaining time from the rate so far; None if it cannot be estimated yet."""
        if not self._total or done - before < _LEAST_SHARE * self._total:
            return None
        return max(0.0, self._total - done) * seconds / (done - before)


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10.0 else f"{rate:.1f}"
