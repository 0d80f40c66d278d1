"""A service: stages in one process, with the metrics, health and web server they share."""

import gc
import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Protocol, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from prometheus_client import CollectorRegistry

from judges.evaluation import Evaluation
from sinks.base import Sink
from sinks.metrics import DetectionMetrics, PipelineMetrics, SamplingMetrics, ScoreMetrics, Stage
from sinks.web.health import Health, health_routes
from sinks.web.metrics import metrics_routes
from sinks.web.server import WebServer
from sinks.web.tls import CertificateError, server_tls
from stream.assembly import build_evaluator, open_verdicts
from stream.config.model import Config
from stream.config.sections.kafka import KafkaConfig
from stream.config.sections.stages import HttpConfig
from stream.errors import INTERRUPTED, StageError, StreamjuryError
from stream.logs import log_context
from stream.monitor.stage import MonitorStage
from stream.monitor.state import Monitor
from stream.sampler.stage import Sampler
from stream.tracing import telemetry_of
from stream.worker.stage import Worker

log = logging.getLogger(__name__)

# A stage that has not come round for this long hangs: longer than a revoke may take, shorter than patience.
_STALL_SECONDS = 60.0
_PROBE_SECONDS = 3.0
# Time for the stages to stop, beyond what the worker takes to finish what is in flight.
_JOIN_SECONDS = 20.0
# Time to stop for a stage that has stopped moving: it will hardly use it, and the others wait.
_STALLED_JOIN_SECONDS = 5.0
# Time for a process to end once its main thread is done.
_EXIT_SECONDS = 10.0
# Whoever pressed Ctrl-C twice does not want to wait.
_LEAVE_SECONDS = 0.5
# A process that was itself held up (a paused container, a machine short of memory) must not blame its stages for it.
_LONGEST_LOOK_SECONDS = 5.0
# Python looks for cycles after every 700 new objects. Records come by the hundred thousand a second, none in a cycle:
# a sampler would spend a fifth of its time on it.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000


class Pulse(Protocol):
    """What tells from outside whether a stage does its work."""

    @property
    def moved_at(self) -> float:
        """When it last came round, on the monotonic clock."""
        ...

    @property
    def assigned(self) -> bool:
        """Whether it has partitions to work on."""
        ...

    @property
    def problem(self) -> str | None:
        """What keeps it from handing on what it has done, if something does."""
        ...

    @property
    def backlog(self) -> int:
        """Records that it could work on now, as last seen."""
        ...

    @property
    def done(self) -> int:
        """Grows with the records it has finished."""
        ...


class Runnable(Protocol):
    """A stage as its service sees it."""

    stage: Stage

    @property
    def pulse(self) -> Pulse: ...

    def run(self, stop: threading.Event) -> None: ...


