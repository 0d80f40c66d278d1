"""The supervisor of a worker with several processes: starts them, answers for them, and stops them together.

Each process is a worker by itself: a member of the consumer group with its own partitions, connections and
transactional id. The supervisor itself judges no records and needs hardly any processor time.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from contextlib import ExitStack
from functools import partial
from typing import Self

from prometheus_client import CollectorRegistry, Metric

from sinks.metrics.processes import ProcessSeries, RestartMetrics
from sinks.web.health import Health
from stream.config.model import Config
from stream.errors import StageError
from stream.service.processes.child import ChildProcess
from stream.service.processes.shares import most_processes, process_config
from stream.service.processes.slot import ProcessSlot, RestartPolicy
from stream.service.processes.worker_process import Question
from stream.service.service import exit_patience
from stream.service.web_server import open_web_server

log = logging.getLogger(__name__)

# Prometheus gives up after 10 s; a process that hangs must not keep the others from it.
_SCRAPE_SECONDS = 5.0
_LOOK_SECONDS = 0.1


class Supervisor:
    """Runs the processes until the end of its `with` block, which stops them."""

    def __init__(self, config: Config, processes: int) -> None:
        """Raise StageError if the limits cannot be divided among this many processes."""
        most, key = most_processes(config)
        if processes > most:
            raise StageError(
                f"{processes} processes cannot share {key}, which is {most}; start at most {most}, or raise it"
            )
        self._config = config
        registry = CollectorRegistry()
        restarts = RestartMetrics(registry)
        registry.register(ProcessSeries(self._metrics))
        self._registry = registry
        self._health = Health()
        self._slots: list[ProcessSlot] = []
        for number in range(1, processes + 1):
            name, share = f"worker-{number}", process_config(config, number, processes=processes)
            slot = ProcessSlot(name, partial(ChildProcess, name, share), restarts, RestartPolicy())
            self._health.add(name, alive=slot.alive, ready=slot.ready)
            self._slots.append(slot)
        self._stack = ExitStack()
        self.url = ""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.url = stack.enter_context(open_web_server(self._config.http, self._registry, self._health)).url
            stack.callback(self._kill)
            for slot in self._slots:
                slot.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        # Whatever happens meanwhile, such as a second Ctrl-C, the stack kills processes that still run.
        with self._stack:
            if kind is not KeyboardInterrupt:
                self._stop()
        problems = [problem for slot in self._slots if (problem := slot.close()) is not None]
        if kind is None and problems:
            raise StageError("; ".join(problems))

    def check(self) -> None:
        """Restart processes that have ended; raises StageError when the worker cannot go on. Call it often."""
        for slot in self._slots:
            slot.look()

    def _stop(self) -> None:
        """Let all processes finish their records in flight, at the same time."""
        for slot in self._slots:
            slot.stop()
        deadline = time.monotonic() + exit_patience(self._config)
        while any(slot.is_running for slot in self._slots) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        for slot in self._slots:
            if slot.is_running:
                log.warning("%s did not end in time and is killed", slot.name)

    def _kill(self) -> None:
        for slot in self._slots:
            if slot.is_running:
                slot.kill()

    def _metrics(self) -> Mapping[str, Sequence[Metric]]:
        """Return the metrics of all running processes."""
        answers = [(slot, answer) for slot in self._slots if (answer := slot.ask(Question.METRICS)) is not None]
        wait([answer for _, answer in answers], _SCRAPE_SECONDS)
        return {slot.name: slot.latest_metrics(answer) for slot, answer in answers}
