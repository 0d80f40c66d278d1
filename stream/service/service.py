"""A service: stages in one process, with the metrics, health and web server they share."""

import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Self

from prometheus_client import CollectorRegistry

from sinks.base import Sink
from sinks.metrics import (
    ArchiveMetrics,
    AssemblerMetrics,
    DetectionMetrics,
    PipelineMetrics,
    SamplingMetrics,
    ScoreMetrics,
    Stage,
)
from sinks.queued import CLOSE_SECONDS
from sinks.web.health import Health
from sinks.web.routes import Route
from stream.config.model import Config
from stream.errors import INTERRUPTED
from stream.monitor.state import Monitor
from stream.sampler.stage import Sampler
from stream.service.broker_probe import BrokerProbe
from stream.service.setup.evaluator import open_evaluator, open_verdicts
from stream.service.sinks import open_sinks
from stream.service.stage_thread import Runnable, StageThread, Watchdog
from stream.service.web_server import open_web_server
from stream.worker.stage import Worker

log = logging.getLogger(__name__)

# Time for the stages to stop, beyond the worker's time to finish its records in flight.
_JOIN_SECONDS = 20.0


_LOCAL_ALONE = (
    "the panel is the local judge alone; for the shipped groundedness model, install the extra: "
    "pip install 'streamjury[encoder]'"
)


# Time for a process to end once its main thread is done.
_EXIT_SECONDS = 10.0


# Less if the broker does not answer: waiting would not help.
_AWAY_EXIT_SECONDS = 2.0


# After a second Ctrl-C the user does not want to wait.
_LEAVE_SECONDS = 0.5


# Python looks for cycles after every 700 new objects. Records come by the hundred thousand a second, without cycles:
# a sampler would spend a fifth of its time on it.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000


