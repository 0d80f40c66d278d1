"""The stages as processes that can be killed; each keeps its name across restarts."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Self

from tests.parts.patience import patience
from tests.parts.program import start_command

_STOP_SECONDS = 40.0
_TAIL_LINES = 10
_LINE_CHARS = 240
_URL_WORDS = "metrics and health at http"


class Stage:
    """`streamjury sampler`, `worker` or `monitor`, restarted any number of times; it logs to one file."""

    def __init__(self, name: str, *, config: Path, folder: Path, instance: bool = True) -> None:
        self.name = name
        self._kind = "worker" if name.startswith(("worker", "guest")) else name.partition("-")[0]
        self._config = config
        self.log = folder / f"{name}.log"
        self._environ = dict(os.environ)
        if instance and self._kind != "monitor":
            self._environ[f"STREAMJURY__{self._kind.upper()}__INSTANCE"] = name
        self._process: BaseProcess | None = None

    @property
    def exit_status(self) -> int | None:
        """Return the exit status of a process that ended by itself."""
        process = self._process
        return None if process is None else process.exitcode

    def start(self) -> None:
        assert self._process is None, f"{self.name} is running"
        arguments = (self._kind, "--config", str(self._config))
        self._process = start_command(arguments, environ=self._environ, output=self.log)

    def kill(self) -> None:
        """Kill it as a power failure would: nothing is finished or logged."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Stop it as an operator would, and return the exit status."""
        return self._end(signal.SIGTERM)

    def tail(self) -> Sequence[str]:
        return [line[:_LINE_CHARS] for line in self._lines()[-_TAIL_LINES:]]

    @property
    def url(self) -> str | None:
        """Return the address of its current metrics page."""
        return next((line.rpartition(" ")[2] for line in reversed(self._lines()) if _URL_WORDS in line), None)

    def _lines(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines() if self.log.exists() else []

    def _end(self, how: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        if process.is_alive():
            assert process.pid is not None
            os.kill(process.pid, how)
        limit = _STOP_SECONDS * patience()
        process.join(limit)
        status = process.exitcode
        if status is None:
            process.kill()
            process.join()
            raise RuntimeError(f"{self.name} did not stop within {limit:.0f} s")
        return status


class Fleet:
    """All stages; one that ends by itself is counted and restarted, as an orchestrator would."""

    def __init__(self, names: Sequence[str], *, config: Path, folder: Path) -> None:
        self._config, self._folder = config, folder
        self._lock = threading.Lock()
        self.stages = {name: Stage(name, config=config, folder=folder) for name in names}
        self.kills: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()

    def __enter__(self) -> Self:
        for stage in self.stages.values():
            stage.start()
        return self

    def __exit__(self, *_error: object) -> None:
        for stage in self.stages.values():
            stage.kill()

    def __getitem__(self, name: str) -> Stage:
        return self.stages[name]

    def add(self, name: str) -> Stage:
        """Add a process without a fixed name, which takes partitions when it joins and returns them when it leaves."""
        stage = Stage(name, config=self._config, folder=self._folder, instance=False)
        stage.start()
        with self._lock:
            self.stages[name] = stage
        return stage

    def kill(self, name: str) -> None:
        with self._lock:
            self.kills[name.partition("-")[0]] += 1
            self.stages[name].kill()

    def start(self, name: str) -> None:
        with self._lock:
            self.stages[name].start()

    def supervise(self) -> None:
        """Restart processes that ended by themselves."""
        with self._lock:
            for stage in list(self.stages.values()):
                status = stage.exit_status
                if status is not None:
                    last = next((line for line in reversed(stage.tail()) if line.strip()), "without a word")
                    self.ends[f"{stage.name} ended by itself with status {status}: {last.strip()}"] += 1
                    stage.kill()
                    stage.start()

    def tails(self) -> list[str]:
        """Return the ends of all logs."""
        return [f"{stage.name}: {line}" for stage in self.stages.values() for line in stage.tail()]
