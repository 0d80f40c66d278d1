"""The worker inside a process that a supervisor has started, and its answers to the supervisor.

The two are connected by a pipe. The supervisor asks; the process answers from a thread of its own, so that a worker
that hangs still answers. When the pipe is closed the supervisor is gone, even by SIGKILL, and the process ends at once:
nobody would stop it or start it again.
"""

import logging
import os
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from multiprocessing.connection import Connection

from sinks.metrics import Stage
from stream.config.model import Config
from stream.config.secrets import find_secrets
from stream.errors import FencedError, StreamjuryError
from stream.logs import configure_logging
from stream.service.service import Service

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_STARTING = {"start": "not finished yet"}


class Question(Enum):
    """What the supervisor asks of a process."""

    HEALTH = auto()
    """Answered by a `HealthAnswer`."""
    METRICS = auto()
    """Answered by all metrics of the process."""
    STOP = auto()
    """Finish what is in flight and end; answered by the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthAnswer:
    """What is wrong with a process, by part."""

    alive: Mapping[str, str] = field(default_factory=dict)
    ready: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildAnswer:
    """The answer to the question of this number."""

    number: int
    content: object


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWords:
    """Why a process ends by itself."""

    reason: str
    is_final: bool
    """Whether another process in its place would end for the same reason, or do harm."""


def run_worker(connection: Connection, config: Config) -> None:
    """Runs a worker until the supervisor stops it or is gone; the main function of the process."""
    stop = threading.Event()
    # The terminal sends Ctrl-C to the supervisor too, which then asks to stop. A service manager may send SIGTERM to
    # all processes of a service: it means what the supervisor's question means, however often it comes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    configure_logging(config.logging, secrets=find_secrets(config))
    answers = _Answers(connection, stop)
    answers.start()
    raise SystemExit(_work(config, answers, stop))


def _work(config: Config, answers: "_Answers", stop: threading.Event) -> int:
    """Runs the worker, and returns the exit status."""
    has_started = False
    try:
        with Service(config, [Stage.WORKER], has_web_server=False) as service:
            has_started = True
            answers.service = service
            while not stop.wait(_LOOK_SECONDS):
                service.check()
    except StreamjuryError as error:
        # Before any stage runs, only the configuration and what it names can be wrong. And whoever takes back a name
        # that another process has taken starts a quarrel without end.
        is_final = not has_started or isinstance(error.__cause__, FencedError)
        answers.send(LastWords(reason=str(error), is_final=is_final))
        return 1
    except Exception as error:
        log.exception("the process broke")
        answers.send(LastWords(reason=f"{type(error).__name__}: {error}", is_final=False))
        return 1
    return 0


class _Answers:
    """Answers the supervisor from a thread of its own."""

    def __init__(self, connection: Connection, stop: threading.Event) -> None:
        self._connection = connection
        self._stop = stop
        self._lock = threading.Lock()
        self.service: Service | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="answers", daemon=True).start()

    def send(self, message: ChildAnswer | LastWords) -> None:
        with self._lock, suppress(OSError):  # the supervisor is gone, and the thread ends the process
            self._connection.send(message)

    def _run(self) -> None:
        try:
            while True:
                number, question = self._connection.recv()
                if question is Question.STOP:
                    self._stop.set()
                else:
                    self.send(ChildAnswer(number=number, content=self._answer(question)))
        except (EOFError, OSError):
            os._exit(1)

    def _answer(self, question: Question) -> object:
        try:
            return self._metrics() if question is Question.METRICS else self._health()
        except Exception:  # a collector or a check that breaks must not leave the supervisor without later answers
            log.exception("a question of the supervisor could not be answered")
            return None

    def _metrics(self) -> object:
        return [] if self.service is None else list(self.service.registry.collect())

    def _health(self) -> HealthAnswer:
        if self.service is None:
            return HealthAnswer(ready=_STARTING)
        health = self.service.health
        return HealthAnswer(alive=health.alive().problems, ready=health.ready().problems)