class Service:
    """Runs the chosen stages in threads until the end of its `with` block."""

    def __init__(
        self,
        config: Config,
        stages: Sequence[Stage],
        sinks: Sequence[Sink] = (),
        *,
        has_web_server: bool = True,
        open_routes: "OpenRoutes | None" = None,
    ) -> None:
        """Make the stages; a worker writes to these sinks, and to those of the configuration.

        It calls `sinks` directly, so they must be fast. Without a web server, the caller serves metrics and health.
        `open_routes` opens what the web server shows besides them.
        """
        self.config = config
        self._has_web_server = has_web_server
        self._open_routes = open_routes
        self._sinks = sinks
        self.registry = CollectorRegistry()
        self.metrics = PipelineMetrics(self.registry)
        self._scores = score_metrics(config, self.registry)
        self.monitor = Monitor(
            config.monitor,
            self.metrics,
            self._scores,
            safety=config.composite.safety,
            required=config.composite.required,
            least_probability=config.least_probability,
        )
        self.health = Health()
        self._stages = [self._make(stage) for stage in stages]
        self._probe = BrokerProbe(config.kafka, self.health)
        self._threads: list[StageThread] = []
        self._stack = ExitStack()
        self.url = ""

    def __enter__(self) -> Self:
        relax_collector()
        with ExitStack() as stack:
            if self._has_web_server:
                routes = () if self._open_routes is None else stack.enter_context(self._open_routes(self.config, self))
                server = open_web_server(self.config.http, self.registry, self.health, routes)
                self.url = stack.enter_context(server).url
            for worker in (stage for stage in self._stages if isinstance(stage, Worker)):
                worker.sinks += stack.enter_context(open_sinks(self.config, self.registry))
            probe = stack.enter_context(self._probe)
            for stage in self._stages:
                watchdog = Watchdog(stage, self._stall_seconds(stage.stage), probe.answers)
                thread = StageThread(stage, self.health, stop_patience(self.config), watchdog)
                self._threads.append(stack.enter_context(thread))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        # All at once: a worker that drains must not wait for the monitor to stop first.
        for thread in self._threads:
            thread.ask_to_stop()
        interrupted = kind is KeyboardInterrupt
        try:
            self._stack.close()
        except KeyboardInterrupt:
            interrupted = True
            raise
        finally:
            # After an interrupted join Python takes a running thread for ended.
            hangs = any(thread.is_alive for thread in self._threads)
            if interrupted or hangs or any(thread.has_failed for thread in self._threads):
                seconds = _AWAY_EXIT_SECONDS if hangs and not self._probe.answers() else _EXIT_SECONDS
                end = (INTERRUPTED, _LEAVE_SECONDS) if interrupted else (1, seconds)
                threading.Thread(target=_end_with_main_thread, args=end, name="last-resort", daemon=True).start()
        if kind is None:
            for thread in self._threads:
                thread.check()

    def runs(self, *stages: Stage) -> bool:
        """Return whether all these stages run in this process."""
        return {*stages} <= {stage.stage for stage in self._stages}

    def paused_judges(self) -> dict[str, str]:
        """Return the judges that the worker of this process does not ask now, each with the reason."""
        workers = [stage for stage in self._stages if isinstance(stage, Worker)]
        return {name: reason for worker in workers for name, reason in worker.paused_judges().items()}

    def check(self) -> None:
        """Raise the error that ended a stage, or that a stage is stuck. Call it often."""
        for thread in self._threads:
            thread.check()
            thread.watch()

    def _stall_seconds(self, stage: Stage) -> float:
        if stage is Stage.WORKER:
            return self.config.worker.stall_seconds
        if stage is Stage.ARCHIVIST:
            return self.config.archive.stall_seconds
        return self.config.monitor.stall_seconds if stage is Stage.MONITOR else 0.0

    def _make(self, stage: Stage) -> Runnable:
        if stage is Stage.ASSEMBLER:
            from stream.assembler.stage import Assembler  # noqa: PLC0415 - loads protobuf, which only it needs

            return Assembler(self.config, self.metrics, AssemblerMetrics(self.registry))
        if stage is Stage.SAMPLER:
            max_apps, reserved = self.config.metrics.max_apps, _reserved_apps(self.config)
            sampling = SamplingMetrics(self.registry, apps=max_apps, reserved=reserved)
            sampler = Sampler(self.config, self.metrics, sampling)
            self.health.add("schema registry", ready=lambda: sampler.registry_problem)
            return sampler
        if stage is Stage.WORKER:
            if not self.config.judges.is_panel_configured and len(self.config.judges.panel) == 1:
                log.info(_LOCAL_ALONE)
            return Worker(
                self.config,
                open_evaluator(self.config, open_verdicts(self.config.judges.cache)),
                self.metrics,
                self._sinks,
            )
        if stage is Stage.ARCHIVIST:
            from stream.archivist.stage import Archivist  # noqa: PLC0415 - loads SQLAlchemy, which only it needs

            return Archivist(self.config, self.metrics, ArchiveMetrics(self.registry))
        from stream.monitor.stage import MonitorStage  # noqa: PLC0415 - loads Faust, which only it needs

        detection = DetectionMetrics(self.registry, self._scores.apps)
        return MonitorStage(self.config, self.monitor, detection)


OpenRoutes = Callable[[Config, Service], AbstractContextManager[Sequence[Route]]]
"""Opens routes for the web server of a service, and closes what is behind them."""


def stop_patience(config: Config) -> float:
    """Return the time for the stages to stop."""
    return _JOIN_SECONDS + config.worker.drain_seconds


def exit_patience(config: Config) -> float:
    """Return the longest time from the request to stop to the end of the process."""
    return stop_patience(config) + CLOSE_SECONDS + _EXIT_SECONDS


def score_metrics(config: Config, registry: CollectorRegistry) -> ScoreMetrics:
    """Make the metrics of scores, with the labels and objectives of the configuration."""
    return ScoreMetrics(
        registry,
        labels=config.metrics.labels,
        top=config.metrics.top,
        apps=config.metrics.max_apps,
        reserved=_reserved_apps(config),
        good_score=lambda app: config.objectives.for_app(app)[0],
    )


def _reserved_apps(config: Config) -> set[str]:
    """Return the apps that the configuration names: they keep their label, whatever the traffic names."""
    return {*config.metrics.apps, *config.objectives.apps, *config.detection.apps}


def _end_with_main_thread(status: int, seconds: float) -> None:
    """End the process, if need be, some time after its main thread.

    A stage that hangs is abandoned; threads that it started, such as Faust's, would keep the process alive.
    """
    threading.main_thread().join()
    time.sleep(seconds)
    os._exit(status)


def relax_collector() -> None:
    """Run Python's garbage collector less often, in this whole process."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
