"""One running process of a worker, as the supervisor sees it: it is asked, stopped and waited for."""

import signal
import threading
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection

from stream.config.model import Config
from stream.service.processes.worker_process import LastWords, Question, run_worker

# A process that has ended has written all that it had to say: only the reading is waited for.
_READ_SECONDS = 5.0


class ChildProcess:
    """A process from its start to its end. Questions may come from any thread, the rest from one."""

    def __init__(self, name: str, config: Config) -> None:
        # Spawned, not forked: a fork would hold the pipes of the others, and outlive the supervisor.
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=run_worker, args=(theirs, config), name=name, daemon=True)
        self._numbers = count()
        self._asked: dict[int, Future[object]] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name=f"{name}-answers", daemon=True)
        self.last_words: LastWords | None = None
        self._start(theirs)

    def _start(self, theirs: Connection) -> None:
        # A terminal's Ctrl-C goes to all processes, and one that is just beginning must not end by it. The module's own
        # helper, when it is started, lets signals through again: hence it comes first.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        self._reader.start()

    def ask(self, question: Question) -> "Future[object]":
        """Returns what will be the answer; None where the process has ended or could not answer."""
        answer: Future[object] = Future()
        with self._lock:
            number = next(self._numbers)
            self._asked[number] = answer
            try:
                self._connection.send((number, question))
            except OSError:
                self._asked.pop(number, None)
                answer.set_result(None)
        return answer

    def stop(self) -> None:
        """Asks it to finish what is in flight and to end."""
        self.ask(Question.STOP)

    def kill(self) -> None:
        """Ends it at once; what it has not committed is judged again."""
        self._process.kill()
        self._process.join()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.exitcode is not None

    @property
    def ended_well(self) -> bool:
        """Whether it finished what it had in flight and ended because it was asked to."""
        return self._process.exitcode == 0

    def close(self) -> None:
        """Reads the last that a process has said which has ended."""
        self._process.join()
        self._reader.join(_READ_SECONDS)
        self._connection.close()

    def reason(self) -> str:
        """Returns why it ended, once it is closed."""
        if self.last_words is not None:
            return self.last_words.reason
        status = self._process.exitcode or 0
        return f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def _read(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                message = self._connection.recv()
                if isinstance(message, LastWords):
                    self.last_words = message
                elif (answer := self._asked.pop(message.number, None)) is not None:
                    answer.set_result(message.content)
        with self._lock:
            while self._asked:
                self._asked.popitem()[1].set_result(None)
