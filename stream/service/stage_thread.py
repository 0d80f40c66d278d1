"""A stage in its own thread, and the watchdog that notices when it stops making progress."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol, Self

from sinks.metrics import Stage
from sinks.web.health import Health
from stream.errors import StageError, StreamjuryError
from stream.logs import log_context

log = logging.getLogger(__name__)


# A stage without progress for this long hangs: longer than a revoke may take, shorter than our patience.
_STALL_SECONDS = 60.0


# Time to stop for a stage that hangs: it will hardly use it, and the others wait.
_STALLED_JOIN_SECONDS = 5.0


# Time to stop for a stage whose broker does not answer: all its remaining work waits for the broker. The next process
# does that work, as after a crash; supervisors kill after 30 seconds.
_AWAY_JOIN_SECONDS = 10.0
# One late answer does not mean that the broker is away: it is asked again after three seconds.
_AWAY_AFTER_SECONDS = 5.0


# While waiting for a stage, check this often whether the broker answers.
_LOOK_SECONDS = 0.2


# A process that was itself held up (a paused container, a machine short of memory) must not blame its stages for it.
_LONGEST_LOOK_SECONDS = 5.0


class Pulse(Protocol):
    """Signs of progress that a stage shows to the outside."""

    @property
    def moved_at(self) -> float:
        """Time of its last step, on the monotonic clock."""
        ...

    @property
    def assigned(self) -> bool:
        """Whether it has partitions to work on."""
        ...

    @property
    def problem(self) -> str | None:
        """The reason why it cannot publish its results, if there is one."""
        ...

    @property
    def backlog(self) -> int:
        """Records that it could work on now, as last seen."""
        ...

    @property
    def done(self) -> int:
        """Number of finished records; only ever grows."""
        ...


class Runnable(Protocol):
    """A stage as its service sees it."""

    stage: Stage

    @property
    def pulse(self) -> Pulse: ...

    def run(self, stop: threading.Event) -> None: ...


class Watchdog:
    """Notices that a stage is stuck: records wait but none is finished, or its thread makes no step.

    Time does not count while the broker does not answer. For waiting records it does not count either while the stage
    itself reports a problem, and restarts at 0 whenever there is nothing to do.
    """

    def __init__(
        self,
        stage: Runnable,
        seconds: float,
        broker_answers: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Report a stage after `seconds` without a finished record; 0 never does.

        A thread always gets enough time to hand partitions over, however short `seconds` is.
        """
        self._stage = stage
        self._seconds = seconds
        self._silence = max(seconds, _STALL_SECONDS)
        self.broker_answers = broker_answers
        self._clock = clock
        self._looked_at = clock()
        self._moved_at = stage.pulse.moved_at
        self._done = stage.pulse.done
        self._silent = 0.0
        self._idle = 0.0

    def look(self) -> str | None:
        """Return the problem, or None. Time counts from one call to the next."""
        now = self._clock()
        passed = min(now - self._looked_at, _LONGEST_LOOK_SECONDS) if self.broker_answers() else 0.0
        self._looked_at = now
        self._look_at_thread(passed)
        self._look_at_work(passed)
        if not self._seconds:
            return None
        if self._silent > self._silence:
            return f"no progress for {self._silent:.0f} s"
        if self._idle > self._seconds:
            return f"{self._stage.pulse.backlog} records waiting and none finished for {self._idle:.0f} s"
        return None

    def _look_at_thread(self, passed: float) -> None:
        moved_at, before = self._stage.pulse.moved_at, self._moved_at
        self._moved_at = moved_at
        self._silent = self._silent + passed if moved_at == before else 0.0

    def _look_at_work(self, passed: float) -> None:
        pulse, before = self._stage.pulse, self._done
        self._done = pulse.done
        if self._done != before or pulse.backlog <= 0 or not pulse.assigned:
            self._idle = 0.0
        elif pulse.problem is None:
            self._idle += passed


class StageThread:
    """One stage in its own thread."""

    def __init__(self, stage: Runnable, health: Health, patience: float, watchdog: Watchdog) -> None:
        self.stop = threading.Event()
        self._watchdog = watchdog
        self._patience = patience
        self._asked_at = 0.0
        self._answered_at = 0.0
        self._stage = stage
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=stage.stage.value, daemon=True)
        health.add(stage.stage.value, alive=self._alive, ready=self._ready)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def ask_to_stop(self) -> None:
        if not self.stop.is_set():
            self._asked_at = self._answered_at = time.monotonic()
            self.stop.set()

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self.ask_to_stop()
        if kind is not KeyboardInterrupt:  # a second Ctrl-C, while waiting for another stage
            while self._thread.is_alive() and time.monotonic() < self._asked_at + self._join_seconds():
                self._thread.join(_LOOK_SECONDS)
        if self._thread.is_alive() and self._error is None:
            away = ", because the broker is not responding" if self._is_broker_away() else ""
            self._error = StageError(
                f"did not stop within {self._join_seconds():.0f} seconds{away}; the next process will do the "
                "remaining work"
            )

    def _join_seconds(self) -> float:
        """Return how long to wait for a stage after the request to stop."""
        return min(self._patience, _AWAY_JOIN_SECONDS) if self._is_broker_away() else self._patience

    def _is_broker_away(self) -> bool:
        """Return whether the broker has not answered for a while since the request to stop. Call it often."""
        now = time.monotonic()
        if self._watchdog.broker_answers():
            self._answered_at = now
        return now - self._answered_at > _AWAY_AFTER_SECONDS

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def has_failed(self) -> bool:
        """Whether an error ended the stage, which then may have left threads behind."""
        return self._error is not None

    def check(self) -> None:
        if self._error is not None:
            raise StageError(f"{self._stage.stage} failed: {_format_error(self._error)}") from self._error

    def watch(self) -> None:
        """Raise StageError if the stage is stuck, and shorten the wait for its end."""
        problem = self._watchdog.look()
        if problem is not None:
            self._patience = min(self._patience, _STALLED_JOIN_SECONDS)
            raise StageError(f"{self._stage.stage} is stuck: {problem}; exiting so that the supervisor restarts it")

    def _run(self) -> None:
        try:
            with log_context(stage=self._stage.stage.value):
                self._stage.run(self.stop)
        except BaseException as error:  # handed to the main thread, which ends the process
            self._error = error
            if not isinstance(error, StreamjuryError):
                log.exception("%s crashed", self._stage.stage)

    def _alive(self) -> str | None:
        if self._error is not None or not self._thread.is_alive():
            return f"ended: {_format_error(self._error) if self._error else 'stopped'}"
        silent = time.monotonic() - self._stage.pulse.moved_at
        return f"no progress for {silent:.0f} s" if silent > _STALL_SECONDS else None

    def _ready(self) -> str | None:
        return self._stage.pulse.problem if self._stage.pulse.assigned else "no partitions assigned"


def _format_error(error: BaseException) -> str:
    """Format an error; those of other libraries may have no message, so their type comes first."""
    return str(error) if isinstance(error, StreamjuryError) else f"{type(error).__name__}: {error}"
