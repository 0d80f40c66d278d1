"""A stage that a test kills and restarts again and again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.parts.program import start_process


class ForkedStage:
    """A stage in a separate process, which can be killed and restarted."""

    def __init__(self, run: Callable[[Path], None], config: Path, log: Path) -> None:
        self._run, self._config, self._log = run, config, log
        self._process: BaseProcess | None = None

    def start(self) -> None:
        self._process = start_process(self._run, self._config, output=self._log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()


@contextmanager
def fork_stage(run: Callable[[Path], None], config: Path, log: Path) -> Iterator[ForkedStage]:
    """Yield a stage that is not started yet; `run` gets the path of its configuration."""
    stage = ForkedStage(run, config, log)
    try:
        yield stage
    finally:
        stage.kill()