class Service:
    """Runs the chosen stages in threads from `with` to the end of the block."""

    def __init__(self, config: Config, stages: Sequence[Stage], sinks: Sequence[Sink[Evaluation]] = ()) -> None:
        """The sinks are told of what a worker among the stages has published."""
        self.config = config
        self._sinks = sinks
        self.registry = CollectorRegistry()
        self.metrics = PipelineMetrics(self.registry)
        self._scores = score_metrics(config, self.registry)
        self.monitor = Monitor(config.monitor, self.metrics, self._scores, safety=config.composite.safety)
        self.health = Health()
        self._stages = [self._make(stage) for stage in stages]
        self._threads: list[StageThread] = []
        self._stack = ExitStack()
        self.url = ""

    def __enter__(self) -> Self:
        relax_collector()
        with ExitStack() as stack:
            self.url = self._start_web_server(stack).url
            for worker in (stage for stage in self._stages if isinstance(stage, Worker)):
                telemetry = stack.enter_context(telemetry_of(self.config))
                worker.sinks += [] if telemetry is None else [telemetry]
            probe = stack.enter_context(BrokerProbe(self.config.kafka, self.health))
            for stage in self._stages:
                watchdog = Watchdog(stage, self._stall_seconds(stage.stage), probe.answers)
                thread = StageThread(stage, self.health, self._patience(), watchdog)
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
            # An interrupted join makes Python take a thread for ended that is not.
            if interrupted or any(thread.is_alive for thread in self._threads):
                end = (INTERRUPTED, _LEAVE_SECONDS) if interrupted else (1, _EXIT_SECONDS)
                threading.Thread(target=_end_with_main_thread, args=end, name="last-resort", daemon=True).start()
        if kind is None:
            for thread in self._threads:
                thread.check()

    def check(self) -> None:
        """Raises what ended a stage, if one has ended, and ends one that has stopped moving. To be called often."""
        for thread in self._threads:
            thread.check()
            thread.watch()

    def _patience(self) -> float:
        return _JOIN_SECONDS + self.config.worker.drain_seconds

    def _stall_seconds(self, stage: Stage) -> float:
        if stage is Stage.WORKER:
            return self.config.worker.stall_seconds
        return self.config.monitor.stall_seconds if stage is Stage.MONITOR else 0.0

    def _make(self, stage: Stage) -> Runnable:
        if stage is Stage.SAMPLER:
            config = self.config
            sampling = SamplingMetrics(self.registry, apps=config.metrics.apps, reserved=config.objectives.apps)
            return Sampler(self.config, self.metrics, sampling)
        if stage is Stage.WORKER:
            return Worker(
                self.config,
                build_evaluator(self.config, open_verdicts(self.config.judges.cache)),
                self.metrics,
                self._sinks,
            )
        detection = DetectionMetrics(self.registry, self._scores.apps)
        return MonitorStage(self.config, self.monitor, detection)

    def _start_web_server(self, stack: ExitStack) -> WebServer:
        http = self.config.http
        server = WebServer(
            [*metrics_routes(self.registry), *health_routes(self.health)],
            index="streamjury: /metrics /healthz /readyz",
            host=http.host,
            port=http.port,
            token=http.token.get_secret_value() if http.token is not None else None,
            tls=_tls(http),
        )
        try:
            return stack.enter_context(server)
        except OSError as error:
            raise StageError(f"cannot serve on {http.host}:{http.port} ({error.strerror}); set http.port") from error


def score_metrics(config: Config, registry: CollectorRegistry) -> ScoreMetrics:
    """The metrics of scores, told apart and compared with the objective as the configuration says."""
    return ScoreMetrics(
        registry,
        labels=config.metrics.labels,
        top=config.metrics.top,
        apps=config.metrics.apps,
        reserved=config.objectives.apps,
        good_score=lambda app: config.objectives.for_app(app)[0],
    )


def _tls(http: HttpConfig) -> ssl.SSLContext | None:
    if http.certificate is None or http.key is None:
        return None
    try:
        return server_tls(http.certificate, http.key)
    except CertificateError as error:
        raise StageError(f"http.{error.part}: {error}") from error


def _end_with_main_thread(status: int, seconds: float) -> None:
    """Ends the process, if need be, some time after its main thread.

    A stage that hangs is left behind; threads that it started, Faust's among them, would keep the process alive.
    """
    threading.main_thread().join()
    time.sleep(seconds)
    os._exit(status)


