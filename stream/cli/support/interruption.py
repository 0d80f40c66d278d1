"""Ends commands early: Ctrl-C and SIGTERM as an event, and a reader of the output that went away."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """From `with` to the end of the block the first signal sets `stop`; a second one ends the command at once."""

    def __init__(self) -> None:
        self.stop = Event()
        self._waiting = False
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Within it the first signal raises KeyboardInterrupt: a wait for input does not look at events."""
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        again = self.stop.is_set()
        self.stop.set()
        if again or self._waiting:
            raise KeyboardInterrupt


@contextmanager
def until_reader_leaves() -> Iterator[None]:
    """Ends the block quietly when whoever reads standard output has had enough, as `head` does."""
    try:
        yield
    except BrokenPipeError:
        # Python flushes standard output at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
