"""A slot: one of a worker's processes over all its restarts.

A process that ends by itself is started again, each time after a longer wait. The worker gives up if the next process
would end for the same reason, or after several ends in succession soon after the start.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from prometheus_client import Metric

from sinks.metrics.processes import RestartMetrics
from stream.errors import StageError
from stream.service.processes.child import ChildProcess
from stream.service.processes.worker_process import HealthAnswer, Question

log = logging.getLogger(__name__)

# A process that has not answered for this long is not ready, whatever it said before.
_UNHEARD_SECONDS = 10.0
# A supervisor that was itself held up (a paused container, a machine short of memory) must not blame its processes.
_LONGEST_LOOK_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When to start a process again, and when to give up."""

    first_seconds: float = 1.0
    """Wait after the first failure; doubles with every further one."""
    longest_seconds: float = 30.0
    attempts: int = 5
    """Failures in succession, each soon after the start, after which the worker ends."""
    steady_seconds: float = 60.0
    """A process that ran longer than this, and was ready, did not fail at its start."""
    silent_seconds: float = 60.0
    """A process that does not answer for this long is taken to hang, and killed."""

    def wait_seconds(self, failures: int) -> float:
        """Return the wait after this many failures in succession, at least one."""
        return min(self.first_seconds * 2.0 ** (failures - 1), self.longest_seconds)


class ProcessSlot:
    """Keeps one process running."""

    def __init__(
        self,
        name: str,
        launch: Callable[[], ChildProcess],
        restarts: RestartMetrics,
        policy: RestartPolicy,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take `launch`, which starts a new process at every call."""
        self.name = name
        self._launch = launch
        self._restarts = restarts
        self._policy = policy
        self._clock = clock
        self._child: ChildProcess | None = None
        self._health: HealthAnswer | None = None
        self._pending: Future[object] | None = None
        self._looked_at = self._started_at = clock()
        self._silent = 0.0
        self._metrics: Sequence[Metric] = []
        self._was_ready = False
        self._failures = 0
        self._start_at = 0.0
        self._problem = "starting"
        restarts.add(name)

    def start(self) -> None:
        self._health, self._pending, self._silent, self._metrics = None, None, 0.0, []
        self._child, self._started_at, self._was_ready = self._launch(), self._clock(), False
        log.info("%s has the process id %d", self.name, self._child.pid)

    def look(self) -> None:
        """Restart the process if it has ended, or kill it if it hangs; raises StageError to give up."""
        now = self._clock()
        passed, self._looked_at = min(now - self._looked_at, _LONGEST_LOOK_SECONDS), now
        if self._child is None:
            if now >= self._start_at:
                self._restarts.count(self.name)
                self.start()
        elif self._child.has_ended:
            self._plan_restart(self._child)
        else:
            self._listen(self._child, passed)

    def ask(self, question: Question) -> "Future[object] | None":
        """Return a future answer of the process, or None while there is no process."""
        child = self._child
        return None if child is None else child.ask(question)

    def latest_metrics(self, answer: "Future[object]") -> Sequence[Metric]:
        """Return the metrics of the answer, or the last ones if the process has not answered in time.

        A series missing from one scrape would begin at 0 in the next, as a new one does, and be counted twice.
        """
        metrics = answer.result() if answer.done() else None
        if isinstance(metrics, list):
            self._metrics = metrics
        return self._metrics

    # The end

    def stop(self) -> None:
        """Ask the process to finish its records in flight; kill it if it has not begun any work."""
        if self._child is not None and self._health is None:
            self._child.kill()
        elif self._child is not None:
            self._child.stop()

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()

    @property
    def is_running(self) -> bool:
        return self._child is not None and not self._child.has_ended

    def close(self) -> str | None:
        """Return why a process did not end well after the request to stop, or None."""
        if self._child is None:
            return None
        self._child.close()
        was_at_work = self._health is not None
        return None if self._child.ended_well or not was_at_work else f"{self.name}: {self._child.reason()}"

    # Health, as pages ask for it

    def alive(self) -> str | None:
        """Return the problems of the process; a process that is about to restart has none."""
        health = self._health
        return None if health is None else _format_problems(health.alive)

    def ready(self) -> str | None:
        health = self._health
        if health is None:
            return self._problem
        if self._silent > _UNHEARD_SECONDS:
            return f"no answer for {self._silent:.0f} s"
        return _format_problems(health.ready)

    def _listen(self, child: ChildProcess, passed: float) -> None:
        if self._pending is not None and self._pending.done():
            answer, self._pending, self._silent = self._pending.result(), None, 0.0
            if isinstance(answer, HealthAnswer):
                self._health = answer
                self._was_ready |= not answer.ready
        elif self._health is not None:  # a starting process needs long for its imports on a busy machine
            self._silent += passed
        if self._pending is None:
            self._pending = child.ask(Question.HEALTH)
        if self._silent > self._policy.silent_seconds:
            log.warning("%s has not answered for %.0f s and is killed", self.name, self._silent)
            child.kill()

    def _plan_restart(self, child: ChildProcess) -> None:
        """Close a process that ended without a request, and schedule the next one."""
        child.close()
        self._child, self._health = None, None
        if child.ended_well:  # somebody sent SIGTERM to this process alone
            self._problem, self._start_at = "ended by SIGTERM; starting again", 0.0
            log.info("%s was ended by SIGTERM; restarting it", self.name)
            return
        reason = child.reason()
        if child.last_words is not None and child.last_words.is_final:
            raise StageError(reason)
        was_steady = self._was_ready and self._clock() - self._started_at >= self._policy.steady_seconds
        self._failures = 1 if was_steady else self._failures + 1
        if self._failures >= self._policy.attempts:
            raise StageError(
                f"{self.name} ended {self._failures} times in a row soon after its start; last reason: {reason}"
            )
        seconds = self._policy.wait_seconds(self._failures)
        self._problem, self._start_at = f"starting again after: {reason}", self._clock() + seconds
        log.warning("%s ended: %s; restarting it in %g s", self.name, reason, seconds)


def _format_problems(problems: Mapping[str, str]) -> str | None:
    return "; ".join(f"{part}: {problem}" for part, problem in problems.items()) or None
