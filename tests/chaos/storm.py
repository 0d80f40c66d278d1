"""The storm: plays a schedule, each event in a separate thread, so that slow events delay no other."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from tests.chaos.plan import Event

_JOIN_SECONDS = 60.0


class Storm:
    """Begins each event at its time, and repairs it after its duration; events with one subject take turns."""

    def __init__(
        self,
        events: Sequence[Event],
        begin: Callable[[Event], None],
        end: Callable[[Event], None],
        say: Callable[[str], None],
    ) -> None:
        self._left = list(events)
        self._begin, self._end, self._say = begin, end, say
        self._started = time.monotonic()
        self._threads: list[threading.Thread] = []
        self._problems: list[BaseException] = []
        self._over = threading.Event()
        # On a slow machine, a process or the broker may still be starting when it is due to be stopped again.
        self._turns = defaultdict[str, threading.Lock](threading.Lock)

    @property
    def now(self) -> float:
        return time.monotonic() - self._started

    @property
    def lasts(self) -> bool:
        return bool(self._left) or any(thread.is_alive() for thread in self._threads)

    def go_on(self) -> None:
        """Begin the events that are due; raise the errors of events themselves."""
        while self._left and self._left[0].at <= self.now:
            event = self._left.pop(0)
            self._say(f"{self.now:6.1f} s  {event}")
            turn = self._turns[event.subject]
            thread = threading.Thread(target=self._play, args=(event, turn), name=str(event.kind), daemon=True)
            self._threads.append(thread)
            thread.start()
        if self._problems:
            raise self._problems[0]

    def close(self) -> None:
        """Stop: open events are not repaired, but have ended when this returns."""
        self._left.clear()
        self._over.set()
        deadline = time.monotonic() + _JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _play(self, event: Event, turn: threading.Lock) -> None:
        try:
            with turn:
                if self._over.is_set():
                    return
                self._begin(event)
                if not self._over.wait(event.lasts):
                    self._end(event)
        except BaseException as error:
            self._problems.append(error)
