"""One running process of a worker, as the supervisor sees it: asks, stops and awaits it."""

import signal
import threading
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection

from stream.config.model import Config
from stream.service.processes.worker_process import LastWords, Question, run_worker

# An ended process has written all its answers; this is the time to read them.
_READ_SECONDS = 5.0


class ChildProcess:
    """A process from its start to its end. Call `ask` from any thread, the rest from one."""

    def __init__(self, name: str, config: Config) -> None:
        # Spawned, not forked: a fork would hold the pipes of the others, and outlive the supervisor.
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=run_worker, args=(theirs, config), name=name, daemon=True)
        self._numbers = count()
        self._pending: dict[int, Future[object]] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name=f"{name}-answers", daemon=True)
        self.last_words: LastWords | None = None
        self._start(theirs)

    def _start(self, theirs: Connection) -> None:
        # A terminal sends Ctrl-C to all processes, and must not end one that is just starting. The resource tracker of
        # multiprocessing unblocks signals when it starts, so start it first.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        self._reader.start()

    def ask(self, question: Question) -> "Future[object]":
        """Return a future answer; its result is None if the process has ended or could not answer."""
        answer: Future[object] = Future()
        with self._lock:
            number = next(self._numbers)
            self._pending[number] = answer
            try:
                self._connection.send((number, question))
            except OSError:
                self._pending.pop(number, None)
                answer.set_result(None)
        return answer

    def stop(self) -> None:
        """Ask the process to finish the records in flight and to end."""
        self.ask(Question.STOP)

    def kill(self) -> None:
        """End the process at once; uncommitted records will be judged again."""
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
        """Whether the process finished its records in flight and ended on request."""
        return self._process.exitcode == 0

    def close(self) -> None:
        """Read the last messages of an ended process."""
        self._process.join()
        self._reader.join(_READ_SECONDS)
        self._connection.close()

    def reason(self) -> str:
        """Return why the process ended; call `close` first."""
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
                elif (answer := self._pending.pop(message.number, None)) is not None:
                    answer.set_result(message.content)
        with self._lock:
            while self._pending:
                self._pending.popitem()[1].set_result(None)