def relax_collector() -> None:
    """Has Python's collector of cycles run less often, in all of this process."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)


class Watchdog:
    """Notices that a stage has stopped moving: work waits and none is finished, or its thread does not come round.

    Time does not count while the broker does not answer. For the work, it does not count either while the stage itself
    says what keeps it, and begins anew whenever there is nothing to do.
    """

    def __init__(
        self,
        stage: Runnable,
        seconds: float,
        broker_answers: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """After `seconds` without a finished record it is time to end; 0 never is.

        A thread may take its time, and hand partitions over, whatever `seconds` are.
        """
        self._stage = stage
        self._seconds = seconds
        self._silence = max(seconds, _STALL_SECONDS)
        self._broker_answers = broker_answers
        self._clock = clock
        self._looked_at = clock()
        self._moved_at = stage.pulse.moved_at
        self._done = stage.pulse.done
        self._silent = 0.0
        self._idle = 0.0

    def look(self) -> str | None:
        """What is wrong, or None. It counts time from look to look."""
        now = self._clock()
        passed = min(now - self._looked_at, _LONGEST_LOOK_SECONDS) if self._broker_answers() else 0.0
        self._looked_at = now
        self._look_at_thread(passed)
        self._look_at_work(passed)
        if not self._seconds:
            return None
        if self._silent > self._silence:
            return f"it has not come round for {self._silent:.0f} s"
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
    """One stage in a thread of its own."""

    def __init__(self, stage: Runnable, health: Health, patience: float, watchdog: Watchdog) -> None:
        self.stop = threading.Event()
        self._watchdog = watchdog
        self._patience = patience
        self._asked_at = 0.0
        self._stage = stage
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=stage.stage.value, daemon=True)
        health.add(stage.stage.value, alive=self._alive, ready=self._ready)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def ask_to_stop(self) -> None:
        if not self.stop.is_set():
            self._asked_at = time.monotonic()
            self.stop.set()

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self.ask_to_stop()
        if kind is not KeyboardInterrupt:  # a second Ctrl-C, which came while another stage was waited for
            self._thread.join(max(0.0, self._asked_at + self._patience - time.monotonic()))
        if self._thread.is_alive() and self._error is None:
            self._error = StageError(f"it did not stop within {self._patience:.0f} seconds")

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def check(self) -> None:
        if self._error is not None:
            raise StageError(f"the {self._stage.stage} ended: {_in_words(self._error)}") from self._error

    def watch(self) -> None:
        """Raises when the stage has stopped moving, and has it waited for no longer than makes sense."""
        problem = self._watchdog.look()
        if problem is not None:
            self._patience = min(self._patience, _STALLED_JOIN_SECONDS)
            raise StageError(
                f"the {self._stage.stage} stopped moving: {problem}; it ends so that its supervisor starts it anew"
            )

    def _run(self) -> None:
        try:
            with log_context(stage=self._stage.stage.value):
                self._stage.run(self.stop)
        except BaseException as error:  # handed to the main thread, which ends the process
            self._error = error
            if not isinstance(error, StreamjuryError):
                log.exception("the %s broke", self._stage.stage)

    def _alive(self) -> str | None:
        if self._error is not None or not self._thread.is_alive():
            return f"ended: {_in_words(self._error) if self._error else 'stopped'}"
        silent = time.monotonic() - self._stage.pulse.moved_at
        return f"has not moved for {silent:.0f} s" if silent > _STALL_SECONDS else None

    def _ready(self) -> str | None:
        return self._stage.pulse.problem if self._stage.pulse.assigned else "no partitions assigned"


def _in_words(error: BaseException) -> str:
    """Our own errors are written to be read; others may have no words at all."""
    return str(error) if isinstance(error, StreamjuryError) else f"{type(error).__name__}: {error}"


class BrokerProbe:
    """Asks the broker for its metadata every few seconds, so that readiness knows when it is away."""

    def __init__(self, kafka: KafkaConfig, health: Health) -> None:
        self._kafka = kafka
        self._problem: str | None = "not asked yet"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="broker-probe", daemon=True)
        health.add("broker", ready=lambda: self._problem)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(2 * _PROBE_SECONDS)

    def answers(self) -> bool:
        return self._problem is None

    def _run(self) -> None:
        client = AdminClient(self._kafka.client_options() | {"log_level": 0})
        while True:
            try:
                client.list_topics(timeout=_PROBE_SECONDS)
                self._problem = None
            except KafkaException as error:
                self._problem = f"{self._kafka.bootstrap} does not answer: {error.args[0].str()}"
            if self._stop.wait(_PROBE_SECONDS):
                return
