"""The worker inside a process of a supervisor, and its answers to the supervisor.

The two are connected by a pipe. The supervisor asks; the process answers from its own thread, so that it answers even
when the worker hangs. A closed pipe means that the supervisor is gone, even by SIGKILL: the process ends at once,
because nothing would stop or restart it any more.
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
    """A question of the supervisor to a process."""

    HEALTH = auto()
    """Answered by a `HealthAnswer`."""
    METRICS = auto()
    """Answered by all metrics of the process."""
    STOP = auto()
    """Finish the records in flight and end; the end is the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthAnswer:
    """The problems of a process, by part."""

    alive: Mapping[str, str] = field(default_factory=dict)
    ready: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildAnswer:
    """The answer to the question with this number."""

    number: int
    content: object


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWords:
    """The reason why a process ends by itself."""

    reason: str
    is_final: bool
    """Whether another process in its place would end for the same reason, or do harm."""


def run_worker(connection: Connection, config: Config) -> None:
    """Run a worker until the supervisor stops it or is gone; the main function of the process."""
    stop = threading.Event()
    # A terminal sends Ctrl-C to the supervisor too, which then asks to stop. A service manager may send SIGTERM to
    # all processes of a service: it means the same as the supervisor's request to stop, even if it comes twice.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    configure_logging(config.logging, secrets=find_secrets(config))
    answers = _Answers(connection, stop)
    answers.start()
    raise SystemExit(_work(config, answers, stop))


def _work(config: Config, answers: "_Answers", stop: threading.Event) -> int:
    """Run the worker and return the exit status."""
    has_started = False
    try:
        with Service(config, [Stage.WORKER], has_web_server=False) as service:
            has_started = True
            answers.service = service
            while not stop.wait(_LOOK_SECONDS):
                service.check()
    except StreamjuryError as error:
        # Before any stage runs, only the configuration and the files it names can be wrong. And a process that took
        # back a name from the process that fenced it would be fenced again, without end.
        is_final = not has_started or isinstance(error.__cause__, FencedError)
        answers.send(LastWords(reason=str(error), is_final=is_final))
        return 1
    except Exception as error:
        log.exception("the process broke")
        answers.send(LastWords(reason=f"{type(error).__name__}: {error}", is_final=False))
        return 1
    return 0


class _Answers:
    """Answers the supervisor from its own thread."""

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
        except Exception:  # a failing collector or check must not stop later answers
            log.exception("a question of the supervisor could not be answered")
            return None

    def _metrics(self) -> object:
        return [] if self.service is None else list(self.service.registry.collect())

    def _health(self) -> HealthAnswer:
        if self.service is None:
            return HealthAnswer(ready=_STARTING)
        health = self.service.health
        return HealthAnswer(alive=health.alive().problems, ready=health.ready().problems)
