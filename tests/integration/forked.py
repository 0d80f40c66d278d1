"""A stage that a test kills and restarts again and again, without importing the program each time.

A process imports the program once and has no threads, so that a copy of it is as good as a new one. It starts a copy
for every line on its standard input, and prints the id of the copy.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def start_forks(run: Callable[[], None]) -> None:
    """Run a stage in a copy of this process, for each line on standard input."""
    for _line in sys.stdin:
        process = os.fork()
        if not process:
            run()
        print(process, flush=True)
        os.waitpid(process, 0)


class ForkedStage:
    """A stage in a separate process, which can be killed and restarted."""

    def __init__(self, module: str, config: Path, log: Path) -> None:
        self._log = log.open("ab")
        self._starter = subprocess.Popen(
            [sys.executable, "-m", module, str(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._process = 0

    def start(self) -> None:
        assert self._starter.stdin is not None
        assert self._starter.stdout is not None
        print(file=self._starter.stdin, flush=True)
        self._process = int(self._starter.stdout.readline())

    def kill(self) -> None:
        os.kill(self._process, signal.SIGKILL)
        self._process = 0

    def close(self) -> None:
        if self._process:
            self.kill()
        assert self._starter.stdin is not None
        assert self._starter.stdout is not None
        self._starter.stdin.close()
        self._starter.stdout.close()
        self._starter.wait()
        self._log.close()


@contextmanager
def fork_stage(module: str, config: Path, log: Path) -> Iterator[ForkedStage]:
    """Yield the stage that a module starts with `start_forks`; it is not started yet."""
    stage = ForkedStage(module, config, log)
    try:
        yield stage
    finally:
        stage.close()
