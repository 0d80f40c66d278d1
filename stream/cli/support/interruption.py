"""Ends commands early: on Ctrl-C and SIGTERM, and when the reader of the output goes away."""

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
    """Within the `with` block, the first signal sets `stop`, and the second one ends the command at once."""

    def __init__(self) -> None:
        self.stop = Event()
        self._waiting = False
        self._former_handlers = {number: signal.getsignal(number) for number in _SIGNALS}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._former_handlers.items():
            signal.signal(number, handler)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Raise KeyboardInterrupt on the first signal within the block: a wait for input does not check events."""
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        is_second = self.stop.is_set()
        self.stop.set()
        if is_second or self._waiting:
            raise KeyboardInterrupt


@contextmanager
def until_reader_leaves() -> Iterator[None]:
    """End the block quietly when the reader of standard output goes away, as `head` does."""
    try:
        yield
    except BrokenPipeError:
        # Python flushes standard output when it exits, and would report an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
